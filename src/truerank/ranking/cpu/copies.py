"""Items that many others are copies of: they tie with each other for every user, whatever the score."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from truerank.core.types import frozen
from truerank.ranking.cpu.counts import CHUNK, Doubles, Ints, Side

# Copies of fewer items are found one by one, when their scores are near a target's.
LEAST_SHARE, LEAST_COPIES = 1000, 8
# Norms that are looked at; a share of 1/1000 is there half as often as expected, or it is not sought.
SAMPLE = 1 << 13


def number_copies(item: Side, bias: Doubles | None) -> NDArray[np.int32]:
    """Return a number per item: 0, or one that it shares with its copies only.

    Only copies of many items are sought, by the norms that they share; catalogues without them cost one sort
    of some norms.

    Examples
    --------
    >>> side = Side.prepare("item", np.repeat(np.eye(3, dtype=np.float32), [9, 2, 8], axis=0), None)
    >>> number_copies(side, None).tolist()
    [1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2]
    """
    numbers = np.zeros(len(item.square_norms), np.int32)
    least = max(LEAST_COPIES, len(numbers) // LEAST_SHARE)
    sample, often = item.square_norms, least
    if len(sample) > SAMPLE:
        sample = sample[np.random.default_rng(0).integers(0, len(sample), SAMPLE)]
        often = SAMPLE // LEAST_SHARE // 2
    ascending = np.sort(sample)
    last = ascending[often - 1 :]
    frequent = np.unique(last[last == ascending[: len(last)]])
    if len(frequent):
        places = np.flatnonzero(np.isin(item.square_norms, frequent))
        _, first, group, sizes = np.unique(
            _digests(item, bias, places), return_index=True, return_inverse=True, return_counts=True
        )
        kept = np.flatnonzero(sizes >= least)
        number_of = np.zeros(len(sizes), np.int32)
        number_of[kept] = np.arange(1, len(kept) + 1)
        alike = _are_alike(item, bias, places, places[first[group]])
        numbers[places] = np.where(alike, number_of[group], 0)
    return frozen(numbers)


def _digests(item: Side, bias: Doubles | None, places: Ints) -> NDArray[np.uint64]:
    """Return a digest of the bits of some items; copies have the same."""
    draw = np.random.default_rng(0)
    factors = draw.integers(0, 2**63, item.exact.shape[1] + 1, dtype=np.uint64) | np.uint64(1)
    unsigned = np.uint32 if item.exact.dtype == np.float32 else np.uint64
    digests = np.empty(len(places), np.uint64)
    for start in range(0, len(places), CHUNK):
        part = places[start : start + CHUNK]
        digests[start : start + CHUNK] = item.exact[part].view(unsigned).astype(np.uint64) @ factors[:-1]
        if bias is not None:
            digests[start : start + CHUNK] += bias[part].view(np.uint64) * factors[-1]
    return digests


def _are_alike(item: Side, bias: Doubles | None, left: Ints, right: Ints) -> NDArray[np.bool_]:
    """Return whether items are equal in all coordinates and in the bias."""
    alike = np.ones(len(left), np.bool_)
    for start in range(0, len(left), CHUNK):
        part = slice(start, start + CHUNK)
        alike[part] = (item.exact[left[part]] == item.exact[right[part]]).all(axis=1)
    return alike if bias is None else alike & (bias[left] == bias[right])
