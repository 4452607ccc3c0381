"""The mutants of a C++ source: a small lexer, the places where it says what can be changed, and a draw with a seed.

It reads sources as clang-format leaves them: a binary operator has blanks on both sides, the brackets of a template and
the * and & of a type do not.
"""
import dataclasses
import hashlib
import math
import re

TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?\*/)
      | (?P<string>(?:u8|[uUL])?R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|(?:u8|[uUL])?"(?:\\.|[^"\\\n])*")
      | (?P<character>(?:u8|[uUL])?'(?:\\.|[^'\\\n])+')
      | (?P<number>\.?\d(?:[eEpP][+-]|'?[\w.])*)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<punctuation><=>|->\*|<<=|>>=|\.\.\.|::|->|\+\+|--|&&|\|\||[-+*/%&|^<>=!]=|<<|>>|.)""",
    re.S | re.X)
DIRECTIVE = re.compile(r"^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*", re.M)
WORDS = {"true": "false", "false": "true", "min": "max", "max": "min", "min_element": "max_element",
         "max_element": "min_element", "isnan": "isfinite"}
# Highway's names of the same: hn::Add is an addition.
VECTOR_WORDS = {"Add": "Sub", "Sub": "Add", "Mul": "Add", "Min": "Max", "Max": "Min", "MulAdd": "MulSub", "MulSub": "MulAdd",
                "NegMulAdd": "MulAdd", "Lt": "Le", "Le": "Lt", "Gt": "Ge", "Ge": "Gt", "Eq": "Ne", "Ne": "Eq",
                "And": "Or", "Or": "And", "SumOfLanes": "MaxOfLanes", "MaxOfLanes": "SumOfLanes"}
BINARY = {"<": ("<=", ">="), "<=": ("<", ">"), ">": (">=", "<="), ">=": (">", "<"), "==": ("!=",), "!=": ("==",),
          "+": ("-",), "-": ("+",), "*": ("/",), "/": ("*",), "%": ("*",), "&&": ("||",), "||": ("&&",),
          "+=": ("-=",), "-=": ("+=",), "*=": ("/=",), "/=": ("*=",), "|=": ("&=",), "&=": ("|=",)}
# What stands in their arguments only says or checks that something is wrong.
CHECKS = {"static_assert", "ROUTEOPD_INVARIANT", "decltype", "sizeof", "alignas", "requires"}
LEAST_SHARE = 20
HEADER_WEIGHT = 0.25  # a header's mutant compiles all that includes it


@dataclasses.dataclass
class Token:
    kind: str
    text: str
    at: int


@dataclasses.dataclass
class Mutant:
    file: str
    line: int
    column: int
    at: int  # the changed text is source[at:at + len(old)]
    old: str
    new: str
    label: str = ""  # from:to of a change that is longer than a token
    key: str = ""  # the same wherever the line stands in its file

    def id(self):
        return f"{self.file}:{self.line}:{self.column}:{self.label or f'{self.old}:{self.new}'}"

    def applied(self, text):
        assert text[self.at:self.at + len(self.old)] == self.old
        return text[:self.at] + self.new + text[self.at + len(self.old):]


def tokens(text):
    """Code alone: no comments, no strings, no preprocessor."""
    # Comments and strings win over what looks like a directive within them.
    directives = [match.span() for match in DIRECTIVE.finditer(text)]
    found, at = [], 0
    while at < len(text):
        while directives and directives[0][1] <= at:
            directives.pop(0)
        if directives and directives[0][0] == at:
            at = directives.pop(0)[1]
        elif text[at].isspace() and not (directives and directives[0][0] == at):
            at += 1
        else:
            match = TOKEN.match(text, at)
            if match.lastgroup == "mark" or match["string"]:
                found.append(Token("string", match[0], at))
            elif not match["comment"]:
                found.append(Token(match.lastgroup, match[0], at))
            at = match.end()
            while directives and directives[0][0] < at:
                directives.pop(0)
    return found


def closing(found, opening):
    """The index of the bracket that closes the one at `opening`."""
    depth = 0
    for at in range(opening, len(found)):
        if found[at].kind == "punctuation":
            depth += (found[at].text in "([{") - (found[at].text in ")]}")
            if depth == 0:
                return at
    return len(found) - 1


def template_end(text, found, opening):
    """The index of the > that closes a template's <, or None if that is none."""
    depth = 0
    for at in range(opening, min(opening + 200, len(found))):
        token = found[at].text
        if token in ("<", "<<"):
            depth += len(token)
        elif token in (">", ">>"):
            depth -= len(token)
            if depth <= 0:
                return at
        elif token in (";", "{", "}"):
            return None
    return None


def left_alone(text, found):
    """The tokens that are no mutant's: templates' brackets, attributes, checks, and statements that throw."""
    skipped = set()
    for at, token in enumerate(found):
        following = found[at + 1].text if at + 1 < len(found) else ""
        if token.text == "<" and at and (not text[token.at - 1].isspace() or found[at - 1].text == "template"):
            end = template_end(text, found, at)
            skipped.update(range(at, end + 1) if end else ())
        elif token.text == "[" and following == "[":
            skipped.update(range(at, closing(found, at) + 1))
        elif token.text in CHECKS and following == "(":
            skipped.update(range(at, closing(found, at + 1) + 1))
        elif token.text == "throw":
            end = at
            while found[end].text != ";":
                end = closing(found, end) + 1 if found[end].text in "([{" else end + 1
            skipped.update(range(at, end))
        elif token.text == "operator":
            skipped.add(at + 1)
        elif token.text == "=" and following in ("0", "default", "delete"):
            if found[at - 1].text in (")", "const", "noexcept", "override"):
                skipped.add(at + 1)
    return skipped


def numbers(text):
    """What a constant becomes."""
    suffix = re.search(r"(?i)(?<=[\da-f.])(?:[uUlLzZ]+|[fFlL])?$", text)[0] if not text.lower().startswith("0x") else \
        re.search(r"[uUlLzZ]*$", text)[0] if "p" not in text.lower() else re.search(r"[fFlL]?$", text)[0]
    plain = text[:len(text) - len(suffix)].replace("'", "")
    if plain.lower().startswith("0x"):
        if "p" in plain.lower():
            return [f"(2 * {text})"]
        return [hex(int(plain, 16) + 1) + suffix]
    if re.fullmatch(r"\d+", plain):
        value = int(plain, 8 if re.fullmatch(r"0\d+", plain) else 10)
        return [f"{n}{suffix}" for n in {0: (1,), 1: (0, 2)}.get(value, (value + 1,))]
    value = float(plain)
    return [f"{n}{suffix}" for n in ("1.0",)] if value == 0 else ([f"0.0{suffix}"] if value == 1 else []) + [f"(2 * {text})"]


def changes(text, found):
    """(at, old, new, label) of every change that this source offers."""
    skipped = left_alone(text, found)
    for at, token in enumerate(found):
        if at in skipped:
            continue
        before = found[at - 1].text if at else ""
        end = token.at + len(token.text)
        blanks = text[token.at - 1:token.at].isspace(), text[end:end + 1].isspace()
        if token.kind == "punctuation":
            if token.text in BINARY and all(blanks):
                for new in BINARY[token.text]:
                    yield token.at, token.text, new, ""
            elif token.text in "!-" and not blanks[1] and (blanks[0] or before in ("(", "[", "{", "!", "-", "")):
                yield token.at, token.text, "", f"{token.text}:"
        elif token.kind == "number":
            for new in numbers(token.text):
                yield token.at, token.text, new, ""
        elif token.kind == "word":
            vector = before == "::" and found[at - 2].text == "hn"
            new = (VECTOR_WORDS if vector else WORDS).get(token.text)
            following = found[at + 1].text if at + 1 < len(found) else ""
            if new and (token.text in ("true", "false") or (before == "::" and found[at - 2].text in ("hn", "std")
                                                            and following in ("(", "<"))):
                yield token.at, token.text, new, ""
            if token.text == "if" and following == "(":
                close = closing(found, at + 1)
                begin, stop = found[at + 1].at + 1, found[close].at
                inside = {each.text for each in found[at + 2:close]}
                if not inside & {";", "="} and not set(range(at + 2, close)) <= skipped:
                    yield begin, text[begin:stop], f"!({text[begin:stop]})", "if:if not"
                    if found[close + 1].text in ("return", "continue", "break"):
                        yield begin, text[begin:stop], f"false && ({text[begin:stop]})", "if:never"


def mutants(file, text):
    """Every mutant of a source, in its order."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    seen, made, line = {}, [], 0
    for at, old, new, label in changes(text, tokens(text)):
        line = next(n for n in range(len(lines)) if starts[n] <= at < starts[n + 1])
        mutant = Mutant(file, line + 1, at - starts[line] + 1, at, old, new, label)
        name = f"{file}\n{lines[line].strip()}\n{at - starts[line]}\n{label}\n{old}\n{new}"
        seen[name] = seen.get(name, 0) + 1
        mutant.key = hashlib.sha256(f"{name}\n{seen[name]}".encode()).hexdigest()[:12]
        made.append(mutant)
    return made


def shares(candidates, count):
    """How many of `count` each group of {group: mutants} gets: in proportion to its size, but LEAST_SHARE at least."""
    size = {group: len(each) for group, each in candidates.items()}
    given = {}
    while True:
        rest = {group: n for group, n in size.items() if group not in given}
        left = count - sum(given.values())
        small = [group for group, n in rest.items() if n * left < LEAST_SHARE * sum(rest.values())]
        if not small or len(small) == len(rest):
            break
        given.update({group: min(LEAST_SHARE, size[group]) for group in small})
    exact = {group: n * left / max(1, sum(rest.values())) for group, n in rest.items()}
    given.update({group: min(size[group], math.floor(share)) for group, share in exact.items()})
    for group in sorted(rest, key=lambda group: math.floor(exact[group]) - exact[group]):
        given[group] += given[group] < size[group] and sum(given.values()) < count
    return {group: given[group] for group in candidates}


def order(mutants_of_group, seed):
    """A group's mutants in the order in which the seed draws them, those of headers later."""
    def rank(mutant):
        u = int(hashlib.sha256(f"{seed} {mutant.key}".encode()).hexdigest()[:13], 16) / 16**13
        return u ** (1 / HEADER_WEIGHT if mutant.file.endswith(".h") else 1)
    return sorted(mutants_of_group, key=rank, reverse=True)
