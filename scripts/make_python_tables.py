"""Writes what Python knows of each code point, as runs {first, last, step}, into a folder:

    python scripts/make_python_tables.py src/routeopd/base

    python_unicode_classes.cpp   which points are letters, digits, printable, …
    python_unicode_cases.cpp     their upper, lower and title case

The committed files were written by Python 3.11 (Unicode 14.0), whose str methods the chat templates are compared with.
"""
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

POINTS = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
WIDTH = 110
lines: list[str] = []


def runs(codes: list[tuple[int, int]]) -> list[list[int]]:
    """[first, last, step, value] over ascending (code, value): neighbours of one value at distance 1 or 2."""
    found: list[list[int]] = []
    for code, value in codes:
        if found and found[-1][3] == value:
            step = code - found[-1][1]
            if step in (1, 2) and found[-1][2] in (0, step):
                found[-1][1:3] = [code, step]
                continue
        found.append([code, code, 0, value])
    return found


def write(kind: str, name: str, rows: list[str]) -> None:
    lines.append(f"\nconstexpr std::array<{kind}, {len(rows)}> {name}Rows{{{{")
    line = "   "
    for row in rows:
        if len(line) + len(row) + 2 > WIDTH:
            lines.append(line)
            line = "   "
        line += f" {row},"
    lines.append(f"{line}\n}}}};\nconst std::span<const {kind}> {name}{{{name}Rows}};")


def write_set(name: str, holds: Callable[[str], bool]) -> None:
    found = runs([(ord(point), 0) for point in POINTS if holds(point)])
    write("Run", name, [f"{{{first:#x}, {last:#x}, {step or 1}}}" for first, last, step, _ in found])


def write_mapping(name: str, mapped: Callable[[str], str], base: Callable[[str], str]) -> None:
    """The points whose `mapped` is one other code point than `base` gives."""
    pairs = [(ord(point), ord(mapped(point)) - ord(point)) for point in POINTS
             if mapped(point) != base(point) and len(mapped(point)) == 1]
    write("MappedRun", name,
          [f"{{{first:#x}, {last:#x}, {step or 1}, {value}}}" for first, last, step, value in runs(pairs)])


def write_long(name: str, mapped: Callable[[str], str], base: Callable[[str], str]) -> None:
    rows = []
    for point in POINTS:
        if mapped(point) != base(point) and len(mapped(point)) > 1:
            codes = [ord(each) for each in mapped(point)] + [0]
            rows.append(f"{{{ord(point):#x}, {{{', '.join(f'{code:#x}' for code in codes[:3])}}}}}")
    write("LongMapping", name, rows)


def write_file(path: Path) -> None:
    head = (f"// Python's view of Unicode {unicodedata.unidata_version}; written by scripts/make_python_tables.py.\n"
            "// SPDX-License-Identifier: Apache-2.0\n#include <array>\n\n"
            '#include "routeopd/base/python_unicode_tables.h"\n\n// clang-format off\nnamespace routeopd::python {')
    path.write_text("\n".join([head, *lines, "\n}  // namespace routeopd::python\n// clang-format on\n"]))
    lines.clear()


def main() -> None:
    folder = Path(sys.argv[1])
    write_set("kPrintable", str.isprintable)
    write_set("kAlpha", str.isalpha)
    write_set("kDecimal", str.isdecimal)
    write_set("kDigit", str.isdigit)
    write_set("kNumeric", str.isnumeric)
    write_file(folder / "python_unicode_classes.cpp")
    write_set("kUpper", str.isupper)
    write_set("kLower", str.islower)
    write_set("kTitle", lambda point: unicodedata.category(point) == "Lt")
    # What lower() looks through on both sides of a capital sigma to see whether a word ends there.
    write_set("kCaseIgnorable",
              lambda point: ("a" + point + "Σ").lower()[-1] == "ς" and ("." + point + "Σ").lower()[-1] == "σ")
    write_mapping("kToUpper", str.upper, lambda point: point)
    write_mapping("kToLower", str.lower, lambda point: point)
    write_mapping("kToTitle", str.title, str.upper)
    write_long("kToUpperLong", str.upper, lambda point: point)
    write_long("kToLowerLong", str.lower, lambda point: point)
    write_long("kToTitleLong", str.title, str.upper)
    write_file(folder / "python_unicode_cases.cpp")


if __name__ == "__main__":
    main()
