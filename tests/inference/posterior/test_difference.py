"""Posteriors of differences: each model keeps its own, and what errors share cancels."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from truerank.inference.posterior.difference import coupled_quantiles, difference_posterior
from truerank.inference.posterior.interval import MetricPosterior, weighted_quantiles


def posterior(mean: float, sd: float, *, seed: int = 0, unit: float = 0.0) -> MetricPosterior:
    """Return uneven draws of two metrics, the second half of the first with a little noise."""
    draw = np.random.default_rng(seed)
    first = draw.normal(mean, sd, 2000)
    values = np.stack([first, first / 2 + draw.normal(0, sd / 20, 2000)])
    weights = draw.gamma(2.0, size=2000)
    return MetricPosterior(values, weights / weights.sum(), np.full(2, unit), 1, 1.0)


@pytest.mark.parametrize("sharing", [0.0, 0.3, 1.0])
def test_every_model_keeps_its_posterior(sharing: float) -> None:
    """Against a model that is known to be 0 the difference has the quantiles of the posterior itself."""
    model = posterior(0.3, 0.02)
    zero = MetricPosterior(np.zeros((2, 1)), np.ones(1), np.zeros(2), 1, 1.0)
    found = difference_posterior({"a": model, "zero": zero}, [("a", "zero")], sharing=sharing)
    for column, row in enumerate(model.values):
        levels = [0.01, 0.1, 0.5, 0.9, 0.99]
        expected = weighted_quantiles(row, model.weights, levels)
        assert np.quantile(found.values[0, column], levels) == pytest.approx(expected, abs=0.001)
    low, high = found.limits(0.95)
    own = model.limits(0.95)
    assert low[0] == pytest.approx(own[0], abs=0.001) and high[0] == pytest.approx(own[1], abs=0.001)


def test_quantiles_come_once_and_are_correlated() -> None:
    """Each model takes every quantile once; normal scores correlate as the sharing says."""
    first, second = (coupled_quantiles(name, "users", 0.4) for name in ("ease", "ials"))
    assert np.array_equal(np.sort(first), (np.arange(8192) + 0.5) / 8192)
    assert np.array_equal(np.sort(second), np.sort(first))
    # the standard error of a correlation of 0.4 from 8,192 draws is 0.009
    assert np.corrcoef(ndtri(first), ndtri(second))[0, 1] == pytest.approx(0.4, abs=0.045)
    other = coupled_quantiles("ials", "other users", 0.4)
    assert np.corrcoef(ndtri(first), ndtri(other))[0, 1] == pytest.approx(0.0, abs=0.055)


def test_errors_that_are_shared_cancel() -> None:
    """Two models with the same posterior: no width if all errors are shared, less width the more are."""
    models = {"a": posterior(0.3, 0.02, unit=0.001), "b": posterior(0.3, 0.02, unit=0.001)}
    low, high = difference_posterior(models, [("a", "b")], sharing=1.0).limits(0.95)
    assert (low == 0).all() and (high == 0).all()
    widths = []
    for sharing in (0.0, 0.5, 0.9):
        low, high = difference_posterior(models, [("a", "b")], sharing=sharing).limits(0.95)
        widths.append(float((high - low)[0, 0]))
    assert widths[0] > widths[1] > widths[2] > 0.001
    # independent: 2 x 1.96 standard deviations of a difference, and half a unit at both ends
    assert widths[0] == pytest.approx(2 * 1.96 * 0.02 * np.sqrt(2) + 0.001, rel=0.05)
    groups = {"a": "these users", "b": "other users"}
    low, high = difference_posterior(models, [("a", "b")], sharing=0.9, groups=groups).limits(0.95)
    assert float((high - low)[0, 0]) == pytest.approx(widths[0], rel=0.05)


def test_swapping_models_mirrors_intervals_exactly() -> None:
    models = {
        "a": posterior(0.3, 0.02),
        "b": posterior(0.28, 0.03, seed=1),
        "c": posterior(0.1, 0.01, seed=2),
    }
    there = difference_posterior(models, [("a", "b"), ("a", "c")], sharing=0.3)
    back = difference_posterior(dict(reversed(models.items())), [("c", "a"), ("b", "a")], sharing=0.3)
    for is_simultaneous in (False, True):
        low, high = there.limits(0.9, is_simultaneous=is_simultaneous)
        other_low, other_high = back.limits(0.9, is_simultaneous=is_simultaneous)
        assert np.array_equal(low, -other_high[::-1]) and np.array_equal(high, -other_low[::-1])
    assert there.probability == pytest.approx(1 - back.probability[::-1])


def test_simultaneous_intervals_hold_together() -> None:
    """All of 12 intervals hold in 90 % of the joint draws; one interval alone is not widened."""
    models = {name: posterior(0.3, 0.02, seed=seed) for seed, name in enumerate("abcd")}
    pairs = [(a, b) for a in "abcd" for b in "abcd" if a < b]
    found = difference_posterior(models, pairs, sharing=0.2)
    low, high = found.limits(0.9, is_simultaneous=True)
    holds = ((found.values >= low[:, :, None]) & (found.values <= high[:, :, None])).all(axis=(0, 1))
    assert 0.9 <= holds.mean() < 0.905
    single_low, single_high = found.limits(0.9)
    assert (low < single_low).all() and (high > single_high).all()
    alone = MetricPosterior(models["a"].values[:1], models["a"].weights, np.zeros(1), 1, 1.0)
    zero = MetricPosterior(np.zeros((1, 1)), np.ones(1), np.zeros(1), 1, 1.0)
    one = difference_posterior({"a": alone, "zero": zero}, [("a", "zero")], sharing=0.0)
    assert np.array_equal(one.limits(0.9), one.limits(0.9, is_simultaneous=True))


def test_probabilities_and_widening() -> None:
    """P(A > B) is that of two normals; an interval with widening 0.4 at 95 % is the central 98 %."""
    models = {"a": posterior(0.32, 0.02), "b": posterior(0.30, 0.02, seed=1)}
    found = difference_posterior(models, [("a", "b"), ("a", "a")], sharing=0.0)
    assert found.probability[0, 0] == pytest.approx(0.76, abs=0.03)  # Phi(0.02 / (0.02 sqrt 2))
    assert (found.probability[1] == 0.5).all()
    wide = {name: MetricPosterior(own.values, own.weights, own.unit, 1, 0.4) for name, own in models.items()}
    at_95 = difference_posterior(wide, [("a", "b")], sharing=0.0).limits(0.95)
    at_98 = difference_posterior(models, [("a", "b")], sharing=0.0).limits(0.98)
    assert np.array(at_95) == pytest.approx(np.array(at_98), abs=1e-3)


def test_draws_of_a_model_do_not_depend_on_the_others() -> None:
    assert np.array_equal(
        coupled_quantiles("ease", 1, 0.3, seed=4), coupled_quantiles("ease", 1, 0.3, seed=4)
    )
    assert not np.array_equal(coupled_quantiles("ease", 1, 0.3), coupled_quantiles("ease", 1, 0.3, seed=4))
