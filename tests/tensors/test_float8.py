"""Floats of eight bits: stored, moved and converted, with PyTorch's rounding; hardly computed with."""

import copy
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import minitensor as mt

NAMES = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu")
# Bits of the exponent and of the mantissa, the bias, and the codes that are no numbers, by their magnitudes.
FORMATS = {
    "float8_e4m3fn": (3, 7, {0x7F: np.nan}),
    "float8_e4m3fnuz": (3, 8, {}),
    "float8_e5m2": (2, 15, {0x7C: np.inf, 0x7D: np.nan, 0x7E: np.nan, 0x7F: np.nan}),
    "float8_e5m2fnuz": (2, 16, {}),
}
WIDER = ("float16", "bfloat16", "float32", "float64")


def codes_as(name):
    return mt.arange(256, dtype=mt.uint8).view(getattr(mt, name))


def meaning(name):
    """The number that each code stands for."""
    if name == "float8_e8m0fnu":
        return np.array([*(2.0 ** (code - 127) for code in range(255)), np.nan], np.float32)
    mantissa, bias, special = FORMATS[name]
    values = []
    for code in range(256):
        size = code & 0x7F
        exponent, rest = divmod(size, 1 << mantissa)
        value = (rest + (1 << mantissa if exponent else 0)) * 2.0 ** (max(exponent, 1) - bias - mantissa)
        value = special.get(size, value)
        if name.endswith("uz") and code == 0x80:
            value = np.nan
        values.append(-value if code & 0x80 else value)
    return np.array(values, np.float32)


@pytest.mark.parametrize("name", NAMES)
def test_what_all_codes_mean_and_become(name):
    codes, wanted = codes_as(name), meaning(name)
    np.testing.assert_array_equal(codes.float().numpy(), wanted)
    np.testing.assert_array_equal(codes.double().numpy(), wanted.astype(np.float64))
    numbers = ~np.isnan(wanted)
    for wide in WIDER:
        if wide == "float16" and name == "float8_e8m0fnu":
            continue  # has not all of the numbers
        back = codes.to(getattr(mt, wide)).to(codes.dtype).view(mt.uint8).numpy()
        np.testing.assert_array_equal(back[numbers], np.arange(256)[numbers])
        assert np.isnan(mt.tensor(back).view(codes.dtype).float().numpy()[~numbers]).all()


@pytest.mark.parametrize("name", NAMES[:4])
def test_numbers_between_become_the_nearest_and_the_even_one_of_two(name):
    values = meaning(name)[:0x80]
    values = values[np.isfinite(values)].astype(np.float64)
    middle = (values[:-1] + values[1:]) / 2
    even = np.arange(len(middle)) + np.arange(len(middle)) % 2
    below, above = (
        np.nextafter(middle.astype(np.float32), np.float32(0)),
        np.nextafter(middle.astype(np.float32), np.inf),
    )
    for sign, bit in ((1, 0), (-1, 0x80)):
        for given, wanted in ((middle, even), (below, np.arange(len(middle))), (above, np.arange(1, len(middle) + 1))):
            found = mt.tensor((sign * given).astype(np.float32)).to(getattr(mt, name)).view(mt.uint8).numpy()
            bits = np.where((wanted == 0) & name.endswith("uz"), 0, bit)
            np.testing.assert_array_equal(found, wanted + bits)


def test_what_is_too_large():
    given = mt.tensor([464.0, 480.0, 1e9, float("inf"), -float("inf"), float("nan")])
    assert given.to(mt.float8_e4m3fn).float().tolist()[:5] == [448.0, 448.0, 448.0, 448.0, -448.0]
    assert given.to(mt.float8_e5m2).float().tolist()[:5] == [448.0, 512.0, float("inf"), float("inf"), -float("inf")]
    for name in ("float8_e4m3fnuz", "float8_e5m2fnuz"):
        assert given.to(getattr(mt, name))[2:].view(mt.uint8).tolist() == [0x80] * 4
    assert given.to(mt.float8_e8m0fnu).view(mt.uint8).tolist() == [136, 136, 157, 255, 255, 255]
    with pytest.raises(RuntimeError, match=r"cannot be converted to type c10::Float8_e4m3fn without overflow"):
        mt.full((2,), 1e9, dtype=mt.float8_e4m3fn)


@pytest.mark.torch
@pytest.mark.parametrize("name", NAMES)
def test_conversions_against_pytorch(name):
    torch = pytest.importorskip("torch")
    theirs = getattr(torch, name)
    bits = torch.arange(-(1 << 31), 1 << 31, 4099, dtype=torch.int64).to(torch.int32)
    near = torch.arange(256, dtype=torch.uint8).view(theirs).float().view(torch.int32)
    single = torch.cat([bits, *(near + n for n in (-1, 0, 1, 1 << 18, 1 << 19, 1 << 20))]).view(torch.float32)
    wanted = single.to(theirs).view(torch.uint8).numpy()
    found = mt.from_numpy(single.numpy()).to(getattr(mt, name)).view(mt.uint8).numpy()
    np.testing.assert_array_equal(found, wanted)
    for kind in ("float64", "float16", "bfloat16", "int32", "int64", "bool", "uint8"):
        given = single.to(getattr(torch, kind))
        mine = mt.from_numpy(single.numpy()).to(getattr(mt, kind))
        ours = mine.to(getattr(mt, name)).view(mt.uint8).numpy()
        same = given.double().numpy() == mine.double().numpy()  # not integers out of range, or the sign of NaN
        np.testing.assert_array_equal(ours[same], given.to(theirs).view(torch.uint8).numpy()[same])
    for kind in ("float64", "float32", "float16", "bfloat16", "int32", "bool", "complex64"):
        of_codes = torch.arange(256, dtype=torch.uint8).view(theirs)
        finite = of_codes.float().abs() < 2**31
        expected = of_codes[finite].to(getattr(torch, kind))
        ours = mt.from_numpy(of_codes[finite].view(torch.uint8).numpy()).view(getattr(mt, name)).to(getattr(mt, kind))
        wide = "complex128" if kind == "complex64" else "float64"
        np.testing.assert_array_equal(ours.to(getattr(mt, wide)).numpy(), expected.to(getattr(torch, wide)).numpy())


@pytest.mark.parametrize("name", NAMES)
def test_what_moves_and_makes_elements(name):
    dtype = getattr(mt, name)
    numbers = [[1.0, 2.0], [4.0, 0.5]]
    x = mt.tensor(numbers, dtype=dtype)
    first = mt.tensor([1, 0])
    assert x.dtype is dtype
    assert x.dtype.itemsize == x.element_size() == 1
    assert x.tolist() == x.clone().tolist() == numbers
    assert x.t().contiguous().tolist() == [[1.0, 4.0], [2.0, 0.5]]
    assert mt.cat([x, x]).shape == mt.stack([x, x]).view(4, 2).shape == (4, 2)
    assert x[first].tolist() == x.index_select(0, first).tolist() == x.flip(0).tolist() == numbers[::-1]
    assert x[x.float() > 1].tolist() == [2.0, 4.0]
    assert mt.where(x.float() > 1, x, x[0, 0]).tolist() == [[1.0, 2.0], [4.0, 1.0]]
    assert mt.nn.functional.embedding(first, x).tolist() == numbers[::-1]
    assert (x == x).all()
    assert not x.isnan().any()
    written = x.clone()
    written[0], written[first[1:], 1] = 8.0, mt.tensor([2.0], dtype=dtype)
    assert written.tolist() == [[8.0, 2.0], [4.0, 0.5]]
    assert written.copy_(mt.ones(2, 2)).tolist() == mt.ones(2, 2, dtype=dtype).tolist() == [[1.0, 1.0]] * 2
    assert mt.full_like(x, 2).tolist() == [[2.0, 2.0]] * 2
    assert (x[1, 1].item(), float(x[1, 1]), bool(x[0, 0])) == (0.5, 0.5, True)
    assert f"dtype=minitensor.{name})" in repr(x)
    for copied in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), pickle.loads(pickle.dumps(x.t())).t()):
        assert (copied.dtype, copied.tolist()) == (dtype, numbers)
    assert mt.from_dlpack(x).dtype is dtype
    assert x.to("meta").dtype is dtype


@pytest.mark.parametrize("name", NAMES)
def test_files(name, tmp_path):
    x = mt.tensor([1.0, 2.0, 0.5], dtype=getattr(mt, name))
    mt.save({"x": x}, tmp_path / "x.pt")
    loaded = mt.load(tmp_path / "x.pt")["x"]
    assert (loaded.dtype, loaded.tolist()) == (x.dtype, [1.0, 2.0, 0.5])


def test_what_is_refused():
    x = mt.ones(2, dtype=mt.float8_e4m3fn)
    for call in (
        lambda: x + x, lambda: x * 2, lambda: -x, lambda: x.sum(), lambda: x @ x, lambda: x.exp(), lambda: x.clamp(0),
        lambda: x.sort(), lambda: x.add_(1), lambda: mt.rand(2, dtype=mt.float8_e4m3fn), lambda: mt.nan_to_num(x),
        lambda: mt.arange(3, dtype=mt.float8_e5m2), lambda: mt.linalg.inv(x.expand(2, 2)),
    ):  # fmt: skip
        with pytest.raises((NotImplementedError, RuntimeError), match=r"not implemented for|Low precision dtypes"):
            call()
    for other in (mt.float32, mt.int64, mt.float8_e5m2):
        with pytest.raises(RuntimeError, match=r"Promotion for Float8 Types is not supported, attempted to promote "):
            mt.promote_types(mt.float8_e4m3fn, other)
    assert mt.promote_types(x.dtype, x.dtype) is mt.result_type(x, 1.0) is x.dtype
    with pytest.raises(RuntimeError, match="Unknown Complex ScalarType for Float8_e4m3fn"):
        x.dtype.to_complex()
    with pytest.raises(TypeError, match="Got unsupported ScalarType Float8_e4m3fn"):
        x.numpy()
    with pytest.raises(TypeError, match="only floating-point types"):
        mt.set_default_dtype(mt.float8_e5m2)


def test_recorded_programs_convert_at_once():
    x = mt.linspace(-500, 500, 101)

    def rounded(x):
        return (x * 2).to(mt.float8_e5m2).to(mt.float32) + 1

    wanted = rounded(x).tolist()
    assert mt.function(rounded)(x).tolist() == wanted
    with mt.jit.options(auto_jit=2, cpu_global_jit=True), mt.jit.jit_scope():
        assert rounded(x).tolist() == wanted
    with pytest.raises(mt.InvalidArgumentError, match="floats of eight bits"):
        mt.function(rounded, jit_compile=True)(x)


def test_gradients_go_through_conversions():
    x = mt.tensor([1.3, 2.6]).requires_grad_()
    (x.to(mt.float8_e4m3fn).float() * mt.tensor([2.0, 3.0])).sum().backward()
    assert x.grad.tolist() == [2.0, 3.0]


def test_calls_look_for_them_once_one_is_used():
    """What a program pays that has none is a load and a branch."""
    code = """
        import minitensor as mt
        from minitensor import _C
        assert repr(mt.float8_e5m2) == "minitensor.float8_e5m2" and mt.float8_e5m2.itemsize == 1
        assert not _C.asks_for_float8()
        mt.ones(2, dtype=mt.float8_e5m2)
        assert _C.asks_for_float8()
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
