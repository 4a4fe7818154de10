"""Selection of events by scores: the largest of all, of each group, or whole groups in an order.

Random keys, a function of seed, stage, user and item, decide between equal scores, so that exactly the wanted
number of events is kept and their order in the table does not matter. Large data are treated in blocks, and
the smallest score that each group keeps is found in compiled code.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from truerank.core.errors import InvalidData
from truerank.core.parallel import available_threads, run_row_blocks
from truerank.core.random import pair_keys
from truerank.core.types import AnyArray, BoolArray, FloatArray, IntArray, frozen

CHUNK = 1 << 20  # events treated at once, so that scratch stays small whatever their number

Keys = NDArray[np.uint64]


def chunks(n_events: int) -> list[slice]:
    """Return slices that cover the events, each of at most `CHUNK`.

    Examples
    --------
    >>> chunks(5)
    [slice(0, 5, None)]
    """
    return [slice(start, min(start + CHUNK, n_events)) for start in range(0, n_events, CHUNK)]


class KeyedEvents(Protocol):
    """The columns that determine keys: `truerank.core.interactions.Interactions`, or some of its columns."""

    @property
    def user(self) -> IntArray:
        """The code of each event's user."""

    @property
    def item(self) -> IntArray:
        """The code of each event's item."""

    @property
    def value(self) -> FloatArray | None:
        """The ratings, where there are any."""

    @property
    def time(self) -> AnyArray | None:
        """The times, where there are any."""


@dataclass(frozen=True, eq=False)
class EventKeys:
    """One random 64-bit key per event: a function of seed, stage, user and item, not of the row.

    Events of one pair are ordered by their time, then their value, so that each has a different key.

    Parameters
    ----------
    train : the events
    seed, stage : of the random keys

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> events = Interactions.from_codes([0, 1, 0], [2, 1, 2])
    >>> reordered = events.take(np.array([1, 2, 0]))
    >>> sorted(EventKeys(events, 0, "demo").all()) == sorted(EventKeys(reordered, 0, "demo").all())
    True
    """

    train: KeyedEvents
    seed: int
    stage: str

    def all(self) -> Keys:
        """Return the keys of all events."""
        keys = np.empty(len(self.train.user), dtype=np.uint64)
        for block in chunks(len(keys)):
            user, item = self.train.user[block], self.train.item[block]
            keys[block] = pair_keys(self.seed, self.stage, user, item)
        return self._distinct(keys, None)

    def of(self, rows: IntArray) -> Keys:
        """Return the keys of some events; those of one pair are numbered among the given rows."""
        keys = pair_keys(self.seed, self.stage, self.train.user[rows], self.train.item[rows])
        return self._distinct(keys, rows)

    def _distinct(self, keys: Keys, rows: IntArray | None) -> Keys:
        ordered = np.sort(keys)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        if len(repeated):
            at = np.flatnonzero(np.isin(keys, repeated))
            keys[at] = self._numbered(keys[at], at if rows is None else rows[at])
        return keys

    def _numbered(self, keys: Keys, rows: IntArray) -> Keys:
        """Return new keys for the second and further events of each pair, by time and value."""
        columns = [column[rows] for column in (self.train.value, self.train.time) if column is not None]
        order = np.lexsort((*columns, keys))
        starts = np.r_[True, np.diff(keys[order]) != 0]
        indices = np.arange(len(keys))
        number = np.empty(len(keys), dtype=np.int64)
        number[order] = indices - np.maximum.accumulate(np.where(starts, indices, 0))
        again = number > 0
        keys[again] = pair_keys(self.seed, f"{self.stage}/repeat", keys[again], number[again])
        return keys


def unit_keys(seed: int, stage: str, n_units: int, side: int = 0) -> Keys:
    """Return one random key per user (side 0) or item (side 1)."""
    return pair_keys(seed, f"{stage}/unit", np.array(side), np.arange(n_units))


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
    check_scores(scores)
    bits = ordered_bits(scores)
    cuts = group_cuts(group, quota, bits)
    mask = np.zeros(len(group), dtype=np.bool_)
    above = np.zeros(len(quota), dtype=np.int64)
    at_cut: list[IntArray] = [np.empty(0, dtype=np.int64)]
    for block in chunks(len(group)):
        codes, has_quota = group[block], quota[group[block]] > 0
        mask[block] = has_quota & (bits[block] > cuts[codes])
        above += np.bincount(codes[mask[block]], minlength=len(quota))
        at_cut.append(np.flatnonzero(has_quota & (bits[block] == cuts[codes])) + block.start)
    rows = np.concatenate(at_cut)
    n_missing = (quota - above)[group[rows]]  # events at the cut of their group that are still wanted
    n_tied = np.bincount(group[rows], minlength=len(quota))[group[rows]]
    mask[rows[n_missing == n_tied]] = True
    rows = rows[n_missing < n_tied]
    order = np.lexsort((keys.of(rows), group[rows]))[::-1]
    rows = rows[order]
    numbers = np.arange(len(rows))
    is_first = np.r_[True, np.diff(group[rows]) != 0][: len(rows)]
    number = numbers - np.maximum.accumulate(np.where(is_first, numbers, 0))
    mask[rows[number < (quota - above)[group[rows]]]] = True
    return mask


def keep_in_order(
    position_of: Callable[[slice], IntArray],
    n_positions: int,
    n_events: int,
    n_keep: int,
    keys: EventKeys | None,
) -> BoolArray:
    """Return the mask of the events at the first positions of an order, ``n_keep`` of them at most.

    Parameters
    ----------
    position_of : the position of each event of a block of rows, such as that of its user among all users;
        events at position ``n_positions`` or later are never kept
    n_positions : how many positions there are
    n_events : how many events there are
    n_keep : events to keep
    keys : choose among the events of the first position that does not fit as a whole; None leaves it out

    Examples
    --------
    >>> order = np.array([2, 0, 1, 1, 0])
    >>> keep_in_order(lambda block: order[block], 3, 5, 3, None).tolist()
    [False, True, False, False, True]
    """
    counts = np.zeros(n_positions + 1, dtype=np.int64)
    for block in chunks(n_events):
        counts += np.bincount(np.minimum(position_of(block), n_positions), minlength=n_positions + 1)
    cumulated = np.cumsum(counts[:-1])
    n_whole = int(np.searchsorted(cumulated, n_keep, side="right"))
    mask = np.zeros(n_events, dtype=np.bool_)
    divided: list[IntArray] = [np.empty(0, dtype=np.int64)]
    for block in chunks(n_events):
        position = position_of(block)
        mask[block] = position < n_whole
        if keys is not None and n_whole < n_positions:
            divided.append(np.flatnonzero(position == n_whole) + block.start)
    if keys is not None:
        n_kept = int(cumulated[n_whole - 1]) if n_whole else 0
        _add_tied(mask, np.concatenate(divided), n_keep - n_kept, keys)
    return mask


def descending_order(scores: AnyArray, keys: Keys) -> IntArray:
    """Return the position of each unit in descending order of the scores; keys decide between equal ones.

    Examples
    --------
    >>> descending_order(np.array([5, 9, 5]), np.array([1, 2, 3], dtype=np.uint64)).tolist()
    [2, 0, 1]
    """
    check_scores(scores)
    order = np.lexsort((keys, scores))[::-1]
    position: IntArray = np.empty(len(order), dtype=np.int32 if len(order) < 1 << 31 else np.int64)
    position[order] = np.arange(len(order))
    return position


def proportional_quotas(counts: IntArray, fraction: float, n_keep: int, keys: Keys) -> IntArray:
    """Divide ``n_keep`` among groups in proportion to their counts, by largest remainders.

    Each group gets ``fraction`` times its count, rounded down; what remains goes one each to the groups with
    the largest remainders, keys deciding between equal ones.

    Parameters
    ----------
    counts : (n_groups,) events of each group
    fraction : of each group
    n_keep : the sum of the result, ``fraction`` times the sum of the counts rounded down or up
    keys : (n_groups,)

    Examples
    --------
    >>> proportional_quotas(np.array([3, 10, 1]), 0.5, 7, np.array([1, 2, 3], dtype=np.uint64)).tolist()
    [1, 5, 1]
    """
    exact_quota = fraction * counts
    quota: IntArray = np.floor(exact_quota + 1e-9).astype(np.int64)  # 0.7 * 10 must be 7
    remainder = np.round(np.maximum(exact_quota - quota, 0.0), 9)  # equal remainders must tie
    rounded_up = np.lexsort((keys, remainder))[::-1][: n_keep - int(quota.sum())]
    quota[rounded_up] += 1
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
    """Raise when a score is NaN."""
    if scores.dtype.kind == "f" and np.isnan(scores.min(initial=np.inf)):
        raise InvalidData(
            "scores to choose by must be numbers, got NaN. Check the computation of the scores."
        )


def _add_tied(mask: BoolArray, rows: IntArray, n_missing: int, keys: EventKeys) -> None:
    """Mark ``n_missing`` of the rows, those of largest key."""
    if n_missing == len(rows):
        mask[rows] = True
    elif n_missing > 0:
        mask[rows[np.argsort(keys.of(rows), kind="stable")[len(rows) - n_missing :]]] = True


COMPILED_FROM = 1 << 16  # events; below, NumPy is faster than loading compiled code
_SIGN = np.uint64(1 << 63)


def ordered_bits(scores: AnyArray) -> Keys:
    """Return 64-bit words in the order of the scores, equal where the scores are.

    Examples
    --------
    >>> bits = ordered_bits(np.array([-1.5, -0.0, 0.0, 2.5]))
    >>> bool(bits[0] < bits[1]), bool(bits[1] == bits[2]), bool(bits[2] < bits[3])
    (True, True, True)
    """
    if scores.dtype == np.uint64:
        return scores
    bits = np.empty(len(scores), dtype=np.uint64)
    for block in chunks(len(scores)):
        if scores.dtype.kind == "f":
            words = (scores[block].astype(np.float64) + 0.0).view(np.uint64)  # -0.0 becomes 0.0
            bits[block] = np.where(words >= _SIGN, ~words, words | _SIGN)
        else:
            bits[block] = scores[block].astype(np.int64).view(np.uint64) ^ _SIGN
    return bits


def group_cuts(group: IntArray, quota: IntArray, bits: Keys) -> Keys:
    """Return the ``quota[g]``-th largest word of each group g, 0 where the quota is 0."""
    if len(group) < COMPILED_FROM:
        return _numpy_cuts(group, quota, bits)
    return _compiled_cuts(group, quota, bits)


def _numpy_cuts(group: IntArray, quota: IntArray, bits: Keys) -> Keys:
    cumulated = np.cumsum(np.bincount(group, minlength=len(quota)))
    ordered = bits[np.lexsort((bits, group))]
    cuts = np.zeros(len(quota), dtype=np.uint64)
    has_quota = quota > 0
    cuts[has_quota] = ordered[(cumulated - quota)[has_quota]]
    return cuts


def _compiled_cuts(group: IntArray, quota: IntArray, bits: Keys) -> Keys:
    from truerank.subsampling.kernels import cut_groups, list_rows

    n_groups = len(quota)
    codes = frozen(group.astype(np.int32, copy=False))
    indptr = np.zeros(n_groups + 1, dtype=np.int64)
    for block in chunks(len(group)):
        indptr[1:] += np.bincount(group[block], minlength=n_groups)
    np.cumsum(indptr, out=indptr)
    rows: IntArray = np.empty(len(group), dtype=np.int32 if len(group) < 1 << 31 else np.int64)
    list_rows(codes, indptr[:-1].copy(), rows)
    cuts = np.zeros(n_groups, dtype=np.uint64)
    words, quotas = frozen(bits), frozen(quota.astype(np.int64, copy=False))
    n_threads = available_threads()
    starts = np.searchsorted(indptr, np.linspace(0, len(group), 8 * n_threads + 1)).tolist()
    starts[0], starts[-1] = 0, n_groups
    run_row_blocks(
        lambda first, last: cut_groups(indptr, rows, words, quotas, first, last, cuts),
        itertools.pairwise(starts),
        n_threads=n_threads,
    )
    return cuts
