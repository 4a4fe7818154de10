"""A random subset of the test users."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.split import Split
from truerank.split.base import sample_users


def made(n_users: int, n_without: int = 0) -> Split:
    """Two targets per user; the last users have none."""
    users = np.repeat(np.arange(n_users), 2)
    items = np.tile([1, 2], n_users)
    size = n_users + n_without
    train = Interactions.from_codes(np.arange(size), np.zeros(size, dtype=int), n_users=size, n_items=3)
    return Split(train, Interactions.from_codes(users, items, n_users=size, n_items=3))


def test_keeps_whole_users_and_everything_else() -> None:
    split = made(10, n_without=3)
    some = sample_users(split, 4, seed=1)
    assert some.n_test_users == 10
    assert sorted(np.bincount(some.test.user, minlength=13).tolist()) == [0] * 9 + [2] * 4
    assert some.train is split.train
    assert some.summary()["users_drawn_from"] == 10


@pytest.mark.parametrize(("users", "expected"), [(0.25, 3), (0.3, 3), (1, 1), (10, 10), (0.001, 1), (4.0, 4)])
def test_numbers_and_shares(users: float, expected: int) -> None:
    assert len(np.unique(sample_users(made(10), users).test.user)) == expected


def test_smaller_draws_lie_in_larger_ones() -> None:
    split = made(30)
    drawn = [set(sample_users(split, n, seed=5).test.user.tolist()) for n in range(1, 31)]
    assert all(small < large for small, large in itertools.pairwise(drawn))


@pytest.mark.parametrize("users", [0, -1, 1.5, float("nan"), True, "3"])
def test_what_is_no_number_of_users(users: object) -> None:
    with pytest.raises(InvalidParameter, match="users must be an integer >= 1 or a fraction between 0 and 1"):
        sample_users(made(10), users)  # type: ignore[arg-type]


def test_more_users_than_there_are() -> None:
    with pytest.raises(InvalidParameter, match="at most the 10 users that have targets, got 11"):
        sample_users(made(10, n_without=5), 11)


def test_a_draw_from_a_draw_is_refused() -> None:
    with pytest.raises(InvalidData, match="the users of this split are a sample already"):
        sample_users(sample_users(made(10), 5), 2)


@pytest.mark.stat
def test_every_user_is_as_likely() -> None:
    """2,000 draws of 5 of 20 users; the chance of each user is a quarter. Level 1e-6, fixed seeds."""
    split = made(20)
    counts = np.zeros(20)
    for seed in range(2000):
        counts[np.unique(sample_users(split, 5, seed=seed).test.user)] += 1

    def p_value(counts: np.ndarray) -> float:
        # counts of a draw without replacement: each has variance n p (1 - p), they sum to 5 per draw
        statistic = float(((counts - 500) ** 2).sum() / (2000 * 0.25 * 0.75) * 19 / 20)
        return float(stats.chi2.sf(statistic, 19))

    assert p_value(counts) > 1e-6
    shifted = counts.copy()
    shifted[0] += 200  # a user taken in 35 % of draws instead of 25 %
    assert p_value(shifted) < 1e-6
