"""Writes unicode_tables.cpp: what Hugging Face's `tokenizers` takes for letters, digits, spaces and combining marks.

Its parts know different releases of Unicode: Oniguruma (split patterns) 16, Rust's standard library (Digits) and regex
crate (single_word) later ones, its normalisation 9. So every table is asked of the library itself, code point by code point,
and no other Unicode data is used: a tokenizer of ours then cuts text as `tokenizers` does, whatever this system's
libraries know.

Written with tokenizers 0.23.3 by: python scripts/make_tokenizer_tables.py
"""
from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import tokenizers
from tokenizers import Regex, normalizers, pre_tokenizers

ALL = [chr(point) for point in range(0x110000) if not 0xD800 <= point <= 0xDFFF]
CATEGORIES = ("Lu", "Ll", "Lt", "Lm", "Lo", "M", "N", "P", "S")
nfc, nfd = normalizers.NFC().normalize_str, normalizers.NFD().normalize_str


def ranges(points: Iterable[int]) -> list[tuple[int, int]]:
    found: list[list[int]] = []
    for point in sorted(points):
        if found and found[-1][1] == point - 1:
            found[-1][1] = point
        else:
            found.append([point, point])
    return [(first, last) for first, last in found]


def in_category(name: str) -> set[int]:
    left = normalizers.Replace(Regex(rf"\P{{{name}}}"), "").normalize_str("".join(ALL))
    return set(map(ord, left))


def cut_into(count: int, cut: Callable[[str], list[object]]) -> set[int]:
    """The characters that, between two letters, make `cut` give so many pieces."""
    return {ord(char) for char in ALL if len(cut(f"a{char}a")) == count}


def combining_classes() -> dict[int, int]:
    """Canonical combining classes, from where a mark moves to beside marks of a known class."""
    known = [(1, "\u0334"), (7, "\u093c"), (8, "\u3099"), (9, "\u094d"), *((10 + i, chr(0x5B0 + i)) for i in range(10)),
             (20, "\u05bb"), (21, "\u05bc"), (22, "\u05bd"), (23, "\u05bf"), (24, "\u05c1"), (25, "\u05c2"),
             (26, "\ufb1e"), *((27 + i, chr(0x64B + i)) for i in range(8)), (35, "\u0670"), (36, "\u0711"), (84, "\u0c55"),
             (91, "\u0c56"), (103, "\u0e38"), (107, "\u0e48"), (118, "\u0eb8"), (122, "\u0ec8"), (129, "\u0f71"),
             (130, "\u0f72"), (132, "\u0f74"), (202, "\u0321"), (214, "\u1dce"), (216, "\u031b"), (218, "\u302a"),
             (220, "\u0316"), (222, "\u059a"), (224, "\u302e"), (226, "\U0001d16d"), (228, "\u05ae"), (230, "\u0301"),
             (232, "\u0315"), (233, "\u035c"), (234, "\u035d"), (240, "\u0345")]
    classes = {}
    for char in ALL:
        if nfd(char) != char or (nfd(char + "\u0334") == char + "\u0334" and nfd("\u0345" + char) == "\u0345" + char):
            if char != "\u0345":
                continue  # it decomposes, or it never moves: class 0
        below = [number for number, mark in known if nfd(char + mark) == mark + char and mark != char]
        above = [number for number, mark in known if nfd(mark + char) == char + mark and mark != char]
        inside = [number for number, _ in known if number not in below and number not in above]
        assert len(inside) == 1, (hex(ord(char)), inside)
        classes[ord(char)] = inside[0]
    return classes


def array(kind: str, name: str, rows: list[str]) -> str:
    lines, line = [], " "
    for row in rows:
        if len(line) + len(row) > 108:
            lines.append(line)
            line = " "
        line += f" {row},"
    return f"const {kind} {name}[] = {{\n" + "\n".join([*lines, line]) + "\n};\n"


def main() -> None:
    tables = {f"k{name}": in_category(name) for name in CATEGORIES}
    tables["kNumeric"] = cut_into(3, pre_tokenizers.Digits(True).pre_tokenize_str)
    tables["kPunctuation"] = cut_into(3, pre_tokenizers.Punctuation().pre_tokenize_str)
    tables["kWord"] = cut_into(1, pre_tokenizers.Whitespace().pre_tokenize_str)
    tables["kSpace"] = cut_into(2, pre_tokenizers.WhitespaceSplit().pre_tokenize_str)
    text = [f"// Written by scripts/make_tokenizer_tables.py from tokenizers {tokenizers.__version__}; not to be edited.\n"
            "// SPDX-License-Identifier: Apache-2.0\n"
            '#include "routeopd/tokenizer/unicode_tables.h"\n\nnamespace routeopd::tokenizer {\nnamespace {\n\n// clang-format off\n']
    for name, points in tables.items():
        text.append(array("CodeRange", name, [f"{{0x{a:X}, 0x{b:X}}}" for a, b in ranges(points)]))
    classes = combining_classes()
    text.append(array("CombiningClass", "kCombining", [
        f"{{0x{first:X}, 0x{last:X}, {number}}}" for number in sorted(set(classes.values()))
        for first, last in ranges(point for point, each in classes.items() if each == number)]))
    pairs = []
    whole_of = {nfd(char): char for char in reversed(ALL)}
    for char in ALL:
        parts = nfd(char)
        if parts == char or 0xAC00 <= ord(char) <= 0xD7A3:  # Hangul syllables go by arithmetic
            continue
        # One step: the last mark taken off; what is left is a character too, or the whole is a singleton.
        first, last = (whole_of[parts[:-1]], ord(parts[-1])) if len(parts) > 1 else (parts, 0)
        assert len(first) == 1, hex(ord(char))
        pairs.append(f"{{0x{ord(char):X}, 0x{ord(first):X}, 0x{last:X}, {'true' if nfc(char) == char else 'false'}}}")
    text.append(array("Decomposition", "kDecompositions", pairs))
    text.append("// clang-format on\n\n}  // namespace\n\n")
    for function, name in [*((f"category_{n.lower()}", f"k{n}") for n in CATEGORIES), ("numeric", "kNumeric"),
                           ("punctuation", "kPunctuation"), ("word", "kWord"), ("space", "kSpace")]:
        text.append(f"std::span<const CodeRange> {function}() {{\n  return {name};\n}}\n")
    text.append("std::span<const CombiningClass> combining_classes() {\n  return kCombining;\n}\n"
                "std::span<const Decomposition> decompositions() {\n  return kDecompositions;\n}\n\n"
                "}  // namespace routeopd::tokenizer\n")
    (Path(__file__).parents[1] / "src/routeopd/tokenizer/unicode_tables.cpp").write_text("".join(text))


if __name__ == "__main__":
    main()
