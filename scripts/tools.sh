#!/usr/bin/env bash
# Runs the pinned clang-format or clang-tidy over our sources:  tools.sh format | format-check | lint
set -euo pipefail
cd "$(dirname "$0")/.."

if [ ! -e .venv-tools/ready-19 ]; then
  python3 -m venv .venv-tools
  .venv-tools/bin/python -m pip install -q --disable-pip-version-check clang-format==19.1.7 clang-tidy==19.1.0
  touch .venv-tools/ready-19
fi

mapfile -t sources < <(git ls-files -co --exclude-standard 'src/*.cpp' 'src/*.h' 'apps/*.cpp' 'apps/*.h' 'tests/*.cpp' 'tests/*.h' 'bench/*.cpp')
case ${1:-} in
  format) .venv-tools/bin/clang-format -i "${sources[@]}" ;;
  format-check) .venv-tools/bin/clang-format --dry-run -Werror "${sources[@]}" ;;
  lint)
    mapfile -t units < <(printf '%s\n' "${sources[@]}" | grep '\.cpp$' | grep -v '^tests/')
    # g++'s precompiled headers mean nothing to clang, so its flags are taken out of the compile commands.
    mkdir -p .cache/lint
    sed -E 's/-Winvalid-pch//g; s/-include [^ ]*cmake_pch\.hxx//g; s/-fopenmp//g; s/-fpch-preprocess//g' build/compile_commands.json > .cache/lint/compile_commands.json
    printf '%s\n' "${units[@]}" | xargs -P "$(nproc)" -n 4 .venv-tools/bin/clang-tidy -p .cache/lint --quiet ;;
  *) echo "usage: tools.sh format | format-check | lint" >&2; exit 2 ;;
esac
