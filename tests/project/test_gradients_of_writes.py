"""What composites write has gradients, unless it is listed here with a reason.

A write is lost to the tape where it happens without recording, or goes to a detached tensor that shares memory.
"""

import ast
from pathlib import Path

import minitensor

PACKAGE = Path(minitensor.__file__).resolve().parent
PLACES = ("composite", "_functions", "ops", "nn/functional")
_OFF = frozenset({"no_grad", "inference_mode", "set_grad_enabled", "set_recording", "set_inference_mode"})
_NO_WRITES = frozenset({"requires_grad_", "detach_", "share_memory_"})
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)

LISTED = {
    "composite/linalg/lowrank.py:lobpcg": "iterates without gradients; those of its results are taken afterwards",
    "composite/metadata.py:pin_memory": "a copy that is a new tensor, for loaders",
    "nn/functional/lookup.py:_renormalize": "PyTorch's renormalization of embeddings is no part of the gradient",
    "nn/functional/lookup.py:_torch_embedding_bag": "indices, which have no gradient",
    "nn/functional/normalization.py:_update": "running statistics are buffers",
    "nn/functional/normalization.py:instance_norm": "running statistics are buffers",
    "ops/formula.py:differentiate": "gradients are taken inside of a formula, which records what is wanted itself",
}


def _called(node):
    """The last name of what is called."""
    function = node.func if isinstance(node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_detached(node):
    """Whether it is `x.detach()` or `x.data`, or a view of that."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("detach", "detach_"):
                return True
            if node.func.attr not in ("view", "reshape", "unsqueeze", "squeeze", "transpose", "movedim", "diagonal"):
                return False
            node = node.func.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        else:
            return isinstance(node, ast.Attribute) and node.attr == "data"


def _root(node):
    while isinstance(node, (ast.Subscript, ast.Attribute, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _writes(node):
    """What a node writes to in place, if it does."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        yield node.value
    elif isinstance(node, ast.Call):
        name = _called(node)
        in_place = name.endswith("_") and not name.endswith("__") and name not in _NO_WRITES
        if in_place and isinstance(node.func, ast.Attribute):
            yield node.func.value
        for keyword in node.keywords:
            if keyword.arg == "out" and not isinstance(keyword.value, ast.Constant):
                yield keyword.value


def _unrecords(node):
    """Whether it turns recording off; whatever is called inside may write."""
    if isinstance(node, ast.With):
        return any(_called(item.context_expr) in _OFF for item in node.items)
    return isinstance(node, ast.Call) and _called(node) in ("set_grad_enabled", "set_recording")


def lost_writes(function):
    """Why writes of a function are lost to the tape: they are unrecorded, to or of detached tensors."""
    nodes = list(ast.walk(function))
    detached = set()
    for node in nodes:
        if isinstance(node, ast.Assign) and _is_detached(node.value):
            detached.update(target.id for target in node.targets if isinstance(target, ast.Name))
    for node in nodes:
        for target in _writes(node):
            if _is_detached(target) or _root(target) in detached:
                yield "detached"
            if isinstance(node, ast.Call) and any(map(_is_detached, node.args)):
                yield "of detached"
        if _unrecords(node):
            yield "unrecorded"
    for decorator in getattr(function, "decorator_list", []):
        if ast.unparse(decorator).split("(")[0].split(".")[-1] in _OFF:
            yield "unrecorded"


def all_lost_writes():
    found = {}
    for place in PLACES:
        for path in sorted((PACKAGE / place).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, _FUNCTIONS) and not isinstance(node, ast.Lambda):
                    why = sorted(set(lost_writes(node)))
                    if why:
                        found[f"{path.relative_to(PACKAGE)}:{node.name}"] = why
    return found


def test_writes_are_recorded_or_listed():
    assert set(all_lost_writes()) == set(LISTED)


SAMPLE = """
def unrecorded(x):
    with mt.no_grad():
        x.mul_(2)
@no_grad()
def decorated(x): x.mul_(2)
def detached(x): x.detach().mul_(2)
def by_data(x): x.data[0] = 1
def by_a_name(x):
    own = x.detach()
    own[0] = 1
def by_a_view(x): x.detach().view(-1).add_(1)
def by_out(x, y): mt.add(x, y, out=x.detach())
def of_detached(x, y): return x.copy_(y.detach())
def recorded(x, y):
    rounded = x.detach().floor()
    x.sub_(rounded)
    x[0] = y
    return x.requires_grad_()
"""


def test_the_search_finds_each_way():
    found = {node.name: sorted(set(lost_writes(node))) for node in ast.parse(SAMPLE).body}
    assert found == {
        "unrecorded": ["unrecorded"], "decorated": ["unrecorded"], "detached": ["detached"], "by_data": ["detached"],
        "by_a_name": ["detached"], "by_a_view": ["detached"], "by_out": ["detached"], "of_detached": ["of detached"],
        "recorded": [],
    }  # fmt: skip
