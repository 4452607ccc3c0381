"""Rewrites of golds that are numbers, marked numbers, words or numbers of another base; see grading_pairs.py.

What a response may do to a gold is a Rewrite. Each function here takes a gold and yields those that fit its shape, none for a
gold of another shape; whether the answer stays right is known by construction. Standard library only.
"""
from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple


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


def decimal(value: Fraction) -> str | None:
    """The exact decimal of a fraction that has one of at most eight places."""
    for places in range(1, 9):
        if (scaled := value * 10**places).denominator == 1:
            digits = str(abs(scaled.numerator)).rjust(places + 1, "0")
            return f"{'-' if value < 0 else ''}{digits[:-places]}.{digits[-places:]}"
    return None


def fraction(value: Fraction, command: str = "frac", factor: int = 1) -> str:
    return f"{'-' if value < 0 else ''}\\{command}{{{abs(value.numerator) * factor}}}{{{value.denominator * factor}}}"


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
        return f"\\text{{{found[1]}{'AB'[found[2] == 'A'] if found[1] else 'hyperbola'}{found[3]}}}"
    raise ValueError(f"no other value is known for {text}")


def grouped(digits: str, separator: str) -> str:
    """Digits in groups of three."""
    return re.sub(r"(?<=\d)(?=(\d{3})+$)", lambda _: separator, digits)


# What the problem asks for may follow the number, or precede it.
UNITS = r"(?:how many|in) (centimeters|meters|inches|feet|miles|hours|minutes|seconds)\b"
ASKED = {"degrees": r"in degrees|how many degrees|degree measure|number of degrees", "dollars": r"in dollars|how many dollars|number of dollars",
         "percent": r"what percent|how many percent", "units": UNITS}


def asked_for(gold: str, problem: str) -> Iterator[Rewrite]:
    """Whole numbers with the unit that their problem names."""
    if not re.fullmatch(r"\d+", gold):
        return
    more = int(gold) + 1
    if re.search(ASKED["degrees"], problem, re.IGNORECASE):
        yield Rewrite("asked_circ", f"{gold}^\\circ", True)
        yield Rewrite("asked_circ_braced", f"{gold}^{{\\circ}}", True)
        yield Rewrite("asked_degrees", f"{gold} \\text{{ degrees}}", True)
        yield Rewrite("degree_sign", f"{gold}°", True, "degree_sign")
        yield Rewrite("asked_circ_wrong", f"{more}^\\circ", False)
    if re.search(ASKED["dollars"], problem, re.IGNORECASE):
        yield Rewrite("asked_dollar", f"\\${gold}", True)
        yield Rewrite("asked_dollars_text", f"{gold}\\text{{ dollars}}", True)
        yield Rewrite("asked_dollar_cents", f"\\${gold}.00", True)
        yield Rewrite("asked_dollar_wrong", f"\\${more}", False)
    if re.search(ASKED["percent"], problem, re.IGNORECASE):
        yield Rewrite("asked_percent", f"{gold}\\%", False, "percent_rule")
        yield Rewrite("asked_percent_text", f"{gold}\\text{{ percent}}", False, "percent_rule")
        yield Rewrite("asked_percent_wrong", f"{more}\\%", False)
    if found := re.search(ASKED["units"], problem, re.IGNORECASE):
        unit = found[1].lower()
        yield Rewrite("asked_unit", f"{gold} \\text{{ {unit}}}", True)
        yield Rewrite("asked_unit_control_space", f"{gold}\\ \\text{{{unit}}}", True)
        yield Rewrite("asked_unit_mathrm", f"{gold}\\,\\mathrm{{{unit}}}", True)
        yield Rewrite("asked_unit_wrong", f"{more} \\text{{ {unit}}}", False)


# Rewrites by shape.

def whole_numbers(gold: str, rng: random.Random) -> Iterator[Rewrite]:
    if not re.fullmatch(r"-?\d+", gold):
        return
    value = int(gold)
    yield Rewrite("point_zero", f"{gold}.0", True)
    yield Rewrite("unreduced_integer", fraction(Fraction(value), factor=2), True)
    yield Rewrite("integer_over_one", fraction(Fraction(value)), True)
    yield Rewrite("letter_equals", f"{rng.choice('xnkN')} = {gold}", True)
    yield Rewrite("letter_equals_close", f"{rng.choice('xyam')}={gold}", True)
    word = rng.choice(["\\text{ units}", "\\text{ ways}", " \\text{ square units}", "\\,\\text{cm}", "\\text{ cm}^2", " \\mbox{ in all}"])
    yield Rewrite("text_after", f"{gold}{word}", True)
    yield Rewrite("in_text", f"\\text{{{gold}}}", True)
    yield Rewrite("in_mathbf", f"\\mathbf{{{gold}}}", True)
    yield Rewrite("dollars_in_box", f"${gold}$", True)
    yield Rewrite("in_brackets", f"\\left({gold}\\right)", True)
    yield Rewrite("thin_space_after", f"{gold}\\,", True)
    yield Rewrite("inner_spaces", f" {gold} ", True)
    yield Rewrite("braced", f"{{{gold}}}", True)
    yield Rewrite("dot_in_box", f"{gold}.", True, "dot_in_box")
    yield Rewrite("control_space", f"{gold}\\ ", True, "control_space")
    if value > 0:
        split = rng.randrange(1, value + 1)
        yield Rewrite("sum", f"{split} + {value - split}", True)
        yield Rewrite("chain", f"{rng.choice('xSN')} = {split} + {value - split} = {value}", True)
        yield Rewrite("chain_wrong", f"{rng.choice('xSN')} = {split} + {value - split + 1} = {value + 1}", False)
        yield Rewrite("plus_sign", f"+{gold}", True)
        yield Rewrite("square_root_of_square", f"\\sqrt{{{value * value}}}", True)
    if value < 0:
        yield Rewrite("unicode_minus", gold.replace("-", "\u2212"), True)
        yield Rewrite("spaced_minus", gold.replace("-", "- "), True)
    if factor := next((k for k in range(2, 40) if value and value % k == 0 and abs(value) > k), None):
        yield Rewrite("product_cdot", f"{factor} \\cdot {value // factor}" if value > 0 else f"-{factor} \\cdot {-value // factor}", True)
        yield Rewrite("product_wrong", f"{factor} \\cdot {abs(value) // factor + 1}", False)
    if value > 3 and math.isqrt(value) ** 2 == value:
        yield Rewrite("square", f"{math.isqrt(value)}^2", True)
        yield Rewrite("cube_for_square", f"{math.isqrt(value)}^3", False)
    if abs(value) >= 1000 and value % 100 == 0:
        tens = len(gold.lstrip("-")) - 1
        yield Rewrite("scientific", f"{decimal(Fraction(value, 10**tens))} \\times 10^{{{tens}}}", True)
        yield Rewrite("scientific_wrong", f"{decimal(Fraction(value, 10**tens))} \\times 10^{{{tens + 1}}}", False)
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
        if bottom in (3, 9):
            yield Rewrite("repeating_decimal", f"{top // bottom}.\\overline{{{top % bottom * 9 // bottom}}}", True)
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
