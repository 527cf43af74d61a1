"""`testing.make_tensor`: of every dtype, with numbers of the range that was asked for; also in PyTorch, where it is."""

import pytest

import minitensor as mt

FLOATING = ["float16", "bfloat16", "float32", "float64"]
SIGNED = ["int8", "int16", "int32", "int64"]


@pytest.fixture(params=["minitensor", "torch"])
def lib(request):
    return pytest.importorskip(request.param)


def numbers(x):
    """All of a tensor's real numbers, in Python."""
    flat = x.reshape(-1).tolist()
    return [part for z in flat for part in (z.real, z.imag)] if x.dtype.is_complex else flat


@pytest.mark.parametrize("name", [*FLOATING, "complex64", "complex128", *SIGNED, "uint8", "bool"])
def test_ranges(lib, name):
    dtype = getattr(lib, name)

    def make(**more):
        x = lib.testing.make_tensor(50, 40, dtype=dtype, device="cpu", **more)
        assert x.dtype is dtype
        assert tuple(x.shape) == (50, 40)
        return numbers(x)

    found = make()
    assert len(set(found)) > (1 if name == "bool" else 9)
    if name == "bool":
        assert set(found) == {False, True}
        return
    if name in SIGNED or name == "uint8":
        assert set(found) == set(range(0 if name == "uint8" else -9, 10))
        assert set(make(low=3, high=6)) == {3, 4, 5}
        assert set(make(low=0, high=2, exclude_zero=True)) == {1}
        return
    # Of 2,000 numbers some are near both ends.
    assert -9 <= min(found) < -8 < 8 < max(found) <= 9
    found = make(low=2, high=3)
    assert 2 <= min(found) < 2.1 < 2.9 < max(found) <= 3
    found = make(low=-0.5)
    assert -0.5 <= min(found) < 0 < 8 < max(found) <= 9


@pytest.mark.parametrize("name", [*FLOATING, *SIGNED, "uint8", "complex64"])
def test_zeros_are_excluded(name):
    """What is put for one is the smallest number above, for integers 1."""
    dtype = getattr(mt, name)
    x = mt.testing.make_tensor(400, dtype=dtype, low=0, high=2, exclude_zero=True)
    assert not (x == 0).any()
    if dtype.is_floating_point or dtype.is_complex:
        assert all(0 <= z < 2 or z == pytest.approx(2) for z in numbers(x))


def test_forms(lib):
    make = lib.testing.make_tensor
    for shape in ((2, 3), ((2, 3),), ([2, 3],)):
        assert tuple(make(*shape, dtype=lib.float32, device="cpu").shape) == (2, 3)
    assert tuple(make((), dtype=lib.int64, device="cpu").shape) == ()
    assert tuple(make(0, dtype=lib.complex64, device="cpu").shape) == (0,)
    x = make(3, 4, dtype=lib.float64, device="cpu", requires_grad=True, noncontiguous=True)
    assert x.requires_grad
    assert x.is_leaf
    assert not x.is_contiguous()
    assert make(1, dtype=lib.float64, device="cpu", noncontiguous=True).is_contiguous()
    for dtype, low in ((lib.float32, 4), (lib.complex64, 4), (lib.int32, 4), (lib.int32, 3)):
        with pytest.raises(ValueError, match="low"):
            make(2, dtype=dtype, device="cpu", low=low, high=3)
