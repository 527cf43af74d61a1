"""Settings of all pipes that a pipe takes: parts, order and seeds."""

from __future__ import annotations

import inspect
from typing import Any

from minitensor._C import int64
from minitensor._functions.offered import empty
from minitensor._warning import warn
from minitensor.random import Generator
from minitensor.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES
from minitensor.utils.data.graph import traverse_dps

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_settings", "get_all_graph_pipes"]


def get_all_graph_pipes(graph: dict[int, Any]) -> list[Any]:
    """The pipes of a graph, each once, from the last to the first."""
    seen: dict[int, Any] = {}

    def look(part: dict[int, Any]) -> None:
        for key, (pipe, below) in part.items():
            if key not in seen:
                seen[key] = pipe
                look(below)

    look(graph)
    return list(seen.values())


def _has(pipe: Any, *names: str) -> bool:
    return all(inspect.ismethod(getattr(pipe, name, None)) for name in names)


def apply_sharding(
    datapipe: Any, num_of_instances: int, instance_id: int, sharding_group: int = SHARDING_PRIORITIES.DEFAULT
) -> Any:
    """Make each pipe with a method `apply_sharding` a part. RuntimeError for two of them, one behind the other."""

    def look(graph: dict[int, Any], before: Any) -> None:
        for pipe, below in graph.values():
            applied = before
            if _has(pipe, "apply_sharding"):
                if before is not None:
                    raise RuntimeError(
                        "Sharding twice on a single pipeline is likely unintended and will cause data loss. Sharding "
                        f"already applied to {before} while trying to apply to {pipe}"
                    )
                if len(inspect.signature(pipe.apply_sharding).parameters) < 3:
                    pipe.apply_sharding(num_of_instances, instance_id)
                else:
                    pipe.apply_sharding(num_of_instances, instance_id, sharding_group=sharding_group)
                applied = pipe
            look(below, applied)

    look(traverse_dps(datapipe), None)
    return datapipe


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Turn all that shuffles on or off; where there is nothing, add it at the end, with a warning. None: as it is."""
    if shuffle is None:
        return datapipe
    found = [p for p in get_all_graph_pipes(traverse_dps(datapipe)) if _has(p, "set_shuffle", "set_seed")]
    if not found and shuffle:
        warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at the end. Be aware "
            "that the default buffer size might not be sufficient for your task."
        )
        datapipe = datapipe.shuffle()
        found = [datapipe]
    for pipe in found:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Generator) -> Any:
    """Seed all pipes with a method `set_seed` by numbers of a generator."""
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if _has(pipe, "set_seed"):
            pipe.set_seed(int(empty((), dtype=int64).random_(generator=rng).item()))
    return datapipe
