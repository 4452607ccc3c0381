"""Writes templates.json: what transformers' own jinja makes of template_snippets.py and template_families.py.

    snippets    {"source", "text"} or {"source", "raises"}, each rendered with "variables"; "refused" marks those that
                Python renders and we refuse by name
    families    name: source; "chats": name: {"messages", "options"?}
    rendered    {"family", "chat", "text"} or {"family", "chat", "raises"}, as apply_chat_template renders them

Written with jinja2 3.1.6, transformers 5.22.2 and Python 3.11.7 by: python tests/goldens/make_template_goldens.py
"""
from __future__ import annotations

import copy
import json
import os
import platform
import re
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import jinja2
import template_families
import template_snippets
import transformers
from transformers.utils.chat_template_utils import _compile_jinja_template, render_jinja_template

# Filters and globals of jinja that no chat template needs, integers of more than 64 bits, Python's own objects.
REFUSED = [
    "lipsum()", "x|pprint", "groupby('x')", "words|random", "'99999999999999999999'|int", "99999999999999999999 == 1",
    "{{ self", "2 ** 3 ** 2 ** 5", "recursive", r"\N{BULLET}",
]


def snippet(source: str) -> dict[str, Any]:
    try:
        text = _compile_jinja_template(source).render(**copy.deepcopy(template_snippets.VARIABLES))
    except Exception as error:
        return {"source": source, "raises": type(error).__name__}
    made: dict[str, Any] = {"source": source, "text": text}
    # Python prints its own objects with their addresses.
    if any(word in source for word in REFUSED) or re.search(r" at 0x[0-9a-f]+>|<function|<built-in|<class", text):
        made = {"source": source, "refused": True}
    return made


def rendered(family: str, chat: str) -> dict[str, Any]:
    case = copy.deepcopy(template_families.CHATS[chat])
    options = {**template_families.VARIABLES, **case.get("options", {})}
    made: dict[str, Any] = {"family": family, "chat": chat}
    try:
        if not case["messages"]:
            raise ValueError("apply_chat_template refuses an empty conversation before it renders")
        if options.get("continue_final_message") and options.get("add_generation_prompt"):
            raise ValueError("and these two together")
        texts, _ = render_jinja_template(
            [case["messages"]], chat_template=template_families.FAMILIES[family], **options)
        return {**made, "text": texts[0]}
    except Exception as error:
        return {**made, "raises": type(error).__name__}


def main() -> None:
    sources = template_snippets.EXPRESSIONS + template_snippets.STATEMENTS
    assert len(set(sources)) == len(sources), [each for each in sources if sources.count(each) > 1]
    goldens = {
        "made_by": "make_template_goldens.py", "jinja2": jinja2.__version__, "transformers": transformers.__version__,
        "python": platform.python_version(), "variables": template_snippets.VARIABLES,
        "snippets": [snippet(source) for source in sources],
        "families": template_families.FAMILIES, "family_variables": template_families.VARIABLES,
        "chats": template_families.CHATS,
        "rendered": [rendered(family, chat) for family in template_families.FAMILIES for chat in template_families.CHATS],
    }
    lines = [f"{json.dumps(key)}: " + (
        "[\n" + ",\n".join(json.dumps(each) for each in value) + "\n]" if isinstance(value, list) else json.dumps(value))
        for key, value in goldens.items()]
    (Path(__file__).parent / "templates.json").write_text("{" + ",\n".join(lines) + "}\n")


if __name__ == "__main__":
    main()
