"""Values of metrics under drawn rank distributions, against sums over targets one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.inference.estimate_interval.samples import population, several
from truerank.core.ranks import SampledRanks
from truerank.core.types import FloatArray
from truerank.estimation.distribution.base import bin_gains
from truerank.estimation.distribution.likelihood import group_keys
from truerank.estimation.tally import Tally, tally
from truerank.inference.posterior.curves import Draws
from truerank.inference.posterior.values import SampleGains, design_effect
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics
from truerank.ranking.simulate import simulate_sample

METRICS = make_metrics("recall@1,recall@10,ndcg@10,ap")
SAME = simulate_sample(population(80, 60), 9)
POOLS = simulate_sample(population(80, np.arange(80) % 7 + 60), 9)


def some_masses(n_bins: int) -> FloatArray:
    masses: FloatArray = 1 / (np.arange(n_bins) + 2.0) ** 0.7
    masses /= masses.sum()
    return masses


def literal_values(
    counted: Tally, metric: Metric, sample: SampleGains, masses: FloatArray
) -> tuple[float, float]:
    """Return V, the expected mean over users given their groups, and its variance, target by target."""
    contexts, grid = counted.contexts, sample.likelihood.grid
    groups: dict[tuple[int, ...], int] = {}
    cells = []
    for context in range(len(contexts)):
        m, size = int(contexts.n_negatives[context]), int(contexts.n_candidates[context])
        for j in range(m + 1):
            weight = float(counted.cell_weights[counted.offsets[context] + j])
            if weight > 0:
                key = tuple(group_keys(np.array([m]), np.array([size]), np.array([j]))[0].tolist())
                cells.append((key, context, weight))
    for row, key in enumerate(sorted({key for key, _, _ in cells})):
        groups[key] = row
    first = bin_gains(metric, contexts, grid)
    second = bin_gains(metric, contexts, grid, power=2)
    value = variance = 0.0
    for key, context, weight in cells:
        likelihood = sample.evidence.matrix[groups[key]]
        total = mean = square = 0.0
        for b in range(grid.n_bins):
            joint = float(likelihood[b] * masses[b])
            total += joint
            mean += joint * float(first[context, b])
            square += joint * float(second[context, b])
        mean, square = mean / total, square / total
        value += weight * mean / counted.n_users
        variance += weight * (square - mean**2) / counted.n_users**2
    return value, variance


def drawn_values(
    sample: SampleGains, masses: FloatArray, sampled: float, n_unsampled: float, size: int = 20_000
) -> FloatArray:
    many = np.repeat(masses[:, None], size, axis=1)
    draws = Draws(many, np.full(size, 1 / size), np.ones(1), np.ones(1))
    return sample.sample(draws, sampled, n_unsampled, np.random.default_rng(3))


def check_moments(drawn: FloatArray, mean: float, variance: float) -> None:
    """Check mean and standard deviation to five standard errors of 20,000 draws, kurtosis allowed for."""
    error = np.sqrt(variance / len(drawn))
    assert drawn.mean() == pytest.approx(mean, abs=5 * error)
    fourth = ((drawn - drawn.mean()) ** 4).mean() / drawn.var() ** 2
    assert drawn.var() == pytest.approx(variance, rel=5 * np.sqrt((fourth - 1) / len(drawn)))


def test_values_of_the_test_users_are_sums_over_targets() -> None:
    """Mean and variance given each user's sampled rank, one pool size."""
    counted = tally(SAME, width=0)
    sample = SampleGains.of(counted, METRICS)
    masses = some_masses(sample.likelihood.grid.n_bins)
    drawn = drawn_values(sample, masses, 1.0, 0.0)
    for metric, row in zip(METRICS, drawn, strict=True):
        check_moments(row, *literal_values(counted, metric, sample, masses))


@pytest.mark.parametrize("ranks", [POOLS, several(60, 20)], ids=["pools", "several targets"])
def test_targets_of_several_kinds(ranks: SampledRanks) -> None:
    """The mean is exact; the variance, from the mean of a group, is at least that of its targets."""
    counted = tally(ranks, width=0)
    sample = SampleGains.of(counted, METRICS)
    masses = some_masses(sample.likelihood.grid.n_bins)
    drawn = drawn_values(sample, masses, 1.0, 0.0)
    for metric, row in zip(METRICS, drawn, strict=True):
        mean, variance = literal_values(counted, metric, sample, masses)
        assert row.mean() == pytest.approx(mean, abs=5 * row.std() / np.sqrt(len(row)))
        assert 0.9 * variance < row.var() < 1.5 * variance


def test_population_is_the_plug_in_value() -> None:
    """Given the distribution of ranks nothing is random about a population."""
    counted = tally(SAME, width=0)
    sample = SampleGains.of(counted, METRICS)
    masses = some_masses(sample.likelihood.grid.n_bins)
    drawn = drawn_values(sample, masses, 0.0, np.inf, 5)
    for metric, row in zip(METRICS, drawn, strict=True):
        wanted = bin_gains(metric, counted.contexts, sample.likelihood.grid)[0] @ masses
        np.testing.assert_allclose(row, wanted, atol=1e-7)


def test_users_that_were_not_sampled_have_ranks_of_their_own() -> None:
    """80 of 200 test users: 0.4 times the sampled mean, 0.6 times the mean of 120 others."""
    counted = tally(SAME, width=0)
    sample = SampleGains.of(counted, METRICS)
    masses = some_masses(sample.likelihood.grid.n_bins)
    drawn = drawn_values(sample, masses, 0.4, 120.0)
    for metric, row in zip(METRICS, drawn, strict=True):
        mean, variance = literal_values(counted, metric, sample, masses)
        gains = bin_gains(metric, counted.contexts, sample.likelihood.grid)[0]
        other = float(gains @ masses)
        spread = float(gains**2 @ masses) - other**2
        check_moments(row, 0.4 * mean + 0.6 * other, 0.16 * variance + 0.36 * spread / 120)


def test_known_ranks_count_as_they_are() -> None:
    """Users whose candidates were all ranked contribute their exact value and no variance."""
    known = SampledRanks.single([0, 3, 9, 2], n_negatives=9, n_pool=10)
    counted = tally(known, width=0)
    sample = SampleGains.of(counted, METRICS)
    drawn = drawn_values(sample, some_masses(sample.likelihood.grid.n_bins), 1.0, 0.0, 3)
    wanted = [
        1 / 4,
        1.0,
        (1 + 1 / np.log2(5) + 1 / np.log2(11) + 1 / np.log2(4)) / 4,
        (1 + 1 / 4 + 1 / 10 + 1 / 3) / 4,
    ]
    for row, value in itertools.product(range(4), range(3)):
        assert drawn[row, value] == pytest.approx(wanted[row], abs=1e-7)


def test_targets_that_say_the_same_count_once() -> None:
    """Two targets per user with equal sampled ranks are worth one each; independent ones are worth two."""
    n_users = 500
    draw = np.random.default_rng(0)
    user, place = np.repeat(np.arange(n_users), 2), np.tile([0, 1], n_users)
    zeros = np.zeros_like(user)
    effects = []
    for above in (np.repeat(draw.integers(0, 10, n_users), 2), draw.integers(0, 10, 2 * n_users)):
        sample = SampledRanks(
            user=user,
            item=place,
            n_above=above + place,
            n_tied=zeros,
            n_pool=zeros + 102,
            n_relevant=zeros + 2,
            n_relevant_above=place,
            n_relevant_tied=zeros,
            n_negatives=zeros + 9,
            n_candidates=zeros + 100,
        )
        counted = tally(sample)
        effects.append(design_effect(counted))
        evidence = SampleGains.of(counted, ()).evidence
        assert evidence.n_rows == pytest.approx(2 * n_users / effects[-1])
    assert effects[0] == pytest.approx(2)
    assert effects[1] == pytest.approx(1, abs=5 / np.sqrt(n_users))
