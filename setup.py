"""Builds the extension module ``minitensor._C``; the metadata is in setup.cfg.

Objects are compiled in parallel, and only those whose source, headers or flags changed. ``CXX``, ``CPPFLAGS``,
``CXXFLAGS`` and ``LDFLAGS`` are honoured. ``MT_ISA_BUILD`` says for which instruction sets kernels are compiled, beside
the baseline: ``host`` (this machine's best, the default), ``all``, or names with commas between them.
``MT_SANITIZE=address,undefined`` or ``MT_SANITIZE=thread`` makes an instrumented build.
"""

import contextlib
import hashlib
import os
import shlex
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from runpy import run_path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

ROOT = Path(__file__).resolve().parent

# No contraction and no reassociation: compiled clusters and eager kernels promise the same bits (docs/numerics.md).
# Paths are relative and include nothing of this folder's: a compiler cache knows the same file in another folder.
FLAGS = shlex.split(
    "-std=c++20 -fPIC -pthread -fno-math-errno -ffp-contract=off -fno-semantic-interposition -fvisibility=hidden"
    " -Wall -Wextra -Wno-missing-field-initializers -Icsrc"
)
RELEASE_FLAGS = ["-O3", "-g0", "-DNDEBUG"]
# Where no time goes into loops over elements, -O3 makes code longer, not faster.
CONTROL_FLAGS = ["-O2"]
SANITIZE_FLAGS = ["-O1", "-g1", "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined"]

# What is compiled beforehand and included by everything but kernels of one instruction set: the headers of the standard
# library and of Python.
PRECOMPILED = Path("csrc/precompiled.h")

# What takes longest to compile is started first, so that no core is left with it at the end.
LONGEST = (
    "reduce/loops",
    "runtime/products/gemm_",
    "elementwise/loops",
    "pointwise/vector",
    "index/gather",
    "nn/loops",
    "nn/softmax_loops",
)

# Where loops over elements are.
LOOPS = ("csrc/kernels/", "csrc/runtime/", "csrc/distributed/combine")

# Where half of a file's time goes into headers: neighbours are compiled as one file, of so many bytes of source.
GROUPED = ("csrc/autograd/", "csrc/bindings/", "csrc/distributed/", "csrc/trace/")
GROUP_SIZE = 40_000

# What a file includes that is compiled once for each instruction set (csrc/kernels/cpu).
FOR_EACH_ISA = '#include "kernels/cpu/loops/target.h"'

# Instruction sets beside the baseline, best last, and how /proc/cpuinfo knows a CPU that has them (csrc/core/isa.cpp).
ISAS = {
    "x86_64": {
        "avx2": {"avx2", "fma", "f16c"},
        "avx512": {"avx2", "fma", "f16c", "avx512f", "avx512vl", "avx512dq", "avx512bw"},
    }
}


class BuildExt(build_ext):
    """Compiles incrementally, one compiler process a core."""

    def build_extension(self, ext: Extension) -> None:
        """Compile what changed of ``ext`` and link it."""
        sanitize = os.environ.get("MT_SANITIZE", "")
        cxx = shlex.split(os.environ.get("CXX", "g++"))
        machine = target_machine(cxx)
        isas = isas_to_build(os.environ.get("MT_ISA_BUILD") or "host", machine)
        defines = {
            "MT_VERSION": f'"{self.distribution.get_version()}"',
            **{f"MT_BUILT_{isa.upper()}": "1" for isa in isas},
        }
        extra = [flag for name in ("CPPFLAGS", "CXXFLAGS") for flag in shlex.split(os.environ.get(name, ""))]

        mode = [f"-fsanitize={sanitize}", *SANITIZE_FLAGS] if sanitize else RELEASE_FLAGS
        base = Precompiled([*cxx, *FLAGS, *mode, "-isystem", sysconfig.get_path("include"), *extra])
        units: list[Unit] = []
        for sources in groups(ext.sources):
            if not str(sources[0]).startswith(LOOPS):
                control = [] if sanitize else CONTROL_FLAGS
                parts = [Unit(source, "", base, [*defines_for(source, defines), *control]) for source in sources]
                units.append(Group(parts) if len(parts) > 1 else parts[0])
                continue
            for isa in targets(sources[0], machine, isas):
                # On a machine that has better the baseline runs only when MT_ISA asks for it.
                spare = len(isas) == 1 and isa == "baseline" and not sanitize
                flags = [*defines_for(sources[0], defines), *([f"-DMT_TARGET_{isa.upper()}"] if isa else [])]
                units.append(Unit(sources[0], isa, base, [*flags, *(["-O1"] if spare else [])]))
        started = time.time_ns()
        built_from = run_path("minitensor/_import/stale_extension.py")
        checksum = built_from["checksum"]("csrc")
        compile_all(base, units, self.force)
        named = define_text(base, built_from["SYMBOL"], checksum)

        output = Path(self.get_ext_fullpath(ext.name))
        output.parent.mkdir(parents=True, exist_ok=True)
        # Linked beside the old file and renamed over it: a process that has the old one mapped keeps it whole.
        partial = output.with_suffix(f".{os.getpid()}.tmp")
        flags = ["-shared", "-pthread", *([f"-fsanitize={sanitize}"] if sanitize else [])]
        flags += shlex.split(os.environ.get("LDFLAGS", ""))
        link = [*cxx, *flags, *(str(obj) for unit in units for obj in unit.objects()), str(named), "-o", str(partial)]
        if subprocess.run(link).returncode:
            partial.unlink(missing_ok=True)
            raise LinkError(f"{ext.name} did not link")
        # Dated like an object: minitensor/_import/stale_extension.py goes by that.
        os.utime(partial, ns=(started, started))
        os.replace(partial, output)

    def get_source_files(self) -> list[str]:
        """Sources and headers, for the source distribution."""
        return sorted(str(p.relative_to(ROOT)) for p in (ROOT / "csrc").rglob("*") if p.suffix in (".cpp", ".h"))


class Precompiled:
    """A command that compiles with the headers of PRECOMPILED read beforehand."""

    def __init__(self, command: list[str]) -> None:
        self.command = command
        self.folder = objects_folder(command)
        self.header = self.folder / PRECOMPILED.name

    def prepare(self) -> bool:
        """Compile the header if that hasn't been done."""
        output = self.header.with_suffix(".h.gch")
        checksum = self.header.with_suffix(".h.gch.sum")
        if is_fresh(output) and checksum.exists():
            return True
        self.folder.mkdir(parents=True, exist_ok=True)
        self.header.write_bytes(PRECOMPILED.read_bytes())
        # No two compilations give the same bytes. What they are made of is the same, and is what ccache is to go by.
        text = subprocess.run([*self.command, "-E", "-x", "c++", PRECOMPILED], stdout=subprocess.PIPE)
        checksum.write_text(hashlib.sha256(text.stdout).hexdigest())
        return not text.returncode and compile_object([*self.command, "-x", "c++-header"], PRECOMPILED, output)


class Unit:
    """A source, how it is compiled and where its object is."""

    files = 1

    def __init__(self, source: Path, isa: str, base: Precompiled, flags: list[str]) -> None:
        self.source = source
        self.isa = isa
        self.base = base
        self.flags = flags
        # One directory of objects for each set of flags: changing them and back again loses nothing. Not below
        # build_temp, which is a new folder at every `pip install -e`.
        self.obj = objects_folder([*base.command, *flags]) / source.with_suffix(".o")

    def compile(self) -> bool:
        """Compile it; say whether that went well."""
        return compile_object(self.command(), self.source, self.obj)

    def command(self) -> list[str]:
        """The compiler's command but for the names of files."""
        # What is for one instruction set reads nearly nothing, and so need not wait for the precompiled header.
        headers = [] if self.isa else ["-include", str(self.base.header)]
        return [*self.base.command, *headers, *self.flags, "-c"]

    def objects(self) -> list[Path]:
        """What is linked."""
        return [self.obj]

    def is_fresh(self) -> bool:
        """Whether nothing needs to be compiled."""
        return is_fresh(self.obj)

    def precedence(self) -> tuple[int, int]:
        """The key by which the longest come first."""
        name = f"{self.source.parent.name}/{self.source.stem}"
        rank = next((i for i, part in enumerate(LONGEST) if part in name), len(LONGEST))
        return rank, -self.source.stat().st_size


class Group(Unit):
    """Files of one folder that are compiled as one; and one by one where they have names that don't go together."""

    def __init__(self, parts: list[Unit]) -> None:
        first = parts[0]
        flags = list(dict.fromkeys(flag for part in parts for flag in part.flags))
        super().__init__(first.source, "", first.base, flags)
        self.parts = parts
        self.files = len(parts)
        self.obj = self.obj.with_suffix(".group.o")
        self.together = self.obj.with_suffix(".cpp")
        self.text = "".join(f'#include "{part.source.relative_to("csrc")}"\n' for part in self.parts)

    def compile(self) -> bool:
        """Compile them; say whether that went well."""
        self.together.parent.mkdir(parents=True, exist_ok=True)
        self.together.write_text(self.text, encoding="utf-8")
        if compile_object(self.command(), self.together, self.obj, quiet=True):
            return True
        self.obj.unlink(missing_ok=True)
        compiled = [part.compile() for part in self.parts]
        if not all(compiled):
            return False
        print(f"{', '.join(str(part.source) for part in self.parts)}: not as one file", flush=True)
        return True

    def objects(self) -> list[Path]:
        """What is linked."""
        return [self.obj] if self.obj.exists() else [part.obj for part in self.parts]

    def is_fresh(self) -> bool:
        """Whether nothing needs to be compiled. A file may have come to the group, or have gone to another one."""
        if self.obj.exists() and self.together.read_text(encoding="utf-8") != self.text:
            return False
        return all(map(is_fresh, self.objects()))

    def precedence(self) -> tuple[int, int]:
        """The key by which the longest come first."""
        return len(LONGEST), -sum(part.source.stat().st_size for part in self.parts)


class Progress:
    """Says how far a build is, also to whoever waits at a terminal for pip, which keeps a build's output to itself."""

    INTERVAL = 10  # seconds between lines on the terminal
    FILE = 0.9  # seconds that one core compiles a file, on the average: an AMD EPYC in 2026

    def __init__(self, total: int, jobs: int) -> None:
        self.total = total
        self.done = 0
        self.next_line = time.monotonic() + self.INTERVAL
        self.terminal = None
        if "PIP_BUILD_TRACKER" in os.environ and not sys.stdout.isatty() and total > 1:
            with contextlib.suppress(OSError):
                self.terminal = open("/dev/tty", "w")  # noqa: SIM115  (until the end)
        if total > 1:
            minutes = max(1, round(total * self.FILE / jobs / 60))
            self._tell(f"compiling {total} files of C++; about {minutes} min on {jobs} cores")

    def _tell(self, text: str) -> None:
        if self.terminal:
            with contextlib.suppress(OSError):
                print(f"\n  minitensor: {text}", end="", file=self.terminal, flush=True)

    def report(self, unit: "Unit", ok: bool) -> None:
        """Say that one more file is done."""
        self.done += unit.files
        isa = f" ({unit.isa})" if unit.isa else ""
        more = f" and {unit.files - 1} more" if unit.files > 1 else ""
        print(f"[{self.done}/{self.total}] {unit.source}{more}{isa}{'' if ok else ': failed'}", flush=True)
        now = time.monotonic()
        if now >= self.next_line or self.done == self.total:
            self.next_line = now + self.INTERVAL
            self._tell(f"{self.done} of {self.total} files compiled")


def compile_all(base: Precompiled, units: list[Unit], force: bool) -> None:
    """Compile the units that are out of date, a process for each core."""
    stale = sorted((unit for unit in units if force or not unit.is_fresh()), key=Unit.precedence)
    jobs = len(os.sched_getaffinity(0))
    progress = Progress(sum(unit.files for unit in stale), jobs)

    def compile_one(unit: Unit) -> bool:
        ok = unit.compile()
        progress.report(unit, ok)
        return ok

    # The header is compiled beside what doesn't wait for it.
    with ThreadPoolExecutor(jobs) as pool:
        prepared = pool.submit(base.prepare) if stale else None
        results = [pool.submit(compile_one, unit) for unit in stale if unit.isa]
        if prepared and not prepared.result():
            raise CompileError(f"{PRECOMPILED} did not compile")
        results += [pool.submit(compile_one, unit) for unit in stale if not unit.isa]
    failed = sum(not result.result() for result in results)
    if failed:
        raise CompileError(f"{failed} of {len(stale)} compilations failed")


def define_text(base: Precompiled, name: str, text: str) -> Path:
    """An object in which a symbol that can be looked up is a text."""
    source = base.folder / f"{name}.cpp"
    visible = f'extern "C" __attribute__((visibility("default"), used)) const char {name}[{len(text) + 1}]'
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(f'{visible} = "{text}";\n', encoding="utf-8")
    if not compile_object([*base.command, "-c"], source, source.with_suffix(".o")):
        raise CompileError(f"{source} did not compile")
    return source.with_suffix(".o")


def groups(sources: list[str]) -> list[list[Path]]:
    """The sources, those that are compiled as one together: neighbours of one folder."""
    result: list[list[Path]] = []
    size = 0
    for source in map(Path, sources):
        own = source.stat().st_size
        last = result[-1][-1] if result else None
        together = last is not None and last.parent == source.parent and str(source).startswith(GROUPED)
        together = together and not str(source).startswith(LOOPS) and not str(last).startswith(LOOPS)
        if not together or size + own > GROUP_SIZE:
            result.append([])
            size = 0
        result[-1].append(source)
        size += own
    return result


def defines_for(source: Path, defines: dict[str, str]) -> list[str]:
    """The flags for those of the defines that a file mentions: another version compiles one file, not all."""
    text = source.read_text(encoding="utf-8")
    return [f"-D{name}={value}" for name, value in defines.items() if name in text]


def target_machine(cxx: list[str]) -> str:
    """The architecture that the compiler makes code for."""
    try:
        run = subprocess.run([*cxx, "-dumpmachine"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CompileError(
            f"minitensor is compiled with {shlex.join(cxx)}, and that cannot be run: {error}. It takes a C++20 "
            "compiler, g++ 12 or later; the environment variable CXX chooses another"
        ) from None
    return run.stdout.partition("-")[0].strip()


def isas_to_build(wanted: str, machine: str) -> list[str]:
    """The instruction sets to build beside the baseline, by what ``MT_ISA_BUILD`` says."""
    isas = ISAS.get(machine, {})
    if wanted == "all":
        return list(isas)
    if wanted == "host":
        if machine != os.uname().machine:
            return []
        flags = {line.partition(":")[2] for line in Path("/proc/cpuinfo").read_text().splitlines() if "flags" in line}
        return [isa for isa, needed in isas.items() if any(needed <= set(line.split()) for line in flags)][-1:]
    names = wanted.split(",")
    if unknown := [name for name in names if name not in (*isas, "baseline")]:
        known = ", ".join(("host", "all", "baseline", *isas))
        raise CompileError(f"MT_ISA_BUILD={wanted}: {unknown[0]} is not known for {machine}; there are {known}")
    return [isa for isa in isas if isa in names]


def targets(source: Path, machine: str, isas: list[str]) -> list[str]:
    """The instruction sets that ``source`` is compiled for, one by one; an empty name stands for no particular one."""
    if FOR_EACH_ISA in source.read_text(encoding="utf-8"):
        return ["baseline", *isas]
    suffix = source.stem.rpartition("_")[2]
    if suffix == "x86":
        return [""] if machine == "x86_64" else []
    if suffix == "baseline" or any(suffix in of_machine for of_machine in ISAS.values()):
        return [suffix] if suffix in ("baseline", *isas) else []
    return [""]


def objects_folder(command: list[str]) -> Path:
    """Where what this command compiles is put."""
    return Path("build") / f"objects-{hashlib.sha256(chr(0).join(command).encode()).hexdigest()[:12]}"


def is_fresh(obj: Path) -> bool:
    """Whether ``obj`` is newer than everything its dependency file names."""
    try:
        built = obj.stat().st_mtime_ns
        _, _, dependencies = obj.with_suffix(".d").read_text().partition(":")
        names = shlex.split(dependencies.replace("\\\n", " "))
        return all(os.stat(name).st_mtime_ns < built for name in names)
    except OSError:
        return False


def compile_object(command: list[str], source: Path, obj: Path, quiet: bool = False) -> bool:
    """Compile one file, if `quiet` without a word of what is wrong; the object has its name only when complete."""
    obj.parent.mkdir(parents=True, exist_ok=True)
    partial = obj.with_suffix(f".{os.getpid()}.tmp")
    depfile = obj.with_suffix(".d")
    started = time.time_ns()
    # What ccache wants to be told before it works with a precompiled header.
    environment = {"CCACHE_SLOPPINESS": "pch_defines,time_macros", **os.environ, "CCACHE_PCH_EXTSUM": "true"}
    arguments = [*command, str(source), "-o", str(partial), "-MMD", "-MF", str(depfile)]
    if subprocess.run(arguments, env=environment, stderr=subprocess.DEVNULL if quiet else None).returncode:
        partial.unlink(missing_ok=True)
        return False
    # Dated back to when it was started: a header saved meanwhile is newer than the object.
    os.utime(partial, ns=(started, started))
    os.replace(partial, obj)
    return True


if not sys.platform.startswith("linux"):
    raise SystemExit(f"minitensor builds on Linux; this is {sys.platform}")

os.chdir(ROOT)
sources = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "csrc").rglob("*.cpp"))
setup(ext_modules=[Extension("minitensor._C", sources, language="c++")], cmdclass={"build_ext": BuildExt})
