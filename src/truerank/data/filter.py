"""Filters on interactions; users and items that lose all events leave the vocabularies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from truerank.core.check import check_at_least
from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions
from truerank.core.types import BoolArray
from truerank.core.vocabulary import Vocabulary
from truerank.data.coding import CHUNK, recode


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


def min_history(interactions: Interactions, n: int) -> Interactions:
    """Keep users with at least ``n`` events, once; items are not filtered.

    The rule of [sachdeva2022]_ (n = 3) counts rows before duplicates are removed: read with
    ``duplicates="keep"``, filter, then call `merge_duplicates`.

    Examples
    --------
    >>> min_history(Interactions.from_codes([0, 0, 1], [0, 1, 2]), 2).n_items
    2
    """
    check_at_least("n", n, 1)
    enough = interactions.user_counts() >= n
    return _filtered(interactions, enough[interactions.user], f"users with at least {n} events")


def min_rating(interactions: Interactions, least: float) -> Interactions:
    """Keep events rated at least ``least``; the way to make explicit ratings binary.

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
    """Return the events that are alive over the users and items that are left."""
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
