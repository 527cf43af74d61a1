"""Collects the HLO files below tests/passes/PASS, which may be in folders: a module, `// -----`, and what the pass must
make of it (or `// UNCHANGED`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from minitensor_jit.ir.analysis.equal import difference
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.testing import random_arguments, same_bits
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.ir.text.printer import print_module
from minitensor_jit.passes.pass_manager import PassManager
from minitensor_jit.passes.pipeline import PASSES, pipeline

FOLDER = Path(__file__).parent
MARK = "// -----"
UNCHANGED = "// UNCHANGED"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite the expectations of tests/passes")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if file_path.suffix == ".hlo":
        return HloFile.from_parent(parent, path=file_path)
    return None


class HloFile(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        name = self.path.relative_to(FOLDER).with_suffix("")
        yield HloCase.from_parent(self, name=str(name))


class MismatchError(Exception):
    pass


class HloCase(pytest.Item):
    @property
    def tested(self) -> str:
        """The name of the pass, or "pipeline"."""
        return self.path.relative_to(FOLDER).parts[0]

    def runtest(self) -> None:
        before, _, expected = self.path.read_text().partition(f"\n{MARK}")
        name = self.tested
        module = parse_module(before)
        reference = module.clone()
        passes = pipeline() if name == "pipeline" else [PASSES[name]()]
        changed = PassManager(passes, verify=True).run(module)

        for seed in range(3):
            arguments = random_arguments(reference, seed)
            results = zip(evaluate(reference, arguments), evaluate(module, arguments), strict=True)
            for k, (want, got) in enumerate(results):
                if not same_bits(want, got):
                    raise MismatchError(f"result {k} has other bits for arguments of seed {seed}:\n{want}\n{got}")

        problem = difference(module, reference) if expected.strip() == UNCHANGED else None
        if expected.strip() != UNCHANGED:
            problem = (
                "there is no expectation yet" if not expected.strip() else difference(module, parse_module(expected))
            )
            if not changed:
                problem = problem or "the pass says that nothing changed"
        elif changed:
            problem = problem or "the pass says that it changed something"
        if problem and self.config.getoption("--update-golden"):
            after = print_module(module) if changed else f"{UNCHANGED}\n"
            self.path.write_text(f"{before.rstrip()}\n\n{MARK}\n\n{after}")
        elif problem:
            raise MismatchError(f"{problem}\n\nthe pass made\n\n{print_module(module)}")

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None) -> str:
        passes = "all" if self.tested == "pipeline" else self.tested
        command = f"python -m minitensor_jit.tools.opt --passes={passes} {self.path}"
        text = str(excinfo.value) if isinstance(excinfo.value, MismatchError) else str(super().repr_failure(excinfo))
        return f"{text}\n\nreproduce: {command}"

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, self.name
