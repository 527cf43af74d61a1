"""A compilation that fails: the program goes on, and what is needed to find out why is written and named."""

import re
import subprocess
import sys

import pytest
import sanitizers
from processes import ROOT

import minitensor as mt
from minitensor_jit.compiler import launcher
from minitensor_jit.ir.shape import Shape
from minitensor_jit.passes.algebraic_simplifier import AlgebraicSimplifier

pytestmark = pytest.mark.compiler_fails(reason="on purpose")


@pytest.fixture(autouse=True)
def nothing_compiled():
    mt.jit.cache_clear()
    yield
    mt.jit.cache_clear()


@pytest.fixture
def broken_pass(monkeypatch):
    def fail(self, module):
        raise KeyError("no such rule")

    monkeypatch.setattr(AlgebraicSimplifier, "run", fail)


@pytest.fixture
def broken_lowering(monkeypatch):
    def fail(graph, name):
        raise ZeroDivisionError("a dimension of zero")

    monkeypatch.setattr(launcher, "lower_cluster", fail)


def program(x):
    with mt.jit_scope():
        return (x * 2 + 1).exp()


def test_its_ops_run_eagerly_and_a_warning_says_how_to_report_it(broken_pass, caplog):
    assert program(mt.ones(3)).tolist() == ((mt.ones(3) * 2 + 1).exp()).tolist()
    (record,) = caplog.records
    assert re.fullmatch(
        r"compiling cluster_\d+ failed \(KeyError: 'no such rule'\); its ops run eagerly\. This is a defect of the "
        r"compiler: please report it, with the files that MT_JIT_FLAGS=--dump_to=DIR writes to DIR when the program "
        r"runs again",
        record.getMessage(),
    )


def test_a_wrong_rewrite_is_named(monkeypatch, caplog):
    run = AlgebraicSimplifier.run

    def breaks(self, module):
        run(self, module)
        module.entry.root.shape = Shape("f32", (4,))
        return True

    monkeypatch.setattr(AlgebraicSimplifier, "run", breaks)
    assert program(mt.ones(3)).shape == (3,)
    assert "the module is not valid after algsimp" in caplog.records[0].getMessage()


def test_the_bundle(broken_pass, caplog, tmp_path, monkeypatch):
    with mt.jit.options(dump_to=str(tmp_path), fast_math=True):
        assert program(mt.ones(3)).shape == (3,)
    assert f"please report it, with the files {tmp_path}/module_0000.*" in caplog.records[0].getMessage()
    (failure,) = tmp_path.glob("module_0000.*.failure.txt")
    text = failure.read_text()
    for what in ("KeyError: 'no such rule'", "fail(self, module)", "--fast_math", "LLVM ", "Python 3", "= exp"):
        pattern = what.replace("fail(self, module)", "in fail")
        assert pattern in text, what
    assert list(tmp_path.glob("module_0000.*.before_optimizations.txt"))
    assert not list(tmp_path.glob("module_0000.*.after_optimizations.txt"))
    (script,) = tmp_path.glob("module_0000.*.repro.py")
    # Where the compiler is sound, the module runs: on random inputs, since it never ran in the program.
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        env={"PYTHONPATH": ROOT, **sanitizers.ENVIRONMENT},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "random inputs" in done.stdout


def test_a_lowering_that_fails_has_its_graph_in_the_bundle(broken_lowering, caplog, tmp_path):
    with mt.jit.options(dump_to=str(tmp_path)):
        assert program(mt.ones(3)).shape == (3,)
    (failure,) = tmp_path.glob("module_0000.*.failure.txt")
    assert "ZeroDivisionError: a dimension of zero" in failure.read_text()
    assert "= exp(" in failure.read_text()
    assert "module_0000.*" in caplog.records[0].getMessage()


def test_what_must_be_compiled_raises_with_the_same_advice(broken_pass, tmp_path):
    with pytest.raises(KeyError) as info:
        mt.function(lambda x: x * 2 + 1, jit_compile=True)(mt.ones(3))
    assert "MT_JIT_FLAGS=--dump_to=DIR" in info.value.__notes__[0]


def test_the_account_has_the_failure(broken_pass):
    explained = mt.jit.explain(lambda x: (x * 2 + 1).exp() - 4)(mt.ones(3))
    account = explained.to_json()
    (group,) = account["eager"]
    assert group["code"] == "compile-failed"
    assert "report it" in group["fix"]
    assert account["ops"] == {"total": 4, "compiled": 0, "eager": 4}
