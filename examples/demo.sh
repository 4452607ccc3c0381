#!/usr/bin/env bash
# Routes the bundled example states and shows what would be moved where:  demo.sh PROGRAM
set -euo pipefail
program=$1
states=$(dirname "$0")/states.jsonl

echo "RouteOPD: where student (p_S) and teacher (p_T) disagree, which token's probability goes to which other token."
echo "M: mass on the wrong tokens; c: how concentrated the teacher's demand is; B: budget, in log-odds."
echo
"$program" route --in "$states" --table
cat <<EOF

Next:
  $program route --in examples/states.jsonl --out routes.jsonl --m 4   # every number, losses and gradients, as JSONL
  $program route --help                                                # arms, budgets, supports
  $program bench --quick                                               # our speed, as ratios
EOF
