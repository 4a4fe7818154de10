"""The law of sampled ranks and corrections from their definitions: all samples enumerated, with fractions."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction


def samples(n_candidates: int, n_negatives: int, replacement: bool) -> Iterator[tuple[int, ...]]:
    """All equally likely samples of candidates 0..n_candidates-1, best first."""
    if replacement:
        return itertools.product(range(n_candidates), repeat=n_negatives)
    return itertools.combinations(range(n_candidates), n_negatives)


def literal_pmf(n_candidates: int, n_negatives: int, n_above: int, replacement: bool) -> list[Fraction]:
    """P(j | J) by counting samples: the best J candidates stand above the target."""
    counts = [0] * (n_negatives + 1)
    for sample in samples(n_candidates, n_negatives, replacement):
        counts[sum(item < n_above for item in sample)] += 1
    return [Fraction(count, sum(counts)) for count in counts]


def integer_pmf(n_candidates: int, n_negatives: int, n_above: int, j: int, replacement: bool) -> float:
    """P(j | J) from whole numbers of any size, rounded once."""
    L, m, J = n_candidates, n_negatives, n_above
    if replacement:
        above, below = math.comb(m, j) * pow(J, j) * pow(L - J, m - j), pow(L, m)
    else:
        above, below = math.comb(J, j) * math.comb(L - J, m - j), math.comb(L, m)
    return float(above / below)  # Python rounds the quotient of two integers correctly


def literal_block(n_targets: int, n_tied: int) -> dict[tuple[int, int], Fraction]:
    """P(k other targets, j negatives before the first target) over all orders of a tied block."""
    items = ["me"] + ["target"] * (n_targets - 1) + ["negative"] * n_tied
    found: dict[tuple[int, int], Fraction] = {}
    share = Fraction(1, math.factorial(len(items)))
    for order in itertools.permutations(range(len(items))):
        before = [items[i] for i in order[: order.index(0)]]
        cell = (before.count("target"), before.count("negative"))
        found[cell] = found.get(cell, Fraction(0)) + share
    return found


def literal_tied_pmf(
    n_candidates: int, n_negatives: int, n_above: int, n_tied: int, replacement: bool, can_be_last: bool
) -> list[Fraction]:
    """P(j) by counting samples; a target takes each place among the sampled items that tie with it."""
    chances = [Fraction(0)] * (n_negatives + 1)
    every = list(samples(n_candidates, n_negatives, replacement))
    for sample in every:
        above = sum(item < n_above for item in sample)
        tied = sum(n_above <= item < n_above + n_tied for item in sample)
        places = range(above, above + tied + 1)
        allowed = places if can_be_last or tied == 0 else places[:-1]
        for place in allowed:
            chances[place] += Fraction(1, len(allowed) * len(every))
    return chances


def literal_bv(
    gains: Sequence[Fraction], prior: Sequence[Fraction], n_negatives: int, gamma: Fraction, replacement: bool
) -> list[Fraction]:
    """The minimum of sum_R P(R) (bias^2 + gamma variance) from its normal equations, in fractions."""
    size, n = len(gains), n_negatives + 1
    law = [literal_pmf(size - 1, n_negatives, above, replacement) for above in range(size)]
    matrix = [[Fraction(0)] * n for _ in range(n)]
    right = [Fraction(0)] * n
    for row, weight, gain in zip(law, prior, gains, strict=True):
        for r in range(n):
            right[r] += weight * row[r] * gain
            matrix[r][r] += gamma * weight * row[r]
            for s in range(n):
                matrix[r][s] += (1 - gamma) * weight * row[r] * row[s]
    return solve(matrix, right)


def literal_cls(
    gains: Sequence[Fraction], prior: Sequence[Fraction], n_negatives: int, positive: bool, replacement: bool
) -> list[Fraction]:
    """The best of all non-increasing x: every set of non-zero steps is tried, the last value among them."""
    size, n = len(gains), n_negatives + 1
    law = [literal_pmf(size - 1, n_negatives, above, replacement) for above in range(size)]
    design = [[sum(row[: r + 1], Fraction(0)) for r in range(n)] for row in law]  # of a step down after r
    zero = Fraction(0)
    best: tuple[Fraction, list[Fraction]] | None = None
    for used in itertools.product([False, True], repeat=n):
        if not positive and not used[-1]:
            continue  # a free last value is always in use
        columns = [r for r in range(n) if used[r]]
        gram = [
            [sum((w * row[r] * row[s] for w, row in zip(prior, design, strict=True)), zero) for s in columns]
            for r in columns
        ]
        right = [
            sum((w * row[r] * gain for w, row, gain in zip(prior, design, gains, strict=True)), zero)
            for r in columns
        ]
        steps = dict(zip(columns, solve(gram, right), strict=True)) if columns else {}
        if any(step < 0 for r, step in steps.items() if positive or r < n - 1):
            continue
        x = [sum((step for r, step in steps.items() if r >= j), Fraction(0)) for j in range(n)]
        error = sum(
            w * (sum(p * value for p, value in zip(row, x, strict=True)) - gain) ** 2
            for w, row, gain in zip(prior, law, gains, strict=True)
        )
        if best is None or error < best[0]:
            best = (Fraction(error), x)
    assert best is not None
    return best[1]


def solve(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """Gaussian elimination in fractions."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(len(rows)):
        pivot = next(k for k in range(i, len(rows)) if rows[k][i] != 0)
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [value / rows[i][i] for value in rows[i]]
        for k in range(len(rows)):
            if k != i:
                rows[k] = [a - rows[k][i] * b for a, b in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]
