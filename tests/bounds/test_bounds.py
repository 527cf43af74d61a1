"""Functions at the bounds of their arguments: the last that is taken, the first that is refused, and what is empty."""

from __future__ import annotations

from typing import Any

import bounds_of_functional
import bounds_of_numbers
import bounds_of_shapes
import numpy as np
import pytest

import minitensor as mt
import minitensor.nn.functional as F

TABLES = (bounds_of_functional, bounds_of_numbers, bounds_of_shapes)
VALUES = [row for table in TABLES for row in table.VALUES]
REFUSED = [row for table in TABLES for row in table.REFUSED]


def _plain(value: Any) -> Any:
    if isinstance(value, mt.Tensor):
        return value.tolist()
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _kinds(value: Any) -> Any:
    return [_kinds(one) for one in value] if isinstance(value, list) else type(value)


def _ragged(value: Any) -> bool:
    return isinstance(value, list) and len({len(one) for one in value if isinstance(one, list)}) > 1


@pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0")
@pytest.mark.parametrize(("text", "expected"), VALUES, ids=[text for text, _ in VALUES])
def test_values(text: str, expected: Any) -> None:
    mt.manual_seed(0)
    found = _plain(eval(text, {"mt": mt, "F": F}))
    assert _kinds(found) == _kinds(expected)  # shapes, and integers apart from floats
    if _ragged(expected):
        assert found == expected
    else:
        np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(("text", "error", "says"), REFUSED, ids=[text for text, _, _ in REFUSED])
def test_refused(text: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error) as refused:
        eval(text, {"mt": mt, "F": F})
    assert type(refused.value) is error
    assert str(refused.value).startswith(says)
