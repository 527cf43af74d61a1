"""Transforms of functions: derivatives and vmap, which may be nested in any order."""

from minitensor._vmap import vmap
from minitensor.func.stateless import functional_call, stack_module_state
from minitensor.func.transforms import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]
