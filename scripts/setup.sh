#!/usr/bin/env bash
# Makes this checkout buildable: system packages from scripts/system-packages.txt, then a Python with torch 2.13.0 and, for
# the charts of `routeopd report`, vl-convert-python 1.9.0.
# Prints nothing and changes nothing when all of it is there already.
#
#   TORCH_PYTHON=/path/to/python   use that interpreter's torch; no .venv is made, and charts are drawn if it has
#                                  vl-convert-python
#   TORCH_PIP_ARGS="…"             further arguments of `pip install torch`, such as an index of CPU builds
set -euo pipefail
cd "$(dirname "$0")/.."

torch_version=2.13.0
charts_version=1.9.0
scripts/install-packages.sh scripts/system-packages.txt

torch_of() { "$1" -c 'import torch; print(torch.__version__.split("+")[0])' 2>/dev/null || true; }

if [ -n "${TORCH_PYTHON:-}" ]; then
  found=$(torch_of "$TORCH_PYTHON")
  if [ "$found" != "$torch_version" ]; then
    echo "setup: TORCH_PYTHON=$TORCH_PYTHON has torch '${found:-none}'; RouteOPD is built on $torch_version." >&2
    exit 1
  fi
  exit 0
fi
if [ ! -e .venv/torch-$torch_version ]; then
  echo "setup: making .venv with torch $torch_version"
  python3 -m venv .venv
  # shellcheck disable=SC2086  # TORCH_PIP_ARGS is a list of words
  .venv/bin/python -m pip install -q --disable-pip-version-check ${TORCH_PIP_ARGS:-} "torch==$torch_version"
  touch .venv/torch-$torch_version
fi
if [ ! -e .venv/vl-convert-$charts_version ]; then
  echo "setup: vl-convert-python $charts_version for charts"
  .venv/bin/python -m pip install -q --disable-pip-version-check "vl-convert-python==$charts_version"
  touch .venv/vl-convert-$charts_version
fi
