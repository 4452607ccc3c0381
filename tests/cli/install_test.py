#!/usr/bin/env python3
"""What `make install` leaves: a program that runs when the clone, its build and its Python are gone.

    install_test.py BUILD SOURCE_DIRECTORY TORCH_PYTHON

Where this user may mount, the clone, the build and the Python's torch are hidden behind empty folders while the program
runs; everywhere, nothing that it loads may lie outside of PREFIX and the system's own folders.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, SOURCE, PYTHON = (pathlib.Path(sys.argv.pop(1)).absolute() for _ in range(3))
SYSTEM = ("/lib/", "/lib64/", "/usr/lib/", "/usr/lib64/", "/usr/local/lib/")
STATE = '{"student_logits": [2, 1, 0], "teacher_logits": [0, 1, 2]}\n'
# The laboratory's recipe with one step of two answers: what is asked is whether it runs.
ONE_STEP = ["train.steps=1", "rollout.prompts_per_step=2", "rollout.n=1", "rollout.max_new_tokens=8", "checkpoint.every=0"]


def install(cwd, **settings):
    environment = {name: value for name, value in os.environ.items() if name not in ("PREFIX", "DESTDIR")}
    return subprocess.run([SOURCE / "scripts/install.sh", BUILD], cwd=cwd, env=environment | settings, text=True,
                          capture_output=True, timeout=300)


def torch_of(python):
    asked = subprocess.run([python, "-c", "import torch; print(torch.__path__[0])"], text=True, capture_output=True)
    return pathlib.Path(asked.stdout.strip())


def stays():
    """Where LibTorch with CUDA stays, or nothing: then it is installed."""
    found = re.search(r"^ROUTEOPD_TORCH_STAYS:\w+=(.*)$", (BUILD / "CMakeCache.txt").read_text(), re.M)
    return found[1] if found else ""


def hiding(folders):
    """A command that runs another where these folders are empty, or None where this user may not mount."""
    mounts = "; ".join(f"mount -t tmpfs none '{folder}'" for folder in folders)
    command = ["unshare", "-m", "sh", "-ec", f'{mounts}; exec "$@"', "sh"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], capture_output=True).returncode != 0:
        return None
    return command


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if stays():
            raise unittest.SkipTest("LibTorch has CUDA: the program loads it from where it was built on")
        directory = tempfile.TemporaryDirectory(prefix="routeopd-install-")
        cls.addClassCleanup(directory.cleanup)
        cls.path = pathlib.Path(directory.name)
        cls.prefix = cls.path / "a place" / "of my own"
        cls.said = install(cls.path, PREFIX="a place/of my own")  # relative, with spaces
        shutil.copytree(SOURCE / "lab", cls.path / "lab", ignore=shutil.ignore_patterns("lists"))
        shutil.copytree(SOURCE / "recipes", cls.path / "recipes")
        cls.hidden = hiding([torch_of(PYTHON), BUILD, SOURCE])  # each may lie in the next

    def run_program(self, *arguments, stdin="", **environment):
        environment = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "OMP_NUM_THREADS": "1", **environment}
        return subprocess.run([*(self.hidden or []), self.prefix / "bin/routeopd", *map(str, arguments)], input=stdin,
                              text=True, capture_output=True, cwd=self.path, env=environment, timeout=300)

    def succeeds(self, *arguments, **more):
        answer = self.run_program(*arguments, **more)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def test_what_was_installed_is_said_in_a_line(self):
        self.assertEqual(self.said.returncode, 0, self.said.stderr)
        self.assertRegex(self.said.stdout, r"^installed .*/a place/of my own/bin/routeopd, with LibTorch in "
                                           r".*/lib/routeopd \(\d+ MB\)\n$")

    def test_nothing_that_it_loads_lies_elsewhere(self):
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        for file in ("bin/routeopd", "lib/librouteopd.so"):
            listed = subprocess.run(["ldd", self.prefix / file], text=True, capture_output=True, env=environment).stdout
            self.assertNotIn("not found", listed)
            found = re.findall(r"=> (/.*) \(0x", listed)
            ours = [os.path.realpath(place) for place in found if place.startswith(str(self.prefix))]
            self.assertEqual({os.path.dirname(place) for place in ours}, {str(self.prefix / "lib/routeopd")}, listed)
            for name in ("libtorch_cpu.so", "libc10.so", "libgomp"):
                self.assertTrue(any(name in place for place in ours), f"{name}\n{listed}")
            for place in found:
                self.assertTrue(place.startswith((str(self.prefix), *SYSTEM)), place)

    def test_it_runs_when_all_else_is_gone(self):
        if self.hidden:
            gone = subprocess.run([*self.hidden, "ls", "-A", SOURCE, BUILD, torch_of(PYTHON)], text=True, capture_output=True)
            self.assertNotRegex(gone.stdout, r"routeopd$|\.so")  # the test itself hides what it says
        self.assertRegex(self.succeeds("--version"), r"^routeopd \d+\.\d+\.\d+")
        self.assertIn('"ids"', self.succeeds("tokenize", "lab/base", stdin='{"text": "Hello"}\n'))
        self.assertIn('"pairs"', self.succeeds("route", stdin=STATE))
        settings = [word for setting in ONE_STEP for word in ("--set", setting)]
        self.succeeds("train", "recipes/lab.toml", "--out", "run", *settings)
        self.assertEqual(len((self.path / "run/metrics.jsonl").read_text().splitlines()), 1)
        if not self.hidden:
            self.skipTest("this user may not mount: what it loads was looked at, and nothing was hidden")

    def test_charts_say_what_they_need(self):
        answer = self.run_program("plan", "recipes/lab.toml", "--gpu", "H100", "--figure", "growth.svg",
                                  ROUTEOPD_CHART_PYTHON="/gone/python")
        self.assertEqual(answer.returncode, 1, answer.stdout)
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        self.assertIn("/gone/python cannot be started: No such file or directory: set ROUTEOPD_CHART_PYTHON to one that has it "
                      "(pip install vl-convert-python)", answer.stderr)

    def test_a_package_is_made_elsewhere(self):
        answer = install(self.path, PREFIX="/usr", DESTDIR="staged root")
        self.addCleanup(shutil.rmtree, self.path / "staged root", True)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        tree = self.path / "staged root/usr"
        self.assertEqual({str(file.relative_to(tree)) for file in tree.rglob("*") if not file.is_dir() and ".so" not in file.name},
                         {"bin/routeopd", "bin/routeopd-ranks.py"})
        self.assertEqual({file.name.split(".so")[0] for file in (tree / "lib/routeopd").iterdir()},
                         {"libtorch", "libtorch_cpu", "libc10", "libgomp"})

    def test_a_place_that_cannot_be_written_is_a_sentence(self):
        (self.path / "file").write_text("")
        for prefix in (self.path / "file/under", pathlib.Path("/proc/routeopd")):
            answer = install(self.path, PREFIX=str(prefix))
            self.assertEqual(answer.returncode, 1)
            self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
            self.assertIn(f"install: {prefix}/bin cannot be written: ", answer.stderr)
            self.assertIn("name a folder of your own", answer.stderr)


if __name__ == "__main__":
    unittest.main()
