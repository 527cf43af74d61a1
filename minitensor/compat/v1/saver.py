"""Savers: variables of a session in minitensor's checkpoints, a file each."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

from minitensor import serialization
from minitensor.compat.v1.errors import FailedPreconditionError, InvalidArgumentError, NotFoundError
from minitensor.compat.v1.ops.variables import Variable, global_variables
from minitensor.serialization import load

__all__ = ["Saver", "latest_checkpoint"]

_STATE = "checkpoint"


class Saver:
    """Saves variables by their names, and restores them.

    A file is written beside its place and then put there: it is there entirely or not at all. `checkpoint`, in the same
    folder, names the latest one.
    """

    def __init__(self, var_list: Any = None, max_to_keep: int | None = 5, **other: Any) -> None:
        """`var_list`: variables, or a dict of such by the names that they have in files; all variables if not given."""
        if other:
            raise TypeError(f"Saver takes var_list and max_to_keep here, not {', '.join(other)}")
        found = global_variables() if var_list is None else var_list
        self._variables: dict[str, Variable] = (
            dict(found) if isinstance(found, dict) else {variable.op.name: variable for variable in found}
        )
        if not self._variables:
            raise ValueError("No variables to save")
        self._keep = max_to_keep or 0
        self._last: list[str] = []

    @property
    def last_checkpoints(self) -> list[str]:
        """The files that it wrote and that are kept, the latest last."""
        return list(self._last)

    def save(self, sess: Any, save_path: str, global_step: Any = None, **other: Any) -> str:
        """Write the variables of a session; the file's name is `save_path`, with `-` and the step if that is given.

        FailedPreconditionError for a variable without a value. Of older files `max_to_keep` are kept.
        """
        if unknown := other.keys() - {"write_meta_graph", "write_state"}:
            raise TypeError(f"save takes no {', '.join(sorted(unknown))} here")
        if global_step is not None:
            step = global_step if isinstance(global_step, int) else int(sess.run(global_step))
            save_path = f"{save_path}-{step}"
        path = os.path.abspath(save_path)
        values = {}
        for name, variable in self._variables.items():
            if variable not in sess.store.initialized:
                text = f"Attempting to use uninitialized value {variable.op.name}"
                raise FailedPreconditionError(None, variable.op, text)
            values[name] = sess.store.tensor(variable).detach().clone()
        if not os.path.isdir(os.path.dirname(path)):
            raise ValueError(f"Parent directory of {save_path} doesn't exist, can't save.")
        _put(path, lambda file: serialization.save(values, file))
        if path in self._last:
            self._last.remove(path)
        self._last.append(path)
        while self._keep and len(self._last) > self._keep:
            with contextlib.suppress(FileNotFoundError):
                os.remove(self._last.pop(0))
        if other.get("write_state", True):
            named = f'model_checkpoint_path: "{os.path.basename(path)}"\n'
            _put(os.path.join(os.path.dirname(path), _STATE), lambda file: Path(file).write_text(named))
        return save_path

    def restore(self, sess: Any, save_path: str) -> None:
        """Give the variables of a session the values of a file; they needn't be initialised.

        NotFoundError for a file that isn't there, or a name that isn't in it; InvalidArgumentError for another shape.
        """
        if not os.path.isfile(save_path):
            raise NotFoundError(None, None, f"there is no checkpoint {save_path}")
        values = load(save_path)
        for name, variable in self._variables.items():
            if not isinstance(values, dict) or name not in values:
                raise NotFoundError(None, variable.op, f"Key {name} not found in checkpoint {save_path}")
            if tuple(values[name].shape) != tuple(variable.shape.as_list()):
                text = f"{name} has shape {tuple(values[name].shape)} in {save_path}, the variable {variable.shape}"
                raise InvalidArgumentError(None, variable.op, text)
        for name, variable in self._variables.items():
            sess.store.load(variable, values[name])


def _put(path: str, write: Any) -> None:
    handle, beside = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".saving")
    os.close(handle)
    try:
        write(beside)
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(beside)
        raise


def latest_checkpoint(checkpoint_dir: str, latest_filename: str | None = None) -> str | None:
    """The file that was saved last in a folder, None if there is none."""
    try:
        with open(os.path.join(checkpoint_dir, latest_filename or _STATE)) as file:
            first = file.readline()
    except OSError:
        return None
    found = os.path.join(checkpoint_dir, first.partition('"')[2].rpartition('"')[0])
    return found if os.path.isfile(found) else None
