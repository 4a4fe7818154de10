"""Samples of every candidate of every target: all ranks are known, and no estimator may change them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from truerank.core.interactions import Interactions
from truerank.core.ranks import Ranks, SampledRanks, SeenPolicy, TiePolicy
from truerank.core.scorer import as_scorer
from truerank.core.split import Split
from truerank.estimation.distribution.base import MixtureEstimator
from truerank.estimation.mapping.functions import MAPPINGS
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.metrics.registry import make_metrics, values
from truerank.ranking.exact import exact_ranks
from truerank.ranking.sampled import sample_ranks

ALL = [
    *sorted(ESTIMATORS.table),
    *(f"mapping(f={name})" for name in sorted(MAPPINGS.table) if name != "beta"),
    "bv(gamma=1)",
    "bv(prior=mle)",
    "cls(clip=true)",
    "cls(positive=true)",
    "mes(eta=0.1)",
    "mle(iterations=1)",
    "rank-estimate(round=linear)",
    "smooth(penalty=100)",
]
METRICS = make_metrics("recall@1,recall@3,ndcg@4,ap@5,ndcg,ap,auc,precision@2,hit@3,mrr@3")
N_USERS, N_ITEMS = 12, 20


def events(*n_targets_each: int, seed: int = 3) -> tuple[Split, np.ndarray]:
    """Users with these numbers of targets in turn, in pools of several sizes, and scores with many ties."""
    rng = np.random.default_rng(seed)
    train: list[tuple[int, int]] = []
    test: list[tuple[int, int]] = []
    for user in range(N_USERS):
        items = rng.permutation(N_ITEMS)
        n_targets = n_targets_each[user % len(n_targets_each)]
        test += [(user, item) for item in items[:n_targets]]
        train += [(user, item) for item in items[n_targets : n_targets + 1 + user % 3]]
    parts = [
        Interactions.from_codes(*np.array(pairs).T, n_users=N_USERS, n_items=N_ITEMS)
        for pairs in (train, test)
    ]
    return Split(parts[0], parts[1]), rng.integers(0, 8, (N_USERS, N_ITEMS)).astype(np.float64)


def whole(sampler: str = "full", seen: SeenPolicy = "remove") -> tuple[Ranks, SampledRanks]:
    split, scores = events(*((4,) if sampler.startswith("uniform") else (1, 2, 3, 4)))
    scorer = as_scorer(scores)
    return exact_ranks(scorer, split, seen=seen), sample_ranks(scorer, split, sampler, seen=seen).ranks


@pytest.mark.parametrize("written", ALL)
@pytest.mark.parametrize(
    ("sampler", "seen", "ties"),
    [
        ("full", "remove", "expected"),
        ("full", "bottom", "expected"),
        ("full", "keep", "worst"),
        ("full", "remove", "best"),
        ("uniform(m=16)", "keep", "expected"),
        ("adaptive(start=5, max=500, while_rank=500)", "remove", "expected"),
    ],
)
def test_every_estimator_gives_the_exact_value(
    written: str, sampler: str, seen: SeenPolicy, ties: TiePolicy
) -> None:
    ranks, sample = whole(sampler, seen)
    counted = tally(sample, ties=ties)
    assert counted.is_fully_ranked and len(counted.contexts) > 1
    estimator = ESTIMATORS.make(written)
    exact = values(METRICS, ranks, ties=ties)
    found = estimator.estimate(counted, METRICS)
    np.testing.assert_allclose(found.value, exact.mean(axis=0), atol=1e-12)
    wanted = exact.std(axis=0, ddof=1) / np.sqrt(len(exact))
    np.testing.assert_allclose(found.standard_error, wanted, atol=1e-12)
    np.testing.assert_allclose(estimator.per_user(counted, METRICS), exact, atol=1e-12)
    np.testing.assert_allclose(estimator.estimate_runs([counted] * 2, METRICS), [found.value] * 2)


@pytest.mark.parametrize("written", ALL)
def test_lists_of_all_candidates_are_as_good(written: str) -> None:
    ranks, sample = whole()
    given = tally(replace(sample, design=replace(sample.design, law="given")))
    found = ESTIMATORS.make(written).estimate(given, METRICS).value
    np.testing.assert_allclose(found, values(METRICS, ranks).mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("written", ALL)
def test_the_distribution_is_that_of_the_known_ranks(written: str) -> None:
    above = np.array([0, 3, 3, 7, 11])
    found = ESTIMATORS.make(written).distribution(
        tally(SampledRanks.single(above, n_negatives=11, n_pool=12))
    )
    np.testing.assert_allclose(found.weights, np.bincount(above, minlength=12) / 5, atol=1e-15)
    assert found.method == str(ESTIMATORS.make(written)) and not found.signed


@pytest.mark.parametrize("written", ["smooth", "mle", "mes", "beta-binomial"])
def test_pools_of_several_sizes_have_one_distribution_of_relative_ranks(written: str) -> None:
    sample = SampledRanks.single([0, 2, 0], n_negatives=np.array([3, 3, 1]), n_pool=np.array([4, 4, 2]))
    found = ESTIMATORS.make(written).distribution(tally(sample)).weights
    # ranks 1 and 3 of 4, and rank 1 of 2, which is half of rank 1 and half of rank 2 of 4
    np.testing.assert_allclose(found, [0.5, 1 / 6, 1 / 3, 0], atol=1e-15)


@pytest.mark.parametrize("written", ALL)
def test_runs_of_both_kinds_are_told_apart(written: str) -> None:
    """In an experiment a run may rank all candidates and another one not."""
    all_ranked = tally(SampledRanks.single([0, 3, 8, 11], n_negatives=19, n_pool=20))
    sampled = tally(SampledRanks.single([0, 1, 2, 4], n_negatives=5, n_pool=20))
    estimator, metrics = ESTIMATORS.make(written), make_metrics("recall@4,auc")
    found = estimator.estimate_runs([all_ranked, sampled, all_ranked], metrics)
    np.testing.assert_allclose(found[[0, 2], 0], 0.5, atol=1e-15)
    np.testing.assert_allclose(found[1], estimator.estimate_runs([sampled], metrics)[0], rtol=1e-9)


@pytest.mark.parametrize("written", ALL)
def test_users_with_and_without_known_ranks_have_estimates(written: str) -> None:
    """Some users have as many candidates as there are negatives, others more; nothing is exact there."""
    split, scores = events(1)
    sample = sample_ranks(as_scorer(scores), split, "uniform(m=16)").ranks
    is_known = sample.n_negatives == sample.n_candidates
    assert 0 < is_known.sum() < len(sample)
    counted = tally(sample)
    assert not counted.is_fully_ranked
    found = ESTIMATORS.make(written).estimate(counted, make_metrics("recall@5,auc")).value
    assert np.isfinite(found).all() and (np.abs(found - 0.5) <= 0.5 + 1e-9).all()


def test_draws_with_replacement_or_by_popularity_are_never_known() -> None:
    """As many draws as candidates miss some of them; by popularity, items without train events."""
    sample = SampledRanks.single([0, 3, 8, 11], n_negatives=19, n_pool=20)
    for change in ({"replacement": True}, {"law": "popularity"}):
        assert not tally(replace(sample, design=replace(sample.design, **change))).is_fully_ranked
    assert not tally(SampledRanks.single([], n_negatives=19, n_pool=20)).is_fully_ranked
    smoothed = ESTIMATORS.make("smooth").estimate(
        tally(replace(sample, design=replace(sample.design, replacement=True))), make_metrics("recall@4")
    )
    assert abs(smoothed.value[0] - 0.5) > 0.01


def test_a_fit_without_anything_to_infer_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(*_: object) -> None:
        raise AssertionError("nothing needs to be fitted")

    monkeypatch.setattr(MixtureEstimator, "fit_tallies", fit)
    _, sample = whole()
    for written in ("smooth", "bv(prior=mle)"):
        ESTIMATORS.make(written).estimate(tally(sample), METRICS)
