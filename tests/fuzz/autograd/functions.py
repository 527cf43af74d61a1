"""Custom Functions of any kind, as text, for `programs.py`."""

from __future__ import annotations

import random

CHECKPOINT_IMPORT = "import importlib; importlib.import_module(T.__name__ + '.utils.checkpoint')"
SOURCES = {
    "cube": "def cube(x): return x * x * x",
    "product": "def product(x, y): return (x * y).exp() * y",
    "writes": "def writes(x):\n    y = x * 2\n    y.mul_(x)\n    return y.tanh()",
    "writes_input": "def writes_input(x, y):\n    y.mul_(2)\n    return x * y",
    "views": "def views(x, y): return (x.view(-1) * y.reshape(-1)).sum() * x",
    "same": "def same(x): return x",
    "constant": "def constant(x): return x.detach() * 2",
    "inner_off": "def inner_off(x):\n    with T.no_grad():\n        y = x * 2\n    return y * x",
}
CHECKPOINTED = [(name, source.count(",", 0, source.index(")")) + 1) for name, source in SOURCES.items()]


def draw(rng: random.Random, name: str) -> tuple[str, int, int]:
    """The text of a Function, how many arguments it takes and how many results it gives (0: one, not in a tuple)."""
    arguments = [f"a{i}" for i in range(rng.choice([1, 1, 2, 2, 3]))]
    setup = rng.random() < 0.2
    body: list[str] = []
    context: list[str] = []
    values: list[str] = []
    for i in range(rng.choice([1, 1, 2, 2, 3])):
        x, y = rng.choice(arguments), rng.choice(arguments)
        form = rng.choice([
            f"{x} * 2", f"{x} * 2", f"{x} * {y}", x, x, f"{x}.view_as({x})", f"{x}[0]", f"{x}.detach()",
            f"{x}.mul_(2)", f"{x}.mul_(2)",
            f"{x}.sum()", f"{x}.t()", f"{x} > 1", "T.ones(2, dtype=T.float64)", f"{x}.view(-1)", f"{x}.mul_(2)",
            f"{x}.data", f"{x}.unsqueeze(0)",
        ])  # fmt: skip
        if values and rng.random() < 0.2:
            values.append(rng.choice(values))
            continue
        body.append(f"o{i} = {form}")
        if (".mul_" in form and rng.random() < 0.85) or (".mul_" not in form and form == x and rng.random() < 0.15):
            context.append(f"ctx.mark_dirty({x})")
        values.append(f"o{i}")
    dirty = [line[len("ctx.mark_dirty(") : -1] for line in context]
    context = [f"ctx.mark_dirty({', '.join(dict.fromkeys(dirty))})"] if dirty else []
    if rng.random() < 0.2:
        chosen = rng.choice(values)
        context.append(f"if isinstance({chosen}, T.Tensor): ctx.mark_non_differentiable({chosen})")
    if rng.random() < 0.25:
        context.append("ctx.set_materialize_grads(False)")
    saved = rng.choices([*arguments, *values], k=rng.choice([0, 1, 1, 2])) if rng.random() < 0.7 else []
    tensors = ", ".join(f"{s} if isinstance({s}, T.Tensor) else None" for s in saved)
    context.append(f"ctx.save_for_backward({tensors})")
    context.append(f"ctx.shapes = [x.shape if isinstance(x, T.Tensor) else None for x in ({', '.join(arguments)},)]")
    single = len(values) == 1 and rng.random() < 0.8
    returned = values[0] if single else f"({', '.join(values)},)"
    weights = [rng.choice([1, 2, 3]) for _ in values]
    names = ", ".join(f"g{i}" for i in range(len(values)))
    gradient = " + ".join(f"(0 if g{i} is None else g{i}.sum() * {w})" for i, w in enumerate(weights))
    once = rng.random() < 0.15
    lines = [f"class {name}(T.autograd.Function):", "    @staticmethod"]
    if setup:
        lines.append(f"    def forward({', '.join(arguments)}):")
        lines += [f"        {line}" for line in body]
        lines.append(f"        return {returned}")
        lines += ["    @staticmethod", "    def setup_context(ctx, inputs, output):"]
        lines.append(f"        {', '.join(arguments)}{',' if len(arguments) == 1 else ''} = inputs")
        unpacked = ", ".join(values)
        lines.append(f"        {unpacked} = output" if single else f"        {unpacked}, = output")
        lines += [f"        {line}" for line in context]
    else:
        lines.append(f"    def forward(ctx, {', '.join(arguments)}):")
        lines += [f"        {line}" for line in [*body, *context]]
        lines.append(f"        return {returned}")
    lines.append("    @staticmethod")
    if once:
        lines.append("    @T.autograd.function.once_differentiable")
    lines.append(f"    def backward(ctx, {names}):")
    lines.append(
        f"        log.append(('{name}', [g if g is None else g.detach().clone() for g in ({names},)], "
        "ctx.needs_input_grad))"
    )
    lines.append("        factor = 1.0")
    if saved:
        lines.append("        for s in ctx.saved_tensors:")
        lines.append("            factor = factor if s is None else factor + s.double().sum()")
    lines.append(f"        whole = ({gradient}) * factor")
    lines.append("        def of(shape, i):")
    lines.append(
        "            if shape is None or not ctx.needs_input_grad[i]:\n                return None\n"
        "            return T.ones(shape, dtype=T.float64) * whole * (i + 1)"
    )
    lines.append("        return tuple(of(shape, i) for i, shape in enumerate(ctx.shapes))")
    return "\n".join(lines), len(arguments), 0 if single else len(values)
