"""Intervals over users."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.plugin import Plugin
from truerank.inference.user_interval import INTERVALS, AutoUserInterval, BCa, Normal


@pytest.mark.parametrize("name", INTERVALS.names())
def test_spec_round_trip(name: str) -> None:
    made = INTERVALS.make(name)
    assert isinstance(made, Plugin)
    assert INTERVALS.make(str(made)) == made
    assert made.key == name


def test_normal_equals_the_t_interval_of_scipy() -> None:
    values = np.random.default_rng(1).beta(2, 5, (50, 1))
    band = Normal().band(values, level=0.9)
    expected = stats.ttest_1samp(values[:, 0], 0).confidence_interval(0.9)
    assert band.low[0] == pytest.approx(expected.low, rel=1e-12)
    assert band.high[0] == pytest.approx(expected.high, rel=1e-12)


def test_bca_equals_scipy_up_to_resampling_noise() -> None:
    """Skewed values: the limits must agree with scipy's BCa within the Monte Carlo error of both."""
    values = np.random.default_rng(2).beta(0.3, 3, 200)
    ours = BCa(resamples=20_000).band(values[:, None])
    theirs = stats.bootstrap(
        (values,), np.mean, n_resamples=20_000, method="BCa", rng=np.random.default_rng(3)
    ).confidence_interval
    width = theirs.high - theirs.low
    # quantile noise at 2.5 %: sqrt(.025*.975/20000)/density ~ 1.2 % of the width for each of the two
    assert abs(ours.low[0] - theirs.low) < 0.08 * width
    assert abs(ours.high[0] - theirs.high) < 0.08 * width
    plain = Normal().band(values[:, None])
    assert ours.high[0] > plain.high[0], "a right-skewed sample must push the upper end up"


def test_bca_is_repeatable_and_columns_do_not_influence_each_other() -> None:
    values = np.random.default_rng(4).random((30, 3))
    first, second = BCa(resamples=200).band(values, seed=5), BCa(resamples=200).band(values[:, 1:2], seed=5)
    assert first.low[1] == pytest.approx(second.low[0], abs=1e-15)
    assert BCa(resamples=200).band(values, seed=6).low[1] != first.low[1]


@pytest.mark.parametrize("interval", ["bca", "normal", "auto"])
@pytest.mark.parametrize("constant", [0.0, 0.25, 1.0])
def test_constant_values_do_not_claim_certainty(interval: str, constant: float) -> None:
    """n equal values leave room for (1 - level)/2 ** (1/n) of the users to differ."""
    band = INTERVALS.make(interval).band(np.full((10, 1), constant))
    share = 1 - 0.025 ** (1 / 10)
    assert band.method == ("constant",)
    assert band.low[0] == pytest.approx(constant * (1 - share))
    assert band.high[0] == pytest.approx(constant * (1 - share) + share)


def test_constant_zero_equals_clopper_pearson() -> None:
    band = Normal().band(np.zeros((40, 1)))
    assert band.high[0] == pytest.approx(stats.binomtest(0, 40).proportion_ci(0.95, "exact").high)


def test_auto_changes_to_normal_for_many_users() -> None:
    values = np.random.default_rng(7).random((300, 1))
    assert AutoUserInterval(most=200).band(values).method == ("normal",)
    assert AutoUserInterval(most=300).band(values).method == ("bca",)


def test_no_users_is_an_error() -> None:
    with pytest.raises(InvalidData, match="at least one user"):
        Normal().band(np.zeros((0, 2)))


@pytest.mark.parametrize("level", [0.0, 1.0, 95])
def test_level_must_be_a_probability(level: float) -> None:
    with pytest.raises(InvalidParameter, match="level must lie between 0 and 1"):
        Normal().band(np.ones((3, 1)), level=level)


def test_too_few_resamples() -> None:
    with pytest.raises(InvalidParameter, match="at least 100"):
        BCa(resamples=10)


def test_every_resample_has_a_stream_of_its_own() -> None:
    values = np.random.default_rng(3).random((500, 2))
    means = BCa(230).resample(values, seed=5)
    assert len(np.unique(means[:, 0])) == 230
    np.testing.assert_array_equal(BCa(100).resample(values, seed=5), means[:100])
