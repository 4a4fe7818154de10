"""What strategies share: keep the largest, overall or of each group, or whole groups in an order.

Scores decide; where they are equal, random keys do. All of them keep exactly as many events as asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.types import AnyArray, BoolArray, FloatArray, IntArray
from truerank.subsample.key import EventKeys, Keys, chunks


def keep_largest(scores: AnyArray, n_keep: int, keys: EventKeys) -> BoolArray:
    """Return the mask of the ``n_keep`` events of largest score.

    Parameters
    ----------
    scores : (n,) one number per event, such as its importance
    n_keep : 0..n
    keys : decide between events of equal score

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> events = Interactions.from_codes([0, 0, 1], [0, 1, 0])
    >>> keep_largest(np.array([0.1, 0.7, 0.5]), 2, EventKeys(events, 0, "demo")).tolist()
    [False, True, True]
    """
    check_scores(scores)
    n = len(scores)
    if n_keep in (0, n):
        return np.full(n, n_keep == n, dtype=np.bool_)
    cut = np.partition(scores, n - n_keep)[n - n_keep]
    mask = np.asarray(scores > cut)
    _add_tied(mask, np.flatnonzero(scores == cut), n_keep - int(mask.sum()), keys)
    return mask


def keep_largest_of_each(group: IntArray, quota: IntArray, scores: AnyArray, keys: EventKeys) -> BoolArray:
    """Return the mask of each group's ``quota[group]`` events of largest score.

    Parameters
    ----------
    group : (n,) the group of each event, such as its user
    quota : (n_groups,) events to keep of each group, at most as many as it has
    scores : (n,) one number per event, such as its time
    keys : decide between events of equal score

    Notes
    -----
    Cost: one counting sort of the rows and a sort within each group, in compiled code on all cores; scratch
    of 20 bytes per event at most.
    """
    from truerank.subsample.cut import cuts_of, ordered_bits

    check_scores(scores)
    bits = ordered_bits(scores)
    cuts = cuts_of(group, quota, bits)
    mask = np.zeros(len(group), dtype=np.bool_)
    above = np.zeros(len(quota), dtype=np.int64)
    level: list[IntArray] = [np.empty(0, dtype=np.int64)]
    for block in chunks(len(group)):
        own, asked = group[block], quota[group[block]] > 0
        mask[block] = asked & (bits[block] > cuts[own])
        above += np.bincount(own[mask[block]], minlength=len(quota))
        level.append(np.flatnonzero(asked & (bits[block] == cuts[own])) + block.start)
    rows = np.concatenate(level)
    left = (quota - above)[group[rows]]  # how many events at the cut of their group are still wanted
    tied = np.bincount(group[rows], minlength=len(quota))[group[rows]]
    mask[rows[left == tied]] = True
    rows = rows[left < tied]
    order = np.lexsort((keys.of(rows), group[rows]))[::-1]
    rows = rows[order]
    places = np.arange(len(rows))
    is_first = np.r_[True, np.diff(group[rows]) != 0][: len(rows)]
    number = places - np.maximum.accumulate(np.where(is_first, places, 0))
    mask[rows[number < (quota - above)[group[rows]]]] = True
    return mask


def keep_in_order(
    place_of: Callable[[slice], IntArray], n_places: int, n_events: int, n_keep: int, keys: EventKeys | None
) -> BoolArray:
    """Return the mask of the events of the first places, as many as there is room for.

    Parameters
    ----------
    place_of : the place of each event of a block of rows, such as that of its user among all users;
        places of ``n_places`` and more are never kept
    n_places : how many places there are
    n_events : how many events there are
    n_keep : events to keep
    keys : choose among the events of the place that there is not enough room for; None leaves it out

    Examples
    --------
    >>> places = np.array([2, 0, 1, 1, 0])
    >>> keep_in_order(lambda block: places[block], 3, 5, 3, None).tolist()
    [False, True, False, False, True]
    """
    counts = np.zeros(n_places + 1, dtype=np.int64)
    for block in chunks(n_events):
        counts += np.bincount(np.minimum(place_of(block), n_places), minlength=n_places + 1)
    ends = np.cumsum(counts[:-1])
    whole = int(np.searchsorted(ends, n_keep, side="right"))
    mask = np.zeros(n_events, dtype=np.bool_)
    divided: list[IntArray] = [np.empty(0, dtype=np.int64)]
    for block in chunks(n_events):
        place = place_of(block)
        mask[block] = place < whole
        if keys is not None and whole < n_places:
            divided.append(np.flatnonzero(place == whole) + block.start)
    if keys is not None:
        done = int(ends[whole - 1]) if whole else 0
        _add_tied(mask, np.concatenate(divided), n_keep - done, keys)
    return mask


def places(scores: AnyArray, keys: Keys) -> IntArray:
    """Return the place of each unit when those of largest score come first; keys decide between equals.

    Examples
    --------
    >>> places(np.array([5, 9, 5]), np.array([1, 2, 3], dtype=np.uint64)).tolist()
    [2, 0, 1]
    """
    check_scores(scores)
    order = np.lexsort((keys, scores))[::-1]
    place: IntArray = np.empty(len(order), dtype=np.int32 if len(order) < 1 << 31 else np.int64)
    place[order] = np.arange(len(order))
    return place


def shares(counts: IntArray, fraction: float, n_keep: int, keys: Keys) -> IntArray:
    """Divide ``n_keep`` among groups in proportion to their counts, by largest remainders.

    Each group gets its share rounded down; the rest goes one each to the groups whose share was rounded by
    most, keys deciding between equals.

    Parameters
    ----------
    counts : (n_groups,) events of each group
    fraction : the share of each group
    n_keep : the sum of the result, ``fraction`` times the sum of the counts rounded down or up
    keys : (n_groups,)

    Examples
    --------
    >>> shares(np.array([3, 10, 1]), 0.5, 7, np.array([1, 2, 3], dtype=np.uint64)).tolist()
    [1, 5, 1]
    """
    share = fraction * counts
    quota: IntArray = np.floor(share + 1e-9).astype(np.int64)  # 0.7 * 10 must be 7
    rest = np.round(np.maximum(share - quota, 0.0), 9)  # shares that are equal must tie
    last = np.lexsort((keys, rest))[::-1][: n_keep - int(quota.sum())]
    quota[last] += 1
    return quota


def mean_of_each(group: IntArray, n_groups: int, scores: FloatArray) -> FloatArray:
    """Return the mean score of each group's events, 0 for groups without events.

    Scores are rounded to a multiple of a power of two, so fine that a sum of the largest group fits a float
    (for groups of 10,000 events: the largest score times 7e-12). Sums are then exact and the means do not
    depend on the order of events. A group with an infinite score has an infinite mean.

    Examples
    --------
    >>> mean_of_each(np.array([0, 2, 0]), 3, np.array([1.0, 5.0, 2.0])).tolist()
    [1.5, 0.0, 5.0]
    """
    totals, counts = np.zeros(n_groups), np.zeros(n_groups, dtype=np.int64)
    largest = 0.0
    for block in chunks(len(group)):
        counts += np.bincount(group[block], minlength=n_groups)
        finite = np.abs(np.where(np.isfinite(scores[block]), scores[block], 0.0))
        largest = max(largest, float(finite.max()))
    bits = 52 - math.frexp(largest)[1] - int(counts.max(initial=0)).bit_length()
    for block in chunks(len(group)):
        whole = np.rint(np.ldexp(scores[block].astype(np.float64), bits))
        totals += np.bincount(group[block], weights=whole, minlength=n_groups)
    means = np.divide(totals, counts, out=np.zeros(n_groups), where=counts > 0)
    return np.ldexp(means, -bits)


def check_scores(scores: AnyArray) -> None:
    """Raise unless every score can be compared."""
    if scores.dtype.kind == "f" and np.isnan(scores.min(initial=np.inf)):
        raise InvalidData("scores to choose by must be numbers, got NaN. Check what computed them.")


def _add_tied(mask: BoolArray, rows: IntArray, n_missing: int, keys: EventKeys) -> None:
    """Mark ``n_missing`` of the rows, those of largest key."""
    if n_missing == len(rows):
        mask[rows] = True
    elif n_missing > 0:
        mask[rows[np.argsort(keys.of(rows), kind="stable")[len(rows) - n_missing :]]] = True
