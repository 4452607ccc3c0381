# SPDX-License-Identifier: Apache-2.0
"""The gate in Python: on objects made by hand, and against the program on pairs of which one was damaged.

The program is the one that ROUTEOPD_PROGRAM names, else the repository's build/routeopd.
"""

import copy
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
from types import SimpleNamespace

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
PROGRAM = pathlib.Path(os.environ.get("ROUTEOPD_PROGRAM", ROOT / "build" / "routeopd"))
SOURCE = ROOT / "python" / "routeopd" / "_compatible.py"
# From its file, since the package itself needs torch and this does not.
SPEC = importlib.util.spec_from_file_location("routeopd_compatible", SOURCE)
gate = sys.modules[SPEC.name] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(gate)

NAMES = ["vocabulary", "added_tokens", "pipeline", "special_ids", "eos_ids", "template", "chats", "widths"]
TURN = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}\n{% endfor %}"
TEMPLATE = TURN + "{% if add_generation_prompt %}\n<assistant>{% endif %}{{ tools | tojson if tools }}"
FLAGS = ("special", "normalized", "lstrip", "rstrip", "single_word")


class Files(dict):
    """The JSON files of a model directory by name, and shorthands for what a test changes."""

    tokenizer = property(lambda self: self["tokenizer.json"])
    model = property(lambda self: self.tokenizer["model"])
    declared = property(lambda self: self["tokenizer_config.json"])
    config = property(lambda self: self["config.json"])

    def write(self, directory):
        directory.mkdir()
        for name, content in self.items():
            (directory / name).write_text(json.dumps(content))
        return directory


def read(directory):
    names = (
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "config.json",
        "generation_config.json",
    )
    return Files({name: json.loads((directory / name).read_text()) for name in names if (directory / name).exists()})


def golden(name):
    """A small tokenizer of the goldens with a template, and a configuration with rows to spare."""
    files = read(ROOT / "tests" / "goldens" / "tokenizer" / name)
    config = json.loads((ROOT / "tests/goldens/architectures/qwen2/config.json").read_text())
    added = [token["content"] for token in files.tokenizer["added_tokens"] if token["special"]]
    files["config.json"] = config | {"vocab_size": 4096, "eos_token_id": 2}
    files["tokenizer_config.json"] = {
        "eos_token": added[-1],
        "pad_token": added[0],
        "chat_template": TEMPLATE,
    }
    return files


def put(place, key, value):
    def change(files):
        getattr(files, place)[key] = value

    return change


def swap_ids(files):
    vocabulary, added = files.model["vocab"], {each["content"] for each in files.tokenizer["added_tokens"]}
    one, two = [token for token in vocabulary if token not in added][-3:-1]
    vocabulary[one], vocabulary[two] = vocabulary[two], vocabulary[one]


def rename_token(files):
    """A token that only the last merge makes; without merges, any."""
    token = "".join(files.model["merges"].pop()) if files.model["merges"] else list(files.model["vocab"])[-1]
    token = token if token in files.model["vocab"] else token.replace(" ", "")
    files.model["vocab"]["qqqqzzzz"] = files.model["vocab"].pop(token)


def swap_merges(files):
    merges = files.model["merges"]
    merges[:2] = merges[1::-1]


def add_token(files):
    last = max(files.tokenizer["added_tokens"], key=lambda token: token["id"])
    largest = max(last["id"], *files.model["vocab"].values())
    files.tokenizer["added_tokens"].append(last | {"id": largest + 1, "content": "<more>"})


def flip(flag):
    def change(files):
        declared = files.declared.values()  # transformers makes these special, whatever the file says
        token = [each for each in files.tokenizer["added_tokens"] if each["content"] not in declared][-1]
        token[flag] = not token[flag]
        decoder = files.declared.get("added_tokens_decoder", {})  # which counts before tokenizer.json there
        decoder.get(str(token["id"]), {})[flag] = token[flag]

    return change


def other_eos(files):
    added = [token["content"] for token in files.tokenizer["added_tokens"] if token["special"]]
    files.declared["eos_token"] = next(each for each in added if each != files.declared["eos_token"])


def in_sequence(part, plural):
    def change(files):
        files.tokenizer[part] = {
            "type": "Sequence",
            plural: [each for each in [files.tokenizer[part]] if each],
        }

    return change


def template(text):
    return put("declared", "chat_template", text)


REFUSES_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + TEMPLATE
NAMED = [{"name": "default", "template": TEMPLATE}, {"name": "tool_use", "template": "{{ tools | tojson }}"}]
STEP = {
    "normalizer": {"type": "Replace", "pattern": {"String": "0"}, "content": "1"},
    "pre_tokenizer": {"type": "Digits", "individual_digits": True},
    "post_processor": {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    },
    "decoder": {"type": "Fuse"},
}
LIGHT = {  # for every tokenizer
    "nothing": lambda files: None,
    "swap ids": swap_ids,
    "rename a token": rename_token,
    "drop a merge": lambda files: files.model["merges"].pop(),
    "add a token": add_token,
    "flip lstrip": flip("lstrip"),
    "another eos_token": other_eos,
    "another template": template(TEMPLATE + "x"),
    "another normalizer": put("tokenizer", "normalizer", STEP["normalizer"]),
}
DAMAGES = (
    LIGHT
    | {f"flip {flag}": flip(flag) for flag in FLAGS}
    | {f"another {part}": put("tokenizer", part, step) for part, step in STEP.items()}
    | {
        "no normalizer": put("tokenizer", "normalizer", None),
        "swap merges": swap_merges,
        "no post_processor": put("tokenizer", "post_processor", None),
        "decoder in a sequence": in_sequence("decoder", "decoders"),
        "normalizer in a sequence": in_sequence("normalizer", "normalizers"),
        "merges as text": lambda files: files.model.update(
            merges=[each if isinstance(each, str) else " ".join(each) for each in files.model["merges"]]
        ),
        "ignore_merges": lambda files: files.model.update(ignore_merges=not files.model.get("ignore_merges")),
        "fuse_unk": lambda files: files.model.update(fuse_unk=not files.model.get("fuse_unk")),
        "no fuse_unk": lambda files: files.model.pop("fuse_unk"),
        "no pad_token": lambda files: files.declared.pop("pad_token", None),
        "a token of its own": lambda files: files.declared.update(image_token=files.declared["eos_token"]),
        "named tokens": lambda files: files.declared.update(
            extra_special_tokens={"picture": files.declared["eos_token"]}
        ),
        "no template": template(None),
        "the same chats": template(TEMPLATE + "{# a remark #}"),
        "a later line": template(TEMPLATE.replace("<assistant>", "<robot>")),
        "no text": template(""),
        "refuses some": template(REFUSES_SYSTEM),
        "refuses all": template("{{ raise_exception('never') }}"),
        "named templates": template(NAMED),
        "one named template": template(NAMED[:1]),
        "more rows": put("config", "vocab_size", 8192),
        "few rows": lambda files: (
            files.config.update(vocab_size=10, eos_token_id=2),
            files.pop("generation_config.json", None),
        ),
        "another eos": put("config", "eos_token_id", [2, 3]),
        "the same eos twice": put("config", "eos_token_id", [2, 2]),
        "no eos": lambda files: files.config.pop("eos_token_id"),
        "generation eos": lambda files: files.update({"generation_config.json": {"eos_token_id": 5}}),
        "no generation eos": lambda files: files.update({"generation_config.json": {"eos_token_id": None}}),
        "no config": lambda files: files.pop("config.json"),
    }
)
CASES = [("qwen", damage, both) for damage in DAMAGES for both in (False, True)]
CASES += [("llama2", damage, False) for damage in DAMAGES]
CASES += [(name, damage, False) for name in ("llama3", "smollm", "meta", "flags", "trained") for damage in LIGHT]
CASES += [(ROOT / "lab" / "base", damage, False) for damage in LIGHT]
CASES += [(SHARED / "models" / "story", damage, False) for damage in LIGHT]
# 151,000 tokens each: some ten seconds a case.
CASES += [(SHARED / "tokenizers" / "qwen3", damage, False) for damage in ("nothing", "swap ids")]
CASES += [(SHARED / "tokenizers" / "qwen2_5", damage, False) for damage in ("flip lstrip", "another template")]


class Tiny:
    """As little as the gate needs: a tokenizer of characters, with a template of its own kind."""

    def __init__(self, text, chat_template=None, specials=None):
        self.text, self.chat_template, self.special_tokens_map = text, chat_template, specials or {}
        self.backend_tokenizer = SimpleNamespace(to_str=lambda: text)
        self.ids = json.loads(text)["model"]["vocab"] if text.startswith('{"') else {}

    def apply_chat_template(self, messages, tokenize, **options):
        if self.chat_template == "refuse":
            raise RuntimeError("no\nchat")
        return self.chat_template + "".join(message.pop("content") for message in messages)

    def encode(self, text, add_special_tokens, verbose):
        return [self.ids[each] for each in text if each in self.ids] + [0] * add_special_tokens


def tiny(change=lambda files: None, **more):
    files = Files(
        {
            "tokenizer.json": {
                "added_tokens": [{"id": 5, "content": "<e>", **dict.fromkeys(FLAGS, False)}],
                "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2, "d": 4}, "merges": [["a", "b"]]},
            }
        }
    )
    change(files)
    return Tiny(json.dumps(files.tokenizer), **more)


TINY = {  # the teacher, and the checks that fail
    "nothing": (tiny(), []),
    "swap": (tiny(lambda files: files.model["vocab"].update(a=1, b=0)), ["vocabulary", "chats"]),
    "more ids": (tiny(lambda files: files.model["vocab"].update(q=6)), ["vocabulary"]),
    "flag": (tiny(lambda files: files.tokenizer["added_tokens"][0].update(rstrip=True)), ["added_tokens"]),
    "alone": (tiny(lambda files: files.tokenizer["added_tokens"].clear()), ["vocabulary", "added_tokens"]),
    "merge": (tiny(lambda files: files.model["merges"].pop()), ["pipeline"]),
    "decoder": (tiny(put("tokenizer", "decoder", {"type": "Fuse"})), ["pipeline"]),
    "flag off": (tiny(put("model", "ignore_merges", False)), []),
    "flag on": (tiny(put("model", "ignore_merges", True)), ["pipeline"]),
    "special": (tiny(specials={"eos_token": "<e>"}), ["special_ids"]),
    "template": (tiny(chat_template="d"), ["template", "chats"]),
    "refuses": (tiny(chat_template="refuse"), ["template", "chats"]),
}


@pytest.mark.parametrize("case", TINY)
def test_checks_without_transformers(case):
    teacher, failed = TINY[case]
    result = gate.compatible(tiny(), teacher)
    assert [check.name for check in result.checks] == NAMES
    assert [check.name for check in result.checks if not check.passed] == failed
    assert str(result).count("FAIL") == len(failed) and len(str(result).splitlines()) == 8
    assert bool(result) == result.ok == (not failed)


def test_models_tell_ends_and_rows():
    def model(rows, stops, generation=None):
        return SimpleNamespace(
            config=SimpleNamespace(vocab_size=rows, eos_token_id=stops),
            generation_config=SimpleNamespace(eos_token_id=generation),
        )

    def failed(one, two):
        result = gate.compatible(tiny(), tiny(), student_model=one, teacher_model=two)
        return [check.name for check in result.checks if not check.passed]

    assert failed(model(8, 5), model(64, [5, 5])) == failed(model(8, 5), model(8, 4, [5])) == []
    assert failed(model(8, 5), model(8, 5).config) == failed(model(8, 5), None) == []
    assert failed(model(8, 5), model(8, [5, 4])) == failed(model(8, 5), model(8, None)) == ["eos_ids"]
    assert failed(model(8, 4), model(5, 4)) == ["widths"]
    for wrong in (model(0, 0), model(8, 8), model(8, -1), model(8, "5"), model(8, [0] * 300), object()):
        with pytest.raises(ValueError, match="^the teacher: "):
            failed(model(8, 5), wrong)


def test_a_space_inside_a_merge_counts():
    one, two = (tiny(put("model", "merges", [merge])) for merge in (["a ", "b"], ["a", " b"]))
    assert [check.name for check in gate.compatible(one, two).checks if not check.passed] == ["pipeline"]


def test_both_templates_that_refuse_everything_agree_and_are_useless():
    result = gate.compatible(tiny(chat_template="refuse"), tiny(chat_template="refuse"))
    assert [check.name for check in result.checks if not check.passed] == ["chats"]
    with pytest.raises(ValueError, match="^the pair is not compatible: chats: both templates refuse every chat"):
        result.raise_if_not()


def entry(**more):
    return lambda files: files.tokenizer["added_tokens"][0].update(more)


@pytest.mark.parametrize(
    "wrong",
    [
        object(),
        SimpleNamespace(backend_tokenizer=None),
        Tiny(""),
        Tiny("[]"),
        Tiny("{}" * 2),
        Tiny("[" * 100000),
        tiny(put("model", "type", "Unigram")),
        tiny(put("model", "dropout", 0.5)),
        tiny(put("model", "merges", [["a"]])),
        tiny(put("model", "merges", [[1, 2]])),
        tiny(put("model", "vocab", {"a": 1 << 40})),
        tiny(put("model", "vocab", {"a": -1})),
        tiny(put("model", "vocab", {"a": 0, "b": 0})),
        tiny(put("model", "vocab", {"a": "0"})),
        tiny(put("model", "vocab", [["a", 0.5]])),
        tiny(entry(id="x")),
        tiny(entry(content=None)),
        tiny(entry(id=0)),
        tiny(put("tokenizer", "added_tokens", 3)),
        tiny(specials={"eos_token": "nowhere"}),
        tiny(chat_template={"default": 3}),
        tiny(chat_template=3),
        tiny(chat_template="x" * (5 << 20)),
    ],
    ids=range(23),
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(wrong):
    with pytest.raises(ValueError, match="^the teacher: .*expected .*, got ") as raised:
        gate.compatible(tiny(), wrong)
    assert "\n" not in str(raised.value) and len(str(raised.value)) < 400


def test_nothing_is_imported_but_the_standard_library():
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE.parent)!r}); import _compatible; "
        "others = ('torch', 'transformers', 'tokenizers', 'jinja2', 'numpy'); "
        "print([name for name in sys.modules if name.split('.')[0] in others])"
    )
    assert subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True).stdout == "[]\n"


@pytest.fixture(scope="module")
def program():
    if not PROGRAM.exists():
        pytest.skip(f"the program is not built: {PROGRAM}; name it in ROUTEOPD_PROGRAM")
    pytest.importorskip("transformers", reason="the comparison is with transformers' tokenizers")

    def run(student, teacher):
        command = [PROGRAM, "check", "--json", "--student", student, "--teacher", teacher]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert answer.stdout, answer.stderr  # refused: such a pair is not to be compared
        checks = json.loads(answer.stdout)
        assert [check["check"] for check in checks["checks"]] == NAMES
        assert answer.returncode == (0 if checks["compatible"] else 1)
        return checks, answer.stderr.strip()

    return run


def loaded(directory, auto=False):
    """Tokenizer and model as transformers reads them; without `auto`, not rebuilt from a class."""
    import transformers

    kind = transformers.AutoTokenizer if auto else transformers.TokenizersBackend
    model = None
    if (directory / "config.json").exists():
        config = json.loads((directory / "config.json").read_text())
        stops = directory / "generation_config.json"
        generation = transformers.GenerationConfig.from_pretrained(directory) if stops.exists() else None
        model = SimpleNamespace(config=transformers.AutoConfig.for_model(**config), generation_config=generation)
    return kind.from_pretrained(directory), model


def expect_equal(answer, pair):
    checks, sentence = answer
    (student, student_model), (teacher, teacher_model) = pair
    result = gate.compatible(student, teacher, student_model=student_model, teacher_model=teacher_model)
    told = [(check.name, check.passed, without_reason(check.detail)) for check in result.checks]
    assert told == [(each["check"], each["passed"], without_reason(each["detail"])) for each in checks["checks"]]
    assert bool(result) == result.ok == checks["compatible"]
    if not result.ok:
        with pytest.raises(ValueError, match="^the pair is not compatible: ") as raised:
            result.raise_if_not()
        assert without_reason(f"routeopd: {raised.value}") == without_reason(sentence)


def without_reason(detail):
    """Left out: why a template refuses, that there is no model, and values that transformers fills in."""
    detail = re.sub(r"(post_processor|fuse_unk) is .*", r"\1", detail)
    return detail.split("template refuses it (")[0].split("not compared: ")[0]


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: "-".join(map(str, (getattr(case[0], "name", case[0]), *case[1:])))
)
def test_verdicts_are_the_programs(case, program, tmp_path):
    origin, damage, both = case
    if not isinstance(origin, str) and not origin.exists():
        pytest.skip(f"{origin.name} is not here")
    student = golden(origin) if isinstance(origin, str) else read(origin)
    teacher = copy.deepcopy(student)
    for files in (student, teacher)[not both :]:
        try:
            DAMAGES[damage](files)
        except (KeyError, IndexError, StopIteration):
            pytest.skip("has nothing to change there")
    directories = student.write(tmp_path / "student"), teacher.write(tmp_path / "teacher")
    expect_equal(program(*directories), [loaded(each) for each in directories])


def test_a_tokenizer_rebuilt_from_its_class_is_what_counts(program, tmp_path):
    """The files differ and the objects do not: the program agrees on what transformers saves of them."""
    for place, change in (
        ("flag", lambda files: files.tokenizer["added_tokens"][-1].update(lstrip=True)),
        ("step", put("tokenizer", "normalizer", None)),
    ):
        pairs = [tmp_path / f"{place}-{who}" for who in ("student", "teacher")]
        for who, directory in enumerate(pairs):
            files = golden("qwen")
            tokens = {str(token["id"]): token for token in copy.deepcopy(files.tokenizer["added_tokens"])}
            files.declared.update(tokenizer_class="Qwen2Tokenizer", added_tokens_decoder=tokens)
            if who == 1:
                change(files)
            files.write(directory)
        assert not program(*pairs)[0]["compatible"]
        objects = [loaded(each, auto=True) for each in pairs]
        saved = [each.with_name(each.name + "-saved") for each in pairs]
        for (tokenizer, _), directory, old in zip(objects, saved, pairs, strict=True):
            tokenizer.save_pretrained(directory)
            (directory / "config.json").write_text((old / "config.json").read_text())
        assert program(*saved)[0]["compatible"]
        expect_equal(program(*saved), objects)


def test_the_order_of_templates_means_nothing(program, tmp_path):
    """transformers lists them as the file system does; the program compares a list in its order."""
    directories = []
    for name, templates in (("student", NAMED), ("teacher", NAMED[::-1])):
        files = golden("qwen")
        template(templates)(files)
        directories.append(files.write(tmp_path / name))
    failed = [check["check"] for check in program(*directories)[0]["checks"] if not check["passed"]]
    assert failed in (["template"], [])
    (student, _), (teacher, _) = map(loaded, directories)
    assert gate.compatible(student, teacher)


def literal(text):
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r") + "'"


def test_the_suite_is_the_programs(program, tmp_path):
    """A template that refuses chat i alone: the program calls it by the name that is here, in this order."""
    tokenizer = pytest.importorskip("jinja2") and loaded(golden("qwen").write(tmp_path / "any"))[0]
    tell = "{{ messages | tojson }}{{ tools | tojson }}{{ add_generation_prompt }}{{ enable_thinking }}"
    tokenizer.chat_template = tell
    for i, (name, messages, options) in enumerate(gate._suite()):
        told = tokenizer.apply_chat_template(messages, tokenize=False, **options)
        refuses = f"{{% set all %}}{tell}{{% endset %}}{{% if all == {literal(told)} %}}"
        refuses += "{{ raise_exception('this one') }}{% endif %}text"
        student, teacher = golden("qwen"), golden("qwen")
        template("text")(student)
        template(refuses)(teacher)
        directories = student.write(tmp_path / f"student{i}"), teacher.write(tmp_path / f"teacher{i}")
        details = {check["check"]: check["detail"] for check in program(*directories)[0]["checks"]}
        assert details["chats"].startswith(f'"{name}": the teacher\'s template refuses it (')
    assert len(gate._suite()) == 12
