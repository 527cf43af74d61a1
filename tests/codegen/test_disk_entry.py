"""An executable as bytes: all of it comes back, for other sizes where its guards hold, and nothing else does."""

import hashlib
import json
import struct

import numpy as np
import pytest
from runtime_table import Runtime, run

from minitensor_jit.cache.disk_entry import OtherSizes, decode, encode
from minitensor_jit.codegen.cpu.compiler import compile_module
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.size import SizeContext, active, value_of
from minitensor_jit.runtime.executable import Interface

DIGEST = hashlib.sha256().digest_size
X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(scope="module")
def executable():
    b = Builder("test")
    x = b.parameter(Shape("f32", (3, 4)))
    return compile_module(b.build(b.elementwise_call("erf", b.add(x, x))), name="test")


def in_context(context, call, *arguments):
    token = active.set(context)
    try:
        return call(*arguments)
    finally:
        active.reset(token)


def guarded(executable, guards, at=5):
    """The bytes of code that assumes of its size n what `guards(n)` says."""
    context = SizeContext((at,))
    context.guards.update(dict.fromkeys(guards(context.symbol())))
    return in_context(context, encode, "key", executable)


def changed(data, change, code=lambda code: code):
    """An entry with another header, or other code, and with the checksum of that."""
    magic, body = data[: data.index(b"\n") + 1], data[data.index(b"\n") + 1 + DIGEST :]
    (length,) = struct.unpack_from("<Q", body)
    header = json.loads(body[8 : 8 + length])
    change(header)
    text = json.dumps(header).encode()
    body = struct.pack("<Q", len(text)) + text + code(body[8 + length :])
    return magic + hashlib.sha256(body).digest() + body


def test_all_of_it_comes_back(executable):
    other = decode(encode("key", executable), "key", "name")
    assert other.name == "name"
    for what in ("parameter_shapes", "result_shapes", "aliases", "read_before", "scratch_bytes", "object_code"):
        assert getattr(other, what) == getattr(executable, what), what
    for what in ("imports", "kernels", "instructions"):
        assert getattr(other, what) == getattr(executable, what), what
    assert other.imports == ("mt.elementwise.erf.f32",)
    want = run(executable, [X], Runtime())[0]
    assert run(other, [X], Runtime())[0].tobytes() == want.tobytes()


@pytest.mark.parametrize("answer", [True, False])
def test_guards_are_asked_at_the_sizes_at_hand(executable, answer):
    """n - 5 > 0 is true from 6 on."""
    data = guarded(executable, lambda n: [(n - 5, answer)])
    for at in (4, 5, 6, 7):
        context = SizeContext((at,))
        if (at > 5) is answer:
            assert in_context(context, decode, data, "key", "name").name == "name"
            # What the code assumes is assumed of what it is a part of.
            assert list(context.guards) == [(context.symbol() - 5, answer)]
            assert [context.holds((n,)) for n in (4, 5, 6, 7)] == [(n > 5) is answer for n in (4, 5, 6, 7)]
        else:
            with pytest.raises(OtherSizes) as refused:
                in_context(context, decode, data, "key", "name")
            assert str(refused.value) == f"(s-5) > 0 is {answer} in it"


def test_all_guards_have_to_hold(executable):
    data = guarded(executable, lambda n: [(n - 5, True), (n - 8, False), (n % 3 - 1, True)])
    fits = []
    for at in range(2, 13):
        context = SizeContext((at,))
        try:
            in_context(context, decode, data, "key", "name")
        except OtherSizes:
            continue
        fits.append(at)
        assert len(context.guards) == 3
    assert fits == [n for n in range(2, 13) if 5 < n <= 8 and n % 3 > 1]


def test_shapes_and_memory_are_those_of_the_size(executable):
    """Polynomials of several symbols, with quotients and remainders in them."""
    context = SizeContext((12, 7))
    n, m = context.symbol(0), context.symbol(1)
    sizes = [n * m + 1, n // 5, (n + m) % 8, n * n]
    b = Builder("test")
    x = b.parameter(Shape("f32", (3, 4)))
    whole = compile_module(b.build(b.add(x, x)), name="test")
    shapes = [Shape("f32", (size, 4)) for size in sizes]
    whole.interface = Interface(shapes, shapes[:1], frozenset({(0, 3)}), frozenset({(0, 1)}))
    whole.scratch_bytes = n * 64
    context.guards.clear()
    data = in_context(context, encode, "key", whole)
    other = in_context(SizeContext((30, 9)), decode, data, "key", "name")
    for at in ((30, 9), (12, 7), (2, 2)):
        found = [value_of(shape.dims[0], at) for shape in other.parameter_shapes]
        assert found == [at[0] * at[1] + 1, at[0] // 5, sum(at) % 8, at[0] ** 2]
        assert value_of(other.scratch_bytes, at) == at[0] * 64
    assert [shape.dtype for shape in other.result_shapes] == ["f32"]
    assert (other.aliases, other.read_before) == ({(0, 3)}, {(0, 1)})


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (lambda data: data[:-1], "its checksum is wrong"),
        (lambda data: b"x" + data[1:], "its checksum is wrong"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "its checksum is wrong"),
        (lambda data: b"", "its checksum is wrong"),
        (lambda data: changed(data, lambda header: header.update(key="other")), "it is the entry of another key"),
        (
            lambda data: changed(data, lambda header: header.update(imports=["mt.elementwise.nothing.f32"])),
            "the core has no mt.elementwise.nothing.f32",
        ),
        (
            lambda data: changed(data, lambda header: header.update(imports=["mt.elementwise.erf.s32"])),
            "the core has no mt.elementwise.erf.s32",
        ),
    ],
    ids=["shorter", "kind", "bit", "empty", "key", "import", "dtype"],
)
def test_what_is_not_the_entry_is_refused(executable, data, why):
    whole = encode("key", executable)
    assert changed(whole, lambda header: None) == whole
    with pytest.raises(ValueError, match=f"^{why}$") as refused:
        decode(data(whole), "key", "name")
    assert not isinstance(refused.value, OtherSizes)


def test_code_that_ends_too_early_is_not_run(executable):
    whole = encode("key", executable)
    with pytest.raises(RuntimeError, match="object code"):
        decode(changed(whole, lambda header: None, lambda code: code[:-200]), "key", "name")
