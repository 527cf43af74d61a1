"""Makes random programs. Steps are tried eagerly as they are made, so that most of them are valid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import row_samples

import minitensor as mt
from fuzz.programs import DTYPES, FLOATS, OTHER_DTYPES, Env, Program, Step, step

UNARY = [
    "neg",
    "abs",
    "sign",
    "exp",
    "log",
    "sqrt",
    "rsqrt",
    "reciprocal",
    "tanh",
    "sigmoid",
    "relu",
    "floor",
    "ceil",
    "trunc",
    "round",
    "square",
    "isnan",
    "isinf",
    "isfinite",
    "logical_not",
    "bitwise_not",
    "clone",
]
UNARY_INPLACE = ["neg", "abs", "exp", "sqrt", "tanh", "sigmoid", "relu", "floor", "square", "reciprocal", "round"]
BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "maximum",
    "minimum",
    "floor_divide",
    "remainder",
    "pow",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "logical_and",
    "logical_or",
    "logical_xor",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
]
INPLACE = ["add", "sub", "mul", "div", "pow"]
REDUCTIONS = ["sum", "mean", "amax", "amin", "any", "all", "prod"]
NUMBERS = (0, 1, -1, 2, 3, 0.5, -0.0, 0.1, 2.5, -3.0, 1e-3, 7, True, 1e30)
INDEXED = ("getitem_tensor", "setitem_tensor", "indexed", "index_write", "cross_entropy")
DATA_DEPENDENT = ("floor_divide", "remainder", "fmod", "pow")
NOT_COMPILED = {name for name, row in mt.ops.ROWS.items() if not row.compilable and row.kind != "view"}
NOT_COMPILED |= {"setitem_tensor", "isfinite", "isinf", "linspace"}  # some forms of these
NOT_COMPILED -= {"copy", "fill"}
# What one step may call on any tensors, by the number of its operands.
ELEMENTWISE = {
    count: [
        name
        for name, row in mt.ops.ROWS.items()
        if row.kind == "elementwise"
        and len(row.operands) == count
        and not row.parameters
        and name not in ("fill", "copy")
    ]
    for count in (1, 2, 3)
}
SAMPLED = [
    name
    for name, row in mt.ops.ROWS.items()
    if row_samples.forms(row) and name not in ("fill", "copy", "_view_read", "_view_write", "_assign")
]
SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 16, 17, 33)
MOST_ELEMENTS = 3000


class Generator:
    """Makes one program."""

    def __init__(self, seed: int, length: int, *, pure: bool = False, large: bool = False) -> None:
        self.rng = np.random.default_rng(seed)
        self.length = length
        self.pure = pure  # no observation, randomness, gradients or shared memory: what one compiled function can do
        self.large = large
        self.special = self.rng.random() < 0.3
        self.grad = not pure and self.rng.random() < 0.6
        wide = self.rng.random() < (0.1 if pure else 0.5)
        self.dtypes = (*DTYPES, *OTHER_DTYPES) if wide else DTYPES
        self.program: Program = []
        self.env = Env()
        self.next = 0

    # ---- choices

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, options: Any) -> Any:
        return options[int(self.rng.integers(len(options)))]

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high))

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        rank = self.pick((0, 1, 1, 2, 2, 2, 3, 3, 4)) if rank is None else rank
        while True:
            shape = tuple(int(self.pick(SIZES)) for _ in range(rank))
            if self.large and rank and self.chance(0.5):
                shape = (*shape[:-1], int(self.pick((65, 130, 1000, 4097, 9000))))
            if np.prod(shape, dtype=np.int64) <= (200_000 if self.large else MOST_ELEMENTS):
                return shape

    def slot(self, wanted: Callable[[Any], bool] = lambda x: True) -> int | None:
        def fits(x: Any) -> bool:
            try:
                return wanted(x)
            except NotImplementedError:  # a view of another dtype, whose base was written to, has no known history
                return False

        fitting = [i for i, x in self.env.slots.items() if fits(x)]
        if not fitting:
            return None
        # Recent ones more often, so that programs are deep.
        return fitting[-1 - min(int(self.rng.geometric(0.25)) - 1, len(fitting) - 1)]

    def like(self, x: Any, wanted: Callable[[Any], bool] = lambda y: True) -> int | None:
        def fits(y: Any) -> bool:
            if not wanted(y) or y.numel() * x.numel() > 4_000_000:
                return False
            try:
                size = mt.broadcast_shapes(tuple(x.shape), tuple(y.shape))
            except RuntimeError:
                return False
            return size.numel() <= 300_000

        return self.slot(fits)

    def key(self, x: Any) -> tuple[Any, ...]:
        items: list[Any] = []
        for n in x.shape[: self.integer(0, x.ndim + 1)]:
            if n and self.chance(0.3):
                items.append(self.integer(-n, n))
            elif self.chance(0.15):
                items.append(None)
                items.append(("slice", None, None, None))
            else:
                start = self.pick((None, 0, 1, -2, n // 2))
                items.append(("slice", start, self.pick((None, n, -1, n // 2 + 1)), self.pick((None, 1, 2, 3))))
        if self.chance(0.3):
            items.insert(self.integer(0, len(items) + 1), "...")
        return tuple(items)

    # ---- making steps

    def emit(self, kind: str, inputs: tuple[int | None, ...] = (), params: tuple[Any, ...] = ()) -> None:
        if any(i is None for i in inputs):
            return
        if self.pure and (
            kind == "gather_argmax" or any(p in NOT_COMPILED for p in (*params, kind) if isinstance(p, str))
        ):
            return
        if self.pure and "pow" in params and params[1:2] not in ((0,), (1,), (2,), (3,), (0.5,), (-1,)):
            return
        s = Step(kind, self.next, tuple(int(i) for i in inputs if i is not None), params)
        seen = len(self.env.seen)
        step(self.env, s)
        failed = (
            len(self.env.seen) > seen
            and isinstance(self.env.seen[-1], str)
            and ": " in self.env.seen[-1]
            and kind != "observe"
        )
        if failed and (kind in ("tensor", "shared", "create") or not self.keeps_failure(s)):
            del self.env.seen[seen:]
            if kind in ("backward", "second_order"):
                self.program.append(s)  # it may have stored some gradients before it failed
            return
        self.program.append(s)
        self.next += 1

    def keeps_failure(self, s: Step) -> bool:
        if self.pure or s.kind in INDEXED or any(name in map(str, s.params) for name in DATA_DEPENDENT):
            return False
        return self.chance(0.1)

    def make(self) -> Program:
        mt.manual_seed(7)
        for _ in range(self.integer(1, 4)):
            self.new_tensor()
        makers = [getattr(self, name) for name in dir(Generator) if name.startswith("make_")]
        if not self.pure:
            impure = [getattr(self, name) for name in dir(Generator) if name.startswith("impure_")]
            makers = makers * 2 + impure
        attempts = 0
        while len(self.program) < self.length and attempts < 10 * self.length:
            attempts += 1
            self.pick(makers)()
        return self.program

    def new_tensor(self, shape: tuple[int, ...] | None = None, dtype: str | None = None) -> None:
        dtype = dtype or self.pick((*self.dtypes, "float32", "float32", "float32", "float64"))
        shape = self.shape() if shape is None else shape
        grad = self.grad and dtype in FLOATS and self.chance(0.6)
        self.emit("tensor", (), (self.integer(0, 1 << 30), shape, dtype, self.special and self.chance(0.5), grad))

    def make_tensor(self) -> None:
        if self.chance(0.4):
            self.new_tensor()

    def make_unary(self) -> None:
        self.emit("unary", (self.slot(),), (self.pick(UNARY),))

    def make_unary_inplace(self) -> None:
        self.emit("unary_inplace", (self.slot(),), (self.pick(UNARY_INPLACE),))

    def operands(self) -> tuple[int | None, int | None]:
        x = self.slot()
        return x, None if x is None else self.like(self.env.slots[x])

    def make_binary(self) -> None:
        x, y = self.operands()
        name = self.pick(BINARY)
        if x is None or y is None:
            return
        if name in DATA_DEPENDENT and not (
            self.env.slots[y].is_floating_point() or self.env.slots[x].is_floating_point()
        ):
            return
        self.emit("binary", (x, y), (name,))

    make_binary_2 = make_binary_3 = make_binary

    def make_binary_number(self) -> None:
        name = self.pick(BINARY)
        number = self.pick(NUMBERS)
        reverse = self.chance(0.25) and name not in DATA_DEPENDENT
        if name in ("floor_divide", "remainder") and number == 0:
            return
        self.emit("binary_number", (self.slot(),), (name, number, reverse))

    make_binary_number_2 = make_binary_number

    def make_binary_inplace(self) -> None:
        x, y = self.operands()
        if x is None or y is None:
            return
        name = self.pick(INPLACE)
        if name == "pow" and not self.env.slots[x].is_floating_point():
            return
        self.emit("binary_inplace", (x, y), (name,))

    make_binary_inplace_2 = make_binary_inplace

    def make_elementwise(self) -> None:
        count = self.pick((1, 1, 2, 2, 3))
        x = self.slot()
        if x is None:
            return
        chosen = [x, *(self.like(self.env.slots[x]) for _ in range(count - 1))]
        name = self.pick(ELEMENTWISE[count])
        inplace = self.chance(0.25) and hasattr(mt.Tensor, name + "_")
        self.emit("elementwise_inplace" if inplace else "elementwise", tuple(chosen), (name,))

    make_elementwise_2 = make_elementwise_3 = make_elementwise

    def make_sample(self) -> None:
        name = self.pick(SAMPLED)
        row = mt.ops.ROWS[name]
        if self.pure and row.kind == "random":
            return
        places = tuple(place for place in range(3) if self.chance(0.5))
        chosen = tuple(self.slot() for _ in places)
        dtype = self.pick((*self.dtypes, "float32", "float32", "float32", "float64"))
        form = self.integer(0, len(row_samples.forms(row) or ()))
        domain = self.pick(("special", "normal", "positive"))
        self.emit("sample", chosen, (name, form, dtype, domain, self.integer(0, 1000), places))

    make_sample_2 = make_sample

    def make_number_inplace(self) -> None:
        self.emit(
            "binary_number_inplace",
            (self.slot(),),
            (self.pick(("add", "sub", "mul", "div", "fill")), self.pick(NUMBERS)),
        )

    def make_add_alpha(self) -> None:
        x, y = self.operands()
        self.emit("add_alpha", (x, y), (self.pick((0.5, 2.0, -0.1, 3)), self.chance(0.3)))

    def make_where(self) -> None:
        x, y = self.operands()
        if x is None or y is None:
            return
        c = self.like(self.env.slots[x], lambda t: t.dtype is mt.bool)
        if self.chance(0.3):
            self.emit("where_number", (c, x), (self.pick((0.0, 1.5, -2.0)),))
        else:
            self.emit("where", (c, x, y))

    def make_clamp(self) -> None:
        low, high = self.pick((None, -1, -0.5, 0, 0.0)), self.pick((None, 1, 0.75, 3))
        self.emit("clamp", (self.slot(),), (low, high))

    def make_convert(self) -> None:
        self.emit("convert", (self.slot(),), (self.pick(self.dtypes),))

    def make_view(self) -> None:
        i = self.slot(lambda t: t.ndim > 0)
        if i is None:
            return
        x = self.env.slots[i]
        d = self.integer(-x.ndim, x.ndim)
        n = x.shape[d]
        choice = self.pick(
            (
                ("permute", [int(v) for v in self.rng.permutation(x.ndim)]),
                ("transpose", d, self.integer(0, x.ndim)),
                ("reshape", [-1]),
                ("reshape", [1, *x.shape]),
                ("unsqueeze", d),
                ("squeeze",),
                ("expand", [self.integer(1, 4), *x.shape]),
                ("narrow", d, 0, n // 2 + n % 2),
                ("select", d, self.integer(0, n) if n else 0),
                ("flatten", 0, d),
                ("diagonal", self.integer(-1, 2)),
                ("unfold", d, min(2, n), 1),
                ("t",),
                ("detach",),
                ("contiguous",),
                ("repeat", [self.integer(1, 3)] * x.ndim),
                ("as_strided", [2, 2], [1, 1], 0),
                ("as_strided", [2, 3], [3, 1], None),
                ("tril", self.integer(-1, 2)),
                ("triu", self.integer(-1, 2)),
                ("cumsum", d),
            )
        )
        self.emit("method", (i,), choice)

    make_view_2 = make_view_3 = make_view

    def make_getitem(self) -> None:
        i = self.slot(lambda t: t.ndim > 0)
        if i is not None:
            self.emit("getitem", (i,), (self.key(self.env.slots[i]),))

    make_getitem_2 = make_getitem

    def make_setitem(self) -> None:
        i = self.slot(lambda t: t.ndim > 0)
        if i is None:
            return
        key = self.key(self.env.slots[i])
        if self.chance(0.5):
            self.emit("setitem_number", (i,), (key, self.pick((0, 1, 2.5, -0.75))))
        else:
            self.emit("setitem", (i, self.like(self.env.slots[i])), (key,))

    def make_copy(self) -> None:
        self.emit("copy", self.operands())

    def make_data(self) -> None:
        self.emit("data", (self.slot(),))

    def make_reduce(self) -> None:
        i = self.slot()
        if i is None:
            return
        x = self.env.slots[i]
        dims = None if self.chance(0.3) else [d for d in range(x.ndim) if self.chance(0.5)]
        self.emit("method", (i,), (self.pick(REDUCTIONS), dims, self.chance(0.4)))

    make_reduce_2 = make_reduce

    def make_arg(self) -> None:
        i = self.slot(lambda t: t.numel() > 0)
        if i is not None:
            x = self.env.slots[i]
            dim = None if self.chance(0.3) or x.ndim == 0 else self.integer(0, x.ndim)
            self.emit("method", (i,), (self.pick(("argmax", "argmin")), dim, False))

    def make_softmax(self) -> None:
        i = self.slot(lambda t: t.is_floating_point() and t.ndim > 0)
        if i is not None:
            self.emit("method", (i,), (self.pick(("softmax", "log_softmax")), self.integer(-1, self.env.slots[i].ndim)))

    def make_pair(self) -> None:
        i = self.slot(lambda t: t.ndim > 0 and t.numel() > 0)
        if i is None:
            return
        dim = self.integer(0, self.env.slots[i].ndim)
        name = self.pick(("max_dim", "min_dim", "sort"))
        more = (self.chance(0.5), True) if name == "sort" else (self.chance(0.5),)
        self.emit("pair", (i,), (name, self.integer(0, 2), dim, *more))

    def make_matmul(self) -> None:
        x = self.slot(lambda t: t.ndim in (1, 2, 3) and t.is_floating_point() and t.numel() < 20_000)
        if x is None:
            return
        a = self.env.slots[x]
        y = self.slot(
            lambda t: (
                t.dtype is a.dtype
                and t.ndim in (1, 2, 3)
                and t.shape[max(t.ndim - 2, 0)] == a.shape[-1]
                and t.numel() < 20_000
            )
        )
        if y is None:
            self.new_tensor((a.shape[-1], self.integer(1, 20)), a.dtype.name)
            y = self.next - 1
        self.emit("matmul", (x, y))

    def make_cat(self) -> None:
        x, y = self.operands()
        if x is None:
            return
        rank = max(self.env.slots[x].ndim, 1)
        self.emit("cat" if self.chance(0.6) else "stack", (x, y), (self.integer(-rank, rank),))

    def make_index(self) -> None:
        i = self.slot(lambda t: t.ndim > 0 and t.numel() > 0)
        if i is None:
            return
        x = self.env.slots[i]
        dim = self.integer(0, x.ndim)
        n, dtype = x.shape[dim], self.pick(("int64", "int64", "int32"))
        kind = self.pick(
            (
                "index_select",
                "gather",
                "scatter_add",
                "index_add",
                "index_copy",
                "getitem",
                "setitem",
                "mask",
                "mask_set",
                "cross_entropy",
            )
        )
        if kind in ("getitem", "setitem"):
            dim, n = 0, x.shape[0]
        if kind in ("mask", "mask_set"):
            mask = self.slot(lambda t: t.dtype is mt.bool and tuple(t.shape) == tuple(x.shape))
            if kind == "mask_set":
                self.emit("setitem_tensor", (i, mask), (self.pick((0, 1.5)),))
            elif not self.pure:
                self.emit("getitem_tensor", (i, mask))
            return
        if kind == "cross_entropy":
            if x.is_floating_point() and x.ndim == 2:
                self.emit("index_tensor", (), (self.integer(0, 1 << 30), (x.shape[0],), 0, x.shape[1], "int64"))
                self.emit("cross_entropy", (i, self.next - 1))
            return
        flat = kind in ("index_select", "index_add", "index_copy", "getitem", "setitem")
        count = self.integer(0, 6)
        shape = (
            (count,) if flat else tuple(self.integer(1, m + 1) if d != dim else count for d, m in enumerate(x.shape))
        )
        low = -n if kind in ("index_select", "getitem", "setitem") and self.chance(0.5) else 0
        self.emit("index_tensor", (), (self.integer(0, 1 << 30), shape, low, n, dtype))
        index = self.next - 1
        if kind == "getitem":
            self.emit("getitem_tensor", (i, index))
        elif kind == "setitem":
            self.emit("setitem_tensor", (i, index), (self.pick((0, 1.5)),))
        elif kind in ("index_select", "gather"):
            self.emit("indexed", (i, index), (kind, dim))
        else:
            source = shape if kind == "scatter_add" else tuple(count if d == dim else m for d, m in enumerate(x.shape))
            self.new_tensor(source, x.dtype.name)
            self.emit("index_write", (i, index, self.next - 1), (kind, dim, self.chance(0.4)))

    def make_gather_argmax(self) -> None:
        i = self.slot(lambda t: t.ndim > 0 and t.numel() > 0)
        if i is not None:
            self.emit("gather_argmax", (i,), (self.integer(0, self.env.slots[i].ndim),))

    def make_create(self) -> None:
        name, args = self.pick(
            (
                ("zeros", (self.shape(),)),
                ("ones", (self.shape(),)),
                ("full", (self.shape(), self.pick((1.5, 0, -2)))),
                ("arange", (self.integer(0, 20),)),
                ("arange", (self.integer(-5, 5), 20, self.integer(1, 4))),
                ("eye", (self.integer(0, 6),)),
                ("linspace", (0, 1, self.integer(1, 9))),
            )
        )
        self.emit("create", (), (name, args, self.pick(("float32", "float32", "float64", "int64", "int32"))))

    def make_drop(self) -> None:
        i = self.slot()
        if i is not None and len(self.env.slots) > 3:
            self.emit("drop", (i,), (i,))

    make_drop_2 = make_drop

    # ---- what a compiled function can't hold

    def impure_random(self) -> None:
        if self.chance(0.5):
            self.emit("create", (), (self.pick(("rand", "randn")), (self.shape(),), self.pick(FLOATS)))
        elif self.chance(0.5):
            self.emit(
                "create", (), ("randint", (0, self.integer(1, 100), self.shape()), self.pick(("int64", "float32")))
            )
        else:
            self.emit("fill_random", (self.slot(),), (self.pick(("uniform_", "normal_", "bernoulli_")),))

    def impure_shared(self) -> None:
        if self.chance(0.4):
            self.emit(
                "shared",
                (),
                (
                    self.integer(0, 1 << 30),
                    self.shape(),
                    self.pick([d for d in self.dtypes if d != "bfloat16"]),
                    self.chance(0.3),
                ),
            )
            return
        for kind in ("array_write", "array_read"):
            if self.env.arrays and self.chance(0.6):
                slot = self.pick(sorted(self.env.arrays))
                self.emit(kind, (slot if slot in self.env.slots else self.slot(),), (slot,))

    def impure_observe(self) -> None:
        self.emit("observe", (self.slot(),), (self.pick(("numpy", "tolist", "item", "bool", "repr")),))

    def impure_flush(self) -> None:
        if self.chance(0.3):
            self.emit("flush")

    def impure_backward(self) -> None:
        if not self.grad:
            return
        i = self.slot(lambda t: t.requires_grad and not t.is_leaf)
        if self.chance(0.2):
            leaf = self.slot(lambda t: t.requires_grad and t.is_leaf)
            self.emit("second_order", (i, leaf))
        else:
            self.emit("backward", (i,), (self.chance(0.5),))

    impure_backward_2 = impure_backward

    def impure_gradient(self) -> None:
        self.emit("gradient", (self.slot(lambda t: t.is_leaf and t.grad is not None),))

    def impure_sgd(self) -> None:
        self.emit("sgd", (self.slot(lambda t: t.is_leaf and t.grad is not None),), (self.pick((0.1, 0.05, 0.5)),))

    def impure_no_grad(self) -> None:
        self.emit("no_grad_scale", (self.slot(),), (self.pick((2.0, 0.3)),))
