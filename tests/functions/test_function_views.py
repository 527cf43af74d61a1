"""Views that a recorded function returns: each call's own, and which counts of versions they share."""

import pytest

import minitensor as mt

options = pytest.mark.parametrize("options", [{}, {"jit_compile": True}], ids=["plain", "compiled"])

WAYS = {
    "part": lambda t: t[1:],
    "detach": lambda t: t.detach(),
    "data": lambda t: t.data,
    "shape": lambda t: t.view(2, 3),
    "leaf": lambda t: t.detach().requires_grad_(),
}


@pytest.mark.parametrize("way", WAYS)
@options
def test_a_view_of_a_tensor_from_outside_is_a_new_one_in_each_call(way, options):
    t = mt.arange(6.0)
    recorded = mt.function(lambda x: (x + 1, WAYS[way](t)), **options)
    kept = []
    for k in range(6):
        view = recorded(mt.ones(3))[1]
        assert all(view is not one for one in kept)
        kept.append(view)
        assert not hasattr(view, "tag")
        assert view.shape == WAYS[way](t).shape
        assert view.requires_grad == (way == "leaf")
        assert view.data_ptr() - t.data_ptr() == (4 if way == "part" else 0)
        assert (view._base is t) == (way in ("part", "shape"))
        version = t._version
        with mt.no_grad():
            view.add_(1)
        assert t._version - version == (0 if way == "data" else 1)
        assert t[5].item() == 6.0 + k
        view.tag = k
        if view.requires_grad:
            assert view.grad is None
            view.sum().backward()
        view.unsqueeze_(0) if way == "detach" else view.requires_grad_()


@options
def test_views_share_the_count_of_versions_of_a_tensor_from_outside(options):
    t = mt.ones(4).data  # which has a count of its own
    recorded = mt.function(lambda x: (x + 1, t[1:]), **options)
    for k in range(5):
        recorded(mt.ones(3))[1].add_(1)
        assert t._version == k + 1


@options
def test_arguments_with_a_count_of_versions_of_their_own_are_told_from_others(options):
    def plain(x):
        return x[1:], x.detach(), x * 2

    recorded = mt.function(plain, **options)
    for make in [lambda: mt.ones(4).data, lambda: mt.ones(4), lambda: mt.ones(5).data[1:], lambda: mt.ones(4)] * 2:
        found = []
        for function in (plain, recorded, recorded):
            x = make()
            part, detached, _ = function(x)
            part.add_(1)
            detached.mul_(2)
            found.append((x._version, part._version, detached._version, x.tolist()))
        assert found[0] == found[1] == found[2]


@options
def test_data_of_what_a_function_makes_counts_by_itself_from_zero(options):
    weight = mt.ones(3, requires_grad=True)

    def plain(x):
        y = (x * weight).exp()
        return y, y.data, x * 2, (x * 2).data

    recorded = mt.function(plain, **options)
    for _ in range(5):
        y, data, *_, other = recorded(mt.ones(3))
        data.zero_()
        other.zero_()
        assert (y._version, data._version, other._version) == (0, 1, 1)
        y.sum().backward()  # nothing was written, as far as it counts
