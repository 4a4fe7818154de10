"""Histories stand in the order of time and come in batches without loss."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions
from truerank.models.svae import next_targets
from truerank.models.torch_training import Histories


def timed(seed: int = 0, n_users: int = 30, n_items: int = 17, n: int = 200) -> Interactions:
    """Random events, several at the same time; the last user has none, the one before has one."""
    rng = np.random.default_rng(seed)
    user = np.append(rng.integers(n_users - 2, size=n - 1), n_users - 2)
    return Interactions.from_codes(
        user, rng.integers(n_items, size=n), time=rng.integers(40, size=n), n_users=n_users, n_items=n_items
    )


def literal(train: Interactions, user: int) -> list[int]:
    """The start token, then the items in the order of time and row."""
    time = np.asarray(train.time)
    rows = [row for row in range(len(train)) if train.user[row] == user]
    return [
        train.n_items,
        *(int(train.item[row]) for row in sorted(rows, key=lambda row: (time[row], row))),
    ]


def test_order_is_time_then_row() -> None:
    train = timed()
    histories = Histories.of("sasrec", train)
    for user in range(train.n_users):
        first, last = histories.indptr[user : user + 2]
        assert histories.items[first:last].tolist() == literal(train, user)


@given(seed=st.integers(0, 1000), most=st.integers(1, 12))
def test_latest_keeps_the_end(seed: int, most: int) -> None:
    train = timed(seed)
    users = np.random.default_rng(seed).permutation(train.n_users)[:9]
    padded = Histories.of("sasrec", train).latest(users, most)
    for row, user in enumerate(users):
        wanted = literal(train, user)[-most:]
        assert padded.items[row, : padded.lengths[row]].tolist() == wanted
        assert not padded.items[row, padded.lengths[row] :].any()
        assert padded.is_filled()[row].sum() == len(wanted)


@given(seed=st.integers(0, 1000), size=st.integers(1, 40))
def test_batches_hold_every_user_with_events_once(seed: int, size: int) -> None:
    train = timed(seed)
    histories = Histories.of("sasrec", train)
    found = [padded.users for padded in histories.batches(np.random.default_rng(seed), size, 5)]
    assert all(len(users) <= size for users in found)
    assert sorted(np.concatenate(found)) == np.flatnonzero(train.user_counts()).tolist()
    assert train.user_counts()[28:].tolist() == [1, 0]
    scored = np.concatenate([padded.users for padded in histories.blocks(size, 5)])
    assert sorted(scored) == list(range(train.n_users))


@given(seed=st.integers(0, 1000), size=st.integers(1, 40), most=st.integers(2, 12))
def test_batches_train_what_the_definition_says(seed: int, size: int, most: int) -> None:
    """Literal twin: each of a user's latest events follows what stood before it; the first one the token."""
    train = timed(seed)
    histories = Histories.of("sasrec", train)
    found = {
        int(user): [(int(a), int(b)) for a, b in pairwise(row[:length])]
        for padded in histories.batches(np.random.default_rng(seed), size, most)
        for user, row, length in zip(padded.users, padded.items, padded.lengths, strict=True)
    }
    for user in np.flatnonzero(train.user_counts()).tolist():
        history = literal(train, user)
        steps = [(history[place - 1], history[place]) for place in range(1, len(history))]
        assert found.pop(user) == steps[-(most - 1) :]
        assert steps[0][0] == train.n_items
        assert all(before < train.n_items for before, _ in steps[1:])
    assert not found  # users without events teach nothing, and the last one has none


def test_the_token_is_dropped_where_a_history_is_cut() -> None:
    """What follows it is a first event, never the first of those that are left."""
    train = Interactions.from_codes([0, 0, 0], [2, 0, 1], time=np.arange(3))
    histories = Histories.of("svae", train)
    assert histories.latest(np.array([0]), 4).items.tolist() == [[3, 2, 0, 1]]
    assert histories.latest(np.array([0]), 3).items.tolist() == [[2, 0, 1]]


def test_batches_are_random_and_of_similar_lengths() -> None:
    rng = np.random.default_rng(0)
    user = np.repeat(np.arange(400), rng.integers(2, 90, size=400))
    train = Interactions.from_codes(user, np.zeros_like(user), time=np.arange(len(user)))
    histories = Histories.of("sasrec", train)
    first, again = (list(histories.batches(np.random.default_rng(7), 25, 90)) for _ in range(2))
    other = list(histories.batches(np.random.default_rng(8), 25, 90))
    assert all(np.array_equal(a.users, b.users) for a, b in zip(first, again, strict=True))
    assert not all(np.array_equal(a.users, b.users) for a, b in zip(first, other, strict=True))
    cells = sum(padded.items.size for padded in first)
    assert cells < 1.2 * len(train)  # whole rows of 90 would take about twice as many as there are events


@pytest.mark.parametrize("next_items", [1, 2, 4])
def test_next_targets(next_items: int) -> None:
    train = timed()
    padded = Histories.of("svae", train).latest(np.array([0, 3, 1]), 6)
    targets, shares = next_targets(padded, next_items)
    step = 0
    for user in (0, 3, 1):
        history = literal(train, user)[-6:]
        for now in range(len(history) - 1):
            following = history[now + 1 : now + 1 + next_items]
            assert targets[step, : len(following)].tolist() == following
            assert shares[step].tolist() == [1 / next_items] * len(following) + [0] * (
                next_items - len(following)
            )
            step += 1
    assert step == len(targets) == len(shares)


def test_without_times() -> None:
    train = Interactions.from_codes([0, 0], [0, 1], name="mine")
    with pytest.raises(
        InvalidData,
        match=r"model 'svae' learns from the order of events and needs a timestamp for each, but 'mine' has "
        r"none\. Name the column with columns=\{'timestamp': NAME\} or use a model without order, such as "
        "'ease'",
    ):
        Histories.of("svae", train)


def test_users_of_one_event_and_of_none() -> None:
    train = Interactions.from_codes([0, 2], [1, 0], time=np.arange(2), n_users=4)
    histories = Histories.of("sasrec", train)
    assert histories.indptr.tolist() == [0, 2, 3, 5, 6]
    assert histories.items.tolist() == [2, 1, 2, 2, 0, 2]
    padded = histories.latest(np.array([1, 2]), 5)
    assert (padded.items.tolist(), padded.lengths.tolist()) == ([[2, 0], [2, 0]], [1, 2])
