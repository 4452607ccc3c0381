"""Which of the project's tests could notice a mutant (scripts/mutate.py)."""
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess

GROUPS = {name: re.compile(pattern) for name, pattern in dict(
    routing="^src/routeopd/routing/", kernels="^src/routeopd/kernels/", objective="^src/routeopd/objective/",
    train="^src/routeopd/train/", statistics=r"^src/routeopd/grade/statistics\.", sampler=r"^src/routeopd/engine/sampler\.",
).items()}
# A group that is not a whole folder of tests: the tests' files, and the folder of the library.
PARTS = {"statistics": ("grade", "statistics|clustered_mean|compare"), "sampler": ("engine", "sampler")}
SCRIPTS = {"routing": ("goldens", "cli"), "kernels": ("models_cli",), "objective": ("train_cli",),
           "train": ("train_cli", "resume_cli"), "statistics": ("eval_cli",), "sampler": ("engine_cli",)}
PROGRAMS = ("core_tests", "torch_tests")
MEASURING = "*.IsFast*"  # at low priority they fail by themselves
TEST_MACRO = re.compile(r"^(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+)", re.M)


def patterns(paths):
    """Of the suites in these files, parametrised ones among them."""
    names = sorted({name for path in paths for name in TEST_MACRO.findall(path.read_text())})
    return [pattern for name in names for pattern in (f"{name}.*", f"*/{name}.*", f"{name}/*", f"*/{name}/*")]


@dataclasses.dataclass
class Step:
    """A program's run that could notice a mutant. An argument that is a built file's path becomes that of its copy."""
    name: str
    programs: tuple  # targets of ninja
    command: list
    environment: dict = dataclasses.field(default_factory=dict)


class Layout:
    """RouteOPD's own tests, by group."""
    groups = GROUPS

    def __init__(self, source, build):
        self.source, self.build = source, build

    def program(self, name):
        return self.build / ("tests" if name in PROGRAMS else "") / name

    def configure(self):
        python = os.environ.get("TORCH_PYTHON") or str(self.source.parents[1] / ".venv/bin/python")
        apart = "|".join(pattern.pattern.removeprefix("^src/routeopd") for pattern in self.groups.values())
        command = ["cmake", "-S", self.source, "-B", self.build, "-G", "Ninja", "--log-level=NOTICE",
                   f"-DROUTEOPD_TORCH_PYTHON={python}", f"-DROUTEOPD_APART={apart}",
                   # A mutant may leave a name unused or a loop odd: warnings are no errors here.
                   "-DCMAKE_BUILD_TYPE=Mutation", "-DCMAKE_CXX_FLAGS_MUTATION=-O1 -DNDEBUG -w"]
        return command + (["-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=gold"] if shutil.which("ld.gold") else [])

    def steps(self, group, deep):
        """The folder's own tests first; `deep`: the tests of every folder whose library uses it, then command lines."""
        folder, files = PARTS.get(group, (group, ""))
        if not deep:
            return [self.suites(folder, files)]
        folders = [each for each in self.tested() if each in self.users_of(folder)]
        rest = [self.suites(folder, f"(?!{files})")] if files else []
        return rest + [self.suites(each, "") for each in folders] + self.scripts(SCRIPTS[group])

    def tested(self):
        text = (self.source / "tests/CMakeLists.txt").read_text()
        found = {}
        for program in PROGRAMS:
            listed = re.search(rf"routeopd_tests\({program} .*?FOLDERS ([\w\s]+?)\s+USES", text, re.S)[1]
            found.update({folder: program for folder in listed.split()})
        return found

    def users_of(self, folder):
        text = (self.source / "src/routeopd/CMakeLists.txt").read_text()
        found = {folder}
        for name, rest in re.findall(r"^routeopd_library\((\w+)([^)]*)\)", text, re.M):  # dependencies point up this list
            uses = re.search(r"\bUSES ([\w ]+?)(?: LINK|$)", rest)
            if uses and found & set(uses[1].split()):
                found.add(name)
        return found - {folder}

    def namesakes(self, group, file):
        """Patterns of the tests of metrics_test.cpp for metrics.cpp."""
        folder = PARTS.get(group, (group, ""))[0]
        path = self.source / "tests" / folder / f"{pathlib.Path(file).stem}_test.cpp"
        return patterns([path]) if path.exists() else []

    def suites(self, folder, files):
        program = self.tested()[folder]
        paths = (self.source / "tests" / folder).glob("*_test.cpp")
        patterns_of_all = ":".join(patterns(path for path in paths if re.match(files, path.name)))
        command = [self.build / "tests" / program, f"--gtest_filter={patterns_of_all}-{MEASURING}", "--gtest_fail_fast"]
        return Step(f"{program} of {folder} {files}".strip(), (program,), command)

    def scripts(self, names):
        listed = subprocess.run(["ctest", "--test-dir", self.build, "--show-only=json-v1"], check=True, text=True,
                                capture_output=True).stdout
        steps = []
        for test in json.loads(listed)["tests"]:
            if test["name"] in names:
                environment = next((each["value"] for each in test["properties"] if each["name"] == "ENVIRONMENT"), [])
                programs = [name for name in ("routeopd", "core_tests") if
                            any(pathlib.Path(each).name == name for each in test["command"])]
                steps.append(Step(test["name"], tuple(programs), test["command"], dict(e.split("=", 1) for e in environment)))
        return steps
