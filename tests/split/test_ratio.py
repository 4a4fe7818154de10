"""Shares per user."""

from __future__ import annotations

import numpy as np
import pytest

from truerank.core.interactions import Interactions
from truerank.split.base import make_split


@pytest.mark.parametrize(
    ("length", "train", "valid", "test"),
    [(1, 1, 0, 0), (2, 1, 0, 1), (3, 2, 0, 1), (5, 4, 0, 1), (9, 7, 1, 1), (10, 8, 1, 1), (25, 20, 2, 3)],
)
def test_rounding(length: int, train: int, valid: int, test: int) -> None:
    """Cuts at floor(0.8 L) and floor(0.9 L), at least one event in train."""
    user = np.repeat([0, 1], [length, 10])
    events = Interactions.from_codes(user, np.arange(length + 10))
    split = make_split(events, "ratio")
    assert split.valid is not None
    counts = [part.user_counts()[0] for part in (split.train, split.valid, split.test)]
    assert counts == [train, valid, test]


def test_users_without_events_do_not_disturb() -> None:
    events = Interactions.from_codes([1] * 10 + [3] * 10, [*range(10), *range(10)], n_users=5)
    split = make_split(events, "ratio")
    assert split.test.user_counts().tolist() == [0, 1, 0, 1, 0]
    assert split.counts["users_without_targets"] == 3


def test_seed() -> None:
    events = Interactions.from_codes(np.repeat(np.arange(50), 20), np.tile(np.arange(20), 50))
    first, again, other = (make_split(events, "ratio", seed=seed).test for seed in (0, 0, 1))
    assert first.item.tolist() == again.item.tolist() != other.item.tolist()


def test_no_validation() -> None:
    events = Interactions.from_codes([0] * 10, range(10))  # type: ignore[arg-type]
    split = make_split(events, "ratio(test=0.3, valid=0)")
    assert split.valid is None
    assert (len(split.train), len(split.test)) == (7, 3)


def test_repeated_pairs_stay_together() -> None:
    """Copies of one pair share one key, so they cannot lie in two parts."""
    user = np.zeros(40, dtype=np.int64)
    events = Interactions.from_codes(user, np.repeat(np.arange(20), 2))
    split = make_split(events, "ratio(test=0.2, valid=0)")
    assert set(split.test.item.tolist()).isdisjoint(split.train.item.tolist())


@pytest.mark.parametrize(
    ("length", "train", "valid", "test"),
    [(1, 0, 0, 1), (2, 0, 0, 2), (3, 1, 0, 2), (5, 3, 0, 2), (9, 6, 1, 2), (10, 7, 1, 2), (25, 19, 2, 4)],
)
def test_rounding_with_the_first_event_in_test(length: int, train: int, valid: int, test: int) -> None:
    """The same cuts, and the first of the shuffled events is taken from train to test."""
    user = np.repeat([0, 1, 2], [10, length, 10])
    events = Interactions.from_codes(user, np.arange(length + 20), n_users=4)
    split = make_split(events, "ratio(first=test)")
    usual = make_split(events, "ratio")
    assert split.valid is not None
    assert usual.valid is not None
    counts = [part.user_counts()[1] for part in (split.train, split.valid, split.test)]
    assert counts == [train, valid, test]
    moved = set(split.test.item.tolist()) - set(usual.test.item.tolist())
    assert len(moved & set(usual.train.item.tolist())) == len(moved)
    assert split.counts["users_without_targets"] == 1  # the one without events


def test_repeated_pairs_stay_together_with_the_first_event_in_test() -> None:
    events = Interactions.from_codes(np.repeat([0, 1], [20, 3]), [*np.repeat(np.arange(10), 2), 4, 4, 4])
    split = make_split(events, "ratio(first=test)")
    assert set(split.test.item[split.test.user == 0]).isdisjoint(split.train.item[split.train.user == 0])
    assert split.test.user_counts()[1] == 3  # three events of one pair
