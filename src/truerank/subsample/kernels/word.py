"""Random words inside compiled loops."""

from __future__ import annotations

import numpy as np

from truerank.core.jit import compiled
from truerank.core.types import IntArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


@compiled
def next_word(state: IntArray) -> np.uint64:
    """Return the next 64 random bits of SplitMix64; ``state`` is its one word."""
    state[0] += _GOLDEN
    word = (state[0] ^ (state[0] >> np.uint64(30))) * _MIX_1
    word = (word ^ (word >> np.uint64(27))) * _MIX_2
    return np.uint64(word ^ (word >> np.uint64(31)))


@compiled
def uniform(state: IntArray) -> float:
    """Return a number in [0, 1), a multiple of 2**-53."""
    return float(next_word(state) >> np.uint64(11)) * 2.0**-53


@compiled
def below(state: IntArray, n: int) -> int:
    """Return an integer in 0..n-1, all equally likely; n is at most 2**32.

    The upper half of a word is scaled to n and drawn again where it would favour a number.
    """
    size = np.uint64(n)
    product = (next_word(state) >> _HALF) * size
    if (product & _LOW) < size:
        least = (np.uint64(1 << 32) - size) % size
        while (product & _LOW) < least:
            product = (next_word(state) >> _HALF) * size
    return int(product >> _HALF)
