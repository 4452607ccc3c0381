#!/usr/bin/env bash
# The plug-in of verl in an environment of its own, on the laboratory pair: `make integrations` calls it after the wheel is made.
#   scripts/integrations_verl.sh [PYTEST ARGUMENT…]
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$PWD/.venv-verl
tests=python/tests/integrations

if [ ! -e "$venv/ready" ]; then
  echo "integrations: making .venv-verl with verl"
  python3 -m venv "$venv"
  pip=("$venv/bin/python" -m pip install -q --disable-pip-version-check)
  "${pip[@]}" torch==2.13.0
  "${pip[@]}" --no-deps verl==0.9.1  # what it declares brings flash-attn and engines for GPUs
  "${pip[@]}" torch==2.13.0 -r $tests/requirements_verl.txt
  touch "$venv/ready"
fi
"$venv/bin/python" -m pip install -q --disable-pip-version-check --force-reinstall --no-deps dist/routeopd-*.whl

cd $tests
export PYTHONPATH=$PWD OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore
"$venv/bin/python" -m pytest -q -p no:cacheprovider test_verl.py test_verl_settings.py test_verl_ray.py \
  test_same_numbers.py "$@"
