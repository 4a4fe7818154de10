"""Histories stand in the order of time and come in batches without loss."""

from __future__ import annotations

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
    time = np.asarray(train.time)
    rows = [row for row in range(len(train)) if train.user[row] == user]
    return [int(train.item[row]) for row in sorted(rows, key=lambda row: (time[row], row))]


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
def test_batches_hold_every_user_with_two_events_once(seed: int, size: int) -> None:
    train = timed(seed)
    histories = Histories.of("sasrec", train)
    found = [padded.users for padded in histories.batches(np.random.default_rng(seed), size, 5)]
    assert all(len(users) <= size for users in found)
    assert sorted(np.concatenate(found)) == np.flatnonzero(train.user_counts() >= 2).tolist()
    scored = np.concatenate([padded.users for padded in histories.blocks(size, 5)])
    assert sorted(scored) == np.flatnonzero(train.user_counts()).tolist()


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


def test_nothing_follows_anything() -> None:
    train = Interactions.from_codes([0, 1], [0, 1], time=np.arange(2))
    with pytest.raises(InvalidData, match="needs a user with at least two train events, but 'data' has none"):
        Histories.of("sasrec", train)
