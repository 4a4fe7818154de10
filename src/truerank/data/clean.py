"""Cleaning of interactions: merging repeated (user, item) pairs, k-cores, minimal histories and ratings.

Users and items that lose all events leave the vocabularies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from truerank.core.errors import InvalidData, check_at_least, check_choice, suggests_arguments
from truerank.core.interactions import Interactions, Vocabulary, check_interactions
from truerank.core.types import BoolArray, IntArray
from truerank.data.encode import CHUNK, narrow, recode

POLICIES = ("last", "first", "sum", "max", "error", "keep")


def merge_duplicates(interactions: Interactions, policy: str = "last") -> Interactions:
    """Return the events with at most one per (user, item) pair, in their order.

    Parameters
    ----------
    interactions : the events
    policy : which event replaces several of one pair:

        - ``last``: the one with the largest time, among equal times (or without times) the last row
        - ``first``: the one with the smallest time, among equal times the first row
        - ``sum``: the last one, with the values added up; without values, with the number of events
        - ``max``: the last one, with the largest value
        - ``error``: raise
        - ``keep``: nothing is merged, only counted

    Notes
    -----
    ``origin["duplicate_rows"]`` counts the rows beyond the first of each pair that were merged into others,
    ``origin["duplicate_rows_kept"]`` those that ``keep`` leaves; ``merged`` of the events holds how many rows
    each stands for. The search runs by
    blocks of users to save memory; it is fastest for events ordered by user.

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1], [5, 5, 5], time=np.array([9, 2, 1]))
    >>> merge_duplicates(events).time.tolist(), merge_duplicates(events, "first").time.tolist()
    ([9, 1], [2, 1])
    """
    check_choice("duplicates", policy, POLICIES)
    rows, repeats = _repeated(interactions)
    counted = dict(interactions.origin)
    counted.pop("duplicate_rows_kept", None)
    if policy == "keep":
        return replace(interactions, origin={**counted, "duplicate_rows_kept": repeats})
    counted["duplicate_rows"] = counted.get("duplicate_rows", 0) + repeats
    if repeats and policy == "error":
        first = rows[:1]
        raise InvalidData(
            f"each pair must occur once, but {repeats} rows repeat one, such as user "
            f"{interactions.users.decode(interactions.user[first])[0]!r} and item "
            f"{interactions.items.decode(interactions.item[first])[0]!r}. "
            f"Choose a policy such as duplicates='last'."
        )
    if repeats:
        interactions = _merge(interactions, rows, policy)
    elif policy == "sum" and interactions.value is None:
        interactions = replace(interactions, value=np.ones(len(interactions), dtype=np.float32))
    return replace(interactions, origin=counted)


def _repeated(interactions: Interactions) -> tuple[IntArray, int]:
    """Return all rows whose pair occurs more than once, and how many lie beyond the first of their pair."""
    parts: list[IntArray] = [np.empty(0, dtype=np.int64)]
    count = 0
    for rows, low, high in _blocks_of_users(interactions):
        dtype = np.dtype(np.uint32 if (high - low) * interactions.n_items < 1 << 32 else np.uint64)
        keys: IntArray = (interactions.user[rows] - low).astype(dtype)
        keys *= dtype.type(interactions.n_items)
        keys += interactions.item[rows].astype(dtype)
        ordered = np.sort(keys)
        repeats = ordered[1:][ordered[1:] == ordered[:-1]]
        if len(repeats):
            count += len(repeats)
            hits = _among(keys, repeats)
            parts.append(hits + rows.start if isinstance(rows, slice) else rows[hits])
    return np.concatenate(parts), count


def _among(keys: IntArray, repeats: IntArray) -> IntArray:
    """Return the indices of keys that are among the sorted repeats."""
    sieve = np.zeros(1 << 16, dtype=np.bool_)  # few keys pass it, and only these are searched for
    sieve[repeats & (len(sieve) - 1)] = True
    passed = np.flatnonzero(sieve[keys & (len(sieve) - 1)])
    positions = np.minimum(np.searchsorted(repeats, keys[passed]), len(repeats) - 1)
    hits: IntArray = passed[repeats[positions] == keys[passed]]
    return hits


def _blocks_of_users(interactions: Interactions) -> Iterator[tuple[slice | IntArray, int, int]]:
    """Yield the rows of users low..high-1, about `CHUNK` rows at a time, with low and high."""
    user = interactions.user
    stops = np.cumsum(interactions.user_counts())
    is_sorted = bool((user[1:] >= user[:-1]).all())
    done, low = 0, 0
    while done < len(user):
        high = max(int(np.searchsorted(stops, done + CHUNK, side="right")), low + 1)
        next_done = int(stops[high - 1])
        yield (
            slice(done, next_done) if is_sorted else np.flatnonzero((user >= low) & (user < high)),
            low,
            high,
        )
        done, low = next_done, high


def _merge(interactions: Interactions, rows: IntArray, policy: str) -> Interactions:
    keys = interactions.user[rows].astype(np.int64) * interactions.n_items + interactions.item[rows]
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
    before = interactions.merged
    merged = np.ones(len(interactions), dtype=np.int32) if before is None else before.copy()
    merged[kept] = np.add.reduceat(merged[rows], starts)
    mask = np.ones(len(interactions), dtype=np.bool_)
    mask[rows] = False
    mask[kept] = True
    return replace(interactions, value=value, merged=merged).where(mask)


@suggests_arguments
def k_core(interactions: Interactions, user: int = 5, item: int = 5) -> Interactions:
    """Keep users with at least ``user`` and items with at least ``item`` events, until both hold.

    The largest such subset is unique, so the order of removal does not matter. Each round costs two
    look-ups per event; counts are updated with the removed events only. ``origin`` counts the rounds (the
    last one removes nothing) and what was removed. Repeated pairs count as often as they occur.

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1, 1, 2], [0, 1, 0, 1, 1])
    >>> core = k_core(events, 2, 2)
    >>> len(core), core.n_users, core.origin["k_core_rounds"]
    (4, 2, 2)
    """
    check_interactions(interactions, "k_core")
    check_at_least("user", user, 1)
    check_at_least("item", item, 1)
    of_user = interactions.user_counts()
    of_item = interactions.item_counts()
    alive = np.ones(len(interactions), dtype=np.bool_)
    rounds, removed = 0, 1
    while removed:
        rounds += 1
        enough = of_user >= user, of_item >= item
        removed = 0
        for start in range(0, len(alive), CHUNK):
            rows = slice(start, start + CHUNK)
            users, items = interactions.user[rows], interactions.item[rows]
            drop = alive[rows] & ~(enough[0][users] & enough[1][items])
            if drop.any():
                alive[rows] &= ~drop
                of_user -= np.bincount(users[drop], minlength=len(of_user))
                of_item -= np.bincount(items[drop], minlength=len(of_item))
                removed += int(drop.sum())
    if not alive.any():
        raise InvalidData(
            f"a {user}-{item}-core of {interactions.name!r} must keep at least one event, but none is left. "
            f"Lower the thresholds."
        )
    kept = _keep(interactions, alive, of_user > 0, of_item > 0)
    return replace(kept, origin={**kept.origin, "k_core_rounds": rounds})


@suggests_arguments
def min_history(interactions: Interactions, n: int) -> Interactions:
    """Keep users with at least ``n`` events, once; items are not filtered.

    The rule of [sachdeva2022]_ (n = 3) counts rows before duplicates are removed: read with
    ``duplicates="keep"``, filter, then call `merge_duplicates`.

    Examples
    --------
    >>> min_history(Interactions.from_codes([0, 0, 1], [0, 1, 2]), 2).n_items
    2
    """
    check_interactions(interactions, "min_history")
    check_at_least("n", n, 1)
    enough = interactions.user_counts() >= n
    return _filtered(interactions, enough[interactions.user], f"users with at least {n} events")


def min_rating(interactions: Interactions, least: float) -> Interactions:
    """Keep events rated at least ``least``, as when explicit ratings are made binary.

    Examples
    --------
    >>> events = Interactions.from_codes([0, 0, 1], [0, 1, 2], value=np.array([5.0, 3.0, 4.0]))
    >>> min_rating(events, 4).value.tolist()
    [5.0, 4.0]
    """
    if interactions.value is None:
        raise InvalidData(f"{interactions.name!r} must have ratings to be filtered by them, but has none.")
    return _filtered(interactions, interactions.value >= least, f"events rated at least {least}")


def _filtered(interactions: Interactions, alive: BoolArray, what: str) -> Interactions:
    if not alive.any():
        raise InvalidData(f"{interactions.name!r} must have {what}, but none is left. Lower the threshold.")
    kept = interactions.where(alive)
    return _keep(interactions, alive, kept.user_counts() > 0, kept.item_counts() > 0)


def _keep(interactions: Interactions, alive: BoolArray, users: BoolArray, items: BoolArray) -> Interactions:
    """Return the remaining events, coded over the remaining users and items."""
    lost = {
        "users_filtered": int(len(users) - users.sum()),
        "items_filtered": int(len(items) - items.sum()),
        "events_filtered": int(len(alive) - alive.sum()),
    }
    before = interactions.origin
    kept = interactions if alive.all() else interactions.where(alive)
    return replace(
        kept,
        user=kept.user if users.all() else recode(kept.user, users),
        item=kept.item if items.all() else recode(kept.item, items),
        users=_shrunk(kept.users, users),
        items=_shrunk(kept.items, items),
        origin={**before, **{key: before.get(key, 0) + count for key, count in lost.items()}},
    )


def _shrunk(vocabulary: Vocabulary, present: BoolArray) -> Vocabulary:
    return vocabulary if present.all() else Vocabulary(vocabulary.take(np.flatnonzero(present)))
