"""Commands that the documentation shows and docs_test.py does not run, because they take minutes, other programs or the
network; and outputs that it does not compare, because what they are of is not in the project. Beside each stands what does
it in its place: an entry of ctest, a GoogleTest suite, or a file that is run by hand.
"""
import re

# (page or "COMMAND --help", how the command begins, who runs it)
COMMANDS = [
    ("README.md", "make demo", "scripts/stranger.sh"),
    ("README.md", "make wheel", "scripts/stranger.sh"),
    ("README.md", "build/routeopd serve DIR", "serve_docs_cli"),
    ("CONTRIBUTING.md", "make test", "scripts/stranger.sh"),
    ("CONTRIBUTING.md", "make asan", "Makefile"),
    ("CONTRIBUTING.md", "make mutate", "mutate"),
    ("CONTRIBUTING.md", "make peers", "peers_driver"),
    ("CONTRIBUTING.md", "make format lint", ".ci/run"),
    ("CONTRIBUTING.md", "make bench", "Makefile"),
    ("docs/engines.md", "routeopd serve models/", "remote_cli"),
    ("docs/engines.md", "VLLM_SERVER_DEV_MODE=1", "tests/peers/remote_vllm.py"),
    ("docs/engines.md", "python -m vllm", "tests/peers/remote_vllm.py"),
    ("docs/engines.md", "SGLANG_", "torch_tests.SglangApi"),  # a stand-in: no SGLang has been installed here
    ("docs/fuzzing.md", "make fuzz", "scripts/fuzz.sh"),
    ("docs/fuzzing.md", "scripts/fuzz.sh", "scripts/fuzz.sh"),
    ("docs/fuzzing.md", "build-fuzz/", "scripts/fuzz.sh"),
    ("docs/integrations.md", "export ROUTEOPD_OPTIONS", "scripts/integrations_verl.sh"),
    ("docs/integrations.md", "export VERL", "scripts/integrations_verl.sh"),
    ("docs/integrations.md", "python -m verl", "scripts/integrations_verl.sh"),
    ("docs/judge.md", "build/routeopd judge runs/", "judge_cli"),
    ("docs/judge.md", "python -m vllm", "judge_cli"),  # by hand against vLLM, once; with stand-ins at each test
    ("docs/judge.md", "JUDGE_KEY=", "judge_cli"),
    ("docs/lab.md", "routeopd lab make", "train_cli"),
    ("docs/mutation.md", "make mutate", "mutate"),
    ("docs/mutation.md", "scripts/mutate.py", "mutate"),
    ("docs/peers.md", "make peers", "peers_driver"),
    ("docs/peers.md", "python3 scripts/peers.py", "peers_driver"),
    ("docs/plan.md", "build/routeopd plan recipes/smollm2.toml --gpu this-cpu", "plan_cli"),
    ("docs/python.md", "make wheel", "scripts/stranger.sh"),
    ("docs/python.md", "pip install dist/", "scripts/stranger.sh"),
    ("docs/python.md", "pip install ./python", "scripts/wheel.sh"),
    ("docs/ranks.md", "make build", "Makefile"),
    ("docs/ranks.md", "torchrun", "ranks_cli"),
    ("docs/results.md", "routeopd study", "study_cli"),
    ("docs/results.md", "routeopd report", "report_cli"),
    ("docs/smollm2.md", "build/routeopd study", "study_tune_cli"),
    ("docs/study.md", "routeopd study --out", "study_cli"),
    ("docs/study.md", "routeopd study ablations", "study_cli"),
    ("docs/study.md", "routeopd study --quick", "study_cli"),
    ("docs/study.md", "routeopd study main --lab", "examples/demo.sh"),
    ("docs/training.md", "tensorboard", "tests/peers/tensorboard_reads.py"),
    ("routeopd bench --help", "routeopd bench", "kill_cli"),
    ("routeopd judge --help", "routeopd judge", "judge_cli"),
    ("routeopd lab --help", "routeopd lab make", "train_cli"),
    ("routeopd lab make --help", "routeopd lab make", "train_cli"),
    ("routeopd study --help", "routeopd study --out", "study_cli"),
    ("routeopd study --help", "routeopd study ablations", "study_cli"),
    ("routeopd study --help", "routeopd study --quick", "study_cli"),
    ("routeopd study --help", "routeopd study main", "study_tune_cli"),
]

# Outputs on pages whose command runs on stand-ins.
OUTPUTS = [
    ("docs/decontamination.md", "routeopd decontaminate", "tests/peers/decontamination.py"),
]


def row_of(table, command):
    """The row that names this command, or None."""
    rows = [row for row in table if row[0] == command.page and command.text.startswith(row[1])]
    return max(rows, key=lambda row: len(row[1]), default=None)


def is_there(source, name):
    """Whether there is a file, an entry of ctest or a suite of this name."""
    if (source / name).is_file():
        return True
    if f"routeopd_script_test({name} " in (source / "tests/CMakeLists.txt").read_text():
        return True
    program, _, suite = name.partition(".")
    if program not in ("core_tests", "torch_tests", "program_tests") or not suite:
        return False
    said = re.compile(rf"\bTEST(_F|_P)?\({suite}, ")
    return any(said.search(file.read_text()) for file in (source / "tests").rglob("*_test.cpp"))
