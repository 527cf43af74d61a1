"""The ops that calls run, by the names that PyTorch's dispatcher has for them: `minitensor.ops.aten.mm.default`.

Programs name ops so where they choose among them, as for a selective checkpoint (`minitensor.utils.checkpoint`), and
call some by these names. An op that has a function here is that function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import minitensor
from minitensor._C import Tensor
from minitensor.profiler.torch_names import aten_name

__all__ = ["Aten", "OpOverload", "OpOverloadPacket", "overload_of"]


_BINARY = [
    "add",
    "sub",
    "mul",
    "div",
    "floor_divide",
    "remainder",
    "fmod",
    "true_divide",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "xlogy",
]
_COMPARED = ["eq", "ne", "lt", "le", "gt", "ge"]

# The overloads of ops that have others than "default", which is the first one for a function.
_OVERLOADS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys((*_BINARY, *_COMPARED), ("Tensor", "Scalar")),
    "pow": ("Tensor_Scalar", "Tensor_Tensor", "Scalar"), "sum": ("default", "dim_IntList"), "mean": ("default", "dim"),
    "var": ("default", "dim", "correction"), "std": ("default", "dim", "correction"),
    "max": ("default", "dim", "other"), "min": ("default", "dim", "other"), "prod": ("default", "dim_int"),
    "index": ("Tensor",), "masked_fill": ("Scalar", "Tensor"), "clamp": ("default", "Tensor"),
    "where": ("self", "ScalarSelf", "ScalarOther", "Scalar"), "any": ("default", "dim"), "all": ("default", "dim"),
    "transpose": ("int",), "select": ("int",), "slice": ("Tensor",), "split": ("Tensor",), "norm": ("Scalar",),
    "lerp": ("Scalar", "Tensor"),
}  # fmt: skip

# What is no function under this name: only a policy comes by it.
_ONLY_NAMED = {
    "_softmax": "softmax", "_log_softmax": "log_softmax", "nll_loss_forward": "nn.functional.nll_loss",
    "_to_copy": "Tensor.to", "index": "Tensor.__getitem__", "slice": "Tensor.__getitem__",
    "_scaled_dot_product_flash_attention": "nn.functional.scaled_dot_product_attention",
    "_scaled_dot_product_flash_attention_for_cpu": "nn.functional.scaled_dot_product_attention",
}  # fmt: skip


class OpOverload:
    """An op in one of its forms. Equal by identity; called, it is the function of that name."""

    def __init__(self, packet: OpOverloadPacket, overload: str) -> None:
        """`overload`: "default", "Tensor", "dim_IntList" ..."""
        self.overloadpacket, self._overloadname = packet, overload
        self.__name__ = f"{packet._name}.{overload}"
        self.__module__ = "minitensor.ops.aten"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; NotImplementedError for an op that has none here."""
        return self.overloadpacket(*args, **kwargs)

    def name(self) -> str:
        """`aten::mm`, `aten::add.Tensor`."""
        return f"aten::{self.overloadpacket._name}" + (
            "" if self._overloadname == "default" else f".{self._overloadname}"
        )

    @property
    def namespace(self) -> str:
        """What stands before `::`."""
        return "aten"

    def __str__(self) -> str:
        return f"aten.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='aten.{self.overloadpacket._name}', overload='{self._overloadname}')>"

    def __reduce__(self) -> Any:
        return _restored, (self.overloadpacket._name, self._overloadname)


class OpOverloadPacket:
    """An op: its forms are attributes (`mm.default`, `add.Tensor`). Called, it is the function of that name."""

    def __init__(self, name: str, function: Callable[..., Any] | None) -> None:
        """`function`: None for an op that only has a name here."""
        self._name, self._function = self.__name__, _ = name, function
        self._made: dict[str, OpOverload] = {}

    def overloads(self) -> list[str]:
        """The names of its forms."""
        return list(_OVERLOADS.get(self._name, ("default",)))

    def __getattr__(self, overload: str) -> OpOverload:
        """One of its forms; AttributeError for another name."""
        if overload.startswith("_") or overload not in self.overloads():
            raise AttributeError(f"The underlying op of 'aten.{self._name}' has no overload name '{overload}'")
        return self._made.setdefault(overload, OpOverload(self, overload))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function; NotImplementedError for an op that has none here."""
        if self._function is None:
            known = _ONLY_NAMED.get(self._name)
            raise NotImplementedError(
                f"aten.{self._name} is only a name here, of what runs" + (f"; call {known}" if known else "")
            )
        return self._function(*args, **kwargs)

    def __str__(self) -> str:
        return f"aten.{self._name}"

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='aten.{self._name}')>"

    def __reduce__(self) -> Any:
        return _restored, (self._name, None)


def _restored(name: str, overload: str | None) -> Any:
    packet = _packet(name)
    return packet if overload is None else getattr(packet, overload)


_PACKETS: dict[str, OpOverloadPacket] = {}


def _packet(name: str) -> OpOverloadPacket:
    if name not in _PACKETS:
        _PACKETS[name] = OpOverloadPacket(name, _function(name))
    return _PACKETS[name]


def _function(name: str) -> Callable[..., Any] | None:
    if name in _ONLY_NAMED:
        return None
    for where in (minitensor, minitensor.nn.functional, Tensor):
        found = getattr(where, name, None)
        if callable(found) and not isinstance(found, type):
            return found  # type: ignore[no-any-return]
    return None


class Aten:
    """The namespace: an op for each function of tensors, and for what these run."""

    __name__ = "aten"

    def __getattr__(self, name: str) -> OpOverloadPacket:
        """An op; AttributeError if none is known by that name."""
        if name in _PACKETS or (not name.startswith("__") and (name in _ONLY_NAMED or _function(name) is not None)):
            return _packet(name)
        raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute '{name}'")

    def __repr__(self) -> str:
        return "<_OpNamespace 'aten'>"


def _name_of(row: str, operands: tuple[Any, ...], params: tuple[Any, ...]) -> str:
    if row == "attention":
        return "_scaled_dot_product_flash_attention" + ("_for_cpu" if operands[0].device.type == "cpu" else "")
    if row == "group_norm" and operands[0].ndim == 2 and params[0] == 1:
        return "native_layer_norm"
    if row == "full":
        return "full"
    if row == "_addmm" and operands[1].ndim == 3 and operands[2].ndim == 3:
        return "baddbmm"
    name = aten_name(row, [x.shape if isinstance(x, Tensor) else () for x in operands]).removeprefix("aten::")
    if name == "matmul":  # what PyTorch's runs for other dimensions
        ranks = [x.ndim for x in operands]
        return "mv" if 1 in ranks else "mm" if ranks[1] == 2 else "bmm"
    return name


def overload_of(row: str, operands: tuple[Any, ...], params: tuple[Any, ...]) -> OpOverload:
    """The op that a call of a row is by PyTorch's name, where there is one; else by the row's."""
    name = _name_of(row, operands, params)
    packet = _packet(name)
    overloads = packet.overloads()
    overload = overloads[0]
    if name in ("sum", "mean", "var", "any", "all") and params and params[0] is not None:
        overload = overloads[1]
    elif row in ("max_dim", "min_dim"):
        overload = "dim"
    elif name in _COMPARED and not isinstance(operands[1], Tensor):
        overload = "Scalar"
    elif name == "pow":
        base, exponent = (isinstance(x, Tensor) for x in operands)
        overload = "Tensor_Tensor" if base and exponent else "Tensor_Scalar" if base else "Scalar"
    elif name in ("masked_fill", "lerp") and isinstance(operands[2], Tensor):
        overload = "Tensor"
    return getattr(packet, overload)  # type: ignore[no-any-return]
