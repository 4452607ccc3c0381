# SPDX-License-Identifier: Apache-2.0
"""The compatibility gate for tokenizers of transformers: whether one model may teach another, token by token.

Names, verdicts and words are those of `routeopd check`, which reads directories; this reads the objects that
a trainer holds. Where the two disagree the object counts, since it makes the ids: transformers 5 rebuilds
some tokenizers from their class, not from tokenizer.json. What an object says is untrusted and bounded; a
chat template is run by the tokenizer itself, in its own sandbox, as in training.
"""

from __future__ import annotations

import json
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_FILE, _MAX_TEMPLATE, _MAX_CHAT = 256 << 20, 4 << 20, 16 << 20  # characters
_MAX_ROWS, _MAX_STOPS = 1 << 24, 256  # of an embedding; ids that end a response
_FLAGS = ("special", "normalized", "lstrip", "rstrip", "single_word")
_STEPS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
_MODEL_FLAGS = ("type", "unk_token", "byte_fallback", "fuse_unk", "ignore_merges")
_Result = tuple[bool, str]  # passed, detail


@dataclass(frozen=True)
class Check:
    """One check: its detail is what was found equal, or the first difference."""

    name: str  # vocabulary | added_tokens | pipeline | special_ids | eos_ids | template | chats | widths
    passed: bool
    detail: str

    @property
    def verdict(self) -> str:
        """The program's word: "pass" or "FAIL"."""
        return "pass" if self.passed else "FAIL"


@dataclass(frozen=True)
class Compatibility:
    """All checks of a pair, also those after the first that failed; true if all passed."""

    ok: bool
    checks: tuple[Check, ...]

    def raise_if_not(self) -> None:
        """Raises ValueError with the first difference, in the program's words, unless every check passed."""
        for check in self.checks:
            if not check.passed:
                raise ValueError(f"the pair is not compatible: {check.name}: {check.detail}")

    def __bool__(self) -> bool:
        return self.ok

    def __str__(self) -> str:
        return "\n".join(f"{check.name:12}  {check.verdict}  {check.detail}" for check in self.checks)


def compatible(
    student: object, teacher: object, *, student_model: object = None, teacher_model: object = None
) -> Compatibility:
    """Checks whether two fast tokenizers of transformers allow distillation token by token.

    `student_model` and `teacher_model` are models or their configurations. They tell where a response ends (a
    model's generation_config counts before its config) and how many rows the embedding has; without both,
    `eos_ids` and `widths` pass as not compared. Rows beyond the tokenizer's ids are padding and may differ.

    Raises ValueError for what cannot be compared: a slow tokenizer, one that is not BPE, malformed values.
    """
    ours, theirs = _side("student", student, student_model), _side("teacher", teacher, teacher_model)
    results = {
        "vocabulary": _vocabulary(ours, theirs),
        "added_tokens": _added_tokens(ours, theirs),
        "pipeline": _pipeline(ours, theirs),
        "special_ids": _special_ids(ours, theirs),
        "eos_ids": _eos_ids(ours, theirs),
        "template": _template(ours, theirs),
        "chats": _chats(ours, theirs),
        "widths": _widths(ours, theirs),
    }
    checks = tuple(Check(name, passed, detail) for name, (passed, detail) in results.items())
    return Compatibility(all(check.passed for check in checks), checks)


@dataclass(frozen=True)
class _Side:  # what is compared of one tokenizer and its model
    tokenizer: Any
    tokens: list[str]  # by id; "" where an id has none
    added: list[tuple[int, str, str]]  # id, content and flags, by id
    steps: dict[str, str]  # parts and flags of the pipeline, as JSON
    merges: list[list[str]]
    specials: dict[str, str]  # a token with its id, by name
    templates: dict[str, str]  # by name
    rows: int | None  # of the embedding; None without a model
    stops: list[int]

    def shown(self, token_id: int) -> str:
        return _quoted(self.tokens[token_id]) if 0 <= token_id < len(self.tokens) else "nothing"

    def rendered(self, messages: list[dict[str, Any]], options: dict[str, Any]) -> tuple[list[int], str]:
        """A chat as ids, or why it is refused; without a template, the contents alone."""
        try:
            text = "".join(message["content"] + "\n" for message in messages)
            if self.templates:
                text = self.tokenizer.apply_chat_template(messages, tokenize=False, **options)
            _expect(len(text) <= _MAX_CHAT, "the chat", f"at most {_MAX_CHAT} characters", len(text))
            plain = not self.templates  # a template writes its own special tokens
            return list(self.tokenizer.encode(text, add_special_tokens=plain, verbose=False)), ""
        except ImportError as error:
            raise ValueError(f"chat templates cannot be run here: {_reason(error)}") from None
        except Exception as error:  # a template may raise anything
            return [], _reason(error)


def _side(who: str, tokenizer: Any, model: Any) -> _Side:
    to_str = getattr(getattr(tokenizer, "backend_tokenizer", None), "to_str", None)
    if to_str is None or not hasattr(tokenizer, "encode"):
        got = type(tokenizer).__name__
        raise ValueError(f"the {who}: expected a fast tokenizer of transformers, got {got}")
    try:
        text = to_str()
        _expect(len(text) <= _MAX_FILE, "tokenizer", f"at most {_MAX_FILE} characters", len(text))
        file = json.loads(text)
        bpe, added = file["model"], sorted(_added(entry) for entry in file["added_tokens"])
        _expect(bpe["type"] == "BPE", "model", "BPE", bpe["type"])
        _expect(not bpe.get("dropout"), "dropout", "none, since it makes ids random", bpe.get("dropout"))
        steps = {name: _json(file.get(name)) for name in _STEPS}
        steps |= {flag: _json(bpe.get(flag)) for flag in _MODEL_FLAGS}
        merges = [each.split(" ") if isinstance(each, str) else list(each) for each in bpe["merges"]]
        pairs = all(len(each) == 2 and " ".join(each) for each in merges)
        _expect(pairs, "merges", "pairs of texts", "others")
        ids = bpe["vocab"] | {content: token_id for token_id, content, _ in added}
        specials = {}
        for name, token in tokenizer.special_tokens_map.items():
            if isinstance(token, str):  # transformers 4 also lists additional ones, which have no name
                _expect(token in ids, name, "one of the tokens", token)
                specials[name] = f"{_quoted(token)} (id {ids[token]})"
        templates = _templates(tokenizer.chat_template)
        return _Side(tokenizer, _by_id(ids), added, steps, merges, specials, templates, *_model(model))
    except (AttributeError, KeyError, RecursionError, TypeError, json.JSONDecodeError) as error:
        got = f"{type(error).__name__}: {_reason(error)}"
        raise ValueError(f"the {who}: expected what tokenizer.json and config.json hold, got {got}") from None
    except ValueError as error:
        raise ValueError(f"the {who}: {_reason(error)}") from None


def _added(entry: dict[str, Any]) -> tuple[int, str, str]:
    token_id, content = entry["id"], entry["content"]
    good = isinstance(token_id, int) and isinstance(content, str)
    _expect(good, "added_tokens", "an id and a text", f"{token_id} and {content}")
    return token_id, content, ", ".join(flag for flag in _FLAGS if entry[flag]) or "no flags"


def _by_id(ids: dict[str, int]) -> list[str]:
    limit = min(_MAX_ROWS, max(1 << 16, 16 * len(ids)))  # the list of ids far apart would be mostly gaps
    tokens: list[str] = []
    for token, token_id in sorted(ids.items(), key=lambda item: item[1]):
        expected = f"an id of its own from 0 to {limit - 1}"
        _expect(len(tokens) <= token_id < limit, f"token {_quoted(token)}", expected, token_id)
        tokens += [""] * (token_id - len(tokens)) + [token]
    return tokens


def _templates(value: Any) -> dict[str, str]:
    named = {"default": value} if isinstance(value, str) else dict(value or {})
    good = all(isinstance(text, str) and len(text) <= _MAX_TEMPLATE for text in named.values())
    _expect(good, "chat_template", f"texts of at most {_MAX_TEMPLATE} characters", "others")
    # transformers lists them as the file system does: their order means nothing.
    return {name: named[name] for name in sorted(named, key=lambda name: (name != "default", name))}


def _model(model: Any) -> tuple[int | None, list[int]]:
    if model is None:
        return None, []
    config = getattr(model, "config", model)
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    rows, stops = config.vocab_size, getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    stops = getattr(config, "eos_token_id", None) if stops in (None, []) else stops
    stops = [] if stops is None else list(stops) if isinstance(stops, (list, tuple)) else [stops]
    _expect(0 < rows <= _MAX_ROWS, "vocab_size", f"1 to {_MAX_ROWS}", rows)
    good = len(stops) <= _MAX_STOPS and all(0 <= stop < rows for stop in stops)
    _expect(good, "eos_token_id", f"at most {_MAX_STOPS} ids below {rows}", stops[:8])
    return rows, sorted(set(stops))


def _expect(holds: bool, what: str, expected: str, got: object) -> None:
    if not holds:
        raise ValueError(f"{what}: expected {expected}, got {got}")


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _quoted(text: str) -> str:
    data = text.encode(errors="replace")
    return _json(text if len(data) <= 60 else data[:60].decode(errors="replace") + " …")


def _reason(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__


def _apart(left: Sequence[object], right: Sequence[object]) -> int:
    """The first place in which two sequences differ: the length of both where they are equal."""
    places = (i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b)
    return next(places, min(len(left), len(right)))


def _between(what: str, left: str, right: str) -> _Result:
    return False, f"{what} is {left} for the student and {right} for the teacher"


def _vocabulary(ours: _Side, theirs: _Side) -> _Result:
    at, left, right = _apart(ours.tokens, theirs.tokens), len(ours.tokens), len(theirs.tokens)
    if at < min(left, right):
        return False, f"id {at} is {ours.shown(at)} to the student and {theirs.shown(at)} to the teacher"
    if left == right:
        return True, f"{left} ids, each the same token"
    extra = f"the student's {ours.shown(at)}" if left > right else f"the teacher's {theirs.shown(at)}"
    return False, f"the student has {left} ids, the teacher {right}; the first beyond is {at}, {extra}"


def _added_tokens(ours: _Side, theirs: _Side) -> _Result:
    left, right, at = ours.added, theirs.added, _apart(ours.added, theirs.added)
    if at == len(left) == len(right):
        return True, f"{at} tokens with the same ids and flags"
    if at in (len(left), len(right)):
        who, (token_id, content, _) = ("student", left[at]) if at < len(left) else ("teacher", right[at])
        return False, f"{_quoted(content)} (id {token_id}) is an added token of the {who} alone"
    mine, other = (f"{_quoted(content)} (id {token_id})" for token_id, content, _ in (left[at], right[at]))
    if left[at][:2] == right[at][:2]:
        return False, f"{mine} has {left[at][2]} with the student and {right[at][2]} with the teacher"
    return False, f"the student's token {at} is {mine}, the teacher's {other}"


def _pipeline(ours: _Side, theirs: _Side) -> _Result:
    for what, left in ours.steps.items():
        right = theirs.steps[what]
        if left != right and not {left, right} <= {"null", "false"}:  # a flag that is not there is off
            return _between(what, _quoted(left), _quoted(right))
    at = _apart(ours.merges, theirs.merges)
    if at == len(ours.merges) == len(theirs.merges):
        return True, f"the same steps and {at} merges"
    left, right = (" ".join(side.merges[at]) if at < len(side.merges) else "none" for side in (ours, theirs))
    return _between(f"merge {at}", _quoted(left), _quoted(right))


def _special_ids(ours: _Side, theirs: _Side) -> _Result:
    names = sorted(ours.specials | theirs.specials)
    for name in names:
        left, right = ours.specials.get(name, "none"), theirs.specials.get(name, "none")
        if left != right:
            return _between(name, left, right)
    return True, ", ".join(f"{name} {ours.specials[name]}" for name in names) or "neither names any"


def _eos_ids(ours: _Side, theirs: _Side) -> _Result:
    if ours.rows is None or theirs.rows is None:
        return True, "not compared: a model is not given"
    left, right = (", ".join(map(str, side.stops)) or "none" for side in (ours, theirs))
    if left == right:
        return True, f"both end a response at {left}"
    advice = "set eos_token_id in generation_config.json alike"
    return False, f"the student ends a response at {left}, the teacher at {right}; {advice}"


def _template(ours: _Side, theirs: _Side) -> _Result:
    left, right = ours.templates, theirs.templates
    if not left and not right:
        return True, "neither has one"
    if not left or not right:
        return False, f"the {'student' if left else 'teacher'} alone has a chat template"
    names = ", ".join(left)
    if list(left) != list(right):
        return False, f"the student has the templates {names}, the teacher {', '.join(right)}"
    for name in left:
        mine, other = left[name], right[name]
        if mine != other:
            start = mine.rfind("\n", 0, _apart(mine, other)) + 1  # of the first line that differs
            mine_line, line = (_quoted(text[start:].split("\n", 1)[0]) for text in (mine, other))
            where = f"{name}, line {mine.count(chr(10), 0, start) + 1}"
            return False, f"{where}: {mine_line} with the student, {line} with the teacher"
    return True, f"the same text, {names}"


def _chats(ours: _Side, theirs: _Side) -> _Result:
    tokens, refused, suite = 0, 0, _suite()
    for chat, messages, options in suite:
        left, left_refusal = ours.rendered(deepcopy(messages), options)  # whatever a tokenizer does to them
        right, right_refusal = theirs.rendered(deepcopy(messages), options)
        if bool(left_refusal) != bool(right_refusal):
            who, why = ("student", left_refusal) if left_refusal else ("teacher", right_refusal)
            return False, f'"{chat}": the {who}\'s template refuses it ({why})'
        if left != right:
            at, sides = _apart(left, right), ((ours, left), (theirs, right))
            told = (f"{ids[at]} {side.shown(ids[at])}" if at < len(ids) else "the end" for side, ids in sides)
            return _between(f'"{chat}": token {at}', *told)
        tokens, refused = tokens + len(left), refused + bool(left_refusal)
    if refused == len(suite):
        return False, "both templates refuse every chat of the suite; is the template whole?"
    apart = f", {refused} refused by both templates" if refused else ""
    return True, f"{len(suite)} chats, {tokens} tokens, the same ids{apart}"


def _widths(ours: _Side, theirs: _Side) -> _Result:
    if ours.rows is None or theirs.rows is None:
        return True, "not compared: a model is not given"
    for who, side, rows in (("student", ours, ours.rows), ("teacher", theirs, theirs.rows)):
        if rows < len(side.tokens):
            return False, f"the {who}'s embedding has {rows} rows for a tokenizer of {len(side.tokens)} ids"
    if ours.rows == theirs.rows:
        return True, f"{ours.rows} rows each"
    return True, f"{ours.rows} and {theirs.rows} rows, padding that takes no part"


def _suite() -> list[tuple[str, list[dict[str, Any]], dict[str, Any]]]:
    """The program's chats (src/routeopd/text/chat_suite.cpp): a test asks it whether they are the same."""

    def said(content: str, role: str = "user", **more: Any) -> dict[str, Any]:
        return {"role": role, "content": content, **more}

    prompt, whole = {"add_generation_prompt": True}, {"add_generation_prompt": False}
    quiet = {**prompt, "enable_thinking": False}
    numbers = {"a": {"type": "number"}, "b": {"type": "number", "default": 0.5}}
    parameters = {"type": "object", "properties": numbers, "required": ["a"]}
    function = {"name": "add", "description": "Adds two numbers <exactly>.", "parameters": parameters}
    tools = {**prompt, "tools": [{"type": "function", "function": function}]}
    call = {"type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": 3}}}
    asked = "Please reason step by step, and put your final answer within \\boxed{}."
    problem = [said(f"Find $\\frac{{1}}{{2}}+\\frac{{1}}{{3}}$.\n\n{asked}")]
    careful, thought = "You are a careful mathematician.", "<think>\n12 * 12\n</think>\n\n144"
    turns = [said(careful, "system"), said("What is 12 * 12?"), said(thought, "assistant")]
    turns += [said("And times 1000000007?")]
    called = [said("Add 2 and 3."), said("", "assistant", tool_calls=[call])]
    called += [{"role": "tool", "name": "add", "content": "5"}]
    family, letters = "👩\u200d👩\u200d👧", "你好，世界 | Здравствуй | नमस्ते"
    scripts = f"naïve café — Ⅷ ½ × π ≈ 3.14159 \u00a0 | {letters} | {family} e\u0301 \u200b"
    spaces = "  a\tb \r\n\r\n  c   d\n\n\n\nx=  0012345678901"
    specials = "<|im_end|><|endoftext|> <think></think> <s></s> [INST] <|eot_id|><|User|> {{ x }} {% y %}"
    code = "```python\ndef f(x):\n    return {'a': [x ** 2, \"b\"]}  # it's I'LL we've\n```"
    return [
        ("a problem", problem, prompt),
        ("a problem, thinking off", problem, quiet),
        ("a system message and two turns", turns, prompt),
        ("two turns, thinking off", turns, quiet),
        ("a question with its answer", [said("2 + 2?"), said("4", "assistant")], whole),
        ("tools on offer", problem, tools),
        ("a tool call and its result", called, tools),
        ("scripts, signs and joined emoji", [said(scripts)], prompt),
        ("spaces, line ends and digits", [said(spaces)], prompt),
        ("special tokens inside the text", [said(specials)], prompt),
        ("code", [said(code)], prompt),
        ("an empty message", [said("")], prompt),
    ]
