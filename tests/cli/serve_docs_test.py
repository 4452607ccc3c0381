#!/usr/bin/env python3
"""Every command and program on docs/serve.md, run in the order of the page, in one shell; only the ports are other ones.

    serve_docs_test.py PROGRAM SOURCE_DIRECTORY
"""
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOURCE = pathlib.Path(sys.argv.pop(1)), pathlib.Path(sys.argv.pop(1))


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Page(unittest.TestCase):
    def test_every_block_runs(self):
        page = (SOURCE / "docs/serve.md").read_text()
        for port in ("8000", "8001", "8002"):
            page = page.replace(port, str(free_port()))
        clients = subprocess.run([SOURCE / "scripts/clients.sh"], text=True, capture_output=True)
        blocks = re.findall(r"^```(\w+)\n(.*?)^```$", page, re.M | re.S)
        self.assertGreaterEqual(len(blocks), 5)
        script, skipped = ["set -eu", 'trap \'kill $(jobs -p) 2> /dev/null || true; wait\' EXIT'], []
        for number, (language, block) in enumerate(blocks):
            script.append(f"printf '\\n=== {number}\\n'")
            if language == "sh":
                script.append(block)
            elif "import openai" in block and clients.returncode != 0:
                skipped.append(number)
            else:
                self.assertEqual(language, "python")
                python = clients.stdout.strip() if "import openai" in block else sys.executable
                script.append(f"{python} - <<'END_OF_BLOCK'\n{block}\nEND_OF_BLOCK")
        with tempfile.TemporaryDirectory() as directory:
            (pathlib.Path(directory) / "routeopd").symlink_to(PROGRAM.resolve())
            done = subprocess.run(["bash", "-c", "\n".join(script)], cwd=SOURCE, text=True, capture_output=True, timeout=300,
                                  env={**os.environ, "PATH": f"{directory}:{os.environ['PATH']}"})
        self.assertEqual(done.returncode, 0, done.stdout[-3000:] + done.stderr[-3000:])
        outputs = re.split(r"^=== \d+\n", done.stdout, flags=re.M)[1:]
        self.assertEqual(len(outputs), len(blocks))
        for number, output in enumerate(outputs):
            self.assertTrue(output.strip() or number in skipped, f"block {number} said nothing")
        self.assertIn("serving teacher at http://127.0.0.1:", outputs[0])
        first, second = outputs[1].splitlines()[0].split("}{")[0], outputs[1]
        self.assertIn('"text"', first)
        self.assertIn("data: [DONE]", second)
        self.assertIn("routeopd_kv_blocks_used 0", second)
        self.assertNotIn('"error"', done.stdout)
        self.assertIn('"id":"teacher"', outputs[-1])
        self.assertIn('"role":"assistant"', next(output for output in outputs if "chat.completion" in output))
        if skipped:
            self.skipTest(f"all but the openai package's block: {clients.stderr.strip()}")


if __name__ == "__main__":
    unittest.main()
