"""What all tensors have, replaced between the calls of a recorded function that reads it."""

import pytest

import minitensor as mt

T = mt.ones(3)
REPLACED = {
    "method": ("cos", lambda self: self * 0 + 9, lambda x: x.cos() + 1),
    "method of what is made": ("cos", lambda self: self * 0 + 9, lambda x: (x + 1).cos()),
    "method in place": ("__iadd__", lambda self, other: self * 0 + 9, lambda x: x.clone().__iadd__(2)),
    "property": ("shape", property(lambda self: (7,)), lambda x: x * x.shape[0]),
    "new attribute": ("a_name", 5, lambda x: x * (2 if hasattr(x, "a_name") else 3)),
    "new attribute of one from outside": ("a_name", 5, lambda x: x * getattr(T, "a_name", 2)),
}


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}], ids=["plain", "compiled"])
@pytest.mark.parametrize("way", REPLACED)
def test_what_all_tensors_have_may_be_replaced(way, options, monkeypatch):
    name, new, plain = REPLACED[way]
    recorded = mt.function(plain, **options)
    x = mt.ones(3)
    before = plain(x)
    for _ in range(2):
        for _ in range(3):
            assert mt.equal(recorded(x), before)
        with monkeypatch.context() as patch:
            patch.setattr(mt.Tensor, name, new, raising=False)
            results = [plain(x), recorded(x), recorded(x)]
        assert not mt.equal(results[0], before)
        assert all(mt.equal(result, results[0]) for result in results)


def test_an_operator_of_all_tensors_is_found_again_after_clear(monkeypatch):
    recorded = mt.function(lambda x: x + 1, jit_compile=True)
    x = mt.ones(3)
    for _ in range(3):
        assert recorded(x).tolist() == [2.0, 2.0, 2.0]
    with monkeypatch.context() as patch:
        patch.setattr(mt.Tensor, "__add__", lambda self, other: self * 9)
        recorded.clear()
        assert recorded(x).tolist() == [9.0, 9.0, 9.0]
    recorded.clear()
    assert recorded(x).tolist() == [2.0, 2.0, 2.0]
