#!/usr/bin/env python3
"""What an installed distribution requires on this platform, one requirement a line, without those that begin with PREFIX.

    python requirements.py DISTRIBUTION PREFIX

For a package that was installed without its requirements because one of them cannot be had under the name it gives.
"""
import sys
from importlib.metadata import requires

from pip._vendor.packaging.requirements import Requirement

if len(sys.argv) != 3:
    sys.exit("usage: requirements.py DISTRIBUTION PREFIX")
for line in requires(sys.argv[1]) or sys.exit(f"{sys.argv[1]} names no requirements."):
    requirement = Requirement(line)
    if not requirement.name.startswith(sys.argv[2]) and (not requirement.marker or requirement.marker.evaluate({"extra": ""})):
        requirement.marker = None
        print(requirement)
