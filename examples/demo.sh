#!/usr/bin/env bash
# The main job, small: five arms of on-policy distillation from the same base student, each at the learning rate that
# lab/rates.json has for it (docs/study.md), judged on held-out problems.
#   examples/demo.sh PROGRAM
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1

# Threads that wait for each other give way after some 50 microseconds: on a busy machine spinning ones would make each
# other wait for whole time slices.
export GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-20000}

number=1
while [ -e "runs/demo-$number" ]; do number=$((number + 1)); done
out=runs/demo-$number

echo "A small student with wrong habits, a larger teacher with few: a problem, and what each answers (temperature 0.7)"
echo
for who in base teacher; do
  echo "$who:"
  head -n 1 lab/heldout.jsonl |
    "$program" generate --model lab/$who --show --quiet --template $'Problem: {problem}\nSolution:' \
      --temperature 0.7 --top-p 0.95 --max-new 128 | sed 's/^/  /'
done

"$program" study main --lab lab --out "$out" --arms sampled_rkl,full_rkl,fixed_mid,routeopd,union_rkl --seeds 1 --every 0 \
  --rates lab/rates.json --shared-rate false

cat <<TEXT

Next:
  $program generate --model $out/runs/routeopd-seed42/checkpoints/step_30 --in lab/heldout.jsonl --show --template $'Problem: {problem}\\nSolution:' --max-new 128
  $program train recipes/lab.toml --out runs/mine --set objective.pairs=exact
  $program study --quick --out runs/quick
TEXT
