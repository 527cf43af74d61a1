"""Pipes of samples: what each does, in a loader, and as PyTorch's."""

import copy
import importlib
import pickle
import random
import warnings
from collections.abc import Iterator

import pytest

import minitensor as mt
from minitensor.utils import data

PIPES = ("iter", "map")


def even(x):
    return x % 2 == 0


def double(x):
    return x * 2


def add(x, y):
    return x + y


def parity(x):
    return x % 2


def three(x):
    return x % 3


def first(x):
    return x[0]


def cases(lib):
    """What is compared, by name: a function of PyTorch's module `utils.data` or of ours."""
    it, mp = (importlib.import_module(f"{lib}.utils.data.datapipes.{kind}") for kind in PIPES)
    wrap, seq = it.IterableWrapper, mp.SequenceWrapper
    ten = lambda: wrap(range(10))  # noqa: E731
    pairs = lambda: wrap([(i, i * 10, i * 100) for i in range(4)])  # noqa: E731
    demux = lambda **k: ten().demux(2, parity, **k)  # noqa: E731
    return {
        "map": lambda: [list(ten().map(double)), len(ten().map(double))],
        "map of a column": lambda: list(pairs().map(double, input_col=1)),
        "map of two columns": lambda: list(pairs().map(add, input_col=[0, 2])),
        "map to a column": lambda: list(pairs().map(add, input_col=(0, 1), output_col=2)),
        "map to a new column": lambda: list(pairs().map(double, input_col=0, output_col=-1)),
        "map of a dict": lambda: list(wrap([{"a": 1, "b": 2}]).map(add, input_col=["a", "b"], output_col="c")),
        "map wrong": lambda: ten().map(double, output_col=1),
        "map too many": lambda: pairs().map(double, input_col=[0, 1]),
        "map nothing": lambda: ten().map(3),
        "filter": lambda: list(ten().filter(even)),
        "filter column": lambda: list(pairs().filter(even, input_col=0)),
        "filter wrong": lambda: list(ten().filter(double)),
        "filter length": lambda: len(ten().filter(even)),
        "batch": lambda: [list(ten().batch(3)), len(ten().batch(3)), len(ten().batch(3, drop_last=True))],
        "batch drop": lambda: list(ten().batch(4, drop_last=True)),
        "batch wrong": lambda: ten().batch(0),
        "batch of batches": lambda: list(ten().batch(2).batch(2)),
        "unbatch": lambda: list(ten().batch(2).batch(2).unbatch()),
        "unbatch all": lambda: list(ten().batch(2).batch(2).unbatch(unbatch_level=-1)),
        "unbatch two": lambda: list(ten().batch(2).batch(2).unbatch(2)),
        "unbatch deep": lambda: list(ten().batch(2).unbatch(2)),
        "unbatch wrong": lambda: list(ten().unbatch(-2)),
        "collate": lambda: [t.tolist() for t in ten().batch(5).collate()],
        "collate by": lambda: list(ten().batch(5).collate(collate_fn=sum)),
        "concat": lambda: [list(ten().concat(wrap("ab"))), len(ten().concat(wrap("ab")))],
        "concat wrong": lambda: ten().concat(3),
        "concat nothing": lambda: it.Concater(),
        "zip": lambda: [list(ten().zip(wrap("abc"))), len(ten().zip(wrap("abc")))],
        "zip wrong": lambda: ten().zip([1]),
        "mux": lambda: [list(ten().mux(wrap("abc"), wrap("xy"))), len(ten().mux(wrap("abc")))],
        "fork": lambda: [list(p) for p in ten().fork(3)],
        "fork in turn": lambda: list(zip(*ten().fork(2), strict=True)),
        "fork one": lambda: list(ten().fork(1)),
        "fork none": lambda: ten().fork(0),
        "fork overflow": lambda: [list(p) for p in ten().fork(2, buffer_size=5)],
        "fork length": lambda: [len(p) for p in ten().fork(2)],
        "fork twice": lambda: [[list(p) for p in forks] for forks in [ten().fork(2)] * 2],
        "fork copy": lambda: ten().fork(2, copy="other"),
        "fork deep": lambda: (lambda a, b: [x is y for x, y in zip(a, b, strict=True)])(
            *wrap([[1], [2]]).fork(2, copy="deep")
        ),
        "demux": lambda: [list(p) for p in demux()],
        "demux none": lambda: [list(p) for p in wrap([0, 1, 2, 5]).demux(3, three, drop_none=True)],
        "demux wrong": lambda: [list(p) for p in ten().demux(2, three)],
        "demux overflow": lambda: [list(p) for p in demux(buffer_size=2)],
        "groupby": lambda: list(ten().groupby(three)),
        "groupby size": lambda: list(ten().groupby(three, group_size=2)),
        "groupby key": lambda: list(ten().groupby(three, keep_key=True)),
        "groupby buffer": lambda: list(ten().groupby(three, buffer_size=4, group_size=3, guaranteed_group_size=2)),
        "groupby fails": lambda: list(ten().groupby(three, buffer_size=3, group_size=3)),
        "groupby drops": lambda: list(ten().groupby(three, buffer_size=3, group_size=3, drop_remaining=True)),
        "groupby wrong": lambda: ten().groupby(three, group_size=0),
        "groupby wrong least": lambda: ten().groupby(three, guaranteed_group_size=2),
        "shuffle": lambda: [list(ten().shuffle().set_seed(3)), len(ten().shuffle())],
        "shuffle buffer": lambda: list(ten().shuffle(buffer_size=3).set_seed(3)),
        "shuffle off": lambda: list(ten().shuffle().set_shuffle(False)),
        "shuffle wrong": lambda: ten().shuffle(buffer_size=0),
        "shuffle inside": lambda: list(ten().batch(2).shuffle(unbatch_level=1).set_seed(1)),
        "sampler": lambda: [list(it.Sampler(ten())), len(it.Sampler(ten()))],
        "sampler wrong": lambda: it.Sampler(ten().filter(even)),
        "sharding": lambda: [
            (lambda p: (p.apply_sharding(3, i), list(p), len(p))[1:])(ten().sharding_filter()) for i in range(3)
        ],
        "sharding groups": lambda: (
            lambda p: (p.apply_sharding(2, 1, 2), p.apply_sharding(3, 2, 3), list(p), p.num_of_instances, p.instance_id)
        )(ten().sharding_filter()),
        "sharding mixed": lambda: (lambda p: (p.apply_sharding(2, 1), p.apply_sharding(3, 2, 3)))(
            ten().sharding_filter()
        ),
        "sharding wrong": lambda: ten().sharding_filter().apply_sharding(2, 2),
        "no length": lambda: len(wrap(iter([1])).map(double)),
        "no function": lambda: ten().nothing(),
        "shown": lambda: [repr(ten()), str(ten().map(double)), repr(seq([1])), "map" in dir(ten())],
        "taken": lambda: type(ten()).register_datapipe_as_function("map", it.Mapper),
        "seq": lambda: [list(seq([3, 4])), seq({"a": 1})["a"], len(seq([1, 2]))],
        "seq map": lambda: [list(seq([3, 4]).map(double)), len(seq([3, 4]).map(double)), seq([3, 4]).map(double)[1]],
        "seq batch": lambda: [
            list(seq(range(5)).batch(2)),
            list(seq(range(5)).batch(2, drop_last=True)),
            len(seq(range(5)).batch(2)),
        ],
        "seq batch beyond": lambda: seq(range(5)).batch(2)[3],
        "seq concat": lambda: [list(seq([1]).concat(seq([2, 3]))), len(seq([1]).concat(seq([2, 3])))],
        "seq concat beyond": lambda: seq([1]).concat(seq([2, 3]))[3],
        "seq concat wrong": lambda: seq([1]).concat([2]),
        "seq zip": lambda: [list(seq([1, 2]).zip(seq("ab"))), len(seq([1, 2]).zip(seq("a")))],
        "seq zip beyond": lambda: seq([1, 2]).zip(seq("a"))[1],
        "seq shuffle": lambda: [
            list(seq(range(6)).shuffle().set_seed(2)),
            list(seq(range(6)).shuffle().set_shuffle(False)),
        ],
        "seq shuffle keys": lambda: sorted(seq({"a": 1, "b": 2}).shuffle(indices=["a", "b"])),
    }


def outcome(case):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return case()
        except Exception as error:
            return type(error), str(error.args[0] if error.args else "").partition("\nThis exception is")[0].partition(
                ","
            )[0][:30]


NAMES = tuple(cases("minitensor"))


@pytest.mark.torch
@pytest.mark.parametrize("name", NAMES)
def test_as_torch(name):
    pytest.importorskip("torch")
    assert outcome(cases("minitensor")[name]) == outcome(cases("torch")[name])


@pytest.mark.torch
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("shuffle", [None, True, False])
def test_a_loader_as_torch(workers, shuffle):
    torch = pytest.importorskip("torch")
    torch_pipes = importlib.import_module("torch.utils.data.datapipes.iter")
    ours_pipes = data.datapipes.iter

    def run(lib, pipes, pipe):
        lib.manual_seed(7)
        made = pipe(pipes.IterableWrapper(range(12)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loader = lib.utils.data.DataLoader(
                made, batch_size=2, num_workers=workers, shuffle=shuffle, persistent_workers=workers > 0
            )
            return [[b.tolist() for b in loader] for _ in range(2)]

    mt.random.use("torch")
    try:
        for pipe in (
            lambda p: p.shuffle().sharding_filter().map(double),
            lambda p: p.sharding_filter().shuffle(buffer_size=3),
            lambda p: p.shuffle(),
            # PyTorch says that it shuffles these, and does not.
            *([] if shuffle else [lambda p: p.map(double)]),
        ):
            assert run(mt, ours_pipes, pipe) == run(torch, torch_pipes, pipe)
    finally:
        mt.random.use("philox")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader(workers):
    pipe = data.datapipes.iter.IterableWrapper(range(20)).shuffle().sharding_filter().map(double)
    loader = data.DataLoader(pipe, batch_size=None, num_workers=workers, shuffle=True)
    epochs = [[int(x) for x in loader] for _ in range(2)]
    assert epochs[0] != epochs[1]
    assert all(sorted(epoch) == list(range(0, 40, 2)) for epoch in epochs)
    plain = data.DataLoader(pipe, batch_size=None, num_workers=0, shuffle=False)
    assert [int(x) for x in plain] == list(range(0, 40, 2))


def test_a_loader_that_has_to_shuffle():
    with pytest.warns(UserWarning, match="does not contain a `Shuffler`"):
        loader = data.DataLoader(data.datapipes.iter.IterableWrapper(range(8)), shuffle=True, batch_size=None)
    assert sorted(int(x) for x in loader) == list(range(8))
    twice = data.datapipes.iter.IterableWrapper(range(8)).sharding_filter().sharding_filter()
    with pytest.raises(RuntimeError, match="Sharding twice"):
        iter(data.DataLoader(twice))
    loader = data.DataLoader(data.datapipes.map.SequenceWrapper(range(6)), batch_size=3)
    assert [b.tolist() for b in loader] == [[0, 1, 2], [3, 4, 5]]


def test_one_iterator_at_a_time():
    pipe = data.datapipes.iter.IterableWrapper(range(5))
    one, two = iter(pipe), iter(pipe)
    assert next(two) == 0
    with pytest.raises(RuntimeError, match="has been invalidated because another iterator"):
        next(one)
    assert list(two) == [1, 2, 3, 4]
    left, right = pipe.fork(2)
    one = iter(left)
    assert (next(one), next(iter(right))) == (0, 0)
    with pytest.warns(UserWarning, match="not exhausted"):
        again = iter(left)
    assert next(again) == 0
    with pytest.raises(RuntimeError, match="one of the ChildDataPipes"):
        next(one)


def test_errors_name_the_pipe():
    pipe = data.datapipes.iter.IterableWrapper([1, 0]).map(inverse)
    with pytest.raises(
        ZeroDivisionError, match=r"This exception is thrown by __iter__ of MapperIterDataPipe.*fn=inverse"
    ):
        list(pipe)


def inverse(x):
    return 1 // x


@data.functional_datapipe("tripled_for_a_test")
class Tripled(data.IterDataPipe[int]):
    def __init__(self, source, times=3):
        self.source, self.times, self.resets = source, times, 0

    def reset(self):
        self.resets += 1

    def __iter__(self):
        for x in self.source:
            yield x * self.times

    def __len__(self):
        return len(self.source)


def test_pipes_of_ones_own():
    pipe = data.datapipes.iter.IterableWrapper([1, 2]).tripled_for_a_test().tripled_for_a_test(times=10)
    assert (list(pipe), list(pipe), len(pipe), pipe.resets) == ([30, 60], [30, 60], 2, 2)
    assert list(pickle.loads(pickle.dumps(pipe))) == list(copy.deepcopy(pipe)) == [30, 60]
    with pytest.raises(TypeError, match="can only decorate"):
        data.functional_datapipe("x")(int)
    assert isinstance(pipe, data.IterableDataset)
    assert str(Tripled.type) == "int"


def test_graphs():
    from minitensor.utils.data.graph import traverse_dps
    from minitensor.utils.data.graph_settings import apply_random_seed, get_all_graph_pipes

    source = data.datapipes.iter.IterableWrapper(range(4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        left, right = source.map(lambda x: x).shuffle().fork(2)
        end = left.zip(right.map(lambda x: -x))
    graph = traverse_dps(end)
    assert list(graph) == [id(end)]
    names = [type(p).__name__ for p in get_all_graph_pipes(graph)]
    assert names.count("ShufflerIterDataPipe") == names.count("IterableWrapperIterDataPipe") == 1
    assert len(names) == 8
    apply_random_seed(end, mt.Generator().manual_seed(1))
    assert all(x == -y for x, y in end)
    with pytest.raises(RuntimeError, match="Expected `IterDataPipe`"):
        traverse_dps([1])


def test_determinism():
    @data.non_deterministic
    class Any(data.IterDataPipe):
        def __iter__(self):
            yield random.random()

    @data.non_deterministic(lambda n: n > 1)
    class Some(data.IterDataPipe):
        def __init__(self, n):
            self.n = n

        def __iter__(self):
            yield self.n

    assert len(list(Any())) == 1
    assert list(Some(3)) == [3]
    with data.guaranteed_datapipes_determinism():
        assert list(Some(1)) == [1]
        for make in (Any, lambda: Some(2)):
            with pytest.raises(TypeError, match="is non-deterministic"):
                make()
    assert list(Some(2)) == [2]
    for wrong in (int, 3):
        with pytest.raises(TypeError):
            data.non_deterministic(wrong)


def test_types():
    class Ints(data.IterDataPipe[int]):
        def __init__(self, values):
            self.values = values

        @data.runtime_validation
        def __iter__(self) -> Iterator[int]:
            yield from self.values

    assert list(Ints([1, True])) == [1, True]
    with pytest.raises(RuntimeError, match="Expected an instance as subtype of int, but found a"):
        list(Ints([1, "a"]))
    with data.runtime_validation_disabled():
        assert list(Ints(["a"])) == ["a"]
    with pytest.raises(TypeError, match="Can not decorate function f"):

        @data.runtime_validation
        def f(self):
            pass

    @data.argument_validation
    def total(pipe: data.IterDataPipe[int | str], more: int = 0):
        return sum(pipe) + more

    assert total(Ints([1, 2]), more="unchecked" and 1) == 4
    with pytest.raises(TypeError, match="Expected argument 'pipe' as a IterDataPipe"):
        total([1])
    with pytest.raises(TypeError, match="as a subtype of hint"):
        total(data.datapipes.iter.IterableWrapper([1]))
    assert Ints.type.issubtype(data.datapipes.iter.Mapper.type)


def test_files(tmp_path):
    pipes = data.datapipes.iter
    for name in ("b.txt", "a.txt", "c.csv", "d/e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name * 2)
    found = pipes.FileLister(str(tmp_path), "*.txt")
    assert [p.rsplit("/", 1)[1] for p in found] == ["a.txt", "b.txt"]
    assert len(list(pipes.FileLister(str(tmp_path), recursive=True))) == 4
    assert list(pipes.FileLister([str(tmp_path / "c.csv")])) == [str(tmp_path / "c.csv")]
    assert len(pipes.FileLister(str(tmp_path), length=7)) == 7
    texts = [(path[-5:], stream.read()) for path, stream in found.open_files()]
    assert texts == [("a.txt", "a.txta.txt"), ("b.txt", "b.txtb.txt")]
    chunks = [part for _, part in found.open_files("rb").read_from_stream(chunk=6)]
    assert chunks == [b"a.txta", b".txt", b"b.txtb", b".txt"]
    for wrong in ({"mode": "w"}, {"mode": "rb", "encoding": "utf-8"}):
        with pytest.raises(ValueError, match="mode"):
            pipes.FileOpener(found, **wrong)
    chunk = data.DataChunk([1, 2])
    assert (chunk.as_str(" "), list(chunk.raw_iterator()), chunk) == (" [1, 2]", [1, 2], [1, 2])
