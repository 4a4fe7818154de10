"""Events whose frequencies bound a rank distribution: a target is among the best of its sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.tally import Tally
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.inference.region import Method, Region, make_region

_SINGLES = 3  # events k = 0 .. 2 one by one
_RATIO = 1.25  # then each k is so much larger than the one before


@dataclass(frozen=True, eq=False)
class Events:
    """At most a certain share of the sampled items stand above the target: (2 j + 1)/(m + 1) is small.

    Chosen from the largest sample alone, never from what was seen, so the limits hold for them all.

    Parameters
    ----------
    largest : the largest m
    n_above : (n_events,) ascending; of the largest sample at most so many stand above

    Examples
    --------
    >>> make_events(99).n_above.tolist()
    [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 19, 24, 30, 38, 48, 60, 75, 94]
    >>> make_events(99).happen(np.array([99, 9]), np.array([4, 0])).astype(int)[:, :6].tolist()
    [[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 1]]
    """

    largest: int
    n_above: IntArray

    def __len__(self) -> int:
        return len(self.n_above)

    def happen(self, n_negatives: IntArray, n_above: IntArray) -> BoolArray:
        """Return which events each outcome (m, j) fulfils, (n_outcomes, n_events)."""
        own = (2 * np.asarray(n_above) + 1)[:, None] * (self.largest + 1)
        found: BoolArray = own <= (2 * self.n_above + 1) * (np.asarray(n_negatives) + 1)[:, None]
        return found


def make_events(largest: int) -> Events:
    """Return the events for samples of at most ``largest`` negatives."""
    found, k = [], 0
    while k < largest:
        found.append(k)
        k = max(k + 1, round(k * _RATIO)) if k >= _SINGLES else k + 1
    return Events(largest, np.array(found, dtype=np.int64))


def observe(tally: Tally, is_used: BoolArray, events: Events, *, level: float) -> tuple[Region, int]:
    """Return limits of the mean chances of the events over users, and the number of users.

    A user counts the mean over its targets. With one untied target each these are events, and the limits are
    binomial; otherwise numbers within [0, 1], which users make independently whatever a user's targets share.

    Parameters
    ----------
    tally : sampled ranks
    is_used : (n_contexts,) the contexts that take part
    events, level : what is looked at
    """
    context = np.searchsorted(tally.offsets, tally.cell, side="right") - 1
    entries = np.flatnonzero(is_used[context])
    context = context[entries]
    above = tally.cell[entries] - tally.offsets[context]
    weight = tally.weight[entries] / tally.contexts.n_relevant[context]
    users, user = np.unique(tally.user[entries], return_inverse=True)
    if (np.bincount(user, weight) > 1 + 1e-9).any():
        raise InvalidData(
            "n_relevant must be at least the number of rows of a user, but some user has more rows. "
            "Correct the table."
        )
    is_plain = len(users) == len(entries) and bool((weight == 1).all())
    seen = events.happen(tally.contexts.n_negatives[context], above)
    share: FloatArray = weight @ seen / len(users)
    method: Method = "binomial" if is_plain else "chernoff"
    return make_region(share, len(users), level=level, method=method), len(users)
