#!/usr/bin/env bash
# Prints a Python in which the package under python/ is tested: .venv-python, which takes torch from .venv (or from
# TORCH_PYTHON) and has the rest of its own: pytest, mypy, ruff, and the parts of the world that the tests hold the package
# against (transformers' tokenizers, Triton's interpreter).
#   PACKAGE_PYTHON=/path/to/python   that interpreter is taken as it is; nothing is made
# Exits 1 with a sentence where it can be neither found nor made.
set -euo pipefail
cd "$(dirname "$0")/.."

packages="pytest==9.2.0 mypy==2.4.1 ruff==0.17.5 numpy==2.4.6 transformers==5.22.2 tokenizers==0.23.3 jinja2==3.1.6 triton==3.9.0"
if [ -z "${PACKAGE_PYTHON:-}" ]; then
  PACKAGE_PYTHON=$PWD/.venv-python/bin/python
  torch_python=${TORCH_PYTHON:-.venv/bin/python}
  ready=.venv-python/ready-$(echo "$packages" "$torch_python" | cksum | cut -d ' ' -f 1)
  mkdir -p .cache
  exec 9> .cache/python.lock  # two tests may ask at once
  flock 9
  if [ ! -e "$ready" ]; then
    echo "python: making .venv-python" >&2
    rm -rf .venv-python
    python3 -m venv .venv-python
    # shellcheck disable=SC2086  # a list of words
    if ! "$PACKAGE_PYTHON" -m pip install -q --disable-pip-version-check $packages >&2; then
      echo "python: $packages could not be installed; name a Python that has them (PACKAGE_PYTHON)" >&2
      exit 1
    fi
    "$torch_python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
      > "$("$PACKAGE_PYTHON" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/torch-of-the-build.pth"
    touch "$ready"
  fi
fi
echo "$PACKAGE_PYTHON"
