"""x.to(..., memory_format=...) returns the tensor itself where PyTorch does, which reads the format from strides."""

import random

import pytest

import minitensor as mt

FORMATS = ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format")


def test_a_transposed_matrix_is_taken_to_be_row_major():
    x = mt.arange(6.0).reshape(2, 3).t()
    for format in (mt.contiguous_format, mt.preserve_format):
        assert x.to(memory_format=format) is x
        assert x.float(memory_format=format) is x
        assert x.to("cpu", memory_format=format) is x
    assert x.to(memory_format=mt.contiguous_format, copy=True).stride() == (2, 1)
    assert x.double(memory_format=mt.contiguous_format).stride() == (2, 1)


def test_images_change_their_format():
    image = mt.arange(120.0).reshape(2, 3, 4, 5)
    last = image.to(memory_format=mt.channels_last)
    assert last.stride() == (60, 1, 15, 3)
    assert last.to(memory_format=mt.channels_last) is last
    part = last[:, :, ::2]  # with gaps
    assert part.to(memory_format=mt.channels_last) is part
    back = last.to(memory_format=mt.contiguous_format)
    assert back.stride() == image.stride()
    assert back.tolist() == image.tolist()


def _pair(torch, draw):
    rank = draw.choice([2, 3, 4, 4, 5, 5])
    shape = [draw.choice([0, 1, 1, 2, 3, 3]) for _ in range(rank)]
    order = draw.sample(range(rank), rank) if draw.random() < 0.5 else [0, rank - 1, *range(1, rank - 1)]
    part = tuple(slice(None, None, draw.choice([1, 1, 2])) for _ in range(rank))
    return [library.zeros(shape).permute(order)[part] for library in (torch, mt)]


@pytest.mark.torch
@pytest.mark.parametrize("seed", range(4))
def test_the_same_tensors_come_back_as_in_pytorch(seed):
    torch = pytest.importorskip("torch")
    draw = random.Random(seed)
    same = 0
    for _ in range(300):
        theirs, ours = _pair(torch, draw)
        if tuple(theirs.stride()) != tuple(ours.stride()):
            continue
        for format in FORMATS:
            for dtype in ("float32", "float64"):
                found = []
                for library, x in ((torch, theirs), (mt, ours)):
                    try:
                        y = x.to(getattr(library, dtype), memory_format=getattr(library, format))
                    except RuntimeError:
                        found.append("refused")
                        continue
                    seen = [s for n, s in zip(y.shape, y.stride(), strict=True) if n > 1] if y.numel() else []
                    found.append((y is x, seen))
                assert found[0] == found[1], (theirs.shape, theirs.stride(), format, dtype)
                same += found[0][0] is True
    assert same > 50
