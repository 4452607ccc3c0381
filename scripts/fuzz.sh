#!/usr/bin/env bash
# Fuzzes every reader of untrusted files, one after the other:  fuzz.sh [SECONDS each, 600] [TARGET...]
# A finding is left in build-fuzz/findings; what a run learns goes to build-fuzz/corpus, the seeds in fuzz/corpus stay.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=${1:-600}
shift || true
scripts/install-packages.sh scripts/system-packages.txt
scripts/install-packages.sh scripts/fuzz-packages.txt
cmake -S fuzz -B build-fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ --log-level=NOTICE
ninja -C build-fuzz --quiet -j "${JOBS:-$(nproc)}"
mkdir -p build-fuzz/findings
if [ $# -eq 0 ]; then
  set -- fuzz/fuzz_*.cpp
  set -- "${@#fuzz/fuzz_}"
  set -- "${@%.cpp}"
fi
for target in "$@"; do
  mkdir -p "build-fuzz/corpus/$target"
  echo "fuzz: $target for $seconds s"
  dictionary=()
  if [ -f "fuzz/dictionaries/$target.dict" ]; then dictionary=("-dict=fuzz/dictionaries/$target.dict"); fi
  "build-fuzz/fuzz_$target" -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=20 -print_final_stats=1 "${dictionary[@]}" \
    -artifact_prefix="build-fuzz/findings/$target-" "build-fuzz/corpus/$target" "fuzz/corpus/$target" \
    > "build-fuzz/$target.log" 2>&1 || { tail -n 40 "build-fuzz/$target.log"; exit 1; }
  grep -E 'number_of_executed_units|peak_rss' "build-fuzz/$target.log" | sed "s/^/fuzz: $target: /"
done
echo "fuzz: nothing found"
