"""LLVM in a process of its own. A file that imports nothing of the package, for it runs as a script too."""

from __future__ import annotations

import os
import pickle
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite.binding as llvm

__all__ = ["Machine"]


@dataclass(frozen=True)
class Machine:
    """What code is generated for."""

    triple: str
    cpu: str
    features: str
    level: int

    @property
    def key(self) -> tuple[str, str, str, int]:
        """What makes an equal one."""
        return self.triple, self.cpu, self.features, self.level

    def make(self) -> Any:
        """LLVM's target machine."""
        return _machine(self)


@cache
def _machine(machine: Machine) -> Any:
    if machine.triple.startswith("nvptx"):
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        form: dict[str, Any] = {}
    else:
        # The other targets would cost a hundred times as much.
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        form = {"reloc": "pic", "codemodel": "small", "jit": False}
    target = llvm.Target.from_triple(machine.triple)
    return target.create_target_machine(cpu=machine.cpu, features=machine.features, opt=machine.level, **form)


def _serve() -> None:
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what LLVM prints is no reply
    requests = sys.stdin.buffer
    while True:
        try:
            key, text, assembly = pickle.load(requests)
        except EOFError:
            return
        try:
            machine, module = Machine(*key).make(), llvm.parse_assembly(text)
            if not key[0].startswith("nvptx"):
                llvm.set_option("minitensor", "-disable-lsr=1")
            reply = (machine.emit_assembly(module).encode() if assembly else machine.emit_object(module), "")
        except RuntimeError as error:
            reply = (b"", str(error))
        pickle.dump(reply, replies)
        replies.flush()


if __name__ == "__main__":
    _serve()
