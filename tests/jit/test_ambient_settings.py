"""What is set around calls is a part of what they mean: recorded, compiled, kept and replayed calls keep to it."""

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from fuzz.programs import bits
from row_samples import DTYPES, OTHER_DTYPES, build, forms

import minitensor as mt
from minitensor.ops import ROWS

ROOT = Path(mt.__file__).resolve().parent.parent
# What no call of a program refers to by itself, or writes in place.
NOT_CALLED = {"_view_read", "_view_write", "_assign", "fill", "copy"}


@contextmanager
def default_dtype(dtype):
    before = mt.get_default_dtype()
    mt.set_default_dtype(dtype)
    try:
        yield
    finally:
        mt.set_default_dtype(before)


@contextmanager
def undone(do, undo):
    do()
    try:
        yield
    finally:
        undo()


@contextmanager
def precision(name):
    before = mt.get_float32_matmul_precision()
    mt.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        mt.set_float32_matmul_precision(before)


@contextmanager
def threads(count):
    before = mt.get_num_threads()
    mt.set_num_threads(count)
    try:
        yield
    finally:
        mt.set_num_threads(before)


# Each is something else than what is set at first.
SETTINGS = {
    "float64": lambda: default_dtype(mt.float64),
    "float16": lambda: default_dtype(mt.float16),
    "bfloat16": lambda: default_dtype(mt.bfloat16),
    "high": lambda: precision("high"),
    "medium": lambda: precision("medium"),
    "deterministic": lambda: undone(
        lambda: mt.use_deterministic_algorithms(True), lambda: mt.use_deterministic_algorithms(False)
    ),
    "denormals": lambda: undone(lambda: mt.set_flush_denormal(True), lambda: mt.set_flush_denormal(False)),
    "threads": lambda: threads(5),
    "no_grad": mt.no_grad,
    "inference": mt.inference_mode,
    "device": lambda: mt.device("cpu"),
    "autocast": lambda: mt.autocast("cpu"),
    "autocast_half": lambda: mt.autocast("cpu", mt.float16),
    "generator": lambda: undone(lambda: mt.random.use("torch"), lambda: mt.random.use("philox")),
}


def tensors(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def array(t):
    t = t.detach()
    return (t.view(mt.int16) if t.dtype is mt.bfloat16 else t).numpy().copy()


def told(result):
    """Everything that can be seen of results."""
    return [(t.dtype, tuple(t.shape), bits(array(t))) for t in tensors(result)]


def outcome(row, arguments, recorded=False):
    """What a call gives, or how it fails."""
    mt.manual_seed(3)
    try:
        if not recorded:
            return told(row.call(*arguments))
        with mt.jit_scope():
            result = row.call(*arguments)
        return told(result)
    except (RuntimeError, TypeError, ValueError, NotImplementedError, ZeroDivisionError, IndexError) as error:
        return type(error).__name__


def samples(name, dtypes, most=None, one_in=1):
    """(dtype, form, arguments) of a row's calls: with `one_in`, each dtype with other forms than the one before."""
    for place, dtype in enumerate(dtypes):
        for seed, form in enumerate(forms(ROWS[name])[:most]):
            if (seed + place) % one_in == 0:
                yield dtype, form, build(form, dtype, "positive", seed)


ROWS_CALLED = [name for name in ROWS if name not in NOT_CALLED]


def check_row(name, settings, dtypes, most=None, one_in=1):
    """Recorded before a setting is changed, while it is, and after it was: each time as eager code is then."""
    row = ROWS[name]
    for dtype, form, arguments in samples(name, dtypes, most, one_in):
        expected = outcome(row, arguments)
        assert outcome(row, arguments, recorded=True) == expected, (name, dtype, form)
        for setting in settings:
            with SETTINGS[setting]():
                changed = outcome(row, arguments)
                assert outcome(row, arguments, recorded=True) == changed, (name, dtype, form, setting)
            assert outcome(row, arguments, recorded=True) == expected, (name, dtype, form, setting, "and back")


@pytest.mark.parametrize("name", ROWS_CALLED)
def test_a_recorded_call_keeps_to_the_default_dtype(name):
    check_row(name, ["float64"], ("int64",), 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ROWS_CALLED)
def test_every_recorded_call_keeps_to_every_setting(name):
    check_row(name, SETTINGS, (*DTYPES, *OTHER_DTYPES), one_in=8)


@pytest.mark.parametrize("setting", ["float64", "float16", "high"])
def test_what_is_set_when_a_recording_runs_does_not_matter(setting):
    x, y = mt.arange(1, 9), mt.arange(9, 17)

    def program():
        return [
            x / 3.7,
            x > 2.5,
            x.sigmoid(),
            mt.where(x > 3, x, 2.5),
            x.clamp(min=1.5),
            mt.full((5,), 0.1),
            mt.linspace(0, 1, 7),
            mt.arange(0, 1, 0.1),
            mt.eye(3),
            x.xlogy(y),
            x * 2j,
            mt.cumsum(x / 3, 0),
            mt.special.zeta(x + 1, 2.5),
            x.to(mt.float32) @ y.to(mt.float32),
        ]

    expected = told(program())
    for _ in range(2):
        with mt.jit_scope():
            results = program()
            before = mt.get_default_dtype(), mt.get_float32_matmul_precision()
            if setting == "high":
                mt.set_float32_matmul_precision(setting)
            else:
                mt.set_default_dtype(getattr(mt, setting))
            try:
                assert told(results) == expected
            finally:
                mt.set_default_dtype(before[0])
                mt.set_float32_matmul_precision(before[1])


def test_calls_under_different_default_dtypes_may_be_recorded_together():
    x = mt.arange(1000)
    expected = [told(x / 3.7)]
    with default_dtype(mt.float64):
        expected.append(told(x / 3.7))
    for _ in range(2):
        with mt.jit_scope():
            results = [x / 3.7]
            with default_dtype(mt.float64):
                results.append(x / 3.7)
        assert [told(r) for r in results] == expected


@pytest.mark.parametrize("n", [2, 100, 1000, 100_000])
def test_a_plan_is_never_run_for_results_of_another_size(n):
    x = mt.arange(n)
    beside = [mt.zeros(max(n, 16)) for _ in range(20)]

    def scoped():
        with mt.jit_scope():
            return x / 3.7 + 1

    expected = told(x / 3.7 + 1)
    compiled = mt.function(lambda x: x / 3.7 + 1, jit_compile=True)
    for _ in range(3):
        assert told(scoped()) == told(compiled(x)) == expected
        with default_dtype(mt.float64):
            wide = told(x / 3.7 + 1)
            assert told(scoped()) == told(compiled(x)) == wide
    assert all(not one.any() for one in beside)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64"])
def test_programs_of_functions_are_of_one_default_dtype(name):
    def fn(x):
        return x / 3, mt.full((3,), 1.5) + x[0], mt.linspace(0, 1, 5), x * 1j, x.sigmoid() > 0.7

    x = mt.arange(6)
    compiled = mt.function(fn, jit_compile=True)
    expected = told(fn(x))
    for _ in range(2):
        assert told(compiled(x)) == expected
        with default_dtype(getattr(mt, name)):
            assert told(compiled(x)) == told(fn(x)) != expected
    assert told(compiled(x)) == expected


def test_programs_of_functions_are_of_one_default_device():
    def fn(x):
        return x * 2, mt.zeros(3)

    x = mt.ones(3)
    compiled = mt.function(fn, jit_compile=True)
    plain = mt.function(fn)
    for _ in range(2):
        for function in (compiled, plain):
            assert function(x)[1].device.type == "cpu"
        with mt.device("meta"):
            assert plain(x)[1].device.type == fn(x)[1].device.type == "meta"
            assert compiled(x)[1].device.type == "meta"


def test_programs_of_functions_are_of_one_precision():
    compiled = mt.function(lambda x: x @ x, jit_compile=True)
    x = mt.rand(4, 4)
    for _ in range(2):
        compiled(x)
    assert (compiled.programs, compiled.hits) == (1, 1)
    with precision("high"):
        for _ in range(2):
            compiled(x)
    assert (compiled.programs, compiled.hits) == (2, 2)
    compiled(x)
    assert (compiled.programs, compiled.hits) == (2, 3)


def test_a_function_that_changes_a_setting_is_recorded_at_every_call():
    def fn(x):
        mt.set_default_dtype(mt.float64)
        return x / 3.7

    x = mt.arange(100)
    compiled = mt.function(fn, jit_compile=True)
    for _ in range(3):
        with default_dtype(mt.float32):
            assert compiled(x).dtype is mt.float64
            assert mt.get_default_dtype() is mt.float64
    assert compiled.programs == 0


def test_a_kernel_in_python_sees_what_was_set_at_its_call():
    seen = []

    @mt.extend.op("settings_seen(Tensor input)", shape=lambda x: mt.empty(x.shape, dtype=x.dtype))
    def settings_seen(x):
        seen.append((mt.get_default_dtype(), mt.get_default_device().type, mt.is_grad_enabled()))
        return x + mt.full((), 0.5).to(mt.float32).item()

    with mt.jit_scope():
        with default_dtype(mt.float64):
            result = settings_seen(mt.ones(3, dtype=mt.float32))
        with mt.device("meta"):
            assert result.tolist() == [1.5] * 3
    assert seen[-1] == (mt.float64, "cpu", False)
    with mt.device("meta"), mt.no_grad():
        assert settings_seen(mt.ones(3, device="cpu")).tolist() == [1.5] * 3
    assert seen[-1] == (mt.float32, "cpu", False)


def test_a_shape_rule_that_reads_something_else_is_part_of_the_signature():
    rows = [2]

    @mt.extend.op("rows_of(Tensor input)", shape=lambda x: mt.empty((rows[0], 3), dtype=x.dtype))
    def rows_of(x):
        return np.full((rows[0], 3), 7, np.float32)

    def program(x):
        with mt.jit_scope():
            return rows_of(x) * 2.5 + 1

    for count in (2, 5, 2):
        rows[0] = count
        assert program(mt.ones(4)).tolist() == [[18.5] * 3] * count


DISK = """
import sys, pickle
sys.path[:0] = {tests!r}
import minitensor as mt
from row_samples import build, forms
from minitensor.ops import ROWS
from test_ambient_settings import SETTINGS, outcome, samples, told
from contextlib import nullcontext

names, order, most, dtypes = {names!r}, {order!r}, {most!r}, {dtypes!r}
failures = []
with mt.jit.options(persistent_cache_directory={folder!r}):
    for name in names:
        row = ROWS[name]
        if row.kind == "random":
            continue
        for dtype, form, arguments in samples(name, dtypes, most):
            given = [k for k, a in enumerate(arguments) if isinstance(a, mt.Tensor)]

            def fn(*tensors):
                filled = list(arguments)
                for k, t in zip(given, tensors):
                    filled[k] = t
                return row.call(*filled)

            for setting in order:
                # Every row under every setting: the settings take the dtypes in turns, each row otherwise.
                turn = (names.index(name) + [*SETTINGS, ""].index(setting)) % len(dtypes)
                if dtypes[turn] != dtype:
                    continue
                with SETTINGS[setting]() if setting else nullcontext():
                    expected = outcome(row, arguments)
                    if isinstance(expected, str):
                        continue
                    try:
                        got = mt.function(fn, jit_compile=True)(*(arguments[k] for k in given))
                    except mt.jit.InvalidArgumentError:
                        continue  # it isn't compiled
                    if told(got) != expected:
                        failures.append((name, dtype, str(form), setting))
info = mt.jit.cache_info()
print(failures)
print(info["disk_hits"])
"""


def run_from_disk(folder, names, order, most, dtypes):
    """(what differs from eager code, entries found) in a process that keeps its code in the folder."""
    code = DISK.format(
        tests=[str(Path(__file__).parent), str(Path(__file__).parents[1])],
        names=names,
        order=order,
        most=most,
        dtypes=dtypes,
        folder=str(folder),
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, env=os.environ)
    assert done.returncode == 0, done.stderr[-3000:]
    failures, hits = done.stdout.strip().splitlines()[-2:]
    return failures, int(hits)


def test_plans_on_disk_are_of_one_default_dtype(tmp_path):
    names = ["div", "sigmoid", "mean", "xlogy", "where", "full"]
    assert run_from_disk(tmp_path / "c", names, ["", "float64"], 1, ("int64",))[0] == "[]"
    failures, hits = run_from_disk(tmp_path / "c", names, ["float64", "", "float16"], 1, ("int64",))
    assert failures == "[]"
    assert hits > 0
    # Made under the one, asked for under the other.
    assert run_from_disk(tmp_path / "d", names, ["float64"], 1, ("int64",))[0] == "[]"
    assert run_from_disk(tmp_path / "d", names, ["", "float64"], 1, ("int64",))[0] == "[]"


@pytest.mark.exhaustive
@pytest.mark.parametrize("start", range(0, len(ROWS_CALLED), 20))
def test_every_plan_on_disk_is_of_its_settings(tmp_path, start):
    """What one process made under each setting, another asks for under each, beginning with the last."""
    names = ROWS_CALLED[start : start + 20]
    order = ["", *SETTINGS]
    assert run_from_disk(tmp_path, names, order, 1, ("int64", "float32"))[0] == "[]"
    failures, hits = run_from_disk(tmp_path, names, order[::-1], 1, ("int64", "float32"))
    assert failures == "[]"
    assert hits > 0


def test_numbers_of_another_kind_are_another_trace():
    x, flags = mt.arange(100), mt.arange(100) > 50

    def program(x, number):
        with mt.jit_scope():
            return x * number, x + number, mt.where(flags, x, number)

    for _ in range(2):
        for number in (7, 7.5, 1, True, 1.0, 0, False, -0.0, 2.0, 2):
            for given in (x, flags):
                expected = given * number, given + number, mt.where(flags, given, number)
                assert told(program(given, number)) == told(expected), number


# ---- nothing else is read


def includes(path):
    return re.findall(r'^#include "(.*)"', path.read_text(), re.MULTILINE)


def all_includes(path, known):
    for name in includes(path):
        if name not in known and (ROOT / "csrc" / name).exists():
            known.add(name)
            all_includes(ROOT / "csrc" / name, known)
    return known


def test_inference_kernels_and_replay_do_not_see_the_settings():
    """`Call::ambient` is what they have; dispatch/thread_local_state.h is for whoever makes calls."""
    csrc = ROOT / "csrc"
    files = [
        *csrc.glob("dispatch/infer/**/*.*"),
        *csrc.glob("dispatch/op.h"),
        *csrc.glob("core/**/*.*"),
        *csrc.glob("kernels/**/*.*"),
        *csrc.glob("runtime/**/*.*"),
        *(csrc / f"trace/{name}.cpp" for name in (
            "recording/view_ops", "plan/replay", "plan/kernel_call", "plan/gpu_program_step", "plan/buffers",
        )),
    ]  # fmt: skip
    assert len(files) > 100
    seen = [
        str(path.relative_to(csrc)) for path in files if "dispatch/thread_local_state.h" in all_includes(path, set())
    ]
    assert seen == []


def test_settings_are_read_by_those_who_make_calls():
    readers = {
        "dispatch": {
            "call.cpp", "call_inplace.cpp", "call_op.cpp", "float8_calls.cpp", "jit_device.cpp", "out.cpp",
        },
        "autograd": {"autocast.h", "formula.cpp", "tape.cpp", "engine.cpp", "saved_tensor.cpp", "view_history.cpp",
                     "accumulate_grad.cpp"},
        # Programs and what stands for a backward pass are kept for the settings that they were made under.
        "trace": {
            "program.cpp", "argument_guards.cpp", "policy.cpp", "known_runs.cpp", "regions.cpp", "following.cpp",
            "gradient_graph.cpp", "backward_program.cpp", "whole_backward.cpp",
        },
    }  # fmt: skip
    for folder, allowed in readers.items():
        found = {
            p.name for p in (ROOT / "csrc" / folder).rglob("*.*") if "dispatch/thread_local_state.h" in includes(p)
        }
        assert found - allowed == set(), folder


def test_the_compiler_and_the_rows_read_no_settings():
    """A recorded call says what was set at it; what is set when it's compiled is another moment's."""
    pattern = re.compile(
        r"get_default_dtype|get_default_device|is_inference_mode|get_float32_matmul_precision"
        r"|matmul_precision\(\)|are_deterministic|get_deterministic|allow_tf32\b"
    )
    folders = [ROOT / "minitensor" / "ops", *((ROOT / "minitensor_jit") / folder for folder in (
        "cache", "clustering", "codegen", "compiler", "ir", "lowering", "passes", "runtime"
    ))]  # fmt: skip
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for folder in folders
        for path in folder.rglob("*.py")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []
