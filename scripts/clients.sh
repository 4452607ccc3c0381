#!/usr/bin/env bash
# Prints a Python that has the clients which the tests hold against `routeopd serve`: the openai package, in .venv-clients.
#   CLIENTS_PYTHON=/path/to/python   that interpreter is taken as it is; nothing is made
# Exits 1 with a sentence where it can be neither found nor made: the tests that need it are then skipped, and say so.
set -euo pipefail
cd "$(dirname "$0")/.."

version=3.51.0
if [ -z "${CLIENTS_PYTHON:-}" ]; then
  CLIENTS_PYTHON=$PWD/.venv-clients/bin/python
  mkdir -p .cache
  exec 9> .cache/clients.lock  # two tests may ask at once
  flock 9
  if [ ! -e .venv-clients/openai-$version ]; then
    echo "clients: making .venv-clients with openai $version" >&2
    if ! { python3 -m venv .venv-clients &&
      "$CLIENTS_PYTHON" -m pip install -q --disable-pip-version-check "openai==$version" >&2; }; then
      echo "clients: openai $version could not be installed; name a Python that has it (CLIENTS_PYTHON)" >&2
      exit 1
    fi
    touch .venv-clients/openai-$version
  fi
fi
if ! "$CLIENTS_PYTHON" -c 'import openai' 2> /dev/null; then
  echo "clients: $CLIENTS_PYTHON has no openai package" >&2
  exit 1
fi
echo "$CLIENTS_PYTHON"
