"""Misuse that takes more than one call; each scenario has assertions of its own that say what is right."""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import pickle
import weakref
from typing import Any

import numpy as np

import minitensor as mt
from fuzz.values import LARGE, Arguments, Evil, Subclass, normal


def freed_array(a: Arguments) -> None:
    array = np.arange(a.random.choice([3, LARGE]), dtype=np.float32)
    t = mt.from_numpy(array)
    del array
    gc.collect()
    (t + 1).sum().item()
    view = np.asarray(t)
    del t
    gc.collect()
    assert view[2] == 2


def exported_while_written(a: Arguments) -> None:
    t = mt.ones(a.random.choice([4, LARGE]))
    view = memoryview(t)
    shared = np.from_dlpack(t)
    t.add_(1)
    t.data = mt.zeros(2)
    view.release()
    assert shared[0] == 2
    t.numpy()[:] = 3
    assert t.tolist() == [3, 3]


def dlpack_misuse(a: Arguments) -> None:
    t = mt.ones(3)
    capsule = t.__dlpack__()
    mt._C.from_dlpack_capsule(capsule)
    for wrong in (capsule, 3, None, object()):
        try:
            mt._C.from_dlpack_capsule(wrong)
        except (ValueError, TypeError, RuntimeError):
            continue
        raise AssertionError("a capsule was consumed twice")
    del t
    gc.collect()
    for version in ((1, 0), (0, 8), None, ("a", 0), (2**70, 0), 1):
        with contextlib.suppress(TypeError, OverflowError, ValueError):
            mt.ones(2).__dlpack__(max_version=version)
    with contextlib.suppress(ValueError, RuntimeError, BufferError):
        mt.from_dlpack(np.arange(4)[::-1])


def changing_lists(a: Arguments) -> None:
    for make in (
        lambda items: mt.tensor(items),
        lambda items: mt.zeros(items),
        lambda items: mt.ones(2, 3).permute(items),
        lambda items: mt.ones(2, 3)[items],
    ):
        items: list[Any] = [1, 0]
        act = a.random.choice([items.clear, lambda items=items: items.extend([1] * 1000), items.pop])
        items.insert(0, Evil(1, act))
        with contextlib.suppress(Exception):
            make(items)
    t = mt.ones(2, 3)
    with contextlib.suppress(Exception):
        t[0, Evil(1, lambda: setattr(t, "data", mt.zeros(())))]
    tensors = [mt.ones(2), mt.ones(2)]
    with contextlib.suppress(Exception):
        mt.cat(tensors, Evil(0, tensors.clear))


def cycles(a: Arguments) -> None:
    cls = a.random.choice([mt.Tensor, Subclass])
    refs = []
    for _ in range(3):
        t = cls(mt.ones(2)).requires_grad_()
        t.me = t
        t.register_hook(lambda g, t=t: g)
        out = t * 2
        out.register_hook(lambda g, out=out: g)
        refs += [weakref.ref(t), weakref.ref(out)]
        if a.random.random() < 0.5:
            out.sum().backward()
    del t, out
    gc.collect()
    gc.collect()  # a leaf is found once the graphs that lead to it are gone
    assert all(ref() is None for ref in refs), [ref() is None for ref in refs]


def resurrected(a: Arguments) -> None:
    p = mt.ones(2).requires_grad_()
    (p * 2).sum().backward()
    seen = []

    class Watcher:
        def __del__(self) -> None:
            seen.append(p.grad)

    grad = p.grad
    grad.watcher = Watcher()
    ref = weakref.ref(grad, lambda _: seen.append(p.grad))
    del grad
    gc.collect()
    assert ref() is None or seen == []
    assert p.grad.tolist() == [2, 2]
    for g in seen:
        assert g.tolist() == [2, 2]

    class Slots(mt.Tensor):
        __slots__ = ("watcher",)

    slots = Slots(mt.ones(2))
    p.grad = slots
    slots.watcher = Watcher()
    del slots
    gc.collect()
    assert p.grad.tolist() == [1, 1]


def long_chains(a: Arguments) -> None:
    length = 20_000 if a.random.random() < 0.1 else 500
    x = y = mt.ones(2).requires_grad_()
    for _ in range(length):
        y = y * 1
    del y
    for _ in range(length):
        above = mt.ones(2)
        above.grad = x
        x = above
    del x, above
    gc.collect()


def hooks(a: Arguments) -> None:
    x = mt.ones(3).requires_grad_()
    handles: list[Any] = []

    def remove(g: Any) -> None:
        for handle in handles:
            handle.remove()

    handles += [x.register_hook(remove), x.register_hook(lambda g: g * 2), x.register_hook(remove)]
    (x * 2).sum().backward()
    for bad in (lambda g: 1, lambda g: mt.ones(7), lambda g: mt.ones(3, device="meta"), lambda g: 1 / 0, lambda: 0):
        x.register_hook(bad)
        with contextlib.suppress(Exception):
            (x * 2).sum().backward()
    y = (x.detach().requires_grad_() * 2).sum()
    y.register_hook(lambda g: y.backward(retain_graph=True) if a.random.random() < 0.3 else None)
    with contextlib.suppress(RuntimeError, RecursionError):
        y.backward()


def other_contents(a: Arguments) -> None:
    x = mt.ones(4)
    view = x[1:]
    x.data = mt.zeros(2, 3, dtype=mt.int64)
    view.add_(1)
    assert x.sum().item() == 0
    assert view.tolist() == [2, 2, 2]
    p = mt.ones(3).requires_grad_()
    out = (p * p).sum()
    p.data = mt.ones(5)
    with contextlib.suppress(RuntimeError):
        out.backward()
    with contextlib.suppress(RuntimeError):
        p.grad = p
    p.data = p
    del p.grad


def copies(a: Arguments) -> None:
    t = a.tensor()
    t.note = [1]
    for make in (copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))):
        try:
            made = make(t)
        except (RuntimeError, TypeError, NotImplementedError, pickle.PicklingError):
            continue
        assert normal(made) == normal(t)
    for broken in (b"", b"garbage", pickle.dumps(t)[:-5] if t.device.type == "cpu" and not t.requires_grad else b"x"):
        with contextlib.suppress(Exception):
            pickle.loads(broken)


def buffers(a: Arguments) -> None:
    t = a.tensor()
    for use in (
        io.BytesIO().write,
        bytes,
        memoryview,
        bytearray,
        np.frombuffer,
        np.asarray,
        lambda t: memoryview(t).cast("B"),
    ):
        with contextlib.suppress(BufferError, TypeError, RuntimeError, ValueError):
            use(t)
    with contextlib.suppress(BufferError, TypeError, RuntimeError, ValueError):
        io.BytesIO(b"\0" * 64).readinto(t)


def private_calls(a: Arguments) -> None:
    r = a.random
    for name in ("can_view", "nonzero", "masked_select", "register_hook", "set_grad_enabled", "set_inference_mode",
                 "empty", "tensor_from_data", "from_numpy", "fill_random", "inplace_form", "run_backward"):  # fmt: skip
        with contextlib.suppress(Exception):
            getattr(mt._C, name)(*[a.any() for _ in range(r.randrange(4))])
    mt._C.set_grad_enabled(True)
    mt._C.set_inference_mode(False)
    form = mt._C.inplace_form(mt.maximum)
    for args in ((), (1, mt.ones(2)), (None, 2), ("x",)):
        with contextlib.suppress(TypeError):
            form(*args)


MISUSES = [
    freed_array, exported_while_written, dlpack_misuse, changing_lists, cycles, resurrected, long_chains, hooks,
    other_contents, copies, buffers, private_calls,
]  # fmt: skip
