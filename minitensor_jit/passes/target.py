"""What passes know of the machine that code is made for: the kinds of kernels that its code generator has."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["CPU", "GPU", "Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """A target's abilities. A pass asks for one by name, and never which target it is."""

    calls_array_kernels: bool
    """Code can call the core's kernels of whole arrays, such as that of convolutions."""
    tiles_in_registers: bool
    """A product keeps a tile of its result in registers, so that an epilogue may widen and read it several times."""
    loops_by_table: bool
    """One kernel can go through loops over arrays of several sizes, whose addresses a table has."""
    mixed_products: bool
    """There is code for products of float16 and bfloat16 arrays in float32."""
    async_collectives: bool = False
    """Other devices can be waited for later than they are called, while other code runs."""
    narrow_products: bool = False
    """There are units for these products, so that it pays to make them."""


CPU = Target(
    calls_array_kernels=True,
    tiles_in_registers=False,
    loops_by_table=True,
    mixed_products=False,
    async_collectives=True,
)
GPU = Target(calls_array_kernels=False, tiles_in_registers=True, loops_by_table=False, mixed_products=True)
