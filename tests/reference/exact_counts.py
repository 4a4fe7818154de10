"""Counts from the definition, in plain Python floats and fractions: slow, literal, shares no code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

Row = tuple[int, int, int, int]


def literal_score(user: Sequence[float], item: Sequence[float], bias: float | None = None) -> float:
    """Sum the products in float64, coordinates in ascending order, the bias last."""
    total = 0.0
    for left, right in zip(user, item, strict=True):
        total = total + left * right
    return total if bias is None else total + bias


def exact_score(user: Sequence[float], item: Sequence[float], bias: float | None = None) -> Fraction:
    """Return the score without any rounding."""
    total = Fraction(0 if bias is None else bias)
    for left, right in zip(user, item, strict=True):
        total += Fraction(left) * Fraction(right)
    return total


def literal_counts(
    score: Callable[[int, int], float], targets: list[list[int]], seen: list[list[int]], n_items: int
) -> list[Row]:
    """Return (above, tied, relevant above, relevant tied) for every row and target, in the given order."""
    rows = []
    for row, (relevant, known) in enumerate(zip(targets, seen, strict=True)):
        scores = [score(row, item) for item in range(n_items)]
        pool = [item for item in range(n_items) if item not in set(known)]
        for target in relevant:
            above = [item for item in pool if scores[item] > scores[target]]
            tied = [item for item in pool if scores[item] == scores[target] and item != target]
            rows.append(
                (
                    len(above),
                    len(tied),
                    len([item for item in above if item in relevant]),
                    len([item for item in tied if item in relevant]),
                )
            )
    return rows
