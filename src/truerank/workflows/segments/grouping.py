"""Groupings: rules that put the users or the items of a split into named groups.

``history`` and ``activity`` group users by their train events, ``popularity`` and ``new-items`` group targets
by those of the item; ``column`` takes the groups from a file. A grouping gives names and a label for each
user or item (`GroupLabels`); what becomes of metrics does not depend on which rule it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter, check_at_least
from truerank.core.interactions import Interactions, Vocabulary
from truerank.core.plugin import Plugin, Registry
from truerank.core.split import GroupLabels, Split
from truerank.core.table import percent
from truerank.core.types import AnyArray, FloatArray, IntArray
from truerank.split.base import times_of
from truerank.split.last_days import check_seconds

#: More groups than this are not shown: no reader compares them, and most would be small.
MOST_GROUPS = 50
#: Cut points as they are written: one number, or several with colons between them, such as ``5:20``.
Cuts: TypeAlias = str | int | float | None
_DAY = 86_400


@dataclass(frozen=True)
class Grouping(Plugin, ABC):
    """Base class of rules that put users or items into groups.

    A rule of your own is a frozen dataclass with one method, ``labels``; give an object of it as ``by``. One
    that looks at no train events sets ``needs_train = False``, so that it works for tables of ranks too.
    """

    needs_train: ClassVar[bool] = True

    @abstractmethod
    def labels(self, split: Split) -> GroupLabels:
        """Return the groups of all users or of all items of a split."""


def parse_cuts(cuts: Cuts, where: str) -> FloatArray:
    """Return cut points as numbers.

    Examples
    --------
    >>> parse_cuts("5:20", "history").tolist(), parse_cuts(5, "history").tolist()
    ([5.0, 20.0], [5.0])
    """
    try:
        points = np.array([float(part) for part in str(cuts).split(":")])
    except ValueError:
        points = np.array([np.nan])
    if not np.isfinite(points).all() or (np.diff(points) <= 0).any():
        raise InvalidParameter(
            f"cuts of {where} must be numbers that grow, with colons between them, such as cuts=5:20, got "
            f"{cuts!r}."
        )
    return points


def quantile_cuts(values: AnyArray, n_groups: int) -> FloatArray:
    """Return cut points that make groups of nearly equal size; fewer where many values are equal.

    A value that is a cut point belongs to the group above it. Values are never divided.

    Examples
    --------
    >>> quantile_cuts(np.array([1, 2, 3, 4, 5, 6]), 3).tolist(), quantile_cuts(np.array([1, 1]), 3).tolist()
    ([3.0, 5.0], [])
    """
    if len(values) == 0:
        return np.empty(0)
    ordered = np.sort(values)
    places = [-(-len(ordered) * at // n_groups) for at in range(1, n_groups)]
    points = np.unique(ordered[[place for place in places if place < len(ordered)]].astype(np.float64))
    above: FloatArray = points[points > ordered[0]]
    return above


def cut_names(points: FloatArray, *, is_whole: bool) -> tuple[str, ...]:
    """Return the names of the groups that cut points make.

    Examples
    --------
    >>> cut_names(np.array([5.0, 20.0]), is_whole=True)
    ('below 5', '5 to 19', '20 and more')
    >>> cut_names(np.array([0.5, 7.0]), is_whole=False), cut_names(np.array([]), is_whole=True)
    (('below 0.5', '0.5 to below 7', '7 and more'), ('all',))
    """
    if len(points) == 0:
        return ("all",)
    texts = [f"{point:,.10g}" for point in points]
    is_whole = is_whole and all(point == int(point) for point in points)
    between = []
    for at in range(len(points) - 1):
        last = int(points[at + 1]) - 1
        if not is_whole:
            between.append(f"{texts[at]} to below {texts[at + 1]}")
        else:
            between.append(f"{texts[at]} to {last:,}" if last > points[at] else texts[at])
    return (f"below {texts[0]}", *between, f"{texts[-1]} and more")


def cut(values: AnyArray, points: FloatArray) -> IntArray:
    """Return the number of cut points that are at most each value: the position of its group."""
    return np.searchsorted(points, values, side="right")


def _check_n_groups(n_groups: int) -> None:
    check_at_least("groups", n_groups, 2, MOST_GROUPS)


@dataclass(frozen=True)
class CutGrouping(Grouping, ABC):
    """Base class of groupings by a number: groups of nearly equal size, or those that cut points make.

    Parameters
    ----------
    groups : how many, where no cut points are given
    cuts : numbers at which a group begins, such as ``5:20``
    """

    groups: int = 4
    cuts: Cuts = None

    def __post_init__(self) -> None:
        _check_n_groups(self.groups)
        if self.cuts is not None:
            parse_cuts(self.cuts, self.key)


@dataclass(frozen=True)
class HistoryLength(CutGrouping):
    """Users by the number of their train events.

    By default groups of nearly equal size: cut points are quantiles over the users who have targets. Results
    that shall be compared later need cut points that do not depend on the users: ``history(cuts=5:20)``.

    Parameters
    ----------
    groups : how many, where no cut points are given
    cuts : numbers of events at which a group begins, such as ``5:20``

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> train = Interactions.from_codes([0, 1, 1, 1], [0, 0, 1, 2], n_users=2, n_items=4)
    >>> test = Interactions.from_codes([0, 1], [3, 3], n_users=2, n_items=4)
    >>> found = HistoryLength(cuts=2).labels(Split(train, test))
    >>> found.names, found.label.tolist()
    (('below 2', '2 and more'), [0, 1])
    """

    key: ClassVar[str] = "history"

    def labels(self, split: Split) -> GroupLabels:
        """Count the train events of each user."""
        counts = split.train.user_counts()
        points = _points(self.cuts, counts[split.test.user_counts() > 0], self.groups, self.key)
        return GroupLabels(
            str(self),
            "users",
            cut_names(points, is_whole=True),
            cut(counts, points),
            f"Users by the number of their train events{_how(self.cuts, 'users with targets')}.",
        )


@dataclass(frozen=True)
class Activity(CutGrouping):
    """Users by how long ago their last train event was: days before the last train event of all.

    This is not how many events a user has (``history``), but whether the user was active lately. Users
    without train events are a group of their own.

    Parameters
    ----------
    groups : how many, where no cut points are given
    cuts : days at which a group begins, such as ``7:30``
    """

    key: ClassVar[str] = "activity"

    def labels(self, split: Split) -> GroupLabels:
        """Compare the last train event of each user with the last one of all."""
        train = split.train
        if train.time is None:
            raise InvalidData(
                f"grouping {str(self)!r} needs a time for each train event, but {train.name!r} has none. "
                "Group users by history."
            )
        time = times_of(train, str(self), "ratio")
        check_seconds(train, time)
        last = np.full(train.n_users, -np.inf)
        np.maximum.at(last, train.user, time.astype(np.float64))
        is_active = np.isfinite(last)
        days = (last.max() - np.where(is_active, last, last.max())) // _DAY
        has_targets = split.test.user_counts() > 0
        points = _points(self.cuts, days[is_active & has_targets], self.groups, self.key)
        names = cut_names(points, is_whole=True)
        label = cut(days, points)
        if not is_active[has_targets].all():
            names, label = (*names, "no train events"), np.where(is_active, label, len(names))
        return GroupLabels(
            str(self),
            "users",
            names,
            label,
            "Users by the whole days between their last train event and the last one of all"
            f"{_how(self.cuts, 'users with targets')}.",
        )


@dataclass(frozen=True)
class TargetPopularity(Grouping):
    """Targets by the train events of the item: head, middle and tail.

    The head are the most popular items that make up the first third of all train events, the tail the least
    popular ones that make up the last third; equally popular items are never divided. More exactly, an item
    is in the head where more popular items have less than the part ``head`` of all train events, and in the
    tail where they have at least the part 1 - ``tail``. Items without train events are in the tail.

    Parameters
    ----------
    head, tail : parts of the train events

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> train = Interactions.from_codes([0, 1, 2, 0, 1, 0], [0, 0, 0, 1, 1, 2], n_users=4, n_items=4)
    >>> test = Interactions.from_codes([3, 3], [2, 3], n_users=4, n_items=4)
    >>> found = TargetPopularity().labels(Split(train, test))
    >>> found.names, found.label.tolist()
    (('head: 3 and more', 'middle: 2', 'tail: below 2'), [0, 1, 2, 2])
    """

    key: ClassVar[str] = "popularity"

    head: float = 1 / 3
    tail: float = 1 / 3

    def __post_init__(self) -> None:
        if not (self.head > 0 and self.tail > 0 and self.head + self.tail <= 1):
            raise InvalidParameter(
                f"head and tail of popularity must be parts above 0 that add up to at most 1, got "
                f"{self.head:g} and {self.tail:g}."
            )

    def labels(self, split: Split) -> GroupLabels:
        """Count the train events of each item, and of all that are more popular."""
        counts = split.train.item_counts()
        levels, level = np.unique(counts, return_inverse=True)
        events = levels * np.bincount(level, minlength=len(levels))
        above = (events.sum() - np.cumsum(events)) / max(events.sum(), 1)  # the part of more popular items
        group = np.where(above < self.head - 1e-9, 0, np.where(above < 1 - self.tail - 1e-9, 1, 2))
        group[levels == 0] = 2
        # without any train event all items are in the tail
        head = int(levels[group == 0][0]) if (group == 0).any() else 1
        tail = int(levels[group < 2][0]) if (group < 2).any() else head
        middle = cut_names(np.array([tail, head], np.float64), is_whole=True)[1] if tail < head else "none"
        names = (f"head: {head:,} and more", f"middle: {middle}", f"tail: below {tail:,}")
        return GroupLabels(
            str(self),
            "items",
            names,
            group[level],
            f"Targets by the train events of the item: the head has the first {_part(self.head)} of them, "
            f"the tail the last {_part(self.tail)}.",
        )


@dataclass(frozen=True)
class NewItems(Grouping):
    """Targets that no user has a train event with, and all other targets.

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> train = Interactions.from_codes([0], [0], n_users=1, n_items=2)
    >>> found = NewItems().labels(Split(train, Interactions.from_codes([0], [1], n_users=1, n_items=2)))
    >>> found.names, found.label.tolist()
    (('known', 'new'), [0, 1])
    """

    key: ClassVar[str] = "new-items"

    def labels(self, split: Split) -> GroupLabels:
        """Ask which items have train events."""
        is_new = (split.train.item_counts() == 0).astype(np.int64)
        rule = "Targets by whether the item has train events (known) or none (new)."
        return GroupLabels(str(self), "items", ("known", "new"), is_new, rule)


def _points(cuts: Cuts, values: AnyArray, n_groups: int, where: str) -> FloatArray:
    return quantile_cuts(values, n_groups) if cuts is None else parse_cuts(cuts, where)


def _part(fraction: float) -> str:
    return percent(fraction, 2, space=" ")


def _how(cuts: Cuts, whom: str) -> str:
    return f"; cut points are quantiles over {whom}" if cuts is None else ""


GROUPINGS: Registry[Grouping] = Registry(
    "grouping",
    {
        "activity": "truerank.workflows.segments.grouping:Activity",
        "column": "truerank.workflows.segments.column:FileColumn",
        "history": "truerank.workflows.segments.grouping:HistoryLength",
        "new-items": "truerank.workflows.segments.grouping:NewItems",
        "popularity": "truerank.workflows.segments.grouping:TargetPopularity",
    },
    base=Grouping,
)

#: One grouping or several, as spec strings (``"history"``) or objects; None for none.
By: TypeAlias = str | Grouping | Sequence[str | Grouping] | None


def make_groupings(by: By) -> tuple[Grouping, ...]:
    """Return the groupings that were asked for, each once; none where there are none.

    Examples
    --------
    >>> [str(one) for one in make_groupings("history,popularity")], make_groupings(None)
    (['history', 'popularity'], ())
    """
    if by is None or (isinstance(by, Sequence) and len(by) == 0):
        return ()
    return GROUPINGS.make_all(by)


def label_split(groupings: Sequence[Grouping], split: Split) -> tuple[GroupLabels, ...]:
    """Return the groups of a split by each grouping.

    Raises
    ------
    InvalidData
        When a grouping makes more than ``MOST_GROUPS`` groups, or labels that do not fit the split.
    """
    found = []
    for grouping in groupings:
        labels: Any = grouping.labels(split)
        if not isinstance(labels, GroupLabels):
            raise InvalidData(
                f"labels of grouping {str(grouping)!r} must return truerank.GroupLabels, got "
                f"{type(labels).__name__}. Correct it."
            )
        size = split.train.n_users if labels.of == "users" else split.train.n_items
        if len(labels.label) != size:
            raise InvalidData(
                f"grouping {str(grouping)!r} must have a label for each of the {size:,} {labels.of}, got "
                f"{len(labels.label):,}. Correct it."
            )
        if len(labels.names) > MOST_GROUPS:
            raise InvalidData(
                f"grouping {str(grouping)!r} must make at most {MOST_GROUPS} groups, got "
                f"{len(labels.names):,}. Give cut points to a column of numbers, such as cuts=18:30:50, or "
                "take a column with fewer values."
            )
        found.append(labels)
    return tuple(found)


def split_of_ids(groupings: Sequence[Grouping], users: Vocabulary, items: Vocabulary | None) -> Split:
    """Return a split of a table of ranks, which has ids and no events, for groupings that need no others.

    Parameters
    ----------
    groupings : what it is for
    users, items : the ids behind the codes of the ranks; None where the table has no items

    Raises
    ------
    InvalidParameter
        When a grouping needs train events.
    """
    lacking = [str(grouping) for grouping in groupings if grouping.needs_train]
    if lacking:
        raise InvalidParameter(
            f"by needs train events for {lacking[0]}, and a table of ranks has none. Group by a file, such "
            "as column(path=users.csv, name=country), or evaluate the data."
        )
    none = np.empty(0, dtype=np.int64)
    events = Interactions(none, none, users, items if items is not None else Vocabulary.range(1))
    return Split(events, events)
