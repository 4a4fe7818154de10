"""Synthetic demonstration data: long-tailed popularity, low-rank preferences, and times."""

from __future__ import annotations

import numpy as np

from truerank.core.errors import check_at_least
from truerank.core.interactions import Interactions, Vocabulary
from truerank.core.random import stream
from truerank.core.types import FloatArray, IntArray

_FACTORS = 8
_TASTE = 2.4  # standard deviation of taste, in units of log popularity
_START = 1_500_000_000
_YEAR = 31_536_000


def demo(seed: int = 0, *, n_users: int = 2_500, n_items: int = 6_000) -> Interactions:
    """Return synthetic interactions; equal seeds give equal data.

    Item popularity falls like a power of the rank (Zipf). Users and items have ``_FACTORS`` hidden traits;
    each user picks items without replacement with probability proportional to popularity times the
    exponential of the match of traits (Gumbel-top-k), in random order over one year. So popularity is a
    fair baseline, and models that learn preferences are better. Takes about a second.

    Parameters
    ----------
    seed : of everything random; a user's events do not depend on the number of users
    n_users, n_items : sizes of the vocabularies; a few items of the tail may have no event

    Examples
    --------
    >>> events = demo(n_users=20, n_items=100)
    >>> events.n_users, events.n_items, events.user_counts().min() >= 5
    (20, 100, np.True_)
    """
    check_at_least("n_users", n_users, 1)
    check_at_least("n_items", n_items, 50)
    draw = stream(seed, "demo/items")
    log_popularity = -0.9 * np.log(1.0 + draw.permutation(n_items) + 0.01 * n_items)
    traits = draw.standard_normal((_FACTORS, n_items))
    users, items, times = [], [], []
    for user in range(n_users):
        chosen, when = _history(seed, user, log_popularity, traits)
        users.append(np.full(len(chosen), user, dtype=np.int32))
        items.append(chosen)
        times.append(when)
    return Interactions(
        user=np.concatenate(users),
        item=np.concatenate(items).astype(np.int32),
        users=Vocabulary.range(n_users),
        items=Vocabulary.range(n_items),
        time=np.concatenate(times),
        name="demo",
    )


def _history(
    seed: int, user: int, log_popularity: FloatArray, traits: FloatArray
) -> tuple[IntArray, IntArray]:
    draw = stream(seed, "demo/users", user)
    n_items = len(log_popularity)
    length = int(np.clip(np.exp(draw.normal(3.4, 0.8)), 5, n_items // 4))
    taste = draw.standard_normal(_FACTORS) * (_TASTE / np.sqrt(_FACTORS))
    score = log_popularity + draw.gumbel(size=n_items)
    for weight, trait in zip(taste, traits, strict=True):  # in this order: a BLAS product is not repeatable
        score += weight * trait
    ranked = np.round(score * 2**20).astype(np.int64)  # the last bits of logarithms differ between machines
    chosen = np.argpartition(-ranked, length)[:length]
    chosen = draw.permutation(np.sort(chosen))
    when = np.sort(draw.integers(_START, _START + _YEAR, size=length))
    return chosen, when
