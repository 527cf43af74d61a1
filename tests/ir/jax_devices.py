"""Programs of JAX on four devices, as files: HLO text before and after partitioning, what each device gets and gives.

`python jax_devices.py FOLDER`, in a process of its own: how many devices the CPU has is said before JAX is imported.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax, shard_map
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


def everything(x: Any, y: Any) -> Any:
    return (
        lax.psum(x, "i"), lax.all_gather(x, "i", tiled=True), lax.all_gather(x, "i", axis=1),
        lax.psum_scatter(y, "i", scatter_dimension=0, tiled=True), lax.ppermute(x, "i", [(0, 1), (1, 2), (2, 0)]),
        lax.all_to_all(y, "i", 0, 1, tiled=True), lax.all_to_all(y, "i", 0, 1), lax.pmax(x, "i"),
        x + lax.axis_index("i"), lax.pmean(x, "i"), lax.psum(x * 2, "i", axis_index_groups=[[0, 3], [1, 2]]),
    )  # fmt: skip


def mesh_of_two(x: Any) -> Any:
    return lax.psum(x, "i"), lax.psum(x, ("i", "j")), lax.all_gather(x, "j"), lax.psum((x, x * 2), "j")


def loop(x: Any) -> Any:
    return lax.fori_loop(0, 3, lambda n, v: lax.psum(v, "i") * 0.25 + lax.ppermute(v, "i", [(0, 1), (1, 0)]), x)


def training_step(w: Any, x: Any) -> Any:
    loss, gradient = jax.value_and_grad(lambda w: jnp.mean(jnp.tanh(x @ w) ** 2))(w)
    return w - 0.1 * lax.pmean(gradient, "i"), lax.pmean(loss, "i")


def keep(folder: Path, name: str, lowered: Any, arguments: tuple[Any, ...]) -> None:
    compiled = lowered.compile()
    (folder / f"{name}.before.hlo").write_text(lowered.as_text("hlo"))
    (folder / f"{name}.after.hlo").write_text(compiled.as_text())
    flat = jax.tree.leaves(compiled.input_shardings[0])
    given = [jax.device_put(a, s) for a, s in zip(arguments, flat, strict=True)]
    arrays = {}
    for what, values in (("arg", given), ("out", jax.tree.leaves(compiled(*given)))):
        for k, value in enumerate(values):
            for shard in value.addressable_shards:
                arrays[f"{what}{k}.{shard.device.id}"] = np.asarray(shard.data)
    np.savez(folder / f"{name}.npz", **arrays)


def main(folder: Path) -> None:
    devices = np.array(jax.devices())
    line, square = Mesh(devices, ("i",)), Mesh(devices.reshape(2, 2), ("i", "j"))
    random = np.random.default_rng(0)

    def normal(*dims: int) -> Any:
        return jnp.asarray(random.standard_normal(dims).astype(np.float32))

    x, y = normal(8, 3), normal(16, 4)
    for name, function, mesh, specs, arguments in (
        ("everything", everything, line, P("i"), (x, y)),
        ("mesh_of_two", mesh_of_two, square, P("i", "j"), (normal(4, 4),)),
        ("loop", loop, line, P("i"), (x,)),
        ("training_step", training_step, line, (P(), P("i")), (normal(3, 5), x)),
    ):
        out = P("i") if name == "everything" else P() if name == "training_step" else specs
        mapped = shard_map(function, mesh=mesh, in_specs=specs, out_specs=out, check_vma=False)
        placed = [NamedSharding(mesh, s) for s in (specs if name == "training_step" else [specs] * len(arguments))]
        keep(folder, name, jax.jit(mapped, in_shardings=placed).lower(*arguments), arguments)
    keep(folder, "pmap", jax.pmap(loop, axis_name="i").lower(normal(4, 2, 3)), (normal(4, 2, 3),))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
