"""Resampled users: a literal bootstrap, paired between models, and intervals that hold their value."""

from __future__ import annotations

import numpy as np

from truerank.workflows.agreement.order import means_of_resamples, resample_seeds, resample_users
from truerank.workflows.agreement.taus import percentile_interval


def test_means_are_those_of_a_literal_bootstrap() -> None:
    rng = np.random.default_rng(1)
    totals, weights = rng.random((7, 2)), rng.integers(1, 4, 7).astype(float)
    counts = resample_users(0, 7, 130)
    found = means_of_resamples(totals.astype(np.float32), weights, counts)
    single = totals.astype(np.float32).astype(float)
    for b in range(130):
        top, bottom = np.zeros(2), 0.0
        for user in range(7):
            for _ in range(int(counts[b, user])):
                top += single[user]
                bottom += weights[user]
        np.testing.assert_allclose(found[b], top / bottom, rtol=1e-12)


def test_draws_are_a_function_of_the_seed() -> None:
    first = resample_users(3, 50, 10)
    np.testing.assert_array_equal(
        first, resample_users(3, 50, 20)[:10]
    )  # more resamples do not change the first
    assert (first.sum(axis=1) == 50).all()
    assert (first != resample_users(4, 50, 10)).any()
    assert resample_seeds(0, 3, 5).shape == (5, 3)
    assert resample_seeds(0, 1, 5).tolist() == [[0]] * 5


def test_differences_are_paired() -> None:
    """A model that is better for every user is better in every resample, whatever the spread of users."""
    users = np.random.default_rng(0).random(40)
    totals = np.column_stack([users + 0.01, users])
    found = means_of_resamples(totals, np.ones(40), resample_users(0, 40, 200))
    np.testing.assert_allclose(found[:, 0] - found[:, 1], 0.01, atol=1e-12)
    assert found[:, 1].std() > 0.03


def test_intervals_hold_the_value_and_know_what_is_missing() -> None:
    resampled = np.linspace(0, 1, 101)[:, None] * np.ones((1, 3))
    resampled[:, 1] = np.nan
    resampled[::2, 2] = np.nan  # half of the resamples have no tau
    low, high = percentile_interval(resampled, np.array([0.99, np.nan, 0.5]), 0.9)
    np.testing.assert_allclose(low, [0.05, np.nan, 0.059])
    np.testing.assert_allclose(high, [0.99, np.nan, 0.941])
