"""Writes tokenizer/*: small tokenizer.json files of every kind, and what Hugging Face's `tokenizers` makes of varied text.

    words/    ignore_merges, no merges, whole words; the GPT-2 pattern of ByteLevel; <|endoftext|>
    trained/  a byte-level BPE trained here; the Split pattern of Qwen; special and other added tokens, looked for before
              and after normalisation, one of them a beginning of another; merges as pairs
    partial/  merges as strings, add_prefix_space, several Split patterns, and a vocabulary that lacks most bytes
    qwen/     as `trained`, with NFC, tokens whose normal form is another text, and the ids of texts on a grid of marks
    llama2/   Prepend and Replace, no pre-tokenizer, byte fallback that lacks some bytes, an unknown token that is fused,
              TemplateProcessing, a Sequence of decoders
    llama3/   ignore_merges, three digits a word, ByteLevel and TemplateProcessing in a Sequence
    smollm/   Digits before ByteLevel with its pattern
    meta/     Metaspace, for the first word only, split; unknown tokens that are not fused; the Metaspace decoder
    flags/    added tokens with every combination of their flags, a normalizer that replaces and strips, no decoder
    splits/   a Sequence of every behaviour of Split, Punctuation, Whitespace, and the patterns of DeepSeek

Beside each file, cases.jsonl: a first line that tells how it was made, then {"text", "ids", "special", "decoded", "plain"}:
"special" are the ids with those that the post-processor adds (left out where they are "ids"), "decoded" the text of "ids"
(left out where it is "text"), "plain" the same without special tokens (left out where it is "decoded"); "text" is missing
for ids that no text gives. nfc.jsonl: texts and their NFC.

Written with tokenizers 0.23.3 and Python 3.11.7 by: python tests/goldens/make_tokenizer_goldens.py
"""
from __future__ import annotations

import itertools
import json
import platform
import random
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

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
    "\n\n\n\n\n", "a \n\n \n\n\n b",
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
    "banana ananan eettte xxyzx-- anx",
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


LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
DEEPSEEK = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"""
            r"|\s*[\r\n]+|\s+(?!\S)|\s+")
MARKS = "\u0300\u0301\u0308\u030a\u0323\u0327\u0338\u0345\u0334\u05b0\u05bc\u064b\u0651\u093c\u094d\u0e48\u3099\u302e\u1ac5\u20d0\u0360"
BASES = "aeoAsqS \u05e9\u0924\u306f\u00e9\u1e9b\u0344\u212b\u2126\u1100\u1161\u11a8\uac00\uac01\ud7a3\u0958\ufb2c\u09c7\u09be"


def trained_on(tokenizer: Tokenizer, size: int, alphabet: list[str], special: list[str]) -> Tokenizer:
    tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=alphabet, special_tokens=special, show_progress=False))
    return tokenizer


def qwen() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trained_on(tokenizer, 400, pre_tokenizers.ByteLevel.alphabet(), [])
    tokenizer.add_tokens(added(("<|endoftext|>", True, False), ("<|im_start|>", True, False), ("<|im_end|>", True, False),
                               ("<think>", False, False), ("e\u0301", True, True), ("\u00e9l", True, True),
                               ("o\u0323\u0302", False, False), ("\u212b", False, True)))
    return tokenizer


def llama2() -> Tokenizer:
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256) if byte not in (0x09, 0xE2, 0xF0)]
    symbols = sorted("▁abcdefghijklmnorstuvwxyTHL.,'12é数")
    pairs = [("▁", "t"), ("h", "e"), ("▁t", "he"), ("▁", "a"), ("l", "l"), ("e", "r"), ("▁", "▁"), ("▁▁", "▁▁"), ("1", "2"),
             ("<unk>", "a"), ("<0x0A>", "<0x0A>"), ("o", "▁")]
    vocab = {token: i for i, token in enumerate(dict.fromkeys(pieces + symbols + [a + b for a, b in pairs]))}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=pairs, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="$A $B", special_tokens=[("<s>", 1), ("</s>", 2)])
    tokenizer.add_tokens(added(("<unk>", True, True), ("<s>", True, False), ("</s>", True, False), ("<think>", False, False)))
    return tokenizer


def llama3() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA3), behavior="isolated", invert=False),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trained_on(tokenizer, 380, pre_tokenizers.ByteLevel.alphabet(), [])
    content = json.loads(tokenizer.to_str())
    for word in ("Ġbananas", "Hello", "Ġworld", "123", "ĠĠĠĊ"):  # that no merges give
        content["model"]["vocab"].setdefault(word, len(content["model"]["vocab"]))
    tokenizer = Tokenizer.from_str(json.dumps(content))
    tokenizer.add_tokens(added(("<|begin_of_text|>", True, False), ("<|eot_id|>", True, False)))
    begin = tokenizer.token_to_id("<|begin_of_text|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=True),
        processors.TemplateProcessing(single="<|begin_of_text|> $A", pair="$A $B", special_tokens=[("<|begin_of_text|>", begin)])])
    return tokenizer


def smollm() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = [symbol for symbol in pre_tokenizers.ByteLevel.alphabet() if symbol not in "ĀāĂÅ³"]
    return trained_on(tokenizer, 360, alphabet, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])


def meta() -> Tokenizer:
    symbols = sorted("▁abcdefghilnoprstuwyH.,'12é")
    pairs = [("▁", "w"), ("l", "l"), ("H", "e"), ("He", "ll"), ("▁", "a"), ("p", "p"), ("▁a", "pp"), ("1", "2")]
    vocab = {token: i for i, token in enumerate(dict.fromkeys(["<unk>", *symbols, *(a + b for a, b in pairs)]))}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=pairs, unk_token="<unk>", fuse_unk=False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement="▁", prepend_scheme="first", split=True)
    tokenizer.decoder = decoders.Metaspace(replacement="▁", prepend_scheme="first", split=True)
    tokenizer.add_tokens(added(("<|endoftext|>", True, False), ("<think>", False, True)))
    return tokenizer


def flags() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Replace(Regex(r"[\u2018\u2019]+"), "'"), normalizers.Replace("Q", "qu"), normalizers.Strip(True, False)])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trained_on(tokenizer, 300, pre_tokenizers.ByteLevel.alphabet(), [])
    names = ["  "] + [f"<{'Q' if i % 2 else 'k'}{i}>" for i in range(30)] + ["word"]
    tokenizer.add_tokens([
        AddedToken(name, single_word=single, lstrip=left, rstrip=right, normalized=normal, special=special)
        for name, (single, left, right, normal, special) in zip(names, itertools.product((False, True), repeat=5))])
    # White space that takes white space along: a second one begins inside what the first took, and is dropped.
    tokenizer.add_tokens([AddedToken("\n\n", lstrip=True, rstrip=True, normalized=False)])
    return tokenizer


def splits() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        split(Regex(r"\p{N}{1,3}"), behavior="isolated"), split(Regex("[一-龥぀-ゟ゠-ヿ]+"), behavior="isolated"),
        split("an", behavior="merged_with_previous"), split(Regex("e+|t"), behavior="merged_with_next"),
        split(Regex("[xyz]"), behavior="contiguous"), split("\t", behavior="removed"),
        split(Regex(r"[^\x00]"), behavior="removed", invert=True), split(Regex("x*"), behavior="merged_with_previous", invert=True),
        split(Regex(DEEPSEEK), behavior="isolated"), pre_tokenizers.Punctuation("contiguous"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 2, 0), decoders.Replace("the", "THE")])
    return trained_on(tokenizer, 340, pre_tokenizers.ByteLevel.alphabet(), [])


def random_texts(tokenizer: Tokenizer, rng: random.Random) -> list[str]:
    tags = [token.content for token in tokenizer.get_added_tokens_decoder().values()] or ["<s>"]
    texts = []
    for _ in range(30):  # tokens among words, white space and one another
        texts.append("".join(rng.choice(tags) if rng.random() < 0.5 else rng.choice((" ", "  ", "a", "\t", "\u00a0", "é", "_", "\n", "word", "1", "\u2019"))
                             for _ in range(rng.randrange(1, 9))))
    for _ in range(25):
        texts.append("".join(rng.choice("ab Z19'sStTlLdD\u017f\n\r\t \u00a0.,!-é五\u0301🙂²xyzte") for _ in range(rng.randrange(1, 30))))
    for _ in range(25):
        texts.append("".join(chr(rng.choice((rng.randrange(0xD800), rng.randrange(0xE000, 0x110000), rng.randrange(0x250)))) for _ in range(8)))
    for _ in range(15):
        texts.append("".join(rng.choice(MARKS + BASES) for _ in range(rng.randrange(1, 8))))
    return texts


def cases_of(tokenizer: Tokenizer, rng: random.Random) -> list[dict[str, Any]]:
    def case(ids: list[int], text: str | None) -> dict[str, Any]:
        found = {"ids": ids, "decoded": tokenizer.decode(ids, skip_special_tokens=False),
                 "plain": tokenizer.decode(ids, skip_special_tokens=True)}
        if found["plain"] == found["decoded"]:
            del found["plain"]
        if text is not None:
            found = {"text": text, **found, "special": tokenizer.encode(text).ids}
            if found["special"] == ids:
                del found["special"]
            if found["decoded"] == text:
                del found["decoded"]
        return found

    cases = [case(tokenizer.encode(text, add_special_tokens=False).ids, text) for text in TEXTS + random_texts(tokenizer, rng)]
    # Ids at random spell broken UTF-8 in every way.
    size = tokenizer.get_vocab_size()
    return cases + [case([rng.randrange(rng.choice((size, min(size, 300)))) for _ in range(16)], None) for _ in range(30)]


def write_lines(path: Path, made: dict[str, Any], rows: list[Any]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=True, separators=(",", ":")) + "\n" for row in [made, *rows]))


def main() -> None:
    made = {"made_by": "make_tokenizer_goldens.py", "tokenizers": tokenizers.__version__,
            "python": platform.python_version(), "seed": SEED}
    rng = random.Random(SEED)
    for make in (words, trained, partial, qwen, llama2, llama3, smollm, meta, flags, splits):
        folder = HERE / make.__name__
        folder.mkdir(parents=True, exist_ok=True)
        content = json.loads(make().to_str())
        if make in (partial, llama2):  # the older form of merges, which this release of the library reads and does not write
            content["model"]["merges"] = ["#version: 0.2"] + [" ".join(pair) for pair in content["model"]["merges"]]
        text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
        (folder / "tokenizer.json").write_text(text + "\n")
        write_lines(folder / "cases.jsonl", made, cases_of(Tokenizer.from_str(text), rng))
    # Every character that NFC changes, every mark behind a letter, and marks in any order.
    nfc = normalizers.NFC().normalize_str
    texts = [chr(c) for c in range(0x30000) if not 0xD800 <= c <= 0xDFFF and nfc(chr(c)) != chr(c)]
    texts = ["".join(texts[i:i + 40]) for i in range(0, len(texts), 40)]
    texts += ["".join(rng.choice(MARKS + BASES) for _ in range(rng.randrange(2, 12))) for _ in range(700)]
    write_lines(HERE / "nfc.jsonl", made, [{"text": text, "nfc": nfc(text)} for text in texts])


if __name__ == "__main__":
    main()
