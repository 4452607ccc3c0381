#!/usr/bin/env python3
"""Holds the sources to the layers that src/routeopd/CMakeLists.txt declares.

    layers_test.py ROOT CORE_TESTS

1. A file includes headers only of its own folder and of folders that its library is declared to use, directly or not.
2. Folders that are not marked TORCH include no header of torch, and a program linked from them (CORE_TESTS, which
   links all of them) does not load libtorch.
"""
import pathlib
import re
import subprocess
import sys

root, core_tests = pathlib.Path(sys.argv[1]), sys.argv[2]
TORCH_FREE = {"base", "formats", "types", "tokenizer", "jinja", "text", "net", "grade", "judge", "decontamination",
              "routing", "kernels", "table", "report", "scale"}
declared = {}
for name, rest in re.findall(r"^routeopd_library\((\w+)([^)]*)\)", (root / "src/routeopd/CMakeLists.txt").read_text(), re.M):
    uses = re.search(r"\bUSES ([\w ]+?)(?: LINK|$)", rest)
    declared[name] = (set(uses.group(1).split()) if uses else set(), " TORCH" in rest)

wrong = []
if not TORCH_FREE <= declared.keys():
    wrong.append(f"no library is declared for {sorted(TORCH_FREE - declared.keys())}")
wrong += [f"{name} must not be marked TORCH" for name in TORCH_FREE & declared.keys() if declared[name][1]]
if list(declared)[-1] != "study":
    wrong.append("study must be the last layer: nothing in src/ may use it")


def reachable(name):
    seen = set()
    waiting = [name]
    while waiting:
        at = waiting.pop()
        if at not in seen:
            seen.add(at)
            waiting += declared[at][0]
    return seen


for name, (uses, torch) in declared.items():
    earlier = list(declared)[: list(declared).index(name)]
    wrong += [f"{name} uses {other}, which stands below it" for other in uses if other not in earlier]

files = sorted(path for path in (root / "src/routeopd").rglob("*") if path.suffix in (".h", ".cpp"))
assert len(files) > 20, "the sources were not found"
for path in files:
    folder = path.relative_to(root / "src/routeopd").parts[0]
    if folder not in declared:
        wrong.append(f"{folder}: no library is declared for this folder")
        continue
    for header in re.findall(r'^#include [<"]([^>"]+)[>"]', path.read_text(), re.M):
        parts = header.split("/")
        if parts[0] == "routeopd" and parts[1] not in reachable(folder):
            wrong.append(f"{path}: {folder} is not declared to use {parts[1]} ({header})")
        if parts[0] in ("torch", "ATen", "c10") and not declared[folder][1]:
            wrong.append(f"{path}: {folder} knows nothing of torch, yet includes {header}")

needed = subprocess.run(["readelf", "-d", core_tests], text=True, capture_output=True, check=True).stdout
libraries = re.findall(r"\(NEEDED\).*\[(.*)\]", needed)
assert any("libc.so" in library for library in libraries), "readelf did not list the libraries"
wrong += [f"{core_tests} needs {library}" for library in libraries if re.search("torch|c10|gomp", library)]

print("\n".join(wrong))
print(f"{len(files)} files, {len(declared)} layers, {len(wrong)} violations")
sys.exit(1 if wrong else 0)
