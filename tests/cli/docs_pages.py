"""What the documentation shows: the commands of its fenced blocks with the output beside them, the examples of every
command's --help, and whether an output is the one that was shown."""
import re
import subprocess


class Command:
    """A shell command that a page shows, and the lines that the page has below it."""

    def __init__(self, page, text, shown):
        self.page, self.text, self.shown = page, text, shown

    def __str__(self):
        return f"{self.page}: {self.text}"


def is_whole(text):
    """Whether a shell takes these lines for whole commands: no quote, here-document or backslash is open."""
    checked = subprocess.run(["bash", "-n", "-c", text], text=True, capture_output=True)
    return not text.endswith("\\") and checked.returncode == 0 and "here-document" not in checked.stderr


def without_remark(text):
    """A command without the two spaces and # that explain it at the end of its line."""
    return re.sub(r"\s{2,}#.*$", "", text)


def commands_of(page, block):
    found, lines = [], block.splitlines()
    while lines:
        line = lines.pop(0)
        if not line.startswith("$ "):
            if found and (line or found[-1].shown):
                found[-1].shown.append(line)
            continue
        text = without_remark(line[2:])
        while lines and not is_whole(text):
            text += "\n" + without_remark(lines.pop(0))
        found.append(Command(page, text, []))
    for command in found:
        while command.shown and not command.shown[-1]:
            command.shown.pop()
    return found


def blocks_of(text):
    """(language, block) of every fence."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)


def examples_of(help_text):
    """The commands below "Example:", one a line, or more where a line ends with a backslash."""
    found = []
    for part in re.split(r"^Examples?:\s*\n", help_text, flags=re.M)[1:]:
        text = ""
        for line in part.splitlines():
            if not line.startswith("  ") and line.strip():
                break
            text = f"{text}\n{line.strip()}".strip() if text else line.strip()
            if text and is_whole(text):
                found.append(text)
                text = ""
    return found


# A number, as it is printed: with a sign, commas between thousands, a point, an exponent.
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def step_of(number):
    """One unit of the last digit that is shown."""
    mantissa, _, exponent = number.partition("e")
    return 10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2]))


def same_line(shown, real):
    """Equal words, and numbers that differ by one unit of the last digit shown: processors and libraries round differently.
    How wide the columns of a table are follows from its digits, so spaces and rules count as one."""
    def squeezed(text):
        return re.sub(r"-{3,}", "---", " ".join(text.split()))

    shown, real = squeezed(shown), squeezed(real)
    if NUMBER.sub("0", shown) != NUMBER.sub("0", real):
        return False
    return all(abs(float(one.replace(",", "")) - float(other.replace(",", ""))) <= 1.001 * step_of(one)
               for one, other in zip(NUMBER.findall(shown), NUMBER.findall(real)))


def difference(shown, real):
    """The first shown line that the real ones do not have in its place, or None. "…" alone on a line stands for any lines."""
    at, anywhere = 0, False
    for line in shown:
        if line.strip() == "…":
            anywhere = True
            continue
        found = [i for i in range(at, len(real) if anywhere else min(at + 1, len(real))) if same_line(line, real[i])]
        if not found:
            return line
        at, anywhere = found[0] + 1, False
    if not anywhere and at < len([line for line in real if line.strip()]) and "".join(real[at:]).strip():
        return "nothing after it, but the program says: " + next(line for line in real[at:] if line.strip())
    return None
