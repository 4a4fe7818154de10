"""Score tests of means against closed forms, and how often their intervals hold where few users differ."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from scipy.stats import binom

from truerank.core.types import FloatArray
from truerank.inference.score_interval import ScoreTest


def trinomial(n_minus: int, n_zero: int, n_plus: int) -> FloatArray:
    return np.repeat([-1.0, 0.0, 1.0], [n_minus, n_zero, n_plus])


def tango_statistic(n_minus: int, n_plus: int, n: int, mean: float) -> float:
    """Return the score statistic of p_plus - p_minus = mean, the fractions found by a search."""

    def deviance(p_minus: float) -> float:
        p_plus = mean + p_minus
        terms = ((n_minus, p_minus), (n_plus, p_plus), (n - n_minus - n_plus, 1 - p_minus - p_plus))
        return -sum(count * math.log(max(p, 1e-300)) for count, p in terms if count)

    lowest = max(0.0, -mean)
    found = minimize_scalar(
        deviance, bounds=(lowest, (1 - mean) / 2), method="bounded", options={"xatol": 1e-12}
    )
    p_minus = min(found.x, lowest, key=deviance)
    variance = 2 * p_minus + mean - mean**2
    return abs((n_plus - n_minus) / n - mean) / float(np.sqrt(variance / n))


@pytest.mark.parametrize(("n_minus", "n_plus"), [(2, 5), (4, 4), (10, 30), (1, 1), (3, 0)])
@pytest.mark.parametrize("mean", [-0.05, 0.0, 0.02, 0.2])
def test_differences_of_one_are_tangos(n_minus: int, n_plus: int, mean: float) -> None:
    """With n instead of n - 1 users the statistic is that of Tango (1998)."""
    n = 200
    score = ScoreTest.of(trinomial(n_minus, n - n_minus - n_plus, n_plus))
    found = score.statistic(mean - (n_plus - n_minus) / n) * np.sqrt(n / (n - 1))
    assert found == pytest.approx(tango_statistic(n_minus, n_plus, n, mean), rel=1e-4)


def test_no_difference_is_mcnemars() -> None:
    score = ScoreTest.of(trinomial(3, 300, 12))
    assert score.statistic(-9 / 315) == pytest.approx(9 / np.sqrt(15) * np.sqrt(314 / 315))


def test_hits_are_wilsons() -> None:
    """Above the mean of values 0 and 1, the limit is Wilson's with n - 1 users in the variance."""
    n, x, z = 120, 4, 2.5
    _, above = ScoreTest.of(np.repeat([0.0, 1.0], [n - x, x])).distances(z)
    p, limit = x / n, x / n + above
    assert (limit - p) ** 2 == pytest.approx(z * z * limit * (1 - limit) / (n - 1))


def test_many_users_have_students_limits() -> None:
    """Symmetric differences of 20,000 users: both limits are within 0.5 % of Student's."""
    values = np.random.default_rng(0).normal(0.01, 0.1, 20_000).clip(-1, 1)
    half = 3 * values.std(ddof=1) / np.sqrt(len(values))
    assert ScoreTest.of(values).distances(3.0) == pytest.approx((half, half), rel=0.005)


@pytest.mark.parametrize("values", [np.r_[np.zeros(9), 1.0], np.linspace(-0.5, 1, 6000) ** 3])
def test_grid_and_order_do_not_matter(values: FloatArray) -> None:
    """The opposite values have the opposite limits, on a grid too."""
    below, above = ScoreTest.of(values).distances(2.0)
    assert ScoreTest.of(-values[::-1]).distances(2.0) == pytest.approx((above, below), rel=1e-9)


@given(
    st.lists(st.sampled_from([-1.0, -0.4, 0.0, 0.0, 0.0, 0.1, 0.3, 1.0]), min_size=3, max_size=60),
    st.floats(0.5, 6),
)
@settings(max_examples=60, deadline=None)
def test_limits_are_where_the_statistic_is_critical(values: list[float], critical: float) -> None:
    """Statistics grow with the distance, so a mean is outside exactly where its statistic is larger."""
    if len(set(values)) < 2:
        values = [*values, 0.7]
    score = ScoreTest.of(np.array(values))
    below, above = score.distances(critical)
    assert score.statistic(above) == pytest.approx(critical, rel=1e-6)
    assert score.statistic(-below) == pytest.approx(critical, rel=1e-6)
    steps = [score.statistic(part * score.above) for part in (0.01, 0.1, 0.3, 0.6, 0.9, 0.99)]
    assert steps == sorted(steps)
    assert score.statistic(0.0) == 0 and score.statistic(2 * score.above) == np.inf


@pytest.mark.stat
@pytest.mark.slow
def test_intervals_hold_where_six_in_300_users_differ() -> None:
    """99.4 % limits (z = 2.75) of mean differences of 1.5/300 miss in at most 0.6 % of 1,500 draws.

    Six of 300 users have a hit of 0.1 to 1, nobody a loss. More misses than a binomial with 0.6 % has once in
    1e6 are an error, which finds 3.5 % with 99 %. Negative control: Student's interval has more of them.
    """
    n_draws, n_users, critical = 1500, 300, 2.75
    most = binom.isf(1e-6, n_draws, 0.006)
    assert binom.sf(most, n_draws, 0.035) > 0.99
    gains, chance = np.array([0.1, 0.2, 0.25, 0.5, 1]), np.array([0.3, 0.3, 0.2, 0.15, 0.05])
    truth = 6 / n_users * float(gains @ chance)
    draw, missed = np.random.default_rng(11), {"score": 0, "student": 0}
    for _ in range(n_draws):
        values = draw.choice(gains, n_users, p=chance) * (draw.random(n_users) < 6 / n_users)
        if values.any():
            mean, half = values.mean(), critical * values.std(ddof=1) / np.sqrt(n_users)
            below, above = ScoreTest.of(values).distances(critical)
            missed["score"] += not mean - max(below, half) <= truth <= mean + max(above, half)
            missed["student"] += not mean - half <= truth <= mean + half
    assert missed["score"] <= most < missed["student"]
