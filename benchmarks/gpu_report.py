"""The results on a GPU as a page: ``docs/gpu-results.md``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.case import OURS, Case
from benchmarks.report import duration

Result = tuple[Case, dict[str, float], dict[str, str]]
"""A case, the medians of its contenders, and the problems of those that have none."""

PAGE = Path(__file__).resolve().parent.parent / "docs" / "gpu-results.md"

_INTRODUCTION = """# What was measured on a GPU

Written by `scripts/gpu_check`, which runs the tests on the GPU and then these cases. Every contender queues its work;
a round ends when the GPU has done all of it; medians of rounds taken in turns. `copy` is the driver's copy of as many
bytes as the case reads and writes, so a ratio of 1 to it is the GPU's bandwidth. Products of float32 are exact (no
tf32) on all sides.
"""


def gpu() -> dict[str, str]:
    """The GPU, its driver, and what ours is there."""
    import minitensor as mt

    properties = mt.cuda.get_device_properties(0)
    major, minor = mt.cuda.get_device_capability(0)
    version = mt.cuda.driver().get_driver_version()
    return {
        "GPU": f"{properties.name}, compute capability {major}.{minor}, {properties.multi_processor_count} "
        f"multiprocessors, {properties.total_memory / 2**30:.0f} GiB",
        "driver": f"CUDA {version // 1000}.{version % 1000 // 10}",
    }


def page(about: dict[str, str], results: Sequence[Result]) -> str:
    """The page of a run: when, where and with what, and a row for each contender of each case."""
    lines = [_INTRODUCTION, *(f"- {key[0].upper()}{key[1:]}: {value}" for key, value in about.items()), ""]
    lines += ["| case | contender | time | ours to it | goal | met |", "|---|---|---|---|---|---|"]
    for case, medians, problems in results:
        for name in case.contenders:
            goal = next((g for g in case.goals if g.peer == (None if name == OURS else name)), None)
            measured = duration(medians[name]) if name in medians else problems.get(name, "-").strip().splitlines()[-1]
            ratio = f"{medians[OURS] / medians[name]:.3f}" if name != OURS and {OURS, name} <= medians.keys() else ""
            limit, met = "", ""
            if goal is not None:
                limit = f"{goal.ratio:.3g}" if goal.seconds is None else duration(goal.seconds)
                met = {True: "yes", False: "**no**", None: "?"}[goal.met(medians)]
            title = case.title if name == OURS else ""
            lines.append(f"| {title} | {name} | {measured} | {ratio} | {limit} | {met} |")
    return "\n".join(lines) + "\n"


def write(about: dict[str, str], results: Sequence[Result], path: Path = PAGE) -> None:
    """Write the page, all of it or nothing."""
    draft = path.with_name(path.name + ".draft")
    draft.write_text(page(about, results))
    draft.replace(path)


def why_not() -> str | None:
    """Why there is no GPU to measure on, or None."""
    import minitensor as mt

    if mt.cuda.is_available():
        return None
    try:
        mt.zeros(1, device="cuda")
    except Exception as error:
        return str(error)
    return "minitensor.cuda.is_available() is False"
