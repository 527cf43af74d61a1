"""Builds the extension module ``minitensor._C``; the metadata is in setup.cfg.

Objects are compiled in parallel, and only those whose source, headers or flags changed. ``CXX``, ``CPPFLAGS``,
``CXXFLAGS`` and ``LDFLAGS`` are honoured. ``MT_SANITIZE=address,undefined`` or ``MT_SANITIZE=thread`` makes an
instrumented build.
"""

import hashlib
import os
import shlex
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError, LinkError

ROOT = Path(__file__).resolve().parent

# No contraction and no reassociation: compiled clusters and eager kernels promise the same bits (docs/numerics.md).
FLAGS = shlex.split(
    "-std=c++20 -fPIC -pthread -fno-math-errno -ffp-contract=off -fno-semantic-interposition -fvisibility=hidden"
    " -Wall -Wextra"
)
RELEASE_FLAGS = ["-O3", "-g0", "-DNDEBUG"]
SANITIZE_FLAGS = ["-O1", "-g1", "-fno-omit-frame-pointer", "-fno-sanitize-recover=undefined"]


class BuildExt(build_ext):
    """Compiles incrementally, one compiler process a core."""

    def build_extension(self, ext: Extension) -> None:
        """Compile what changed of ``ext`` and link it."""
        sanitize = os.environ.get("MT_SANITIZE", "")
        mode = [f"-fsanitize={sanitize}", *SANITIZE_FLAGS] if sanitize else RELEASE_FLAGS
        cxx = shlex.split(os.environ.get("CXX", "g++"))
        includes = [f"-I{ROOT / 'csrc'}", "-isystem", sysconfig.get_path("include")]
        define = f'-DMT_VERSION="{self.distribution.get_version()}"'
        extra = [flag for name in ("CPPFLAGS", "CXXFLAGS") for flag in shlex.split(os.environ.get(name, ""))]
        compile_command = [*cxx, *FLAGS, *mode, *includes, define, *extra, "-c"]

        # One directory of objects for each set of flags: changing them and back again loses nothing. Not below
        # build_temp, which is a new folder at every `pip install -e`.
        key = hashlib.sha256("\0".join(compile_command).encode()).hexdigest()[:12]
        objects_dir = ROOT / "build" / f"objects-{key}"
        units = [(Path(s), objects_dir / Path(s).with_suffix(".o")) for s in ext.sources]
        stale = [unit for unit in units if self.force or not is_fresh(unit[1])]
        done = 0

        def compile_one(unit: tuple[Path, Path]) -> bool:
            nonlocal done
            ok = compile_object(compile_command, *unit)
            done += 1
            print(f"[{done}/{len(stale)}] {unit[0]}{'' if ok else ': failed'}", flush=True)
            return ok

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(compile_one, stale))
        if not all(results):
            raise CompileError(f"{results.count(False)} of {len(stale)} files did not compile")

        output = Path(self.get_ext_fullpath(ext.name))
        output.parent.mkdir(parents=True, exist_ok=True)
        # Linked beside the old file and renamed over it: a process that has the old one mapped keeps it whole.
        partial = output.with_suffix(f".{os.getpid()}.tmp")
        flags = ["-shared", "-pthread", *(mode[:1] if sanitize else []), *shlex.split(os.environ.get("LDFLAGS", ""))]
        command = [*cxx, *flags, *(str(obj) for _, obj in units), "-o", str(partial)]
        if subprocess.run(command).returncode:
            partial.unlink(missing_ok=True)
            raise LinkError(f"{ext.name} did not link")
        os.replace(partial, output)

    def get_source_files(self) -> list[str]:
        """Sources and headers, for the source distribution."""
        return sorted(str(p.relative_to(ROOT)) for p in (ROOT / "csrc").rglob("*") if p.suffix in (".cpp", ".h"))


def is_fresh(obj: Path) -> bool:
    """Whether ``obj`` is newer than everything its dependency file names."""
    try:
        built = obj.stat().st_mtime_ns
        _, _, dependencies = obj.with_suffix(".d").read_text().partition(":")
        names = shlex.split(dependencies.replace("\\\n", " "))
        return all(os.stat(name).st_mtime_ns < built for name in names)
    except OSError:
        return False


def compile_object(command: list[str], source: Path, obj: Path) -> bool:
    """Compile one file; the object appears under its name only when it is complete."""
    obj.parent.mkdir(parents=True, exist_ok=True)
    partial = obj.with_suffix(f".{os.getpid()}.tmp")
    depfile = obj.with_suffix(".d")
    started = time.time_ns()
    run = subprocess.run([*command, str(source), "-o", str(partial), "-MMD", "-MF", str(depfile)])
    if run.returncode:
        partial.unlink(missing_ok=True)
        return False
    # Dated back to when it was started: a header saved meanwhile is newer than the object.
    os.utime(partial, ns=(started, started))
    os.replace(partial, obj)
    return True


if not sys.platform.startswith("linux"):
    raise SystemExit(f"minitensor builds on Linux; this is {sys.platform}")

sources = sorted(str(p.relative_to(ROOT)) for p in (ROOT / "csrc").rglob("*.cpp"))
setup(ext_modules=[Extension("minitensor._C", sources, language="c++")], cmdclass={"build_ext": BuildExt})
