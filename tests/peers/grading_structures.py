"""Rewrites of golds that have a structure: tuples, intervals, lists, matrices, roots, sums, equations; see grading_pairs.py.

As in grading_numbers.py, each function yields the rewrites that fit the shape of a gold. Standard library only.
"""
from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator

from grading_numbers import Rewrite, altered, canonical, decimal, fraction, negated, number


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
        variables = [part for part in parts if "infty" not in part]
        if len(variables) == 1:
            ray = (">" if left == "(" else "\\ge") if "infty" in parts[1] else ("<" if right == ")" else "\\le")
            yield Rewrite("ray_inequality", f"x {ray} {variables[0]}", True)
        if parts[1] == "\\infty":
            yield Rewrite("plus_infinity", f"{left}{parts[0]},+\\infty{right}", True)
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
    yield Rewrite("list_each_equals", " \\text{ or } ".join(f"x = {part}" for part in turned), True)
    yield Rewrite("list_each_equals_comma", ", ".join(f"x = {part}" for part in parts), True)
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
    multiplied = re.sub(r"(\d)\s*([a-zA-Z]|\\sqrt|\\pi)", r"\1 \\cdot \2", joined(terms))
    if multiplied != joined(terms):
        yield Rewrite("sum_cdot", multiplied, True)
    yield Rewrite("sum_negated_twice", f"-({joined([{'+': '-', '-': '+'}[term[0]] + term[1:] for term in terms])})", True)
    if gold.endswith("i") and re.search(r"\d+i$", gold):
        yield Rewrite("imaginary_spaced", re.sub(r"(\d+)i$", r"\1 i", gold), True, "spaced_i")
        yield Rewrite("complex_equals", f"z = {gold}", True)
        yield Rewrite("complex_conjugate", joined([terms[0], {"+": "-", "-": "+"}[terms[1][0]] + terms[1][1:]]), False)
        yield Rewrite("complex_i_lost", gold[:-1], False)
        yield Rewrite("complex_parts_swapped", re.sub(r"(-?)(\d+)(\s*[+-]\s*)(\d+)i", r"\1\4\3\2i", gold), False)
    coefficients = [re.fullmatch(r"([+-])(\d*)(.*)", term).groups() for term in terms]
    if all(re.fullmatch(r"([a-z]|\s*\\sqrt\{\d+\}|\s*\\pi)(\^\d)?|", rest) for *_, rest in coefficients):
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
        yield Rewrite("letter_changed", re.sub(rf"(?<![a-z\\]){letters[0]}(?![a-z])", other, text), False)
    yield Rewrite("term_added", f"{joined(terms)} + 1", False)


def products(gold: str, rng: random.Random) -> Iterator[Rewrite]:
    if found := re.fullmatch(r"\(([a-z])\+(\d+)\)\(([a-z])\+(\d+)\)", gold):
        first, a, second, b = found[1], int(found[2]), found[3], int(found[4])
        yield Rewrite("factors_commuted", f"({second}+{b})({first}+{a})", True)
        yield Rewrite("factors_expanded", f"{first}{second} + {b}{first} + {a}{second} + {a * b}", True)
        yield Rewrite("factors_left_right", f"\\left({first}+{a}\\right)\\left({second}+{b}\\right)", True)
        yield Rewrite("factors_crossed", f"({first}+{b})({second}+{a})", False)
        yield Rewrite("factor_lost", f"({first}+{a})", False)
    if found := re.fullmatch(r"\\frac\{(\d+)\+(\d+)([a-z])\}\{(\d+)\}", gold):
        a, b, letter, bottom = found.groups()
        yield Rewrite("quotient_of_sum_split", f"\\frac{{{a}}}{{{bottom}}} + \\frac{{{b}{letter}}}{{{bottom}}}", True)
        yield Rewrite("quotient_of_sum_slash", f"({b}{letter} + {a})/{bottom}", True)
        yield Rewrite("quotient_of_sum_half", f"\\frac{{{a}}}{{{bottom}}} + {b}{letter}", False)
        yield Rewrite("quotient_of_sum_letter", f"\\frac{{{a}+{b}}}{{{bottom}}}", False)
    if found := re.fullmatch(r"\\cot ([a-z])", gold):
        yield Rewrite("cotangent_quotient", f"\\frac{{\\cos {found[1]}}}{{\\sin {found[1]}}}", True)
        yield Rewrite("cotangent_reciprocal", f"\\frac{{1}}{{\\tan {found[1]}}}", True)
        yield Rewrite("cotangent_brackets", f"\\cot({found[1]})", True)
        yield Rewrite("cotangent_swapped", f"\\frac{{\\sin {found[1]}}}{{\\cos {found[1]}}}", False)
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
