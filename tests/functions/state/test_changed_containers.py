"""mt.function: lists, dicts, sets and queues that change between two calls are noticed, however they are read."""

import array
import collections

import pytest
from changes import Changes, helper, other_helper

import minitensor as mt

row = Changes(globals())


@row
def an_item_of_a_list():
    parts = [1.0, 2.0]
    return lambda x: x * parts[0], lambda: parts.__setitem__(0, 5.0)


@row
def the_last_item_of_a_list():
    parts = [1.0, 2.0]
    return lambda x: x * parts[-1], lambda: parts.append(5.0)


@row
def a_slice_of_a_list():
    parts = [1.0, 2.0]
    return lambda x: x * sum(parts[:2]), lambda: parts.insert(0, 5.0)


@row
def the_length_of_a_list():
    parts = [1.0]
    return lambda x: x * len(parts), lambda: parts.append(5.0)


@row
def whether_a_list_is_empty():
    parts = []
    return lambda x: x + 1 if parts else x - 1, lambda: parts.append(5.0)


@row
def a_list_of_tensors():
    parts = [mt.ones(3)]
    return lambda x: x + mt.stack(parts).sum(0), lambda: parts.append(mt.ones(3))


@row
def a_tensor_of_a_list_replaced():
    parts = [mt.ones(3)]
    return lambda x: x + parts[0], lambda: parts.__setitem__(0, mt.full((3,), 4.0))


@row
def a_loop_over_functions():
    layers = [helper]

    def f(x):
        for layer in layers:
            x = layer(x)
        return x

    return f, lambda: layers.append(helper)


@row
def a_nested_list():
    parts = [[1.0], [2.0]]
    return lambda x: x * parts[1][0], lambda: parts[1].__setitem__(0, 5.0)


@row
def a_list_sorted():
    parts = [3.0, 1.0]
    return lambda x: x * sorted(parts)[0], lambda: parts.append(0.5)


@row
def a_list_unpacked():
    parts = [1.0, 2.0]

    def f(x):
        a, b = parts
        return x * a + b

    return f, lambda: parts.reverse()


@row
def a_list_given_as_arguments():
    parts = [1.0, 2.0]

    def inner(x, a, b):
        return x * a + b

    return lambda x: inner(x, *parts), lambda: parts.reverse()


@row
def a_list_compared():
    parts = [1.0]
    return lambda x: x + 1 if parts == [1.0] else x - 1, lambda: parts.append(1.0)


@row
def a_list_in_a_tensor():
    parts = [1.0, 2.0, 3.0]
    return lambda x: x + mt.tensor(parts), lambda: parts.__setitem__(0, 5.0)


@row
def a_shape_in_a_list():
    shape = [3, 1]
    return lambda x: x.reshape(shape), lambda: shape.reverse()


@row
def a_list_that_it_appends_to():
    parts = []

    def f(x):
        parts.append(1.0)
        return x * len(parts)

    return f, lambda: None


@row
def an_item_of_a_dict():
    table = {"a": 1.0}
    return lambda x: x * table["a"], lambda: table.update(a=5.0)


@row
def a_dict_by_get():
    table = {}
    return lambda x: x * table.get("a", 1.0), lambda: table.update(a=5.0)


@row
def whether_a_dict_has_a_key():
    table = {}
    return lambda x: x + 1 if "a" in table else x - 1, lambda: table.update(a=5.0)


@row
def the_values_of_a_dict():
    table = {"a": 1.0}
    return lambda x: x * sum(table.values()), lambda: table.update(b=5.0)


@row
def the_order_of_a_dict():
    table = {"a": 1.0, "b": 2.0}
    return lambda x: x * next(iter(table.values())), lambda: table.update(a=table.pop("a"))


@row
def a_dict_of_functions():
    table = {"f": helper}
    return lambda x: table["f"](x), lambda: table.update(f=other_helper)


@row
def a_dict_given_as_keywords():
    table = {"by": 1.0}

    def inner(x, by):
        return x * by

    return lambda x: inner(x, **table), lambda: table.update(by=5.0)


@row
def a_default_dict():
    table = collections.defaultdict(lambda: 1.0)

    return lambda x: x * table["a"], lambda: table.update(a=5.0)


@row
def an_ordered_dict():
    table = collections.OrderedDict(a=1.0, b=2.0)
    return lambda x: x * next(iter(table.values())), lambda: table.move_to_end("a")


@row
def a_chain_map():
    table = collections.ChainMap({}, {"a": 1.0})
    return lambda x: x * table["a"], lambda: table.maps[0].update(a=5.0)


@row
def a_dict_that_it_changes():
    table = {"n": 0}

    def f(x):
        table["n"] += 1
        return x * table["n"]

    return f, lambda: None


@row
def a_cache_of_tensors():
    table = {}

    def f(x):
        if "y" not in table:
            table["y"] = x * 2
        return x + table["y"]

    return f, table.clear


@row
def a_set():
    names = {"a"}
    return lambda x: x + 1 if "a" in names else x - 1, names.clear


@row
def the_size_of_a_set():
    names = {"a"}
    return lambda x: x * len(names), lambda: names.add("b")


@row
def a_deque():
    queue = collections.deque([1.0])
    return lambda x: x * queue[0], lambda: queue.appendleft(5.0)


@row
def a_deque_that_it_rotates():
    queue = collections.deque([1.0, 2.0, 3.0])

    def f(x):
        queue.rotate()
        return x * queue[0]

    return f, lambda: None


@row
def a_counter():
    counts = collections.Counter(a=1)
    return lambda x: x * counts["a"], lambda: counts.update(a=3)


@row
def a_bytearray():
    data = bytearray(b"\x01\x02")
    return lambda x: x * data[0], lambda: data.__setitem__(0, 7)


@row
def an_array():
    data = array.array("d", [1.0])
    return lambda x: x * data[0], lambda: data.__setitem__(0, 7.0)


@row
def a_list_of_the_users():
    class Own(list):
        pass

    parts = Own([1.0])
    return lambda x: x * parts[0], lambda: parts.__setitem__(0, 5.0)


@row
def a_users_container():
    class Own:
        def __init__(self):
            self.parts = [1.0]

        def __getitem__(self, i):
            return self.parts[i]

    t = Own()
    return lambda x: x * t[0], lambda: t.parts.__setitem__(0, 5.0)


@pytest.mark.parametrize("jit_compile", [True, None, False])
@pytest.mark.parametrize("name", row)
def test_changed_containers_are_noticed(name, jit_compile):
    row.check(name, jit_compile)
