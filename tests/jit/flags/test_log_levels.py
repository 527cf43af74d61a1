"""What the compiler says has a level, so that it is silent where nobody asks, and a module that --vmodule knows."""

import ast
from pathlib import Path

import minitensor_jit
from minitensor_jit.flags import LOG_MODULES


def said():
    """(place, module, levels) of each call of what says something."""
    folder = Path(minitensor_jit.__file__).parent
    for path in sorted(folder.rglob("*.py")):
        tree = ast.parse(path.read_text())
        imports = [n for n in ast.walk(tree) if isinstance(n, ast.ImportFrom) and (n.module or "").endswith("log")]
        names = {alias.name for n in imports for alias in n.names}
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in names & {"log", "talks"}
            ):
                module, level = node.args[1:3]
                either = [level.body, level.orelse] if isinstance(level, ast.IfExp) else [level]
                levels = [getattr(part, "value", None) for part in either]
                yield f"{path.relative_to(folder)}:{node.lineno}", getattr(module, "value", None), levels


def test_everything_that_is_said_has_a_level_and_a_module():
    every = list(said())
    assert len(every) > 20
    assert [one for one in every if one[1] not in LOG_MODULES or not {*one[2]} <= {1, 2, 3}] == []
