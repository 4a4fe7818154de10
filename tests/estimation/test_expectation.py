"""What estimators do on average: golden values, closed forms, theorems."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.estimation.test_law import laws
from tests.reference.law import literal_pmf
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.ranks import Design, RankDistribution, SampledRanks
from truerank.estimation.expectation import behaviour, expected_values
from truerank.estimation.law import (
    Binomial,
    Hypergeometric,
    Law,
    affine_limit,
    expected_ap,
    expected_auc,
    expected_recall,
    make_law,
    smoothed_recall,
)
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.metrics.registry import METRICS, make_metrics

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "spec" / "corrections.json").read_text())
TOY = {
    "A": np.array([100] * 5),
    "B": np.array([40, 40, 8437, 9266, 4482]),
    "C": np.array([212, 2, 743, 5342, 1548]),
}
WRITTEN = {"AUC": "auc", "AP": "ap", "NDCG": "ndcg", "Recall@10": "recall@10"}


@pytest.mark.parametrize("name", TOY)
@pytest.mark.parametrize("measured", WRITTEN)
@pytest.mark.parametrize("kind", ["binomial", "hypergeometric"])
def test_golden_toy(name: str, measured: str, kind: str) -> None:
    law: Law = Binomial(9999, 99) if kind == "binomial" else Hypergeometric(9999, 99)
    found = behaviour(METRICS.make(WRITTEN[measured]), law, TOY[name])
    wanted = GOLDEN["toy_expected_m99"][kind][name][measured]
    assert found.mean == pytest.approx(wanted["mean"], abs=1e-10)
    assert found.sd_mean == pytest.approx(wanted["sd_of_mean_over_5_instances"], abs=1e-10)
    assert found.truth == pytest.approx(GOLDEN["toy_exact"][name][measured], abs=1e-10)
    assert found.bias == found.mean - found.truth


@given(laws(200), st.integers(1, 12))
@settings(deadline=None)
def test_closed_forms_are_the_sums(law: Law, cutoff: int) -> None:
    """AP, recall and AUC in closed form equal the sums over sampled ranks, both laws."""
    every = np.arange(law.n_candidates + 1)
    for found, written in (
        (expected_ap(law, every), "ap"),
        (expected_recall(law, every, cutoff), f"recall@{cutoff}"),
        (expected_auc(law, every), "auc"),
    ):
        mean, _ = expected_values(METRICS.make(written), law, every)
        np.testing.assert_allclose(found, mean, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("replacement", [True, False])
def test_ap_in_fractions(replacement: bool) -> None:
    law = make_law(6, 3, replacement=replacement)
    twin = [sum(p / (j + 1) for j, p in enumerate(literal_pmf(6, 3, J, replacement))) for J in range(7)]
    np.testing.assert_allclose(expected_ap(law, np.arange(7)), np.array(twin, float), rtol=1e-14)


def test_ap_does_not_cancel_at_the_top() -> None:
    """For R = 1, 2 of ten million the two laws differ from 1 by about m/(2 L); twelve digits are right."""
    for law in (Binomial(10**7, 1000), Hypergeometric(10**7, 1000)):
        np.testing.assert_allclose(
            expected_ap(law, [0, 1, 50]), expected_values(METRICS.make("ap"), law, [0, 1, 50])[0], rtol=1e-12
        )


@pytest.mark.parametrize("written", ["ap", "ndcg", "recall@1", "recall@2", "precision@2", "auc", "mrr"])
@pytest.mark.parametrize("replacement", [True, False])
def test_one_negative_makes_every_metric_a_line(written: str, replacement: bool) -> None:
    metric = METRICS.make(written)
    first, second = (float(metric.gain(*(np.array([v]) for v in (r, 0, 1, 2)))[0]) for r in (1, 2))
    every = np.arange(51)
    mean, _ = expected_values(metric, make_law(50, 1, replacement=replacement), every)
    np.testing.assert_allclose(mean, affine_limit(first, second, 50, every), rtol=1e-13)


@given(st.integers(2, 60), st.integers(2, 30), st.data())
@settings(deadline=None)
def test_sampled_recall_is_smoothed_recall(n_candidates: int, m: int, data: st.DataObject) -> None:
    """Recall of a sample is the global recall curve under a Beta(K, n - K) kernel, exactly."""
    cutoff = data.draw(st.integers(1, m))
    weights = np.random.default_rng(m).dirichlet(np.ones(n_candidates + 1))
    law = Binomial(n_candidates, m)
    wanted = weights @ expected_recall(law, np.arange(n_candidates + 1), cutoff)
    assert float(smoothed_recall(law, weights, cutoff)) == pytest.approx(float(wanted), abs=1e-13)


def test_the_kernel_needs_replacement() -> None:
    with pytest.raises(InvalidParameter, match="the Beta kernel needs draws with replacement"):
        smoothed_recall(Hypergeometric(5, 2), np.ones(6) / 6, 1)


@given(laws(40), st.integers(0, 10**6))
@settings(deadline=None)
def test_dominance_survives_sampling(law: Law, seed: int) -> None:
    """If recall is at least as high at every cut-off, so is expected sampled recall at every cut-off."""
    draw = np.random.default_rng(seed)
    ranks = draw.integers(0, law.n_candidates + 1, 8)
    better = np.maximum(ranks - draw.integers(0, 5, 8), 0)
    assert (law.cdf(better).mean(axis=0) >= law.cdf(ranks).mean(axis=0) - 1e-12).all()


@given(laws(80), st.sampled_from(["bv", "rank-estimate", "cls", "naive"]))
@settings(deadline=None, max_examples=30)
def test_a_distribution_counts_like_its_users(law: Law, written: str) -> None:
    ranks = np.random.default_rng(law.n_negatives).integers(1, law.n_candidates + 2, 20)
    histogram = np.bincount(ranks - 1, minlength=law.n_candidates + 1) / 20
    estimator, metric = ESTIMATORS.make(written), METRICS.make("ndcg@5")
    users = behaviour(metric, law, ranks, estimator=estimator)
    shares = behaviour(metric, law, RankDistribution(histogram, "drawn"), estimator=estimator, n_users=20)
    for field in ("truth", "mean", "sd_row", "sd_mean"):
        assert getattr(users, field) == pytest.approx(getattr(shares, field), abs=1e-12)
    assert users.n_users == shares.n_users == 20


def test_bad_ranks() -> None:
    metric, law = METRICS.make("ap"), Binomial(9, 3)
    for ranks in ([0], [11], [1.5], []):
        with pytest.raises(InvalidData, match=r"global ranks must be integers in 1\.\.10"):
            behaviour(metric, law, np.array(ranks))
    with pytest.raises(InvalidData, match="the rank distribution must have 10 ranks like the law, got 2"):
        behaviour(metric, law, RankDistribution(np.array([0.5, 0.5]), "x"))


def simulated_z(written: str, *, simulate_replacement: bool, assume_replacement: bool) -> float:
    """Standardised difference between the mean of 400 simulated estimates and their expectation."""
    n_users, n_repeats, L, m = 500, 400, 200, 60
    draw = np.random.default_rng(2024)
    ranks = 1 + (L * draw.beta(0.4, 1, n_users)).astype(np.int64)
    estimator, metrics = ESTIMATORS.make(written), make_metrics("ndcg@10")
    above = np.tile(ranks - 1, n_repeats)
    if simulate_replacement:
        sampled = draw.binomial(m, above / L)
    else:
        sampled = draw.hypergeometric(above, L - above, m)
    sample = SampledRanks.single(
        sampled, n_negatives=m, n_pool=L + 1, design=Design(replacement=assume_replacement)
    )
    found = estimator.estimate(tally(sample), metrics).value[0]
    law = make_law(L, m, replacement=assume_replacement)
    wanted = behaviour(metrics[0], law, ranks, estimator=estimator, n_users=n_users * n_repeats)
    return float((found - wanted.mean) / wanted.sd_mean)


@pytest.mark.stat
def test_simulated_estimates_have_the_computed_mean() -> None:
    """Level 1e-6, z test with the known variance of 200,000 simulated targets, BV without replacement.

    Power 0.99 against a bias of 7.2 standard errors, about 1 % of the value. Negative control: the same
    draws corrected as if they were drawn with replacement.
    """
    level = 1e-6
    z = simulated_z("bv(gamma=0.1)", simulate_replacement=False, assume_replacement=False)
    assert 2 * stats.norm.sf(abs(z)) > level
    wrong = simulated_z("bv(gamma=0.1)", simulate_replacement=False, assume_replacement=True)
    assert 2 * stats.norm.sf(abs(wrong)) < level
