"""What became of each op: its cluster, or why it stays eager and what would change that."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Reason(enum.Enum):
    """Why an op is in no cluster: a code, a sentence with a place for the detail, and what to do about it."""

    NOT_COMPILABLE = (
        "not-compilable",
        "it can't be compiled: {}",
        "keep it out of hot loops, since ops before and after it are clustered separately; where the shape of its "
        "result depends on data, compute on all elements instead, as where(mask, x, 0) does",
    )
    CLUSTERING_OFF = (
        "clustering-off",
        "clustering is off, and it is in no jit_scope",
        "set MT_JIT_FLAGS='--auto_jit=1 --cpu_global_jit', or put it in `with minitensor.jit_scope():`",
    )
    DEVICE_RULE = (
        "device-rule",
        "auto_jit leaves ops on {} alone",
        "add --cpu_global_jit to MT_JIT_FLAGS, or set optimizer_options.cpu_global_jit = True in the session's config",
    )
    UNKNOWN_DEVICE = (
        "unknown-device",
        "there is no code generator for the device {}",
        "move its tensors to a CPU or a CUDA device",
    )
    SCOPE_EXCLUDES = (
        "scope-excludes",
        "it is in a jit_scope(compile_ops=False), or in a scope that says so of it",
        "take it out of that scope",
    )
    TOO_SMALL = (
        "too-small",
        "its cluster would have {}",
        "lower --min_cluster_size, or put it in `with minitensor.jit_scope():`",
    )
    CYCLE = (
        "cycle",
        "{} stands between it and the ops that it could be compiled with",
        "move that op before or after both, or make it compilable",
    )
    SIZE_LIMIT = (
        "size-limit",
        "the cluster next to it has reached --max_cluster_size, and alone it has {}",
        "raise --max_cluster_size",
    )
    NOT_IN_OPS = (
        "not-in-ops-to-cluster",
        "{} is not among --ops_to_cluster",
        "add it or its group to --ops_to_cluster, or take that flag away",
    )
    EXCLUDED_OP = (
        "excluded-op",
        "{} is among --cluster_exclude_ops",
        "take it or its group out of --cluster_exclude_ops",
    )
    COST = (
        "predicted-loss",
        "compiling would not pay: {}",
        "use --auto_jit=2, or put it in `with minitensor.jit_scope():`",
    )
    TRIVIAL = (
        "trivial",
        "it computes nothing, and no cluster next to it can take it in",
        "let an op that is compiled make what it reads or read what it makes, or compile all of its function with "
        "minitensor.function(jit_compile=True); alone it would only be slower",
    )
    KERNEL_ALONE = (
        "kernel-alone",
        "compiled code would only call its kernel, and no cluster next to it can take it in",
        "let an op that is compiled make what it reads or read what it makes, or compile all of its function with "
        "minitensor.function(jit_compile=True); alone it would only be slower",
    )
    DECLUSTERED = (
        "declustered",
        "it is a view of the cluster's input that only ops outside the cluster use",
        "let an op of the cluster read it, or compile all of its function with minitensor.function(jit_compile=True); "
        "outside it costs nothing, inside its elements would be copied",
    )
    FUEL = (
        "fuel",
        "--clustering_fuel is used up",
        "raise --clustering_fuel, or take it away",
    )
    WAITING = (
        "not-yet-compiled",
        "its cluster is not compiled yet: {}",
        "let it run again, or set --enable_lazy_compilation=false and leave out --async_compilation and "
        "--always_defer_compilation",
    )
    MEASURED_LOSS = (
        "measured-loss",
        "its cluster was slower than its ops: {}",
        "use function(jit_compile=True), or set --measure_clusters=false",
    )
    RECORDING_LOSS = (
        "recording-loss",
        "recording was slower than running eagerly: {}",
        "read values less often, use function(jit_compile=True), or set --measure_clusters=false",
    )
    ARGUMENT = ("argument", "it is an argument, not an op", "")
    CONSTANT = ("constant", "it is a constant, of which every cluster that reads it has a copy", "")

    def __init__(self, code: str, sentence: str, fix: str) -> None:
        self.code = code
        self.sentence = sentence
        self.fix = fix


@dataclass(frozen=True, slots=True)
class Verdict:
    """Exactly one of: the name of a cluster, or a reason."""

    cluster: str | None = None
    reason: Reason | None = None
    detail: str = ""
    """What stands in the reason's sentence: the op in the way, the size."""

    def __post_init__(self) -> None:
        if (self.cluster is None) == (self.reason is None):
            raise ValueError("a verdict is a cluster or a reason, and not both")

    @property
    def clustered(self) -> bool:
        """Whether the op is compiled."""
        return self.reason is None

    @property
    def text(self) -> str:
        """The verdict as a clause: "cluster cluster_0", "it can't be compiled: ..."."""
        return f"cluster {self.cluster}" if self.reason is None else self.reason.sentence.format(self.detail)

    @property
    def fix(self) -> str:
        """What to do to get it compiled."""
        return "" if self.reason is None else self.reason.fix
