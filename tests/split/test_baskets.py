"""Splits that hold out whole baskets, sessions and days, and what train and test have in common otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.split import Split
from truerank.data.clean import merge_duplicates
from truerank.split.base import SPLITS, make_split
from truerank.split.last_basket import LastBasket
from truerank.split.last_days import LastDays
from truerank.split.notes import data_notes

DAY = 86_400


def events(rows: Sequence[tuple[int, int, float]], labels: list[Any] | None = None) -> Interactions:
    user, item, time = (np.array(column) for column in zip(*rows, strict=True))
    made = Interactions.from_codes(user, item, time=time)
    return made if labels is None else replace(made, labels={"invoice": np.array(labels, dtype=object)})


def items_of(part: Interactions | None) -> list[tuple[int, int]]:
    assert part is not None
    return sorted(zip(part.user.tolist(), part.item.tolist(), strict=True))


# user 0: baskets {0, 1} at 10, {2} at 20, {3, 4} at 30; user 1: {0, 5} at 10; user 2: {1} at 5, {2} at 6
ROWS = [
    (0, 3, 30),
    (0, 0, 10),
    (0, 1, 10),
    (0, 2, 20),
    (0, 4, 30),
    (1, 0, 10),
    (1, 5, 10),
    (2, 2, 6),
    (2, 1, 5),
]


def test_whole_baskets_by_time() -> None:
    split = LastBasket().split(events(ROWS))
    assert items_of(split.test) == [(0, 3), (0, 4), (2, 2)]
    assert split.counts["users_without_targets"] == 1
    assert split.overlap["targets_at_train_times"] == 0
    both = LastBasket(valid=True).split(events(ROWS))
    assert items_of(both.test) == [(0, 3), (0, 4), (2, 2)]
    assert items_of(both.valid) == [(0, 2)]
    two = LastBasket(n=2).split(events(ROWS))
    assert items_of(two.test) == [(0, 2), (0, 3), (0, 4)]


def test_sessions_of_a_column() -> None:
    """Session b ends last although c begins after it; sessions of one time are two."""
    rows = [(0, 0, 1), (0, 1, 2), (0, 2, 3), (0, 3, 9), (1, 0, 5), (1, 1, 5)]
    split = LastBasket(session="invoice").split(events(rows, ["a", "b", "c", "b", "x", "y"]))
    assert items_of(split.test) == [(0, 1), (0, 3), (1, 1)]
    assert LastBasket(session="invoice").columns == ("invoice",)
    numbers = LastBasket(session="invoice").split(events(rows, [1, 2, 3, 2, 7, 8]))
    assert items_of(numbers.test) == items_of(split.test)
    with pytest.raises(InvalidData, match=r"needs the column 'invoice', .*keep=\['invoice'\]"):
        LastBasket(session="invoice").split(events(rows))


def test_gaps_end_a_session() -> None:
    rows = [(0, 0, 0), (0, 1, 100), (0, 2, 1900), (0, 3, 3700), (0, 4, 3800)]
    assert items_of(LastBasket(gap=1800).split(events([*rows, (0, 5, 9000)])).test) == [(0, 5)]
    assert items_of(LastBasket(gap=1799).split(events(rows)).test) == [(0, 3), (0, 4)]
    with pytest.raises(InvalidData, match="must give at least one test event"):
        LastBasket(gap=1800).split(events(rows))  # one session only


def test_days_of_a_user() -> None:
    rows = [(0, 0, 5), (0, 1, DAY), (0, 2, 2 * DAY - 1), (1, 0, 3 * DAY), (1, 1, 3 * DAY + 3600)]
    split = LastBasket(unit="day").split(events(rows))
    assert items_of(split.test) == [(0, 1), (0, 2)]
    assert items_of(LastBasket(unit="hour").split(events(rows)).test) == [(0, 2), (1, 1)]


def test_last_days_of_all() -> None:
    rows = [(0, 0, 0.0), (0, 1, 3 * DAY - 0.5), (1, 1, 3.0 * DAY), (1, 2, 4.5 * DAY), (2, 3, 1.0 * DAY)]
    split = LastDays(test=2, valid=1).split(events(rows))
    assert items_of(split.test) == [(1, 1), (1, 2)]
    assert items_of(split.valid) == [(0, 1)]
    assert split.counts["users_without_history"] == 1
    monday = 4 * DAY  # 1970-01-05
    weeks = events([(0, 0, monday - 1), (0, 1, monday), (0, 2, monday + 6 * DAY)])
    assert items_of(LastDays(test=1, unit="week").split(weeks).test) == [(0, 1), (0, 2)]


@pytest.mark.parametrize("rule", ["last-days", "last-basket(unit=day)"])
def test_times_that_are_no_seconds(rule: str) -> None:
    with pytest.raises(InvalidData, match=r"must be seconds .* 1500000000000 would be .* time_format='ms'"):
        make_split(events([(0, 0, 1), (0, 1, 1_500_000_000_000)]), rule)


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("last-basket(n=0)", "n must be at least 1, got 0"),
        ("last-basket(gap=-1)", "gap must be a number of seconds >= 0, got -1"),
        ("last-basket(unit=month)", "unit must be one of hour, day, week, got 'month'"),
        ("last-basket(gap=5, unit=day)", "one meaning: give session, gap or unit"),
        ("last-days(test=0)", "test must be at least 1, got 0"),
        ("last-days(valid=-1)", "valid must be at least 0, got -1"),
        ("last-days(unit=year)", "unit must be one of hour, day, week, got 'year'"),
    ],
)
def test_bad_rules(rule: str, sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        SPLITS.make(rule)


def test_baskets_need_times() -> None:
    with pytest.raises(InvalidData, match="split 'last-basket' needs a timestamp for each event"):
        make_split(Interactions.from_codes([0, 0], [0, 1]), "last-basket")


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 9), st.integers(0, 5)), min_size=2, max_size=40
    ),
    n=st.integers(1, 2),
    valid=st.booleans(),
)
def test_baskets_are_never_divided(rows: list[tuple[int, int, int]], n: int, valid: bool) -> None:
    """Against a loop over users: the last n times are test, the n before them validation."""
    made = events([(user, item, float(time)) for user, item, time in rows])
    parts = LastBasket(n=n, valid=valid).assign(made, 0)
    for user in {user for user, _, _ in rows}:
        times = sorted({time for who, _, time in rows if who == user})
        test = times[-n:] if len(times) > n else []
        middle = times[-2 * n : -n] if valid and len(times) > 2 * n else []
        for (who, _, time), part in zip(rows, parts.tolist(), strict=True):
            if who == user:
                assert part == (2 if time in test else 1 if time in middle else 0)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=30),
    some=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), min_size=1, max_size=10),
)
def test_equal_times_against_a_loop(rows: list[tuple[int, int]], some: list[tuple[int, int]]) -> None:
    sides = [
        Interactions.from_codes(
            [user for user, _ in side],
            np.full(len(side), item),
            n_users=4,
            n_items=2,
            time=np.array([time - 2.5 for _, time in side]),
        )
        for item, side in ((0, rows), (1, some))
    ]
    assert Split(sides[0], sides[1]).overlap["targets_at_train_times"] == sum(pair in rows for pair in some)


def test_what_is_said() -> None:
    """Of ten held-out events two share a time with a train event and one pair stood in three rows."""
    rows = [(user, item, 10 * item + user) for user in range(10) for item in range(3)]
    rows = [(user, item, 10 + user if user < 2 and item == 2 else time) for user, item, time in rows]
    made = merge_duplicates(events([*rows, (0, 2, 1), (0, 2, 2)]))
    split = make_split(made)
    assert split.summary()["targets_at_train_times"] == 2
    assert split.summary()["targets_repeated"] == 1
    notes = data_notes({**split.summary(), "rows_read": 32})
    assert notes == [
        "2 of 32 rows repeat a pair of user and item and were merged into one event per pair.",
        "2 of 10 held-out events (20 %) have the time of a train event of the same user: the model has seen "
        "a part of the same basket, and the order of the file decides which event is the last. Split "
        "'last-basket' holds out whole baskets, 'last-days' whole days.",
        "1 of 10 held-out events (10 %) are of items that the user has several rows with, and are ranked as "
        "if they were new. To evaluate buying again, use duplicates='keep' and seen='keep'.",
    ]
    counts = {"rows_read": 9, "missing_rows": 3, "unknown_rows": 2, "events_dropped": 4, "times_left_out": 6}
    counts |= {"events_filtered": 1000, "users_filtered": 2, "items_filtered": 0, "n_test": 1000}
    assert data_notes({**counts, "targets_at_train_times": 9, "targets_repeated": 9}) == [
        "3 of 9 rows have a missing value and were dropped.",
        "2 of 9 rows have a user or item that train lacks and were dropped.",
        "Filters removed 1,000 events; 2 users and 0 items have no event any more.",
        "The split left 4 events out.",
        "Times could not be read and are not used.",
    ]


def test_rows_behind_merged_events() -> None:
    made = merge_duplicates(events([(0, 1, 1), (0, 1, 5), (0, 2, 2), (1, 1, 3), (0, 1, 4)]))
    assert made.merged is not None and made.merged.tolist() == [3, 1, 1]
    again = merge_duplicates(made.joined(events([(0, 2, 9), (0, 1, 0), (1, 0, 1)])), "first")
    assert again.merged is not None
    assert dict(zip(items_of_rows(again), again.merged.tolist(), strict=True)) == {
        (0, 1): 4, (0, 2): 2, (1, 1): 1, (1, 0): 1,
    }  # fmt: skip
    assert merge_duplicates(events([(0, 1, 1)])).merged is None


def items_of_rows(part: Interactions) -> list[tuple[int, int]]:
    return list(zip(part.user.tolist(), part.item.tolist(), strict=True))


def test_pairs_in_both_parts() -> None:
    made = events([(0, 1, 1), (0, 1, 5), (0, 2, 2), (1, 1, 3), (1, 2, 4)])
    with pytest.raises(
        InvalidData, match=r"1 pairs lie in both.* split with repeated='keep' and rank with seen"
    ):
        make_split(made)
    split = make_split(made, repeated="keep")
    assert split.repeats and split.overlap["targets_in_train"] == 1
    assert data_notes(split.summary())[-1] == (
        "1 of 2 held-out events (50 %) are of items that the user has train events with too: buying again is "
        "evaluated."
    )
    with pytest.raises(InvalidParameter, match="repeated must be one of refuse, drop, keep, got 'yes'"):
        make_split(made, repeated="yes")  # type: ignore[arg-type]
