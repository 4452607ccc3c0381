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
  "$python" -m pytest -q -p no:cacheprovider "$@"
fi
