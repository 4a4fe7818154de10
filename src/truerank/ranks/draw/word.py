"""Random words: word j of a row is a pure function of the row's state and j.

SplitMix64 started at a state that is itself a hash of (seed, stage, user): word j mixes state + (j + 1) times
an odd constant. Words are cut into two numbers below 2^32, or shortened to the bits that are needed; both are
then accepted or rejected, so that what is accepted is uniform without any remainder.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


def words(state: np.uint64, start: int, stop: int) -> Words:
    """Return the words start..stop-1 of a state.

    Examples
    --------
    >>> all(words(np.uint64(7), 0, 5)[2:] == words(np.uint64(7), 2, 5))
    True
    """
    with np.errstate(over="ignore"):
        word: Words = state + np.arange(start + 1, stop + 1, dtype=np.uint64) * GOLDEN
        word = (word ^ (word >> np.uint64(30))) * MIX_1
        word = (word ^ (word >> np.uint64(27))) * MIX_2
        return word ^ (word >> np.uint64(31))


def bounded(word: Words, n: int) -> Words:
    """Return uniform integers below ``n`` (at most 2^31), two tries per word, rejected ones left out.

    A number x below 2^32 is mapped to the integer part of x n / 2^32. Each result has floor(2^32 / n) or one
    more numbers x mapped to it; where 2^32 times the fraction is below 2^32 mod n it is rejected.

    Examples
    --------
    >>> bounded(np.array([0x80000001_FFFFFFFF], np.uint64), 10).tolist()
    [5, 9]
    """
    halves = np.stack([word >> _HALF, word & _LOW], axis=1).ravel()
    scaled = halves * np.uint64(n)
    accepted: Words = (scaled >> _HALF)[(scaled & _LOW) >= np.uint64((1 << 32) % n)]
    return accepted


def shortened(word: Words, total: int) -> Words:
    """Return uniform integers below ``total`` (at most 2^63), one try per word, rejected ones left out."""
    short = word >> np.uint64(64 - shift_bits(total))
    accepted: Words = short[short < np.uint64(total)]
    return accepted


def shift_bits(total: int) -> int:
    """Return how many bits of a word hold every integer below ``total``, at least 1."""
    return max(1, (total - 1).bit_length())
