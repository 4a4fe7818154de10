"""What a sub-sample has lost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from truerank.core.interactions import Interactions
from truerank.core.types import BoolArray, IntArray

QUANTILES = {"min": 0.0, "q10": 0.1, "median": 0.5, "q90": 0.9, "max": 1.0}
HEAD = 0.1  # share of the items that are called the head


@dataclass(frozen=True)
class Profile:
    """What can be counted in a set of events.

    Parameters
    ----------
    events, users, items : how many events, and users and items that have any
    history : quantiles of the users' numbers of events, of users that have any
    gini : inequality of the items' numbers of events, 0 (all equal) to 1; over the items of the full data, so
        that lost items count as 0
    head : share of the events that belong to the most popular tenth of the items of the full data
    """

    events: int
    users: int
    items: int
    history: dict[str, int]
    gini: float | None
    head: float | None


@dataclass(frozen=True)
class Loss:
    """A set of events before and after sub-sampling.

    Parameters
    ----------
    strategy, fraction, seed : what was asked for
    before, after : what there was and what is left
    """

    strategy: str
    fraction: float
    seed: int
    before: Profile
    after: Profile

    @property
    def users_emptied(self) -> int:
        """Users that have lost all their events."""
        return self.before.users - self.after.users

    @property
    def items_emptied(self) -> int:
        """Items that have lost all their events."""
        return self.before.items - self.after.items

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        emptied = {"users_emptied": self.users_emptied, "items_emptied": self.items_emptied}
        return {**asdict(self), **emptied}

    def rows(self) -> list[tuple[str, int | float | None, int | float | None]]:
        """Return name, before and after of each figure, for tables."""
        before, after = self.before, self.after
        return [
            ("events", before.events, after.events),
            ("users with events", before.users, after.users),
            ("items with events", before.items, after.items),
            *(
                (f"events per user, {name}", before.history.get(name), after.history.get(name))
                for name in QUANTILES
            ),
            ("Gini of item popularity", before.gini, after.gini),
            ("share of the top tenth of items", before.head, after.head),
        ]


def compare(full: Interactions, kept: Interactions, *, strategy: str, fraction: float, seed: int) -> Loss:
    """Count the events before and after.

    Examples
    --------
    >>> full = Interactions.from_codes([0, 0, 1], [0, 1, 0])
    >>> loss = compare(full, full.take(np.array([0, 1])), strategy="demo", fraction=0.7, seed=0)
    >>> loss.users_emptied, loss.items_emptied, loss.after.history["max"], round(loss.before.gini, 3)
    (1, 0, 2, 0.167)
    """
    before, after = ((events.user_counts(), events.item_counts()) for events in (full, kept))
    return compare_counts(before, after, strategy=strategy, fraction=fraction, seed=seed)


def compare_counts(
    before: tuple[IntArray, IntArray],
    after: tuple[IntArray, IntArray],
    *,
    strategy: str,
    fraction: float,
    seed: int,
) -> Loss:
    """Return what `compare` does, from the numbers of events of users and of items.

    Parameters
    ----------
    before, after : events of each user, in any order, and of each item, in the same order in both
    """
    counts = before[1]
    listed = counts > 0
    n_head = int(np.ceil(HEAD * listed.sum()))
    head = np.zeros(len(counts), dtype=np.bool_)
    head[np.argsort(-counts, kind="stable")[:n_head]] = True
    profiles = [_profile(lengths, items, listed, head) for lengths, items in (before, after)]
    return Loss(strategy, float(fraction), seed, *profiles)


def gini(counts: IntArray) -> float | None:
    """Return the Gini coefficient of non-negative counts; None without any count above 0.

    Examples
    --------
    >>> gini(np.array([2, 2])), gini(np.array([0, 0, 0, 4])), gini(np.array([0]))
    (0.0, 0.75, None)
    """
    total = int(counts.sum())
    if total == 0:
        return None
    n, ordered = len(counts), np.sort(counts)
    weights = 2 * np.arange(1, n + 1) - n - 1
    return float((weights * ordered).sum() / (n * total))


def _profile(lengths: IntArray, counts: IntArray, listed: BoolArray, head: BoolArray) -> Profile:
    lengths = lengths[lengths > 0]
    n_events = int(lengths.sum())
    found: list[int] = []
    if len(lengths):
        found = np.quantile(lengths, list(QUANTILES.values()), method="lower").tolist()
    return Profile(
        events=n_events,
        users=len(lengths),
        items=int((counts > 0).sum()),
        history=dict(zip(QUANTILES, found, strict=False)),
        gini=gini(counts[listed]),
        head=float(counts[head].sum() / n_events) if n_events else None,
    )
