"""Differences, errors and resamples against loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.workflows.compare import literal
from truerank.core.random import stage_key
from truerank.core.ranks import Ranks, SampledRanks
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import tally
from truerank.inference.estimate_interval.registry import PointEstimates
from truerank.inference.estimate_interval.resampling import resample_estimates
from truerank.metrics.registry import make_metrics
from truerank.ranking.simulate import simulate_sample
from truerank.workflows.compare.differences import paired_differences, paired_resampled_means, sign_flip
from truerank.workflows.compare.options import CompareOptions, make_compared_model

METRICS = make_metrics("recall@3,mrr")


def options(estimator: str = "bv", **changes: object) -> CompareOptions:
    return CompareOptions(METRICS, ESTIMATORS.make(estimator), **changes)  # type: ignore[arg-type]


def exact(seed: int, n_users: int = 12, first_user: int = 0) -> Ranks:
    above = np.random.default_rng(seed).integers(0, 30, n_users)
    ranks = Ranks.single(above, n_pool=40)
    return Ranks(
        ranks.user + first_user,
        *(getattr(ranks, name) for name in ("item", "n_above", "n_tied", "n_pool", "n_relevant")),
        *(getattr(ranks, name) for name in ("n_relevant_above", "n_relevant_tied")),
    )


def test_paired_users() -> None:
    chosen = options()
    first, second = (make_compared_model(name, exact(seed), chosen) for name, seed in (("a", 1), ("b", 2)))
    found = paired_differences([first, second], [(0, 1)], chosen)
    assert first.per_user is not None and second.per_user is not None
    seed = stage_key(0, f"comparison/{first.digest}")[0]
    for column in range(2):
        own, other = first.per_user[:, column].tolist(), second.per_user[:, column].tolist()
        value, error = literal.paired(own, other)
        assert found.value[0, column] == pytest.approx(value)
        assert found.error[0, column] == pytest.approx(error)
        gaps = [a - b for a, b in zip(own, other, strict=True)]
        means = np.array(literal.resampled(gaps, 30, seed))
        assert found.shifts[:30, 0, column] == pytest.approx((means - value) * np.sqrt(12 / 11))
        # 2,000 random signs against all 4,096: within 5 standard deviations of a share
        p_value = literal.sign_flip(gaps)
        slack = 5 * np.sqrt(p_value * (1 - p_value) / 2000) + 1 / 2000
        assert found.p_randomised[0, column] == pytest.approx(p_value, abs=slack)
    assert found.n_users.tolist() == [12]
    assert found.shifts.std(axis=0) == pytest.approx(found.error, rel=0.06)


def test_different_users() -> None:
    chosen = options()
    entries = [
        make_compared_model("a", exact(1), chosen),
        make_compared_model("b", exact(2, 20, first_user=12), chosen),
    ]
    found = paired_differences(entries, [(0, 1)], chosen)
    assert entries[0].per_user is not None and entries[1].per_user is not None
    for column in range(2):
        value, error = literal.unpaired(
            entries[0].per_user[:, column].tolist(), entries[1].per_user[:, column].tolist()
        )
        assert found.value[0, column] == pytest.approx(value)
        assert found.error[0, column] == pytest.approx(error)
    assert found.n_users.tolist() == [12]
    assert np.isnan(found.p_randomised).all()
    assert found.shifts.std(axis=0) == pytest.approx(found.error, rel=0.06)


def test_exact_and_fitted_models_draw_the_same_users() -> None:
    """What ``resample_estimates`` gives for a linear estimator are means over the users drawn here."""
    sample = simulate_sample(exact(3, 50), 9)
    counted, naive = tally(sample), ESTIMATORS.make("naive")
    per_user = naive.per_user(counted, METRICS)
    found = PointEstimates(sample, counted, naive, METRICS, per_user.mean(axis=0))
    theirs = resample_estimates(found, target="population", resamples=7, seed=5)
    assert paired_resampled_means(per_user, 7, 5) == pytest.approx(theirs, abs=1e-12)


def test_fitted_models_are_resampled_together() -> None:
    """A fitted model against its own copy: both move alike, so there is no error at all."""
    sample = simulate_sample(exact(3, 200), 9)
    chosen = options("mle", resamples=200)
    entries = [make_compared_model(name, sample, chosen) for name in "ab"]
    found = paired_differences(entries, [(0, 1)], chosen)
    assert found.shifts == pytest.approx(0, abs=1e-12)
    other = make_compared_model("c", simulate_sample(exact(4, 200), 9), chosen)
    apart = paired_differences([entries[0], other], [(0, 1)], chosen)
    assert apart.error == pytest.approx(apart.shifts.std(axis=0, ddof=1))
    assert (apart.error > 0).all() and np.isnan(apart.p_randomised).all()


def test_shared_negatives_take_noise_away() -> None:
    """Scores that differ in one user only: with the same draws all other users cancel."""
    draw = np.random.default_rng(0)
    scores = draw.random((300, 200))
    other = scores.copy()
    other[0] = draw.random(200)
    above = [(table[:, 1:] > table[:, :1]) for table in (scores, other)]
    rows = np.arange(300)[:, None]

    def sampled(table: np.ndarray, items: np.ndarray) -> SampledRanks:
        return SampledRanks.single(table[rows, items].sum(axis=1), n_negatives=20, n_pool=200)

    items, others = (draw.permuted(np.tile(np.arange(199), (300, 1)), axis=1)[:, :20] for _ in range(2))
    chosen = options("naive")
    first, shared, apart = (
        make_compared_model(name, sampled(table, drawn), chosen)
        for name, table, drawn in (("a", above[0], items), ("b", above[1], items), ("c", above[1], others))
    )
    found = paired_differences([first, shared, apart], [(0, 1), (0, 2)], chosen)
    assert (found.error[0] < 0.2 * found.error[1]).all()


@given(st.lists(st.integers(-3, 3), min_size=2, max_size=8))
@settings(max_examples=25, deadline=None)
def test_sign_flips(gaps: list[int]) -> None:
    values = np.array(gaps, dtype=np.float64)[:, None]
    p_value = literal.sign_flip(gaps)
    found = sign_flip(values, 4000, 1, "x")[0]
    assert found == pytest.approx(p_value, abs=6 * np.sqrt(p_value * (1 - p_value) / 4000) + 1 / 4000)
    assert sign_flip(-values, 4000, 1, "x")[0] == found


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(0).random((30, 2))
    whole, flips = paired_resampled_means(values, 50, 3), sign_flip(values, 50, 3, "x")
    monkeypatch.setattr("truerank.workflows.compare.differences._CHUNK", 70)
    assert paired_resampled_means(values, 50, 3) == pytest.approx(whole, abs=1e-15)
    assert np.array_equal(sign_flip(values, 50, 3, "x"), flips)
