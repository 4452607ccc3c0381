#!/usr/bin/env bash
# Runs tests of the Python package on operators that are built but not installed:
#   scripts/python_tests.sh OPERATORS PROGRAM FILE…       pytest on these files
#   scripts/python_tests.sh OPERATORS PROGRAM --style     mypy --strict and ruff
set -euo pipefail
export ROUTEOPD_OPERATORS=$1 ROUTEOPD_PROGRAM=$2
shift 2
python=$("$(dirname "$0")/python_env.sh")
cd "$(dirname "$0")/../python"
export PYTHONPATH=$PWD PYTHONDONTWRITEBYTECODE=1
if [ "${1:-}" = --style ]; then
  cache=$(mktemp -d)
  trap 'rm -rf "$cache"' EXIT
  "$python" -m mypy --cache-dir "$cache"
  "$python" -m ruff check --no-cache .
  echo "2 checks"
else
  # Operators that are built with sanitizers need their runtime in a Python that is not.
  if readelf -d "$ROUTEOPD_OPERATORS" | grep -q libasan; then
    LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libstdc++.so)"
    export LD_PRELOAD ASAN_OPTIONS=detect_leaks=0
    case $1 in *test_package.py) exec echo "python: the library's own symbols are not looked at under sanitizers" ;; esac
  fi
  "$python" -m pytest -q -p no:cacheprovider "$@" || [ $? -eq 5 ]  # 5: every test of the file was skipped, and said so
fi
