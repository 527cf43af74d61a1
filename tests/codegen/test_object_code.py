"""Object code is loaded, many times over, wherever memory has room, and unloaded again."""

import ctypes
import gc
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sanitizers import SANITIZED

import minitensor as mt
from minitensor import _C
from minitensor_jit.codegen.cpu.target_machine import host_target
from minitensor_jit.runtime import llvm_linker
from minitensor_jit.runtime.loaded_code import LoadedCode

ROOT = Path(__file__).resolve().parent.parent.parent

LOADERS = {"core": _C.load_object_code, "llvm": llvm_linker.link}
loaders = pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)

TEXT = """
@numbers = internal unnamed_addr constant [4 x double] [double 1.0, double 2.0, double 3.0, double NUMBER]
define double @f(i64 %i) nounwind {
  %at = getelementptr [4 x double], ptr @numbers, i64 0, i64 %i
  %value = load double, ptr %at
  %sum = fadd double %value, 0x3FB999999999999A
  ret double %sum
}
"""


def code(text=TEXT):
    return host_target().compile(text)


def call(address, *arguments):
    return ctypes.CFUNCTYPE(ctypes.c_double, *(ctypes.c_int64 for _ in arguments))(address)(*arguments)


def mappings():
    return len(Path("/proc/self/maps").read_text().splitlines())


def in_a_process(program):
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "tests", Path(__file__).parent)))},
    )
    assert done.returncode == 0, done.stderr


@loaders
def test_constants_are_found(load):
    address, keeper = load(code(TEXT.replace("NUMBER", "4.0")), "f", {})
    assert [call(address, i) for i in range(4)] == [1.1, 2.1, 3.1, 4.1]
    del keeper


def test_thousands_are_loaded_at_once():
    objects = [code(TEXT.replace("NUMBER", f"{n}.0")) for n in range(20)]
    before = mappings()
    kept = [LoadedCode(objects[n % 20], "f") for n in range(6000)]
    # The system lends a process some ten thousand: one for every object would not do.
    assert mappings() < before + 60
    assert [call(each.address, 3) for each in kept] == [n % 20 + 0.1 for n in range(6000)]
    for each in kept[::2]:
        each.close()
        assert each.address == 0
    assert [call(each.address, 3) for each in kept[1::2]] == [n % 20 + 0.1 for n in range(1, 6000, 2)]
    # Their room is used again.
    again = [LoadedCode(objects[n % 20], "f") for n in range(3000)]
    assert mappings() < before + 60
    assert call(again[-1].address, 3) == 2999 % 20 + 0.1
    del kept, again, each
    gc.collect()
    assert mappings() < before + 60


def test_neighbours_among_what_was_freed_are_joined():
    """In whichever order they were freed: what is larger than each fits there, and nothing is written beyond it."""
    in_a_process("""
import itertools
from test_object_code import LoadedCode, call, code
def sized(kilobytes, number):
    return code(f'''@filled = constant [{kilobytes << 10} x i8] zeroinitializer
        define double @f() nounwind {{
          ret double {number}.0
        }}''')
small, large = [sized(600, n) for n in range(12)], sized(1700, 100)
pieces = [LoadedCode(each, "f") for each in small]
at = [piece.address for piece in pieces]
# Allocation is first-fit, from the lowest address, so five blocks of a region are neighbours.
first = next(n for n in range(1, 9) if at[n + 3] - at[n - 1] == 4 * (at[1] - at[0]) > 0)
for order in itertools.permutations(range(first, first + 3)):
    for n in order:
        pieces[n].close()
    one = LoadedCode(large, "f")
    assert (one.address, call(one.address)) == (at[first], 100), order
    one.close()
    pieces[first : first + 3] = [LoadedCode(each, "f") for each in small[first : first + 3]]
    assert [piece.address for piece in pieces] == at, order
    assert [call(piece.address) for piece in pieces] == list(range(12)), order
""")


@loaders
def test_loading_and_unloading_leaves_nothing(load):
    object_code = code(TEXT.replace("NUMBER", "4.0"))

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")

    def rounds(count):
        for _ in range(count):
            load(object_code, "f", {})

    rounds(200)
    before = resident()
    rounds(1000)
    # A sanitizer keeps what was freed.
    assert resident() - before < 4 << 20 or SANITIZED


@pytest.mark.parametrize("loader", LOADERS)
def test_scattered_memory(loader):
    """With room for one page here and the next one gigabytes away, code and constants still find each other."""
    in_a_process(f"""
import ctypes
from test_object_code import LOADERS, TEXT, call, code
load, object_code, kept = LOADERS[{loader!r}], code(TEXT.replace("NUMBER", "4.0")), []
kept.append(load(object_code, "f", {{}}))
libc, page, gigabyte = ctypes.CDLL(None), 4096, 1 << 30
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
def reserve(size):
    return libc.mmap(None, size, 0, 0x4022, -1, 0)  # private, anonymous, without memory behind it
region = reserve(16 * gigabyte)
for size in (64 * page, page):
    while reserve(size) > region:  # every smaller hole above it
        pass
for place in range(0, 16, 3):
    libc.munmap(region + place * gigabyte + 512 * page, page)
for _ in range(4):
    kept.append(load(object_code, "f", {{}}))
assert [call(address, 3) for address, _ in kept] == [4.1] * 5
""")


@pytest.mark.skipif(SANITIZED, reason="a sanitizer ends the process where it gets no mappings")
def test_no_mappings_left():
    """That is an error, and the process goes on; a cluster's ops run eagerly."""
    in_a_process("""
import ctypes, logging
import minitensor as mt
from minitensor import _C
from test_object_code import TEXT, call, code, mappings
logging.disable()
x = mt.arange(1000.0)
with mt.jit_scope():
    y = (x * 3).tanh() + 1
y.tolist()
object_code, kept = code(TEXT.replace("NUMBER", "4.0")), []
limit = int(open("/proc/sys/vm/max_map_count").read())
libc, page, count = ctypes.CDLL(None), 4096, limit - mappings() + 8
libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *(ctypes.c_int,) * 3, ctypes.c_long]
start = libc.mmap(None, count * page, 0, 0x4022, -1, 0)
for i in range(1, count, 2):  # every other page with another protection: a mapping each
    if libc.mprotect(start + i * page, page, 1):
        break
failed = 0
for _ in range(2000):
    try:
        kept.append(_C.load_object_code(object_code, "f", {}))
    except mt.OutOfMemoryError as error:
        failed += 1
        assert "compiled code" in str(error)
assert failed
assert all(call(address, 3) == 4.1 for address, _ in kept)
with mt.jit_scope():
    z = (x * 5).sin() + 1
assert z.tolist() == ((x * 5).sin() + 1).tolist()
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
libc.munmap(start, count * page)
address, keeper = _C.load_object_code(object_code, "f", {})
assert call(address, 3) == 4.1
""")


FAR = """
declare double @far(double)
declare double @fmod(double, double)
@elsewhere = external global double
define double @f(i64 %i) nounwind {
  %x = sitofp i64 %i to double
  %y = call double @far(double %x)
  %z = call double @fmod(double %y, double 4.0)
  %w = load double, ptr @elsewhere
  %sum = fadd double %z, %w
  ret double %sum
}
"""


@loaders
def test_names_from_outside(load):
    """Given ones, however far away, those of the process, and variables."""
    function = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(lambda x: x * 3)
    number = ctypes.c_double(0.5)
    imports = {"far": ctypes.cast(function, ctypes.c_void_p).value, "elsewhere": ctypes.addressof(number)}
    address, keeper = load(code(FAR), "f", imports)
    assert call(address, 5) == 15 % 4 + 0.5
    number.value = 2.0
    assert call(address, 5) == 15 % 4 + 2.0
    del keeper


def test_addresses_and_tables():
    """Jumps through a table of distances, a function's address, and more calls than one of a name."""
    text = """
    declare double @cos(double)
    define internal double @twice(double %x) noinline nounwind {
      %y = fadd double %x, %x
      ret double %y
    }
    define double @f(i64 %i) nounwind {
      switch i64 %i, label %other [ CASES ]
    LABELS
    other:
      %a = call double @twice(double 4.0)
      %b = call double @cos(double 0.0)
      %c = call double @cos(double 0.0)
      %d = fadd double %a, %b
      %e = fadd double %d, %c
      ret double %e
    }
    """
    cases = " ".join(f"i64 {i}, label %case{i}" for i in range(40))
    labels = "\n".join(
        f"case{i}:\n  %x{i} = call double @cos(double {i}.0)\n  %y{i} = fmul double %x{i}, {i}.5\n  ret double %y{i}"
        for i in range(40)
    )
    address, keeper = _C.load_object_code(code(text.replace("CASES", cases).replace("LABELS", labels)), "f", {})
    assert [call(address, i) for i in range(40)] == [math.cos(i) * (i + 0.5) for i in range(40)]
    assert call(address, 99) == 10
    del keeper


@pytest.mark.parametrize(
    ("text", "symbol", "message"),
    [
        (FAR, "f", "far, which is not there"),
        (TEXT.replace("NUMBER", "4.0"), "g", "has no g"),
        ("@x = global i64 3\ndefine ptr @f() {\n  ret ptr @x\n}", "f", "variables"),
        ("@x = thread_local global i64 3\ndefine i64 @f() {\n  ret i64 1\n}", "f", "variables"),
    ],
)
def test_what_cannot_be_loaded(text, symbol, message):
    with pytest.raises(RuntimeError, match=f"^object code: .*{message}"):
        _C.load_object_code(code(text), symbol, {})


def test_unsound_files():
    """A damaged file is an error, or loads; it never reaches outside itself."""
    whole = code(
        FAR.replace("far", "sin")
        .replace("@elsewhere = external global double", "")
        .replace("%w = load double, ptr @elsewhere", "%w = fadd double %y, 1.5")
    )
    kept = [_C.load_object_code(whole, "f", {})]
    for size in range(len(whole)):
        with pytest.raises(RuntimeError):
            kept.append(_C.load_object_code(whole[:size], "f", {}))
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(4000):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), rng.integers(1, 4)):
            damaged[place] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.integers(256)])
        try:
            _C.load_object_code(bytes(damaged), "f", {})
        except (RuntimeError, mt.OutOfMemoryError):
            refused += 1
    assert refused > 500
    assert len(kept) == 1
    for wrong in ((b"", "f", {}), (b"\x7fELF", "f", {}), (whole, "", {})):
        with pytest.raises(RuntimeError):
            _C.load_object_code(*wrong)
    for wrong in ((None, "f", {}), (whole, 1, {}), (whole, "f", {"sin": "x"}), (whole, "f", {1: 2}), (whole, "f")):
        with pytest.raises(TypeError):
            _C.load_object_code(*wrong)
