#!/usr/bin/env python3
"""Pages of report in a headless Chromium: no console error, nothing off the page, every chart drawn.

    report_browser_test.py PROGRAM CHART_PYTHON

The browser is $CHROMIUM, or the first of chromium, chromium-browser and google-chrome on the path; without one, and without
vl-convert-python, the tests are skipped and say so. $REPORT_SCREENSHOTS names a directory for pictures to look at.
"""
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import report_directories as directories

PROGRAM, BUILT_WITH = sys.argv.pop(1), sys.argv.pop(1)
CHART_PYTHON = os.environ.get("ROUTEOPD_CHART_PYTHON") or BUILT_WITH
RENDERS = subprocess.run([CHART_PYTHON, "-c", "import vl_convert"], capture_output=True).returncode == 0
CHROMIUM = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
SCREENSHOTS = os.environ.get("REPORT_SCREENSHOTS")

LAYOUT = """(() => {
  const box = element => element.getBoundingClientRect();
  const outside = [...document.querySelectorAll("body *")].filter(element =>
    !element.closest(".scroll > *") && !element.matches(".skip") && !element.closest("details:not([open]) > :not(summary)") &&
    box(element).right > innerWidth + 1).map(element => element.tagName + "#" + element.id);
  const cut = [...document.querySelectorAll("svg")].flatMap(svg => [...svg.querySelectorAll("text")].filter(text => {
    const words = box(text), around = box(svg);
    return text.textContent.trim() && words.width > 0 && (words.left < around.left - 1 || words.right > around.right + 1 ||
      words.top < around.top - 1 || words.bottom > around.bottom + 1);
  }).map(text => text.textContent));
  return {
    page: document.documentElement.scrollWidth, window: innerWidth, outside, cut,
    charts: [...document.querySelectorAll("svg")].map(svg => [box(svg).width, box(svg).height]),
    ground: getComputedStyle(document.body).backgroundColor,
    fills: [...new Set([...document.querySelectorAll("svg text")].map(text => getComputedStyle(text).fill))],
  };
})()"""


WIDE_TABLES = """[...document.querySelectorAll("table")].filter(table => !table.closest("details:not([open])") &&
  table.getBoundingClientRect().right > innerWidth + 1).map(table => table.parentElement.getAttribute("aria-label"))"""
PAPER = 1047  # CSS pixels of A4 across, without margins of a centimetre


class Browser:
    """The DevTools protocol over the two pipes of --remote-debugging-pipe: JSON messages, each followed by a zero byte."""

    def __init__(self, profile):
        from_browser, to_us = os.pipe()
        from_us, to_browser = os.pipe()
        # The browser reads descriptor 3 and writes 4; a shell gives them these numbers.
        command = f'exec "$0" "$@" 3<&{from_us} 4>&{to_us}'
        self.process = subprocess.Popen(
            ["bash", "-c", command, CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--no-first-run", "--hide-scrollbars", f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(from_us, to_us), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(from_us)
        os.close(to_us)
        self.write, self.read = os.fdopen(to_browser, "wb", 0), os.fdopen(from_browser, "rb", 0)
        self.held, self.number, self.events, self.session = b"", 0, [], None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def message(self):
        while b"\0" not in self.held:
            piece = self.read.read(1 << 20)
            if not piece:
                raise RuntimeError("the browser is gone")
            self.held += piece
        line, self.held = self.held.split(b"\0", 1)
        return json.loads(line)

    def ask(self, method, **parameters):
        self.number += 1
        asked = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            asked["sessionId"] = self.session
        self.write.write(json.dumps(asked).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def wait_for(self, method):
        while not any(event.get("method") == method for event in self.events):
            self.events.append(self.message())

    def show(self, page, width, dark):
        """Loads a page; what it looks like, and what the browser complained about."""
        self.events.clear()
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.ask("Page.navigate", url=page.as_uri())
        self.wait_for("Page.loadEventFired")
        layout = self.ask("Runtime.evaluate", expression=LAYOUT, returnByValue=True)
        assert "exceptionDetails" not in layout, layout
        complaints = [event for event in self.events if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled")]
        asked = [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return layout["result"]["value"], complaints, asked

    def wide_on_paper(self, page):
        """Tables that leave the paper's width."""
        self.ask("Emulation.setDeviceMetricsOverride", width=PAPER, height=700, deviceScaleFactor=1, mobile=False)
        self.ask("Emulation.setEmulatedMedia", media="print")
        self.events.clear()
        self.ask("Page.navigate", url=page.as_uri())
        self.wait_for("Page.loadEventFired")
        found = self.ask("Runtime.evaluate", expression=WIDE_TABLES, returnByValue=True)
        assert "exceptionDetails" not in found, found
        self.ask("Emulation.setEmulatedMedia", media="")
        return found["result"]["value"]

    def picture(self, path):
        size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12000), "scale": 1}
        answer = self.ask("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def close(self):
        self.write.close()
        self.read.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@unittest.skipUnless(CHROMIUM, "no chromium, chromium-browser or google-chrome, and CHROMIUM names none")
@unittest.skipUnless(RENDERS, f"{CHART_PYTHON} has no vl-convert-python")
class InABrowser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        cls.addClassCleanup(temporary.cleanup)
        cls.path = pathlib.Path(temporary.name)
        directories.write_study(cls.path / "study")
        directories.write_run(cls.path / "run")
        directories.write_run(cls.path / ("a-run-with-a-very-long-name-" + "x" * 60), "sampled_rkl", evals=(20,))
        directories.write_eval(cls.path / "eval", 60, suites=("easy", "hard"))
        directories.write_probe(cls.path / "probe", ["routeopd", "sampled_rkl"], ("fresh_adamw", "sgd"))
        cls.browser = Browser(cls.path / "profile")
        cls.addClassCleanup(cls.browser.close)

    def look_at(self, name, *inputs, charts):
        page = self.path / f"{name}.html"
        answer = subprocess.run([PROGRAM, "report", *inputs, "--out", page.name], text=True, capture_output=True, timeout=300, cwd=self.path,
                                env={**os.environ, "ROUTEOPD_CHART_PYTHON": CHART_PYTHON})
        self.assertEqual(answer.returncode, 0, answer.stderr)
        grounds = set()
        for width in (360, 1280):
            for dark in (False, True):
                with self.subTest(page=name, width=width, dark=dark):
                    layout, complaints, asked = self.browser.show(page, width, dark)
                    if SCREENSHOTS:
                        self.browser.picture(pathlib.Path(SCREENSHOTS) / f"{name}-{width}-{'dark' if dark else 'light'}.png")
                    self.assertEqual(complaints, [])
                    self.assertEqual(asked, [page.as_uri()])
                    self.assertLessEqual(layout["page"], layout["window"])
                    self.assertEqual(layout["outside"], [])
                    self.assertEqual(layout["cut"], [])
                    self.assertEqual(len(layout["charts"]), charts)
                    for box in layout["charts"]:
                        self.assertGreater(min(box), 100)
                    grounds.add((dark, layout["ground"], "rgb(232, 232, 232)" in layout["fills"], "rgb(26, 26, 26)" in layout["fills"]))
        self.assertEqual(grounds, {(False, "rgb(255, 255, 255)", False, True), (True, "rgb(22, 22, 22)", True, False)})
        with self.subTest(page=name, paper=True):
            self.assertEqual(self.browser.wide_on_paper(page), [])

    def test_a_study(self):
        self.look_at("study", "study", charts=8)

    def test_directories(self):
        runs = sorted(path.name for path in self.path.iterdir() if path.name.startswith("a-run"))
        self.look_at("directories", "run", *runs, "eval", "probe", charts=10)


if __name__ == "__main__":
    unittest.main()
