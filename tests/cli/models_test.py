#!/usr/bin/env python3
"""inspect, check, tokenize, score and convert as a user meets them, on the laboratory pair and small tokenizers.

    models_test.py PROGRAM SOURCE_DIRECTORY
"""
import json
import math
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

PROGRAM, SOURCE = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
LAB, GOLDENS = SOURCE / "lab", SOURCE / "tests" / "goldens"
IDS = json.loads((LAB / "base" / "tokenizer.json").read_text())["added_tokens"][0]["id"] + 1  # the last is the end of text
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}{{ '<|im_end|>\n' }}{% endfor %}" \
           "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}{% if tools %}{{ tools | tojson }}{% endif %}"


def lines_of(text):
    return [json.loads(line) for line in text.split("\n") if line]  # not at U+2028, as splitlines() would


class Case(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.path = pathlib.Path(self.directory.name)

    def run_program(self, *arguments, stdin=""):
        return subprocess.run([PROGRAM, *map(str, arguments)], input=stdin, text=True, capture_output=True, timeout=300)

    def succeeds(self, *arguments, stdin=""):
        answer = self.run_program(*arguments, stdin=stdin)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return answer.stdout

    def refuses(self, sentence, *arguments, stdin="", code=1):
        answer = self.run_program(*arguments, stdin=stdin)
        self.assertEqual(answer.returncode, code, answer.stderr)
        self.assertEqual(answer.stderr.count("\n"), 1, answer.stderr)
        self.assertIn(sentence, answer.stderr)
        return answer.stdout

    def chat_directory(self, name="chat", template=TEMPLATE):
        directory = self.path / name
        shutil.copytree(GOLDENS / "tokenizer" / "qwen", directory)
        (directory / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|im_end|>", "chat_template": template}))
        return directory


class Help(Case):
    def test_every_command_has_help_with_an_example(self):
        for command in ("inspect", "check", "tokenize", "score", "convert"):
            text = self.succeeds(command, "--help")
            self.assertIn("Example", text)
            self.assertIn("routeopd " + command, text)


    def test_a_misspelt_command_is_named(self):
        self.refuses("inspct: no such command; did you mean inspect?", "inspct", LAB, code=2)


class Inspect(Case):
    def test_tells_what_a_directory_holds(self):
        facts = json.loads(self.succeeds("inspect", LAB / "base", "--json"))
        weights = (LAB / "base" / "model.safetensors").read_bytes()
        header = json.loads(weights[8:8 + struct.unpack("<Q", weights[:8])[0]])
        shapes = {name: entry["shape"] for name, entry in header.items() if name != "__metadata__"}
        self.assertEqual(facts["model"]["parameters"], sum(math.prod(shape) for shape in shapes.values()))
        self.assertEqual(facts["model"]["embedding_rows"], shapes["model.embed_tokens.weight"][0])
        self.assertEqual(facts["model"]["types"], {"F32": facts["model"]["parameters"]})
        self.assertEqual(facts["tokenizer"]["ids"], IDS)
        self.assertNotIn("template", facts)
        text = self.succeeds("inspect", LAB / "base")
        for words in ("qwen3", "norms on q and k", "tied to the head", "byte-level BPE"):
            self.assertIn(words, text)

    def test_knows_shards_types_and_tokenizers_alone(self):
        facts = json.loads(self.succeeds("inspect", GOLDENS / "architectures" / "qwen2_shards", "--json"))
        self.assertEqual(len(facts["model"]["files"]), 3)
        self.assertEqual(list(facts["model"]["types"]), ["BF16"])
        facts = json.loads(self.succeeds("inspect", self.chat_directory(), "--json"))
        self.assertNotIn("model", facts)
        self.assertEqual(facts["template"]["default"]["bytes"], len(TEMPLATE.encode()))
        self.assertEqual(facts["tokenizer"]["special_tokens"]["eos_token"]["token"], "<|im_end|>")

    def test_tells_architectures_apart(self):
        for name, norms, words in (("llama", ["before attention", "before feed-forward"], ("gated by silu",)),
                                   ("mistral", ["before attention", "before feed-forward"], ("key-value heads of 6",)),
                                   ("olmo2", ["after attention", "after feed-forward"], ("norms on whole q and k",)),
                                   ("gemma", ["before attention", "before feed-forward"],
                                    ("gated by gelu_pytorch_tanh", "by 1 + weight", "times sqrt(hidden size), tied"))):
            directory = GOLDENS / "architectures" / name
            facts = json.loads(self.succeeds("inspect", directory, "--json"))["model"]
            self.assertEqual((facts["model_type"], facts["norms"]), (name, norms))
            text = self.succeeds("inspect", directory)
            for word in words:
                self.assertIn(word, text)

    def test_refuses_a_window_that_matters(self):
        shutil.copytree(GOLDENS / "architectures" / "mistral", self.path / "window")
        config = json.loads((self.path / "window" / "config.json").read_text())
        for window, refused in ((255, True), (256, False)):
            (self.path / "window" / "config.json").write_text(json.dumps(config | {"sliding_window": window}))
            if refused:
                self.refuses("sliding_window: expected null or at least max_position_embeddings 256, got 255", "inspect",
                             self.path / "window")
            else:
                self.succeeds("inspect", self.path / "window")

    def test_refuses_what_does_not_fit(self):
        self.refuses("expected a directory", "inspect", self.path / "nowhere")
        self.refuses("got neither", "inspect", self.path)
        shutil.copytree(LAB / "base", self.path / "cut")
        config = json.loads((self.path / "cut" / "config.json").read_text())
        for key, value, sentence in (("num_hidden_layers", 4, "model.layers.2.input_layernorm.weight is missing"), ("intermediate_size", 257, "has shape"),
                                     ("vocab_size", 2 ** 24, "has shape"), ("num_hidden_layers", 1024, "1024 layers"),
                                     ("model_type", "mamba", "model_type: expected one of qwen2, qwen3, llama, mistral, olmo2, gemma")):
            (self.path / "cut" / "config.json").write_text(json.dumps(config | {key: value, "layer_types": None}))
            self.refuses(sentence, "inspect", self.path / "cut")
            self.refuses(sentence, "score", "--model", self.path / "cut")
        (self.path / "cut" / "config.json").write_text("{")
        self.refuses("config.json: expected JSON", "inspect", self.path / "cut")


class Check(Case):
    def test_passes_the_laboratory_pair(self):
        result = json.loads(self.succeeds("check", "--student", LAB / "base", "--teacher", LAB / "teacher", "--json"))
        self.assertTrue(result["compatible"])
        self.assertTrue(all(check["passed"] and check["detail"] for check in result["checks"]))

    def test_names_what_differs_and_exits_1(self):
        pair = self.chat_directory("a"), self.chat_directory("b", TEMPLATE.replace("assistant", "robot"))
        out = self.refuses("template: default, line", "check", "--student", pair[0], "--teacher", pair[1])
        self.assertIn("FAIL", out)
        result = json.loads(self.refuses("", "check", "--student", pair[0], "--teacher", pair[1], "--json"))
        self.assertFalse(result["compatible"])
        self.assertEqual([c["check"] for c in result["checks"] if not c["passed"]], ["template", "chats"])

    def test_train_runs_the_gate(self):
        shutil.copytree(LAB / "teacher", self.path / "teacher")
        (self.path / "teacher" / "chat_template.jinja").write_text(TEMPLATE)
        self.refuses("the pair is not compatible (template: the teacher alone has a chat template)", "train",
                     SOURCE / "recipes" / "lab.toml", "--out", self.path / "run", "--set", f"student.path={LAB / 'base'}",
                     "--set", f"data.prompts={LAB / 'train.jsonl'}", "--set", f"teacher.path={self.path / 'teacher'}")


class Tokenize(Case):
    def test_encodes_and_decodes_as_the_goldens(self):
        directory = GOLDENS / "tokenizer" / "llama3"
        cases = lines_of((directory / "cases.jsonl").read_text())[1:]  # behind the line that tells how they were made
        texts = [case for case in cases if "text" in case]
        self.assertGreater(len(texts), 100)
        for special in (False, True):
            stdin = "".join(json.dumps({"text": case["text"], "special": special}) + "\n" for case in texts)
            for case, answer in zip(texts, lines_of(self.succeeds("tokenize", directory, stdin=stdin)), strict=True):
                ids = case.get("special", case["ids"]) if special else case["ids"]
                self.assertEqual(answer, {"ids": ids, "text": case["text"]})
        for skip in (False, True):
            stdin = "".join(json.dumps({"ids": case["ids"], "skip_special": skip}) + "\n" for case in cases)
            answers = lines_of(self.succeeds("tokenize", directory, "--decode", stdin=stdin))
            for case, answer in zip(cases, answers, strict=True):
                whole = case.get("decoded", case.get("text"))
                self.assertEqual(answer, {"ids": case["ids"], "text": case.get("plain", whole) if skip else whole})

    def test_renders_chats(self):
        directory = self.chat_directory()
        line = {"messages": [{"role": "user", "content": "é?"}], "tools": [{"b": 1, "a": None}],
                "template": {"add_generation_prompt": True}}
        answer = json.loads(self.succeeds("tokenize", directory, "--chat", stdin=json.dumps(line) + "\n"))
        self.assertEqual(answer["text"],
                         '<|im_start|>user\né?<|im_end|>\n<|im_start|>assistant\n[{"b": 1, "a": null}]')
        again = json.loads(self.succeeds("tokenize", directory, stdin=json.dumps({"text": answer["text"]}) + "\n"))
        self.assertEqual(again["ids"], answer["ids"])
        self.refuses('add_generation_prompt: expected it inside "template"', "tokenize", directory, "--chat",
                     stdin='{"messages":[],"add_generation_prompt":true}\n')
        self.refuses("no chat template there", "tokenize", LAB / "base", "--chat")

    def test_a_bad_line_does_not_stop_the_rest(self):
        stdin = '{"text":"a"}\n{"text":3}\n{}\nnot json\n{"text":"b"}\n'
        out = self.refuses("3 of 5 lines could not be done, the first: standard input:2: text: expected a text, got 3",
                           "tokenize", LAB / "base", stdin=stdin)
        self.assertEqual([sorted(line) for line in lines_of(out)],
                         [["ids", "text"], ["error"], ["error"], ["error"], ["ids", "text"]])
        self.refuses("1 of 1 lines", "tokenize", LAB / "base", "--decode", stdin='{"ids":[99999]}\n')
        self.refuses("a zero byte", "tokenize", LAB / "base", stdin='{"text":"a"}\0more\n')
        (self.path / "same.jsonl").write_text('{"text":"a"}\n')
        for command in (["tokenize", LAB / "base"], ["score", "--model", LAB / "base"]):
            self.refuses("is what is read", *command, "--in", self.path / "same.jsonl", "--out", self.path / "same.jsonl")
        self.refuses("--chat", "tokenize", LAB / "base", "--chat", "--decode", code=2)

    def test_reads_and_writes_files(self):
        (self.path / "in.jsonl").write_text('{"text":"one two"}\n\n{"text":""}\n')
        said = self.succeeds("tokenize", LAB / "base", "--in", self.path / "in.jsonl", "--out", self.path / "out.jsonl",
                             "--json")
        self.assertEqual(json.loads(said)["lines"], 2)
        self.assertEqual(lines_of((self.path / "out.jsonl").read_text())[1], {"ids": [], "text": ""})


class Score(Case):
    def score(self, model, *sequences, k=4):
        text = "".join(json.dumps(line) + "\n" for line in sequences)
        return lines_of(self.succeeds("score", "--model", model, "--k", k, stdin=text))

    def test_agrees_with_what_generate_saw(self):
        prompts = self.path / "prompts.jsonl"
        prompts.write_text('{"prompt":"Problem: 3 + 4\\nSolution:"}\n{"prompt":"x"}\n')
        answers = lines_of(self.succeeds("generate", "--quiet", "--model", LAB / "teacher", "--in", prompts, "--n", 2,
                                         "--max-new", 20, "--k", 4))
        rows = self.score(LAB / "teacher", *({"ids": a["prompt_ids"] + a["ids"]} for a in answers))
        for answer, row in zip(answers, rows, strict=True):
            start = len(answer["prompt_ids"])
            self.assertIsNone(row["logprobs"][0])
            self.assertEqual(row["top_ids"][0], [])
            for mine, theirs in zip(row["logprobs"][start:], answer["logprobs"], strict=True):
                self.assertAlmostEqual(mine, theirs, delta=1e-4)
            self.assertEqual(row["top_ids"][start:], answer["top"]["ids"])

    def test_gathers_and_normalises(self):
        (row,) = self.score(LAB / "base", {"ids": [5, 9, 3], "gather": [[], [9, 0], []]}, k=IDS)
        self.assertEqual(row["gather_logprobs"][0], [])
        self.assertEqual(row["gather_logprobs"][2], [])
        self.assertEqual(row["gather_logprobs"][1][0], row["logprobs"][1])
        for t in (1, 2):
            self.assertAlmostEqual(sum(map(math.exp, row["top_logprobs"][t])), 1, delta=1e-5)
            self.assertEqual(sorted(row["top_ids"][t]), list(range(IDS)))
        self.assertEqual(self.score(LAB / "base", {"ids": [5]})[0]["logprobs"], [None])

    def test_batches_do_not_matter(self):
        lines = [{"ids": [(7 * i * j) % IDS for j in range(1, 2 + i * 11 % 200)]} for i in range(1, 40)]
        together = self.score(LAB / "base", *lines)
        for line, row in list(zip(lines, together))[::13]:
            (alone,) = self.score(LAB / "base", line)
            for one, other in zip(alone["logprobs"][1:], row["logprobs"][1:], strict=True):
                self.assertAlmostEqual(one, other, delta=1e-4)

    def test_refuses_weights_that_are_no_numbers(self):
        shutil.copytree(LAB / "base", self.path / "nan")
        weights = bytearray((LAB / "base" / "model.safetensors").read_bytes())
        weights[-4:] = struct.pack("<f", math.nan)
        (self.path / "nan" / "model.safetensors").write_bytes(weights)
        self.refuses("NaN or infinite logits", "score", "--model", self.path / "nan", stdin='{"ids":[1,2]}\n')

    def test_refuses_bad_lines(self):
        for line, sentence in (('{"ids":[]}', "ids: expected at least one"), (json.dumps({"ids": [IDS]}), f"from 0 to {IDS - 1}"),
                               ('{"ids":[1.5]}', "whole number"), ('{"ids":"1"}', "ids: expected a list"), ("{}", "ids: expected"),
                               ('{"ids":[1,2],"gather":[[]]}', "gather: expected 2 lists"),
                               ('{"ids":[1,2],"gather":[[],[-1]]}', "gather[1]: expected"),
                               (json.dumps({"ids": [1] * 257}), "at most the model's 256 positions, got 257")):
            self.refuses(sentence, "score", "--model", LAB / "base", stdin='{"ids":[1]}\n' + line + "\n")


class Convert(Case):
    def test_rounds_once_and_carries_files_along(self):
        said = json.loads(self.succeeds("convert", LAB / "base", self.path / "half", "--dtype", "bfloat16", "--shard-gb",
                                        0.0001, "--json"))
        self.assertGreater(said["files"], 1)
        self.assertEqual(json.loads((self.path / "half" / "config.json").read_text())["dtype"], "bfloat16")
        for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
            self.assertEqual((self.path / "half" / name).read_bytes(), (LAB / "base" / name).read_bytes())
        self.succeeds("convert", self.path / "half", self.path / "whole", "--quiet")
        self.succeeds("convert", self.path / "whole", self.path / "half_again", "--dtype", "bfloat16", "--quiet")
        self.succeeds("convert", self.path / "half", self.path / "half_whole", "--dtype", "bfloat16", "--quiet")
        self.assertEqual((self.path / "half_again" / "model.safetensors").read_bytes(),
                         (self.path / "half_whole" / "model.safetensors").read_bytes())
        self.refuses("exists already", "convert", LAB / "base", self.path / "half")
        self.refuses("--dtype", "convert", LAB / "base", self.path / "x", "--dtype", "int8", code=2)


class Prompts(Case):
    def test_chat_and_messages_go_through_the_template(self):
        shutil.copytree(LAB / "base", self.path / "model")
        (self.path / "model" / "chat_template.jinja").write_text("{{ messages[0].content }} :")
        (self.path / "in.jsonl").write_text('{"problem":"3 + 4"}\n{"messages":[{"role":"user","content":"3 + 4"}]}\n')
        rows = lines_of(self.succeeds("generate", "--quiet", "--model", self.path / "model", "--in", self.path / "in.jsonl",
                                      "--template", "chat", "--max-new", 1))
        request = "Please reason step by step, and put your final answer within \\boxed{}."
        wanted = "".join(json.dumps({"text": text}) + "\n" for text in (f"3 + 4\n\n{request} :", "3 + 4 :"))
        expected = lines_of(self.succeeds("tokenize", LAB / "base", stdin=wanted))
        self.assertEqual([row["prompt_ids"] for row in rows], [row["ids"] for row in expected])
        self.refuses("has no chat template", "generate", "--model", LAB / "base", "--in", self.path / "in.jsonl",
                     "--template", "chat")
        (self.path / "model" / "chat_template.jinja").write_text("{% nonsense %}")
        (self.path / "raw.jsonl").write_text('{"prompt":"x"}\n')
        self.succeeds("generate", "--quiet", "--model", self.path / "model", "--in", self.path / "raw.jsonl", "--max-new", 1)
        self.refuses("nonsense", "generate", "--model", self.path / "model", "--in", self.path / "in.jsonl")
        (self.path / "both.jsonl").write_text('{"prompt":"x","problem":"y"}\n')
        self.refuses("expected one kind of prompt, got problem and prompt", "generate", "--model", LAB / "base", "--in",
                     self.path / "both.jsonl")
        self.refuses("in.jsonl:2: messages: the model's directory has no chat template", "generate", "--model",
                     LAB / "base", "--in", self.path / "in.jsonl")


unittest.main(verbosity=0)
