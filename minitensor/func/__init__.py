"""Transforms of functions: derivatives and vmap, which may be nested in any order."""

from minitensor._vmap import vmap
from minitensor.func.programs import debug_unwrap, functionalize, replace_all_batch_norm_modules_
from minitensor.func.rearranging import rearrange
from minitensor.func.stateless import functional_call, stack_module_state
from minitensor.func.transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp

__all__ = [
    "debug_unwrap",
    "functional_call",
    "functionalize",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "rearrange",
    "replace_all_batch_norm_modules_",
    "stack_module_state",
    "vjp",
    "vmap",
]
