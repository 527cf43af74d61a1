"""Datasets, samplers, splits and batches against PyTorch's."""

import collections

import numpy as np
import pytest

import minitensor as mt
import minitensor.utils.data


def torch():
    lib = pytest.importorskip("torch")
    import torch.utils.data  # noqa: F401

    return lib


def plain(value):
    """Tensors as what can be compared."""
    if type(value).__name__ == "Tensor":
        return "tensor", str(value.dtype).split(".")[1], value.tolist()
    if isinstance(value, collections.abc.Mapping):
        return type(value).__name__, {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [plain(v) for v in value]
    return type(value).__name__, value if not isinstance(value, np.ndarray) else value.tolist()


class Squares:
    """A dataset that is of neither library's class."""

    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return index * index if not isinstance(index, list) else [i * i for i in index]


class AtOnce(Squares):
    def __getitems__(self, indices):
        return [-i for i in indices]


class Short(Squares):
    def __getitems__(self, indices):
        return [0]


def streams(data):
    class Stream(data.IterableDataset):
        def __init__(self, *items):
            self.items = items

        def __iter__(self):
            return iter(self.items)

        def __len__(self):
            return len(self.items)

    return Stream


class Renamed(dict):
    pass


Point = collections.namedtuple("Point", "x y")


def datasets(lib, data):
    t = lib.arange(12).reshape(4, 3)
    stream = streams(data)
    yield lambda: [data.TensorDataset(t, t[:, 0])[i] for i in (0, 3, slice(1, 3))] + [len(data.TensorDataset(t))]
    yield lambda: data.TensorDataset(t, t[:2])
    yield lambda: data.StackDataset(Squares(4), AtOnce(4)).__getitems__([1, 2])
    yield lambda: [
        data.StackDataset(a=Squares(4), b=AtOnce(4)).__getitems__([1, 2]),
        data.StackDataset(a=Squares(3))[2],
    ]
    yield lambda: data.StackDataset(Squares(4), b=Squares(4))
    yield lambda: data.StackDataset()
    yield lambda: data.StackDataset(Squares(4), Squares(3))
    yield lambda: data.StackDataset(Short(4)).__getitems__([1, 2])
    both = data.ConcatDataset([Squares(3), AtOnce(2)])
    yield lambda: [both[i] for i in range(-5, 5)] + [len(both), both.cumulative_sizes]
    yield lambda: both[-6]
    yield lambda: both[5] if False else data.ConcatDataset([])
    yield lambda: data.ConcatDataset([stream(1)])
    yield lambda: (data.Subset(Squares(9), [1, 3]) + data.Subset(Squares(9), [2]))[2]
    yield lambda: [list(stream(1, 2) + stream(3)), len(stream(1, 2) + stream(3))]
    yield lambda: list(data.ChainDataset([stream(1), [2]]))
    yield lambda: [
        data.Subset(Squares(9), [5, 3, 8])[1],
        data.Subset(Squares(9), [5, 3, 8])[[0, 2]],
        len(data.Subset([], [1])),
    ]
    yield lambda: [
        data.Subset(AtOnce(9), [5, 3]).__getitems__([1, 0]),
        data.Subset(Squares(9), [5, 3]).__getitems__([1]),
    ]
    yield lambda: type("Bad", (data.Subset,), {"__getitem__": lambda self, i: 3})([], [])
    yield lambda: data.Dataset()[3]
    yield lambda: [len(p) for p in data.random_split(range(10), [0.5, 0.25, 0.25])]
    yield lambda: [len(p) for p in data.random_split(range(10), [3, 7])]
    yield lambda: data.random_split(range(10), [3, 8])
    yield lambda: data.random_split(range(10), [1.5, -0.5])
    yield lambda: iter(data.Sampler())
    yield lambda: [list(data.SequentialSampler(range(4))), len(data.SequentialSampler(range(4)))]
    yield lambda: [list(data.BatchSampler(range(7), 3, False)), len(data.BatchSampler(range(7), 3, False))]
    yield lambda: [list(data.BatchSampler(range(7), 3, True)), len(data.BatchSampler(range(7), 3, True))]
    yield lambda: data.BatchSampler(range(3), 0, False)
    yield lambda: data.BatchSampler(range(3), True, False)
    yield lambda: data.BatchSampler(range(3), 1, 1)
    yield lambda: data.RandomSampler([])
    yield lambda: data.RandomSampler([1], replacement=1)
    yield lambda: data.RandomSampler([1], num_samples=-1)
    yield lambda: data.WeightedRandomSampler([1.0], True)
    yield lambda: data.WeightedRandomSampler([1.0], 1, replacement=1)
    yield lambda: data.WeightedRandomSampler([[1.0]], 1)
    yield lambda: [list(data.DistributedSampler(range(7), 3, r, shuffle=False)) for r in range(3)]
    yield lambda: [list(data.DistributedSampler(range(7), 3, r, shuffle=False, drop_last=True)) for r in range(3)]
    yield lambda: [list(data.DistributedSampler(range(2), 5, r, shuffle=False)) for r in range(5)]
    yield lambda: data.DistributedSampler(range(2), 5, 5)


COUNT = 40


@pytest.mark.parametrize("number", range(COUNT))
def test_like_pytorch(number):
    found = []
    for lib in (mt, torch()):
        calls = list(datasets(lib, lib.utils.data))
        assert len(calls) == COUNT
        try:
            found.append(plain(calls[number]()))
        except Exception as error:
            found.append((type(error), str(error)))
    assert found[0] == found[1]


def samples(lib):
    t = lib.tensor
    yield [t([1.0, 2.0]), t([3.0, 4.0])]
    yield [1, 2, 3]
    yield [1.5, 2.5]
    yield [True, False]
    yield ["a", "b"]
    yield [b"a", b"b"]
    yield [(1, "a"), (2, "b")]
    yield [[1, 2.0], [3, 4.0]]
    yield [{"a": 1, "b": t([1])}, {"a": 2, "b": t([2])}]
    yield [Renamed(a=1), Renamed(a=2)]
    yield [Point(1, 2.0), Point(3, 4.0)]
    yield [np.float32(1), np.float32(2)]
    yield [np.int16(1), np.int16(2)]
    yield [np.ones(2), np.zeros(2)]
    yield [np.array(3), np.array(4)]
    yield [collections.OrderedDict(a=[1, (2, 3)])]
    yield [np.array(["a"])]
    yield [[1, 2], [3]]
    yield [object()]
    yield [t([1]), t([1, 2])]


@pytest.mark.parametrize("name", ["default_collate", "default_convert"])
@pytest.mark.parametrize("number", range(20))
def test_batches(name, number):
    found = []
    for lib in (mt, torch()):
        try:
            found.append(plain(getattr(lib.utils.data, name)(list(samples(lib))[number])))
        except Exception as error:
            found.append((type(error), str(error).split(" at 0x")[0]) if number < 19 else type(error))
    if number == 18 and name == "default_convert":
        found = [f[0] for f in found]
    assert found[0] == found[1]


def test_convert_of_texts_and_arrays():
    for lib in (mt, torch()):
        convert = lib.utils.data.default_convert
        texts = np.array(["a", "b"])
        assert convert(texts) is texts
        assert convert("abc") == "abc"
        assert plain(convert({"a": np.float64(2), "b": (1, np.ones(1))})) == (
            "dict", {"a": ("tensor", "float64", 2.0), "b": ("list", [("int", 1), ("tensor", "float64", [1.0])])},
        )  # fmt: skip


def test_functions_for_types():
    for lib in (mt, torch()):
        from_map = {
            int: lambda batch, *, collate_fn_map=None: sum(batch),
            object: lambda batch, *, collate_fn_map=None: len(batch),
        }
        home = mt.utils.data.collate if lib is mt else lib.utils.data._utils.collate
        assert home.collate([1, 2, 3], collate_fn_map=from_map) == 6
        assert home.collate(["a", "b"], collate_fn_map=from_map) == 2


def drawn(sampler):
    return list(sampler)


def test_random_orders():
    data = mt.utils.data
    generator = mt.Generator().manual_seed(3)
    expected = mt.randperm(10, generator=mt.Generator().manual_seed(3)).tolist()
    assert list(data.RandomSampler(range(10), generator=generator)) == expected
    assert sorted(data.RandomSampler(range(10))) == list(range(10))
    several = list(data.RandomSampler(range(4), num_samples=10))
    assert [sorted(several[:4]), sorted(several[4:8]), len(several)] == [[0, 1, 2, 3], [0, 1, 2, 3], 10]
    again = data.RandomSampler(range(3), replacement=True, num_samples=70)
    assert (len(list(again)), set(again)) == (70, {0, 1, 2})
    assert sorted(data.SubsetRandomSampler([5, 7, 9])) == [5, 7, 9]
    assert set(data.WeightedRandomSampler([0.0, 1.0, 2.0], 50)) == {1, 2}
    assert sorted(data.WeightedRandomSampler([1.0, 1.0, 1.0], 3, replacement=False)) == [0, 1, 2]
    mt.manual_seed(5)
    first = list(data.RandomSampler(range(20)))
    assert list(data.RandomSampler(range(20))) != first
    mt.manual_seed(5)
    assert list(data.RandomSampler(range(20))) == first


def test_random_parts():
    data = mt.utils.data
    parts = data.random_split(range(10), [0.3, 0.7], generator=mt.Generator().manual_seed(1))
    order = mt.randperm(10, generator=mt.Generator().manual_seed(1)).tolist()
    assert [list(p.indices) for p in parts] == [order[:3], order[3:]]
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        data.random_split(range(1), [0.5, 0.5])


def test_parts_of_processes():
    data = mt.utils.data
    samplers = [data.DistributedSampler(range(10), 2, rank, seed=4) for rank in range(2)]
    found = [list(s) for s in samplers]
    assert sorted(found[0] + found[1]) == list(range(10))
    samplers[0].set_epoch(1)
    assert list(samplers[0]) != found[0]
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        data.DistributedSampler(range(3))
