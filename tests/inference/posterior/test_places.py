"""The law of a target's place among the targets of its user, against integrals and a simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import betainc, expit
from scipy.stats import binom, norm

from truerank.inference.posterior.places import SPREADS, joint_masses, middle_of, place_table, round_down


def test_steps_hold_their_numbers() -> None:
    """Rounding down is idempotent and rises; the middle of a step rounds down to the step."""
    numbers = np.arange(5000)
    steps = round_down(numbers)
    assert (steps <= numbers).all()
    assert (np.diff(steps) >= 0).all()
    np.testing.assert_array_equal(round_down(steps), steps)
    np.testing.assert_array_equal(steps[:9], numbers[:9])
    assert (numbers < 1.3 * steps + 1).all()
    for step in np.unique(steps).tolist():
        assert round_down(np.array([middle_of(step)])).tolist() == [step]


@pytest.mark.parametrize("spread", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("n_targets", [1, 2, 7])
def test_every_place_is_taken_once(n_targets: int, spread: float) -> None:
    """Over the whole list each of the n places has probability 1/n, and places of a bin sum to its mass."""
    table = place_table(n_targets, n_targets, spread)
    masses = np.diff(np.linspace(0, 1, 41) ** 1.5)[:, None]
    joint = joint_masses(table, masses)[:, :, 0]
    assert joint.shape == (n_targets + 1, 40)
    np.testing.assert_allclose(joint.sum(axis=0), masses[:, 0], rtol=2e-4)
    np.testing.assert_allclose(joint[:-1].sum(axis=1), 1 / n_targets, rtol=5e-3)
    np.testing.assert_allclose(joint[-1], 0, atol=1e-12)


def test_places_of_equal_users_are_binomial() -> None:
    """Without a spread, P(place k, p <= x) is the integral of a binomial probability, a beta function."""
    n_targets = 6
    below = np.array([0.001, 0.01, 0.05, 0.2, 0.5, 0.9, 1.0])
    joint = joint_masses(place_table(n_targets, n_targets, 0.0), np.diff(below, prepend=0.0)[:, None])
    for k in range(n_targets):
        expected = np.diff(betainc(k + 1, n_targets - k, below) / n_targets, prepend=0.0)
        np.testing.assert_allclose(joint[k, :, 0], expected, rtol=5e-3, atol=1e-6)


@pytest.mark.parametrize("spread", [0.4, 1.2])
def test_law_of_users_who_differ(spread: float) -> None:
    """The density of p at a place is an integral over users, those with a target there the more likely."""
    n_targets, place = 9, 2
    z = np.linspace(-8, 8, 4001)

    def literal(p: float) -> float:
        eta = brentq(lambda eta: norm.pdf(z) @ expit(eta + spread * z) / norm.pdf(z).sum() - p, -40, 40)
        above = expit(eta + spread * z)
        density = above * (1 - above) * norm.pdf(z)
        return float(density @ binom.pmf(place, n_targets - 1, above) / density.sum())

    for low, high in ((0.009, 0.011), (0.1, 0.11), (0.45, 0.46)):
        masses = np.array([[low], [high - low], [1 - high]])
        found = joint_masses(place_table(n_targets, n_targets, spread), masses)[place, 1, 0] / (high - low)
        assert found == pytest.approx(literal((low + high) / 2), rel=0.02)


def test_late_places_are_put_together() -> None:
    """The last row has all places from ``n_places`` on; the others are what they are without it."""
    whole, cut = place_table(7, 7, 0.6), place_table(7, 3, 0.6)
    assert len(cut) == 4
    np.testing.assert_allclose(cut[:3], whole[:3], rtol=1e-9)
    np.testing.assert_allclose(cut[3], whole[3:].sum(axis=0), rtol=1e-6, atol=1e-12)


def test_spreads_begin_with_equal_users() -> None:
    """The grid of spreads begins at 0 and rises evenly."""
    assert SPREADS[0] == 0
    np.testing.assert_allclose(np.diff(SPREADS), SPREADS[1])
