"""What checkpoints may hold, made with either library, and a description of it that doesn't depend on which."""

import itertools
from collections import Counter, OrderedDict

DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
]  # fmt: skip


def _z(lib):
    return lib.tensor([[1 + 2j, 3 - 4j], [0.5j, -1]])


def _negative(lib, x):
    """`x` negated: in PyTorch a view with a flag."""
    return lib._neg_view(x) if hasattr(lib, "_neg_view") else -x


def _with(tensor, **attributes):
    for name, value in attributes.items():
        setattr(tensor, name, value)
    return tensor


def _views(lib):
    x = lib.arange(12.0).reshape(3, 4)
    return {
        "all": x,
        "t": x.T,
        "row": x[1],
        "every": x[:, ::2],
        "one": x[2, 3],
        "none": x[:0],
        "wide": x[0].expand(2, 4),
    }


def _tied(lib):
    m = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Linear(2, 2))
    for p in m.parameters():
        p.data.fill_(0.5)
    m[1].weight = m[0].weight
    return [m.state_dict(), dict(m.named_parameters(remove_duplicate=False))]


def _trained(lib):
    m = lib.nn.Linear(2, 1)
    for p in m.parameters():
        p.data.fill_(0.25)
    m.register_buffer("steps", lib.tensor(3))
    opt = lib.optim.SGD(m.parameters(), lr=0.5, momentum=0.5)
    m(lib.ones(1, 2)).sum().backward()
    opt.step()
    state = {k: v["momentum_buffer"] for k, v in opt.state_dict()["state"].items()}
    return {"model": {"inner": m.state_dict()}, "optimizer": {"state": state}, "epoch": 3, "history": [0.5, (1, None)]}


def _requires_grad(lib):
    x = lib.ones(2, requires_grad=True)
    y = x[:1].detach().requires_grad_()
    return [x, y, lib.ones(2).requires_grad_(False)]


CONTENTS = {
    "dtypes": lambda lib: {n: lib.tensor([[0, 1, 1], [0, 0, 1]], dtype=getattr(lib, n)) for n in DTYPES},
    "views": _views,
    "conjugate": lambda lib: [_z(lib), _z(lib).conj(), _z(lib).to(lib.complex128).conj()[1:].T],
    "negative": lambda lib: [_negative(lib, t) for t in (lib.tensor([1.0, -2.0]), _z(lib).imag, _z(lib).conj())],
    "conjugate parameter": lambda lib: lib.nn.Parameter(_z(lib).conj()),
    "empty": lambda lib: [lib.empty(0), lib.empty(0, 3), lib.empty(2, 0, dtype=lib.int64), lib.ones(0, 2).T],
    "numbers": lambda lib: [lib.tensor(2.5), lib.tensor(True), lib.tensor(1j)],
    "bytes of one, odd": lambda lib: lib.arange(10, dtype=lib.uint8)[1:9],
    "requires grad": _requires_grad,
    "parameters": lambda lib: [lib.nn.Parameter(lib.ones(2)), lib.nn.Parameter(lib.ones(1), requires_grad=False)],
    "attributes": lambda lib: _with(lib.ones(2), tag="a", more={"n": [1, 2.5]}, other=lib.tensor([7])),
    "attributes of a parameter": lambda lib: _with(lib.nn.Parameter(lib.ones(2)), role="bias", keep=lib.zeros(1)),
    "attributes of a bfloat16": lambda lib: _with(lib.ones(2, dtype=lib.bfloat16), scale=0.5),
    "attributes of a uint16": lambda lib: _with(lib.ones(2, dtype=lib.uint16), scale=0.5),
    "attributes of a meta tensor": lambda lib: _with(lib.empty(2, device="meta"), scale=0.5),
    "meta": lambda lib: [lib.empty(2, 3, device="meta"), lib.empty(3, 2, dtype=lib.int8, device="meta").T],
    "tied": _tied,
    "trained": _trained,
    "containers": lambda lib: [OrderedDict(b=lib.ones(1), a=(lib.Size([2]), {4})), Counter("aab"), lib.int8, b"12"],
    "same": lambda lib: [x := lib.ones(2), x, {"again": x}],
    "nothing": lambda lib: {},
}  # fmt: skip

FLAGGED = {"conjugate", "negative", "conjugate parameter"}
"""What PyTorch makes as views with a flag, and minitensor as tensors of their own."""


def described(lib, thing, layout=True):
    """Plain data that says all that can be seen of it. Without `layout`, not how its tensors lie in memory."""
    storages, objects = {}, {}
    numbers = itertools.count()

    def numbered(table, key):
        return table.setdefault(key, next(numbers))

    def describe(x):
        if isinstance(x, lib.Tensor):
            known = id(x) in objects
            at = [numbered(objects, id(x))]
            if known:
                return at
            meta = x.device.type == "meta"
            values = None if meta else repr(x.detach().to(lib.float64 if x.dtype is lib.bfloat16 else x.dtype).tolist())
            lies = [x.stride(), x.storage_offset() if not meta else 0]
            if not meta and x.numel():
                lies += [numbered(storages, x.untyped_storage().data_ptr()), x.untyped_storage().nbytes()]
            kind = [
                type(x).__name__,
                str(x.dtype).split(".")[1],
                tuple(x.shape),
                x.requires_grad,
                x.is_leaf,
                str(x.device),
            ]
            attributes = {name: describe(value) for name, value in sorted(vars(x).items())}
            return at + kind + [values.replace("-0.0", "0.0") if values else None, lies if layout else None, attributes]
        if isinstance(x, dict):
            return [type(x).__name__, [(k, describe(v)) for k, v in x.items()]]
        if isinstance(x, (list, tuple)):
            return [type(x).__name__, [describe(v) for v in x]]
        return str(x).split(".")[-1] if isinstance(x, lib.dtype) else repr(x)

    return describe(thing)
