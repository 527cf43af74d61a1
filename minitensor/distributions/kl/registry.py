"""Which function knows the divergence of two distributions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor._warning import warn
from minitensor.distributions.distribution import Distribution

__all__ = ["kl_divergence", "register_kl"]

Formula = Callable[[Any, Any], Any]
_KL_REGISTRY: dict[tuple[type, type], Formula] = {}
_found: dict[tuple[type, type], Formula] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """A decorator that enters a function of distributions p and q for two classes and what is derived of them.

    Where several functions fit, that of the classes next to the distributions' own is taken.
    """
    for given in (type_p, type_q):
        if not isinstance(given, type):
            raise TypeError(f"Expected type_p and type_q to be types but got {given!r}")
        if not issubclass(given, Distribution):
            raise TypeError(f"Expected a subclass of Distribution but got {given.__name__}")

    def enter(formula: Formula) -> Formula:
        _KL_REGISTRY[type_p, type_q] = formula
        _found.clear()
        return formula

    return enter


def _formula(type_p: type, type_q: type) -> Formula | None:
    """The function for two classes. Where the next to p's is not the next to q's, p decides, with a warning."""
    fits = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not fits:
        return None

    def distance(of: type, to: type) -> int:
        return of.__mro__.index(to)

    by_p = min(fits, key=lambda pair: (distance(type_p, pair[0]), distance(type_q, pair[1])))
    by_q = min(fits, key=lambda pair: (distance(type_q, pair[1]), distance(type_p, pair[0])))
    if _KL_REGISTRY[by_p] is not _KL_REGISTRY[by_q]:
        warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({by_p[0].__name__}, {by_q[1].__name__})",
            RuntimeWarning,
        )
    return _KL_REGISTRY[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Any:
    """KL(p || q) in nats, with the shape of the batch. NotImplementedError for pairs without a formula."""
    pair = type(p), type(q)
    formula = _found.get(pair)
    if formula is None:
        formula = _formula(*pair)
        if formula is None:
            raise NotImplementedError(
                f"No KL(p || q) is implemented for p type {pair[0].__name__} and q type {pair[1].__name__}"
            )
        _found[pair] = formula
    return formula(p, q)
