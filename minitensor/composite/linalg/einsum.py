"""einsum: sums of products in Einstein's notation, as matrix products."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor.composite.dims import type_name
from minitensor.composite.registry import autocast, composite
from minitensor.ops import ROWS

__all__: list[str] = []

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
# A label is a letter, or ("...", n) for the n-th dimension, from the end, of the ellipsis.
Label = Any
_OPTIMAL_UP_TO = 8


@composite(method=False)
@autocast("", "lower")
def einsum(*args: Any) -> _C.Tensor:
    """Sums of products of the operands' elements by the subscripts of `equation`, such as "ij,jk->ik".

    A subscript that is repeated within an operand takes a diagonal, one that isn't in the output is summed over, `...`
    stands for all other dimensions, which broadcast. Without "->" the output has the subscripts that appear once, in
    alphabetical order. Subscripts may also be given as lists of ints after each operand, the output's last. Several
    operands are multiplied in the order that costs least.
    """
    equation, operands = (args[0], args[1:]) if args else (None, ())
    if isinstance(equation, _C.Tensor):
        equation, operands = _from_sublists(args)
    elif not isinstance(equation, str) or not operands:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    inputs, output = _parse(equation, operands)
    sizes = _sizes(inputs, operands)
    terms = [_diagonals(t, labels) for t, labels in zip(operands, inputs, strict=True)]
    while len(terms) > 1:
        i, j = _next_pair([labels for _, labels in terms], output, sizes)
        b, a = terms.pop(j), terms.pop(i)
        kept = set(output).union(*(labels for _, labels in terms))
        terms.insert(0 if not terms else len(terms), _contract(a, b, kept, output))
    return _finish(*terms[0], output, sizes)


def _from_sublists(arguments: Sequence[Any]) -> tuple[str, tuple[Any, ...]]:
    def text(subscripts: Sequence[Any]) -> str:
        letters = []
        for s in subscripts:
            if s is Ellipsis:
                letters.append("...")
            elif 0 <= s < 52:
                letters.append(_LETTERS[s])
            else:
                raise ValueError("einsum(): subscript in subscript list is not within the valid range [0, 52)")
        return "".join(letters)

    if len(arguments) < 2:
        raise ValueError(
            "einsum(): must specify the equation string and at least one operand, or at least one operand and its "
            "subscripts list"
        )
    operands = tuple(arguments[: len(arguments) // 2 * 2 : 2])
    equation = ",".join(text(arguments[i + 1]) for i in range(0, 2 * len(operands), 2))
    if len(arguments) % 2:
        equation += "->" + text(arguments[-1])
    return equation, operands


def _parse(equation: str, operands: Sequence[Any]) -> tuple[list[list[Label]], list[Label]]:
    """The labels of the operands' dimensions and of the output's."""
    arrow = equation.find("->")
    left = equation if arrow < 0 else equation[:arrow]
    terms: list[list[str]] = [[]]
    found = False
    at = 0
    while at < len(left):
        character = left[at]
        if character == ".":
            if found:
                raise RuntimeError(
                    f"einsum(): found '.' for operand {len(terms) - 1} for which an ellipsis was already found"
                )
            if left[at : at + 3] != "...":
                raise RuntimeError(f"einsum(): found '.' for operand {len(terms) - 1} that is not part of any ellipsis")
            terms[-1].append("...")
            found = True
            at += 2
        elif character == ",":
            terms.append([])
            found = False
            if len(terms) > len(operands):
                raise RuntimeError("einsum(): fewer operands were provided than specified in the equation")
        elif character != " ":
            if character not in _LETTERS:
                raise RuntimeError(
                    f"einsum(): invalid subscript given at index {at} in the equation string, subscripts must be in "
                    "[a-zA-Z]"
                )
            terms[-1].append(character)
        at += 1
    if len(terms) < len(operands):
        raise RuntimeError("einsum(): more operands were provided than specified in the equation")
    inputs, widest = [], 0
    for i, (term, operand) in enumerate(zip(terms, operands, strict=True)):
        named = len(term) - ("..." in term)
        if "..." in term:
            if operand.ndim < named:
                raise RuntimeError(
                    f"einsum(): the number of subscripts in the equation ({named}) is more than the number of "
                    f"dimensions ({operand.ndim}) for operand {i}"
                )
        elif operand.ndim != named:
            raise RuntimeError(
                f"einsum(): the number of subscripts in the equation ({named}) does not match the number of dimensions "
                f"({operand.ndim}) for operand {i} and no ellipsis was given"
            )
        width = operand.ndim - named
        widest = max(widest, width)
        inputs.append(_spread(term, width))
    if arrow < 0:
        letters = [label for term in inputs for label in term if isinstance(label, str)]
        once = sorted(x for x in set(letters) if letters.count(x) == 1)
        return inputs, [*_spread(["..."], widest), *once]
    return inputs, _parse_output(equation, arrow + 2, inputs, widest)


def _spread(term: Sequence[str], width: int) -> list[Label]:
    """The labels with those of the ellipsis in its place."""
    found: list[Label] = []
    for label in term:
        found += [("...", n) for n in range(width, 0, -1)] if label == "..." else [label]
    return found


def _parse_output(equation: str, at: int, inputs: list[list[Label]], widest: int) -> list[Label]:
    term: list[str] = []
    given = {label for labels in inputs for label in labels}
    while at < len(equation):
        character = equation[at]
        if character == ".":
            if "..." in term:
                raise RuntimeError("einsum(): found '.' for output but an ellipsis (...) was already found")
            if equation[at : at + 3] != "...":
                raise RuntimeError("einsum(): found '.' for output that is not part of any ellipsis (...)")
            term.append("...")
            at += 2
        elif character != " ":
            if character not in _LETTERS:
                raise RuntimeError(
                    f"einsum(): invalid subscript given at index {at} in the equation string, subscripts must be in "
                    "[a-zA-Z]"
                )
            if character in term:
                raise RuntimeError(f"einsum(): output subscript {character} appears more than once in the output")
            if character not in given:
                raise RuntimeError(
                    f"einsum(): output subscript {character} does not appear in the equation for any input operand"
                )
            term.append(character)
        at += 1
    return _spread(term, widest)


def _sizes(inputs: list[list[Label]], operands: Sequence[Any]) -> dict[Label, int]:
    """The size of each label; those of 1 broadcast."""
    sizes: dict[Label, int] = {}
    for i, (labels, operand) in enumerate(zip(inputs, operands, strict=True)):
        own: dict[Label, int] = {}
        for label, size in zip(labels, operand.shape, strict=True):
            if own.setdefault(label, size) != size:
                raise RuntimeError(
                    f"einsum(): subscript {label} is repeated for operand {i} but the sizes don't match, "
                    f"{size} != {own[label]}"
                )
            if size == 1:
                sizes.setdefault(label, 1)
            elif sizes.setdefault(label, size) == 1:
                sizes[label] = size
            elif sizes[label] != size:
                name = label if isinstance(label, str) else "..."
                raise RuntimeError(
                    f"einsum(): subscript {name} has size {size} for operand {i} which does not broadcast with "
                    f"previously seen size {sizes[label]}"
                )
    return sizes


def _diagonals(t: Any, labels: list[Label]) -> tuple[Any, list[Label]]:
    """The operand with one dimension for each of its labels."""
    labels = list(labels)
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            t = t.diagonal(0, first, second)  # the last dimension now
            del labels[second], labels[first]
            labels.append(label)
    return t, labels


def _next_pair(terms: list[list[Label]], output: list[Label], sizes: dict[Label, int]) -> tuple[int, int]:
    """The two operands to multiply next."""
    n = len(terms)
    if n == 2:
        return 0, 1
    if n <= _OPTIMAL_UP_TO:
        return _cheapest_first_step(terms, output, sizes)
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    return min(pairs, key=lambda pair: _growth(terms, pair, output, sizes))


def _growth(
    terms: list[list[Label]], pair: tuple[int, int], output: list[Label], sizes: dict[Label, int]
) -> tuple[int, int]:
    """How much larger the product is than the two, and what it costs."""
    i, j = pair
    rest = {label for k, term in enumerate(terms) if k not in (i, j) for label in term} | set(output)
    both = {*terms[i], *terms[j]}
    made, first, second = (
        math.prod(sizes[label] for label in labels) for labels in (both & rest, set(terms[i]), set(terms[j]))
    )
    return made - first - second, math.prod(sizes[label] for label in both)


def _cheapest_first_step(terms: list[list[Label]], output: list[Label], sizes: dict[Label, int]) -> tuple[int, int]:
    """The first step of the order with the fewest multiplications: dynamic programming over sets of operands."""
    n = len(terms)
    full = (1 << n) - 1
    labels_of = [set().union(*(terms[k] for k in range(n) if chosen >> k & 1)) for chosen in range(full + 1)]
    kept = [labels_of[chosen] & (labels_of[full ^ chosen] | set(output)) for chosen in range(full + 1)]
    cost: list[float] = [math.inf] * (full + 1)
    first: list[tuple[int, int]] = [(0, 1)] * (full + 1)
    for chosen in range(1, full + 1):
        if chosen & (chosen - 1) == 0:
            cost[chosen] = 0
            continue
        part = (chosen - 1) & chosen
        while part:
            other = chosen ^ part
            if part > other:
                step = math.prod(sizes[label] for label in kept[part] | kept[other])
                total = cost[part] + cost[other] + step
                if total < cost[chosen]:
                    cost[chosen] = total
                    first[chosen] = _innermost(part, other, first)
            part = (part - 1) & chosen
    i, j = sorted(first[full])
    return i, j


def _innermost(part: int, other: int, first: list[tuple[int, int]]) -> tuple[int, int]:
    """A pair of single operands that is multiplied within one of two sets, or the sets themselves."""
    for chosen in (part, other):
        if chosen & (chosen - 1):
            return first[chosen]
    return part.bit_length() - 1, other.bit_length() - 1


def _contract(
    a: tuple[Any, list[Label]], b: tuple[Any, list[Label]], kept: set[Label], output: list[Label]
) -> tuple[Any, list[Label]]:
    """The product of two operands, summed over what nobody else has, as one batched matrix product."""
    x, of_x = _sum_own(*a, kept | set(b[1]))
    y, of_y = _sum_own(*b, kept | set(of_x))
    shared = [label for label in of_x if label in of_y]
    summed = [label for label in shared if label not in kept]
    if x.dtype != y.dtype:
        if any(1 not in (x.shape[of_x.index(label)], y.shape[of_y.index(label)]) for label in summed):
            raise RuntimeError(f"expected scalar type {type_name(x)} but found {type_name(y)}")
        x, y = (t.to(_C.promote_types(x.dtype, y.dtype)) for t in (x, y))
    # Where one has size 1 and the other not, the sum is that of the other alone.
    for label in summed:
        p, q = x.shape[of_x.index(label)], y.shape[of_y.index(label)]
        if p != q:
            if p == 1:
                y = _sum(y, [of_y.index(label)], True)
            else:
                x = _sum(x, [of_x.index(label)], True)
    batch = [label for label in shared if label in kept]
    only_x = [label for label in of_x if label not in of_y]
    only_y = [label for label in of_y if label not in of_x]

    def arranged(t: Any, labels: list[Label], order: list[Label]) -> Any:
        return t.permute([labels.index(label) for label in order]) if labels != order else t

    if not summed:
        # Nothing to sum: elementwise. In the output's order, since that decides how the product lies in memory.
        both = [*batch, *only_x, *only_y]
        order = [label for label in output if label in both] + [label for label in both if label not in output]

        def spread(t: Any, labels: list[Label]) -> Any:
            t = arranged(t, labels, [label for label in order if label in labels])
            for d, label in enumerate(order):
                t = t if label in labels else t.unsqueeze(d)
            return t

        return spread(x, of_x) * spread(y, of_y), order
    x, y = arranged(x, of_x, [*batch, *only_x, *summed]), arranged(y, of_y, [*batch, *summed, *only_y])
    nb = len(batch)
    batch_x: tuple[int, ...] = tuple(x.shape[:nb])
    batch_y: tuple[int, ...] = tuple(y.shape[:nb])
    rows, columns = tuple(x.shape[nb : nb + len(only_x)]), tuple(y.shape[nb + len(summed) :])
    k = math.prod(x.shape[nb + len(only_x) :])
    if batch_x == batch_y:
        flat: tuple[int, ...] = (math.prod(batch_x),) if nb else ()
        batch_x, batch_y, result_batch = flat, flat, batch_x
    else:
        result_batch = tuple(max(p, q) if 0 not in (p, q) else 0 for p, q in zip(batch_x, batch_y, strict=True))
    left = x.reshape((*batch_x, math.prod(rows), k))
    right = y.reshape((*batch_y, k, math.prod(columns)))
    product = ROWS["matmul"].call(left, right)
    return product.reshape((*result_batch, *rows, *columns)), [*batch, *only_x, *only_y]


def _sum_own(t: Any, labels: list[Label], wanted: set[Label]) -> tuple[Any, list[Label]]:
    """The operand summed over the labels that nobody wants."""
    dims = [d for d, label in enumerate(labels) if label not in wanted]
    if not dims:
        return t, labels
    return _sum(t, dims), [label for label in labels if label in wanted]


def _sum(t: Any, dims: list[int], keepdim: bool = False) -> Any:
    """The sum; of integers it is int64, of complex numbers that of their parts."""
    if not t.is_complex():
        return t.sum(dims, keepdim=keepdim)
    parts = ROWS["view_as_real"].call(t).sum(dims, keepdim=keepdim)
    return ROWS["view_as_complex"].call(parts)


def _finish(t: Any, labels: list[Label], output: list[Label], sizes: dict[Label, int]) -> Any:
    t, labels = _sum_own(t, labels, set(output))
    for missing in [label for label in output if label not in labels]:
        t, labels = t.unsqueeze(-1), [*labels, missing]
    return t.permute([labels.index(label) for label in output]) if labels != output else t
