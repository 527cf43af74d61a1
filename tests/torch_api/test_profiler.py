"""The profiler: events, sums, tables, schedules and traces."""

import gzip
import json

import pytest

import minitensor as mt
from minitensor.profiler import (
    ProfilerAction,
    ProfilerActivity,
    kineto_available,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)


def work(x):
    with record_function("mine"):
        y = x @ x
        y.relu()
    return (x + y).sum()


@pytest.fixture
def taken():
    x = mt.ones(20, 20)
    with profile(record_shapes=True, profile_memory=True, with_stack=True, with_flops=True) as prof:
        work(x)
    return prof


pytestmark = pytest.mark.at_once(reason="it is about which kernels run when")


def test_events(taken):
    events = taken.events()
    assert [event.name for event in events] == ["mine", "matmul", "relu", "add", "sum"]
    mine, matmul, relu, add, total = events
    assert mine.cpu_children == [matmul, relu]
    assert matmul.cpu_parent is mine
    assert add.cpu_parent is None
    assert matmul.input_shapes == [[20, 20], [20, 20]]
    assert (matmul.flops, relu.flops, total.flops) == (2 * 20**3, 400, None)
    assert (matmul.cpu_memory_usage, mine.self_cpu_memory_usage, mine.cpu_memory_usage) == (1600, 0, 3200)
    assert mine.cpu_time_total >= matmul.cpu_time_total + relu.cpu_time_total
    assert mine.self_cpu_time_total == pytest.approx(mine.cpu_time_total - matmul.cpu_time_total - relu.cpu_time_total)
    assert "test_profiler.py(" in matmul.stack[0]
    assert mine.is_user_annotation
    assert "name=mine" in repr(mine)


def test_ranges_of_optimizers_and_loaders():
    weight = mt.ones(2).requires_grad_()
    optimizer = mt.optim.SGD([weight], lr=0.1)
    loader = mt.utils.data.DataLoader([1.0, 2.0], batch_size=1)
    with profile() as prof:
        for batch in loader:
            optimizer.zero_grad()
            (weight * batch).sum().backward()
            optimizer.step()
    counts = {event.key: event.count for event in prof.key_averages() if event.is_user_annotation}
    assert counts == {
        "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__": 2,
        "Optimizer.zero_grad#SGD.zero_grad": 2,
        "Optimizer.step#SGD.step": 2,
    }


def test_names_are_pytorch_s_under_its_name():
    before = mt._C.set_shown_package("torch")
    try:
        x = mt.ones(2, 2)
        with profile() as prof:
            with record_function("mine"):
                mt.bmm(x[None], x[None])
            x @ x
            x @ x[0]
            mt.addmm(x, x, x)
            mt.nn.functional.log_softmax(x, 0)
            mt.nn.functional.avg_pool1d(x[None], 2)
            x.to(mt.float64)
        names = [event.name for event in prof.events()]
    finally:
        mt._C.set_shown_package(before)
    assert names == [
        "mine", "aten::bmm", "aten::mm", "aten::mv", "aten::addmm", "aten::_log_softmax", "aten::avg_pool1d",
        "aten::_to_copy",
    ]  # fmt: skip


def test_sums(taken):
    with profile(record_shapes=True) as prof:
        for n in (2, 3, 3):
            mt.ones(n).exp()
    sums = {event.key: event for event in prof.key_averages()}
    assert sums["exp"].count == 3
    assert sums["exp"].cpu_time == sums["exp"].cpu_time_total / 3
    by_shape = [(e.input_shapes, e.count) for e in prof.key_averages(group_by_input_shape=True) if e.key == "exp"]
    assert by_shape == [([[2]], 1), ([[3]], 2)]
    assert len([e for e in taken.key_averages(group_by_stack_n=1) if e.stack]) == 4
    total = taken.events().total_average()
    assert total.count == 5
    assert total.self_cpu_time_total == pytest.approx(taken.events().self_cpu_time_total)


def test_convolutions_are_counted():
    with profile(with_flops=True) as prof:
        mt.nn.functional.conv2d(mt.ones(2, 3, 8, 8), mt.ones(4, 3, 3, 3))
    found = {event.key: event.flops for event in prof.key_averages()}
    assert found["convolution"] == 2 * (2 * 4 * 6 * 6) * (3 * 3 * 3)


def test_tables(taken):
    sums = taken.key_averages()
    text = sums.table(sort_by="count", row_limit=2)
    lines = text.splitlines()
    assert lines[1].split()[0] == "Name"
    for title in ("Self CPU %", "CPU time avg", "CPU Mem", "# of Calls", "Total FLOPs"):
        assert title in lines[1]
    assert len(lines) == 3 + 2 + 2
    assert lines[-1].startswith("Self CPU time total: ")
    assert "16000.000" in sums.table(sort_by="flops", row_limit=1)
    assert "HEADER" in sums.table(header="HEADER")
    top = taken.events().table(top_level_events_only=True)
    assert " add " in top
    assert " relu " not in top
    assert mt.profiler.events.EventList().table() == ""
    with pytest.raises(AttributeError, match="sorted by 'nothing'"):
        sums.table(sort_by="nothing")
    shown = {mt.profiler.events.time_text(t) for t in (0.5, 1500, 2e6)}
    assert shown == {"0.500us", "1.500ms", "2.000s"}


def test_schedules():
    steps = schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=1)
    names = [steps(i).name for i in range(7)]
    assert names == ["NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE"]
    again = schedule(wait=0, warmup=1, active=1)
    assert [again(i) for i in range(4)] == [ProfilerAction.WARMUP, ProfilerAction.RECORD_AND_SAVE] * 2
    with pytest.raises(AssertionError, match="Invalid profiler schedule arguments"):
        schedule(wait=0, warmup=1, active=0)
    with pytest.warns(UserWarning, match="won't be using warmup"):
        schedule(wait=0, warmup=0, active=1)


def test_schedules_against_torch():
    torch = pytest.importorskip("torch")
    for options in ({}, {"repeat": 2}, {"skip_first": 3, "repeat": 1}, {"skip_first": 2, "skip_first_wait": 1}):
        ours = schedule(wait=2, warmup=1, active=2, **options)
        theirs = torch.profiler.schedule(wait=2, warmup=1, active=2, **options)
        assert [ours(i).name for i in range(14)] == [theirs(i).name for i in range(14)]


def test_cycles():
    seen = []

    def ready(prof):
        seen.append([event.name for event in prof.events()])

    x = mt.ones(3)
    with profile(schedule=schedule(wait=1, warmup=1, active=2), on_trace_ready=ready) as prof:
        for i in range(9):
            x.exp() if i % 2 else x.sin()
            prof.step()
    assert seen == [
        ["ProfilerStep#2", "sin", "ProfilerStep#3", "exp"],
        ["ProfilerStep#6", "sin", "ProfilerStep#7", "exp"],
    ]
    with profile(on_trace_ready=ready):
        x.cos()
    assert seen[-1] == ["cos"]


def test_one_at_a_time():
    with profile(), pytest.raises(RuntimeError, match="being taken already"):
        profile().start()
    with pytest.raises(RuntimeError, match="didn't finish"):
        profile().events()
    with pytest.raises(AssertionError, match="No valid profiler activities"):
        profile(activities=[])
    with pytest.raises(TypeError, match="must be ProfilerActivity, not str"):
        profile(activities=["cpu"])


def test_traces(taken, tmp_path):
    taken.add_metadata("run", "first")
    taken.add_metadata_json("more", "[1, 2]")
    taken.export_chrome_trace(str(tmp_path / "t.json.gz"))
    with gzip.open(tmp_path / "t.json.gz", "rt") as file:
        trace = json.load(file)
    assert (trace["run"], trace["more"]) == ("first", [1, 2])
    boxes = {event["name"]: event for event in trace["traceEvents"] if event["ph"] == "X"}
    mine, product = boxes["mine"], boxes["MatMul"]
    assert mine["cat"] == "user_annotation"
    assert mine["tid"] == product["tid"]
    assert mine["ts"] <= product["ts"]
    assert product["ts"] + product["dur"] <= mine["ts"] + mine["dur"]
    tensorboard_trace_handler(str(tmp_path / "logs"), "worker")(taken)
    (written,) = (tmp_path / "logs").iterdir()
    assert written.name.startswith("worker.")
    assert written.name.endswith(".pt.trace.json")
    json.loads(written.read_text())


def test_stacks(taken, tmp_path):
    taken.export_stacks(str(tmp_path / "stacks"))
    for line in (tmp_path / "stacks").read_text().splitlines():
        stack, value = line.rsplit(" ", 1)
        assert "test_profiler.py(" in stack
        assert int(value) > 0
    with pytest.raises(ValueError, match="metric should be one of"):
        taken.export_stacks(str(tmp_path / "stacks"), "other")
    with profile() as prof:
        pass
    with pytest.raises(RuntimeError, match="with_stack=True"):
        prof.export_stacks(str(tmp_path / "stacks"))


def test_launches_are_events():
    function = mt.function(lambda x: (x * 2.5 + 1).exp().sum(), jit_compile=True)
    function(mt.ones(100))
    with profile(record_shapes=True, with_flops=True) as prof:
        function(mt.ones(100))
    assert len([event for event in prof.events() if "JitLaunch" in event.name or "cluster" in event.name]) == 1


def test_as_a_decorator_and_without_a_profile():
    @record_function("named")
    def double(x):
        return x * 2

    double(mt.ones(2))
    with profile() as prof:
        double(mt.ones(2))
        double(mt.ones(2))
    assert [event.name for event in prof.events() if event.is_user_annotation] == ["named", "named"]


def test_what_there_is():
    assert kineto_available()
    assert ProfilerActivity.CPU in supported_activities()
    with pytest.raises(NotImplementedError, match="execution traces"):
        mt.profiler.ExecutionTraceObserver()


def test_the_older_profiler(tmp_path):
    with mt.autograd.profiler.profile(record_shapes=True) as prof, mt.autograd.profiler.record_function("part"):
        mt.ones(2, requires_grad=True).exp()
    assert [event.name for event in prof.function_events][-1] == "exp"
    assert "part" in prof.key_averages().table()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    with mt.autograd.profiler.emit_nvtx(enabled=False):
        pass
    with pytest.raises(NotImplementedError, match="NVTX"), mt.autograd.profiler.emit_nvtx():
        pass
