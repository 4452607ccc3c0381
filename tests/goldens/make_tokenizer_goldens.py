"""Writes tokenizer/*: three small tokenizer.json files, and what Hugging Face's `tokenizers` makes of varied text.

    words/    ignore_merges, no merges, whole words; the GPT-2 pattern of ByteLevel; <|endoftext|>
    trained/  a byte-level BPE trained here; the Split pattern of Qwen; special and other added tokens, looked for before
              and after normalisation, one of them a beginning of another; merges as pairs
    partial/  merges as strings, add_prefix_space, several Split patterns, and a vocabulary that lacks most bytes

Beside each file, cases.jsonl: a first line that tells how it was made, then {"text", "ids", "decoded", "plain"} where
"plain" is decoded without special tokens, or {"ids", "decoded", "plain"} for ids that no text gives.

Written with tokenizers 0.23.3 and Python 3.11.7 by: python tests/goldens/make_tokenizer_goldens.py
"""
from __future__ import annotations

import json
import platform
import random
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

SEED = 20261
HERE = Path(__file__).parent / "tokenizer"
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
        r"|\s+(?!\S)|\s+")
CORPUS = [
    "The teacher reads what the student wrote, and the student learns from the teacher's answers.",
    "Let x = 12, y = 345 and z = 67,890; then x + y = 357. We'll see that it's so, they've shown it's true.",
    "def f(x):\n    return x + 1\n\nfor i in range(10):\n        print(f(i))\n",
    "Der Schüler lernt; größer, schöner, weiß. Où êtes-vous allés, élève? Это простая задача. 数学の問題を解く。",
    "Therefore, the answer is \\boxed{42}. First, second, third, ... one, two, three apples and pears.",
    "apple apples banana bananas the then there these those they them other mother father together",
]
TEXTS = [
    "", " ", "  ", "a", "Hello", "Hello world", " Hello  world ", "hello   world", "apples", " apples", "apples apples",
    "the student's answer", "We'll see, they'VE said it's what I'd do; you're I'm DON'T", "'s't're've'm'll'd 'S 'LL",
    "1", "12", "1234567890", "x = 12,345.67", "3.14159e-10", "Ⅷ ² ½ ٣٤٥ 五", "1st 2nd 3rd", "a1b2c3",
    "\n", "\n\n", "\r\n", "a\nb", "a\n\nb", "a \n b", "a\r\n\r\nb", "   \n   \n", "a   \n", "\n   a", "\t\ttabs\t",
    "line one\nline two\n  indented\n", "if (x) {\n    y();\n}\n", "a" + " " * 40 + "b", " " * 17, "x" * 70, "ab" * 30,
    "Größe, schöner Straße", "élève où êtes", "e\u0301 a\u0308\u0323 n\u0303", "\u0301 lone mark", "Это задача", "数学の問題を解く。答えは42です",
    "한국어 문장", "مرحبا بالعالم", "हिन्दी में", "ภาษาไทย", "🙂", "👩‍👩‍👧‍👦 family", "a🙂b", "🇩🇪🇫🇷", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛",
    "\x00\x01\x1f\x7f", "nul\x00inside", "\u00a0nbsp\u00a0", "\u2003em\u2009thin", "\u3000全角", "zero\u200bwidth\u200d\u2060joiner", "\ufeffbom",
    "\u180emvs\u180e", "\u0085next\u2028line\u2029", "\ue000\uf8ff private \ufffd\uffff", "\U0010ffff last",
    "<|endoftext|>", "a<|endoftext|>b", "a <|endoftext|> b", "<|endoftext|><|endoftext|>", "<|endoftext|", "<|endoftext|>>",
    "<|end<|endoftext|>oftext|>", "<|im_start|>user\nHi<|im_end|>\n", "<think>\nhm\n</think>\n\nSo", "<think", "<tool", "<tool>",
    "<tool><tool_call>x</tool_call>", "<tool_cal", "a<b><c>b<|x y|>é<|x y|", "ab<b>cab", "!@#$%^&*()_+-=[]{}|;:'\",.<>/?`~",
    "... --- !!! ???", "((nested) [brackets])", "https://example.org/a?b=c&d=e#f", "C:\\path\\to", "$\\frac{1}{2} + \\sqrt{3}$",
    "\\boxed{42}\n\n", "snake_case camelCase kebab-case", "don’t “quote” — dash… •", "ſ K Å İ ı ẞ", "ǆ ǅ ﬁ ﬀ", "ª º µ ß ÿ",
    "The teacher reads what the student wrote.\n\nTherefore, the answer is \\boxed{42}.",
]


def added(*tokens: tuple[str, bool, bool]) -> list[AddedToken]:
    return [AddedToken(content, special=special, normalized=normalized) for content, special, normalized in tokens]


def words() -> Tokenizer:
    symbols = sorted(pre_tokenizers.ByteLevel.alphabet())
    whole = ["Hello", "Ġworld", "Ġapples", "apples", "Ġthe", "Ġstudent", "'s", "Ġ12", "Ġ=", "ĊĊ", "ĠĠĠ", "æķ°åŃ¦", "ĠgrÃ¶ÃŁer"]
    model = models.BPE(vocab={token: i for i, token in enumerate(symbols + whole)}, merges=[], ignore_merges=True)
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def trained() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=520, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    tokenizer.add_tokens(added(
        ("<|endoftext|>", True, False), ("<|im_start|>", True, False), ("<|im_end|>", True, False),
        ("<think>", False, False), ("</think>", False, False), ("<tool", False, False), ("<tool_call>", False, False),
        ("<b>", False, True), ("b><c>", False, False), ("<|x y|>é", True, True), ("the", False, True)))
    return tokenizer


def partial() -> Tokenizer:
    pairs = [("Ġ", "a"), ("a", "b"), ("b", "a"), ("ab", "ab"), ("Ġ", "Ġ"), ("Ġa", "b"), ("l", "l"), ("e", "ll"), ("1", "2")]
    symbols = sorted("Ġabcdehlorstw123.,'<>|é") + ["Ã"]
    vocab = {token: i for i, token in enumerate(dict.fromkeys(symbols + [a + b for a, b in pairs]))}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=pairs))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"\p{N}"), behavior="isolated", invert=False),
        pre_tokenizers.Split(Regex(r"(?=[.,])|'"), behavior="isolated", invert=False),  # matches that are empty
        pre_tokenizers.ByteLevel(add_prefix_space=True, use_regex=True)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|endoftext|>"])
    return tokenizer


def cases_of(tokenizer: Tokenizer, rng: random.Random) -> list[dict[str, Any]]:
    def decoded(ids: list[int]) -> dict[str, Any]:
        return {"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                "plain": tokenizer.decode(ids, skip_special_tokens=True)}

    cases = [{"text": text, **decoded(tokenizer.encode(text).ids)} for text in TEXTS]
    # Ids at random spell broken UTF-8 in every way.
    return cases + [decoded([rng.randrange(tokenizer.get_vocab_size()) for _ in range(16)]) for _ in range(25)]


def main() -> None:
    made = {"made_by": "make_tokenizer_goldens.py", "tokenizers": tokenizers.__version__,
            "python": platform.python_version(), "seed": SEED}
    rng = random.Random(SEED)
    for make in (words, trained, partial):
        folder = HERE / make.__name__
        folder.mkdir(parents=True, exist_ok=True)
        content = json.loads(make().to_str())
        if make is partial:  # the older form of merges, which this release of the library reads and does not write
            content["model"]["merges"] = ["#version: 0.2"] + [" ".join(pair) for pair in content["model"]["merges"]]
        text = json.dumps(content, ensure_ascii=False)
        (folder / "tokenizer.json").write_text(text + "\n")
        lines = [made] + cases_of(Tokenizer.from_str(text), rng)
        (folder / "cases.jsonl").write_text("".join(json.dumps(line, ensure_ascii=True) + "\n" for line in lines))


if __name__ == "__main__":
    main()
