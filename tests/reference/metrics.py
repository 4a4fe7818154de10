"""Metrics written from their definitions on ordered lists of one user, with fractions and no shortcuts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from truerank.core.ranks import Ranks

#: one user: the score of each pool item, and which items are relevant
User = tuple[Sequence[float], Sequence[bool]]


def value(metric: str, hits: Sequence[bool], cutoff: int | None, variant: str = "") -> Fraction | float:
    """Return the metric of a list in rank order; ``hits[i]`` says whether rank i + 1 is relevant."""
    n, s = len(hits), sum(hits)
    k = n if cutoff is None else cutoff
    top = list(hits[:k])
    if metric == "recall":
        return Fraction(sum(top), min(s, k) if variant == "min" else s)
    if metric == "precision":
        return Fraction(sum(top), k)
    if metric == "hit":
        return Fraction(any(top))
    if metric == "mrr":
        return next((Fraction(1, i + 1) for i, hit in enumerate(top) if hit), Fraction(0))
    if metric == "ap":
        precisions = [Fraction(sum(top[: i + 1]), i + 1) for i, hit in enumerate(top) if hit]
        norms = {"min": min(s, k), "rel": s, "k": k, "hits": max(len(precisions), 1)}
        return sum(precisions, Fraction(0)) / norms[variant or "min"]
    if metric == "ndcg":
        length = {"k": k, "all": s}.get(variant, min(s, k))
        return dcg(top, variant) / dcg([True] * length, variant)
    if metric == "err":
        return sum(
            (Fraction(1, 2) ** sum(top[: i + 1]) / (i + 1) for i, hit in enumerate(top) if hit), Fraction(0)
        )
    if metric == "auc":
        return auc(hits, k)
    raise AssertionError(metric)


def dcg(hits: Sequence[bool], variant: str) -> float:
    """Return the sum of the discounts of the relevant ranks."""
    if variant == "clip":
        return sum(1 / math.log2(max(rank, 2)) for rank, hit in enumerate(hits, start=1) if hit)
    return sum(1 / math.log2(rank + 1) for rank, hit in enumerate(hits, start=1) if hit)


def auc(hits: Sequence[bool], k: int) -> Fraction:
    """Return the share of pairs in the right order; those with both items below k count half."""
    won = Fraction(0)
    for (i, first), (j, second) in itertools.product(enumerate(hits), repeat=2):
        if first and not second:
            won += Fraction(1, 2) if i >= k and j >= k else Fraction(i < j)
    return won / (sum(hits) * (len(hits) - sum(hits)))


def blocks(user: User) -> list[list[bool]]:
    """Return the relevance of the items of each tied block, best block first."""
    scores, relevant = user
    levels = sorted(set(scores), reverse=True)
    return [[r for score, r in zip(scores, relevant, strict=True) if score == level] for level in levels]


def orders(user: User) -> Iterator[list[bool]]:
    """Yield the list for every order of the tied items."""
    for arrangement in itertools.product(*(itertools.permutations(block) for block in blocks(user))):
        yield [hit for block in arrangement for hit in block]


def expected(metric: str, user: User, cutoff: int | None, variant: str = "") -> Fraction | float:
    """Return the mean over all orders of the tied items."""
    found = [value(metric, hits, cutoff, variant) for hits in orders(user)]
    return sum(found) / len(found)


def extreme(metric: str, user: User, cutoff: int | None, variant: str, *, best: bool) -> Fraction | float:
    """Return the value with the relevant items first (or last) in each tied block."""
    hits = [hit for block in blocks(user) for hit in sorted(block, reverse=best)]
    return value(metric, hits, cutoff, variant)


def counts(users: Sequence[User]) -> Ranks:
    """Count the rank table of some users by comparing all pairs of items."""
    rows: list[tuple[int, ...]] = []
    for code, (scores, relevant) in enumerate(users):
        for item, score in enumerate(scores):
            if not relevant[item]:
                continue
            others = [other for other in range(len(scores)) if other != item]
            above = [other for other in others if scores[other] > score]
            tied = [other for other in others if scores[other] == score]
            rows.append(
                (
                    *(code, item, len(above), len(tied), len(scores), sum(relevant)),
                    *(sum(relevant[other] for other in above), sum(relevant[other] for other in tied)),
                )
            )
    return Ranks(*np.array(rows, dtype=np.int64).reshape(-1, 8).T)
