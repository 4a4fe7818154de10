"""Train events as arrays, negatives, and the cut of an epoch into batches."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions, Lists
from truerank.core.types import FloatArray, IntArray
from truerank.models.threads import even_blocks, run_blocks

_BLOCK = 1 << 16  # rows of negatives per thread and turn


def distinct_pairs(train: Interactions) -> tuple[IntArray, IntArray]:
    """Return user and item of each distinct pair, sorted: the order of events cannot matter after this.

    Examples
    --------
    >>> [array.tolist() for array in distinct_pairs(Interactions.from_codes([1, 0, 1], [0, 2, 0]))]
    [[0, 1], [2, 0]]
    """
    lists = train.by_user()
    return np.repeat(np.arange(train.n_users), lists.lengths()), lists.items.astype(np.int64)


def rated_events(model: str, train: Interactions) -> tuple[IntArray, IntArray, FloatArray]:
    """Return user, item and value of every event, sorted by all three; repeated events stay."""
    if train.value is None:
        raise InvalidData(
            f"{model} with loss=mse learns ratings, but the data have no values. Read a rating column, or "
            "use loss=bpr."
        )
    order = np.lexsort((train.value, train.item, train.user))
    user, item = train.user[order].astype(np.int64), train.item[order].astype(np.int64)
    return user, item, train.value[order].astype(np.float32)


def draw_negatives(
    lists: Lists, n_items: int, user: IntArray, n_negatives: int, rng: np.random.Generator
) -> IntArray:
    """Return (len(user), n_negatives) items that each user has not met, uniformly and with replacement.

    A user who has met every item gets any items. The draws depend on the generator and the place of the row,
    not on threads.
    """
    from truerank.models.neural.kernels.negative import draw_negatives as draw

    out = np.empty((len(user), n_negatives), dtype=np.int64)
    start = np.uint64(rng.integers(2**63))

    def fill(first: int, last: int) -> None:
        draw(lists.indptr, lists.items, n_items, user[first:last], start, first, out[first:last])

    run_blocks(fill, even_blocks(len(user), _BLOCK))
    return out


def shuffled_batches(n: int, size: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield 0..n-1 in random order, cut into batches of ``size``; the last one may be smaller."""
    order = rng.permutation(n)
    for first in range(0, n, size):
        yield order[first : first + size]
