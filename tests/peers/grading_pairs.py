"""Pairs of a gold answer and a response that grading.py gives to two graders. Standard library only.

A gold of the data is rewritten in named ways. A rewrite knows by its construction whether the answer is still right:
numbers are computed as fractions, all else is rearranged by its structure. What a rewrite cannot read it leaves out.

A pair is {"id", "suite", "rewrite", "gold", "response", "answer", "expected", "slip"}: `answer` is the gold, `expected`
whether the response is right, `slip` the name of a known slip of Math-Verify that the pair runs into, or null:

    dot_in_box       refuses a dot before the end of the box
    control_space    refuses `\\ ` before the end of the box
    thin_space       refuses 1\\,251
    big_delimiters   refuses \\big(
    degree_sign      refuses ° for ^\\circ
    spaced_i         refuses 12 i for 12i
    wrong_base       takes 52_7 for 52_8
"""
from __future__ import annotations

import json
import math
import pathlib
import random
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

SUITES = ("math500", "amc23", "aime24", "aime25")
DAPO, DAPO_GOLDS = "dapo_math_17k", 320  # rows of DAPO that are drawn; all of the others are used
INTEGER_REWRITES = 7  # drawn for a whole number, of which there are many; other golds take every rewrite that fits


class Rewrite(NamedTuple):
    name: str
    text: str  # the answer as the response writes it
    expected: bool
    slip: str | None = None


# Reading golds.

def canonical(gold: str) -> str:
    """The same LaTeX with braces around the arguments of fractions and roots."""
    text = re.sub(r"\\[dtc]frac", r"\\frac", gold)
    text = re.sub(r"\\frac\s*(\d)\s*(\d)", r"\\frac{\1}{\2}", text)
    text = re.sub(r"\\frac\s*(\d)\s*\{", r"\\frac{\1}{", text)
    text = re.sub(r"(\\frac\{[^{}]*\})\s*(\d)", r"\1{\2}", text)
    return re.sub(r"\\sqrt\s*(\d)", r"\\sqrt{\1}", text)


def number(text: str) -> Fraction | None:
    """The value of a whole number, decimal, fraction of whole numbers or mixed number."""
    text = text.strip()
    if re.fullmatch(r"-?\d+|-?\d*\.\d+", text):
        return Fraction(text)
    if found := re.fullmatch(r"(-?)\\frac\{(-?\d+)\}\{(\d+)\}|(-?)(\d+)/(\d+)", text):
        sign, top, bottom = (part for part in found.groups() if part is not None)
        return Fraction(int(sign + top), int(bottom))
    if found := re.fullmatch(r"(\d+)\s*\\frac\{(\d+)\}\{(\d+)\}", text):
        whole, top, bottom = map(int, found.groups())
        return whole + Fraction(top, bottom)
    return None


def split_top(text: str, separators: str) -> list[str]:
    """Parts between separators that no bracket encloses; a separator that is kept begins its part."""
    parts, depth = [""], 0
    for at, char in enumerate(text):
        depth += (char in "([{") - (char in ")]}")
        if char in separators and depth == 0 and (char not in "+-" or text[:at].strip()):
            parts.append(char if char in "+-" else "")
        else:
            parts[-1] += char
    return [part.strip() for part in parts]


def decimal(value: Fraction) -> str | None:
    """The exact decimal of a fraction that has one of at most eight places."""
    for places in range(1, 9):
        if (scaled := value * 10**places).denominator == 1:
            digits = str(abs(scaled.numerator)).rjust(places + 1, "0")
            return f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}"
    return None


def fraction(value: Fraction, command: str = "frac", factor: int = 1) -> str:
    return f"{'-' if value < 0 else ''}\\{command}{{{abs(value.numerator) * factor}}}{{{value.denominator * factor}}}"


# Rewrites by the shape of the gold. Each yields nothing for a gold of another shape.

def grouped(digits: str, separator: str) -> str:
    return re.sub(r"(?<=\d)(?=(\d{3})+$)", lambda _: separator, digits)


def whole_numbers(gold: str, rng: random.Random) -> Iterator[Rewrite]:
    if not re.fullmatch(r"-?\d+", gold):
        return
    value = int(gold)
    yield Rewrite("point_zero", f"{gold}.0", True)
    yield Rewrite("unreduced_integer", fraction(Fraction(value), factor=2), True)
    yield Rewrite("integer_over_one", fraction(Fraction(value)), True)
    yield Rewrite("letter_equals", f"{rng.choice('xnkN')} = {gold}", True)
    yield Rewrite("letter_equals_close", f"{rng.choice('xyam')}={gold}", True)
    yield Rewrite("text_unit", f"{gold}" + rng.choice(["\\text{ units}", " \\text{ cm}", "\\,\\text{cm}", "\\text{ square units}",
                                                       "\\text{ ways}", "\\ \\text{meters}", " \\mbox{ inches}"]), True)
    yield Rewrite("dollar", f"\\${gold}", True)
    yield Rewrite("dollars_text", f"{gold}\\text{{ dollars}}", True)
    yield Rewrite("circ", f"{gold}^\\circ", True)
    yield Rewrite("degree_sign", f"{gold}°", True, "degree_sign")
    yield Rewrite("inner_spaces", f" {gold} ", True)
    yield Rewrite("braced", f"{{{gold}}}", True)
    yield Rewrite("dot_in_box", f"{gold}.", True, "dot_in_box")
    yield Rewrite("control_space", f"{gold}\\ ", True, "control_space")
    if value > 0:
        split = rng.randrange(1, value + 1)
        yield Rewrite("sum", f"{split} + {value - split}", True)
        yield Rewrite("plus_sign", f"+{gold}", True)
        yield Rewrite("square_root_of_square", f"\\sqrt{{{value * value}}}", True)
    if abs(value) >= 1000:
        for name, separator in (("comma", ","), ("braced_comma", "{,}"), ("comma_negative_space", ",\\!")):
            yield Rewrite(f"thousands_{name}", grouped(gold, separator), True)
        yield Rewrite("thousands_thin_space", grouped(gold, "\\,"), True, "thin_space")
        yield Rewrite("thousands_comma_wrong", grouped(str(value + 1000), ","), False)
    yield Rewrite("off_by_one", str(value + rng.choice([-1, 1])), False)
    if value:
        yield Rewrite("sign_flipped", str(-value), False)
        yield Rewrite("ten_times", f"{gold}0", False)
        yield Rewrite("reciprocal" if abs(value) > 1 else "half", fraction(1 / Fraction(value) if abs(value) > 1 else Fraction(value, 2)), False)
        yield Rewrite("digit_lost", gold[:-1] if len(gold.lstrip("-")) > 1 else "0", False)
        yield Rewrite("times_letter", f"{gold}x", False)
        yield Rewrite("times_pi", f"{gold}\\pi", False)
    if len(set(gold.lstrip("-"))) > 1 and gold[-1] != gold[-2]:
        yield Rewrite("digits_swapped", gold[:-2] + gold[-1] + gold[-2], False)
    yield Rewrite("half_more", f"{gold}.5", False)
    yield Rewrite("one_more_root", f"{gold}, {value + rng.randrange(1, 9)}", False)
    yield Rewrite("pair_of_it", f"({gold}, {value + rng.randrange(1, 9)})", False)
    yield Rewrite("letter_alone", rng.choice("xnk"), False)


def rationals(gold: str, rng: random.Random) -> Iterator[Rewrite]:
    value = number(canonical(gold))
    if value is None or value.denominator == 1:
        return
    top, bottom, sign = abs(value.numerator), value.denominator, "-" if value < 0 else ""
    for command in ("frac", "dfrac", "tfrac", "cfrac"):
        yield Rewrite(command, fraction(value, command), True)
    yield Rewrite("slash", f"{sign}{top}/{bottom}", True)
    yield Rewrite("spaced_slash", f"{sign}{top} / {bottom}", True)
    if top < 10 and bottom < 10:
        yield Rewrite("frac_without_braces", f"{sign}\\frac{top}{bottom}", True)
    if top < 10:
        yield Rewrite("frac_half_braced", f"{sign}\\frac{top}{{{bottom}}}", True)
    yield Rewrite("spaced_frac", f"{sign}\\frac {{{top}}} {{{bottom}}}", True)
    yield Rewrite("unreduced", fraction(value, factor=rng.randrange(2, 6)), True)
    yield Rewrite("unreduced_slash", f"{sign}{top * 3}/{bottom * 3}", True)
    yield Rewrite("negative_over_negative", f"\\frac{{{-value.numerator}}}{{{-bottom}}}", True)
    if value < 0:
        yield Rewrite("minus_in_top", f"\\frac{{-{top}}}{{{bottom}}}", True)
        yield Rewrite("minus_in_bottom", f"\\frac{{{top}}}{{-{bottom}}}", True)
    yield Rewrite("fraction_letter_equals", f"{rng.choice('xpt')} = {fraction(value)}", True)
    yield Rewrite("fraction_text_unit", fraction(value) + rng.choice(["\\text{ units}", " \\text{ cm}^2", "\\text{ hours}"]), True)
    yield Rewrite("two_sides", f"{fraction(value, factor=2)} = {fraction(value)}", True)
    if exact := decimal(value):
        yield Rewrite("exact_decimal", exact, True)
        yield Rewrite("trailing_zero", f"{exact}0", True)
        if abs(value) < 1:
            yield Rewrite("bare_point", exact.replace("0.", ".", 1), True)
        yield Rewrite("decimal_wrong", decimal(value + Fraction(1, 10)) or "0", False)
        if (hundred := 100 * value).denominator == 1:
            yield Rewrite("percent", f"{hundred}\\%", True)
            yield Rewrite("percent_wrong", f"{hundred + 1}\\%", False)
    elif value * 100 >= 1:
        yield Rewrite("truncated_decimal", f"{float(math.floor(value * 100)) / 100}", False)
        yield Rewrite("one_place", f"{float(math.floor(value * 10)) / 10}", False)
    if value > 1:
        whole, rest = divmod(value, 1)
        yield Rewrite("mixed", f"{whole}\\frac{{{rest.numerator}}}{{{bottom}}}", True)
        yield Rewrite("mixed_spaced", f"{whole} \\frac{{{rest.numerator}}}{{{bottom}}}", True)
        yield Rewrite("mixed_wrong", f"{whole + 1}\\frac{{{rest.numerator}}}{{{bottom}}}", False)
    yield Rewrite("fraction_swapped", fraction(1 / value), False)
    yield Rewrite("fraction_sign_flipped", fraction(-value), False)
    yield Rewrite("fraction_off_by_one", fraction(Fraction(value.numerator + bottom, bottom)), False)
    yield Rewrite("top_off_by_one", f"{sign}\\frac{{{top + 1}}}{{{bottom}}}", False)
    yield Rewrite("bottom_off_by_one", f"{sign}\\frac{{{top}}}{{{bottom + 1}}}", False)
    yield Rewrite("fraction_times_pi", f"{fraction(value)}\\pi", False)
    yield Rewrite("top_only", f"{sign}{top}", False)


def marked_numbers(gold: str, rng: random.Random) -> Iterator[Rewrite]:
    """Degrees, money, thousands, units after a number."""
    text = canonical(gold)
    if found := re.fullmatch(r"(\d+)\^\\circ", text):
        digits = found[1]
        for name, after in (("degree_dropped", ""), ("degree_braced", "^{\\circ}"), ("degree_text", "\\text{ degrees}"),
                            ("degree_spaced", " ^\\circ"), ("degree_text_close", "\\text{degrees}")):
            yield Rewrite(name, digits + after, True)
        yield Rewrite("degree_sign", f"{digits}°", True, "degree_sign")
        yield Rewrite("degree_letter_equals", f"\\theta = {digits}^\\circ", True)
        yield Rewrite("degree_angle_equals", f"\\angle ABC = {digits}^\\circ", True)
        yield Rewrite("degree_wrong", f"{180 - int(digits) if digits not in ('90', '180') else 45}^\\circ", False)
        yield Rewrite("degree_off_by_one", f"{int(digits) + 1}^\\circ", False)
        yield Rewrite("degree_wrong_bare", f"{int(digits) - 1}", False)
    if found := re.fullmatch(r"(\\\$)?(\d{1,3}(?:,(?:\\!)?\s*\d{3})*)(\.\d+)?", text):
        dollar, digits, places = found[1] or "", re.sub(r"\D", "", found[2]), found[3] or ""
        if not dollar and "," not in text:
            return
        if dollar:
            yield Rewrite("dollar_dropped", digits + places, True)
            yield Rewrite("dollar_text", f"{digits}{places}\\text{{ dollars}}", True)
            yield Rewrite("dollar_kept", f"\\${digits}{places}", True)
            if not places:
                yield Rewrite("dollar_cents", f"\\${digits}.00", True)
            yield Rewrite("dollar_wrong", f"\\${int(digits) + 1}{places}", False)
        if int(digits) >= 1000:
            for name, separator in (("plain", ""), ("comma", ","), ("braced_comma", "{,}"), ("comma_negative_space", ",\\!")):
                yield Rewrite(f"marked_thousands_{name}", dollar + grouped(digits, separator), True)
            yield Rewrite("thousands_thin_space", grouped(digits, "\\,"), True, "thin_space")
            yield Rewrite("marked_thousands_wrong", grouped(str(int(digits) + 10), ","), False)
            yield Rewrite("thousands_group_lost", digits[:-3], False)
        yield Rewrite("marked_sign_flipped", f"-{digits}{places}", False)
    if found := re.fullmatch(r"(.*?\S)\s*\\(?:text|mbox)\{\s*([A-Za-z]+)\}(\^\d)?", text):
        plain, unit, power = found[1], found[2], found[3] or ""
        yield Rewrite("unit_dropped", plain, True)
        yield Rewrite("unit_text", f"{plain}\\text{{ {unit}}}{power}", True)
        yield Rewrite("unit_thin_space", f"{plain}\\,\\text{{{unit}}}{power}", True)
        yield Rewrite("unit_value_wrong", f"{altered(plain)}\\text{{ {unit}}}{power}", False)
        yield Rewrite("unit_value_wrong_bare", altered(plain), False)


def words(gold: str, rng: random.Random) -> Iterator[Rewrite]:
    found = re.fullmatch(r"\\text\{(\(?)([A-Za-z]+)\)?\}", gold)
    if not found:
        return
    word = found[2]
    yield Rewrite("word_same", gold, True)
    yield Rewrite("word_bare", word, True)
    if found[1]:
        yield Rewrite("choice_bare_brackets", f"({word})", True)
        yield Rewrite("choice_text", f"\\text{{{word}}}", True)
        yield Rewrite("choice_textbf", f"\\textbf{{({word})}}", True)
        for other in "ABCDE".replace(word, ""):
            yield Rewrite("choice_wrong", f"\\text{{({other})}}", False)
            yield Rewrite("choice_wrong_bare", other, False)
    else:
        yield Rewrite("word_spaced", f"\\text{{ {word} }}", True)
        yield Rewrite("word_textbf", f"\\textbf{{{word}}}", True)
        yield Rewrite("word_mathrm", f"\\mathrm{{{word}}}", True)
        for other in ("odd", "west", "parabola", "Angela"):
            yield Rewrite("word_wrong", f"\\text{{{other}}}", False)


def bases(gold: str, rng: random.Random) -> Iterator[Rewrite]:
    found = re.fullmatch(r"(\d+)_\{?(\d+)\}?", gold)
    if not found:
        return
    digits, base = found[1], int(found[2])
    yield Rewrite("base_braced", f"{digits}_{{{base}}}", True)
    yield Rewrite("base_plain", f"{digits}_{base}", True)
    for other in {base - 1, base + 1, 10} - {base}:
        if other > max(map(int, digits)):
            yield Rewrite("base_wrong", f"{digits}_{{{other}}}", False, "wrong_base")
    lower = digits[:-1] + str((int(digits[-1]) + 1) % base)
    yield Rewrite("base_digits_wrong", f"{lower}_{{{base}}}", False)
    yield Rewrite("base_digits_swapped", f"{digits[-1]}{digits[1:-1]}{digits[0]}_{{{base}}}" if digits[0] != digits[-1] != "0"
                  else f"1{digits}_{{{base}}}", False)


def brackets(gold: str, rng: random.Random) -> Iterator[Rewrite]:
    """Tuples, points and single intervals."""
    text = re.sub(r"\\left\s*|\\right\s*", "", canonical(gold)).strip()
    if not (found := re.fullmatch(r"([(\[])(.*)([)\]])", text)) or "\\cup" in text:
        return
    left, right, parts = found[1], found[3], split_top(found[2], ",")
    if len(parts) < 2 or "" in parts:
        return
    joined = ",".join(parts)
    yield Rewrite("bracket_spaces", f"{left} {', '.join(parts)} {right}", True)
    yield Rewrite("bracket_close", f"{left}{joined}{right}", True)
    yield Rewrite("bracket_left_right", f"\\left{left}{joined}\\right{right}", True)
    yield Rewrite("bracket_left_right_spaced", f"\\left{left} {', '.join(parts)} \\right{right}", True)
    yield Rewrite("bracket_big", f"\\big{left}{joined}\\big{right}", True, "big_delimiters")
    yield Rewrite("bracket_dfrac", f"{left}{joined}{right}".replace("\\frac", "\\dfrac"), True)
    variable = {2: "(x,y)", 3: "(x,y,z)", 4: "(a,b,c,d)"}[len(parts)]
    if left == "(" and right == ")" and "infty" not in text:
        yield Rewrite("tuple_equals", f"{variable} = ({joined})", True)
    for at, part in enumerate(parts):
        value = number(part)
        if value is not None:
            if value.denominator > 1 and decimal(value):
                yield Rewrite("element_decimal", f"{left}{','.join([*parts[:at], decimal(value) or '', *parts[at + 1:]])}{right}", True)
            if value.denominator == 1:
                yield Rewrite("element_unreduced", f"{left}{','.join([*parts[:at], fraction(value, factor=2), *parts[at + 1:]])}{right}", True)
        if part.strip("-") != "\\infty" and (other := altered(part)) != part:
            yield Rewrite("element_changed", f"{left}{','.join([*parts[:at], other, *parts[at + 1:]])}{right}", False)
        if value:
            yield Rewrite("element_sign_flipped", f"{left}{','.join([*parts[:at], negated(part), *parts[at + 1:]])}{right}", False)
    if parts != parts[::-1] and "infty" not in text:
        yield Rewrite("tuple_order_swapped", f"{left}{','.join(parts[::-1])}{right}", False)
    yield Rewrite("tuple_shortened", parts[0] if len(parts) == 2 else f"({','.join(parts[:-1])})", False)
    yield Rewrite("tuple_lengthened", f"{left}{joined},1{right}", False)
    if "[" in text or "]" in text or "infty" in text:  # surely an interval
        yield Rewrite("interval_membership", f"x \\in {left}{joined}{right}", True)
        if "infty" not in parts[0]:
            yield Rewrite("interval_left_end", f"{'[' if left == '(' else '('}{joined}{right}", False)
        if "infty" not in parts[1]:
            yield Rewrite("interval_right_end", f"{left}{joined}{']' if right == ')' else ')'}", False)


def unions(gold: str, rng: random.Random) -> Iterator[Rewrite]:
    parts = [part.strip() for part in gold.split("\\cup")]
    if len(parts) == 2:
        yield Rewrite("union_same", "\\cup".join(parts), True)
        yield Rewrite("union_swapped", " \\cup ".join(parts[::-1]), True)
        yield Rewrite("union_left_right", " \\cup ".join(f"\\left{part[:-1]}\\right{part[-1]}" for part in parts), True)
        yield Rewrite("union_membership", f"x \\in {gold}", True)
        yield Rewrite("union_first_only", parts[0], False)
        yield Rewrite("union_second_only", parts[1], False)
        yield Rewrite("union_intersection", " \\cap ".join(parts), False)
        yield Rewrite("union_changed", f"{altered(parts[0])} \\cup {parts[1]}", False)
    elif found := re.fullmatch(r"([a-z]) \\in (.*)", gold):
        yield Rewrite("membership_dropped", found[2], True)
        yield Rewrite("membership_close", f"{found[1]}\\in{found[2]}", True)
        low, high = split_top(found[2][1:-1], ",")
        if found[2][0] == "[" and found[2][-1] == "]":
            yield Rewrite("membership_inequality", f"{low} \\le {found[1]} \\le {high}", True)
            yield Rewrite("membership_open", f"{found[1]} \\in ({low},{high})", False)
        yield Rewrite("membership_changed", f"{found[1]} \\in {altered(found[2])}", False)


def lists(gold: str, rng: random.Random) -> Iterator[Rewrite]:
    text = re.sub(r"^\\\{|\\\}$", "", canonical(gold))
    if "\\!" in text or text[0] in "([" or "=" in text or re.fullmatch(r"\d{1,3}(,\d{3})+", text):
        return
    if "\\pm" in text:
        before, after = text.split(",")[0].split("\\pm")
        rest = text.split(",")[1:]
        parts = [f"{before.strip()}+{after.strip()}", f"{before.strip()}-{after.strip()}", *rest]
        yield Rewrite("plus_minus_kept", text, True)
    else:
        parts = split_top(text, ",")
    if len(parts) < 2 or "" in parts:
        return
    turned = parts[1:] + parts[:1]
    yield Rewrite("list_reordered", ", ".join(turned), True)
    yield Rewrite("list_reversed_close", ",".join(parts[::-1]), True)
    yield Rewrite("list_and", f"{', '.join(parts[:-1])} \\text{{ and }} {parts[-1]}", True)
    yield Rewrite("list_or", f"{', '.join(turned[:-1])} \\text{{ or }} {turned[-1]}", True)
    yield Rewrite("list_as_set", f"\\{{{', '.join(turned)}\\}}", True)
    yield Rewrite("list_as_left_right_set", f"\\left\\{{{', '.join(parts)}\\right\\}}", True)
    yield Rewrite("list_letter_equals", f"x = {', '.join(parts)}", True)
    yield Rewrite("list_one_less", ", ".join(parts[:-1]), False)
    yield Rewrite("list_one_more", ", ".join([*parts, "29"]), False)
    for at, part in enumerate(parts):
        yield Rewrite("list_element_changed", ", ".join([*parts[:at], altered(part), *parts[at + 1:]]), False)


def matrices(gold: str, rng: random.Random) -> Iterator[Rewrite]:
    found = re.fullmatch(r"\\begin\{pmatrix\}(.*)\\end\{pmatrix\}", gold.strip())
    if not found:
        return
    rows = [[cell.strip() for cell in row.split("&")] for row in found[1].split("\\\\")]

    def written(cells: list[list[str]], kind: str = "pmatrix", space: str = " ") -> str:
        body = f"{space}\\\\{space}".join(f"{space}&{space}".join(row) for row in cells)
        return f"\\begin{{{kind}}}{space}{body}{space}\\end{{{kind}}}"

    def changed(cell: str) -> list[list[str]]:
        return [[cell, *rows[0][1:]], *rows[1:]]

    yield Rewrite("matrix_bmatrix", written(rows, "bmatrix"), True)
    yield Rewrite("matrix_close", written(rows, space=""), True)
    yield Rewrite("matrix_lines", written(rows, space="\n"), True)
    yield Rewrite("matrix_array", written(rows, "array").replace("{array}", "{array}{" + "c" * len(rows[0]) + "}", 1)
                  .join(["\\left(", "\\right)"]), True)
    if any("/" in cell for row in rows for cell in row):
        yield Rewrite("matrix_frac", re.sub(r"(\d+)/(\d+)", r"\\frac{\1}{\2}", written(rows)), True)
        yield Rewrite("matrix_dfrac", re.sub(r"(\d+)/(\d+)", r"\\dfrac{\1}{\2}", written(rows, "bmatrix")), True)
    yield Rewrite("matrix_element_changed", written(changed(altered(rows[0][0]))), False)
    yield Rewrite("matrix_sign_flipped", written(changed(negated(rows[0][0]))), False)
    yield Rewrite("matrix_bmatrix_changed", written([*rows[:-1], [*rows[-1][:-1], altered(rows[-1][-1])]], "bmatrix"), False)
    yield Rewrite("matrix_row_lost", written(rows[:-1]), False)
    if rows != rows[::-1]:
        yield Rewrite("matrix_rows_swapped", written(rows[::-1]), False)


def roots_and_pi(gold: str, rng: random.Random) -> Iterator[Rewrite]:
    text = canonical(gold)
    if found := re.fullmatch(r"(-?)(\d*)\s*\\sqrt\{(\d+)\}", text):
        sign, factor, inside = found[1], int(found[2] or 1), int(found[3])
        if factor > 1:
            yield Rewrite("root_under_one", f"{sign}\\sqrt{{{factor * factor * inside}}}", True)
            yield Rewrite("root_commuted", f"{sign}\\sqrt{{{inside}}} \\cdot {factor}", True)
            yield Rewrite("root_times", f"{sign}{factor} \\times \\sqrt{{{inside}}}", True)
            yield Rewrite("root_factor_lost", f"{sign}\\sqrt{{{inside}}}", False)
        shown = str(factor) if factor > 1 else ""
        yield Rewrite("root_cdot", f"{sign}{factor}\\cdot\\sqrt{{{inside}}}", True)
        if inside < 10:
            yield Rewrite("root_without_braces", f"{sign}{shown}\\sqrt{inside}", True)
        yield Rewrite("root_spaced", f"{sign}{shown} \\sqrt{{ {inside} }}", True)
        yield Rewrite("root_power", f"{sign}{factor} \\cdot {inside}^{{1/2}}", True)
        yield Rewrite("root_of_four_times", f"{sign}\\frac{{{shown}\\sqrt{{{4 * inside}}}}}{{2}}", True)
        yield Rewrite("root_letter_equals", f"AB = {sign}{shown}\\sqrt{{{inside}}}", True)
        yield Rewrite("root_text_unit", f"{sign}{shown}\\sqrt{{{inside}}} \\text{{ cm}}", True)
        yield Rewrite("root_inside_changed", f"{sign}{shown}\\sqrt{{{inside + 1}}}", False)
        yield Rewrite("root_factor_changed", f"{sign}{factor + 1}\\sqrt{{{inside}}}", False)
        yield Rewrite("root_sign_flipped", f"{'' if sign else '-'}{shown}\\sqrt{{{inside}}}", False)
        yield Rewrite("root_lost", f"{sign}{factor * inside}", False)
        yield Rewrite("root_cube", f"{sign}{shown}\\sqrt[3]{{{inside}}}", False)
        yield Rewrite("root_truncated", f"{sign}{math.floor(factor * math.sqrt(inside) * 10) / 10}", False)
    if found := re.fullmatch(r"\\frac\{(\d*)\\sqrt\{(\d+)\}\}\{(\d+)\}", text):
        factor, inside, bottom = int(found[1] or 1), int(found[2]), int(found[3])
        yield Rewrite("root_fraction_outside", f"\\frac{{{factor}}}{{{bottom}}}\\sqrt{{{inside}}}", True)
        yield Rewrite("root_fraction_slash", f"{found[1]}\\sqrt{{{inside}}}/{bottom}", True)
        yield Rewrite("root_fraction_dfrac", gold.replace("\\frac", "\\dfrac"), True)
        yield Rewrite("root_fraction_rational_top", f"\\frac{{{factor * inside}}}{{{bottom}\\sqrt{{{inside}}}}}", True)
        yield Rewrite("root_fraction_doubled", f"\\frac{{{2 * factor}\\sqrt{{{inside}}}}}{{{2 * bottom}}}", True)
        yield Rewrite("root_fraction_swapped", f"\\frac{{{bottom}}}{{{found[1]}\\sqrt{{{inside}}}}}", False)
        yield Rewrite("root_fraction_changed", f"\\frac{{{found[1]}\\sqrt{{{inside + 1}}}}}{{{bottom}}}", False)
        yield Rewrite("root_fraction_top_only", f"{found[1]}\\sqrt{{{inside}}}", False)
    if found := re.fullmatch(r"(-?)(\d*)\s*\\pi|(-?)\\frac\{(\d*)\\pi\}\{(\d+)\}", text):
        sign, factor, bottom = found[1] or found[3] or "", int(found[2] or found[4] or 1), int(found[5] or 1)
        shown, over = str(factor) if factor > 1 else "", f"/{bottom}" if bottom > 1 else ""
        yield Rewrite("pi_letter", f"{sign}{shown}π{over}", True)
        yield Rewrite("pi_cdot", f"{sign}{factor} \\cdot \\pi{over}", True)
        yield Rewrite("pi_commuted", f"{sign}\\pi \\cdot {factor}{over}", True)
        yield Rewrite("pi_close", f"{sign}{shown}\\pi{over}", True)
        yield Rewrite("pi_fraction", f"{sign}\\frac{{{factor}}}{{{bottom}}}\\pi", True)
        yield Rewrite("pi_doubled_fraction", f"{sign}\\frac{{{2 * factor}\\pi}}{{{2 * bottom}}}", True)
        yield Rewrite("pi_letter_equals", f"A = {sign}{shown}\\pi{over}", True)
        yield Rewrite("pi_lost", f"{sign}{factor}{over}", False)
        yield Rewrite("pi_squared", f"{sign}{shown}\\pi^2{over}", False)
        yield Rewrite("pi_factor_changed", f"{sign}{factor + 1}\\pi{over}", False)
        yield Rewrite("pi_sign_flipped", f"{'' if sign else '-'}{shown}\\pi{over}", False)
        yield Rewrite("pi_truncated", f"{sign}{math.floor(factor * math.pi / bottom * 10) / 10}", False)


def sums(gold: str, rng: random.Random) -> Iterator[Rewrite]:
    """Expressions that are sums at their top level: polynomials, complex numbers, roots."""
    text = canonical(gold)
    if re.search(r"[=,&_]|\\text|\\mbox|\\pm|\\cup|\\begin|\\in\b", text):
        return
    terms = split_top(text, "+-")
    if len(terms) < 2:
        return
    terms = [terms[0] if terms[0][0] == "-" else "+" + terms[0], *terms[1:]]
    terms = [term[0] + term[1:].strip() for term in terms]

    def joined(chosen: list[str], space: str = " ") -> str:
        shown = space.join(f"{term[0]}{space}{term[1:]}" for term in chosen)
        return shown[1:].strip() if shown[0] == "+" else "-" + shown[1:].strip()

    yield Rewrite("sum_reversed", joined(terms[::-1]), True)
    yield Rewrite("sum_turned", joined(terms[1:] + terms[:1]), True)
    yield Rewrite("sum_close", joined(terms, ""), True)
    yield Rewrite("sum_in_brackets", f"\\left({joined(terms)}\\right)", True)
    yield Rewrite("sum_cdot", re.sub(r"(\d)\s*([a-zA-Z]|\\sqrt|\\pi)", r"\1 \\cdot \2", joined(terms)), True)
    yield Rewrite("sum_negated_twice", f"-({joined([{'+': '-', '-': '+'}[term[0]] + term[1:] for term in terms])})", True)
    if gold.endswith("i") and re.search(r"\d+i$", gold):
        yield Rewrite("imaginary_spaced", re.sub(r"(\d+)i$", r"\1 i", gold), True, "spaced_i")
        yield Rewrite("complex_equals", f"z = {gold}", True)
        yield Rewrite("complex_conjugate", joined([terms[0], {"+": "-", "-": "+"}[terms[1][0]] + terms[1][1:]]), False)
        yield Rewrite("complex_i_lost", gold[:-1], False)
        yield Rewrite("complex_parts_swapped", re.sub(r"(-?)(\d+)(\s*[+-]\s*)(\d+)i", r"\1\4\3\2i", gold), False)
    coefficients = [re.fullmatch(r"([+-])(\d*)(.*)", term).groups() for term in terms]
    if all(re.fullmatch(r"[a-z](\^\d)?|", rest) for *_, rest in coefficients):
        values = [int(sign + (digits or "1")) for sign, digits, _ in coefficients]
        if (common := math.gcd(*values)) > 1:
            inner = joined([f"{value // common:+d}"[:None if abs(value // common) > 1 or not rest else 1] + rest
                            for value, (_, _, rest) in zip(values, coefficients)])
            yield Rewrite("common_factor", f"{common}({inner})", True)
            yield Rewrite("common_factor_lost", inner, False)
    letters = [rest[0] for *_, rest in coefficients if re.match(r"[a-zA-Z]", rest)]
    for at in range(len(terms)):
        flipped = {"+": "-", "-": "+"}[terms[at][0]] + terms[at][1:]
        yield Rewrite("term_sign_flipped", joined([*terms[:at], flipped, *terms[at + 1:]]), False)
        yield Rewrite("term_lost", joined([*terms[:at], *terms[at + 1:]]), False)
    if letters and "i" not in letters:
        other = "u" if "u" not in letters else "v"
        yield Rewrite("letter_changed", text.replace(letters[0], other) if "\\" not in text else joined(terms[:1]), False)
    yield Rewrite("term_added", f"{joined(terms)} + 1", False)


def products(gold: str, rng: random.Random) -> Iterator[Rewrite]:
    if found := re.fullmatch(r"\(([a-z])\+(\d+)\)\(([a-z])\+(\d+)\)", gold):
        first, a, second, b = found[1], int(found[2]), found[3], int(found[4])
        yield Rewrite("factors_commuted", f"({second}+{b})({first}+{a})", True)
        yield Rewrite("factors_expanded", f"{first}{second} + {b}{first} + {a}{second} + {a * b}", True)
        yield Rewrite("factors_left_right", f"\\left({first}+{a}\\right)\\left({second}+{b}\\right)", True)
        yield Rewrite("factors_crossed", f"({first}+{b})({second}+{a})", False)
        yield Rewrite("factor_lost", f"({first}+{a})", False)
    if found := re.fullmatch(r"(\d+)([a-zA-Z])(?:\^(\d))?", gold):
        factor, letter, power = found[1], found[2], found[3]
        tail = f"^{power}" if power else ""
        yield Rewrite("monomial_cdot", f"{factor} \\cdot {letter}{tail}", True)
        yield Rewrite("monomial_commuted", f"{letter}{tail} \\cdot {factor}", True)
        yield Rewrite("monomial_spaced", f"{factor} {letter}{tail}", True)
        yield Rewrite("monomial_power_braced", f"{factor}{letter}^{{{power or 1}}}", True)
        yield Rewrite("monomial_letter_lost", factor, False)
        yield Rewrite("monomial_power_changed", f"{factor}{letter}^{int(power or 1) + 1}", False)
        yield Rewrite("monomial_factor_changed", f"{int(factor) + 1}{letter}{tail}", False)
        yield Rewrite("monomial_letter_changed", f"{factor}{'t' if letter != 't' else 's'}{tail}", False)


def equations(gold: str, rng: random.Random) -> Iterator[Rewrite]:
    if gold.count("=") != 1:
        return
    left, right = (side.strip() for side in gold.split("="))
    yield Rewrite("equation_swapped", f"{right} = {left}", True)
    yield Rewrite("equation_close", f"{left}={right}".replace(" ", ""), True)
    if re.fullmatch(r"[a-z]", left):
        yield Rewrite("equation_right_side", right, True)
        yield Rewrite("equation_wrong", f"{left} = {altered(right)}", False)
        if re.search(r"[a-z]", right):
            yield Rewrite("equation_to_zero", f"{left} - ({right}) = 0", True)
            yield Rewrite("equation_doubled", f"2{left} = 2({right})", True)
            yield Rewrite("equation_sign_flipped", f"{left} = {negated(right)}", False)
        else:
            yield Rewrite("equation_right_wrong", altered(right), False)
    else:
        yield Rewrite("equation_doubled", f"2({left}) = {right}", True)
        yield Rewrite("equation_negated", f"-({left}) = {right}", True)
        last = left.rfind("+ ")
        yield Rewrite("equation_term_moved", f"{left[:last].strip()} = -{left[last + 2:]}", True)
        yield Rewrite("equation_changed", f"{altered(left)} = {right}", False)
        yield Rewrite("equation_constant", f"{left} = 1", False)


SHAPES = (whole_numbers, rationals, marked_numbers, words, bases, brackets, unions, lists, matrices, roots_and_pi, sums, products,
          equations)


# Wrong answers for golds of any shape.

def negated(text: str) -> str:
    return text[1:].strip() if text.startswith("-") else f"-{text}"


def altered(text: str) -> str:
    """An answer of another value: its first number grows by one, a bare symbol is replaced."""
    text = canonical(text)
    if re.search(r"\d", text):
        if re.fullmatch(r"-?\d*\.\d+", text):
            return text[:-1] + str((int(text[-1]) + 1) % 10 or 3)
        return re.sub(r"\d+", lambda found: str(int(found[0]) + 1), text, count=1)
    for old, new in (("\\pi", "2\\pi"), ("\\cot", "\\tan"), ("p - q", "p + q"), ("\\infty", "7")):
        if old in text:
            return text.replace(old, new)
    if found := re.fullmatch(r"\\text\{(\(?)(\w+)(\)?)\}", text):
        return f"\\text{{{found[1]}{'D' if found[1] else 'hyperbola'}{found[3]}}}"
    raise ValueError(f"no other value is known for {text}")


# Responses.

OPENINGS = ("Let me work through this step by step.", "We start by writing down what is known.", "Okay, let's see.",
            "First, I set up the quantities in the problem.", "To solve this, consider a smaller case before the general one.")
STEPS = ("We have ${a} + {b} = {c}$, so the first condition holds.", "Note that \\({a} \\cdot {b} = {d}\\).",
         "Substituting gives\n\\[\n{d} = {a} \\times {b},\n\\]\nwhich is consistent.", "The case $k = {a}$ leaves {b} possibilities.",
         "By symmetry the remaining {b} terms cancel, because ${c} - {a} = {b}$.",
         "Checking {a} and {b} by hand confirms the pattern.", "This simplifies since $\\frac{{{d}}}{{{a}}} = {b}$.")
CLOSINGS = ("Therefore, the answer is $\\boxed{{{answer}}}$.", "Thus we obtain\n\\[\n\\boxed{{{answer}}}\n\\]",
            "So the result is \\(\\boxed{{{answer}}}\\).", "### Answer\n\n$$\\boxed{{{answer}}}$$", "\\boxed{{{answer}}}",
            "Hence, the final answer is: $\\boxed{{{answer}}}$", "**Final Answer**\n\n\\[ \\boxed{{{answer}}} \\]\n",
            "This gives us $\\boxed{{{answer}}}$, as required.")
GIVING_UP = ("Now I need to count the cases in which both conditions hold, and for this",
             "I could not find a way to finish this, so I stop here.", "Wait, that contradicts the condition, let me try again.")


def argument(gold: str, rng: random.Random) -> str:
    """Some sentences of working, in which no number of the gold occurs."""
    taken = set(re.findall(r"\d+", gold))
    while True:
        sentences = [rng.choice(OPENINGS)]
        for step in rng.sample(STEPS, rng.randrange(1, 4)):
            a, b = rng.randrange(2, 60), rng.randrange(2, 60)
            sentences.append(step.format(a=a, b=b, c=a + b, d=a * b))
        text = rng.choice((" ", "\n\n")).join(sentences)
        if not taken & set(re.findall(r"\d+", text)):
            return text


def boxed(rewrite: Rewrite, gold: str, rng: random.Random) -> tuple[str, str]:
    closing = rng.choice(CLOSINGS).format(answer=rewrite.text)
    return f"{argument(gold, rng)}\n\n{closing}", closing


def settings(gold: str, rng: random.Random) -> Iterator[tuple[str, str, bool]]:
    """The gold, or a wrong answer, at another place of a response: the name, the response's end, whether it is right."""
    right = gold
    wrong = altered(gold)
    yield "same", f"The answer is $\\boxed{{{right}}}$.", True
    yield "wrong", f"The answer is $\\boxed{{{wrong}}}$.", False
    yield "same_display", f"\\[\\boxed{{{right}}}\\]", True
    yield "dot_after_box", f"Thus, $\\boxed{{{right}}}.$", True
    yield "box_after_equals", f"so that $S = \\boxed{{{right}}}$.", True
    yield "fbox", f"The answer is $\\fbox{{{right}}}$.", True
    yield "fbox_wrong", f"The answer is $\\fbox{{{wrong}}}$.", False
    yield "final_answer_is", f"The final answer is ${right}$.", True
    yield "final_answer_is_hope", f"Final Answer: The final answer is ${right}$. I hope it is correct.", True
    yield "final_answer_is_wrong", f"The final answer is ${wrong}$.", False
    yield "final_answer_box", f"The final answer is $\\boxed{{{right}}}$.", True
    yield "two_boxes", f"It seems to be $\\boxed{{{wrong}}}$. But that misses a case; it is $\\boxed{{{right}}}$.", True
    yield "two_boxes_wrong_last", f"It seems to be $\\boxed{{{right}}}$. But that misses a case; it is $\\boxed{{{wrong}}}$.", False
    yield "same_box_twice", f"We find $\\boxed{{{right}}}$.\n\n**Final Answer**\n\n$\\boxed{{{right}}}$", True
    yield "after_think", f"Perhaps \\boxed{{{wrong}}}?\n</think>\n\nThe answer is $\\boxed{{{right}}}$.", True
    yield "after_think_wrong", f"So it is \\boxed{{{right}}}.\n</think>\n\nThe answer is $\\boxed{{{wrong}}}$.", False
    yield "text_after_box", f"The answer is $\\boxed{{{right}}}$.\n\nThis agrees with the check above, so we are done.", True
    yield "no_answer", rng.choice(GIVING_UP), False


def pairs_of(suite: str, gold: str, rng: random.Random, seen: set[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    made: list[tuple[str, str, bool, str | None, str]] = []
    rewrites = [rewrite for shape in SHAPES for rewrite in shape(gold, rng)]
    for rewrite in rewrites:
        response, closing = boxed(rewrite, gold, rng)
        made.append((rewrite.name, response, rewrite.expected, rewrite.slip, closing))
    places = [(name, f"{'<think>' if 'think' in name else ''}{argument(gold, rng)}\n\n{end}", expected, None, end)
              for name, end, expected in settings(gold, rng)]
    if re.fullmatch(r"-?\d+", gold):
        made = rng.sample(made, INTEGER_REWRITES - 3) + rng.sample(places, 3)
    else:
        made += rng.sample(places, 5)
    for name, response, expected, slip, closing in made:
        if (gold, closing) not in seen:
            seen.add((gold, closing))
            yield {"suite": suite, "rewrite": name, "gold": gold, "response": response, "answer": gold, "expected": expected, "slip": slip}


def make_pairs(data: pathlib.Path, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    seen: set[tuple[str, str]] = set()
    pairs: list[dict[str, Any]] = []
    for suite in (*SUITES, DAPO):
        golds = [json.loads(line)["answer"] for line in (data / f"{suite}.jsonl").read_text().splitlines()]
        if suite == DAPO:
            golds = rng.sample(golds, DAPO_GOLDS)
        for gold in golds:
            pairs += pairs_of(suite, gold, rng, seen)
    return [{"id": f"pair-{at}", **pair} for at, pair in enumerate(pairs)]
