"""Forecasts of what further items of rows show: they decide costs, and learn from what was found."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import t as student

from tests.workflows.plan.world import Counting, make_world
from truerank.core.types import FloatArray
from truerank.workflows.precision.finds import FindsForecast
from truerank.workflows.precision.partial_rows import PartialRows


def screened(n_targets: int = 1, depth: int = 20) -> PartialRows:
    split, scores = make_world(n_targets=n_targets)
    rows = PartialRows(Counting(scores), split, cutoff=10)
    rows.advance(np.arange(len(rows)), depth)
    return rows


@pytest.mark.parametrize("n_targets", [1, 3])
def test_scores_of_the_last_pass_predict_the_next_one_by_students_law(n_targets: int) -> None:
    rows = screened(n_targets)
    for row in np.flatnonzero(rows.is_open)[:20]:
        n, mean, spread = rows.scored[:, row]
        assert n >= 1
        targets = rows.target_scores[rows.rows.pairs[row] : rows.rows.pairs[row + 1]]
        scale = spread * np.sqrt(1 + 1 / n)
        twin = np.mean([student.sf((score - mean) / scale, max(n - 1, 1)) for score in targets])
        assert rows.expected_above(np.array([row]))[0] == pytest.approx(twin, rel=1e-9)


def test_a_random_part_leaves_nothing_to_predict_from() -> None:
    rows = screened()
    row = np.flatnonzero(rows.is_open)[:10]
    rows.ask_parts(row, np.full(len(row), 0.2), seed=0)
    assert (rows.scored[0, row] == 0).all()
    assert (rows.expected_above(row) == 0).all()
    assert np.isfinite(FindsForecast.features(rows, row)).all()


def test_moments_leave_out_scores_that_are_not_finite() -> None:
    split, scores = make_world()
    scores[:, ::3] = -np.inf
    rows = PartialRows(Counting(scores), split, cutoff=10)
    rows.advance(np.arange(len(rows)), 20)
    assert np.isfinite(rows.scored).all()
    assert np.isfinite(rows.expected_above(np.arange(len(rows)))).all()


def test_forecasts_learn_rates_from_passes() -> None:
    """Poisson numbers with rates that are known: after some passes sums agree, of high and of low rates."""
    rng = np.random.default_rng(0)
    forecast, truth = FindsForecast(), np.array([-0.7, 0.9, 0.3])
    for _ in range(8):
        features = np.column_stack([np.ones(4000), rng.uniform(-5, -1, (4000, 2))])
        rate = np.exp(features @ truth)
        found = rng.poisson(rate * 10).astype(np.float64)
        forecast.learn(features, np.full(4000, 10), found, fallen=30.0, most=100.0)
    expected = np.exp(features @ forecast.weights)
    for is_part in (rate < np.median(rate), rate >= np.median(rate)):
        assert expected[is_part].sum() == pytest.approx(rate[is_part].sum(), rel=0.15)
    assert forecast.falls == pytest.approx(0.3, abs=0.02)


@pytest.mark.parametrize("seed", range(20))
def test_forecasts_of_all_rows_hold_where_passes_go_over_a_few(seed: int) -> None:
    """Each pass goes over the 2 % of rows with the highest forecasts; that of all rows stays within 5 times.

    A fit that does not converge within its limits, or that forgets faster than it learns, is off by up to
    20,000 times here, and a run then screens everybody.
    """
    rng = np.random.default_rng(seed)
    forecast, truth = FindsForecast(), np.array([-0.7, 0.9, 0.3])
    features = np.column_stack([np.ones(5000), rng.uniform(-8, -4, 5000), rng.uniform(-20, -4, 5000)])
    rate = np.exp(features @ truth)
    for n_passes in range(15):
        chosen = np.argsort(-features @ forecast.weights)[:100]
        found = rng.poisson(20 * rate[chosen]).astype(np.float64)
        forecast.learn(features[chosen], np.full(100, 20), found, fallen=3.0, most=10.0)
        if n_passes >= 5:
            expected = np.exp(features @ forecast.weights).sum()
            assert rate.sum() / 5 < expected < 5 * rate.sum()


@pytest.mark.parametrize("truth", [(-0.7, 0.9, 0.3), (-2.0, -0.5, 0.4), (1.0, 2.6, 0.0)])
def test_weights_are_the_least_of_the_loss_within_their_limits(truth: tuple[float, float, float]) -> None:
    """Against a general solver; the second and third truth lie outside the limits."""
    rng = np.random.default_rng(1)
    features = np.column_stack([np.ones(3000), rng.uniform(-5, -1, (3000, 2))])
    n_items = rng.integers(1, 40, 3000)
    found = rng.poisson(n_items * np.exp(features @ np.array(truth))).astype(np.float64)
    forecast = FindsForecast()
    before, precision = forecast.weights, forecast.precision
    forecast.learn(features, n_items, found, fallen=3.0, most=10.0)

    def loss(weights: FloatArray) -> float:
        log_rate, change = features @ weights, weights - before
        return float(np.exp(log_rate) @ n_items - found @ log_rate + change @ precision @ change / 2)

    twin = minimize(
        loss, before, method="L-BFGS-B", bounds=[(None, None), (0, 2), (0, 2)], options={"ftol": 1e-14}
    )
    assert loss(forecast.weights) <= twin.fun + 1e-9 * abs(twin.fun)
    assert forecast.weights == pytest.approx(twin.x, abs=1e-3)


def test_a_pass_without_finds_lowers_the_forecast() -> None:
    rows = screened()
    forecast, row = FindsForecast(), np.flatnonzero(rows.is_open)
    before = forecast.finds(rows, row, np.full(len(row), 10)).sum()
    forecast.learn(forecast.features(rows, row), np.full(len(row), 10), np.zeros(len(row)), 0.0, 0.0)
    assert 0 < forecast.finds(rows, row, np.full(len(row), 10)).sum() < 0.3 * before
