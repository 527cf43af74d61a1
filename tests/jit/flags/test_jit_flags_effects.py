"""What each flag of the compiler does, in the program that sets it."""

import logging

import numpy as np
import pytest
from processes import run
from recording import recorded

import minitensor as mt
from minitensor_jit.errors import NumericsError


def account(fn, *args, **options):
    with mt.jit.options(**({"auto_jit": 2, "cpu_global_jit": True, "min_cluster_size": 1} | options)):
        explained = mt.jit.explain(fn)(*args)
    return explained, {row["op"]: group["code"] for group in explained.to_json()["eager"] for row in group["ops"]}


def program(x):
    return ((x.reshape(2, 4) * 2).exp() @ mt.ones(4, 3)).sum()


@pytest.mark.parametrize(
    ("ops", "clustered"),
    [
        ("PW", {"mul", "exp"}),
        ("RED", {"sum"}),
        ("PWRED", {"mul", "exp", "sum"}),
        ("PWRED,MISC", {"mul", "exp", "sum"}),
        ("FUSIBLE", {"mul", "exp", "sum"}),
        ("exp", {"exp"}),
        ("", {"mul", "exp", "matmul", "sum"}),
    ],
)
def test_only_the_listed_ops_are_clustered(ops, clustered):
    x = mt.arange(8.0) / 8
    eager = program(x)
    explained, reasons = account(program, x, ops_to_cluster=ops)
    others = {"mul", "exp", "matmul", "sum"} - clustered
    names = {name for name, code in reasons.items() if code == "not-in-ops-to-cluster"}
    assert others <= names
    assert names.isdisjoint(clustered)
    assert explained.result.item() == eager.item()


def test_excluded_ops_stay_eager_unless_they_must_be_compiled():
    x = mt.arange(8.0) / 8
    _, reasons = account(program, x, cluster_exclude_ops=["exp", "RED"])
    assert reasons["exp"] == reasons["sum"] == "excluded-op"
    assert "mul" not in reasons
    with mt.jit.options(cluster_exclude_ops=("PW",)):
        assert mt.function(program, jit_compile=True)(x).item() == program(x).item()


def test_the_cost_model_refuses_what_compiled_code_does_worse():
    x, places = mt.rand(1000, 1000), mt.randint(1000, (1000, 1000))

    def worse(x):
        return (x + 1).scatter_add(1, places, x)

    explained, reasons = account(worse, x, auto_jit=1)
    assert reasons == {"add": "predicted-loss", "scatter_add": "predicted-loss"}
    assert "us and" in explained.text()
    assert "op by op" in explained.text()
    assert mt.equal(explained.result, worse(x))
    _, reasons = account(worse, x, auto_jit=2)
    assert reasons == {}


def test_the_cost_model_takes_what_wins_and_says_why():
    def better(x):
        return ((x + 1) * x).exp().sum()

    explained, reasons = account(better, mt.rand(1000, 1000), auto_jit=1)
    assert reasons == {}
    (cluster,) = explained.to_json()["clusters"]
    assert cluster["prediction"].startswith("predicted ")
    assert "4,000,004 bytes of memory traffic" in cluster["prediction"]
    assert cluster["prediction"] in explained.text()


def test_a_single_op_is_not_worth_a_launch_but_a_scope_insists():
    _, reasons = account(lambda x: x.neg(), mt.ones(3), auto_jit=1)
    assert reasons == {"neg": "predicted-loss"}

    def scoped(x):
        with mt.jit_scope():
            return x.neg()

    _, reasons = account(scoped, mt.ones(3), auto_jit=1)
    assert reasons == {}


@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16, mt.float32, mt.float64, mt.complex64], ids=str)
def test_output_numerics_name_cluster_op_and_line(dtype):
    x = mt.tensor([1, 0, 2], dtype=dtype)
    with (
        mt.jit.options(check_cluster_output_numerics=True),
        pytest.raises(
            NumericsError, match=r"cluster_\S+ gave .* at \[1\] in result 0, \w+\[3\].*test_jit_flags"
        ) as info,
    ):
        mt.function(lambda x: (x + x) / x, jit_compile=True)(x)
    assert info.value.op == "div"
    assert info.value.source.file == __file__
    assert isinstance(info.value, FloatingPointError)


def test_output_numerics_name_the_op_that_made_the_first_one():
    def program(x):
        y = (x - 2).log()  # here
        return (y * 2 + 1).sum()

    line = program.__code__.co_firstlineno + 1
    fn = mt.function(program, jit_compile=True)
    with mt.jit.options(check_cluster_output_numerics=True):
        assert fn(mt.tensor([3.0, 4.0])).item() == pytest.approx(2 * np.log(2) + 2)
        with pytest.raises(NumericsError, match="the first op that makes one of finite numbers: log") as info:
            fn(mt.tensor([3.0, 1.0]))
        assert (info.value.op, info.value.source.line) == ("log", line)
        # What was there before is no op's.
        with pytest.raises(NumericsError) as info:
            fn(mt.tensor([3.0, float("nan")]))
        assert info.value.op == "sum"


def test_input_numerics_name_the_first_reader():
    x = mt.tensor([1.0, float("inf"), 2.0])
    fn = mt.function(lambda x, y: y * 2 - x.clamp(0, 1), jit_compile=True)
    with mt.jit.options(check_cluster_input_numerics=True):
        assert fn(mt.ones(3), mt.ones(3)).tolist() == [1] * 3
        with pytest.raises(NumericsError, match=r"reads inf at \[1\] in argument 1, f32\[3\]") as info:
            fn(x, mt.ones(3))
    assert info.value.op == "clamp"
    # Without the flag, and with finite results, nothing is looked at.
    assert fn(x, mt.ones(3)).tolist() == [1] * 3


def test_elements_between_those_of_a_view_are_not_looked_at():
    base = mt.zeros(4, 3)
    base[:, 1] = float("nan")
    with recorded(check_cluster_input_numerics=True):
        y = base[:, ::2] + 1
    assert y.tolist() == [[1, 1]] * 4
    fn = mt.function(lambda x: x * 2, jit_compile=True)
    with mt.jit.options(check_cluster_input_numerics=True), pytest.raises(NumericsError, match=r"nan at \[0, 0\]"):
        fn(base[:, 1:])


def test_outputs_are_printed(capsys):
    with mt.jit.options(print_cluster_outputs=True):
        mt.function(lambda x: (x + 1) * 2, jit_compile=True)(mt.arange(3))
    printed = capsys.readouterr().err
    assert "result 0 (mul at " in printed
    assert printed.rstrip().endswith("s64[3] [2, 4, 6]")


def test_constant_folding_can_be_left_out(caplog):
    def program(x):
        return x + mt.zeros(3).cos()

    def changed(**options):
        caplog.clear()
        mt.jit.cache_clear()
        with caplog.at_level(logging.DEBUG, "minitensor_jit"), mt.jit.options(**options):
            mt.function(program, jit_compile=True)(mt.ones(3))
        return [r.getMessage().split()[0] for r in caplog.records if r.name == "minitensor_jit.pass_manager"]

    assert changed(disable_constant_folding=False).count("constant-folding") == 1
    assert changed(disable_constant_folding=True).count("constant-folding") == 0


def test_vmodule_speaks_on_stderr_at_its_level():
    program = "import minitensor as mt\n(mt.ones(3) * 2 + 1 - 4).exp().tolist()"
    flags = "--auto_jit=2 --cpu_global_jit --enable_lazy_compilation=false"
    assert run(program, flags).stderr == ""
    said = run(program, f"{flags} --vmodule=xla_compiler=1,mark_for_compilation=1").stderr
    assert "I minitensor_jit.xla_compiler: cluster_0: ready in" in said
    assert "ops; clusters: cluster_0 (" in said
    assert "HloModule" not in said
    said = run(program, f"{flags} --vmodule=xla_compiler=2").stderr
    assert [said.count(f"cluster_0: {when}\nHloModule") for when in ("as lowered", "after the passes")] == [1, 1]


def test_vmodule_takes_patterns_and_the_last_that_fits_counts():
    options = mt.jit.current_options().replace(vmodule="*=1,xla*=2,*compiler=0")
    levels = {name: options.verbosity(name) for name in ("codegen", "xla_compiler", "verify")}
    assert levels == {"codegen": 1, "xla_compiler": 0, "verify": 1}
    program = "import minitensor as mt\n(mt.tensor([1.0] * 3) * 2 + 1 - 4).exp().tolist()"
    said = run(program, "--auto_jit=2 --cpu_global_jit --verify=1 --vmodule=codegen=2,ver*=2").stderr
    assert "I minitensor_jit.codegen: cluster_0: kernels: 1, 0 bytes of scratch memory, " in said
    assert "D minitensor_jit.codegen: buffer assignment of cluster_0" in said
    assert "D minitensor_jit.verify: cluster_0: a run is repeated op by op" in said


def test_vmodule_ends_with_its_options_and_follows_pythons_logging(caplog):
    fn = mt.function(lambda x: x * 3 - 1, jit_compile=True)
    with mt.jit.options(vmodule="xla_compiler=1"):
        fn(mt.ones(7))
    assert [r.name for r in caplog.records] == ["minitensor_jit.xla_compiler"]
    assert caplog.records[0].levelno == logging.INFO
    caplog.clear()
    fn(mt.ones(8))
    assert caplog.records == []


def test_graphs_are_written_after_each_phase(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MT_DUMP_GRAPH_PREFIX", str(tmp_path / "graphs"))
    for size in (3, 4):
        with recorded(clustering_debug=True, cluster_exclude_ops="exp", enable_lazy_compilation=True):
            y = (mt.ones(size) * 2 + 1).exp()
        assert y.shape == (size,)
    assert capsys.readouterr().err == ""
    phases = ["before_mark_for_compilation", "mark_for_compilation", "mark_for_compilation_annotated"]
    phases += ["partially_decluster", "encapsulate_subgraphs", "build_launch_ops"]
    names = {path.name for path in (tmp_path / "graphs").iterdir()}
    assert names == {f"{phase}{number}.{kind}" for phase in phases for number in ("", "_1") for kind in ("txt", "dot")}

    def text(phase):
        return (tmp_path / "graphs" / f"{phase}.txt").read_text()

    assert "_MtCluster" not in text("before_mark_for_compilation")
    assert "_MtCluster" in text("mark_for_compilation")
    assert "-> exp is among --cluster_exclude_ops; take it" in text("mark_for_compilation_annotated")
    assert "exp is among" in (tmp_path / "graphs" / "mark_for_compilation_annotated.dot").read_text()
    assert "_JitRun" not in text("encapsulate_subgraphs")
    assert "_JitCompile" in text("build_launch_ops")
    assert "_JitRun" in text("build_launch_ops")
    assert (tmp_path / "graphs" / "build_launch_ops_1.dot").read_text().startswith("digraph ")
    monkeypatch.delenv("MT_DUMP_GRAPH_PREFIX")
    with recorded(clustering_debug=True):
        (mt.ones(2) + 1).tolist()
    assert "// after build_launch_ops" in capsys.readouterr().err


def test_fuel_stops_clustering():
    run_with = "import minitensor as mt\nx = mt.ones(3)\nfor _ in range(8): x = x * 2\nprint(x.tolist())"
    flags = "--auto_jit=2 --cpu_global_jit --min_cluster_size=1 --explain --clustering_fuel="
    for fuel, compiled in [(0, 0), (3, 3), (100, 9)]:
        done = run(run_with, flags + str(fuel))
        assert done.stdout == "[256.0, 256.0, 256.0]\n"
        assert f"({compiled})" in done.stderr


def test_names_are_the_same_in_every_run():
    program = "import minitensor as mt\n(mt.ones(3) * 2 + 1 - 4).exp().tolist()"
    flags = (
        "--auto_jit=2 --cpu_global_jit --enable_lazy_compilation=false --deterministic_cluster_names "
        "--vmodule=mark_for_compilation=1"
    )
    first, second = run(program, flags).stderr, run(program, flags).stderr
    assert "cluster_" in first
    assert first == second


def test_sizes_bound_clusters():
    def chain(x):
        for _ in range(12):
            x = x.sin()
        return x

    x = mt.arange(5.0)
    explained, _ = account(chain, x, max_cluster_size=5)
    assert sum(len(c["names"]) for c in explained.to_json()["clusters"]) == 3
    assert np.array_equal(explained.result.numpy(), chain(x).numpy())
    _, reasons = account(chain, x, min_cluster_size=13)
    assert reasons == {"sin": "too-small"}


@pytest.mark.parametrize(("format", "step"), [("bf16", 2.0**-8), ("f16", 2.0**-11)])
def test_operands_of_products_are_rounded_on_request(format, step):
    x = mt.tensor([[1.0 + step / 2, 1.0], [1.0 + 3 * step, 2.0]])
    one = mt.eye(2)

    def product(**options):
        with mt.jit.options(**options):
            return mt.function(lambda a, b: a @ b, jit_compile=True)(x, one)

    assert product().tolist() == x.tolist()
    assert product(reduce_precision=format).tolist() == [[1.0, 1.0], [1.0 + 4 * step, 2.0]]
