#!/usr/bin/env bash
# The Python package where people train, in environments of its own: the wheel on other releases of torch, and DeepSpeed.
#   scripts/integrations.sh [PART…]     torch | deepspeed; all of them without any named
#   INTEGRATIONS_TORCH="2.11.0 2.13.0 2.15.0"   releases of torch; all but 2.13.0 fetch CUDA builds, some gigabytes each
set -euo pipefail
cd "$(dirname "$0")/.."
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(torch deepspeed)

torch_part() {
  # shellcheck disable=SC2086  # a list of words
  scripts/wheel.sh test ${INTEGRATIONS_TORCH:-2.11.0 2.13.0 2.15.0}
}

deepspeed_part() {
  local venv=.venv-deepspeed
  if [ ! -e $venv/ready ]; then
    echo "integrations: making $venv with DeepSpeed"
    python3 -m venv $venv
    $venv/bin/python -m pip install -q --disable-pip-version-check torch==2.13.0 setuptools wheel pytest==9.2.0 numpy==2.4.6
    DS_BUILD_OPS=0 DS_ACCELERATOR=cpu $venv/bin/python -m pip install -q --disable-pip-version-check --no-build-isolation \
      deepspeed==0.19.8 torch==2.13.0
    touch $venv/ready
  fi
  $venv/bin/python -m pip install -q --disable-pip-version-check --force-reinstall --no-deps dist/routeopd-*.whl
  (cd python/tests && DS_ACCELERATOR=cpu "../../$venv/bin/python" -m pytest -q -p no:cacheprovider test_zero3.py)
}

for part in "${parts[@]}"; do
  case $part in
    torch | deepspeed) echo "integrations: $part"; "${part}_part" ;;
    *) echo "integrations: unknown part $part; expected torch or deepspeed" >&2; exit 2 ;;
  esac
done
