"""A small data set with text ids, and what it means to rank as a library does."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pytest

from truerank.core.interactions import Interactions, Vocabulary
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.ranking.exact import exact_ranks

N_USERS, N_ITEMS = 50, 30


def library(name: str) -> Any:
    """Import an optional library, whatever it warns about, or skip."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f"{name} is not installed: pip install 'truerank[models]'")


def make_split(seed: int = 0) -> Split:
    """Every user and item has train events; all other pairs are targets, so every unseen item gets a rank."""
    rng = np.random.default_rng(seed)
    taste = rng.normal(size=(N_USERS, 3)) @ rng.normal(size=(3, N_ITEMS)) + rng.normal(size=N_ITEMS)
    hit = taste + rng.gumbel(size=taste.shape) > 1.5
    hit[np.arange(N_USERS), np.arange(N_USERS) % N_ITEMS] = True
    hit[:, 0] &= rng.random(N_USERS) < 0.5
    hit[0, 0] = True
    users, items = (Vocabulary.of([f"{kind}{n}" for n in range(size)]) for kind, size in _SIZES)
    train, test = (
        Interactions(user=user, item=item, users=users, items=items, value=1.0 + (user * item) % 5)
        for user, item in (np.nonzero(hit), np.nonzero(~hit))
    )
    return Split(train, test)


_SIZES = (("u", N_USERS), ("i", N_ITEMS))


def shuffled(vocabulary: Vocabulary, seed: int = 1) -> tuple[list[str], Any]:
    """The ids in another order, and the codes behind them."""
    codes = np.random.default_rng(seed).permutation(len(vocabulary))
    return [str(one) for one in vocabulary.decode(codes)], codes


def events(train: Interactions, seed: int = 2) -> list[tuple[str, str, float]]:
    """The events as (user id, item id, value) in random order, as a library would read them."""
    order = np.random.default_rng(seed).permutation(len(train))
    users, items = train.users.decode(train.user[order]), train.items.decode(train.item[order])
    assert train.value is not None
    return list(zip(users, items, train.value[order].tolist(), strict=True))


def assert_ranks_agree(scorer: Scorer, split: Split, orders: Mapping[Any, Iterable[Any]]) -> None:
    """Each library's list of unseen items (best first) stands in the order of our ranks.

    ``orders`` holds ids by user id. A list may be shorter than the pool: what is not in it ranks below.
    """
    ranks = exact_ranks(scorer, split)
    place = {
        (user, item): (above, above + tied)
        for user, item, above, tied in zip(
            split.train.users.decode(ranks.user),
            split.train.items.decode(ranks.item),
            ranks.n_above.tolist(),
            ranks.n_tied.tolist(),
            strict=True,
        )
    }
    assert set(orders) == {user for user, _ in place}
    n_strict = 0
    for user, order in orders.items():
        listed = list(order)
        assert listed
        for position, item in enumerate(listed):
            first, last = place[user, item]
            assert first <= position <= last, f"{user} {item}: {position} is not in {first}..{last}"
            n_strict += first == last
        for item in {item for one, item in place if one == user} - set(listed):
            assert place[user, item][1] >= len(listed)
    assert n_strict > len(place) // 10, "nearly everything is tied: the order says nothing"
