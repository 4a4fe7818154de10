"""Adaptive samples from their definition: all sequences of draws, stopped by hand, in fractions."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from tests.reference.law import solve
from tests.reference.world import World
from truerank.core.ranks import Design, SampledRanks, Stopping

Outcome = tuple[int, int]


def sequences(n_candidates: int, length: int, replacement: bool) -> Iterator[tuple[int, ...]]:
    """All equally likely sequences of draws of candidates 0..n_candidates-1, best first."""
    if replacement:
        return itertools.product(range(n_candidates), repeat=length)
    return itertools.permutations(range(n_candidates), length)


def rounds_of(rule: Stopping, n_candidates: int, replacement: bool) -> list[int]:
    """The sizes of a pool's samples: without replacement never more than there are candidates."""
    if replacement:
        return list(rule.sizes)
    return sorted({min(size, n_candidates) for size in rule.sizes})


def stopped(is_above: Sequence[bool], sizes: Sequence[int], rank: int) -> Outcome:
    """Algorithm 1: go on while 1 + j <= rank, end at the last size."""
    for size in sizes:
        j = sum(is_above[:size])
        if 1 + j > rank or size == sizes[-1]:
            return size, j
    raise AssertionError


def literal_adaptive(
    n_candidates: int, rule: Stopping, n_above: int, replacement: bool
) -> dict[Outcome, Fraction]:
    """P(m, j | J) by counting sequences: the best J candidates stand above the target."""
    sizes = rounds_of(rule, n_candidates, replacement)
    counts: dict[Outcome, int] = {}
    total = 0
    for drawn in sequences(n_candidates, sizes[-1], replacement):
        end = stopped([item < n_above for item in drawn], sizes, rule.rank)
        counts[end] = counts.get(end, 0) + 1
        total += 1
    return {end: Fraction(count, total) for end, count in counts.items()}


def literal_table(
    n_candidates: int, rule: Stopping, replacement: bool
) -> tuple[list[Outcome], list[list[Fraction]]]:
    """All outcomes, by size and then by j, and P(outcome | J) for J = 0..L."""
    rows = [literal_adaptive(n_candidates, rule, J, replacement) for J in range(n_candidates + 1)]
    outcomes = sorted({end for row in rows for end in row})
    return outcomes, [[row.get(end, Fraction(0)) for end in outcomes] for row in rows]


def literal_correction(
    law: list[list[Fraction]],
    prior: Sequence[Fraction],
    gains: Sequence[Fraction],
    *,
    gamma: Fraction | None = None,
    users: int = 1,
) -> list[Fraction]:
    """BV with a gamma, otherwise MN: each rank adds its bias and its variance to the normal equations."""
    n = len(law[0])
    matrix = [[Fraction(0)] * n for _ in range(n)]
    right = [Fraction(0)] * n
    for row, weight, gain in zip(law, prior, gains, strict=True):
        noise = Fraction(1, users) if gamma is None else gamma * weight
        for r in range(n):
            right[r] += weight * row[r] * gain
            matrix[r][r] += noise * row[r]
            for s in range(n):
                matrix[r][s] += (weight - noise) * row[r] * row[s]
    return solve(matrix, right)


def all_samples(world: World, rule: Stopping, replacement: bool) -> SampledRanks:
    """The sampled ranks of every sequence of draws, each as a user of its own.

    The targets of a world share the draws, and each stops by itself.
    """
    L, n = len(world.candidates), len(world.targets)
    sizes = rounds_of(rule, L, replacement)
    tables: list[dict[str, np.ndarray]] = []
    for number, drawn in enumerate(sequences(L, sizes[-1], replacement)):
        scores = [world.candidates[item] for item in drawn]
        ends = [stopped([s > target for s in scores], sizes, rule.rank)[0] for target in world.targets]
        rows = [world.rows(scores[:end]) for end in ends]
        columns = {name: np.array([row[name][i] for i, row in enumerate(rows)]) for name in rows[0]}
        tables.append(columns | {"user": np.full(n, number), "n_negatives": np.array(ends)})
    whole = {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}
    return SampledRanks(
        **whole,
        n_candidates=np.full(len(whole["user"]), L),
        design=Design(replacement=replacement, stopping=rule),
    )
