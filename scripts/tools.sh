#!/usr/bin/env bash
# Runs the pinned clang-format or clang-tidy over our sources:  tools.sh format | format-check | lint
set -euo pipefail
cd "$(dirname "$0")/.."

if [ ! -e .venv-tools/ready-19 ]; then
  python3 -m venv .venv-tools
  .venv-tools/bin/python -m pip install -q --disable-pip-version-check clang-format==19.1.7 clang-tidy==19.1.0
  touch .venv-tools/ready-19
fi

# What clang-format does not see: long comments and literals, and an empty comment line above the licence. Columns are
# characters: continuation bytes of UTF-8 do not count.
check_lines() {
  LC_ALL=C awk '
    { columns = $0; gsub(/[\200-\277]/, "", columns) }
    length(columns) > 110 { print FILENAME ":" FNR ": expected at most 110 columns, got " length(columns); wrong = 1 }
    /^\/\/ SPDX-License-Identifier:/ && FNR > 1 && previous == "//" {
      print FILENAME ":" FNR - 1 ": expected no empty comment line above the licence"; wrong = 1 }
    { previous = $0 }
    END { exit wrong }' "$@"
}

mapfile -t sources < <(git ls-files -co --exclude-standard -- {src,apps,python,tests,bench,fuzz}/'*.cpp' \
  {src,apps,python,tests,bench,fuzz}/'*.h')
case ${1:-} in
  format) .venv-tools/bin/clang-format -i "${sources[@]}" ;;
  format-check)
    .venv-tools/bin/clang-format --dry-run -Werror "${sources[@]}"
    check_lines "${sources[@]}" ;;
  lint)
    mapfile -t units < <(printf '%s\n' "${sources[@]}" | grep '\.cpp$' | grep -v '^tests/')
    # Commands file by file, without unity units. g++'s precompiled headers mean nothing to clang: their flags go.
    python=$(sed -n 's/^ROUTEOPD_TORCH_PYTHON:[A-Z]*=//p' build/CMakeCache.txt)
    cmake --preset release -B .cache/lint -DROUTEOPD_UNITY=OFF -DROUTEOPD_TORCH_PYTHON="$python" --log-level=WARNING
    sed -E -i 's/-Winvalid-pch//g; s/-include [^ ]*cmake_pch\.hxx//g; s/-fopenmp//g; s/-fpch-preprocess//g' \
      .cache/lint/compile_commands.json
    printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 4 .venv-tools/bin/clang-tidy -p .cache/lint --quiet ;;
  *) echo "usage: tools.sh format | format-check | lint" >&2; exit 2 ;;
esac
