"""k-core, minimum history and minimum rating."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.data.clean import k_core, merge_duplicates, min_history, min_rating
from truerank.data.read import from_arrays


def test_core_is_iterated() -> None:
    """Item c falls first, with it user z drops to one event, with it item b, with it user y."""
    events = from_arrays(list("wwxxyyzz"), list("adadabbc"))
    core = k_core(events, 2, 2)
    assert core.users.ids.to_list() == ["w", "x"]
    assert core.items.ids.to_list() == ["a", "d"]
    assert core.user.tolist() == [0, 0, 1, 1]
    assert core.origin == {
        "rows_read": 8,
        "duplicate_rows": 0,
        "users_filtered": 2,
        "items_filtered": 2,
        "events_filtered": 4,
        "k_core_rounds": 5,
    }


def test_core_that_is_already_one_is_shared() -> None:
    events = Interactions.from_codes([0, 0, 1, 1], [0, 1, 0, 1])
    core = k_core(events, 2, 2)
    assert np.shares_memory(core.user, events.user)
    assert core.origin["k_core_rounds"] == 1


def test_empty_core() -> None:
    with pytest.raises(
        InvalidData, match=r"a 3-1-core of 'data' must keep at least one event, but none is left"
    ):
        k_core(Interactions.from_codes([0, 0], [0, 1]), 3, 1)
    with pytest.raises(InvalidParameter, match="user must be at least 1, got 0"):
        k_core(Interactions.from_codes([0], [0]), 0, 1)


@given(
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=1, unique=True),
    st.integers(1, 4),
    st.integers(1, 4),
)
def test_core_agrees_with_removal_one_by_one(pairs: list[tuple[int, int]], user: int, item: int) -> None:
    left = set(pairs)
    while True:
        bad = next(
            (
                pair
                for pair in sorted(left)
                if sum(other[0] == pair[0] for other in left) < user
                or sum(other[1] == pair[1] for other in left) < item
            ),
            None,
        )
        if bad is None:
            break
        left.remove(bad)
    events = Interactions.from_codes(*(np.array(codes) for codes in zip(*pairs, strict=True)))
    if not left:
        with pytest.raises(InvalidData, match="none is left"):
            k_core(events, user, item)
        return
    core = k_core(events, user, item)
    assert set(zip(core.users.decode(core.user), core.items.decode(core.item), strict=True)) == left
    assert core.user_counts().min() >= user
    assert core.item_counts().min() >= item


def test_min_history_counts_rows_before_merging() -> None:
    """The rule of SVP-CF: a user with two events of one item and one of another has three."""
    events = from_arrays([1, 1, 1, 2, 2], [5, 5, 6, 5, 7], duplicates="keep")
    kept = merge_duplicates(min_history(events, 3))
    assert (kept.users.ids.to_list(), kept.items.ids.to_list(), len(kept)) == ([1], [5, 6], 2)
    assert kept.origin["users_filtered"] == 1
    assert kept.origin["duplicate_rows"] == 1


def test_min_rating() -> None:
    events = from_arrays([1, 1, 2], [5, 6, 6], ratings=[4, 3, 5])
    liked = min_rating(events, 4)
    assert (len(liked), liked.n_users, liked.n_items, liked.origin["events_filtered"]) == (2, 2, 2, 1)


def test_counts_of_several_filters_add_up() -> None:
    events = from_arrays([1, 1, 2, 3], [5, 6, 6, 6], ratings=[4, 3, 5, 1])
    assert min_history(min_rating(events, 3), 2).origin["users_filtered"] == 2


def test_labels_and_times_follow() -> None:
    events = from_arrays([1, 1, 2], [5, 6, 6], timestamps=[7, 8, 9])
    kept = min_history(events, 2).time
    assert kept is not None and kept.tolist() == [7, 8]


def test_nothing_left() -> None:
    events = from_arrays([1, 2], [5, 6], ratings=[1, 2])
    with pytest.raises(InvalidData, match=r"must have events rated at least 9, but none is left"):
        min_rating(events, 9)
    with pytest.raises(InvalidData, match=r"must have users with at least 2 events, but none is left"):
        min_history(events, 2)
    with pytest.raises(InvalidData, match=r"must have ratings to be filtered by them"):
        min_rating(from_arrays([1], [1]), 1)
