"""Imports only go down: the layers of docs/architecture.md, read from the sources."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Each line is a layer; what stands on a line may import from the lines above it and from itself, not from its
# neighbours.
CSRC = [
    ["core"],
    ["dispatch", "runtime", "distributed"],
    ["autograd", "kernels"],
    ["trace"],
    ["bindings"],
]
# What importing a module imports. A function may import from above when it is called: transforms call modules, say.
MINITENSOR = [
    ["_C", "_forks", "_import"],
    ["_warning"],
    ["_profile"],
    ["_functions.older_forms", "_jit.kept_plans"],
    ["_functions.checked", "_functions.named_results", "_functions.public_names", "_jit"],
    ["_tensor.copying", "_tensor.printing"],
    ["_functions.torch_function", "creation", "dtypes", "functional", "futures", "settings"],
    ["_tensor.typed_tensors", "ops", "return_types", "storage", "streams", "timeline"],
    # Functions that call ops: how they are entered, those of linear algebra, all others.
    ["composite.dims", "composite.numbers", "composite.registry"],
    ["_config", "backends", "cpu", "linalg", "profiler", "random"],
    ["session"],
    ["autograd", "composite", "cuda", "fft"],
    ["_tensor", "accelerator", "special"],
    # The list of what is offered. What is below it calls ops and composed functions where they are defined.
    ["_functions"],
    ["amp", "array_api", "autograd.variable", "distributed", "extend", "masked", "multiprocessing", "serialization"],
    ["overrides"],
    ["cpu.amp", "cuda.amp", "signal", "testing", "utils"],
    ["_vmap"],
    ["library", "nn"],
    ["compiler", "control_flow", "distributed.fsdp", "distributions", "func", "fx", "hub", "scripting", "sparse"],
    ["as_torch", "compat", "distributed._composable", "export", "optim"],
    ["distributed.optim"],
]
# Of these, functions import downwards too.
MINITENSOR_ALWAYS = [
    ["_C", "_forks"],
    ["_profile"],
    ["_jit.entry_points"],
    ["ops"],
    ["autograd"],
    ["nn", "data", "session", "timeline"],
    ["optim"],
]
MINITENSOR_JIT = [
    ["errors", "flags"],
    # What every stage may say, and where it may write.
    ["inspect.dump_index"],
    ["log", "inspect.dump"],
    ["ir"],
    ["passes", "clustering"],
    # A cluster, which is a graph of ops, becomes an HLO module.
    ["lowering"],
    # What code generation makes, and what that needs to run: nothing that compiles.
    ["runtime"],
    ["codegen"],
    # Dumps and reports are written while a trace is compiled.
    ["inspect"],
    ["cache"],
    # Calls all of these.
    ["compiler"],
    ["api"],
    ["state", "reports", "scopes"],
    ["functions"],
    ["compiled_function"],
    ["tools"],
]
# Modules import what they use from where it is defined. These mean the package itself.
THE_PACKAGE = {
    "minitensor/as_torch": "which stands for torch",
    "minitensor/export/nodes.py": "finds functions by the names in files",
    "minitensor/fx/code.py": "finds functions by their public names, and gives them to generated code",
    "minitensor/fx/graph_module.py": "gives it to generated code",
    "minitensor/library/aten.py": "finds functions by the names of ops",
    "minitensor/library/custom_ops.py": "finds dtypes by all names that they have in schemas",
    "minitensor/nn/modules/rnn.py": "calls functions at the top that are made of nn.functional",
    "minitensor/overrides.py": "lists what can be overridden",
    "minitensor/scripting/functions.py": "gives it to code",
    "minitensor/utils/benchmark/timing.py": "gives it to the timed statement",
    "minitensor_jit/api.py": "knows the user's frames from its own by its folder, and functions by their names",
    "minitensor_jit/inspect/run_record.py": "knows the user's frames from its own by its folder",
    "minitensor_jit/state/observer.py": "knows the user's frames from its own by its folder",
}
UNWANTED_NAMES = {"utils", "util", "helpers", "manager", "common", "misc"}


def ranks(layers: list[list[str]]) -> dict[str, int]:
    return {name: rank for rank, names in enumerate(layers) for name in names}


def may_import(layers: list[list[str]], importer: str, imported: str) -> bool:
    rank = ranks(layers)
    return importer == imported or rank[imported] < rank[importer]


def python_files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


def part_of(parts: list[str], rank: dict[str, int]) -> str:
    """The part of a package that a module belongs to: its longest prefix that has a layer, else its first name."""
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in rank:
            return ".".join(parts[:length])
    return parts[0] if parts else ""


def module_parts(path: Path, package: str) -> list[str]:
    """The names below the package of the module in a file; none for the package's own ``__init__``."""
    parts = path.relative_to(ROOT / package).with_suffix("").parts
    return list(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, top_level_only: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the line and the dotted name of everything that a file imports; imports for type checkers don't count."""

    def visit(node: ast.AST) -> Iterator[tuple[int, str]]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            return
        if top_level_only and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            return
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = path.relative_to(ROOT).parent.parts
                base = ".".join([*package[: len(package) - node.level + 1], *([base] if base else [])])
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        for child in ast.iter_child_nodes(node):
            yield from visit(child)

    yield from visit(ast.parse(path.read_text()))


def violations(package: str, layers: list[list[str]], top_level_only: bool = False) -> list[str]:
    found = []
    rank = ranks(layers)
    for path in python_files(package):
        importer = part_of(module_parts(path, package), rank)
        if importer not in rank:
            continue
        for line, name in imports(path, top_level_only):
            top, *parts = name.split(".")
            imported = part_of(parts, rank)
            if top == package and imported in rank and not may_import(layers, importer, imported):
                found.append(f"{path.relative_to(ROOT)}:{line}: {importer} imports {name}")
    return found


def test_minitensor_imports_go_down():
    assert violations("minitensor", MINITENSOR, top_level_only=True) == []
    assert violations("minitensor", MINITENSOR_ALWAYS) == []


def test_every_part_of_minitensor_has_a_layer():
    rank = ranks(MINITENSOR)
    parts = {part_of(module_parts(path, "minitensor"), rank) for path in python_files("minitensor")}
    assert parts - {"", *rank} == set()


def test_minitensor_jit_imports_go_down():
    assert violations("minitensor_jit", MINITENSOR_JIT) == []


def test_every_part_of_the_compiler_has_a_layer():
    rank = ranks(MINITENSOR_JIT)
    parts = {part_of(module_parts(path, "minitensor_jit"), rank) for path in python_files("minitensor_jit")}
    assert parts - {"", *rank} == set()


def test_minitensor_finds_the_compiler_lazily():
    found = []
    for path in python_files("minitensor"):
        for line, name in imports(path, top_level_only=True):
            if name.split(".")[0] in ("minitensor_jit", "llvmlite"):
                found.append(f"{path.relative_to(ROOT)}:{line}: {name}")
    assert found == []


def test_the_ir_knows_neither_tensors_nor_llvm():
    found = []
    for folder in ("ir", "passes"):
        for path in python_files(f"minitensor_jit/{folder}"):
            for line, name in imports(path):
                if name.split(".")[0] in ("minitensor", "llvmlite"):
                    found.append(f"{path.relative_to(ROOT)}:{line}: {name}")
    assert found == []


def test_includes_go_down():
    found = []
    rank = ranks(CSRC)
    for path in sorted((ROOT / "csrc").rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        importer = path.relative_to(ROOT / "csrc").parts[0]
        for number, line in enumerate(path.read_text().splitlines(), 1):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if match is None:
                continue
            included = match[1].split("/")[0]
            where = f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
            # Every include names its folder, so that the reader and this test know the layer.
            if included not in rank or not may_import(CSRC, importer, included):
                found.append(where)
    assert found == []


def test_no_header_brings_the_settings_to_every_binding():
    headers = [
        path for path in (ROOT / "csrc").rglob("*.h") if '#include "dispatch/thread_local_state.h"' in path.read_text()
    ]
    assert headers == [ROOT / "csrc/autograd/autocast.h"]


def test_modules_import_what_they_use():
    found = set()
    for package in ("minitensor", "minitensor_jit"):
        for path in python_files(package):
            if any(name == "minitensor" for _, name in imports(path)):
                found.add(str(path.relative_to(ROOT)))
    known = {path for path in found if any(path.startswith(place) for place in THE_PACKAGE)}
    assert found - known == set()
    assert {place for place in THE_PACKAGE if not any(path.startswith(place) for path in known)} == set()


def test_every_folder_with_code_is_a_package():
    # setuptools leaves the others out of an installation.
    folders = {path.parent for package in ("minitensor", "minitensor_jit") for path in python_files(package)}
    assert [str(folder.relative_to(ROOT)) for folder in sorted(folders) if not (folder / "__init__.py").is_file()] == []


def test_no_drawers():
    found = []
    for folder in ("csrc", "minitensor", "minitensor_jit", "benchmarks", "examples"):
        found += [str(p.relative_to(ROOT)) for p in (ROOT / folder).rglob("*") if p.stem in UNWANTED_NAMES]
    # Those that have their names from PyTorch.
    assert set(found) <= {"minitensor/nn/modules/utils.py", "minitensor/nn/utils", "minitensor/utils"}


@pytest.mark.parametrize("module", ["llvmlite", "minitensor_jit", "tqdm", "pycuda"])
def test_importing_minitensor_does_not_load(module):
    code = f"import sys, minitensor; sys.exit({module!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0


def test_the_rules_can_fail():
    assert not may_import(CSRC, "core", "dispatch")
    assert not may_import(CSRC, "autograd", "kernels")
    assert may_import(MINITENSOR_JIT, "tools", "ir")
    assert [name for _, name in imports(Path(__file__))][:3] == ["ast", "re", "subprocess"]
