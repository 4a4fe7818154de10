"""Comparisons written out from their definitions, one number at a time."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence

from scipy.stats import norm
from scipy.stats import t as student

from truerank.core.random import stream
from truerank.core.types import FloatArray


def paired(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """Return the mean difference and its standard error over users."""
    gaps = [a - b for a, b in zip(first, second, strict=True)]
    return statistics.fmean(gaps), statistics.stdev(gaps) / len(gaps) ** 0.5


def unpaired(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """Return the difference of means and its standard error, users being different ones."""
    parts = [statistics.variance(values) / len(values) for values in (first, second)]
    return statistics.fmean(first) - statistics.fmean(second), sum(parts) ** 0.5


def resampled(values: Sequence[float], resamples: int, seed: int) -> list[float]:
    """Return means over users drawn with replacement."""
    n = len(values)
    means = []
    for number in range(resamples):
        users = stream(seed, "bootstrap/users", number).integers(0, n, n, dtype="int32")
        means.append(statistics.fmean(values[user] for user in users.tolist()))
    return means


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values: of the k-th smallest, the largest of (m - i + 1) p_i for i <= k."""
    m = len(p_values)
    ordered = sorted(p_values)
    return [
        min(1.0, max((m - i) * ordered[i] for i in range(m) if ordered[i] <= p_value)) for p_value in p_values
    ]


def max_t(
    value: Sequence[float], error: Sequence[float], shifts: FloatArray, n_users: int, level: float
) -> tuple[list[tuple[float, float]], list[float]]:
    """Return simultaneous intervals and adjusted p-values by counting maxima."""
    maxima = [max(abs(s) / e for s, e in zip(row, error, strict=True)) for row in shifts.tolist()]
    free = n_users - 1

    def adjusted(t: float) -> float:
        alone = 2 * student.sf(abs(t), free)
        score = norm.isf(student.sf(abs(t), free))
        reached = sum(one >= score for one in maxima)
        return float(min(1.0, max((1 + reached) / (len(maxima) + 1), alone)))

    # the critical t is the smallest one whose p-value is not above 1 - level
    candidates = [norm.isf((1 - level) / 2), *(one * (1 + 1e-12) for one in maxima)]
    fitting = [
        student.isf(norm.sf(z), free)
        for z in candidates
        if (1 + sum(one >= z for one in maxima)) / (len(maxima) + 1) <= 1 - level
        and 2 * norm.sf(z) <= (1 - level) * (1 + 1e-9)
    ]
    half = min(fitting)
    intervals = [(v - half * e, v + half * e) for v, e in zip(value, error, strict=True)]
    return intervals, [adjusted(v / e) for v, e in zip(value, error, strict=True)]


def sign_flip(gaps: Sequence[float]) -> float:
    """Return the exact p-value over all signs."""
    total = abs(sum(gaps))
    all_signs = list(itertools.product((-1, 1), repeat=len(gaps)))
    reached = sum(
        abs(sum(s * g for s, g in zip(signs, gaps, strict=True))) >= total - 1e-9 for signs in all_signs
    )
    return reached / len(all_signs)
