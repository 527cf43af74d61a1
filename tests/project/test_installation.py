"""What a user sees of the build: importing the package where it was not built."""

import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import minitensor
from minitensor import _C
from minitensor._import.stale_extension import SYMBOL, built_from, checksum, warn_if_stale

PACKAGE = Path(minitensor.__file__).parent


def import_in(folder):
    """What Python says last when it imports minitensor in `folder`."""
    code = "import sys; sys.path.insert(0, ''); import minitensor"
    process = subprocess.run([sys.executable, "-P", "-c", code], cwd=folder, capture_output=True, text=True)
    assert process.returncode == 1
    return process.stderr.splitlines()[-1]


@pytest.fixture
def source_folder(tmp_path):
    package = tmp_path / "minitensor"
    package.mkdir()
    for path in PACKAGE.glob("_*.py"):
        shutil.copy(path, package)
    shutil.copytree(PACKAGE / "_import", package / "_import")
    (tmp_path / "setup.py").touch()
    return tmp_path


def test_import_in_a_source_folder_that_was_not_built(source_folder):
    folder = source_folder.resolve()
    assert import_in(source_folder) == (
        f"ImportError: {folder}/minitensor has no extension module (minitensor._C): it is a source folder, "
        "and was found before an installed minitensor. Run Python in another folder to use the installed one, "
        f'or build here: cd "{folder}" && python -m pip install -e .'
    )


def test_import_where_it_was_built_for_another_python(source_folder):
    (source_folder / "minitensor" / "_C.cpython-39-x86_64-linux-gnu.so").touch()
    message = import_in(source_folder)
    version = sys.version.split()[0]
    assert (
        f"for another Python (_C.cpython-39-x86_64-linux-gnu.so), not for {version}: it is a source folder" in message
    )


def test_import_of_an_installation_without_extension(source_folder):
    (source_folder / "setup.py").unlink()
    assert import_in(source_folder) == (
        f"ImportError: {source_folder.resolve()}/minitensor has no extension module (minitensor._C). "
        "The installation is not whole; install minitensor again"
    )


@pytest.fixture
def built_folder(source_folder):
    """A folder whose extension was built, from two files, before these were saved again."""
    (source_folder / "csrc" / "core").mkdir(parents=True)
    (source_folder / "csrc" / "precompiled.h").write_text("#include <vector>\n")
    (source_folder / "csrc" / "core" / "a.cpp").write_text("int a = 1;\n")
    text = checksum(str(source_folder / "csrc"))
    code = f'extern const char {SYMBOL}[65]; const char {SYMBOL}[65] = "{text}";'
    extension = source_folder / "built.so"
    command = ["g++", "-shared", "-fPIC", "-x", "c", "-", "-o", extension]
    subprocess.run(command, input=code.encode(), check=True)
    os.utime(extension, ns=(0, 0))
    return source_folder


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_an_extension_of_other_sources_is_said_to_be_so(built_folder):
    sources, extension = str(built_folder / "csrc"), str(built_folder / "built.so")
    warn_if_stale(extension, sources)  # saved again as they were
    (built_folder / "csrc" / "core" / "a.cpp").write_text("int a = 2;\n")
    with pytest.warns(RuntimeWarning, match=r"built from other C\+\+ sources than those in .*build_ext --inplace"):
        warn_if_stale(extension, sources)


def test_a_build_says_what_it_was_built_from():
    sources = PACKAGE.parent / "csrc"
    if not sources.is_dir():
        pytest.skip("installed without its sources")
    assert built_from(_C.__file__) == checksum(str(sources))


def test_threads_memory_leaves_room_for_other_libraries():
    # The loader has some 1.6 kB for all libraries that come later than the process: more than that can't be imported.
    header = struct.Struct("<16xHHIQQQIHHHHHH")
    text = Path(_C.__file__).read_bytes()
    fields = header.unpack_from(text)
    start, size, count = fields[4], fields[8], fields[9]
    segments = [struct.unpack_from("<IIQQQQQQ", text, start + k * size) for k in range(count)]
    assert sum(memory for kind, *_, memory, _ in segments if kind == 7) <= 1344
