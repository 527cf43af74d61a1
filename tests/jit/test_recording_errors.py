"""Errors of what was recorded: at once, or with the line that they are of when it runs."""

import pytest
from recording import recorded

import minitensor as mt

# ---- errors


def test_shape_errors_come_at_once():
    with recorded():
        x = mt.ones(3)
        with pytest.raises(RuntimeError, match="must match the size"):
            x + mt.ones(4)
        y = x + 1
    assert y.tolist() == [2, 2, 2]


def division(x):
    return x // mt.zeros(3, dtype=mt.int64)  # the line that fails


def selection(x):
    return mt.ones(3).index_select(0, x + 10)  # the line that fails


def embedding(x):
    i = mt.tensor([5])
    return mt.ones(3).index_select(0, i)  # the line that fails


def target(x):
    return mt.nn.functional.cross_entropy(mt.ones(3, 3), mt.tensor([0, 1, 7]))  # the line that fails


@pytest.mark.parametrize(
    ("call", "error", "op"),
    [
        (division, ZeroDivisionError, "floor_divide"),
        (selection, IndexError, "index_select"),
        (embedding, IndexError, "index_select"),
        (target, IndexError, "nll_loss_mean"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"min_cluster_size": 100}], ids=str)
def test_errors_name_the_line(call, error, op, options):
    with recorded(**options):
        y = call(mt.arange(3))
        z = y + 1
        with pytest.raises(error) as caught:
            z.tolist()
        note = "\n".join(caught.value.__notes__)
        assert f"'{op}'" in note
        with open(__file__) as file:
            assert "the line that fails" in file.readlines()[int(note.rsplit(":", 1)[1]) - 1]
        # What could not be computed says so; it is never memory that nobody wrote.
        for t in (y, z):
            with pytest.raises(RuntimeError, match="never computed"):
                t.tolist()
        assert (mt.ones(2) + 1).tolist() == [2, 2]


def test_values_of_a_failed_run_raise_everywhere():
    bad = None
    with pytest.raises(ZeroDivisionError), recorded():
        bad = mt.ones(2, dtype=mt.int64) // mt.zeros(2, dtype=mt.int64)
    for use in (
        repr,
        lambda t: t + 1,
        lambda t: t.add_(1),
        lambda t: t.numpy(),
        lambda t: t[0].item(),
        lambda t: t.sum(),
    ):
        with pytest.raises(RuntimeError, match="never computed"):
            use(bad)
    with pytest.raises(RuntimeError, match="never computed"), recorded():  # noqa: PT012
        kept = bad + 1
        kept.tolist()


def test_an_exception_inside_a_scope():
    for scope in (mt.jit_scope, recorded):
        with pytest.raises(KeyError), scope():  # noqa: PT012
            x = mt.ones(3) * 2
            raise KeyError
        assert x.tolist() == [2, 2, 2]
        assert not mt._C.is_recording()


def test_an_exception_hides_the_failure_of_the_flush():
    with pytest.raises(KeyError), mt.jit_scope():  # noqa: PT012
        x = mt.ones(2, dtype=mt.int64) // mt.zeros(2, dtype=mt.int64)
        raise KeyError
    with pytest.raises(RuntimeError, match="never computed"):
        x.tolist()
