"""Where scripts/mutate.py builds and tests: a copy of the sources, and a build of its own."""
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

from mutation_layout import Layout

UNIT_SECONDS, LINK_SECONDS, HEADER_SECONDS = 300, 300, 900
SPARE_SECONDS = 5  # of the processor, beyond three times what the tests usually take
MEMORY = 8 << 30  # a mutant may ask for anything
LIBC, PR_SET_PDEATHSIG = ctypes.CDLL(None), 1


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def processor_seconds():
    """Of all that has been run and has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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
                    begin = processor_seconds()
                    print(f"unmutated: {step.name}", end=" ", flush=True)
                    code = self.run(step, copies, None, None)
                    print(f"{processor_seconds() - begin:.0f} s of the processor", flush=True)
                    if code != 0:
                        sys.exit(f"mutate: {step.name} fails without a mutant ({who_failed(copies / 'log')}); see {copies / 'log'}")
                    before[key] = processor_seconds() - begin
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

    def test(self, group, deep, run, file="", killers=()):
        """("killed", by which test), ("time-out", in which) or ("survived", ""). First the tests that are likely to fail: those
        that killed mutants of the file, and those in the test file of its name."""
        try:
            steps, allowed = self.steps(group, deep), 3
            likely = [*killers, *self.layout.namesakes(group, file)]
            if likely and not deep:
                allowed = 1  # a part of the step after it, which has the last word
                command = [f"--gtest_filter={':'.join(likely)}" if str(each).startswith("--gtest_filter=") else each
                           for each in steps[0].command]
                steps = [dataclasses.replace(steps[0], command=command), *steps]
            for step in steps:
                usual = self.seconds[step.name]
                code = self.run(step, run, 20 * (usual + SPARE_SECONDS), allowed * usual + SPARE_SECONDS)
                allowed = 3
                if code != 0:
                    return ("time-out" if code is None else "killed"), who_failed(run / "log") or step.name
            return "survived", ""
        finally:
            shutil.rmtree(run, ignore_errors=True)
