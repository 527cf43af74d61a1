"""Every dtype: what is stored and computed, how types combine, and the ways in and out. Against NumPy."""

import copy
import pickle
import warnings

import numpy as np
import pytest

import minitensor as mt

INTEGERS = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
COMPLEX = ("complex64", "complex128")
ALL = ("bool", *INTEGERS, *FLOATS, *COMPLEX)
NUMPY = tuple(name for name in ALL if name != "bfloat16")


def dtype(name):
    return getattr(mt, name)


def numbers(name):
    """Numbers with the type's extremes."""
    rng = np.random.default_rng(len(name))
    if name == "bool":
        return rng.random(67) < 0.5
    if name in INTEGERS:
        info = np.iinfo(name)
        x = rng.integers(max(int(info.min), -100), 100, 67).astype(name)
        x[:4] = [info.min, info.max, 0, 1]
        return x
    x = rng.normal(size=67) * 10
    x[:8] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 0.5, -2.0]
    if name in COMPLEX:
        x = x + 1j * rng.normal(size=67)
    return x.astype(name)


# ---- names and properties


def test_names():
    assert (mt.half, mt.float, mt.double, mt.cfloat, mt.cdouble) == (
        mt.float16, mt.float32, mt.float64, mt.complex64, mt.complex128,
    )  # fmt: skip
    assert (mt.short, mt.int, mt.long) == (mt.int16, mt.int32, mt.int64)
    for name in ALL:
        assert repr(dtype(name)) == f"minitensor.{name}"
        assert pickle.loads(pickle.dumps(dtype(name))) is dtype(name)
        assert copy.deepcopy(dtype(name)) is dtype(name)


@pytest.mark.parametrize("name", NUMPY)
def test_properties(name):
    kind = np.dtype(name)
    t = dtype(name)
    assert t.itemsize == kind.itemsize
    assert t.is_floating_point == (kind.kind == "f")
    assert t.is_complex == (kind.kind == "c")
    assert t.is_signed == (kind.kind in "ifc")
    x = mt.zeros(3, dtype=t)
    assert (x.element_size(), x.itemsize, x.nbytes) == (kind.itemsize, kind.itemsize, 3 * kind.itemsize)
    assert (x.is_floating_point(), x.is_complex(), x.is_signed()) == (t.is_floating_point, t.is_complex, t.is_signed)
    assert (mt.is_floating_point(x), mt.is_complex(x)) == (t.is_floating_point, t.is_complex)


def test_real_and_complex_types():
    assert mt.complex64.to_real() is mt.float32
    assert mt.complex128.to_real() is mt.float64
    assert mt.float32.to_complex() is mt.complex64
    assert mt.float64.to_complex() is mt.complex128
    assert mt.int8.to_real() is mt.int8
    with pytest.raises(RuntimeError, match="Unknown Complex ScalarType for Char"):
        mt.int8.to_complex()


def test_limits():
    for name in INTEGERS:
        ours, numpys = mt.iinfo(dtype(name)), np.iinfo(name)
        assert (ours.min, ours.max, ours.bits, ours.dtype) == (numpys.min, numpys.max, numpys.bits, name)
    for name in ("float16", "float32", "float64"):
        ours, numpys = mt.finfo(dtype(name)), np.finfo(name)
        assert (ours.min, ours.max, ours.eps, ours.bits) == (numpys.min, numpys.max, numpys.eps, numpys.bits)
        assert (ours.tiny, ours.smallest_normal) == (numpys.tiny, numpys.tiny)
    assert mt.finfo() == mt.finfo(mt.float32) == mt.finfo(mt.complex64) != mt.finfo(mt.float64)
    assert repr(mt.finfo(mt.bfloat16)) == (
        "finfo(resolution=0.01, min=-3.38953e+38, max=3.38953e+38, eps=0.0078125, smallest_normal=1.17549e-38, "
        "tiny=1.17549e-38, dtype=bfloat16)"
    )
    assert repr(mt.iinfo(mt.uint64)) == "iinfo(min=0, max=1.84467e+19, dtype=uint64)"
    for wrong, message in (
        (lambda: mt.finfo(mt.int8), "requires a floating point input type"),
        (lambda: mt.iinfo(mt.float32), "requires an integer input type"),
        (lambda: mt.iinfo(mt.bool), "minitensor.bool is not supported by minitensor.iinfo"),
        (lambda: mt.finfo("float32"), "must be minitensor.dtype, not str"),
    ):
        with pytest.raises(TypeError, match=message):
            wrong()


# ---- promotion

LONELY = ("uint16", "uint32", "uint64")


@pytest.mark.parametrize("first", ALL)
def test_promotion(first):
    for second in ALL:
        a, b = dtype(first), dtype(second)
        if first != second and {first, second} & set(LONELY) and not {first, second} & set(FLOATS):
            with pytest.raises(RuntimeError, match="Promotion for uint16, uint32, uint64 types is not supported"):
                mt.promote_types(a, b)
            continue
        got = mt.promote_types(a, b)
        assert got is mt.promote_types(b, a)
        if {first, second} & {"bfloat16"}:
            others = {first, second} - {"bfloat16"}
            floating = others & {"float16", "float32", "float64"}
            if others <= set(COMPLEX) and others:
                assert got is dtype(others.pop())
            else:
                assert got is (
                    mt.float32
                    if floating == {"float16"}
                    else dtype(floating.pop())
                    if floating
                    else a
                    if a is mt.bfloat16
                    else b
                )
        elif {first, second} & {*FLOATS, *COMPLEX} and {first, second} & set(INTEGERS):
            # Unlike NumPy's, integers don't widen a floating-point type.
            assert got is (a if second in INTEGERS else b)
        else:
            expected = np.promote_types(first, second)
            assert got.name == (
                "complex64"
                if expected == "complex128" and {first, second} == {"float16", "complex64"}
                else expected.name
            )


def test_tensors_without_dimensions_and_numbers_only_bring_a_category():
    def result(a, b):
        return mt.result_type(a, b).name

    x = mt.ones(2, dtype=mt.float16)
    assert result(x, mt.tensor(1.0, dtype=mt.float64)) == "float16"
    assert result(x, 2.5) == "float16"
    assert result(mt.ones(2, dtype=mt.int8), 300) == "int8"
    assert result(mt.ones(2, dtype=mt.int8), 2.5) == "float32"
    assert result(mt.ones(2, dtype=mt.float64), 1j) == "complex128"
    assert result(mt.ones(2, dtype=mt.bfloat16), mt.tensor(1j, dtype=mt.complex128)) == "complex64"
    assert result(mt.ones(2, dtype=mt.uint16), True) == "uint16"
    assert result(mt.ones(2, dtype=mt.int64), mt.tensor(1, dtype=mt.uint16)) == "int64"
    assert (mt.result_type(1, 2.0), mt.result_type(1j, 2)) == (mt.float32, mt.complex64)
    with pytest.raises(RuntimeError, match="attempted to promote Bool and UInt16"):
        mt.result_type(mt.ones(2, dtype=mt.bool), mt.tensor(1, dtype=mt.uint16))
    with pytest.raises(TypeError, match="Tensors or Numbers"):
        mt.result_type("x", 1)


def test_can_cast():
    assert mt.can_cast(mt.float64, mt.float32)
    assert mt.can_cast(mt.int64, mt.uint8)
    assert mt.can_cast(mt.bool, mt.int8)
    assert not mt.can_cast(mt.float32, mt.int32)
    assert not mt.can_cast(mt.complex64, mt.float64)


# ---- conversion


@pytest.mark.parametrize("source", NUMPY)
def test_conversion(source):
    x = numbers(source)
    for target in NUMPY:
        if source in (*FLOATS, *COMPLEX) and target in INTEGERS:
            continue  # of what does not fit, see below
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            got = mt.tensor(x).to(dtype(target)).numpy()
            expected = x.astype(target)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected, err_msg=f"{source} to {target}")


def test_floats_that_do_not_fit_an_integer():
    x = mt.tensor([1.9, -1.9, 300.0, -300.0, 70000.0, 3e9, -3e9, np.inf, np.nan], dtype=mt.float64)
    assert x.to(mt.int8).tolist() == [1, -1, 44, -44, 112, 0, 0, 0, 0]
    assert x.to(mt.uint8).tolist() == [1, 255, 44, 212, 112, 0, 0, 0, 0]
    assert x.to(mt.int16).tolist() == [1, -1, 300, -300, 4464, 0, 0, 0, 0]
    assert x.to(mt.uint16).tolist() == [1, 65535, 300, 65236, 4464, 0, 0, 0, 0]
    assert x.to(mt.int32).tolist()[5:] == [-(2**31)] * 4
    assert x.to(mt.uint32).tolist()[:6] == [1, 2**32 - 1, 300, 2**32 - 300, 70000, 3 * 10**9]
    assert x.to(mt.int64).tolist()[5:] == [3 * 10**9, -3 * 10**9, -(2**63), -(2**63)]
    assert mt.tensor([1e19, -1.0]).to(mt.uint64).tolist() == [9999999980506447872, 2**64 - 1]
    for number in (2.0**63, 2.0**63 + 4096, 2.0**64 - 2048, 2.0**62, 3.0):
        assert mt.full((2,), number, dtype=mt.uint64).tolist() == [int(number)] * 2
        assert mt.zeros(2, dtype=mt.uint64).fill_(number).tolist() == [int(number)] * 2
        padded = mt.nn.functional.pad(mt.tensor([1], dtype=mt.uint64), (1, 1), value=number)
        assert padded.tolist() == [int(number), 1, int(number)]


def bfloat16_bits(x):
    """Round to nearest even, from the definition."""
    bits = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded)


def test_bfloat16_rounds_to_nearest_even():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2**32, 20000, dtype=np.uint32).view(np.float32)
    got = mt.tensor(x).to(mt.bfloat16)
    np.testing.assert_array_equal(got.view(mt.uint16).numpy(), bfloat16_bits(x))
    bits = np.arange(2**16, dtype=np.uint16)
    back = mt.tensor(bits).view(mt.bfloat16).to(mt.float32).numpy()
    np.testing.assert_array_equal(back.view(np.uint32), bits.astype(np.uint32) << 16)


def test_float16_rounds_to_nearest_even():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2**32, 20000, dtype=np.uint32).view(np.float32)
    x = np.concatenate([x, (rng.normal(size=20000) * 10.0 ** rng.integers(-9, 6, 20000)).astype(np.float32)])
    got = mt.tensor(x).to(mt.float16).numpy()
    with np.errstate(all="ignore"):
        expected = x.astype(np.float16)
    nan = np.isnan(x)
    np.testing.assert_array_equal(got.view(np.uint16)[~nan], expected.view(np.uint16)[~nan])
    assert np.isnan(got[nan]).all()
    # One element at a time takes the path without vector instructions.
    for i in range(0, 40000, 97):
        assert mt.tensor(x[i : i + 1]).to(mt.float16).view(mt.int16).item() == got[i : i + 1].view(np.int16)[0]
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    back = mt.tensor(halves).to(mt.float32).numpy()
    np.testing.assert_array_equal(back, halves.astype(np.float32))


def test_losing_the_imaginary_part_is_said():
    z = mt.tensor([1 + 2j])
    with pytest.warns(UserWarning, match="Casting complex values to real discards the imaginary part"):
        assert z.to(mt.float32).tolist() == [1.0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert z.bool().tolist() == [True]
        assert z.cdouble().dtype is mt.complex128


def test_methods_of_conversion():
    x = mt.tensor([1.5])
    for method, name in {
        "half": "float16", "bfloat16": "bfloat16", "float": "float32", "double": "float64", "char": "int8",
        "byte": "uint8", "short": "int16", "int": "int32", "long": "int64", "bool": "bool", "cfloat": "complex64",
        "cdouble": "complex128",
    }.items():  # fmt: skip
        assert getattr(x, method)().dtype is dtype(name)
    assert x.half().type() == "minitensor.HalfTensor"
    assert x.type("minitensor.ShortTensor").dtype is mt.int16
    assert x.type_as(mt.ones(1, dtype=mt.uint32)).dtype is mt.uint32
    assert x.to(complex).dtype is mt.complex64
    with pytest.raises(ValueError, match="invalid type: 'FloatTensor'"):
        x.type("FloatTensor")


# ---- arithmetic


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_wrap(name):
    x = numbers(name)
    y = np.roll(x, 5)
    a, b = mt.tensor(x), mt.tensor(y)
    with np.errstate(all="ignore"):
        for ours, expected in (
            (a + b, x + y),
            (a - b, x - y),
            (a * b, x * y),
            (-a, -x),
            (a.bitwise_not(), ~x),
            (a & b, x & y),
            (mt.maximum(a, b), np.maximum(x, y)),
            (a < b, x < y),
            (a == b, x == y),
            (a.sum(), x.sum(dtype=np.int64 if name != "uint64" else np.uint64).astype(np.int64)),
            (a.amax(), x.max()),
            (a.amin(), x.min()),
            (a.sort()[0], np.sort(x)),
            (a.argmax(), x.argmax()),
        ):
            np.testing.assert_array_equal(ours.numpy(), expected)
        divisor = np.where(y == 0, np.array(1, name), y)
        np.testing.assert_array_equal((a // mt.tensor(divisor)).numpy(), x // divisor)
        np.testing.assert_array_equal((a % mt.tensor(divisor)).numpy(), x % divisor)


def same_bits(a, b):
    return a.dtype is b.dtype and (a.view(mt.int16) == b.view(mt.int16)).all().item()


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision_is_float32_rounded_once(name):
    t = dtype(name)
    rng = np.random.default_rng(1)
    x = mt.tensor(rng.normal(size=(33, 70)).astype(np.float32)).to(t)
    y = mt.tensor(rng.uniform(0.5, 2, size=(33, 70)).astype(np.float32)).to(t)
    wide_x, wide_y = x.float(), y.float()
    for op in ("add", "sub", "mul", "div", "maximum", "pow", "remainder"):
        a, b = (y, x) if op == "pow" else (x, y)
        c, d = (wide_y, wide_x) if op == "pow" else (wide_x, wide_y)
        got, expected = getattr(mt, op)(a, b), getattr(mt, op)(c, d).to(t)
        assert same_bits(got, expected), op
    for op in ("exp", "tanh", "sqrt", "sum", "mean", "amax", "neg"):
        a, c = (y, wide_y) if op == "sqrt" else (x, wide_x)
        got, expected = getattr(mt, op)(a), getattr(mt, op)(c).to(t)
        assert same_bits(got, expected), op
    assert same_bits(x.softmax(1), wide_x.softmax(1).to(t))
    assert same_bits(x @ y.t(), (wide_x @ wide_y.t()).to(t))


def test_numbers_beside_half_precision():
    # The second operand of arithmetic keeps float32's precision, any other becomes float16 first.
    x = mt.tensor([3.0], dtype=mt.float16)
    assert (x * 0.1).item() == np.float16(np.float32(3) * np.float32(0.1))
    assert (mt.tensor([0.1], dtype=mt.float16) == 0.1).item() is True
    # Another tensor becomes float16, even when it overflows.
    assert (x + mt.tensor([100000])).item() == np.inf
    assert mt.tensor([60000.0], dtype=mt.float16).add(60000).item() == np.inf


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_arithmetic(name):
    rng = np.random.default_rng(2)
    x = (rng.normal(size=(5, 7)) + 1j * rng.normal(size=(5, 7))).astype(name)
    y = (rng.normal(size=(5, 7)) + 1j * rng.normal(size=(5, 7))).astype(name)
    a, b = mt.tensor(x), mt.tensor(y)
    close = {"rtol": 1e-5, "atol": 1e-6} if name == "complex64" else {"rtol": 1e-12, "atol": 1e-13}
    for ours, expected in (
        (a + b, x + y),
        (a - b, x - y),
        (a * b, x * y),
        (a / b, x / y),
        (a**b, x**y),
        (a**2, x**2),
        (2**a, 2**x),
        (a.abs(), np.abs(x)),
        (a.angle(), np.angle(x)),
        (a.conj(), x.conj()),
        (a.sgn(), x / np.abs(x)),
        (a.real, x.real),
        (a.imag, x.imag),
        (a.sum(0), x.sum(0)),
        (a.mean(), x.mean()),
        (a.prod(1), x.prod(1)),
        (a.cumsum(1), x.cumsum(1)),
        (a.reciprocal(), 1 / x),
        (mt.where(a.abs() > 1, a, b), np.where(np.abs(x) > 1, x, y)),
        (a.t(), x.T),
        (a[1:, ::2], x[1:, ::2]),
        (mt.complex(a.real, b.imag), x.real + 1j * y.imag),
        (mt.polar(a.abs(), a.angle()), x),
        *((getattr(a, f)(), getattr(np, f)(x)) for f in ("exp", "log", "sqrt", "sin", "cos", "tan", "tanh", "square")),
        *((getattr(a, f)(), getattr(np, "arc" + f[1:])(x)) for f in ("asin", "acos", "atan")),
        *((getattr(a, f)(), getattr(np, f)(x)) for f in ("sinh", "cosh", "expm1", "log1p", "log2", "log10", "exp2")),
    ):
        got = ours.numpy()
        assert got.dtype == (expected.dtype if name == "complex128" or expected.dtype.kind != "c" else np.dtype(name))
        np.testing.assert_allclose(got, expected, **close)
    assert (a == a).all()
    assert not (a != a).any()
    assert a.any()
    assert a.isfinite().all()


def test_small_complex_numbers_keep_their_precision():
    z = mt.tensor([1e-12 + 1e-13j], dtype=mt.complex128)
    for ours, expected in ((z.expm1(), 1e-12 + 1e-13j), (z.log1p(), 1e-12 + 1e-13j)):
        np.testing.assert_allclose(ours.numpy(), [expected], rtol=1e-11)
    # The quotient's scaling keeps it from overflowing.
    big = mt.tensor([1e300 + 1e300j], dtype=mt.complex128)
    assert (big / big).tolist() == [1 + 0j]


def test_what_complex_numbers_have_not():
    z = mt.tensor([1j, 2.0])
    for call, error, message in (
        (lambda: z < z, NotImplementedError, "not implemented for 'ComplexFloat'"),
        (lambda: z.sign(), NotImplementedError, "use torch.sgn instead|sgn"),
        (lambda: z.floor(), NotImplementedError, "floor is not supported for complex inputs"),
        (lambda: mt.maximum(z, z), RuntimeError, "maximum not implemented for complex tensors"),
        (lambda: z.argmax(), RuntimeError, "does not support complex input"),
        (lambda: z.sort(), RuntimeError, "Sort does not support complex dtypes on CPU"),
        (lambda: mt.imag(mt.ones(1)), RuntimeError, "imag is not implemented for tensors with non-complex dtypes"),
        (lambda: mt.ones(2).add_(1j), RuntimeError, "can't be cast to the desired output type"),
        (lambda: mt.ones(1).fill_(1j), RuntimeError, "cannot be converted to type float without overflow"),
        (lambda: mt.tensor([1j], dtype=mt.float32), TypeError, "must be real number, not complex"),
        (lambda: mt.view_as_real(mt.ones(2)), RuntimeError, "view_as_real is only supported for complex tensors"),
        (lambda: mt.view_as_complex(mt.ones(3)), RuntimeError, "last dimension of size 2"),
    ):
        with pytest.raises(error, match=message):
            call()


# ---- views of other types


def test_parts_are_views():
    z = mt.tensor([1 + 2j, 3 + 4j])
    z.real = mt.tensor([5.0, 6.0])
    z.imag += 1
    assert z.tolist() == [5 + 3j, 6 + 5j]
    mt.view_as_real(z)[0, 1] = 9
    assert z[0].item() == 5 + 9j
    pairs = mt.zeros(2, 2)
    mt.view_as_complex(pairs)[1] = 7 - 1j
    assert pairs.tolist() == [[0, 0], [7, -1]]
    assert mt.ones(2).real.tolist() == [1, 1]


def test_parts_are_views_while_recording():
    with mt.jit_scope():
        z = mt.tensor([1 + 2j, 3 + 4j]) * 2
        real = z.real
        z *= 2
        real += 1
        z.imag.fill_(3)
        after = z + 0
    assert real.tolist() == [5, 13]
    assert z.tolist() == after.tolist() == [5 + 3j, 13 + 3j]


def test_bytes_as_other_types():
    x = mt.arange(12, dtype=mt.int32).view(3, 4)
    expected = x.numpy()
    for name in ("uint8", "int16", "float32", "int64", "float64", "complex64", "complex128"):
        np.testing.assert_array_equal(x.view(dtype(name)).numpy(), expected.view(name))
    assert x.view(dtype=mt.float32).dtype is mt.float32
    for wrong, message in (
        (lambda: x[:2].t().view(mt.int64), r"self.stride\(-1\) must be 1 to view Int as Long"),
        (lambda: mt.arange(3, dtype=mt.int32).view(mt.int64), r"self.size\(-1\) must be divisible by 2"),
        (lambda: mt.tensor(1, dtype=mt.int32).view(mt.int64), r"self.dim\(\) cannot be 0 to view Int as Long"),
        (lambda: x[:, 1:3].view(mt.int64), r"self.storage_offset\(\) must be divisible by 2"),
    ):
        with pytest.raises(RuntimeError, match=message):
            wrong()


def test_gradients_of_complex_numbers():
    z = mt.tensor([1 + 2j, -0.5j], dtype=mt.complex128, requires_grad=True)
    (z * z.conj()).real.sum().backward()
    assert z.grad.tolist() == [2 + 4j, -1j]
    r = mt.tensor([1.0, 2.0], requires_grad=True)
    (r * mt.tensor([1j, 1 + 1j])).abs().sum().backward()
    assert r.grad.dtype is mt.float32
    np.testing.assert_allclose(r.grad.numpy(), [1, 2**0.5], rtol=1e-6)


# ---- in and out


@pytest.mark.parametrize("name", NUMPY)
def test_numpy_there_and_back(name):
    x = numbers(name)
    for made in (mt.tensor(x), mt.from_numpy(x), mt.as_tensor(x), mt.asarray(x), mt.from_dlpack(mt.tensor(x))):
        assert made.dtype is dtype(name)
        np.testing.assert_array_equal(made.numpy(), x)
        assert made.numpy().dtype == x.dtype
    shared = mt.from_numpy(x)
    shared[3] = 1
    assert x[3] == 1
    np.testing.assert_array_equal(np.from_dlpack(mt.tensor(x)), x)
    np.testing.assert_array_equal(np.asarray(mt.tensor(x)), x)
    listed = mt.tensor(x.tolist(), dtype=dtype(name))
    np.testing.assert_array_equal(listed.numpy(), x)
    assert mt.tensor(x)[2].item() == x[2].item() or x[2] != x[2]


@pytest.mark.parametrize("name", ALL)
def test_pickles_and_copies(name):
    x = mt.tensor(numbers("float32" if name == "bfloat16" else name)).to(dtype(name))
    for made in (pickle.loads(pickle.dumps(x)), copy.copy(x), copy.deepcopy(x), x.clone()):
        assert made.dtype is x.dtype
        assert repr(made.tolist()) == repr(x.tolist())


def test_numpy_has_no_bfloat16():
    x = mt.ones(2, dtype=mt.bfloat16)
    for read in (x.numpy, lambda: np.asarray(memoryview(x))):
        with pytest.raises(TypeError, match="Got unsupported ScalarType BFloat16"):
            read()
    assert x.tolist() == [1.0, 1.0]
    assert mt.from_dlpack(x).dtype is mt.bfloat16


def test_numbers_that_do_not_fit():
    for wrong, message in (
        (lambda: mt.full((1,), 256.0, dtype=mt.uint8), "type uint8_t without overflow"),
        (lambda: mt.tensor([300], dtype=mt.int8), "type int8 without overflow"),
        (lambda: mt.tensor([40000], dtype=mt.int16), "type int16 without overflow"),
        (lambda: mt.ones(2, dtype=mt.int8).fill_(300), "type int8_t without overflow"),
        (lambda: mt.ones(2, dtype=mt.float16).fill_(70000.0), "type c10::Half without overflow"),
    ):
        with pytest.raises(RuntimeError, match=message):
            wrong()
    assert mt.full((1,), 255.0, dtype=mt.uint8).item() == 255
    assert mt.ones(1, dtype=mt.int16).fill_(-32768.0).item() == -32768
    assert mt.tensor([-1], dtype=mt.uint16).item() == 65535
    assert mt.tensor([2**64 - 1], dtype=mt.uint64).item() == 2**64 - 1
    assert mt.tensor([1e6], dtype=mt.float16).item() == np.inf


# ---- text


def test_text():
    texts = {
        "tensor([1.+2.j, 3.-1.j])": mt.tensor([1 + 2j, 3 - 1j]),
        "tensor([1.0000+2.j, 3.5000-1.j])": mt.tensor([1 + 2j, 3.5 - 1j]),
        "tensor(1.+1.j)": mt.tensor(1 + 1j),
        "tensor([inf+nanj, -0.-0.j])": mt.tensor([complex(np.inf, np.nan), complex(-0.0, -0.0)]),
        "tensor([1.0000e+05+1.j, 1.0000e+00+0.j])": mt.tensor([1e5 + 1j, 1]),
        "tensor([], dtype=minitensor.complex64)": mt.tensor([], dtype=mt.complex64),
        "tensor([1.+0.j, 2.+0.j], dtype=minitensor.complex128)": mt.tensor([1, 2], dtype=mt.complex128),
        "tensor([1.5000,    inf], dtype=minitensor.float16)": mt.tensor([1.5, 2e10]).half(),
        "tensor([1.5000, 2.0000], dtype=minitensor.bfloat16)": mt.tensor([1.5, 2]).bfloat16(),
        "tensor([1, 2], dtype=minitensor.uint16)": mt.tensor([1, 2], dtype=mt.uint16),
        "tensor([18446744073709551615], dtype=minitensor.uint64)": mt.tensor([2**64 - 1], dtype=mt.uint64),
    }
    for text, tensor in texts.items():
        assert repr(tensor) == text
