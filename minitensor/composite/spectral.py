"""Short-time Fourier transforms."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._warning import warn_of_pytorch
from minitensor.composite.padding import pad
from minitensor.composite.registry import autocast, composite
from minitensor.ops import ROWS
from minitensor.ops import fft as rows

__all__: list[str] = []


def _shown(name: str, input: Any, **arguments: Any) -> str:
    values = ", ".join(f"{k}={int(v) if isinstance(v, bool) else v}" for k, v in arguments.items())
    return f"{name}({input.dtype}{list(input.shape)}, {values})"


def _centred(window: Any, n_fft: int, win_length: int, like: Any) -> Any:
    """The window, or ones, in the middle of n_fft elements."""
    real = like.real.dtype if like.is_complex() else like.dtype
    if window is None:
        window = ROWS["full"].call((win_length,), 1.0, dtype=real)
    if win_length == n_fft:
        return window
    left = (n_fft - win_length) // 2
    sides = [ROWS["full"].call((n,), 0, dtype=window.dtype) for n in (left, n_fft - win_length - left)]
    return ROWS["cat"].call([sides[0], window, sides[1]], 0)


@composite()
@autocast("float32", "")
def stft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> _C.Tensor:
    """The Fourier transforms of overlapping frames of a signal (or a batch of them): [..., frequency, frame].

    Frames of n_fft samples, multiplied by the window, begin every hop_length (n_fft // 4) samples; with `center` the
    signal is padded so that frame t is centred at t * hop_length. Without `return_complex` the last dimension has real
    and imaginary parts.
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    is_complex = input.is_complex() or (window is not None and window.is_complex())
    if return_complex is None:
        if not is_complex:
            raise RuntimeError(
                "stft requires the return_complex parameter be given for real inputs, and will further require that "
                "return_complex=True in a future PyTorch release."
            )
        return_complex = True
    if window is None:
        warn_of_pytorch(
            "A window was not provided. A rectangular window will be applied,which is known to cause spectral leakage. "
            "Other windows such as minitensor.hann_window or minitensor.hamming_window are recommended to reduce "
            "spectral leakage.To suppress this warning and use a rectangular window, explicitly set "
            "`window=minitensor.ones(n_fft, device=<device>)`."
        )
    if center and align_to_window is not None:
        raise RuntimeError("stft align_to_window should only be set when center = false.")
    single = input.ndim == 1
    if center and n_fft > 0 and input.ndim in (1, 2):
        half = n_fft // 2
        shaped = input.reshape((1,) * (3 - input.ndim) + tuple(input.shape))
        input = pad(shaped, (half, half), pad_mode).reshape((*input.shape[:-1], -1))
    said = _shown(
        "stft", input, n_fft=n_fft, hop_length=hop, win_length=length, window=None if window is None else window.shape
    )
    if not input.dtype.is_floating_point and not input.dtype.is_complex:
        raise RuntimeError(f"{said} : expected a tensor of floating point or complex values")
    if input.ndim not in (1, 2):
        raise RuntimeError(f"{said} : expected a 1D or 2D tensor")
    signal = input.unsqueeze(0) if single else input
    count = signal.shape[1]
    if not 0 < n_fft <= count:
        raise RuntimeError(f"{said} : expected 0 < n_fft < {count}, but got n_fft={n_fft}")
    if hop <= 0:
        raise RuntimeError(f"{said} : expected hop_length > 0, but got hop_length={hop}")
    if not 0 < length <= n_fft:
        raise RuntimeError(f"{said} : expected 0 < win_length <= n_fft, but got win_length={length}")
    if window is not None and (window.ndim != 1 or window.shape[0] != length):
        raise RuntimeError(
            f"{said} : expected a 1D window tensor of size equal to win_length={length}, but got window with size "
            f"{list(window.shape)}"
        )
    if onesided and is_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    frames = signal.unfold(-1, n_fft, hop)
    if window is not None or length < n_fft:
        frames = frames * _centred(window, n_fft, length, signal)
    scale = 1 if normalized else 0
    if is_complex:
        found = rows.c2c(frames, (2,), scale, True)
    else:
        found = rows.r2c(frames, (2,), scale, onesided is None or onesided)
    found = found.mT
    if single:
        found = found.squeeze(0)
    return found if return_complex else ROWS["view_as_real"].call(found)


@composite()
def istft(
    input: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> _C.Tensor:
    """The signal of a short-time Fourier transform: the frames' overlapping sum over that of the squared windows.

    Griffin and Lim, "Signal estimation from modified short-time Fourier transform", IEEE Trans. ASSP 32 (1984).
    """
    hop = n_fft // 4 if hop_length is None else hop_length
    win = n_fft if win_length is None else win_length
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    if window is None:
        warn_of_pytorch(
            "A window was not provided. A rectangular window will be applied.Please provide the same window used by "
            "stft to make the inversion lossless.To suppress this warning and use a rectangular window, explicitly set "
            "`window=minitensor.ones(n_fft, device=<device>)`."
        )
    said = _shown(
        "istft", input, n_fft=n_fft, hop_length=hop, win_length=win, window=None if window is None else window.shape
    )
    if not input.numel():
        raise RuntimeError(f"{said} : input tensor cannot be empty.")
    if input.ndim < 2:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-input.ndim - 1}, {input.ndim}], but got -3)"
        )
    if input.ndim not in (2, 3):
        raise RuntimeError(f"{said} : expected a tensor with 3 or 4 dimensions, but got {input.ndim + 1}")
    sided = input.shape[-2] != n_fft if onesided is None else onesided
    if sided and return_complex:
        raise RuntimeError("Cannot have onesided output if window or input is complex")
    expected = n_fft // 2 + 1 if sided else n_fft
    if input.shape[-2] != expected:
        what = "n_fft / 2 + 1 when onesided=True" if sided else "n_fft when onesided=False"
        raise RuntimeError(
            f"{said} : expected the frequency dimension (3rd to the last) of the input tensor to match {what}, but got "
            f"{input.shape[-2]}"
        )
    if not 0 < hop <= win:
        raise RuntimeError(f"{said} : expected 0 < hop_length <= win_length")
    if not 0 < win <= n_fft:
        raise RuntimeError(f"{said} : expected 0 < win_length <= n_fft")
    if window is not None and (window.ndim != 1 or window.shape[0] != win):
        raise RuntimeError(f"{said} : Invalid window shape. window has to be 1D and length of `win_length`")
    spectra = (input.unsqueeze(0) if input.ndim == 2 else input).mT
    shape = _centred(window, n_fft, win, input)
    scale = 1 if normalized else 2
    if return_complex:
        frames = rows.c2c(spectra, (2,), scale, False)
    else:
        half = spectra if sided else spectra.narrow(2, 0, n_fft // 2 + 1)
        frames = rows.c2r(half, (2,), scale, n_fft)
    count = frames.shape[1]
    total = n_fft + hop * (count - 1)
    signal = _overlapping(frames * shape, hop, total)
    envelope = _overlapping((shape * shape).expand((1, count, n_fft)), hop, total)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - n_fft // 2 if center else total
    stop = min(end, total)
    signal, envelope = signal[:, start:stop], envelope[:, start:stop]
    smallest = envelope.detach().abs().amin()
    if not bool(smallest > 1e-11):
        raise RuntimeError(f"{said}window overlap add min: {smallest.item()}")
    signal = signal / envelope
    if end > total:
        zeros = ROWS["full"].call((signal.shape[0], end - total), 0, dtype=signal.dtype)
        signal = ROWS["cat"].call([signal, zeros], 1)
    return signal.squeeze(0) if input.ndim == 2 else signal


def _overlapping(frames: Any, hop: int, total: int) -> Any:
    """The sum of frames that begin every `hop` elements."""
    import numpy as np

    batch, count, size = frames.shape
    places = (np.arange(count)[:, None] * hop + np.arange(size)).reshape(-1)
    zeros = ROWS["full"].call((batch, total), 0, dtype=frames.dtype)
    return zeros.index_add(1, _C.from_numpy(places), frames.reshape((batch, count * size)))
