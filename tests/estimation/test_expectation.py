"""What estimators do on average: golden values, dominance, simulation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.estimation.test_law import laws
from truerank.core.errors import InvalidData
from truerank.core.ranks import Design, RankDistribution, SampledRanks
from truerank.estimation.expectation import sampling_moments
from truerank.estimation.law import Binomial, FixedLaw, Hypergeometric, make_law
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
    law: FixedLaw = Binomial(9999, 99) if kind == "binomial" else Hypergeometric(9999, 99)
    found = sampling_moments(METRICS.make(WRITTEN[measured]), law, TOY[name])
    wanted = GOLDEN["toy_expected_m99"][kind][name][measured]
    assert found.mean == pytest.approx(wanted["mean"], abs=1e-10)
    assert found.sd_mean == pytest.approx(wanted["sd_of_mean_over_5_instances"], abs=1e-10)
    assert found.truth == pytest.approx(GOLDEN["toy_exact"][name][measured], abs=1e-10)
    assert found.bias == found.mean - found.truth


@given(laws(40), st.integers(0, 10**6))
@settings(deadline=None)
def test_dominance_survives_sampling(law: FixedLaw, seed: int) -> None:
    """If recall is at least as high at every cut-off, so is expected sampled recall at every cut-off."""
    draw = np.random.default_rng(seed)
    ranks = draw.integers(0, law.n_candidates + 1, 8)
    better = np.maximum(ranks - draw.integers(0, 5, 8), 0)
    assert (law.cdf(better).mean(axis=0) >= law.cdf(ranks).mean(axis=0) - 1e-12).all()


@given(laws(80), st.sampled_from(["bv", "rank-estimate", "cls", "naive"]))
@settings(deadline=None, max_examples=30)
def test_a_distribution_counts_like_its_users(law: FixedLaw, written: str) -> None:
    ranks = np.random.default_rng(law.n_negatives).integers(1, law.n_candidates + 2, 20)
    histogram = np.bincount(ranks - 1, minlength=law.n_candidates + 1) / 20
    estimator, metric = ESTIMATORS.make(written), METRICS.make("ndcg@5")
    users = sampling_moments(metric, law, ranks, estimator=estimator)
    shares = sampling_moments(
        metric, law, RankDistribution(histogram, "drawn"), estimator=estimator, n_users=20
    )
    for field in ("truth", "mean", "sd_row", "sd_mean"):
        assert getattr(users, field) == pytest.approx(getattr(shares, field), abs=1e-12)
    assert users.n_users == shares.n_users == 20


def test_bad_ranks() -> None:
    metric, law = METRICS.make("ap"), Binomial(9, 3)
    for ranks in ([0], [11], [1.5], []):
        with pytest.raises(InvalidData, match=r"global ranks must be integers in 1\.\.10"):
            sampling_moments(metric, law, np.array(ranks))
    with pytest.raises(InvalidData, match="the rank distribution must have 10 ranks like the law, got 2"):
        sampling_moments(metric, law, RankDistribution(np.array([0.5, 0.5]), "x"))


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
    wanted = sampling_moments(metrics[0], law, ranks, estimator=estimator, n_users=n_users * n_repeats)
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
