"""Interactions, vocabularies and splits hold what they promise."""

from __future__ import annotations

import numpy as np
import pytest

from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions, Vocabulary
from truerank.core.split import Split


def events(pairs: list[tuple[int, int]], n_users: int = 3, n_items: int = 4) -> Interactions:
    user, item = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Interactions.from_codes(user, item, n_users=n_users, n_items=n_items)


def test_arrays_are_read_only_but_the_callers_stay_writable() -> None:
    user = np.array([0, 1])
    data = Interactions.from_codes(user, [0, 1])
    with pytest.raises(ValueError, match="read-only"):
        data.user[0] = 1
    user[0] = 1


def test_by_user_is_sorted_and_distinct() -> None:
    lists = events([(2, 3), (0, 1), (2, 0), (2, 3)]).by_user()
    assert lists.indptr.tolist() == [0, 1, 1, 3]
    assert lists.items.tolist() == [1, 0, 3]
    assert lists.lengths().tolist() == [1, 0, 2]


def test_matrix_is_binary_or_sums_values() -> None:
    data = Interactions.from_codes([0, 0, 1], [1, 1, 0], value=np.array([2.0, 3.0, 4.0]))
    assert data.matrix().toarray().tolist() == [[0, 1], [1, 0]]
    assert data.matrix(values=True).toarray().tolist() == [[0, 5], [4, 0]]


def test_where_keeps_all_columns() -> None:
    data = Interactions(
        np.array([0, 1, 1]),
        np.array([0, 0, 1]),
        Vocabulary.range(2),
        Vocabulary.range(2),
        value=np.array([1.0, 2.0, 3.0]),
        time=np.array([5, 6, 7]),
        labels={"part": np.array(["a", "b", "c"])},
    )
    kept = data.where(data.user == 1)
    assert kept.value is not None and kept.time is not None
    assert (kept.value.tolist(), kept.time.tolist(), kept.labels["part"].tolist()) == (
        [2, 3],
        [6, 7],
        ["b", "c"],
    )


@pytest.mark.parametrize(
    ("user", "item", "message"),
    [
        ([0, 5], [0, 0], "user codes must lie in 0..2, got 0..5"),
        ([0, 0], [-1, 0], "item codes must lie in 0..3, got -1..0"),
        ([0], [0, 1], "equally long, got 1 and 2"),
        ([0.0], [0], "user codes must be a flat array of integers"),
    ],
)
def test_bad_codes(user: list[int], item: list[int], message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        Interactions.from_codes(user, item, n_users=3, n_items=4)


def test_nan_ratings_are_refused() -> None:
    with pytest.raises(InvalidData, match="ratings must be finite"):
        Interactions.from_codes([0], [0], value=np.array([np.nan]))


def test_vocabulary_codes_do_not_depend_on_order() -> None:
    assert Vocabulary.of([30, 10, 20, 10]) == Vocabulary.of([10, 20, 30])
    vocabulary = Vocabulary.of(["b", "a"])
    assert vocabulary.encode(["a", "b", "c"]).tolist() == [0, 1, -1]
    assert Vocabulary.of([1, 2]).encode(["2", "x"]).tolist() == [1, -1]
    assert vocabulary.encode([]).tolist() == []
    with pytest.raises(InvalidData, match=r"codes must lie in 0\.\.1"):
        vocabulary.decode(np.array([2]))


def test_split_parts_must_be_disjoint() -> None:
    with pytest.raises(
        InvalidData,
        match="train and test must not share pairs, but 1 pairs lie in both, such as user 2 and item 3",
    ):
        Split(events([(0, 0), (2, 3)]), events([(2, 3)]))
    with pytest.raises(InvalidData, match="test and valid must not share"):
        Split(events([(0, 0)]), events([(2, 3)]), events([(2, 3)]))


def test_split_parts_must_share_vocabularies() -> None:
    with pytest.raises(InvalidData, match="test must use the vocabularies of train"):
        Split(events([(0, 0)]), events([(2, 3)], n_items=5))


def test_split_counts_users_without_targets() -> None:
    summary = Split(events([(0, 0), (1, 1), (2, 2)]), events([(0, 3)]), method="hand").summary()
    assert summary["users_with_targets"] == 1
    assert summary["users_without_targets"] == 2
    assert (summary["n_train"], summary["n_test"], summary["n_valid"]) == (3, 1, 0)


def test_joined_events_keep_what_both_have() -> None:
    first = Interactions.from_codes([0, 1], [0, 1], time=np.array([1, 2]), value=np.array([3.0, 4.0]))
    later = Interactions.from_codes([1], [0], n_items=2, time=np.array([0]))
    both = first.joined(later)
    assert (both.user.tolist(), both.item.tolist()) == ([0, 1, 1], [0, 1, 0])
    assert both.time is not None
    assert both.time.tolist() == [1, 2, 0]
    assert both.value is None  # the later ones have none
    with pytest.raises(InvalidData, match="events can be joined when they share the vocabularies"):
        first.joined(Interactions.from_codes([0], [0]))
