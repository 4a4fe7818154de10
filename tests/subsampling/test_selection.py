"""The functions that strategies share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.subsampling.strategies import drawn_events
from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions
from truerank.core.random import pair_keys
from truerank.core.types import AnyArray
from truerank.subsampling import selection as cut
from truerank.subsampling.selection import (
    EventKeys,
    descending_order,
    group_cuts,
    keep_in_order,
    keep_largest,
    keep_largest_of_each,
    mean_of_each,
    ordered_bits,
    proportional_quotas,
    unit_keys,
)


@given(drawn_events(), st.data())
@settings(max_examples=60, deadline=None)
def test_the_largest_scores_are_kept(events: Interactions, data: st.DataObject) -> None:
    n = len(events)
    number = st.sampled_from([-np.inf, -1.5, 0.0, -0.0, 2.0, np.inf])
    scores = np.array(data.draw(st.lists(number, min_size=n, max_size=n)), dtype=np.float64)
    n_keep = data.draw(st.integers(0, n))
    mask = keep_largest(scores, n_keep, EventKeys(events, 1, "test"))
    assert mask.sum() == n_keep
    if 0 < n_keep < n:
        assert scores[mask].min() >= scores[~mask].max()


@pytest.mark.slow
@pytest.mark.parametrize("compiled_from", [0, 10**9])
@given(events=drawn_events(least=1), data=st.data())
@settings(max_examples=40, deadline=None)
def test_the_largest_of_each_group_are_kept(
    compiled_from: int, events: Interactions, data: st.DataObject
) -> None:
    n = len(events)
    number = st.sampled_from([-3.5, 0.0, -0.0, 2.0])
    scores = np.array(data.draw(st.lists(number, min_size=n, max_size=n)))
    quota = np.array([data.draw(st.integers(0, int(count))) for count in events.user_counts()])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut, "COMPILED_FROM", compiled_from)
        mask = keep_largest_of_each(events.user, quota, scores, EventKeys(events, 1, "test"))
    for user in range(events.n_users):
        own = events.user == user
        assert mask[own].sum() == quota[user]
        if 0 < quota[user] < own.sum():
            assert scores[own & mask].min() >= scores[own & ~mask].max()


@pytest.mark.parametrize(
    "scores",
    [
        np.array([3, -2, 0, 7], dtype=np.int32),
        np.array([-(2**62), 2**62, 0, 1]),
        np.array([200, 3, 4, 255], dtype=np.uint8),
        np.array([2**64 - 1, 0, 2**63, 5], dtype=np.uint64),
        np.array([-1e300, 1e-300, -1e-300, np.inf]),
        np.array([1.5, -2.5, 0.0, -0.0], dtype=np.float32),
    ],
)
def test_bits_keep_the_order(scores: AnyArray) -> None:
    bits = ordered_bits(scores)
    for a in range(len(scores)):
        for b in range(len(scores)):
            assert (bits[a] < bits[b]) == (scores[a] < scores[b])


def test_cuts_of_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """The compiled and the NumPy path give the same words, for groups of 0 to thousands of rows."""
    draw = np.random.default_rng(2)
    group = np.minimum(draw.geometric(0.05, 50_000), 300) - 1
    bits = draw.integers(0, 1000, len(group)).astype(np.uint64)
    quota = draw.integers(0, np.bincount(group, minlength=301) + 1)
    found = []
    for compiled_from in (0, 10**9):
        monkeypatch.setattr(cut, "COMPILED_FROM", compiled_from)
        found.append(group_cuts(group, quota, bits))
    assert np.array_equal(found[0], found[1])


def test_nan_is_refused() -> None:
    keys = EventKeys(Interactions.from_codes([0, 0], [0, 1]), 0, "test")
    with pytest.raises(InvalidData, match="scores to choose by must be numbers, got NaN"):
        keep_largest(np.array([1.0, np.nan]), 1, keys)
    with pytest.raises(InvalidData, match="scores to choose by must be numbers, got NaN"):
        keep_largest_of_each(np.array([0, 0]), np.array([1]), np.array([1.0, np.nan]), keys)


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=30),
    st.integers(0, 100),
    st.integers(0, 100),
)
@settings(max_examples=200)
def test_largest_remainders(lengths: list[int], percent: int, seed: int) -> None:
    """Each share is rounded down or up, the sum is as asked, and no smaller remainder is rounded up."""
    counts, fraction = np.array(lengths), percent / 100
    n_keep = round(fraction * sum(lengths))
    quota = proportional_quotas(counts, fraction, n_keep, unit_keys(seed, "test", len(counts)))
    assert quota.sum() == n_keep
    down, rest = np.divmod(percent * counts, 100)
    assert np.isin(quota - down, (0, 1)).all()
    assert ((quota - down == 0) | (rest > 0)).all()
    up = quota > down
    if up.any() and not up.all():
        assert rest[up].min() >= rest[~up].max()


def test_equal_remainders_are_drawn() -> None:
    """0.2 * 6 - 1 is more than 0.2 in floating point; the three users are equal all the same."""
    for first in range(3):
        keys = np.roll(np.array([9, 5, 1], dtype=np.uint64), first)
        assert (
            np.argmax(proportional_quotas(np.array([1, 6, 1]), 0.2, 2, keys) - np.array([0, 1, 0])) == first
        )


def test_places_without_room() -> None:
    events = Interactions.from_codes([0, 0, 1, 1, 1, 2], [0, 1, 0, 1, 2, 0])
    place = np.array([1, 0, 3])  # user 2 has no place
    keys = EventKeys(events, 0, "test")

    def place_of(block: slice) -> AnyArray:
        return np.asarray(place[events.user[block]])

    assert keep_in_order(place_of, 3, 6, 3, keys).tolist() == [False, False, True, True, True, False]
    assert keep_in_order(place_of, 3, 6, 4, None).sum() == 3
    assert keep_in_order(place_of, 3, 6, 4, keys).sum() == 4
    assert keep_in_order(place_of, 3, 6, 5, keys).tolist() == [True] * 5 + [False]
    assert descending_order(np.array([7, 9, 8]), np.zeros(3, dtype=np.uint64)).tolist() == [2, 0, 1]


def test_mean_of_each_group() -> None:
    group = np.array([3, 0, 3, 3])
    assert mean_of_each(group, 5, np.array([1.0, 4.0, 2.0, 6.0])).tolist() == [4.0, 0.0, 0.0, 3.0, 0.0]


def test_events_of_one_pair_have_keys_of_their_own() -> None:
    """Four events of one pair: keys follow time and value, not the row; the first has the pair's key."""
    events = Interactions.from_codes(
        [4, 4, 4, 4, 2], [1, 1, 1, 1, 1], time=np.array([5, 3, 5, 9, 0]), value=np.array([2.0, 1, 1, 1, 1])
    )
    keys = EventKeys(events, 0, "test").all()
    assert len(set(keys.tolist())) == 5
    assert keys[1] == pair_keys(0, "test", np.array(4), np.array(1))
    turned = np.array([4, 2, 0, 3, 1])
    assert np.array_equal(EventKeys(events.take(turned), 0, "test").all(), keys[turned])
    assert np.array_equal(EventKeys(events, 0, "test").of(turned), keys[turned])


@pytest.mark.stat
def test_kept_subsets_are_uniform_with_repeated_pairs() -> None:
    """All 15 pairs of six events are equally likely, three of them of one pair; level 1e-6.

    Negative control: one key per pair, which keeps repeated events together, must be rejected.
    """
    events = Interactions.from_codes([0, 0, 0, 0, 1, 2], [1, 1, 1, 2, 1, 1], time=np.arange(6))
    subsets = {(a, b): k for k, (a, b) in enumerate((a, b) for b in range(6) for a in range(b))}
    counts, control = np.zeros(15), np.zeros(15)
    for seed in range(6000):
        keys = EventKeys(events, seed, "test")
        a, b = np.flatnonzero(keep_largest(keys.all(), 2, keys)).tolist()
        counts[subsets[a, b]] += 1
        shared = pair_keys(seed, "test", events.user, events.item)
        a, b = sorted(np.argsort(shared, kind="stable")[-2:].tolist())
        control[subsets[a, b]] += 1
    assert stats.chisquare(counts).pvalue > 1e-6
    assert stats.chisquare(control).pvalue < 1e-6
