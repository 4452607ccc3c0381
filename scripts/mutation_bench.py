"""Where scripts/mutate.py builds and tests: a copy of the sources, a build of its own, the tests that could notice."""
import ctypes
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

GROUPS = {name: re.compile(pattern) for name, pattern in dict(
    routing="^src/routeopd/routing/", kernels="^src/routeopd/kernels/", objective="^src/routeopd/objective/",
    train="^src/routeopd/train/", statistics=r"^src/routeopd/grade/statistics\.", sampler=r"^src/routeopd/engine/sampler\.",
).items()}
# A group that is not a whole folder of tests: the tests' files, and the folder of the library.
PARTS = {"statistics": ("grade", "statistics|clustered_mean|compare"), "sampler": ("engine", "sampler")}
SCRIPTS = {"routing": ("goldens", "cli"), "kernels": ("models_cli",), "objective": ("train_cli",),
           "train": ("train_cli", "resume_cli"), "statistics": ("eval_cli",), "sampler": ("engine_cli",)}
PROGRAMS = ("core_tests", "torch_tests")
UNIT_SECONDS, LINK_SECONDS, HEADER_SECONDS = 300, 300, 900
SPARE_SECONDS = 15  # of the processor, beyond a few times what the tests usually take
MEMORY = 8 << 30  # a mutant may ask for anything
LIBC, PR_SET_PDEATHSIG = ctypes.CDLL(None), 1
TEST_MACRO = re.compile(r"^(?:TYPED_)?TEST(?:_[FP])?\(\s*(\w+)", re.M)


@dataclasses.dataclass
class Step:
    """A program's run that could notice a mutant. An argument that is a built file's path becomes that of its copy."""
    name: str
    programs: tuple  # targets of ninja
    command: list
    environment: dict = dataclasses.field(default_factory=dict)


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def ended(command, seconds, log, cpu_seconds=None, **options):
    """The exit code, or None if the time was over; the processor's time counts where it is limited."""
    def limited():
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # where this call is killed, nothing it began may go on building
        if cpu_seconds:
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds), int(cpu_seconds) + 5))
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open(log, "w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   start_new_session=True, preexec_fn=limited, **options)
        try:
            code = process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)  # also what it left behind
            except ProcessLookupError:
                pass
            process.wait()
    return None if code == -signal.SIGXCPU else code


def who_failed(log):
    """The first test that a GoogleTest program says failed, or the one in which it ended."""
    text = pathlib.Path(log).read_text(errors="replace")
    failed = re.search(r"^\[  FAILED  \] ([\w/]+\.[\w/]+)", text, re.M)
    running = re.findall(r"^\[ RUN      \] ([\w/]+\.[\w/]+)", text, re.M)
    script = re.search(r"^(?:FAIL|ERROR): (\w+)", text, re.M)
    return failed[1] if failed else running[-1] if running else script[1] if script else ""


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

    def suites(self, folder, files):
        program = self.tested()[folder]
        names = set()
        for path in (self.source / "tests" / folder).glob("*_test.cpp"):
            if re.match(files, path.name):
                names.update(TEST_MACRO.findall(path.read_text()))
        patterns = ":".join(f"{name}.*:*/{name}.*:{name}/*:*/{name}/*" for name in sorted(names))
        command = [self.build / "tests" / program, f"--gtest_filter={patterns}", "--gtest_fail_fast"]
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


class Bench:
    def __init__(self, root, work, layout=Layout, lock=None):
        self.root, self.work, self.lock = root, work, lock
        self.source, self.build_directory = work / "source", work / "build"
        self.layout = layout(self.source, self.build_directory)
        self.environment = {**os.environ, "CCACHE_DIR": str(work / "ccache"), "OMP_WAIT_POLICY": "passive",
                            "GOMP_SPINCOUNT": "0"}
        self.built, self.planned = 0, {}

    def sync(self):
        """The copy as the sources are; what is equal stays untouched, so that it is not compiled again."""
        wanted = set()
        for path in sorted(self.root.iterdir()):
            if not path.name.startswith((".", "build")) and path.name not in ("dist", "runs"):
                below = sorted(path.rglob("*")) if path.is_dir() else [path]
                wanted.update(each for each in below if each.is_file() and "__pycache__" not in each.parts)
        for path in wanted:
            copy = self.source / path.relative_to(self.root)
            data = path.read_bytes()
            if not copy.exists() or copy.read_bytes() != data:
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(data)
                shutil.copymode(path, copy)
        for copy in list(self.source.rglob("*")):
            if copy.is_file() and self.root / copy.relative_to(self.source) not in wanted:
                copy.unlink()

    def ninja(self, targets, seconds):
        command = ["ninja", "-C", self.build_directory, "-j", str(os.cpu_count()), *map(str, targets)]
        # The lock is held until the last compiler has ended, also when this call is killed: what it still writes is older
        # than what the next call restores.
        return ended(command, seconds, self.work / "ninja.log", env=self.environment,
                     pass_fds=[self.lock.fileno()] if self.lock else [])

    def steps(self, group, deep):
        if (group, deep) not in self.planned:
            self.planned[group, deep] = self.layout.steps(group, deep)
        return self.planned[group, deep]

    def prepare(self, deep, groups):
        """Builds the sources as they are, and sees that every test passes that mutants will be held to."""
        self.sync()
        shutil.rmtree(self.work / "run", ignore_errors=True)
        if not (self.build_directory / "build.ninja").exists():
            if ended(self.layout.configure(), 600, self.work / "ninja.log", env=self.environment) != 0:
                sys.exit(f"mutate: the build could not be configured; see {self.work / 'ninja.log'}")
        rounds = [(group, each) for each in ((False, True) if deep else (False,)) for group in groups]
        for group, each in rounds:
            programs = sorted({name for step in self.steps(group, each) for name in step.programs})
            if self.ninja(programs, None) != 0:
                sys.exit(f"mutate: the sources as they are do not build; see {self.work / 'ninja.log'}")
        files = [path for path in (self.source / "src").rglob("*.cpp")
                 if any(pattern.search(str(path.relative_to(self.source))) for pattern in self.layout.groups.values())]
        self.objects = {str(path.relative_to(self.source)): self.object_of(path) for path in files}
        self.as_built = {path: digest(path) for path in self.objects.values()}
        programs = {name for group, each in rounds for step in self.steps(group, each) for name in step.programs}
        self.as_built.update({name: digest(self.layout.program(name)) for name in programs})
        self.baseline(rounds)

    def baseline(self, rounds):
        path = self.work / "baseline.json"
        before = json.loads(path.read_text()) if path.exists() else {}
        self.seconds = {}
        copies = self.copied({name for group, each in rounds for step in self.steps(group, each) for name in step.programs})
        for group, each in rounds:
            for step in self.steps(group, each):
                key = hashlib.sha256(json.dumps([*map(str, step.command), *map(self.as_built.get, step.programs)])
                                     .encode()).hexdigest()
                if key not in before:
                    begin = time.monotonic()
                    print(f"unmutated: {step.name}", end=" ", flush=True)
                    code = self.run(step, copies, None, None)
                    print(f"{time.monotonic() - begin:.0f} s", flush=True)
                    if code != 0:
                        sys.exit(f"mutate: {step.name} fails without a mutant ({who_failed(copies / 'log')}); see {copies / 'log'}")
                    before[key] = time.monotonic() - begin
                    path.write_text(json.dumps(before))
                self.seconds[step.name] = before[key]
        for steps in self.planned.values():  # sooner what is quick
            steps.sort(key=lambda step: self.seconds.get(step.name, 0))
        shutil.rmtree(copies)

    def object_of(self, path):
        answer = subprocess.run(["ninja", "-C", self.build_directory, "-t", "query", path], text=True, capture_output=True)
        objects = [line.strip() for line in answer.stdout.splitlines() if line.endswith(".o")]
        if len(objects) != 1:
            sys.exit(f"mutate: {path} is compiled to {objects or 'nothing'}; expected one object of its own")
        return self.build_directory / objects[0]

    def copied(self, programs):
        self.built += 1
        run = self.work / "run" / str(self.built)
        run.mkdir(parents=True, exist_ok=True)
        for name in programs:
            shutil.copy(self.layout.program(name), run / name)
        return run

    def build(self, group, mutant, deep):
        """("built", folder of the programs), or why there is nothing to test. Leaves the sources as they are."""
        path = self.source / mutant.file
        original = path.read_text()
        programs = sorted({name for step in self.steps(group, deep) for name in step.programs})
        try:
            path.write_text(mutant.applied(original))
            compiled = self.objects.get(mutant.file)
            if compiled:
                code = self.ninja([compiled.relative_to(self.build_directory)], UNIT_SECONDS)
                if code != 0:
                    return ("too long to build" if code is None else "uncompilable"), None
                if digest(compiled) == self.as_built[compiled]:
                    return "equivalent", None
            for name in programs:
                self.layout.program(name).unlink(missing_ok=True)
            code = self.ninja(programs, LINK_SECONDS if compiled else HEADER_SECONDS)
            if code is None:
                return "too long to build", None
            if not all(self.layout.program(name).is_file() for name in programs):  # linked, it may fail to list its tests
                return "uncompilable", None
            if not deep and not compiled and all(digest(self.layout.program(name)) == self.as_built[name] for name in programs):
                return "equivalent", None
            return "built", self.copied(programs)
        finally:
            path.write_text(original)

    def run(self, step, run, seconds, cpu_seconds):
        scratch = run / "tmp"
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        copies = {str(self.layout.program(name)): str(run / name) for name in step.programs}
        command = [copies.get(str(each), str(each)) for each in step.command]
        return ended(command, seconds, run / "log", cpu_seconds, cwd=scratch,
                     env={**self.environment, **step.environment, "TMPDIR": str(scratch)})

    def test(self, group, deep, run, likely=()):
        """("killed", by which test), ("time-out", in which) or ("survived", ""). First the tests that are `likely` to fail."""
        try:
            steps = self.steps(group, deep)
            if likely and not deep:
                command = [f"--gtest_filter={':'.join(likely)}" if str(each).startswith("--gtest_filter=") else each
                           for each in steps[0].command]
                steps = [dataclasses.replace(steps[0], command=command), *steps]
            for step in steps:
                usual = self.seconds[step.name]
                code = self.run(step, run, 10 * usual + 4 * SPARE_SECONDS, 5 * usual + SPARE_SECONDS)
                if code != 0:
                    return ("time-out" if code is None else "killed"), who_failed(run / "log") or step.name
            return "survived", ""
        finally:
            shutil.rmtree(run, ignore_errors=True)
