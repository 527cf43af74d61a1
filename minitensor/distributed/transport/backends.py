"""The names of what carries messages, and which of them are there."""

from __future__ import annotations

import os
from collections import namedtuple
from collections.abc import Callable
from typing import Any, ClassVar

from minitensor import _C

__all__ = [
    "Backend",
    "BackendConfig",
    "get_default_backend_for_device",
    "is_backend_available",
    "is_gloo_available",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
]


class Backend(str):
    """A backend's name, in lower case. There are "gloo", over shared memory and TCP, and "mpi"."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"

    _BackendPlugin = namedtuple("_BackendPlugin", ["creator_fn", "extended_api"])
    _plugins: ClassVar[dict[str, Any]] = {}
    backend_list: ClassVar[list[str]] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map: ClassVar[dict[str, str]] = {"cpu": GLOO, "cuda": GLOO, "jit_cpu": GLOO}
    backend_capability: ClassVar[dict[str, list[str]]] = {
        GLOO: ["cpu", "cuda", "jit_cpu"],
        MPI: ["cpu", "cuda", "jit_cpu"],
    }

    def __new__(cls, name: str) -> Backend:
        """Make one; ValueError if that is no str."""
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, not {type(name).__name__}")
        return super().__new__(cls, name.lower())

    @classmethod
    def register_backend(
        cls, name: str, func: Callable[..., Any], extended_api: bool = False, devices: Any = None
    ) -> None:
        """Refuse: groups are made by this package's engine only. NotImplementedError."""
        raise NotImplementedError(f"Backend.register_backend({name!r}): only gloo and mpi carry messages here")


class BackendConfig:
    """Which backend is for which type of device: a name for all, or "cpu:gloo,cuda:nccl"."""

    def __init__(self, backend: str) -> None:
        self.device_backend_map: dict[str, Backend] = {}
        if backend == Backend.UNDEFINED:
            self.device_backend_map = {d: Backend(b) for d, b in Backend.default_device_backend_map.items()}
        elif ":" in backend:
            for pair in backend.lower().split(","):
                device, colon, name = pair.partition(":")
                if not (device and colon and name):
                    raise ValueError(
                        f"The custom backend string argument is invalid: {backend}.\n"
                        'Custom backend string is expected to be of the form: "<device_type>:<backend_name>".'
                    )
                if device in self.device_backend_map:
                    raise ValueError(f"Duplicate device type {device} in backend string: {backend}")
                self.device_backend_map[device] = Backend(name)
        else:
            devices = Backend.backend_capability.get(backend, ["cpu"])
            self.device_backend_map = {device: Backend(backend) for device in devices}

    def __repr__(self) -> str:
        return ",".join(f"{device}:{backend}" for device, backend in self.device_backend_map.items())

    def get_device_backend_map(self) -> dict[str, Backend]:
        """Return the table."""
        return self.device_backend_map


def is_gloo_available() -> bool:
    """Return True: the engine over shared memory and TCP answers to this name."""
    return True


def is_mpi_available() -> bool:
    """Return whether an MPI library with the standard's binary interface is found."""
    from minitensor.distributed.transport.mpi import library

    return library() is not None


def is_nccl_available() -> bool:
    """Return False: tensors of GPUs go through the CPU's memory."""
    return False


def is_ucc_available() -> bool:
    """Return False."""
    return False


def is_xccl_available() -> bool:
    """Return False."""
    return False


def is_backend_available(backend: str) -> bool:
    """Return whether a backend of that name is there."""
    return {"gloo": is_gloo_available, "mpi": is_mpi_available}.get(backend.lower(), lambda: False)()


def is_torchelastic_launched() -> bool:
    """Return whether a launcher, this package's or torchrun, started this process."""
    return os.environ.get("TORCHELASTIC_RUN_ID") is not None


def get_default_backend_for_device(device: Any) -> str:
    """Return the backend for tensors of a device. ValueError if there is none."""
    kind = _C.device(device).type
    if kind not in Backend.default_device_backend_map:
        raise ValueError(f"Default backend not registered for device : {device}")
    return Backend.default_device_backend_map[kind]


def usable(backend: str) -> Backend:
    """The one backend that a group is made with. RuntimeError if it isn't there."""
    names = set(BackendConfig(backend).device_backend_map.values())
    names = names - {Backend.NCCL} if len(names) > 1 else names  # "cpu:gloo,cuda:nccl": gloo takes both
    if len(names) != 1:
        raise RuntimeError(f"a group has one backend here, not {', '.join(sorted(names))}")
    (name,) = names
    if name in (Backend.GLOO, Backend.MPI):
        return Backend(name)
    hint = "; gloo takes tensors of GPUs too, through the CPU's memory" if name == Backend.NCCL else ""
    raise RuntimeError(f"Distributed package doesn't have {name.upper()} built in: there are gloo and mpi{hint}")
