"""Gradients that don't fit are refused wherever they enter: seeds, hooks, custom functions, `.grad`, `inputs=`."""

import importlib
from typing import Any

import pytest

import minitensor as mt

FRAMEWORKS = ["minitensor", "torch"]


def framework(name: str) -> Any:
    return mt if name == "minitensor" else pytest.importorskip(name)


def edge_of(lib: Any, x: Any) -> Any:
    return importlib.import_module(lib.__name__ + ".autograd.graph").get_gradient_edge(x)


def gradients(lib: Any) -> dict[str, Any]:
    """What hooks and functions may give for the gradient of three float32 numbers."""
    one = lib.ones(3)
    return {
        "none": None,
        "good": one,
        "meta": lib.ones(3, device="meta"),
        "meta number": lib.ones((), device="meta"),
        "double": one.double(),
        "complex": one.to(lib.complex64),
        "ints": one.to(lib.int64),
        "shorter": lib.ones(2),
        "number": lib.ones(()),
        "rows": lib.ones(2, 3),
        "int": 3,
        "str": "a",
        "list": [one],
    }


def run_hook(lib: Any, kind: str, given: Any) -> Any:
    x = lib.ones(3, requires_grad=True)
    y = x * 2
    hook = {
        "tensor": lambda: y.register_hook(lambda g: given),
        "leaf": lambda: x.register_hook(lambda g: given),
        "pre": lambda: y.grad_fn.register_prehook(lambda g: given),
        "post": lambda: y.grad_fn.register_hook(lambda after, before: given),
        "leaf pre": lambda: edge_of(lib, x).node.register_prehook(lambda g: given),
        "leaf post": lambda: edge_of(lib, x).node.register_hook(lambda after, before: given),
    }[kind]
    hook()
    y.sum().backward()
    return None if x.grad is None else x.grad.tolist()


OF_TENSORS = {
    "none": [2.0] * 3, "meta": RuntimeError, "meta number": RuntimeError, "double": RuntimeError,
    "complex": RuntimeError, "ints": RuntimeError, "shorter": RuntimeError, "number": RuntimeError,
    "rows": RuntimeError, "int": TypeError, "str": TypeError, "list": TypeError,
}  # fmt: skip
HOOKS = {
    "tensor": OF_TENSORS | {"good": [2.0] * 3},
    "leaf": OF_TENSORS | {"good": [1.0] * 3},
    # Of nodes: tuples only.
    "pre": dict.fromkeys(OF_TENSORS, TypeError) | {"none": [2.0] * 3, "good": TypeError},
    "leaf pre": dict.fromkeys(OF_TENSORS, TypeError) | {"none": [2.0] * 3, "good": TypeError},
    "post": dict.fromkeys(OF_TENSORS, TypeError) | {"none": [2.0] * 3, "good": TypeError},
    "leaf post": dict.fromkeys(OF_TENSORS, TypeError) | {"none": [2.0] * 3, "good": TypeError},
}


def check(expected: Any, run: Any) -> None:
    if isinstance(expected, type):
        with pytest.raises(expected) as caught:
            run()
        assert type(caught.value) is expected
    else:
        assert run() == expected


@pytest.mark.parametrize("name", FRAMEWORKS)
@pytest.mark.parametrize("kind", HOOKS)
def test_a_hook_gives_none_or_a_gradient_of_the_same_kind(name: str, kind: str) -> None:
    lib = framework(name)
    for what, given in gradients(lib).items():
        check(HOOKS[kind][what], lambda given=given: run_hook(lib, kind, given))


TUPLES = {
    # In the place of one gradient: what is in the tuple is checked like a single one.
    "pre": {"none": None, "good": [2.0] * 3, "meta": RuntimeError, "double": RuntimeError, "shorter": RuntimeError,
            "rows": RuntimeError, "int": TypeError},
    "leaf pre": {"none": None, "good": [1.0] * 3, "meta": RuntimeError, "double": RuntimeError,
                 "shorter": RuntimeError, "rows": RuntimeError, "int": TypeError},
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMEWORKS)
@pytest.mark.parametrize("kind", TUPLES)
def test_a_hook_of_a_node_gives_a_tuple_of_them(name: str, kind: str) -> None:
    lib = framework(name)
    given = gradients(lib)
    for what, expected in TUPLES[kind].items():
        check(expected, lambda what=what: run_hook(lib, kind, (given[what],)))
    for wrong in [(), (given["good"],) * 2]:
        check(RuntimeError, lambda wrong=wrong: run_hook(lib, kind, wrong))
    check([2.0] * 3, lambda: run_hook(lib, "leaf post", ()))  # nobody is sent anything
    check(RuntimeError, lambda: run_hook(lib, "leaf post", (given["good"],)))
    check(RuntimeError, lambda: run_hook(lib, "post", (given["good"],) * 2))  # one of them had none


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_none_in_the_place_of_all_gradients_stops_them(name: str) -> None:
    lib = framework(name)
    x = lib.ones(3, requires_grad=True)
    seen: list[Any] = []
    y = x * 2
    x.register_post_accumulate_grad_hook(seen.append)
    edge_of(lib, x).node.register_prehook(lambda g: (None,))
    y.sum().backward()
    assert x.grad is None
    assert len(seen) == 1  # told all the same


def test_a_hook_does_not_change_the_layout(lib: Any) -> None:
    def sparse(g: Any) -> Any:
        return g.to_sparse()

    x = lib.ones(2, requires_grad=True)
    handle = x.register_hook(sparse)
    with pytest.raises(RuntimeError, match="hook 'sparse' has changed the type of value"):
        (x * 2).sum().backward()
    handle.remove()
    y = x * 2
    y.grad_fn.register_prehook(lambda gradients: (sparse(gradients[0]),))
    with pytest.raises(RuntimeError, match="has changed the type of value"):
        y.sum().backward()
    assert x.grad is None


def test_messages_name_the_hook_and_both_kinds() -> None:
    def careless(g: Any) -> Any:
        return g.double()

    x = mt.ones(3, requires_grad=True)
    x.register_hook(careless)
    message = r"hook 'careless' has changed the type of value \(was float32 on cpu, got float64 on cpu\)"
    with pytest.raises(RuntimeError, match=message):
        x.sum().backward()
    y = mt.ones(3, requires_grad=True)

    class Nameless:
        def __call__(self, g: Any) -> Any:
            return g[:2]

        def __getattr__(self, name: str) -> Any:
            raise ValueError(name)

    y.register_hook(Nameless())
    message = r"hook 'Nameless' has changed the size of value \(was \[3\], got \[2\]\)"
    with pytest.raises(RuntimeError, match=message):
        y.sum().backward()


FUNCTIONS = {
    "none": None, "good": [1.0] * 3, "meta": RuntimeError, "meta number": RuntimeError, "double": [1.0] * 3,
    "complex": RuntimeError, "ints": [1.0] * 3, "shorter": RuntimeError, "number": RuntimeError, "rows": [2.0] * 3,
    "int": RuntimeError, "str": RuntimeError,
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_function_gives_gradients_that_become_those_of_its_inputs(name: str) -> None:
    lib = framework(name)

    class Twice(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return given

    def run() -> Any:
        x = lib.ones(3, requires_grad=True)
        Twice.apply(x).sum().backward()
        return None if x.grad is None else x.grad.tolist()

    for what, expected in FUNCTIONS.items():
        given = gradients(lib)[what]
        check(expected, run)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_larger_gradient_is_summed_to_the_shape_of_the_input(name: str) -> None:
    lib = framework(name)

    class Expanded(lib.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    def run(*shape: int) -> Any:
        x = lib.ones(shape, requires_grad=True)
        Expanded.apply(x).sum().backward()
        return x.grad.tolist()

    assert run(2, 3) == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    assert run(1, 3) == [[5.0, 7.0, 9.0]]
    assert run(2, 1) == [[6.0], [15.0]]
    assert run(3) == [5.0, 7.0, 9.0]
    assert run(1) == [21.0]
    assert run() == 21.0
    for shape in [(1, 2, 3), (3, 3), (2, 2), (2,), (2, 0)]:
        check(RuntimeError, lambda shape=shape: run(*shape))


SEEDS = FUNCTIONS | {
    "none": RuntimeError, "good": [2.0] * 3, "double": [2.0] * 3, "ints": [2.0] * 3, "rows": RuntimeError,
    "int": TypeError, "str": TypeError, "list": [2.0] * 3,
}  # fmt: skip


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_seeds_fit_what_is_differentiated(name: str) -> None:
    lib = framework(name)

    def run() -> Any:
        x = lib.ones(3, requires_grad=True)
        (x * 2).backward(given)
        return x.grad.tolist()

    for what, expected in SEEDS.items():
        given = gradients(lib)[what]
        check(expected, run)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_gradients_on_meta_stay_there(name: str) -> None:
    lib = framework(name)
    x = lib.ones((), requires_grad=True)
    mixed = x * lib.ones(3, device="meta")
    with pytest.raises(NotImplementedError, match="no data"):
        mixed.sum().backward()
    y = lib.ones(3, requires_grad=True)
    with pytest.raises(NotImplementedError, match="no data"):
        y.sum().backward(lib.ones((), device="meta"))
    with pytest.raises(RuntimeError, match="device"):
        y.grad = lib.ones(3, device="meta")
    there = lib.ones(3, device="meta", requires_grad=True)
    with pytest.raises(RuntimeError, match="expected device meta but got cpu"):
        (there * 2).backward(lib.ones(3))
    (there * 2).backward(lib.ones(3, device="meta"))
    assert there.grad.device.type == "meta"
    one = lib.ones((), device="meta", requires_grad=True)
    (one * 2).backward(lib.ones(()))  # a number goes there
    assert one.grad.device.type == "meta"


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_leaf_with_other_data_gets_gradients_of_that(name: str) -> None:
    lib = framework(name)
    x = lib.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    x.grad = None
    x.data = lib.ones(5)
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0] * 5
    y = lib.ones(3, requires_grad=True)
    before = (y * 2).sum()
    y.data = lib.ones(5)
    before.backward()
    assert y.grad.tolist() == [2.0] * 3


# inputs= -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_each_input_gets_a_gradient_of_its_own(name: str) -> None:
    lib = framework(name)
    x, z = lib.ones(3, requires_grad=True), lib.ones(3, requires_grad=True)
    (x + z).sum().backward(inputs=[x, z])
    assert x.grad is not z.grad
    assert x.grad.data_ptr() != z.grad.data_ptr()
    assert x.grad.stride() == (1,)
    assert z.grad.stride() == (1,)
    x.grad.zero_()
    assert z.grad.tolist() == [1.0] * 3
    seed = lib.ones(3)
    for tensor in (x, z):
        tensor.grad = None
    (x + z).backward(seed, inputs=[x, z])
    x.grad.mul_(5)
    assert seed.tolist() == [1.0] * 3
    assert z.grad.tolist() == [1.0] * 3


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_inputs_accumulate_with_all_their_hooks(name: str) -> None:
    lib = framework(name)
    x, other = lib.ones(3, requires_grad=True), lib.ones(3, requires_grad=True)
    order: list[str] = []
    x.register_hook(lambda g: order.append("tensor"))
    x.register_post_accumulate_grad_hook(lambda t: order.append(f"stored {t.grad.tolist()}"))
    node = edge_of(lib, x).node
    node.register_prehook(lambda g: order.append("pre"))
    node.register_hook(lambda after, before: order.append("post"))
    for _ in range(2):
        (x * other).sum().backward(inputs=[x])
    once = ["tensor", "pre", "stored [1.0, 1.0, 1.0]", "post"]
    assert order == [*once, "tensor", "pre", "stored [2.0, 2.0, 2.0]", "post"]
    assert other.grad is None


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_inputs_in_the_middle_keep_their_gradient(name: str) -> None:
    lib = framework(name)
    x = lib.ones(3, requires_grad=True)
    middle = x * 2
    (middle * 3).sum().backward(inputs=middle, retain_graph=True)
    assert middle.grad.tolist() == [3.0] * 3
    assert x.grad is None
    assert middle.retains_grad
    (middle * 5).sum().backward(inputs=[x, middle])
    assert middle.grad.tolist() == [8.0] * 3
    assert x.grad.tolist() == [10.0] * 3
    unused = lib.ones(3, requires_grad=True)
    (unused * 1).sum().backward(inputs=[x, unused])  # x has no part in it, which is no error
    assert unused.grad.tolist() == [1.0] * 3
    with pytest.raises(RuntimeError):
        (x * 2).sum().backward(inputs=[lib.ones(3)])


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_retained_gradient_is_a_copy(name: str) -> None:
    lib = framework(name)
    x = lib.ones(3, requires_grad=True)
    y, z = x * 2, x * 3
    y.retain_grad()
    z.retain_grad()
    seed = lib.ones(3)
    (y + z).backward(seed)
    assert len({y.grad.data_ptr(), z.grad.data_ptr(), seed.data_ptr()}) == 3
    w = x * 2
    w.retain_grad()
    w.sum().backward()
    assert w.grad.stride() == (1,)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_retained_gradients_add_up(name: str) -> None:
    lib = framework(name)
    x = lib.ones(3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.retain_grad()  # once is enough
    for _ in range(2):
        y.sum().backward(retain_graph=True)
    assert y.grad.tolist() == [2.0] * 3


# What the engine adds to, and in which order -----------------------------------------------------------------------


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_nobody_elses_gradients_are_written_to(name: str) -> None:
    """Gradients of parts are added to the whole's in place; but not where somebody else sees that."""
    lib = framework(name)
    x = lib.ones(4, requires_grad=True)
    whole = x * 1
    seed = lib.ones(4)
    part = whole[1:3] * 10
    lib.autograd.backward([whole, part], [seed, lib.ones(2)])
    assert seed.tolist() == [1.0] * 4
    assert x.grad.tolist() == [1.0, 11.0, 11.0, 1.0]

    kept = []
    x = lib.ones(4, requires_grad=True)
    whole = x * 1
    after = whole * 2  # recorded after the part below: its gradient arrives first
    part = whole[1:3]
    after = whole * 2
    after.register_hook(lambda g: kept.append(g))
    late = after * 1
    late.grad_fn.register_hook(lambda sent, given: kept.append(sent[0]))
    (late.sum() + (part * 10).sum()).backward()
    assert [k.tolist() for k in kept] == [[1.0] * 4] * 2
    assert x.grad.tolist() == [2.0, 12.0, 12.0, 2.0]

    # A view of the seed: a handle of its own over the same memory.
    x = lib.ones(4, requires_grad=True)
    whole = x * 1
    part = whole[1:3] * 10
    seed = lib.ones(2, 2)
    lib.autograd.backward([whole.view(2, 2), part], [seed, lib.ones(2)])
    assert seed.tolist() == [[1.0] * 2] * 2
    assert x.grad.tolist() == [1.0, 11.0, 11.0, 1.0]

    # The same gradient goes to two: to the whole itself, and to another who keeps it.
    x = lib.ones(4, requires_grad=True)
    whole = x * 1
    part = whole[1:3] * 10
    twin = whole + 0
    twin.grad_fn.register_hook(lambda sent, given: kept.append(sent[0]))
    del kept[:]
    (twin.sum() + part.sum()).backward()
    assert kept[0].tolist() == [1.0] * 4
    assert x.grad.tolist() == [1.0, 11.0, 11.0, 1.0]


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_nodes_run_latest_first(name: str) -> None:
    lib = framework(name)
    x = lib.ones(2, requires_grad=True)
    order: list[str] = []

    def noted(tensor: Any, label: str) -> Any:
        tensor.register_hook(lambda g: order.append(label))
        return tensor

    first = noted(x * 2, "first")
    second = noted(x * 3, "second")
    third = noted(first * 4, "third")
    fourth = noted(second * 5, "fourth")
    fifth = noted(first * 6, "fifth")
    # All roots are ready at once.
    lib.autograd.backward([third.sum(), fifth.sum(), fourth.sum()])
    assert order == ["fifth", "fourth", "third", "second", "first"]
