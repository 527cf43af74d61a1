"""Code that is compiled for all sizes of dimensions: which there is, and when it is made."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Protocol
from weakref import ref

from minitensor_jit.cache.disk_cache import DiskCache, key_of
from minitensor_jit.cache.executable_cache import ExecutableCache, module_id
from minitensor_jit.clustering.graph import Graph, Node
from minitensor_jit.compiler.compiled_cluster import Ready
from minitensor_jit.compiler.dynamic_shapes import Family, Place, Template, family_key, generalise, sizes_are_symbols
from minitensor_jit.flags import JitOptions
from minitensor_jit.inspect.report import Report
from minitensor_jit.ir.size import NotSymbolic, SizeContext, Sizes
from minitensor_jit.ir.text.printer import print_module
from minitensor_jit.log import log
from minitensor_jit.lowering.lower import LoweredCluster, lower_cluster
from minitensor_jit.runtime.executable import AnyExecutable

__all__ = ["AllSizes"]

_MAX_FAMILIES = 4096

_MOST_VARIANTS = 8
"""Of code for all sizes of the same dimensions, on disk."""
_MOST_IN_VAIN = 4
"""Of templates of a family, if none fits what comes next: its sizes have nothing to do with each other."""


class _Compiler(Protocol):
    """What generates code, and keeps it."""

    options: JitOptions
    disk: DiskCache | None
    executables: ExecutableCache

    @property
    def report(self) -> Report | None:
        """The account that is kept, if there is one."""
        ...

    def generate(self, lowered: LoweredCluster, name: str) -> AnyExecutable:
        """Code for a module, whatever was compiled before."""
        ...

    def ready(
        self,
        lowered: LoweredCluster,
        executable: AnyExecutable,
        module: str,
        *,
        sizes: Sizes = (),
    ) -> Ready:
        """How code is called for some sizes."""
        ...


class AllSizes:
    """The families of graphs that differ in sizes only, and their code."""

    def __init__(self, compiler: _Compiler) -> None:
        self._compiler = compiler
        self._options = compiler.options
        self._families: OrderedDict[Hashable, Family] = OrderedDict()

    def clear(self) -> None:
        """Forget all."""
        self._families.clear()

    def find(self, node: Node, name: str) -> tuple[Template, Ready] | None:
        """Code that was compiled for all sizes of dimensions, or is now, the second time that these differ.

        And the template that it was made from.
        """
        graph = node.subgraph
        assert graph is not None
        key = (node.must_compile, family_key(graph))
        family = self._families.pop(key, None) or Family()
        self._families[key] = family
        if len(self._families) > _MAX_FAMILIES:
            self._families.popitem(last=False)
        for template in family.templates:
            executable = template.executable()
            sizes = template.sizes_in(graph) if executable is not None else None
            if executable is not None and sizes is not None:
                family.hits += 1
                if self._compiler.report is not None:
                    self._compiler.report.record_hit(name)
                return template, self._compiler.ready(template.lowered, executable, "", sizes=sizes)
        if family.refusal:
            return None
        for before in family.candidates():
            try:
                general = generalise(before, graph, family.most_symbols)
            except NotSymbolic as refusal:
                log(self._options, "xla_compiler", 2, "%s: compiled for its sizes only: %s", name, refusal)
                continue
            try:
                template, executable = self._compile(*general, node, name)
            except Exception as error:  # what can't be said of sizes that are symbols can be of numbers
                if len(general[2]) > 1:  # perhaps of one of them
                    family.most_symbols = 1
                    log(self._options, "xla_compiler", 1, "%s: no code for several symbols: %s", name, error)
                    continue
                family.refusal = f"{type(error).__name__}: {error}"
                log(
                    self._options,
                    "xla_compiler",
                    1,
                    "%s: compiled for its sizes only: %s",
                    name,
                    family.refusal,
                )
                break
            family.templates = [one for one in family.templates if one.executable() is not None]
            family.templates.append(template)
            family.remember(graph)
            family.made += 1
            if family.made >= _MOST_IN_VAIN and not family.hits:
                family.refusal = f"{family.made} templates were made, and none was needed again"
                log(
                    self._options, "xla_compiler", 1, "%s: compiled for its sizes from now on: %s", name, family.refusal
                )
            sizes = template.context.hints
            return template, self._compiler.ready(template.lowered, executable, "", sizes=sizes)
        family.remember(graph)
        return None

    def _compile(
        self, graph: Graph, context: SizeContext, places: tuple[Place, ...], node: Node, name: str
    ) -> tuple[Template, AnyExecutable]:
        started = time.perf_counter()
        with sizes_are_symbols(context):
            lowered = lower_cluster(graph, name, symbols=len(places))
            lowered.module.name = "cluster"
            text = print_module(lowered.module, metadata=False)
            lowered.module.name = name
            executable, kept = self._kept_or_generated(lowered, name, f"{text}\n{context.expressions}")
        milliseconds = (time.perf_counter() - started) * 1e3
        guards = ", ".join(f"{n} > 0 is {answer}" for n, answer in context.guards) or "none"
        here = ", ".join(map(str, context.hints))
        what = f"for all sizes {_symbols(len(places))}, here {here}{', loaded from disk' if kept else ''}"
        log(
            self._options,
            "xla_compiler",
            1,
            "%s: ready in %.1f ms (%s; guards: %s)",
            name,
            milliseconds,
            what,
            guards,
        )
        if self._compiler.report is not None:
            self._compiler.report.record_compile(name, milliseconds, what)
        self._compiler.executables.insert(module_id(f"{text} {context.hints}"), executable, keep=not node.must_compile)
        return Template(graph, context, places, lowered, ref(executable)), executable

    def _kept_or_generated(self, lowered: LoweredCluster, name: str, text: str) -> tuple[AnyExecutable, bool]:
        """Code for all sizes, and whether it is from disk, where there are several entries: each has its guards."""
        if self._compiler.disk is None:
            return self._compiler.generate(lowered, name), False
        for variant in range(_MOST_VARIANTS):
            key = key_of(module_id(f"{text}\nvariant {variant}"), self._options)
            kept = self._compiler.disk.load(key, name, self._options)
            if kept is not None:
                return kept, True
            if not self._compiler.disk.has(key):
                break
        executable = self._compiler.generate(lowered, name)
        self._compiler.disk.store(key, executable)
        return executable, False


def _symbols(count: int) -> str:
    """How the dimensions are spoken of that are symbols."""
    return "s of a dimension" if count == 1 else ", ".join(f"s{n or ''}" for n in range(count)) + " of dimensions"
