"""PyTorch's public names, and why some of them are not here."""

from __future__ import annotations

import inspect
import re
from typing import Any

import torch

__all__ = ["NAMESPACES", "exists", "public_names", "reason"]

NAMESPACES = ("torch", "Tensor", "nn.functional", "linalg", "fft", "special")

# Names that a module happens to have: imports, typing helpers, and what TorchScript and the build left there.
_NOT_API = re.compile(
    r"DType|Optional|Callable|Tensor$|TYPE_CHECKING|BroadcastingList\d|boolean_dispatch|handle_torch_function|"
    r"has_torch_function.*|importlib|math$|np$|torch$|warnings|dataclasses|multi_dim_common|.*_notes|common_args|factory_common_args|"
    r"assert_int_or_pair|PRIVATE_OPS|USE_.*|classproperty|typename|ScalingType|SwizzleType|GRID_SAMPLE_.*|"
    r"profiler_allow.*|prepare_multiprocessing_environment|get_file_path|.*_docstrings?|LinAlgError$"
)

_REASONS = [
    (r"(cudnn|miopen|mkldnn|fbgemm|nnpack)_.*|is_mkldnn|to_mkldnn|.*_mkldnn", "another library's kernels"),
    (r"(q_|qint|quint|qscheme|quantize|dequantize|quantized_|int_repr|fake_quantize|per_tensor_|per_channel_|empty_quant|"
     r"fused_moving|choose_qparams).*|QInt.*|QUInt.*|is_quantized|.*observer.*", "quantised tensors"),
    (r"to_padded.*|jagged|is_nested", "nested layouts"),
    (r"QU?Int.*Storage", "quantised tensors"),
    (r"Script.*|.*Type$|Aliasdb|AliasDb|Argument.*|Block|Call.*|Code|Compil.*|Concrete.*|Deserial.*|Error.*|"
     r"Exec.*|FileCheck|FunctionSchema|Future|Graph.*|IODesc.*|JITEx.*|Lite.*|Lock.*|Noop.*|Node|Operator.*|PyTorch.*|"
     r"Static.*|Tracing.*|Use|Value|Serial.*|Throughput.*|BufferDict|ParameterDict|ModuleDict|Dict.*|Await.*|Bench.*|"
     r"Capsule|DeepCopy.*|Disable.*|Dispatch.*|Exclude.*|IODescriptor|LoggerBase|UnionType|AggregationType|Tag|Gradient|"
     r"import_ir_module.*|parse_.*|fork|wait|jit.*|unify_type.*|merge_type.*|export|compile|compiler.*|cpp|"
     r"set_vital|read_vitals|vitals.*|get_.*_backend|script.*|Type|FatalError|AVG|SUM|CompleteArgumentSpec",
     "TorchScript and PyTorch's own compiler"),
    (r"(Sym|sym_).*", "symbolic shapes of PyTorch's compiler: under the alias only, of known numbers"),
    (r".*autocast.*", "mixed precision on devices that are not here"),
    (r"bits\d.*|bit$|float8.*|float4.*|u?int[1-7]$|complex32|chalf", "dtypes without arithmetic"),
    (r".*(xla|ipu|xpu|mtia|hpu|vulkan|maia|mps|metal).*", "devices that are not here"),
    (r"batch_norm_(stats|elemt|backward_reduce|backward_elemt|gather_stats|gather_stats_with_counts)",
     "steps of batch norm over several GPUs, which PyTorch has for CUDA only"),
    (r"scaled_grouped_mm", "groups of products of 8-bit floating-point numbers, which PyTorch has on CUDA only"),
    (r"grad_dtype", "a gradient has its tensor's dtype"),
    (r"is_distributed|reinforce|share_memory_|is_shared|.*named.*|names|rename.*|refine_names|align_.*|has_names",
     "named tensors and processes"),
]  # fmt: skip


def public_names(namespace: str) -> list[str]:
    """The names that users may use: not private, no module, and not what an import left there."""
    module = _resolve(torch, namespace)
    listed = set(getattr(module, "__all__", ()))
    names = []
    for name in dir(module):
        thing = _get(module, name)
        if (
            name.startswith("_")
            or inspect.ismodule(thing)
            or (_NOT_API.fullmatch(name) and (namespace, name) != ("torch", "Tensor"))
        ):
            continue
        documented = bool(str(getattr(thing, "__doc__", None) or "").strip())
        if documented or name in listed or namespace == "Tensor":
            names.append(name)
    return names


def exists(ours: Any, namespace: str, name: str) -> bool:
    """Whether the name is here."""
    module = _resolve(ours, namespace)
    return module is not None and hasattr(module, name)


def reason(name: str, namespace: str = "torch") -> str:
    """Why a missing name is missing."""
    if namespace in ("torch", "Tensor") and name in ("eig", "symeig", "lstsq", "solve", "matrix_rank"):
        return "removed in PyTorch: it only raises an error"
    if (namespace, name) == ("Tensor", "index"):
        return "dimensions as objects, which functorch has"
    return next((why for pattern, why in _REASONS if re.fullmatch(pattern, name)), "not done yet")


def _resolve(module: Any, namespace: str) -> Any:
    if namespace == "torch":
        return module
    for part in namespace.split("."):
        module = _get(module, part)
    return module


def _get(thing: Any, name: str) -> Any:
    try:
        return getattr(thing, name)
    except Exception:  # deprecated names warn or raise
        return None
