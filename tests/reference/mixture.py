"""Fitted rank distributions from their definition: every rank, every row, posteriors averaged over rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tests.reference.law import integer_pmf
from truerank.core.types import FloatArray


@dataclass(frozen=True)
class Row:
    """A target: j of m negatives out of L candidates above it, and other targets of its user."""

    m: int
    L: int
    j: int
    above: int = 0
    relevant: int = 1
    weight: float = 1.0


def overlap(low: int, high: int, n_ranks: int, J: int, size: int) -> Fraction:
    """The share of a bin, ranks low + 1 .. high of n_ranks, that rank J + 1 of a pool of size covers."""
    left, right = (
        max(Fraction(low, n_ranks), Fraction(J, size)),
        min(Fraction(high, n_ranks), Fraction(J + 1, size)),
    )
    return max(right - left, Fraction(0)) / Fraction(high - low, n_ranks)


def bin_mean(edges: Sequence[int], size: int, value: Callable[[int], float]) -> FloatArray:
    """The mean of a function of J over each bin of a pool with so many ranks."""
    table = [value(J) for J in range(size)]
    return np.array(
        [
            sum(float(overlap(low, high, edges[-1], J, size)) * table[J] for J in range(size))
            for low, high in itertools.pairwise(edges)
        ]
    )


def outcome_matrix(rows: Sequence[Row], edges: Sequence[int], replacement: bool) -> FloatArray:
    """P(row | bin), one line per row."""

    def one(row: Row) -> FloatArray:
        def law(J: int) -> float:
            if not replacement and not row.m - (row.L - J) <= row.j <= J:
                return 0.0
            return integer_pmf(row.L, row.m, J, row.j, replacement)

        return bin_mean(edges, row.L + 1, law)

    return np.stack([one(row) for row in rows])


def literal_em(rows: Sequence[Row], edges: Sequence[int], iterations: int, replacement: bool) -> FloatArray:
    """EM as the papers write it: the mean over rows of the posterior of each."""
    matrix, weight = outcome_matrix(rows, edges, replacement), np.array([row.weight for row in rows])
    masses: FloatArray = np.diff(edges) / edges[-1]
    for _ in range(iterations):
        masses = mean_posterior(matrix, weight, masses)
    return masses


def mean_posterior(matrix: FloatArray, weight: FloatArray, masses: FloatArray) -> FloatArray:
    """The posterior over bins given each row, averaged."""
    total = np.zeros_like(masses)
    for line, share in zip(matrix, weight, strict=True):
        joint = line * masses
        total += share * joint / joint.sum()
    mean: FloatArray = total / weight.sum()
    return mean


def literal_metric(
    rows: Sequence[Row],
    edges: Sequence[int],
    masses: FloatArray,
    replacement: bool,
    n_users: int,
    gain: Callable[[int, Row], float],
) -> float:
    """The mean over users of the gain under the masses; kinds of targets have a posterior of their own."""
    matrix, weight = outcome_matrix(rows, edges, replacement), np.array([row.weight for row in rows])
    kinds = sorted({(row.relevant, row.above) for row in rows})
    total = 0.0
    for kind in kinds:
        own = [place for place, row in enumerate(rows) if (row.relevant, row.above) == kind]
        under = masses if len(kinds) == 1 else mean_posterior(matrix[own], weight[own], masses)
        for place in own:
            row = rows[place]
            mean = bin_mean(edges, row.L + 1, lambda J, row=row: gain(J + 1 + row.above, row))  # type: ignore[misc]
            total += row.weight * float(under @ mean)
    return total / n_users
