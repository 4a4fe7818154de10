"""Derivatives of fitted estimates in the weights of cells, against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.inference.estimate_interval.samples import estimated, population, several
from truerank.core.errors import CannotEstimate
from truerank.core.ranks import SampledRanks, Stopping
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.distribution.base import MixtureEstimator, plug_in
from truerank.estimation.distribution.influence import influence
from truerank.estimation.distribution.smooth import (
    PENALTIES,
    Smooth,
    log_prior,
    penalised_likelihood,
    smooth_curve,
)
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import Tally, tally
from truerank.inference.estimate_interval.outcomes import complete_tally, possible_outcomes
from truerank.inference.estimate_interval.registry import PointEstimates
from truerank.metrics.registry import make_metrics
from truerank.ranking.simulate import simulate_adaptive, simulate_sample

POOLS = np.where(np.arange(60) % 2, 150, 100)
SIZES = np.where(np.arange(60) % 3, 120, 240)


def mixed() -> SampledRanks:
    """Return fixed samples of two sizes."""
    share = np.random.default_rng(3).beta(0.5, 2, 60)
    above = np.random.default_rng(4).binomial(SIZES, share)
    return SampledRanks.single(above, n_negatives=SIZES, n_pool=600)


SAMPLES: dict[str, Callable[[], SampledRanks]] = {
    "one pool": lambda: simulate_sample(population(60, 100), 12),
    "pools": lambda: simulate_sample(population(60, POOLS), 12),
    "sizes": mixed,
    "adaptive": lambda: simulate_adaptive(population(60, POOLS), Stopping((5, 12, 30))),
    "several": lambda: several(40, 20),
    "ties": lambda: SampledRanks.single(
        [0, 1, 1, 3, 8] * 6, n_negatives=12, n_pool=100, n_tied=np.tile([0, 2, 1, 0, 4], 6)
    ),
    "replacement": lambda: simulate_sample(population(60, 100), 12, replacement=True),
}
FITTED = {
    "mle": 1e-7,
    "mle(iterations=7)": 1e-7,
    "smooth(penalty=0.01)": 2e-5,  # its fits stop within 1e-9 of their maximum
    "mes": 1e-6,
    "mes(weight=shares)": 1e-6,
    "mes(distance=likelihood, eta=0.1)": 1e-6,
    "beta-binomial": 1e-7,
}


def made(found: PointEstimates) -> MixtureEstimator:
    assert isinstance(found.estimator, MixtureEstimator)
    return found.estimator


def moved(counted: Tally, origin: int, goal: int, weight: float) -> Tally:
    """Return the tally with some weight taken from one cell to another."""
    return replace(
        counted,
        user=np.append(counted.user, [0, 0]),
        cell=np.append(counted.cell, [origin, goal]),
        weight=np.append(counted.weight, [-weight, weight]),
    )


def slope(found: PointEstimates, counted: Tally, origin: int, goal: int, step: float) -> FloatArray:
    """Return the derivative along a move of weight; from one side only into a cell that is empty."""

    def value(size: float) -> FloatArray:
        return found.estimator.estimate(moved(counted, origin, goal, size), found.metrics).value

    if counted.cell_weights[goal] > 0:
        return (value(step) - value(-step)) / (2 * step)
    first, second, third = value(step), value(2 * step), value(3 * step)
    return (18 * first - 9 * second + 2 * third - 11 * value(0.0)) / (6 * step)


def beside(seen: IntArray, possible: IntArray) -> IntArray:
    """Return the cells next to those in use; outcomes that hardly occur bend too soon for a finite step."""
    is_near = np.abs(possible[:, None] - seen).min(axis=1) <= 2
    near: IntArray = possible[is_near]
    return near


@pytest.mark.slow
@pytest.mark.parametrize("design", SAMPLES)
@pytest.mark.parametrize("estimator", FITTED)
def test_values_are_derivatives(design: str, estimator: str) -> None:
    """Into cells in use, empty ones, and other contexts; and their mean over users is the estimate."""
    found = estimated(SAMPLES[design](), estimator, width=0.0)
    counted = complete_tally(found.tally)
    x = influence(made(found), counted, found.metrics)
    value = found.estimator.estimate(counted, found.metrics).value
    np.testing.assert_allclose(counted.cell_weights @ x / counted.n_users, value, rtol=1e-10, atol=1e-12)
    seen = np.flatnonzero(counted.cell_weights >= 1)
    possible = np.unique(np.concatenate([one.cells.ravel() for one in possible_outcomes(counted)]))
    draw = np.random.default_rng(0)
    goals = np.append(draw.choice(beside(seen, possible), 4, replace=False), draw.choice(seen, 1))
    scale = np.abs(x).max(axis=0)
    step = 1e-3 if estimator.startswith("smooth") else 1e-4
    for goal in goals.tolist():
        origin = int(draw.choice(seen[seen != goal]))
        expected = slope(found, counted, origin, goal, step) * counted.n_users
        assert (np.abs(x[goal] - x[origin] - expected) <= 20 * FITTED[estimator] * scale).all()


def by_three(found: PointEstimates, counted: Tally, best: int) -> FloatArray:
    """Slow twin of ``smooth``: three fits to the end, a parabola, a fourth fit."""
    likelihood, _ = made(found).fit_tallies([counted])
    problem = penalised_likelihood(likelihood, 0, counted.n_rows)
    tried = [smooth_curve(problem, float(one)) for one in PENALTIES[best - 1 : best + 2]]
    left, middle, right = (one.log_marginal + log_prior(one.penalty) for one in tried)
    penalty = PENALTIES[best] * 10 ** ((right - left) / (2 * (left - 2 * middle + right)))
    curve = smooth_curve(problem, float(penalty), tried[1])
    values = plug_in(likelihood, curve.masses[None], [counted], found.metrics)
    return values.ravel()


@pytest.mark.parametrize("design", ["one pool", "adaptive", "several"])
def test_smooth_is_derived_with_its_penalty(design: str) -> None:
    """The penalty moves with the sample; holding it gives other values."""
    found = estimated(SAMPLES[design](), "smooth", width=0.0)
    counted = complete_tally(found.tally)
    penalty = found.estimator.distribution(counted).diagnostics["penalty"]
    best = int(np.argmin(np.abs(np.log(PENALTIES / penalty))))
    x = influence(made(found), counted, found.metrics)
    held = influence(Smooth(penalty=penalty), counted, found.metrics)
    seen = np.flatnonzero(counted.cell_weights >= 1)
    draw, step, off = np.random.default_rng(1), 0.03, np.zeros((4, 2))
    for row in range(4):
        origin, goal = draw.choice(seen, 2, replace=False).tolist()
        ends = [by_three(found, moved(counted, origin, goal, size), best) for size in (step, -step)]
        expected = (ends[0] - ends[1]) / (2 * step) * counted.n_users
        off[row] = [np.abs(one[goal] - one[origin] - expected).max() for one in (x, held)]
    right, wrong = off.max(axis=0)
    assert right < 2e-3 and wrong > 5 * right


def test_a_penalty_at_the_end_of_its_list_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    found = estimated(SAMPLES["adaptive"](), "smooth")
    penalty = found.estimator.distribution(found.tally).diagnostics["penalty"]
    held = influence(Smooth(penalty=penalty), found.tally, found.metrics)
    free = influence(made(found), found.tally, found.metrics)
    monkeypatch.setattr(
        "truerank.estimation.distribution.influence_smooth.PENALTIES", np.array([penalty, penalty / 1e3])
    )
    x = influence(made(found), found.tally, found.metrics)
    np.testing.assert_allclose(x, held, rtol=1e-3, atol=1e-3)
    assert np.abs(free - held).max() > 0.02


@settings(max_examples=15, deadline=None)
@given(
    st.lists(st.integers(0, 6), min_size=2, max_size=7, unique=True),
    st.integers(1, 3),
    st.sampled_from([6, 9, 40]),
    st.integers(1, 12),
)
def test_em_of_any_sample(above: list[int], times: int, size: int, iterations: int) -> None:
    """Some weight moves from the first user's cell to the last one's, both in use."""
    sample = SampledRanks.single(above * times, n_negatives=6, n_pool=size + 1)
    found = estimated(sample, f"mle(iterations={iterations})", "recall@2,auc", width=0.0)
    x = influence(made(found), found.tally, found.metrics)
    expected = slope(found, found.tally, above[0], above[-1], 1e-4) * found.tally.n_users
    np.testing.assert_allclose(x[above[-1]] - x[above[0]], expected, atol=1e-5 * max(np.abs(x).max(), 1))


def test_only_cells_that_are_asked_for_have_values() -> None:
    found = estimated(SAMPLES["adaptive"](), "mle")
    counted = complete_tally(found.tally)
    whole = influence(made(found), counted, found.metrics)
    empty = np.flatnonzero(counted.cell_weights == 0)
    some = influence(made(found), counted, found.metrics, empty[:3])
    is_asked = counted.cell_weights > 0
    is_asked[empty[:3]] = True
    np.testing.assert_allclose(some[is_asked], whole[is_asked], rtol=1e-10)
    assert not some[~is_asked].any() and whole[~is_asked].any()


def test_an_exponent_at_the_end_of_its_range_stays() -> None:
    """All targets first: only the shares of situations move the estimate."""
    sample = SampledRanks.single([0] * 20, n_negatives=12, n_pool=100)
    counted, metrics = tally(sample), make_metrics("recall@10")
    estimator = ESTIMATORS.make("beta-binomial")
    assert isinstance(estimator, MixtureEstimator)
    value = estimator.estimate(counted, metrics).value
    np.testing.assert_allclose(influence(estimator, counted, metrics), np.tile(value, (13, 1)))


@pytest.mark.parametrize("estimator", ["mle(solver=exact)", "mes(weight=one)"])
def test_fits_that_jump_are_refused(estimator: str) -> None:
    found = estimated(SAMPLES["one pool"](), estimator)
    with pytest.raises(CannotEstimate, match=r"moves in jumps, and has no derivative\. Use bootstrap"):
        influence(made(found), found.tally, found.metrics)
