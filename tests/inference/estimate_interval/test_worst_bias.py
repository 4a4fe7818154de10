"""The worst bias against a linear program over every single rank."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import stdtrit

from tests.inference.estimate_interval.samples import estimated, population, several, values_of
from truerank.core.ranks import Ranks, Stopping
from truerank.core.types import FloatArray
from truerank.estimation.corrections.equations import gain_at
from truerank.inference.bounds.problem import Shape
from truerank.inference.bounds.region import make_events, observed_region
from truerank.inference.estimate_interval.linear import LinearisedEstimate
from truerank.inference.estimate_interval.outcomes import possible_outcomes
from truerank.inference.estimate_interval.registry import UNCERTAINTIES, PointEstimates
from truerank.inference.estimate_interval.worst_bias import largest_bias, worst_bias
from truerank.ranking.simulate import simulate_adaptive, simulate_sample

METRICS = "recall@10,ndcg@5,auc"
RULE = Stopping((6, 15, 40))


def by_all_ranks(linear: LinearisedEstimate, level: float, shape: Shape | None) -> FloatArray:
    """Slow twin: one place per rank (or per uniform distribution of first ranks), one pool, solved whole."""
    (outcomes,) = possible_outcomes(linear.counted)
    law, cells = outcomes.law, outcomes.cells[0]
    every = np.arange(law.n_candidates + 1)
    rows = law.pmf(every)
    stopping = law.design.stopping
    events = make_events(law.sizes[-1] if stopping is None else stopping.sizes[-1])
    happen = events.indicators(law.outcome_sizes, law.outcome_above)
    everyone = np.ones(len(linear.counted.contexts), dtype=bool)
    region, _ = observed_region(linear.counted, everyone, events, level=level)
    probabilities, one = rows @ happen, linear.counted.contexts.take(outcomes.contexts[:1])
    gains = np.stack([gain_at(metric, every, one)[0] for metric in linear.estimates.metrics], axis=1)
    bias = rows @ linear.x[cells] - gains
    if shape:
        probabilities, bias = (np.cumsum(t, axis=0) / (every + 1)[:, None] for t in (probabilities, bias))
    limits = np.concatenate([region.high, -region.low])
    extremes = []
    for column in bias.T:
        for sign in (1, -1):
            found = linprog(
                sign * column,
                np.hstack([probabilities, -probabilities]).T,
                limits,
                np.ones((1, len(every))),
                [1.0],
            )
            assert found.status == 0
            extremes.append(sign * float(found.fun or 0.0))
    return np.array(extremes).reshape(-1, 2)


@pytest.mark.parametrize("shape", [None, "decreasing"])
@pytest.mark.parametrize("design", ["fixed", "replacement", "adaptive"])
def test_extremes_are_those_of_the_whole_program(design: str, shape: Shape | None) -> None:
    ranks = population(300, 150)
    if design == "adaptive":
        sample = simulate_adaptive(ranks, RULE)
    else:
        sample = simulate_sample(ranks, 25, replacement=design == "replacement")
    linear = LinearisedEstimate.of(estimated(sample, "bv(gamma=0.01)", METRICS))
    bias = worst_bias(linear.estimates, linear.counted, linear.x, level=0.9, shape=shape)
    expected = by_all_ranks(linear, 0.9, shape)
    assert (bias[:, 0] <= expected[:, 0] + 1e-6).all() and (bias[:, 1] >= expected[:, 1] - 1e-6).all()
    np.testing.assert_allclose(bias, expected, atol=0.02)


def true_bias(linear: LinearisedEstimate, ranks: Ranks) -> FloatArray:
    """Return the bias for one target per user and known ranks, by the law that each pool has."""
    by_pool = {o.law.n_candidates: o for o in possible_outcomes(linear.counted)}
    total = np.zeros(len(linear.estimates.metrics))
    for above, size in zip(ranks.n_above.tolist(), (ranks.n_pool - 1).tolist(), strict=True):
        outcomes = by_pool[size]
        total += outcomes.law.pmf([above])[0] @ linear.x[outcomes.cells[0]]
    return total / len(ranks) - values_of(ranks, METRICS)


@pytest.mark.slow
def test_the_true_bias_lies_within_for_pools_of_many_sizes() -> None:
    ranks = population(200, np.arange(100, 300))
    linear = LinearisedEstimate.of(estimated(simulate_sample(ranks, 25), "bv", METRICS, width=0.0))
    bias, true = worst_bias(linear.estimates, linear.counted, linear.x, level=0.99), true_bias(linear, ranks)
    assert (bias[:, 0] <= true).all() and (true <= bias[:, 1]).all()
    binned = LinearisedEstimate.of(estimated(simulate_sample(ranks, 25), "bv", METRICS, width=0.02))
    other = worst_bias(binned.estimates, binned.counted, binned.x, level=0.99)
    np.testing.assert_allclose(other, bias, atol=0.03)


def test_known_targets_have_a_known_bias() -> None:
    """Half of the pools were drawn whole; ``rank-estimate`` knows them, and what is left is bounded."""
    pools = np.where(np.arange(60) % 2, 21, 200)
    ranks = population(60, pools)
    linear = LinearisedEstimate.of(estimated(simulate_sample(ranks, 20), "rank-estimate", METRICS, width=0.0))
    bias = worst_bias(linear.estimates, linear.counted, linear.x, level=0.9)
    whole = LinearisedEstimate.of(
        estimated(simulate_sample(Ranks.single([3, 8], n_pool=21), 20), "naive", METRICS)
    )
    np.testing.assert_allclose(
        worst_bias(whole.estimates, whole.counted, whole.x, level=0.9), 0.0, atol=1e-12
    )
    assert (np.abs(bias) < 0.55).all() and (bias[:2, 1] > bias[:2, 0]).all()


def test_largest_bias_holds_for_every_rank() -> None:
    linear = LinearisedEstimate.of(estimated(simulate_sample(population(50, 100), 20), "bv", METRICS))
    (outcomes,) = possible_outcomes(linear.counted)
    mean = outcomes.law.pmf(np.arange(100)) @ linear.x[outcomes.cells[0]]
    one = linear.counted.contexts
    for column, metric in enumerate(linear.estimates.metrics):
        expected = np.abs(mean[:, column] - gain_at(metric, np.arange(100), one)[0]).max()
        assert largest_bias(linear.counted, linear.x, metric, column) == pytest.approx(expected)
    naive = LinearisedEstimate.of(estimated(several(30, 20), "naive", "auc"))
    assert largest_bias(naive.counted, naive.x, naive.estimates.metrics[0], 0) < 1e-12


def test_bias_aware_holds_noise_and_bias() -> None:
    """The interval is that of its docstring, and within the bounds."""
    found = estimated(simulate_sample(population(300, 150), 25), "bv", METRICS)
    linear = LinearisedEstimate.of(found)
    half = stdtrit(299, 1 - 0.05 / 2) * linear.standard_error("test-users")
    bias = worst_bias(found, linear.counted, linear.x, level=0.95)
    bounds = UNCERTAINTIES.make("bounds").band(found, level=0.95)
    band = UNCERTAINTIES.make("bias-aware").band(found, level=0.9)
    np.testing.assert_allclose(band.low, np.maximum(found.value - half - bias[:, 1], bounds.low))
    np.testing.assert_allclose(band.high, np.minimum(found.value + half - bias[:, 0], bounds.high))
    wide = UNCERTAINTIES.make("bias-aware").band(found, target="population", level=0.9)
    assert (wide.low <= band.low).all() and (wide.high >= band.high).all()


def test_an_impossible_estimate_leaves_the_bounds() -> None:
    found = estimated(simulate_sample(population(300, 150), 25), "naive", "recall@10")
    away = PointEstimates(found.ranks, found.tally, found.estimator, found.metrics, found.value + 5)
    band = UNCERTAINTIES.make("bias-aware").band(away, level=0.9)
    bounds = UNCERTAINTIES.make("bounds").band(found, level=0.95)
    np.testing.assert_allclose([band.low, band.high], [bounds.low, bounds.high])
