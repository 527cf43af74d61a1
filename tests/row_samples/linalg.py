"""Sample arguments of the rows of linear algebra, transforms and distances."""

from __future__ import annotations

from typing import Any

import minitensor as mt

DOMAINS: dict[str, str] = {}


def forms(operand: Any) -> dict[str, list[tuple[Any, ...]]]:
    """The forms of each row, from the constructor of operands."""

    def op(*shape: int) -> Any:
        return operand(*shape, layout="finite")

    def definite(*shape: int) -> Any:
        return operand(*shape, layout="definite")

    def index(*shape: int, below: int) -> Any:
        return operand(*shape, below=below, dtype="int32")

    def spectrum(*shape: int) -> Any:
        return operand(*shape, dtype="complex128", layout="finite")

    zero = mt.tensor(0.0, dtype=mt.float64)
    small = mt.tensor(1e-9, dtype=mt.float64)
    square: list[tuple[Any, ...]] = [(op(3, 3),), (op(2, 4, 4),), (op(1, 1),), (op(2, 0, 0),), (op(40, 40),)]
    return {
        "_linalg_cholesky": [(definite(3, 3), False), (definite(2, 4, 4), True), (definite(2, 0, 0), False)],
        "_cholesky_solve": [
            (op(3, 2), definite(3, 3), False),
            (op(2, 3, 2), definite(2, 3, 3), True),
            (op(0, 2), definite(0, 0), False),
        ],
        "_cholesky_inverse": [(definite(3, 3), False), (definite(2, 4, 4), True), (definite(0, 0), False)],
        "_linalg_solve_triangular": [
            (definite(3, 3), op(3, 2), True, True, False),
            (definite(2, 3, 3), op(3, 2), False, True, True),
            (definite(3, 3), op(2, 4, 3), True, False, False),
            (definite(40, 40), op(40, 2), False, True, False),
            (definite(0, 0), op(0, 2), False, True, False),
        ],
        "_linalg_lu_factor": [*square, (op(3, 5),), (op(2, 5, 3),), (op(40, 35),)],
        "_lu_permutation": [(index(3, below=3), 3), (index(2, 2, below=4), 4)],
        "_linalg_inv": square,
        "_linalg_solve": [(op(3, 3), op(3, 2)), (op(2, 3, 3), op(3, 1)), (op(3, 3), op(2, 3, 4)), (op(0, 0), op(0, 2))],
        "_linalg_pinv": [
            (op(3, 5), zero, small, False),
            (op(2, 5, 3), zero, small, False),
            (op(3, 3), zero, small, False),
        ],
        "_linalg_lstsq": [(op(5, 3), op(5, 2), None), (op(3, 5), op(3, 1), None), (op(2, 4, 3), op(2, 4, 2), None)],
        "_linalg_det": square[:4],
        "_linalg_slogdet": square[:4],
        "_linalg_eigh": [
            (definite(3, 3), False, True),
            (definite(2, 4, 4), True, True),
            (definite(3, 3), False, False),
        ],
        "_linalg_eig": [(op(3, 3), True), (op(2, 3, 3), False)],
        "_linalg_svd": [
            (op(3, 3), True, True),
            (op(2, 5, 3), False, True),
            (op(3, 4), False, True),
            (op(3, 4), False, False),
        ],
        "_linalg_qr": [(op(3, 3), True), (op(2, 5, 3), False), (op(3, 5), False)],
        "_geqrf": [(op(5, 3),), (op(2, 3, 4),)],
        "_linalg_ldl_factor": [(definite(3, 3), False), (definite(2, 4, 4), True)],
        "_linalg_ldl_solve": [(definite(3, 3), mt.tensor([1, 2, 3], dtype=mt.int32), op(3, 2), False)],
        "_linalg_matrix_exp": square[:4],
        "_fft_c2c": [(spectrum(3, 4), [1], 0, True), (spectrum(3, 4), [0, 1], 1, False), (spectrum(5), [0], 2, True)],
        "_fft_r2c": [(op(3, 4), [1], 0, True), (op(3, 5), [1, 0], 1, False), (op(5), [0], 2, True)],
        "_fft_c2r": [(spectrum(3, 4), [1], 0, 7), (spectrum(3, 4), [1, 0], 1, 4), (spectrum(5), [0], 2, 8)],
        "_cdist": [
            (op(1, 4, 3), op(1, 5, 3), 2.0),
            (op(2, 4, 20), op(2, 3, 20), 1.0),
            (op(1, 4, 3), op(1, 2, 3), 3.0),
            (op(1, 3, 3), op(1, 2, 3), 1.5),
            (op(1, 3, 3), op(1, 2, 3), float("inf")),
            (op(1, 3, 3), op(1, 2, 3), 0.0),
            (op(1, 0, 3), op(1, 2, 3), 2.0),
        ],
    }
