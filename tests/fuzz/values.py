"""Arguments that nobody should pass, beside some that fit: everything follows from the number of the case."""

from __future__ import annotations

import contextlib
import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np

import minitensor as mt

COMMON = [mt.bool, mt.uint8, mt.int32, mt.int64, mt.float32, mt.float64]
RARE = [mt.int8, mt.int16, mt.uint16, mt.uint32, mt.uint64, mt.float16, mt.bfloat16, mt.complex64, mt.complex128]
SHAPES = [(), (1,), (3,), (0,), (2, 3), (3, 2), (1, 3), (3, 3), (2, 0, 3), (2, 1, 3), (2, 2, 2), (1,) * 9,
          (1, 2, 4, 5), (2, 3, 3), (1, 1, 3, 3, 3)]  # fmt: skip
# So large that they are refused, never so that memory is really taken.
INTEGERS = [-1, 0, 1, 2, 3, 4, -2, -3, 7, 64, 2**40, 2**62, 2**63 - 1, -(2**63), 2**63, 2**64 + 1, -(2**31) - 1]
FLOATS = [0.0, -0.0, 1.0, -1.5, 0.5, math.nan, math.inf, -math.inf, 1e308, 5e-324, 1e30]
NUMBERS = [*FLOATS, *INTEGERS, 1j, complex(math.nan, 1), 10**400, True]
# Enough elements that kernels run without the GIL and on several threads.
LARGE = 70_000
STRINGS = ["sum", "mean", "none", "reflect", "constant", "circular", "nearest", "bilinear", "linear", "bicubic", "prod",
           "amax", "fro", "nuc", "ortho", "zeros", "border", "left", "trunc", "floor", "tanh", "same", "valid", "",
           "\udc80", "ij,jk->ik", "i...->...", "xy"]  # fmt: skip

DIMS = ("dim", "axis", "start_dim", "end_dim", "diagonal", "offset", "correction", "source", "destination")
SIZES = {"size", "shape", "sizes", "repeats", "split_size", "split_size_or_sections", "stride", "normalized_shape",
         "output_size", "kernel_size", "padding", "dilation", "output_padding", "scale_factor", "s", "pad",
         "shifts", "output_ratio", "indices_or_sections"}  # fmt: skip
COUNTS = {"step", "start", "end", "length", "chunks", "steps", "n", "m", "low", "high", "num_classes", "k", "bins",
          "groups", "num_groups", "num_samples", "ord", "n_fft", "hop_length", "win_length", "upscale_factor", "p",
          "N", "r", "q", "max_norm", "num_heads", "window_length", "storage_offset", "row", "col"}  # fmt: skip
INDICES = {"index", "indices", "target", "targets", "pivots", "LU_pivots", "input_lengths", "target_lengths"}
FLAGS = {"keepdim", "unbiased", "descending", "stable", "largest", "sorted", "return_inverse", "inplace", "training",
         "requires_grad", "upper", "left", "full_matrices"}  # fmt: skip
LISTS = {"tensors", "size_list", "inputs", "outputs", "arrays", "matrices", "self_list"}


class Evil:
    """A number that does something else while it is read."""

    def __init__(self, value: Any, act: Callable[[], Any]) -> None:
        self.value, self.act = value, act

    def __index__(self) -> int:
        self.act()
        return int(self.value)

    def __float__(self) -> float:
        self.act()
        return float(self.value)


class Subclass(mt.Tensor):
    """Knows nothing of its own."""


class Arguments:
    """Random arguments of one case."""

    def __init__(self, number: int) -> None:
        self.random = random.Random(number)
        self.arrays: list[np.ndarray] = []

    def dtype(self) -> Any:
        return self.random.choice(COMMON if self.random.random() < 0.75 else RARE)

    def tensor(self, shape: Any = None) -> Any:
        """Of any dtype, device and geometry; one in ten belongs to a graph, some share memory with NumPy."""
        r = self.random
        dtype = self.dtype()
        shape = r.choice(SHAPES) if shape is None else shape
        kind = r.random()
        if kind < 0.05:
            return mt.empty(shape, dtype=dtype, device="meta")
        if kind < 0.08:
            shape = (LARGE,) if r.random() < 0.5 else (7, LARGE // 7)
        rng = np.random.default_rng(r.randrange(1 << 30))
        array = rng.integers(-3 if dtype.is_signed else 0, 4, size=shape)
        if dtype in COMMON and kind < 0.2:
            array = np.asarray(array).astype(str(dtype).removeprefix("minitensor."))
            if r.random() < 0.4:
                array.setflags(write=False)
            self.arrays.append(array)
            tensor = mt.from_numpy(array)
        else:
            tensor = mt.tensor(array).to(dtype)
        if tensor.is_floating_point() and tensor.numel() and 0.2 < kind < 0.25:
            with contextlib.suppress(RuntimeError):  # too large for half precision
                tensor.view(-1)[0] = r.choice(FLOATS)
        for _ in range(r.choice([0, 0, 0, 1, 2])):
            tensor = self.view(tensor)
        if kind > 0.9 and (dtype.is_floating_point or dtype.is_complex):
            tensor = tensor.detach().requires_grad_()
            if r.random() < 0.5:
                tensor = tensor * 1
        if kind < 0.25 and r.random() < 0.3:
            tensor = Subclass(tensor)
        return tensor

    def view(self, t: Any) -> Any:
        """A view of it, if it has one: also such that its elements overlap."""
        r = self.random
        try:
            return r.choice(
                [
                    lambda: t.expand(2, *t.shape),
                    lambda: t.unfold(0, 2, 1),
                    lambda: t.transpose(0, -1),
                    lambda: t[1:],
                    lambda: t[..., ::2],
                    lambda: t.as_strided((2, 2), (1, 1)),
                    lambda: t.as_strided((0,), (2**62,), 2**61),
                    lambda: t.unsqueeze(-1),
                    lambda: t.diagonal(),
                    lambda: t.expand(0, *t.shape),
                ]
            )()
        except (RuntimeError, IndexError, TypeError, ValueError):
            return t

    def shape(self) -> Any:
        """Sizes: some negative, some whose product overflows, some of more dimensions than there may be."""
        r = self.random
        dims = [
            r.choice(INTEGERS if r.random() < 0.3 else [0, 1, 2, 3]) for _ in range(r.choice([0, 1, 2, 2, 3, 5, 70]))
        ]
        return r.choice([tuple, list])(dims)

    def index(self) -> Any:
        """What may stand in brackets, and what may not."""
        r = self.random
        item = r.choice(
            [
                lambda: r.choice(INTEGERS[:10]),
                lambda: slice(*[r.choice([None, *INTEGERS]) for _ in range(3)]),
                lambda: None,
                lambda: ...,
                lambda: r.random() < 0.5,
                self.tensor,
                lambda: [r.choice(INTEGERS[:6]) for _ in range(r.randrange(4))],
                lambda: np.int64(1),
                lambda: np.array([0, 1]),
                self.odd,
            ]
        )
        return tuple(item() for _ in range(r.randrange(4))) if r.random() < 0.4 else item()

    def odd(self) -> Any:
        """Something of another type."""
        r = self.random
        return r.choice(
            [None, r.choice(STRINGS), b"x", object(), {}, [], (), 1j, mt.float32, "cpu", "meta", "\udc80", int, float,
             10**400, np.float32(2), np.zeros((2, 3)), np.array("x"), range(3), True, mt.device("meta"), [[1], [2, 3]],
             {"a": 1}, slice(None), ..., [[[0] * 2] * 2] * 2, [None], ["x"], [1j, 2], float("nan"), mt.Generator,
             lambda x: x]
        )  # fmt: skip

    def any(self) -> Any:
        """Anything at all."""
        r = self.random
        kind = r.random()
        if kind < 0.4:
            return self.tensor()
        if kind < 0.6:
            return r.choice(INTEGERS)
        if kind < 0.7:
            return r.choice(FLOATS)
        if kind < 0.8:
            return self.shape()
        if kind < 0.85:
            return [self.tensor() for _ in range(r.randrange(4))]
        if kind < 0.88:
            return self.dtype()
        if kind < 0.92:
            return self.index()
        if kind < 0.94:
            victim: list[Any] = [1, 2, 3]
            victim[1] = Evil(2, victim.clear)
            return victim
        return self.odd()

    def beside(self, like: Any) -> Any:
        """A tensor that goes with another: itself, a view of it, one of its shape, one that needs broadcasting."""
        r = self.random
        if not isinstance(like, mt.Tensor):
            return self.tensor()
        shape = tuple(like.shape) if like.numel() < LARGE else None
        return r.choice(
            [
                lambda: like,
                lambda: like[..., :1] if like.ndim else like,
                lambda: like * 1,
                lambda: like.expand(2, *like.shape),
                lambda: like.detach(),
                lambda: self.tensor(shape),
                lambda: self.tensor(shape and shape[-1:]),
                lambda: self.tensor(shape and shape[::-1]),
            ]
        )()

    def out(self, like: Any) -> Any:
        """Where a result is to go: of a wrong dtype, shape or device, an input itself, or overlapping with it."""
        r = self.random
        if not isinstance(like, mt.Tensor):
            return self.tensor()
        return r.choice(
            [
                lambda: None,
                lambda: mt.empty(0, dtype=like.dtype),
                lambda: mt.zeros(like.shape, dtype=like.dtype),
                lambda: mt.zeros(like.shape, dtype=self.dtype()),
                lambda: mt.zeros((1,), dtype=like.dtype).expand(like.shape),
                lambda: mt.zeros(like.shape, dtype=like.dtype, device="meta"),
                lambda: like,
                lambda: like[1:] if like.ndim else like,
                lambda: like.detach().reshape(-1)[1:],
                lambda: (mt.empty(0, dtype=like.dtype), mt.empty(0, dtype=mt.int64)),
                lambda: (like, like),
                self.tensor,
            ]
        )()

    def fitting(self, like: Any, parameter: str, default: Any = None) -> Any:
        """Mostly what a parameter of this name takes, beside the tensor `like`; now and then anything."""
        r = self.random
        if r.random() < 0.05:
            return self.any()
        if parameter.startswith(DIMS):
            if parameter == "dims" or r.random() < 0.15:
                return r.choice([(0,), (0, 1), (1, 0), None, (), (-1, 0, 1), 2**62, -(2**63)])
            return r.choice([-1, 0, 0, 1, -2, 2])
        if parameter in COUNTS or (parameter in SIZES and r.random() < 0.6):
            return r.choice([0, 1, 1, 2, 2, 3, -1, r.choice(INTEGERS), 0.5, math.nan])
        if parameter in SIZES:
            return (
                self.shape()
                if r.random() < 0.3
                else r.choice([(1,), (2, 2), (1, 1, 1), tuple(like.shape), -1, 2, (-1,), (2**40, 0), (2**62, 4)])
            )
        if parameter in INDICES:
            high = r.choice([1, 2, 3, 2**40])
            shape = r.choice([tuple(like.shape), tuple(like.shape), (2,), tuple(like.shape)[:1]])
            if math.prod(shape) > LARGE * 2:
                shape = (2,)
            return mt.tensor(np.random.default_rng(r.randrange(99)).integers(-1 if high > 3 else 0, high, size=shape))
        if parameter == "niter":  # as many rounds as are asked for
            return r.choice([0, 1, 2, -1, 0.5, None])
        if parameter in {"mask", "condition"}:
            return self.tensor() > 0
        if parameter in FLAGS or isinstance(default, bool):
            return r.random() < 0.5
        if parameter == "dtype":
            return r.choice([None, self.dtype()])
        if parameter == "device":
            return r.choice([None, "cpu", "meta", "cuda", "cuda:9999", mt.device("cpu"), -1, 2**40])
        if parameter == "generator":
            return r.choice([None, mt.Generator(), mt.Generator().manual_seed(3)])
        if parameter == "out":
            return self.out(like)
        if parameter in LISTS:
            return [like, self.beside(like), self.tensor()][: r.randrange(4)]
        if parameter in {"func", "f", "callable"}:
            return r.choice([lambda x: x * 2, lambda *a: a[0] * 3, lambda x: (x, x), lambda x: 3, mt.sin])
        if isinstance(default, str):
            return r.choice([default, r.choice(STRINGS)])
        if isinstance(default, (int, float)):
            return r.choice([default, default, r.choice(NUMBERS)])
        return self.beside(like) if r.random() < 0.5 else r.choice(NUMBERS) if r.random() < 0.6 else self.tensor()


def normal(value: Any) -> Any:
    """What a result says, to compare two of them; looks at every byte."""
    if isinstance(value, mt.Tensor):
        assert value.numel() == math.prod(value.shape), (value.shape, value.numel())
        assert len(value.stride()) == value.ndim <= 64
        assert all(size >= 0 for size in value.shape)
        if value.device.type != "meta":
            mt._C.flush("a read of the result")  # NumPy would hide its error, and what is large is not read
        if value.device.type == "meta" or value.numel() > 1_000_000:
            return (value.device.type, str(value.dtype), tuple(value.shape))
        plain = value.detach().clone()
        if plain.dtype == mt.bfloat16:
            plain = plain.float()
        array = np.asarray(plain)
        if array.dtype.kind == "f":
            array = np.where(np.isnan(array), np.nan, array)
        elif array.dtype.kind == "b":  # of other memory seen as bools any byte but 0 is true
            array = array.view(np.uint8) != 0
        elif array.dtype.kind == "c":
            array = np.where(np.isnan(array), complex(np.nan, np.nan), array)
        return (str(value.dtype), tuple(value.shape), array.tobytes())
    if isinstance(value, (tuple, list)):
        return [normal(v) for v in value]
    if isinstance(value, (bool, int, float, complex, str, type(None))):
        return repr(value)
    return type(value).__name__
