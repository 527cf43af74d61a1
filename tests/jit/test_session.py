"""Sessions, their options, step statistics and timelines."""

import copy
import json

import numpy as np
import pytest

import minitensor as mt
from minitensor import timeline
from minitensor._profile import step_stats


def jit_config(level=mt.OptimizerOptions.ON_1, cpu=True):
    config = mt.ConfigProto()
    config.graph_options.optimizer_options.global_jit_level = level
    config.graph_options.optimizer_options.cpu_global_jit = cpu
    return config


def chain(x):
    y = x * 2.0
    y = y + 1.0
    y = mt.tanh(y)
    y = y * x
    return y - 0.5


def trace(session, fn, *args):
    metadata = mt.RunMetadata()
    options = mt.RunOptions(trace_level=mt.RunOptions.FULL_TRACE)
    result = session.run(fn, *args, options=options, run_metadata=metadata)
    return result, metadata.step_stats


def boxes(stats, **kwargs):
    events = json.loads(timeline.Timeline(stats).generate_chrome_trace_format(**kwargs))["traceEvents"]
    return [event for event in events if event["ph"] == "X"]


class TestOptions:
    def test_defaults(self):
        options = mt.ConfigProto().graph_options.optimizer_options
        assert options.global_jit_level == mt.OptimizerOptions.DEFAULT
        assert options.cpu_global_jit is False
        assert mt.RunOptions().trace_level == mt.RunOptions.NO_TRACE
        assert mt.RunMetadata().step_stats.dev_stats == []

    def test_unknown_names(self):
        options = mt.OptimizerOptions()
        with pytest.raises(AttributeError, match="no attribute 'global_jit_leve'; did you mean 'global_jit_level'"):
            options.global_jit_leve = 1
        with pytest.raises(AttributeError, match="did you mean 'optimizer_options'"):
            _ = mt.GraphOptions().optimiser_options
        with pytest.raises(AttributeError, match="it has graph_options"):
            mt.ConfigProto().zzz = 1
        with pytest.raises(TypeError):
            mt.RunOptions(trace=3)

    def test_types_and_values(self):
        options = mt.OptimizerOptions()
        with pytest.raises(TypeError, match=r"OptimizerOptions.cpu_global_jit must be of type bool, not int"):
            options.cpu_global_jit = 1
        with pytest.raises(TypeError, match="must be of type int, not bool"):
            options.global_jit_level = True
        with pytest.raises(
            ValueError, match=r"must be one of OFF \(-1\), DEFAULT \(0\), ON_1 \(1\), ON_2 \(2\), not 7"
        ):
            options.global_jit_level = 7
        with pytest.raises(TypeError, match="must be of type GraphOptions, not OptimizerOptions"):
            mt.ConfigProto().graph_options = options

    def test_equality_repr_copy(self):
        config = jit_config()
        assert config == jit_config()
        assert config != mt.ConfigProto()
        assert config != 3
        assert "global_jit_level=1, cpu_global_jit=True" in repr(config)
        other = copy.deepcopy(config)
        other.graph_options.optimizer_options.cpu_global_jit = False
        assert config == jit_config()


class TestSession:
    def test_runs_and_returns(self):
        with mt.Session() as session:
            assert session.run(lambda a, b: (a, b + 1), 1, 2) == (1, 3)

    def test_closed(self):
        session = mt.Session()
        session.close()
        with pytest.raises(RuntimeError, match="closed Session"):
            session.run(lambda: None)

    def test_bad_arguments(self):
        session = mt.Session()
        with pytest.raises(TypeError, match="fn must be callable, not Tensor"):
            session.run(mt.ones(1))
        with pytest.raises(TypeError, match="options must be"):
            session.run(len, (), options=3)
        with pytest.raises(TypeError, match="run_metadata must be"):
            session.run(len, (), run_metadata=3)
        with pytest.raises(TypeError, match="config must be"):
            mt.Session(config=3)

    def test_options_are_put_back(self):
        around = mt.jit.current_options()

        def inner():
            with mt.jit.options(min_cluster_size=7) as chosen:
                assert mt.jit.current_options() is chosen
                return mt.Session().run(mt.jit.current_options)

        session = mt.Session(config=jit_config())
        inside = session.run(inner)
        assert (inside.min_cluster_size, inside.auto_jit, inside.cpu_global_jit) == (7, 1, True)
        assert mt.jit.current_options() == around

        def fails_at_the_end():
            return mt.ones(3)[mt.tensor([5])] + 1

        with pytest.raises(IndexError):
            session.run(fails_at_the_end)
        with pytest.raises(ZeroDivisionError):  # the program's own error is the one to see
            session.run(lambda: (fails_at_the_end(), 1 / 0))
        assert mt.jit.current_options() == around
        assert not mt._C.is_recording()

    def test_a_scope_of_options_is_left_as_often_as_it_was_entered(self):
        scope = mt.jit.options(min_cluster_size=7)
        with pytest.raises(RuntimeError, match="is left, but was not entered"):
            scope.__exit__(None, None, None)
        with scope, pytest.raises(RuntimeError, match="is entered already"):
            scope.__enter__()
        with scope:
            assert mt.jit.current_options().min_cluster_size == 7

    def test_an_exception_passes(self):
        x = mt.ones(3)
        for config in (None, jit_config()):
            with mt.Session(config) as session, pytest.raises(ZeroDivisionError):
                session.run(lambda: 1 / 0)
            assert (x + 1).sum().item() == 6.0

    @pytest.mark.parametrize("level", [mt.OptimizerOptions.OFF, mt.OptimizerOptions.ON_1, mt.OptimizerOptions.ON_2])
    def test_same_bits(self, level):
        x = mt.from_numpy(np.linspace(-3, 3, 1000, dtype=np.float32))
        expected = chain(x).numpy()
        with mt.Session(jit_config(level)) as session:
            for _ in range(2):
                np.testing.assert_array_equal(session.run(chain, x).numpy(), expected)


class TestTrace:
    def test_eager(self):
        x = mt.ones(10)
        (result, stats), line = trace(mt.Session(), chain, x), chain.__code__.co_firstlineno
        assert result.shape == (10,)
        assert [device.device for device in stats.dev_stats] == [step_stats.CPU_DEVICE]
        shown = boxes(stats)
        assert [box["name"] for box in shown] == ["Mul", "Add", "Tanh", "Mul", "Sub"]
        assert [box["args"]["line"] for box in shown] == [line + i for i in range(1, 6)]
        assert all(box["args"]["file"] == __file__ for box in shown)
        assert all(box["dur"] >= 0 for box in shown)

    def test_compiled(self):
        x = mt.ones(10)
        _, stats = trace(mt.Session(jit_config()), chain, x)
        (launch,) = boxes(stats)  # nothing is known of when each op ran
        assert launch["name"] == "_JitLaunch"
        line = chain.__code__.co_firstlineno
        names = ["Mul", "Add", "Tanh", "Mul", "Sub"]
        assert launch["args"]["ops"] == [f"{name} {__file__}:{line + i}" for i, name in enumerate(names, 1)]

    def test_kernels_that_measure_themselves(self):
        def program(x):
            y = (x * 2).sum(0)
            return y, (x @ x).exp()

        x, session, fn = mt.ones(70, 70), mt.Session(), mt.function(program, jit_compile=True)
        with mt.jit.options(hlo_profile=True):
            for _ in range(2):  # the times are those of the run at hand
                _, stats = trace(session, fn, x)
        shown = boxes(stats)
        launch = next(box for box in shown if box["name"] == "_JitLaunch")
        kernels = [box for box in shown if box["args"].get("compiled_into") == launch["args"]["name"]]
        assert len(kernels) >= 2
        assert "ops" not in launch["args"]
        line = program.__code__.co_firstlineno + 1
        assert f"Sum {__file__}:{line}" in [op for kernel in kernels for op in kernel["args"].get("ops", ())]
        end = launch["ts"]
        for kernel in kernels:
            assert kernel["tid"] == launch["tid"]
            assert end <= kernel["ts"]  # one after the other
            end = kernel["ts"] + kernel["dur"]
        assert end <= launch["ts"] + launch["dur"] + 1e-3

    def test_only_when_asked(self):
        metadata = mt.RunMetadata()
        session = mt.Session()
        session.run(chain, mt.ones(1), run_metadata=metadata)
        session.run(chain, mt.ones(1), options=mt.RunOptions(), run_metadata=metadata)
        assert metadata.step_stats.dev_stats == []
        session.run(chain, mt.ones(1), options=mt.RunOptions(trace_level=mt.RunOptions.FULL_TRACE))


SOURCE_OPS = [("add_3", "add", "a.py", 7), ("log_softmax_4", "log_softmax", None, 0)]
EVENTS = [
    ("tanh", "tanh", 3_000, 4_000, 9, "b.py", 4, None, ["f32[2]"], 16),
    ("matmul", "matmul", 1_000, 2_500, 7, "a.py", 3, None, ["f32[2,3]", "f32[3,2]"], 64),
    ("cluster_0", "_JitLaunch", 5_000, 5_007, 7, None, None, SOURCE_OPS, [], 0),
    ("tanh", "tanh", 6_000, 7_000, 7, "b.py", 5, None, ["f32[2]"], 16),
]


class TestTimeline:
    def test_from_events(self):
        (device,) = step_stats.from_events(EVENTS).dev_stats
        assert [node.node_name for node in device.node_stats] == ["matmul", "tanh", "cluster_0", "tanh_1"]
        matmul, tanh, launch, _ = device.node_stats
        assert (matmul.inputs, matmul.bytes) == (["f32[2,3]", "f32[3,2]"], 64)
        assert (matmul.start_us, matmul.duration_us, matmul.source) == (1.0, 1.5, "a.py:3")
        assert tanh.thread_id == 9
        assert launch.source == ""
        assert [child.op for child in launch.children] == ["add", "log_softmax"]

    def test_format(self):
        text = timeline.Timeline(step_stats.from_events(EVENTS)).generate_chrome_trace_format()
        events = json.loads(text)["traceEvents"]
        names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
        assert names == ["/job:localhost/replica:0/task:0/device:CPU:0 Compute"]
        assert sum(event["name"] == "thread_name" for event in events) == 2
        shown = boxes(step_stats.from_events(EVENTS))
        assert [(b["name"], b["tid"], b["ts"], b["dur"]) for b in shown] == [
            ("MatMul", 0, 1.0, 1.5),
            ("Tanh", 1, 3.0, 1.0),
            ("_JitLaunch", 0, 5.0, 0.007),
            ("Tanh", 0, 6.0, 1.0),
        ]
        args = {"name": "matmul", "op": "MatMul", "input0": "f32[2,3]", "input1": "f32[3,2]"}
        assert shown[0]["args"] == args | {"file": "a.py", "line": 3, "bytes": 64}
        assert shown[2]["args"]["ops"] == ["Add a.py:7", "LogSoftmax"]

    def test_dataflow_and_memory(self):
        producer = step_stats.NodeExecStats("a", "add", 1.0, 1.0, bytes=64)
        consumer = step_stats.NodeExecStats("b", "mul", 3.0, 1.0, inputs=["a", "outside"])
        stats = step_stats.StepStats([step_stats.DeviceStepStats("CPU", [producer, consumer])])
        make = timeline.Timeline(stats).generate_chrome_trace_format
        events = json.loads(make(show_memory=True))["traceEvents"]
        start, finish = (event for event in events if event["ph"] in "sf")
        assert (start["ph"], start["id"], start["name"]) == ("s", finish["id"], "a")
        assert 1.0 <= start["ts"] < 2.0
        assert finish["ts"] == 3.0
        assert [event["args"]["bytes"] for event in events if event["ph"] == "C"] == [64, 0]
        quiet = json.loads(make(show_dataflow=False))["traceEvents"]
        assert not [event for event in quiet if event["ph"] in "sfC"]

    def test_measured_children_keep_their_times(self):
        child = step_stats.NodeExecStats("c", "add", 2.0, 5.0)
        launch = step_stats.NodeExecStats("l", "_JitLaunch", 1.0, 3.0, children=[child])
        _, box = boxes(step_stats.StepStats([step_stats.DeviceStepStats("CPU", [launch])]))
        assert (box["ts"], box["dur"], box["args"]["compiled_into"]) == (2.0, 2.0, "l")

    def test_labels(self):
        ops = ["matmul", "log_softmax", "add", "_JitLaunch", "cross_entropy", "argmax", "_JitRun", "_addmm", "_view"]
        expected = ["MatMul", "LogSoftmax", "Add", "_JitLaunch", "CrossEntropy", "ArgMax", "_JitRun", "AddMM", "View"]
        assert [timeline.label(op) for op in ops] == expected

    def test_empty(self):
        assert json.loads(timeline.Timeline(step_stats.StepStats()).generate_chrome_trace_format())["traceEvents"] == []
