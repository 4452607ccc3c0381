"""What `routeopd decontaminate` must find, in plain Python: sets of n-grams, every problem beside every row.

Shared by tests/cli/decontaminate_test.py (small files) and tests/peers/decontamination.py (real ones). Standard library only.
Unicode is that of the Python that runs it; the program has that of 3.11.
"""
from __future__ import annotations

import hashlib
import json
import re
from collections import defaultdict


def text_of(row: dict) -> str:
    if "messages" not in row:
        return row["problem"] if "problem" in row else row["prompt"]
    parts = []
    for message in row["messages"]:
        content = message.get("content") or ""
        if isinstance(content, list):
            content = "".join(part["text"] for part in content if "text" in part)
        if message["role"] == "user":
            parts.append(content)
    return "\n".join(parts)


def words_of(text: str) -> list[str]:
    return re.sub(r"[^\w\s]", "", text.lower()).split()


def key_of(text: str) -> str:
    """What must be equal; a text without words stands for itself."""
    return " ".join(words_of(text)) or text


def grams_of(text: str, unit: str, n: int) -> set[str]:
    if unit == "characters":
        normal = " ".join(words_of(text))
        return {normal[i:i + n] for i in range(len(normal) - n + 1)}
    words = words_of(text)
    return {" ".join(words[i:i + n]) for i in range(len(words) - n + 1)}


def read(path) -> list[tuple[str, dict]]:
    """(line without its line feed, row) of each line that is not blank."""
    with open(path, encoding="utf-8", newline="\n") as file:
        lines = [line.removesuffix("\n") for line in file]
    return [(line, json.loads(line)) for line in lines if line.strip(" \t\r")]


def answer_of(row: dict) -> str | None:
    answer = row.get("answer")
    return answer if answer is None or isinstance(answer, str) else json.dumps(answer, separators=(",", ":"))


def conflicts_in(rows: list[dict], key) -> set[str]:
    answers = defaultdict(set)
    for row in rows:
        if answer_of(row) is not None:
            answers[key(text_of(row))].add(answer_of(row))
    return {text for text, said in answers.items() if len(said) > 1}


def reference(train, tests, words=(8, 13), characters=(50,), coverage=0.5, keep_duplicates=False, keep_conflicts=False):
    """The figures of --json without hashes; the hits (test file, test id, row id, kind, coverage); the lines that stay."""
    lines, rows = zip(*read(train))
    texts = [text_of(row) for row in rows]
    measures = [("words", n) for n in words] + [("characters", n) for n in characters]
    chain = ""
    for text in texts:
        chain = hashlib.sha256((chain + " ".join(words_of(text))).encode()).hexdigest()
    conflicts = conflicts_in(rows, key_of)
    figures = {"train": {"file": str(train), "rows": len(rows), "unique_raw": len(set(texts)), "normalised_sha256": chain,
                         "unique_normalised": len(set(map(key_of, texts))), "conflicts_normalised": len(conflicts),
                         "conflicts_raw": len(conflicts_in(rows, str))}, "tests": []}
    hits, contaminated = [], set()
    raw, normalised = defaultdict(list), defaultdict(list)
    for number, text in enumerate(texts):
        raw[text].append(number)
        normalised[key_of(text)].append(number)
    problems = [(path, number, row) for path in tests for number, (_, row) in enumerate(read(path))]
    asked = [text_of(problem) for _, _, problem in problems]
    shares = [defaultdict(dict) for _ in problems]  # problem -> row -> measure -> coverage
    best, too_short = {}, {}                         # measure -> by problem
    for unit, n in measures:
        name = f"{unit}_{n}"
        wanted = [grams_of(text, unit, n) for text in asked]
        known = set().union(*wanted)
        best[name], too_short[name] = [0.0] * len(problems), [not grams for grams in wanted]
        for number, text in enumerate(texts):
            have = grams_of(text, unit, n) & known
            for p in range(len(problems) if have else 0):
                if not wanted[p].isdisjoint(have):
                    share = len(wanted[p] & have) / len(wanted[p])
                    shares[p][number][name] = share
                    best[name][p] = max(best[name][p], share)
    for path in tests:
        mine = [p for p, (file, _, _) in enumerate(problems) if file == path]
        hit_rows = set()
        for p in mine:
            _, place, problem = problems[p]
            equal, same = set(raw.get(asked[p], ())), set(normalised.get(key_of(asked[p]), ()))
            for number in sorted(same | set(shares[p])):
                share = shares[p][number]
                reached = [(name, share[name]) for name in best if share.get(name, 0) >= coverage]
                if number in same:
                    reached = [("raw" if number in equal else "normalised", 1)]
                if reached:
                    kind, value = reached[0]
                    hits.append((str(path), str(problem.get("id", place)), str(rows[number].get("id", number)), kind, value))
                    hit_rows.add(number)
        contaminated |= hit_rows
        figures["tests"].append({
            "file": str(path), "problems": len(mine), "raw": sum(asked[p] in raw for p in mine),
            "normalised": sum(key_of(asked[p]) in normalised for p in mine), "rows": len(hit_rows),
            "ngrams": {name: {"any": sum(best[name][p] > 0 for p in mine), "covered": sum(best[name][p] >= coverage for p in mine),
                              "too_short": sum(too_short[name][p] for p in mine)} for name in best}})
    removed = {"contaminated": 0, "conflicting": 0, "duplicates": 0}
    seen, kept = set(), []
    for number, text in enumerate(texts):
        key = key_of(text)
        first = key not in seen
        seen.add(key)
        if number in contaminated:
            removed["contaminated"] += 1
        elif key in conflicts and not keep_conflicts:
            removed["conflicting"] += 1
        elif not first and not keep_duplicates:
            removed["duplicates"] += 1
        else:
            kept.append(lines[number])
    figures |= {"removed": removed, "kept": len(kept)}
    return figures, hits, kept


def without_hashes(figures: dict) -> dict:
    """--json with what only names files taken out."""
    return {"train": {k: v for k, v in figures["train"].items() if k != "sha256"},
            "tests": [{k: v for k, v in test.items() if k != "sha256"} for test in figures["tests"]],
            "removed": figures["removed"], "kept": figures["kept"]}
