#!/usr/bin/env bash
# Fuzzes every reader of untrusted bytes, two at a time, each for 15 minutes of the processor or 5 million executions; --help has the rest.
# A finding is left in build-fuzz/findings; what a run learns goes to build-fuzz/corpus, from where --merge takes the seeds
# in fuzz/corpus.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup.sh
scripts/install-packages.sh scripts/fuzz-packages.txt
cmake -S fuzz -B build-fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DROUTEOPD_TORCH_PYTHON="${TORCH_PYTHON:-$PWD/.venv/bin/python}" --log-level=NOTICE
ninja -C build-fuzz --quiet -j "${JOBS:-$(nproc)}"
TMPDIR=$(mktemp -d "$(test -w /dev/shm && echo /dev/shm || echo /tmp)/routeopd-fuzz-XXXXXX")
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
scripts/fuzz_run.py "$@"
