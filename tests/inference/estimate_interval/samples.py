"""Samples and estimates that the tests of intervals share."""

from __future__ import annotations

import numpy as np

from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.inference.estimate_interval.registry import PointEstimates
from truerank.metrics.registry import make_metrics

METRICS = "recall@10,ndcg@10,auc"


def estimated(
    sample: SampledRanks, estimator: str = "bv", metrics: str = METRICS, width: float = 0.01
) -> PointEstimates:
    """Return what the composer of estimates hands to an interval."""
    made, chosen, counted = ESTIMATORS.make(estimator), make_metrics(metrics), tally(sample, width=width)
    return PointEstimates(sample, counted, made, chosen, made.estimate(counted, chosen).value)


def population(n_users: int, n_pool: int | IntArray, seed: int = 0) -> Ranks:
    """Return ranks of which many are small."""
    share = np.random.default_rng(seed).beta(0.5, 2, n_users)
    return Ranks.single((share * (np.zeros(n_users) + n_pool)).astype(np.int64), n_pool=n_pool)


def values_of(ranks: Ranks, metrics: str = METRICS) -> FloatArray:
    """Return what exact evaluation prints."""
    return np.array([metric.per_user(ranks).mean() for metric in make_metrics(metrics)])


def several(n_users: int, m: int, seed: int = 0, size: int = 120) -> SampledRanks:
    """Return two or three targets per user that are ranked against the same negatives."""
    draw = np.random.default_rng(seed)
    counts = np.where(np.arange(n_users) % 2, 2, 3)
    user = np.repeat(np.arange(n_users), counts)
    place = np.concatenate([np.arange(count) for count in counts])
    above = np.minimum((np.repeat(draw.beta(0.5, 2, n_users), counts) * size + 5 * place).astype(int), size)
    drawn = np.stack([draw.permutation(size)[:m] for _ in range(n_users)])
    sampled = (drawn[user] < above[:, None]).sum(axis=1)
    zeros, relevant = np.zeros_like(above), np.repeat(counts, counts)
    return SampledRanks(
        user=user,
        item=place,
        n_above=sampled + place,
        n_tied=zeros,
        n_pool=size + relevant,
        n_relevant=relevant,
        n_relevant_above=place,
        n_relevant_tied=zeros,
        n_negatives=zeros + m,
        n_candidates=zeros + size,
    )
