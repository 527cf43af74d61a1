"""Sample arguments of the rows that move elements, or choose them by an index or a mask."""

from typing import Any

import minitensor as mt


def shape_forms(op: Any, index: Any) -> dict[str, list[tuple[Any, ...]]]:
    """The forms by row; `op` makes an operand, `index` one of integers."""

    def once(*places: Any) -> Any:
        """An index that names nothing twice, which a gradient of what it writes needs."""
        return mt.tensor(list(places))

    mask = {"dtype": "bool"}
    return {
        "_index": [
            (op(4, 5), index(3, below=4), (0,), False),
            (op(4, 5), index(2, 3, below=5), (1,), False),
            (op(2, 3, 4), index(5, below=6), (0, 1), True),
            (op(2, 3, 4), index(5, below=8), (0, 2), False),
            (op(2, 3, 4), index(2, 2, below=12, dtype="int32"), (1, 2), False),
            (op(4, 5, layout="transposed"), index(3, below=20), (0, 1), False),
            (op(6, 4, layout="strided"), index(below=6), (0,), False),
            (op(5, 3, layout="expanded"), once(-1, -3), (1,), False),
            (op(4, 5), index(0, below=4), (0,), False),
            (op(0, 5), index(0, below=4), (0,), False),
            (op(40, 3), index(70, below=40), (0,), False),
        ],
        "_index_put": [
            (op(4, 5), once(2, 0), op(2, 5), (0,), False, False),
            (op(4, 5), once(2, -4), op(5), (0,), False, False),
            (op(4, 5), once(7, 2, 11), op(), (0, 1), False, False),
            (op(2, 3, 4), once([1, 5], [7, 0]), op(2, 2, 3, layout="transposed"), (0, 2), False, False),
            (op(2, 3, 4), once(1, 2), op(2, 1, 4), (1,), True, False),
            (op(4, 5, layout="transposed"), once(3), op(4, 1), (1,), False, False),
            (op(4, 5), index(0, below=4), op(0, 5), (0,), False, False),
            (op(4, 5), index(9, below=4), op(9, 5), (0,), False, True),
            (op(7), index(70, below=7), op(70), (0,), False, True),
            (op(4, 5), index(3, 4, below=20), op(), (0, 1), True, True),
            (op(2, 3, 4), index(6, below=8), op(6, 3), (0, 2), False, True),
        ],
        "_flat_index": [
            ([index(3, below=4), index(3, below=5)], (4, 5), (0, 1)),
            ([index(3, 1, below=4, dtype="int32"), index(2, below=5)], (4, 5), (0, 2)),
            ([once(-1, 2), once(0), once(-2, 1)], (3, 4, 5), (0, 1, 3)),
            ([index(0, below=4), index(1, below=5)], (4, 5), (0, 1)),
        ],
        # Of the group of this process alone.
        "_all_reduce": [(op(4, 3), 0, 0), (op(2, 3, layout="transposed"), 4, 0), (op(), 0, 0), (op(0, 3), 3, 0)],
        "_all_gather": [(op(4, 3), 0), (op(3, 2, layout="strided"), 0)],
        "_reduce_scatter": [(op(4, 3), 0, 0), (op(4, layout="expanded"), 0, 0)],
        "_all_to_all": [(op(4, 3), (4,), (4,), 0), (op(0, 3), (0,), (0,), 0)],
        "_collective_broadcast": [(op(4, 3), 0, 0), (op(), 0, 0)],
        "_collective_permute": [(op(4, 3), (0, 0), 0), (op(4, 3), (), 0)],
        "scatter": [
            (op(4, 5), once([0, 2], [3, 1], [4, 0], [1, 2]), op(4, 2), 1),
            (op(4, 5), once([0, 1, 2, 3, 0]), op(2, 5), 0),
            (op(7), once(3, 6, 0), op(5), 0),
            (op(2, 3, 4, layout="transposed"), once([[1], [0], [2]]), op(1, 3, 1), 1),
            (op(3), index(0, below=3), op(0), 0),
            *((op(*x), index(*at, below=1), op(*at), 0) for x, at in (((), ()), ((), (1,)), ((1,), ()))),
        ],
        "_scatter_reduce": [
            (op(4, 5), index(4, 3, below=5), op(4, 3), 1, mode, keep) for mode in range(5) for keep in (True, False)
        ]
        + [(op(7), index(30, below=7), op(30), 0, mode, True) for mode in range(5)]
        + [(op(), index(below=1), op(), 0, mode, keep) for mode in range(5) for keep in (True, False)]
        + [(op(2, 3, 4), index(2, 5, 4, below=3), op(2, 6, 4), 1, mode, False) for mode in (0, 2, 3)],
        "masked_fill": [
            (op(4, 5), op(4, 5, **mask), 2),
            (op(4, 5), op(5, **mask), 0.5),
            (op(5), op(4, 5, **mask), op()),
            (op(4, 5, layout="transposed"), op(4, 1, **mask), op()),
            (op(6, 4, layout="strided"), op(6, 4, layout="strided", **mask), -1),
            (op(5, 3, layout="expanded"), op(**mask), 3),
            (op(), op(**mask), 1),
            (op(0, 3), op(3, **mask), 1),
            (op(70), op(70, **mask), op()),
        ],
        "_refuse_where": [(mt.zeros(size, dtype=mt.bool), 0) for size in ((4, 5), (3,), (), (0, 3))],
        "masked_scatter": [
            (op(4, 5), op(4, 5, **mask), op(20)),
            (op(4, 5), op(5, **mask), op(5, 5)),
            (op(4, 5, layout="transposed"), op(4, 1, **mask), op(4, 6, layout="transposed")),
            (op(0), op(0, **mask), op(0)),
        ],
        "flip": [
            (op(4, 5), (0,)),
            (op(4, 5), (0, -1)),
            (op(2, 3, 4), (1,)),
            (op(4, 5), ()),
            (op(33), (0,)),
            (op(4, 5, layout="transposed"), (1,)),
            (op(5, 3, layout="expanded"), (0,)),
            (op(0, 3), (0, 1)),
        ],
        "roll": [
            (op(4, 5), (1,)),
            (op(4, 5), (-3,), (1,)),
            (op(4, 5), (1, 7), (0, 1)),
            (op(2, 3, 4), (1, 1, 2), (0, 2, -1)),
            (op(4, 5, layout="transposed"), (2,), (0,)),
            (op(4, 5, layout="transposed"), (3,)),
            (op(5, 3, layout="expanded"), (1,), (1,)),
            (op(0, 3), (1,), (0,)),
        ],
        "_pad_around": [
            (op(2, 4, 5), (1, 2), 0),
            (op(2, 3, 4), (3, 1, 0, 2), 1),
            (op(2, 4, 5), (2, 5, 4, 0), 2),
            (op(2, 3, 4, 5, layout="transposed"), (1, 2, 0, 1, 2, 2), 0),
            (op(2, 1), (2, 0), 1),
        ],
        "_pad_around_backward": [
            (op(2, 4, 8), (1, 2), 0),
            (op(2, 5, 8), (3, 1, 0, 2), 1),
            (op(2, 8, 12), (2, 5, 4, 0), 2),
        ],
        "constant_pad_nd": [
            (op(4, 5), (1, 2)),
            (op(4, 5), (1, 2, 0, 3), 1.5),
            (op(4, 5), (-1, 2), 1),
            (op(4, 5), (-1, -2, 2, -1)),
            (op(2, 3, 4, layout="transposed"), (0, 1, 1, 1, 1, 0), -1),
            (op(3), ()),
            (op(0), (1, 1), 2),
            (op(5), (-5, 0)),
        ],
        "tril_indices": [(4, 5), (4, 5, 1), (5, 3, -2), (0, 3), (3, 3, -5), (3, 4, 10)],
        "triu_indices": [(4, 5), (4, 5, 1), (5, 3, -2), (0, 3), (3, 3, 5), (3, 4, -10)],
    }


DISTINCT = ("_scatter_reduce",)
