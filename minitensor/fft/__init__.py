"""Discrete Fourier transforms: `torch.fft`.

`n` and `s` are the sizes to transform, to which the input is cut or padded with zeros. `norm` is "backward" (only the
inverse is divided by n; the default), "ortho" (both by its square root) or "forward" (only the forward transform).
"""

from minitensor.fft.frequencies import fftfreq, fftshift, ifftshift, rfftfreq
from minitensor.fft.transforms import (
    fft,
    fft2,
    fftn,
    hfft,
    hfft2,
    hfftn,
    ifft,
    ifft2,
    ifftn,
    ihfft,
    ihfft2,
    ihfftn,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftn,
)

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
