"""Leave the last, or random ones, out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tests.split.strategies import timed_events
from truerank.core.errors import TruerankError
from truerank.core.interactions import Interactions
from truerank.data.catalogue import find_local, load
from truerank.split.base import make_split


def test_last_by_time() -> None:
    events = Interactions.from_codes(
        [0, 0, 0, 1, 1, 2], [0, 1, 2, 0, 1, 0], time=np.array([5, 9, 7, 3, 2, 1])
    )
    split = make_split(events, "leave-last-out(valid=true)")
    assert (split.test.user.tolist(), split.test.item.tolist()) == ([0, 1], [1, 0])
    assert split.valid is not None and (split.valid.user.tolist(), split.valid.item.tolist()) == ([0], [2])
    assert split.train.user.tolist() == [0, 1, 2]
    assert split.counts["users_without_targets"] == 1


def test_equal_times_the_later_row_is_later() -> None:
    events = Interactions.from_codes([0, 0, 0], [4, 2, 3], time=np.array([7, 7, 7]))
    split = make_split(events, "leave-last-out(valid=true)")
    assert split.test.item.tolist() == [3]
    assert split.valid is not None and split.valid.item.tolist() == [2]


def test_short_users_stay_in_train() -> None:
    """n = 2: two events give no target, three one pair of targets, five validation too."""
    user = np.repeat([0, 1, 2], [2, 3, 5])
    events = Interactions.from_codes(user, np.arange(10), time=np.arange(10))
    split = make_split(events, "leave-last-out(n=2, valid=true)")
    assert split.test.user_counts().tolist() == [0, 2, 2]
    assert split.valid is not None and split.valid.user_counts().tolist() == [0, 0, 2]
    assert split.train.user_counts().tolist() == [2, 1, 1]


@given(timed_events())
@settings(max_examples=60, deadline=None)
def test_last_agrees_with_sorting(events: Interactions) -> None:
    assert events.time is not None
    order = np.lexsort((np.arange(len(events)), events.time, events.user))
    wanted = {}
    for user in range(events.n_users):
        own = [row for row in order if events.user[row] == user]
        if len(own) > 1:
            wanted[user] = int(events.item[own[-1]])
    if wanted:
        test = make_split(events, "leave-last-out").test
        assert dict(zip(test.user.tolist(), test.item.tolist(), strict=True)) == wanted


def test_floating_and_negative_times() -> None:
    events = Interactions.from_codes([0, 0, 0], [0, 1, 2], time=np.array([-1.5, -0.5, -2.5]))
    assert make_split(events, "leave-last-out").test.item.tolist() == [1]


def test_random_choice_depends_on_seed_and_is_even() -> None:
    """Over 3,000 users with 3 items each, every item is chosen about 1,000 times."""
    events = Interactions.from_codes(np.repeat(np.arange(3000), 3), np.tile(np.arange(3), 3000))
    first, again, other = (make_split(events, "leave-one-out", seed=seed).test for seed in (0, 0, 1))
    assert first.item.tolist() == again.item.tolist() != other.item.tolist()
    assert np.abs(first.item_counts() - 1000).max() < 6 * np.sqrt(3000 * 2 / 9)


@pytest.mark.data
@pytest.mark.skipif(
    find_local("ml-1m") is None, reason="ml-1m lies neither in TRUERANK_DATA nor ../shared/data"
)
def test_ml1m_split_of_ncf() -> None:
    """NCF's test items are the last by time, except where a user's last time occurs more than once."""
    events = load("ml-1m", keep=["ncf_split"])
    assert (events.n_users, events.n_items, len(events)) == (6040, 3706, 1_000_209)
    given_split = make_split(events, "column(name=ncf_split)")
    assert (len(given_split.train), len(given_split.test)) == (994_169, 6_040)
    assert given_split.counts["users_without_targets"] == given_split.counts["events_dropped"] == 0
    ours = make_split(events, "leave-last-out").test
    theirs = given_split.test
    assert events.time is not None and ours.time is not None and theirs.time is not None
    latest = np.zeros(events.n_users, dtype=np.int64)
    np.maximum.at(latest, events.user, events.time)
    ties = np.bincount(events.user[events.time == latest[events.user]], minlength=events.n_users)
    item = np.zeros((2, events.n_users), dtype=np.int64)
    item[0, ours.user], item[1, theirs.user] = ours.item, theirs.item
    untied = ties == 1
    assert (item[0] == item[1])[untied].all()
    assert untied.sum() > 1000
    assert np.array_equal(np.sort(theirs.time), np.sort(ours.time))


@pytest.mark.parametrize("rule", ["leave-last-out", "leave-one-out"])
def test_more_events_than_anybody_has_are_not_looked_for(rule: str) -> None:
    """A count that no user reaches is refused at once, and not after 2^63 rounds."""
    events = Interactions.from_codes([0, 0, 0, 1], [0, 1, 2, 0], time=np.arange(4))
    with pytest.raises(TruerankError, match="must give at least one test event"):
        make_split(events, f"{rule}(n={2**63})")
