#!/usr/bin/env python3
"""Writes inputs for the corpora from which fuzzing starts:  fuzz/make_seeds.py DIRECTORY

One file per seed, DIRECTORY/TARGET/NAME, for the targets whose inputs are several files or whose bytes are awkward to
type. scripts/fuzz.sh --merge adds what was found from them.
"""
import json
import pathlib
import struct
import sys
import tempfile

root = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(root / "tests/cli"))
import report_directories  # noqa: E402

target_root = pathlib.Path(sys.argv[1])
TINY = root / "tests/goldens/tiny/student"


def seed(target, name, content):
    path = target_root / target / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())


def laid(**files):
    """The input of several files: letters of fuzz/fuzz_*.cpp's lists, and what each holds."""
    return b"\xff|\xff".join(letter.encode() + (text if isinstance(text, bytes) else text.encode())
                        for letter, text in files.items() if text is not None)


def safetensors(tensors, metadata=None):
    """{name: (dtype, shape, bytes)}"""
    header, at = ({"__metadata__": metadata} if metadata else {}), 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values())


def ints(*values, shape=None):
    return "I32", shape or [len(values)], struct.pack(f"<{len(values)}i", *values)


def longs(*values):
    return "I64", [len(values)], struct.pack(f"<{len(values)}q", *values)


def floats(*values, shape=None):
    return "F32", shape or [len(values)], struct.pack(f"<{len(values)}f", *values)


def doubles(*values):
    return "F64", [len(values)], struct.pack(f"<{len(values)}d", *values)


def server():
    def bodies(endpoint, **named):
        for name, body in named.items():
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            seed("server", f"{endpoint}_{name}", bytes([48 + endpoint]) + content)  # '0' … '7': the low bits choose

    user = {"role": "user", "content": "1 + 1?"}
    bodies(0, text={"model": "m", "prompt": "a b", "max_tokens": 4, "temperature": 0.5, "top_p": 0.9, "top_k": 5, "seed": 7},
           ids={"prompt": [[1, 2], [3]], "n": 2, "logprobs": 2, "echo": True, "max_tokens": 2},
           scored={"prompt": ["ab", "c"], "max_tokens": 0, "echo": True, "logprobs": 1},
           stream={"prompt": "a", "stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True},
                   "stop": ["b", "cd"], "include_stop_str_in_output": True, "min_tokens": 0},
           rows={"prompt": [5, 6, 7], "prompt_logprobs": 2, "return_token_ids": True, "return_tokens_as_token_ids": True,
                 "logprobs": 0, "skip_special_tokens": False, "ignore_eos": True, "best_of": 1})
    bodies(1, plain={"messages": [user], "max_completion_tokens": 3},
           parts={"messages": [{"role": "system", "content": [{"type": "text", "text": "a"}, "b"]}, user,
                               {"role": "assistant", "content": None, "tool_calls": [
                                   {"type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}}]}],
                  "tools": [{"type": "function"}], "chat_template_kwargs": {"mood": "calm"}, "logprobs": True, "top_logprobs": 2},
           stream={"messages": [user, {"role": "assistant", "content": "So"}], "stream": True, "add_generation_prompt": False,
                   "continue_final_message": True, "n": 2})
    bodies(2, prompt={"prompt": "a b", "return_token_strs": True}, chat={"messages": [user], "add_special_tokens": False})
    bodies(3, ids={"tokens": [1, 2, 300]})
    bodies(4, score=safetensors({"ids": ints(1, 2, 3, 4, 5, 6), "lengths": longs(4, 2), "prompt_lengths": ints(1, 1),
                                 "gather_ids": ints(1, 2, -1, 3, shape=[4, 1])}, {"k": "3", "hidden": "true"}),
           plain=safetensors({"ids": ints(1, 2, 3), "lengths": ints(3)}))
    bodies(5, generate=safetensors(
        {"ids": ints(1, 2, 3), "lengths": ints(2, 1), "prompts": ints(7, 3), "samples": ints(0, 2, 1), "sample_counts": ints(2, 1)},
        {"n": "3", "temperature": "0.7", "top_p": "0.9", "top_k": "4", "max_new_tokens": "5", "seed": "1", "step": "2", "k": "2",
         "hidden": "true", "entropy": "true", "ignore_eos": "true"}),
           stop=safetensors({"ids": ints(1), "lengths": ints(1)}, {"stop": "[\"a\", \"b\"]"}))
    bodies(6, gather=safetensors({"hidden": floats(*[0.25] * 32, shape=[2, 16]), "gather_ids": ints(0, -1, 89, 4, shape=[2, 2])},
                                 {"weights_version": "4"}),
           none=safetensors({"hidden": floats(shape=[0, 16]), "gather_ids": ints(shape=[0, 3])}))
    bodies(7, model={"path": "model", "version": 3}, above={"path": "../below/model", "version": 0})


def recipes():
    for path in sorted((root / "recipes").glob("*.toml")) + sorted((root / "examples").rglob("*.toml")):
        seed("recipe", path.stem, path.read_bytes())
    text = "[student]\npath = \"s\"\n[teachers.math]\npath = \"t\"\nengine = \"vllm\"\nurls = [\"http://127.0.0.1:1\"]\n[data]\nprompts = \"p\"\n"
    seed("recipe", "settings", b"\xff".join(
        [text.encode(), b"objective.arm=fixed_mid", b"objective.k=full", b"teachers.math.patience=3", b"seed=7",
         b"eval.suites={\"a\": \"b\"}", b"optimizer.lr=1e-5", b"rollout.engine=serve", b"train.steps=3"]))


def prompts():
    seed("prompts", "kinds", "@" + "".join(json.dumps(line) + "\n" for line in [
        {"id": "a", "problem": "1 + 1?", "answer": "2", "response": "2."}, {"prompt": "So", "answer": 3},
        {"prompt_ids": [1, 2, 3]}, {"messages": [{"role": "user", "content": "x"}], "tools": [], "template": {"mood": "m"}}]))
    seed("prompts", "teachers", "K" + "".join(json.dumps(line) + "\n" for line in [
        {"problem": "1?", "teacher": "code", "teacher_prompt": "one"}, {"prompt": "b", "teacher_prompt_ids": [4, 5]},
        {"prompt": "c", "teacher_messages": [{"role": "user", "content": "y"}], "teacher_template": {"mood": "m"}}]))
    seed("prompts", "ids", "P{\"prompt_ids\": [9], \"teacher\": \"\"}\n\n{\"id\": 4, \"prompt_ids\": [0, 8]}\n")


def bank():
    about = {"version": 1, "student": {"path": "s", "sha256": "a"}, "teacher": {"path": "t", "sha256": "b"}, "real_ids": 90,
             "seed": 5, "hidden_size": 2, "pairs": 1, "objective": {"arm": "routeopd", "k": 2, "m": 1}}
    seed("bank", "two_states", safetensors({
        "states": longs(0, 2), "prompt_offsets": longs(0, 1, 3), "prompt_ids": ints(4, 5, 6), "prompt_numbers": longs(0, 1),
        "response_offsets": longs(0, 2, 3), "response_ids": ints(7, 8, 9), "samples": ints(0, 1),
        "teacher_hidden": floats(.1, .2, .3, .4), "support_offsets": longs(0, 2, 5), "support_ids": ints(1, 2, 1, 3, 9),
        "student_logits": floats(1, 2, 1, 0, -1), "teacher_logits": floats(2, 1, float("-inf"), 1, 2),
        "student_logsumexp": doubles(3, 3), "teacher_logsumexp": doubles(3, 3), "student_entropy": doubles(1, 1),
        "teacher_entropy": doubles(1, 1), "sources": ints(2, -1), "destinations": ints(1, -1), "targets": floats(.2, 0)},
        {"format": "pt", "routeopd": json.dumps(about), "sha256": "?"}))


def judge():
    verdict = "```json\n{\"label\": \"arithmetic\", \"rationale\": \"2 \\\\times 3\"}\n```"
    answer = {"choices": [{"message": {"role": "assistant", "content": "<think>so</think>" + verdict}, "finish_reason": "stop"}],
              "usage": {"prompt_tokens": 5, "completion_tokens": 7}}
    seed("judge", "answer", "0" + json.dumps(answer))
    seed("judge", "error", "1" + json.dumps({"error": {"message": "the key sk-secret-key is busy"}}))
    seed("judge", "detail", "1" + json.dumps({"detail": "x\n" * 300}))
    seed("judge", "verdict", "2" + verdict)
    seed("judge", "prose", "2So {\"label\": \"reasoning\"} or {\"label\": \"premature_stop\", \"rationale\": \"a\nb\"}")
    seed("judge", "cache", "3" + 2 * (json.dumps({"completion_tokens": 1, "content": "c", "finish": "stop", "key": "k", "model": "m",
                                                  "prompt_tokens": 2}, separators=(",", ":")) + "\n") + "{\"completion_tokens\":")


def checkpoint():
    tensors = {}
    weights = (TINY / "model.safetensors").read_bytes()
    length = struct.unpack("<Q", weights[:8])[0]
    header = json.loads(weights[8:8 + length])
    for name, entry in header.items():
        if name != "__metadata__" and entry["shape"][0] <= 16 and len(entry["shape"]) == 1:
            tensors[name] = (entry["dtype"], entry["shape"], weights[8 + length:][slice(*entry["data_offsets"])])
    config = (TINY / "config.json").read_bytes()
    state = json.dumps({"step": 3, "bad_steps": 0, "updates": 3, "scheduled": 3, "inputs": {"student": "s"}})
    files = {name: {"bytes": f"$B{i}", "sha256": f"$S{i}"} for i, name in
             enumerate(["config.json", "state/state.json", "state/optimizer.safetensors"])}
    manifest = json.dumps({"files": files}).replace("\"$B", "$B").replace("\", \"sha", ", \"sha")
    seed("checkpoint", "verified", laid(a=config, b=state, c=safetensors(tensors), e=manifest))
    seed("checkpoint", "whole", laid(a=config, b=state, c="$MOMENTS", d="$WEIGHTS", e=manifest))
    seed("checkpoint", "state", laid(b=state))
    seed("checkpoint", "weights", laid(a=config, b=state, d=safetensors(tensors), c=safetensors({})))


def evals():
    with tempfile.TemporaryDirectory() as temporary:
        path = pathlib.Path(temporary) / "eval"
        report_directories.write_eval(path, 60, problems=2, samples=2, suites=("s",))
        summary, responses, labels = ((path / name).read_text() for name in ("summary.json", "responses.jsonl", "labels.jsonl"))
    seed("eval", "whole", laid(a=summary, b=responses, c=labels))
    protocol = json.dumps({"model": {"path": "m", "sha256": "a"}, "decoding": {"temperature": 1}, "seed": 42, "template": "raw",
                           "extractor": "boxed-2", "suites": {"s": {"file": "f", "sha256": "$SUITE"}}})
    first = "".join(line + "\n" for line in responses.splitlines()[:3])
    seed("eval", "finished", laid(a=json.dumps({**json.loads(protocol), "suites": {"s": {
        "file": "f", "sha256": "$SUITE", "n": 2, "samples": 2}}}), b=responses))
    seed("eval", "stopped", laid(b=first, e=protocol))
    seed("eval", "stopped_whole", laid(b=responses, e=protocol))
    seed("eval", "older_extractor", laid(b=first + "{\"suite\"", e=protocol.replace("boxed-2", "boxed-1")))


def studies():
    with tempfile.TemporaryDirectory() as temporary:
        path = pathlib.Path(temporary) / "study"
        report_directories.write_eval(path / "base/eval", 40, problems=2, samples=2)
        report_directories.write_run(path / "runs/one", steps=2, evals=())
        report_directories.write_eval(path / "runs/one/eval/step_2", 60, problems=2, samples=2)
        report_directories.write_probe(path / "probes/arms", ["routeopd", "fixed_mid"], states=3)
        text = {name: (path / name).read_text() for name in (
            "base/eval/summary.json", "base/eval/responses.jsonl", "runs/one/recipe.toml", "runs/one/metrics.jsonl",
            "runs/one/probe.jsonl", "runs/one/eval/step_2/summary.json", "runs/one/eval/step_2/responses.jsonl",
            "runs/one/eval/step_2/labels.jsonl", "probes/arms/probe.json", "probes/arms/states.jsonl",
            "probes/arms/routes.jsonl", "probes/arms/example.json")}
    run = {"name": "routeopd", "arm": "routeopd", "k": 16, "m": 2, "pairs": "sample", "settings": {}, "lr": 5e-5, "shared": False,
           "seed": 42, "path": "runs/one", "eval": "runs/one/eval/step_2", "complete": True}
    manifest = {"kind": "study", "version": 2,
                "pair": {"family": "", "student": "$PAIR/student", "teacher": "$PAIR/teacher", "prompts": "$PAIR/prompts.jsonl",
                         "suites": {}, "validation": "", "sha256": "$CONTENT"},
                "options": {"quick": True, "lr": 5e-5}, "machine": {"cpu": "c", "threads": 1}, "notes": [],
                "parts": {"main": {"complete": False, "seconds": 2.5}}, "evals": {"base": "base/eval"}, "bank": None,
                "concentration": "concentration.jsonl", "runs": [run, {**run, "seed": 43, "path": "runs/two", "eval": None, "complete": False}],
                "probes": [{"name": "arms", "path": "probes/arms", "at": "base"}], "cost": "cost.json", "tuning": "tune.json"}
    study = json.dumps(manifest).replace("\"$CONTENT\"", "$CONTENT")
    rates = {1e-5: .25, 2e-5: .5, 4e-5: .25}
    tuning = {"kind": "tuning", "version": 1, "complete": True, "lrs": list(rates), "seeds": [1], "samples": 2, "problems": 2, "steps": 3,
              "judged_problems": 2, "content": {}, "trials": [{"arm": "routeopd", "lr": lr, "seed": 1, "avg": avg} for lr, avg in rates.items()],
              "arms": [{"arm": "routeopd", "lr": 2e-5, "mean": .5, "extended": 0, "rates": [
                  {"lr": lr, "mean": avg, "per_seed": [avg], "rms": .1, "completion": .5, "overshoot": None} for lr, avg in rates.items()]}],
              "shared_lr": 2e-5}
    cost = {"rounds": 2, "reference": "fixed_mid", "arms": [
        {"name": name, "k": 16, "m": 2, "seconds": {"rollout": 2.0, "score": 1.0, "route": .1, "learn": 1.4, "learner": 1.5, "total": 4.5},
         "tokens_per_second": 900, "peak_bytes": 10, "teacher_calls": 12, "relative_total": {"mean": 1, "low": .9, "high": 1.1},
         "relative_learner": {"mean": 1, "low": .9, "high": 1.1}} for name in ("fixed_mid", "routeopd")],
        "routes": [{"k": 16, "m": 2, "top_k_ms": 1.0, "routing_ms": 2.0, "gather_ms": .3}]}
    concentration = json.dumps({"suite": "heldout", "problem": "p0", "states": 20, "mass": .1, "concentration": .5, "budget": .3}) + "\n"
    distances = "".join(json.dumps({"sequence": i, "mass": .1, "forward_kl": .2, "reverse_kl": .3}) + "\n" for i in range(2))
    base = dict(f=text["base/eval/summary.json"], g=text["base/eval/responses.jsonl"])
    one = dict(h=text["runs/one/recipe.toml"], i=text["runs/one/metrics.jsonl"])
    evaluated = dict(l=text["runs/one/eval/step_2/summary.json"], m=text["runs/one/eval/step_2/responses.jsonl"],
                     n=text["runs/one/eval/step_2/labels.jsonl"])
    probed = dict(p=text["probes/arms/probe.json"], q=text["probes/arms/states.jsonl"], r=text["probes/arms/routes.jsonl"],
                  s=text["probes/arms/example.json"])
    seed("study", "manifest", laid(a=study))
    seed("study", "tuning", laid(a=study, b=json.dumps(tuning)))
    seed("study", "tuning_alone", laid(b=json.dumps(tuning)))
    seed("study", "cost", laid(a=study, c=concentration, d=json.dumps(cost), t=distances, k=distances))
    seed("study", "run", laid(a=study, **base, **one, j=text["runs/one/probe.jsonl"]))
    seed("study", "evaluated", laid(a=study, **base, **evaluated))
    seed("study", "probed", laid(a=study, **probed))
    seed("study", "page", b"R" + laid(a=study, d=json.dumps(cost), **base, **one, **evaluated))


for write in (server, recipes, prompts, bank, judge, checkpoint, evals, studies):
    write()
