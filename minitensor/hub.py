"""Models from a folder with a `hubconf.py`, and checkpoints by their addresses, by PyTorch's names.

A folder is taken where it lies (`source="local"`); repositories aren't downloaded: clone them first. `hubconf.py` runs
when it is loaded, so trust where it comes from.
"""

from __future__ import annotations

import builtins
import hashlib
import importlib.util
import os
import re
import sys
import tempfile
import urllib.parse
import urllib.request
from typing import Any

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

_HASH = re.compile(r"-([a-f0-9]*)\.")
_CHUNK = 128 * 1024
_folder: str | None = None


def get_dir() -> str:
    """The folder where checkpoints are kept: what `set_dir` said, else `$TORCH_HOME/hub`, else ~/.cache/torch/hub."""
    if _folder is not None:
        return _folder
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.join(os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch"))), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder where checkpoints are kept."""
    global _folder
    _folder = os.path.expanduser(d)


def _config(path: Any) -> Any:
    """The module hubconf.py of a folder, whose own modules it may import."""
    folder = os.path.abspath(os.path.expanduser(path))
    file = os.path.join(folder, "hubconf.py")
    if not os.path.isfile(file):
        raise FileNotFoundError(f"there is no hubconf.py in '{folder}'")
    spec = importlib.util.spec_from_file_location("hubconf", file)
    assert spec is not None and spec.loader is not None  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    missing = [n for n in getattr(module, "dependencies", ()) if importlib.util.find_spec(n) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _entry(module: Any, name: Any) -> Any:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    found = getattr(module, name, None)
    if found is None or not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found


def _local(repo: Any, source: str) -> None:
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        raise NotImplementedError(
            f"repositories aren't downloaded: clone '{repo}', and give the folder with source=\"local\""
        )


def _repository(repo: Any) -> Any:
    _local(repo, "local" if os.path.isdir(os.path.expanduser(repo)) else "github")
    return _config(repo)


def list(
    github: Any, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = "check",
    verbose: bool = True,
) -> builtins.list[str]:  # fmt: skip
    """The names of what a folder's hubconf.py offers."""
    module = _repository(github)
    return [n for n in dir(module) if callable(getattr(module, n)) and not n.startswith("_")]


def help(
    github: Any, model: str, force_reload: bool = False, skip_validation: bool = False, trust_repo: Any = "check"
) -> str | None:
    """The documentation of one of them."""
    found: str | None = _entry(_repository(github), model).__doc__
    return found


def load(
    repo_or_dir: Any, model: str, *args: Any, source: str = "github", trust_repo: Any = "check",
    force_reload: bool = False, verbose: bool = True, skip_validation: bool = False, **kwargs: Any,
) -> Any:  # fmt: skip
    """What `model(*args, **kwargs)` of a folder's hubconf.py gives, with `source="local"`."""
    source = source.lower()
    _local(repo_or_dir, source)
    return _entry(_config(repo_or_dir), model)(*args, **kwargs)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Write what an address has to a file, which is there only when it is whole.

    RuntimeError if the SHA-256 of the contents doesn't begin with `hash_prefix`. `progress`: show a bar.
    """
    from tqdm import tqdm

    dst = os.path.expanduser(dst)
    request = urllib.request.Request(url, headers={"User-Agent": "minitensor.hub"})
    partial = tempfile.NamedTemporaryFile(dir=os.path.dirname(dst) or ".", delete=False, suffix=".partial")  # noqa: SIM115
    digest = hashlib.sha256()
    try:
        with partial, urllib.request.urlopen(request) as source:
            length = source.headers.get("Content-Length")
            total = int(length) if length else None
            with tqdm(total=total, disable=not progress, unit="B", unit_scale=True, unit_divisor=1024) as bar:
                while chunk := source.read(_CHUNK):
                    partial.write(chunk)
                    digest.update(chunk)
                    bar.update(len(chunk))
        found = digest.hexdigest()
        if hash_prefix is not None and not found.startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found}")')
        os.replace(partial.name, dst)
    finally:
        if os.path.exists(partial.name):
            os.remove(partial.name)


def load_state_dict_from_url(
    url: str, model_dir: str | None = None, map_location: Any = None, progress: bool = True, check_hash: bool = False,
    file_name: str | None = None, weights_only: bool = False,
) -> Any:  # fmt: skip
    """Load a checkpoint by its address; it is downloaded unless the folder has it already.

    `check_hash`: the name's part after the last dash is the beginning of its SHA-256, as in `resnet18-5c106cde.pth`.
    """
    from minitensor.serialization import load

    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urllib.parse.urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stdout.write(f'Downloading: "{url}" to {path}\n')
        named = _HASH.search(name) if check_hash else None
        download_url_to_file(url, path, named.group(1) if named else None, progress=progress)
    return load(path, map_location=map_location, weights_only=weights_only)
