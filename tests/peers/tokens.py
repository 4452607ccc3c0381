#!/usr/bin/env python3
"""Our tokenizer against Hugging Face's `tokenizers`, both reading the same tokenizer.json, on real and on hard texts.

    python tokens.py PROGRAM DATA_DIR TOKENIZER_DIR...

Every problem of DATA_DIR/*.jsonl and the hard texts below go through `PROGRAM tokenize DIR`, plain and with
the post-processor's ids, and the ids, with others at random, through `PROGRAM tokenize DIR --decode`, with and without
special tokens. Prints a line for each tokenizer; exits 1 with the first differences. Written for tokenizers 0.23.3.
"""
from __future__ import annotations

import json
import pathlib
import random
import subprocess
import sys
from collections.abc import Iterator

from tokenizers import Tokenizer

from results import report

SEED = 7
RANDOM_TEXTS = 6000
RANDOM_IDS = 3000
SHOWN = 5
SCRIPTS = ("The quick brown fox", "Größe élève naïve Ångström", "Это задача о числах", "数学の問題を解く。答えは42です", "한국어 문장 한글",
           "مرحبا بالعالم ١٢٣", "हिन्दी में लिखा", "ภาษาไทย", "עברית שָׁלוֹם", "ქართული", "Ελληνικά ΰ", "தமிழ்", "ខ្មែរ", "አማርኛ",
           "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟙𝟚𝟛", "ᠮᠣᠩᠭᠣᠯ", "Tiếng Việt đặc biệt", "ѐ ѝ й ё", "ﬁ ﬀ ǆ ǅ ſ K Å İ ı ẞ", "∑∫√≤≠ ⟨x⟩ ₁² ½ Ⅷ")
EMOJI = ("🙂", "👩‍👩‍👧‍👦", "👍🏽", "🇩🇪🇫🇷", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "❤️", "👨🏿‍🚀", "#️⃣", "🧑‍💻a🙂b", "🙂🙂🙂")
SPACES = ("", " ", "  ", "   a", "a   ", "\t\t", "\n", "\n\n\n", "\r\n\r\n", " \n \r\n x", "a\r", "\u00a0x\u00a0", "\u180ex\u180e", "\ufeffx\ufeff",
          "\u200bx\u200d\u2060", "\u0085\u2028\u2029", "\u2003 \u3000", "\x0b\x0c \x1c\x1d", "x \n\n  y", " " * 40 + "x", "\n" * 33 + " ")
MARKS = "\u0300\u0301\u0308\u030a\u0323\u0327\u0338\u0345\u0334\u05b0\u05bc\u064b\u0651\u093c\u094d\u0e48\u3099\u302e\u1ac5\U0001d16d\u20d0\u0360"
JAMO = "\u1100\u1161\u11a8\uac00\uac01\u1112\u1175\u11c2\u11a7\ud7a3"
TAGS = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<think>", "</think>", "<tool_call>", "<s>", "</s>", "<unk>", "<|start_story|>",
        "<|end_story|>", "<repo_name>", "<|im_start", "|im_end|>", "<", "|>", "<0x41>", "▁", "Ġ")
OTHERS = ("it's I'LL we've THEY'RE 'ſ 'S't 'd", "1234567890 3.14 1e-10 ١٢٣ Ⅷ", "\x00\x01\x7f", "a\x00b", "\ue000\uf8ff", "\ufffe\uffff\U0010ffff",
          "\u0378\u05ff\U000e0fff\U00031350\U0002ebf0\U00016d40", "x" * 300, "ab" * 700, "é" * 400, "🙂" * 200, "1" * 500, "$\\frac{1}{2}$",
          "if (x) {\n    y();\n}\n", "_".join("abc"), "C:\\path\\to\\x", "https://example.org/a?b=c#d", "“q” — ‘r’ …", "a" * 33 + " " + "b" * 31)


def hard_texts(rng: random.Random, tags: list[str]) -> Iterator[str]:
    yield from SCRIPTS + EMOJI + SPACES + OTHERS
    yield from map(chr, range(256))
    yield from ("a" + chr(c) + "b 1" + chr(c) for c in range(0x80, 0x3000, 7))
    parts = SCRIPTS + EMOJI + SPACES + OTHERS[:7]
    for tag in tags:
        yield from (tag, f"a{tag}b", f" {tag} ", f"\n {tag}\t{tag}{tag} x", tag[:-1], tag[1:], tag.upper())
    for _ in range(RANDOM_TEXTS):
        kind = rng.randrange(6)
        if kind == 0:  # any code points
            yield "".join(chr(rng.choice((rng.randrange(0xD800), rng.randrange(0xE000, 0x110000), rng.randrange(0x250))))
                          for _ in range(rng.randrange(1, 30)))
        elif kind == 1:  # marks in any order
            yield "".join(rng.choice(MARKS + "aeoAEOsqSQ \u05e9\u0924\u306f\u00e9\u1e9b\u0344\u212b\u2126") for _ in range(rng.randrange(1, 12)))
        elif kind == 2:
            yield "".join(rng.choice(JAMO + "a ") for _ in range(rng.randrange(1, 12)))
        elif kind == 3:  # what the split patterns tell apart
            yield "".join(rng.choice("ab Z19'sStTlLdD\u017f\n\r\t \u00a0.,!-é五\u0301🙂²") for _ in range(rng.randrange(1, 40)))
        else:
            yield "".join(rng.choice(tags if rng.random() < 0.3 else parts) for _ in range(rng.randrange(1, 8)))


def ours(program: str, directory: str, rows: list[dict[str, object]], *options: str) -> list[dict[str, object]]:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    run = subprocess.run([program, "tokenize", directory, *options], input=lines, text=True, capture_output=True)
    if run.returncode != 0:
        sys.exit(f"{program} tokenize {directory} failed: {run.stderr.strip()}")
    answers = [json.loads(line) for line in run.stdout.split("\n") if line]
    if len(answers) != len(rows):
        sys.exit(f"{program} tokenize {directory}: {len(rows)} lines went in, {len(answers)} came out.")
    return answers


def compare(program: str, directory: str, data: list[str]) -> int:
    theirs = Tokenizer.from_file(str(pathlib.Path(directory) / "tokenizer.json"))
    rng = random.Random(SEED)
    tags = list(dict.fromkeys([token.content for token in theirs.get_added_tokens_decoder().values()] + list(TAGS)))
    texts = data + [text for text in hard_texts(rng, tags) if not any(0xD800 <= ord(c) < 0xE000 for c in text)]
    wrong = []
    seen: list[list[int]] = []
    for special in (False, True):
        wanted = [theirs.encode(text, add_special_tokens=special).ids for text in texts]
        got = ours(program, directory, [{"text": text, "special": special} for text in texts])
        wrong += [("ids", special, text, a, b.get("ids")) for text, a, b in zip(texts, wanted, got) if a != b.get("ids")]
        seen += wanted
    size = theirs.get_vocab_size()
    low = [i for i in range(size) if len(theirs.id_to_token(i) or "") < 7][:600]  # bytes and other short ones
    seen += [[rng.choice(low) if rng.random() < 0.7 else rng.randrange(size) for _ in range(rng.randrange(24))] for _ in range(RANDOM_IDS)]
    for skip in (False, True):
        got = ours(program, directory, [{"ids": ids, "skip_special": skip} for ids in seen], "--decode")
        for ids, answer in zip(seen, got):
            wanted_text = theirs.decode(ids, skip_special_tokens=skip)
            if wanted_text != answer.get("text"):
                wrong.append(("text", skip, ids[:40], wanted_text, answer.get("text")))
    print(f"{directory}: {len(data)} data texts and {len(texts) - len(data)} hard ones encoded twice, {2 * len(seen)} decoded, {len(wrong)} differences")
    report(f"{pathlib.Path(directory).name}: ids and texts", "tokenizers", "0 differ",
           f"{len(wrong)} of {2 * len(texts):,} encoded and {2 * len(seen):,} decoded", not wrong)
    for kind, option, given, wanted_value, got_value in wrong[:SHOWN]:
        print(f"  {kind} ({option}) of {given!r:.300}:\n    theirs {wanted_value!r:.300}\n    ours   {got_value!r:.300}")
    return len(wrong)


def main() -> None:
    if len(sys.argv) < 4:
        sys.exit("usage: tokens.py PROGRAM DATA_DIR TOKENIZER_DIR...")
    data = [text for path in sorted(pathlib.Path(sys.argv[2]).glob("*.jsonl")) for line in path.open()
            for text in [json.loads(line)["problem"]]]
    sys.exit(1 if sum(compare(sys.argv[1], directory, data) for directory in sys.argv[3:]) else 0)


if __name__ == "__main__":
    main()
