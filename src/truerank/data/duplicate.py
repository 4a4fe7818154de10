"""Several events of one user with one item: a named policy says what becomes of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from truerank.core.check import check_choice
from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions
from truerank.core.types import IntArray
from truerank.data.cast import narrow
from truerank.data.coding import CHUNK

POLICIES = ("last", "first", "sum", "max", "error", "keep")


def merge_duplicates(interactions: Interactions, policy: str = "last") -> Interactions:
    """Return the events with at most one per (user, item) pair, in their order.

    Parameters
    ----------
    interactions : the events
    policy : what one event is made of several:

        - ``last``: the one with the largest time, among equal times (or without times) the last row
        - ``first``: the one with the smallest time, among equal times the first row
        - ``sum``: the last one, with the values added up; without values, with the number of events
        - ``max``: the last one, with the largest value
        - ``error``: raise
        - ``keep``: nothing is merged; duplicates are only counted

    Notes
    -----
    ``origin["duplicate_rows"]`` counts the rows beyond the first of each pair. Cost: one sort of n 64-bit
    keys; nothing else is touched when there are no duplicates.

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1], [5, 5, 5], time=np.array([9, 2, 1]))
    >>> merge_duplicates(events).time.tolist(), merge_duplicates(events, "first").time.tolist()
    ([9, 1], [2, 1])
    """
    check_choice("duplicates", policy, POLICIES)
    twice = _repeated_keys(interactions)
    counted = dict(interactions.origin)
    counted["duplicate_rows"] = counted.get("duplicate_rows", 0) + len(twice)
    if len(twice) and policy == "error":
        user, item = divmod(int(twice[0]), interactions.n_items)
        raise InvalidData(
            f"each pair must occur once, but {len(twice)} rows repeat one, such as user "
            f"{interactions.users.decode(np.array([user]))[0]!r} and item "
            f"{interactions.items.decode(np.array([item]))[0]!r}. Choose a policy such as duplicates='last'."
        )
    if len(twice) and policy != "keep":
        interactions = _merge(interactions, np.unique(twice), policy)
    elif policy == "sum" and interactions.value is None:
        interactions = replace(interactions, value=np.ones(len(interactions), dtype=np.float32))
    return replace(interactions, origin=counted)


def _repeated_keys(interactions: Interactions) -> IntArray:
    """Return the key of each row beyond the first of its pair, ascending."""
    keys = np.empty(len(interactions), dtype=np.int64)
    for start in range(0, len(keys), CHUNK):
        keys[start : start + CHUNK] = _keys(interactions, slice(start, start + CHUNK))
    keys.sort()
    repeats: IntArray = keys[1:][keys[1:] == keys[:-1]]
    return repeats


def _keys(interactions: Interactions, rows: slice | IntArray) -> IntArray:
    keys: IntArray = interactions.user[rows].astype(np.int64) * interactions.n_items
    return keys + interactions.item[rows]


def _merge(interactions: Interactions, repeated: IntArray, policy: str) -> Interactions:
    rows = _rows_of(interactions, repeated)
    keys = _keys(interactions, rows)
    later = () if interactions.time is None else (interactions.time[rows],)
    order = np.lexsort((rows, *later, keys))
    rows, keys = rows[order], keys[order]
    starts = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
    ends = np.r_[starts[1:], len(keys)] - 1
    kept = rows[starts if policy == "first" else ends]
    value = interactions.value
    if policy == "sum":
        value = np.ones(len(interactions)) if value is None else value.astype(np.float64)
        value[kept] = np.add.reduceat(value[rows], starts)
        value = narrow(value)
    elif policy == "max" and value is not None:
        value = value.copy()
        value[kept] = np.maximum.reduceat(value[rows], starts)
    mask = np.ones(len(interactions), dtype=np.bool_)
    mask[rows] = False
    mask[kept] = True
    return replace(interactions, value=value).where(mask)


def _rows_of(interactions: Interactions, repeated: IntArray) -> IntArray:
    """Return all rows whose key is among the repeated ones."""
    sieve = np.zeros(1 << 22, dtype=np.bool_)
    sieve[repeated & (len(sieve) - 1)] = True
    found = []
    for start in range(0, len(interactions), CHUNK):
        keys = _keys(interactions, slice(start, start + CHUNK))
        passed = np.flatnonzero(sieve[keys & (len(sieve) - 1)])
        places = np.searchsorted(repeated, keys[passed])
        hit = repeated[np.minimum(places, len(repeated) - 1)] == keys[passed]
        found.append(passed[hit] + start)
    return np.concatenate(found)
