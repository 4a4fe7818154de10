"""Groupings put every user or item of a split into one named group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import splits
from truerank.core.errors import InvalidData, InvalidParameter, UnknownName
from truerank.core.interactions import Interactions, Vocabulary
from truerank.core.split import GroupLabels, Split
from truerank.workflows.segments.grouping import (
    GROUPINGS,
    Grouping,
    cut,
    cut_names,
    label_split,
    make_groupings,
    quantile_cuts,
)

DAY = 86_400


def some_split() -> Split:
    """Four users with 0, 1, 2 and 4 train events, each with one target; items have 4, 2, 1, 0, 0 events."""
    train = Interactions.from_codes(
        [1, 2, 2, 3, 3, 3, 3],
        [0, 0, 1, 0, 0, 1, 2],
        n_users=4,
        n_items=5,
        time=np.array([0, DAY, 2 * DAY, 3 * DAY, 4 * DAY, 5 * DAY, 10 * DAY]),
    )
    return Split(train, Interactions.from_codes([0, 1, 2, 3], [0, 1, 2, 3], n_users=4, n_items=5))


def labels(spec: str, split: Split | None = None) -> GroupLabels:
    return label_split(make_groupings(spec), split or some_split())[0]


@pytest.mark.parametrize(
    ("spec", "of", "names", "label"),
    [
        ("history(cuts=1:2)", "users", ("below 1", "1", "2 and more"), [0, 1, 2, 2]),
        ("history(cuts=3)", "users", ("below 3", "3 and more"), [0, 0, 0, 1]),
        ("history(groups=2)", "users", ("below 2", "2 and more"), [0, 0, 1, 1]),
        ("activity(cuts=1:9)", "users", ("below 1", "1 to 8", "9 and more", "no train events"), [3, 2, 1, 0]),
        ("popularity", "items", ("head: 4 and more", "middle: 2 to 3", "tail: below 2"), [0, 1, 2, 2, 2]),
        ("popularity(head=0.1, tail=0.9)", "items", None, [0, 2, 2, 2, 2]),
        ("new-items", "items", ("known", "new"), [0, 0, 0, 1, 1]),
    ],
)
def test_groups_by_hand(spec: str, of: str, names: tuple[str, ...] | None, label: list[int]) -> None:
    found = labels(spec)
    assert found.of == of
    assert found.label.tolist() == label
    assert names is None or found.names == names
    assert GROUPINGS.make(found.by) == GROUPINGS.make(spec)
    assert found.rule.endswith(".")


@pytest.mark.slow
@given(splits(), st.sampled_from(["history", "history(cuts=2:3)", "popularity", "new-items"]))
def test_everyone_has_a_group(split: Split, spec: str) -> None:
    found = labels(spec, split)
    size = split.train.n_users if found.of == "users" else split.train.n_items
    assert found.label.shape == (size,)
    assert found.label.max() < len(found.names)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(2, 6))
def test_quantiles_cut_between_values(values: list[int], n_groups: int) -> None:
    array = np.array(values)
    points = quantile_cuts(array, n_groups)
    sizes = np.bincount(cut(array, points), minlength=len(points) + 1)
    assert len(cut_names(points, is_whole=True)) == len(sizes) <= n_groups
    assert (sizes > 0).all()


def test_distinct_values_make_groups_of_equal_size() -> None:
    values = np.random.default_rng(0).permutation(103)
    sizes = np.bincount(cut(values, quantile_cuts(values, 4)))
    assert sizes.tolist() == [26, 26, 26, 25]


@pytest.mark.slow
@given(splits())
def test_more_popular_items_are_never_further_down(split: Split) -> None:
    counts, group = split.train.item_counts(), labels("popularity", split).label
    order = np.argsort(counts, kind="stable")
    assert (np.diff(group[order]) <= 0).all()
    assert all(len(set(group[counts == count])) == 1 for count in counts)
    head = counts[group == 0].sum()
    assert len(split.train) == 0 or head >= len(split.train) / 3


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("histoy", UnknownName, "unknown grouping 'histoy'. Did you mean 'history'"),
        ("history(cuts=20:5)", InvalidParameter, "cuts of history must be numbers that grow"),
        ("history(cuts=a)", InvalidParameter, "such as cuts=5:20, got 'a'"),
        ("history(groups=1)", InvalidParameter, "groups must be"),
        ("history(groups=1000)", InvalidParameter, "groups must be"),
        ("popularity(head=0.9, tail=0.9)", InvalidParameter, "add up to at most 1"),
        ("column(name=x)", InvalidParameter, "needs a file and a column of it"),
    ],
)
def test_bad_specs(spec: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        labels(spec)


def test_activity_needs_times() -> None:
    split = some_split()
    with pytest.raises(InvalidData, match="needs a time for each train event"):
        labels("activity", Split(replace(split.train, time=None), split.test))


@dataclass(frozen=True)
class Broken(Grouping):
    """Labels that do not fit."""

    key: ClassVar[str] = "broken"
    what: str = ""

    def labels(self, split: Split) -> GroupLabels:
        made: Any = {
            "short": lambda: GroupLabels("broken", "users", ("a",), np.zeros(1, np.int64)),
            "many": lambda: GroupLabels("b", "users", tuple(map(str, range(99))), np.zeros(4, np.int64)),
            "type": lambda: {"a": 1},
            "label": lambda: GroupLabels("broken", "users", ("a",), np.array([0, 0, 0, 1])),
            "twice": lambda: GroupLabels("broken", "users", ("a", "a"), np.zeros(4, np.int64)),
        }
        return made[self.what]()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("short", "must have a label for each of the 4 users, got 1"),
        ("many", "must make at most 50 groups, got 99"),
        ("type", "must return truerank.GroupLabels, got dict"),
        ("label", r"must lie in 0\.\.0"),
        ("twice", "must have different names"),
    ],
)
def test_groupings_of_others_are_checked(what: str, message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        label_split((Broken(what),), some_split())


def users_file(folder: Path, text: str, name: str = "users.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_column_of_a_users_file(tmp_path: Path) -> None:
    path = users_file(tmp_path, "user_id,country,age\n0,de,17\n1,fr,30\n2,,50\n77,it,9\n")
    found = labels(f"column(path={path}, name=country)")
    assert (found.of, found.names, found.label.tolist()) == (
        "users",
        ("de", "fr", "no value"),
        [0, 1, 2, 2],
    )
    aged = labels(f"column(path={path}, name=age, cuts=18:31)")
    assert (aged.names, aged.label.tolist()) == (
        ("below 18", "18 to 30", "31 and more", "no value"),
        [0, 1, 2, 3],
    )


def test_a_column_of_an_items_file(tmp_path: Path) -> None:
    path = users_file(tmp_path, "movie_id;genre\n0;drama\n1;comedy\n2;drama\n3;no value\n4;drama\n")
    found = labels(f"column(path={path}, name=genre)")
    assert (found.of, found.names, found.label.tolist()) == (
        "items",
        ("comedy", "drama", "no value"),
        [1, 0, 1, 2, 1],
    )


def test_ids_that_are_text_and_numbers_in_order(tmp_path: Path) -> None:
    users = Vocabulary.of(["ann", "bob", "cy"])
    train = Interactions(np.array([0]), np.array([0]), users, Vocabulary.range(2))
    split = Split(train, Interactions(np.array([1]), np.array([1]), users, Vocabulary.range(2)))
    path = users_file(tmp_path, "who,level\nbob,10\nann,9\n")
    found = labels(f"column(path={path}, name=level, id=who, of=users)", split)
    assert (found.names, found.label.tolist()) == (("9", "10", "no value"), [0, 1, 2])


@pytest.mark.parametrize(
    ("text", "parameters", "message"),
    [
        ("user_id,country\n0,de\n", "name=land", "must have a column 'land', found user_id and country"),
        ("name,country\n0,de\n", "name=country", "none of 'name' and 'country' is known as one"),
        ("user_id,item_id,c\n0,1,x\n", "name=c", "'user_id' and 'item_id' may all be it"),
        ("user_id,c\n9,x\n", "name=c", "none of its 1 is one"),
        ("user_id,c\n0,x\n0,y\n", "name=c", "0 has rows with different values"),
        ("user_id,c\n0,x\n", "name=c, cuts=3", "must hold numbers to be cut at 3, got 'x'"),
        ("uid,c\n0,x\n", "name=c, id=c", "must say whether 'c' holds ids of users or of items"),
        ("user_id,c\n0,x\n", "name=c, of=both", "of must be one of"),
    ],
)
def test_bad_columns(tmp_path: Path, text: str, parameters: str, message: str) -> None:
    path = users_file(tmp_path, text)
    with pytest.raises((InvalidData, InvalidParameter), match=message):
        labels(f"column(path={path}, {parameters})")


def test_a_column_with_too_many_values(tmp_path: Path) -> None:
    train = Interactions.from_codes([0], [0], n_users=60, n_items=2)
    split = Split(train, Interactions.from_codes([1], [1], n_users=60, n_items=2))
    path = users_file(tmp_path, "user_id,c\n" + "".join(f"{n},x{n}\n" for n in range(60)))
    with pytest.raises(InvalidData, match=r"at most 50 values, got 60\. Cut a column of numbers"):
        labels(f"column(path={path}, name=c)", split)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="there is no file"):
        labels(f"column(path={tmp_path / 'users.csv'}, name=country)")
