"""Scripts of TensorFlow's first style: `import minitensor.compat.v1 as tf`.

A script makes a graph of ops and runs parts of it in sessions. What is here are minitensor's functions under
TensorFlow's names; docs/graphs.md has the list, and what differs. Names that aren't here are AttributeErrors that say
what to use.
"""

from __future__ import annotations

from minitensor import _C, ConfigProto, GraphOptions, OptimizerOptions, RunMetadata, RunOptions
from minitensor.compat.v1 import (
    app,
    contrib,
    errors,
    flags,
    initializers,
    layers,
    logging,
    losses,
    math,
    nn,
    random,
    summary,
    train,
)
from minitensor.compat.v1.errors import OpError
from minitensor.compat.v1.framework import operators as _operators
from minitensor.compat.v1.framework.constants import (
    as_dtype,
    constant,
    convert_to_tensor,
    identity,
    placeholder,
    placeholder_with_default,
)
from minitensor.compat.v1.framework.graph import (
    Graph,
    GraphKeys,
    Operation,
    Tensor,
    add_to_collection,
    control_dependencies,
    device,
    get_collection,
    get_default_graph,
    name_scope,
    reset_default_graph,
    set_random_seed,
)
from minitensor.compat.v1.framework.instead import missing as _missing
from minitensor.compat.v1.framework.shapes import Dimension, TensorShape
from minitensor.compat.v1.initializers import *  # noqa: F403
from minitensor.compat.v1.ops import array_ops as _array_ops
from minitensor.compat.v1.ops import math_ops as _math_ops
from minitensor.compat.v1.ops.array_ops import *  # noqa: F403
from minitensor.compat.v1.ops.control_flow import cond, while_loop
from minitensor.compat.v1.ops.gradients import gradients
from minitensor.compat.v1.ops.math_ops import *  # noqa: F403
from minitensor.compat.v1.ops.random_ops import random_normal, random_uniform, truncated_normal
from minitensor.compat.v1.ops.variables import (
    AUTO_REUSE,
    Variable,
    all_variables,
    assign,
    assign_add,
    assign_sub,
    get_variable,
    get_variable_scope,
    global_variables,
    global_variables_initializer,
    group,
    initialize_all_variables,
    initialize_local_variables,
    initialize_variables,
    local_variables,
    local_variables_initializer,
    no_op,
    trainable_variables,
    variable_scope,
    variables_initializer,
)
from minitensor.compat.v1.session import InteractiveSession, Session, get_default_session
from minitensor.compat.v1.switches import (
    disable_control_flow_v2,
    disable_eager_execution,
    disable_resource_variables,
    disable_tensor_equality,
    disable_v2_behavior,
    disable_v2_tensorshape,
    executing_eagerly,
)
from minitensor.session import GPUOptions

float16, float32, float64 = _C.float16, _C.float32, _C.float64
int8, int16, int32, int64, uint8 = _C.int8, _C.int16, _C.int32, _C.int64, _C.uint8
complex64, complex128 = _C.complex64, _C.complex128
bool = _C.bool
half, double = float16, float64
DType = _C.dtype
newaxis = None

__all__ = [
    "AUTO_REUSE", "ConfigProto", "DType", "Dimension", "GPUOptions", "Graph", "GraphKeys", "GraphOptions",
    "InteractiveSession", "OpError", "Operation", "OptimizerOptions", "RunMetadata", "RunOptions", "Session", "Tensor",
    "TensorShape", "Variable", "add_to_collection", "all_variables", "app", "as_dtype", "assign", "assign_add",
    "assign_sub", "bool", "complex128", "complex64", "cond", "constant", "contrib", "control_dependencies",
    "convert_to_tensor", "device", "disable_control_flow_v2", "disable_eager_execution", "disable_resource_variables",
    "disable_tensor_equality", "disable_v2_behavior", "disable_v2_tensorshape", "double", "errors", "executing_eagerly",
    "flags", "float16", "float32", "float64", "get_collection", "get_default_graph", "get_default_session",
    "get_variable", "get_variable_scope", "global_variables", "global_variables_initializer", "gradients", "group",
    "half", "identity", "initialize_all_variables", "initialize_local_variables", "initialize_variables", "int16",
    "int32", "int64", "int8", "layers", "local_variables", "local_variables_initializer", "logging", "losses", "math",
    "name_scope", "newaxis", "nn", "no_op", "placeholder", "placeholder_with_default", "random", "random_normal",
    "random_uniform", "reset_default_graph", "set_random_seed", "summary", "train", "trainable_variables",
    "truncated_normal", "uint8", "variable_scope", "variables_initializer", "while_loop",
    *initializers.__all__, *_array_ops.__all__, *_math_ops.__all__,
]  # fmt: skip


__getattr__ = _missing(__name__)
