"""The `out=` form: what is written where, and what is refused."""

import inspect

import numpy as np
import pytest

import minitensor as mt


def test_results_are_written_to_out():
    x, out = mt.tensor([1.0, 4.0, 9.0]), mt.empty(3)
    assert mt.sqrt(x, out=out) is out
    assert out.tolist() == [1, 2, 3]
    assert mt.sum(x, 0, out=mt.empty(())).item() == 14
    product = mt.zeros(2, 2)
    assert mt.matmul(mt.ones(2, 3), mt.ones(3, 2), out=product) is product
    assert product.tolist() == [[3, 3], [3, 3]]
    assert mt.cat([x, x], out=mt.empty(0)).tolist() == [1, 4, 9, 1, 4, 9]


DIRECT = {
    "add": 2, "sub": 2, "mul": 2, "div": 2, "max": 2, "min": 2, "maximum": 2, "lerp": 3, "addcmul": 3, "addcdiv": 3,
    "clamp": 1, "round": 1, "fix": 1, "trunc": 1, "exp": 1, "special.expit": 1,
}  # fmt: skip


@pytest.mark.parametrize("name", DIRECT)
@pytest.mark.parametrize("number", [False, True])
def test_elementwise_results_are_computed_in_out_itself(name, number):
    function = mt.special.expit if name == "special.expit" else getattr(mt, name)
    args = [mt.rand(300_000) for _ in range(DIRECT[name])]
    if number and name in ("add", "sub", "mul", "div", "lerp"):
        args[-1] = 0.25
    args += [0.25, 0.75] if name == "clamp" else []
    wanted, out = function(*args), mt.zeros(300_000)
    at = out.data_ptr()
    mt.reset_peak_memory_stats()
    before = mt.allocator_stats()["allocated_bytes"]
    assert function(*args, out=out) is out
    assert mt.allocator_stats()["peak_allocated_bytes"] - before < out.nbytes
    assert out.data_ptr() == at
    assert mt.equal(out, wanted)
    # other calls of the same function
    if name not in ("round", "fix", "trunc"):
        assert mt.equal(function(*args, out=mt.zeros(300_000, dtype=mt.float64)), wanted.double())
    assert mt.equal(function(*args, out=mt.zeros(0)), wanted)
    assert mt.equal(function(*args, out=args[0]), wanted)


def test_out_is_converted_where_it_can_be():
    assert mt.mul(mt.tensor([2, 3]), 2, out=mt.empty(2, dtype=mt.float64)).tolist() == [4.0, 6.0]
    for out in (mt.empty(2, dtype=mt.int64), mt.empty(2, dtype=mt.bool)):
        with pytest.raises(RuntimeError, match="result type Float can't be cast to the desired output type"):
            mt.exp(mt.ones(2), out=out)


def test_out_is_resized():
    empty = mt.empty(0)
    assert mt.exp(mt.zeros(2, 3), out=empty).shape == (2, 3)
    with pytest.warns(UserWarning, match=r"was resized since it had shape \[4\]"):
        mt.exp(mt.zeros(2), out=mt.empty(4))
    held = np.zeros(2, dtype=np.float32)
    with pytest.raises(RuntimeError, match="not resizable"), pytest.warns(UserWarning, match="resized"):
        mt.exp(mt.zeros(5), out=mt.from_numpy(held))


def test_out_may_alias_the_operands():
    x = mt.arange(6.0)
    mt.add(x[:-1], x[1:], out=x[1:])
    assert x.tolist() == [0, 1, 3, 5, 7, 9]
    y = mt.arange(4.0).reshape(2, 2)
    mt.matmul(y, y, out=y)
    assert y.tolist() == [[2, 3], [6, 11]]
    z = mt.arange(4.0)
    assert mt.mul(z, 2, out=z) is z
    assert z.tolist() == [0, 2, 4, 6]


def test_out_that_is_not_contiguous():
    base = mt.zeros(2, 3)
    mt.exp(mt.zeros(3, 2), out=base.t())
    assert base.tolist() == [[1, 1, 1]] * 2
    mt.matmul(mt.ones(3, 1), mt.ones(1, 2), out=base.t())
    assert base.tolist() == [[1, 1, 1]] * 2
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        mt.exp(mt.zeros(3), out=mt.zeros(1).expand(3))


def test_out_has_no_gradient():
    x = mt.ones(2, requires_grad=True)
    for call in (lambda: mt.exp(x, out=mt.empty(2)), lambda: mt.exp(mt.ones(2), out=x)):
        with pytest.raises(RuntimeError, match=r"exp\(\): functions with out=... arguments don't support automatic"):
            call()
    with mt.no_grad():
        assert mt.exp(x, out=mt.empty(2)).requires_grad is False


def test_wrong_outs():
    with pytest.raises(TypeError, match=r"exp\(\): argument 'out' must be Tensor, not int"):
        mt.exp(mt.ones(2), out=3)
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'out'"):
        mt.ones(2).exp_(out=mt.ones(2))


def test_out_counts_as_a_write():
    x = mt.ones(2)
    before = x._version
    mt.exp(mt.ones(2), out=x)
    mt.sum(mt.ones(2, 2), 0, out=x)
    assert x._version == before + 2


def test_out_recorded():
    def program(out):
        mt.add(mt.arange(4.0), 1, out=out)
        mt.cumsum(out * 2, 0, out=out)
        return out

    expected = program(mt.empty(4)).tolist()
    with mt.jit_scope():
        out = program(mt.empty(4))
    assert out.tolist() == expected == [2, 6, 12, 20]


def test_named_results():
    result = mt.max(mt.tensor([[1.0, 5.0], [7.0, 2.0]]), 1)
    assert type(result) is mt.return_types.max
    assert (result.values.tolist(), result[1].tolist()) == ([5, 7], [1, 0])
    assert repr(mt.max(mt.ones(1), 0)) == "minitensor.return_types.max(\nvalues=tensor(1.),\nindices=tensor(0))"
    values, indices = result
    assert values is result.values
    assert indices is result.indices


def test_chain_matmul_stores_a_single_matrix():
    x, out = mt.ones(2, 2), mt.zeros(2, 2)
    assert mt.chain_matmul(x, out=out) is out
    assert out.tolist() == x.tolist()


def test_one_value_may_go_to_an_expanded_out():
    out = mt.empty(1, 3).expand(2, 3)
    assert mt.ones(2, 3, out=out) is out
    assert out.tolist() == [[1, 1, 1]] * 2
    assert mt.full((2, 3), 7, out=out).tolist() == [[7, 7, 7]] * 2
    assert mt.zeros(2, 3, out=out).tolist() == [[0, 0, 0]] * 2
    with mt.jit_scope():
        assert mt.ones(2, 3, out=out).tolist() == [[1, 1, 1]] * 2
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        mt.ones(2, 3, out=mt.empty(4).as_strided((2, 3), (1, 1)))


def test_signatures_of_what_takes_out():
    signature = inspect.signature(mt.expand_copy)
    assert signature.parameters["out"].kind is inspect.Parameter.KEYWORD_ONLY


def sorted_to(x, values, places):
    return mt.sort(x, out=(values, places))


REFUSED = {
    "places of another dtype": lambda x: (sorted_to, [x, mt.zeros(3), mt.zeros(3, dtype=mt.int32)]),
    "values of another dtype": lambda x: (sorted_to, [x, mt.zeros(3, dtype=mt.float64), mt.zeros(3, dtype=mt.int64)]),
    "places shown twice": lambda x: (sorted_to, [x, mt.zeros(3), mt.zeros(1, dtype=mt.int64).expand(3)]),
    "argmax": lambda x: (lambda x, out: mt.argmax(x, out=out), [x, mt.zeros(7, dtype=mt.int32)]),
    "matmul": lambda x: (lambda x, out: mt.matmul(x, x, out=out), [x, mt.zeros(7, dtype=mt.float64)]),
    "isneginf": lambda x: (lambda x, out: mt.isneginf(x, out=out), [x, mt.zeros(3)]),
    "a row shown twice": lambda x: (
        lambda x, out: mt.add(x, 1, out=out),
        [x.expand(2, 3), mt.zeros(1, 3).expand(2, 3)],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_refused_was_not_written(name, compiled):
    call, args = REFUSED[name](mt.tensor([3.0, 1.0, 2.0]))
    shapes = [t.shape for t in args]
    with pytest.raises(RuntimeError, match=r"Expected out tensor to have dtype|single memory location"):
        (mt.function(call) if compiled else call)(*args)
    for out, shape in zip(args[1:], shapes[1:], strict=True):
        assert out.shape == shape
        assert not out.any()


@pytest.mark.parametrize("function", [mt.isfinite, mt.count_nonzero, mt.var_mean, mt.argsort, mt.argwhere])
def test_functions_without_out(function):
    with pytest.raises(TypeError):
        function(mt.ones(3), out=mt.zeros(3, dtype=mt.int64))
    assert mt.argsort(mt.tensor([2, 1]), stable=True, out=mt.zeros(2, dtype=mt.int64)).tolist() == [1, 0]
