"""One module on its way through the compiler, for `--dump_to` and `--generate_hlo_graph`.

`stages_for` gives the compiler a `Stages`, which it tells of the module before, between and after the passes and of the
code that came of it.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping

from minitensor_jit.flags import STANDARD_OUTPUT, JitOptions
from minitensor_jit.inspect.dump import Dumper, ModuleDump
from minitensor_jit.inspect.module_record import ModuleRecord
from minitensor_jit.ir.module import Module
from minitensor_jit.ir.text.graphviz import print_dot
from minitensor_jit.ir.text.printer import print_module

__all__ = ["HloPictures", "Stages", "pictures_for", "stages_for"]

_NUMBERS: dict[str, itertools.count[int]] = {}
"""By folder: the number of the next picture."""


class HloPictures:
    """Draws the modules that `--generate_hlo_graph` chooses, as `hlo_graph_N.dot` in one folder."""

    def __init__(self, pattern: str, folder: str) -> None:
        self._pattern = re.compile(pattern)
        self._folder = folder
        self._dumper = Dumper(folder, flag="--hlo_graph_path")
        self._numbers = _NUMBERS.setdefault(self._dumper.folder, itertools.count())

    def wants(self, title: str) -> bool:
        """Whether the module of that title is to be drawn."""
        return self._pattern.search(title) is not None

    def draw(self, title: str, when: str, dot: str) -> None:
        """Write a picture, and say which one it is."""
        file = f"hlo_graph_{next(self._numbers)}.dot"
        if self._dumper.write(file, dot):
            print(f"computation {title} [CPU: {when}]: {os.path.join(self._folder, file)}", flush=True)


def pictures_for(options: JitOptions) -> HloPictures | None:
    """The pictures that the options ask for; DumpError if their folder can't be written to."""
    if options.generate_hlo_graph is None:
        return None
    dumps = None if options.dump_to == STANDARD_OUTPUT else options.dump_to
    return HloPictures(options.generate_hlo_graph, options.hlo_graph_path or dumps or ".")


class Stages:
    """Writes what a module is at each stage, in every way that was asked for."""

    def __init__(
        self,
        module: Module,
        constants: int,
        dump: ModuleDump | None,
        pictures: HloPictures | None,
        record: ModuleRecord | None = None,
    ) -> None:
        self.dump = dump
        self.record = record
        self._pictures = pictures
        # As a cluster's function is called in its graph, and a version: how many instructions it was lowered to.
        count = sum(len(computation.instructions) for computation in module.computations)
        self._title = f"{module.name}[_MtCompiledKernel=true,_MtNumConstantArgs={constants}].v{count}"
        if pictures is not None and not pictures.wants(self._title):
            self._pictures = None
        self._since = "pipeline start"
        # A picture says which pass is next, so it waits for that one.
        self._waiting: str | None = None

    def before(self, module: Module) -> None:
        """The module as it was lowered."""
        if self.record is not None:
            self.record.before(module)
        if self.dump is not None:
            dumper = self.dump.dumper
            # The program that runs the module alone reads the text.
            text = dumper.text or not dumper.to_stdout
            self._hlo("before_optimizations", module, text=text)
        if self._pictures is not None:
            self._waiting = print_dot(module)

    def on_pass(self, name: str, module: Module, changed: bool, rules: Mapping[str, int]) -> None:
        """The module after a pass, which applied its `rules` so often."""
        if self.record is not None:
            self.record.on_pass(name, module, changed, rules)
        if self._pictures is not None:
            if self._waiting is not None:
                self._pictures.draw(self._title, f"{self._since}, before {name}", self._waiting)
            self._since = f"after {name}"
            self._waiting = print_dot(module) if changed else None
        if self.dump is not None and changed:
            stage = self.dump.pass_stage(name)
            if self.dump.dumper.wants_pass(name):
                self._hlo(stage, module)

    def after(self, module: Module) -> None:
        """The module that code is generated from."""
        if self.dump is not None:
            self._hlo("after_optimizations", module)
        if self._pictures is not None:
            self._pictures.draw(self._title, f"{self._since}, pipeline end", print_dot(module))
            self._waiting = None

    def code(self, kind: str, text: str) -> None:
        """What code generation made: see `ModuleDump.code`."""
        if self.record is not None:
            self.record.code(kind, text)
        if self.dump is not None:
            self.dump.code(kind, text)

    def _hlo(self, stage: str, module: Module, *, text: bool | None = None) -> None:
        assert self.dump is not None
        dumper = self.dump.dumper
        wants_text = dumper.text if text is None else text
        self.dump.hlo(stage, print_module(module) if wants_text else None, print_dot(module) if dumper.dot else None)


def stages_for(
    module: Module,
    constants: int,
    dumper: Dumper | None,
    pictures: HloPictures | None,
    record: ModuleRecord | None = None,
) -> Stages | None:
    """What is to be told of this module's compilation, if anything is; `constants`: how many arguments are constant."""
    dump = None if dumper is None else dumper.module(module.name)
    if dump is None and pictures is None and record is None:
        return None
    return Stages(module, constants, dump, pictures, record)
