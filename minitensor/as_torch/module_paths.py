"""Where modules of PyTorch are here that minitensor keeps under another name."""

from __future__ import annotations

__all__ = ["BESIDE", "PATHS"]

_AT = {
    "autograd": "gradcheck=autograd.finite_differences profiler_util=profiler.events",
    "compiler": "config=as_torch.compiler_config",
    "cpu.amp": "autocast_mode=cpu.amp grad_scaler=cpu.amp",
    "cuda.amp": "autocast_mode=cuda.amp grad_scaler=cuda.amp",
    "distributed": "constants=distributed.groups.world",
    "distributed.fsdp": "fully_sharded_data_parallel=distributed.fsdp",
    "fx": "annotate=scripting.annotations",
    "masked": "maskedtensor=masked maskedtensor.core=masked.tensor maskedtensor.creation=masked.tensor",
    "multiprocessing": "pool=multiprocessing queue=multiprocessing",
    "nn.parallel": "parallel_apply=nn.parallel.parts replicate=nn.parallel.parts scatter_gather=nn.parallel.parts",
    "optim": "adamw=optim.adam",
    "profiler": "profiler=profiler.profile",
    "signal.windows": "windows=signal.windows",
    "utils": "model_zoo=as_torch.model_zoo",
    "utils.benchmark": "utils=utils.benchmark utils.common=utils.benchmark.measurement "
    "utils.compare=utils.benchmark.compare utils.timer=utils.benchmark.timing",
    "utils.data.datapipes.iter": "filelister=utils.data.datapipes.iter.files "
    "fileopener=utils.data.datapipes.iter.files selecting=utils.data.datapipes.iter.callable "
    "streamreader=utils.data.datapipes.iter.files utils=utils.data.datapipes.iter.files",
    "utils.data.datapipes.map": "callable=utils.data.datapipes.map.pipes combinatorics=utils.data.datapipes.map.pipes "
    "combining=utils.data.datapipes.map.pipes grouping=utils.data.datapipes.map.pipes "
    "utils=utils.data.datapipes.map.pipes",
    "utils.tensorboard": "summary=as_torch.summary",
}

# By PyTorch's names.
PATHS = {
    f"torch.{package}.{name}": f"minitensor.{ours}"
    for package, entries in _AT.items()
    for name, _, ours in (entry.partition("=") for entry in entries.split())
} | {"torch.functional": "minitensor", "torch._tensor_str": "minitensor._tensor.printing"}

# Those that are there as soon as their packages are: an import would replace a function of the same name, or the
# package is a single module here.
BESIDE = {
    "torch.autograd": ("gradcheck",),
    "torch.compiler": ("config",),
    "torch.distributed.fsdp": ("fully_sharded_data_parallel",),
    "torch.nn.parallel": ("parallel_apply", "replicate"),
    "torch.signal.windows": ("windows",),
    "torch.utils.benchmark.utils": ("timer",),
}
