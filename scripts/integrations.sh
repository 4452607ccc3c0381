#!/usr/bin/env bash
# The Python package where people train, in environments of its own: the wheel on other releases of torch, TRL's trainer in
# one process and on two ranks, DeepSpeed with both, and verl under Ray.
#   scripts/integrations.sh [PART…]     torch | trl | deepspeed | verl; all of them without any named
#   INTEGRATIONS_TORCH="2.11.0 2.13.0 2.15.0"   releases of torch; all but 2.13.0 fetch CUDA builds, some gigabytes each
# It ends with a line for each part: its tests, and how long they took.
set -euo pipefail
cd "$(dirname "$0")/.."
# One rollout goes through the program, TRL and verl; each part leaves its answers here for the next to compare with.
export ROUTEOPD_SAME_NUMBERS=$PWD/build/same_numbers
rm -rf "$ROUTEOPD_SAME_NUMBERS"
parts=("$@")
[ ${#parts[@]} -gt 0 ] || parts=(torch trl deepspeed verl)

torch_part() {
  # shellcheck disable=SC2086  # a list of words
  scripts/wheel.sh test ${INTEGRATIONS_TORCH:-2.11.0 2.13.0 2.15.0}
}

# An environment with TRL and what the parts that use it share.
trl_environment() {
  local venv=$1
  python3 -m venv "$venv"
  "$venv/bin/python" -m pip install -q --disable-pip-version-check torch==2.13.0 setuptools wheel ninja
  "$venv/bin/python" -m pip install -q --disable-pip-version-check trl==1.16.0 transformers==5.22.2 accelerate==1.15.0 \
    datasets==5.2.0 peft==0.21.2 pytest==9.2.0 numpy==2.4.6 torch==2.13.0
}

trl_part() {
  local venv=.venv-trl
  if [ ! -e $venv/ready ]; then
    echo "integrations: making $venv with TRL"
    trl_environment $venv
    touch $venv/ready
  fi
  $venv/bin/python -m pip install -q --disable-pip-version-check --force-reinstall --no-deps dist/routeopd-*.whl
  (cd python/tests && HF_HUB_OFFLINE=1 "../../$venv/bin/python" -m pytest -q -p no:cacheprovider integrations/test_trl*.py \
    integrations/test_same_numbers.py)
}

deepspeed_part() {
  local venv=.venv-deepspeed
  if [ ! -e $venv/ready ]; then
    echo "integrations: making $venv with DeepSpeed"
    trl_environment $venv
    DS_BUILD_OPS=0 DS_ACCELERATOR=cpu $venv/bin/python -m pip install -q --disable-pip-version-check --no-build-isolation \
      deepspeed==0.19.8 torch==2.13.0
    touch $venv/ready
  fi
  $venv/bin/python -m pip install -q --disable-pip-version-check --force-reinstall --no-deps dist/routeopd-*.whl
  # DeepSpeed compiles its communication at the first use. In a folder of its own: a lock that a run left which was
  # stopped there would make every later one wait without end.
  local extensions=$PWD/$venv/torch_extensions
  find "$extensions" -name lock -delete 2> /dev/null || true
  (cd python/tests && TORCH_EXTENSIONS_DIR=$extensions DS_ACCELERATOR=cpu "../../$venv/bin/python" -m pytest -q -p no:cacheprovider test_zero3.py \
    integrations/test_trl_zero3.py)
}

verl_part() { scripts/integrations_verl.sh; }

for part in "${parts[@]}"; do
  case $part in
    torch | trl | deepspeed | verl) ;;
    *) echo "integrations: unknown part $part; expected torch, trl, deepspeed or verl" >&2; exit 2 ;;
  esac
done

log=$(mktemp)
trap 'rm -f "$log"' EXIT
summary=()
failed=0
for part in "${parts[@]}"; do
  echo "integrations: $part"
  start=$SECONDS
  # A subshell of its own, so that set -e ends the part at its first failure and the other parts still run.
  set +e
  (set -e; "${part}_part") 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  set -e
  tests=$(grep -E '^[0-9]+ (passed|failed|skipped)' "$log" | paste -sd ';' | sed 's/;/; /g')
  [ "$status" -eq 0 ] || failed=1
  summary+=("$(printf '%-10s %-7s %5d s  %s' "$part" "$([ "$status" -eq 0 ] && echo passed || echo FAILED)" \
    $((SECONDS - start)) "${tests:-no tests ran}")")
done
printf 'integrations:\n'
printf '  %s\n' "${summary[@]}"
exit "$failed"
