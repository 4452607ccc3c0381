"""A directory in which the documentation's commands can be run as they stand: what the pages say is there lies there, small.

    name on the pages             what lies there
    DIR, B, models/teacher, …     the laboratory's teacher with a chat template
    A, models/student, …          its student, with the same template
    RECIPE, recipes/lab.toml      the laboratory's recipe with 4 × 2 answers of 24 tokens a step; all 30 steps
    recipes/smollm2.toml          the recipe with the laboratory's pair, 2 steps of 2 × 1 answers
    models/… of a paper's recipe  where a page takes it for granted: the laboratory's student, and its problems as data/…
    lab/heldout.jsonl             the first 6 problems of 200; for a bank of states all
    FILE                          the laboratory's training problems
    math500.jsonl, prompts.jsonl… a few of its problems
    *.json of configurations      the laboratory's
"""
import json
import re
import shutil

# As the laboratory asks: the problem without the words about \boxed{} that follow it.
TEMPLATE = "Problem: {{ messages[-1].content.split('\\n')[0] }}{% if add_generation_prompt %}\nSolution:{% endif %}"
HELD_OUT = 6
PROBLEMS = ["math500.jsonl", "amc23.jsonl", "aime24.jsonl", "aime25.jsonl"]
PROMPTS = ["dapo_math_17k.jsonl", "prompts.jsonl", "train.jsonl"]
TEACHERS = ["DIR", "B", "models/teacher", "models/smollm2"]
STUDENTS = ["A", "models/student", "models/smollm2_damaged"]
PAPERS = ["models/deepseek_r1_distill_qwen_1_5b", "models/justrl_deepseek_1_5b"]
SMALLER = {
    "lab.toml": {"prompts_per_step": 4, "n": 2, "max_new_tokens": 24},
    "smollm2.toml": {"prompts_per_step": 2, "n": 1, "max_new_tokens": 8, "steps": 2, "states": 8},
}


def head(source, count):
    return "".join(source.read_text().splitlines(keepends=True)[:count])


def smaller(recipe, settings):
    """A recipe's text with these values in place of its own."""
    for name, value in settings.items():
        recipe, changed = re.subn(rf"^{name} = [^#\n]*?(?=\s*(#|$))", f"{name} = {value}", recipe, flags=re.M)
        if not changed:
            raise ValueError(f"expected {name} in the recipe")
    return recipe


def make_scratch(source, program, place, held_out=HELD_OUT, papers=False):
    """Everything but runs: those are the pages' own."""
    shutil.copytree(source / "lab", place / "lab", ignore=shutil.ignore_patterns("lists"))
    (place / "lab/heldout.jsonl").write_text(head(source / "lab/heldout.jsonl", held_out))
    (place / "FILE").symlink_to("lab/train.jsonl")
    for folder in ("recipes", "examples", "scripts", "tests/scale/configs"):
        shutil.copytree(source / folder, place / folder)
    for name, settings in SMALLER.items():
        (place / "recipes" / name).write_text(smaller((source / "recipes" / name).read_text(), settings))
    (place / "build").mkdir()
    (place / "build/routeopd").symlink_to(program)
    (place / "models").mkdir()
    for names, model in ((TEACHERS, "teacher"), (STUDENTS, "base"), (PAPERS if papers else [], "base")):
        for name in names:
            shutil.copytree(source / "lab" / model, place / name)
            (place / name / "chat_template.jinja").write_text(TEMPLATE)
    (place / "data").mkdir()
    (place / "data/math.jsonl").write_text(head(source / "lab/train.jsonl", 16))
    for name in PROBLEMS:
        (place / name).write_text(head(source / "lab/heldout.jsonl", 2))
    for name in PROMPTS:
        (place / name).write_text(head(source / "lab/train.jsonl", 16))
    if papers:
        for name in PAPERS:
            config = json.loads((place / name / "config.json").read_text())
            (place / name / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 1 << 17}))
        for name in PROBLEMS:
            shutil.copy(place / name, place / "data" / name)
        (place / "data/dapo_math_17k.jsonl").write_text(head(source / "lab/train.jsonl", 512))  # a step of the paper's
    (place / "RECIPE").symlink_to("recipes/lab.toml")
    for name in ("a.json", "b.json"):
        shutil.copy(source / "lab/base/config.json", place / name)
    (place / "chats.jsonl").write_text(json.dumps({"messages": [{"role": "user", "content": "Hello"}]}) + "\n")
    (place / "texts.jsonl").write_text(json.dumps({"text": "Hello"}) + "\n")
    (place / "sequences.jsonl").write_text(json.dumps({"ids": [5, 9, 3]}) + "\n")
