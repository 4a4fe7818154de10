"""Randomness as a pure function of (seed, stage, user) or (seed, stage, user, item).

No global state and no shared generator: a draw depends on nothing but the seed, the name of the stage that
samples, and the user (or user-item pair) it is sampled for. Batch size, row order, threads and workers cannot
change it. There are three forms: a NumPy generator per user (``stream``), one key per pair (``pair_keys``),
and the words of a row (``random_words``).

Words are those of SplitMix64 started at a state that is itself a hash of (seed, stage, user): word j mixes
state + (j + 1) times an odd constant. A word is cut into two numbers below 2^32, or shortened to the bits
that are needed; both are then accepted or rejected, so that what is accepted is exactly uniform.
"""

from __future__ import annotations

import hashlib
import numbers

import numpy as np
from numpy.typing import NDArray

from truerank.core.errors import InvalidParameter
from truerank.core.types import IntArray

Words = NDArray[np.uint64]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 divided by the golden ratio, as an odd number
MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
MIX_2 = np.uint64(0x94D049BB133111EB)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)


def check_seed(seed: object) -> int:
    """Return the seed if it is an integer in [0, 2**64)."""
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral) or not 0 <= int(seed) < 2**64:
        raise InvalidParameter(f"seed must be an integer in [0, 2**64), got {seed!r}. Use for example 0.")
    return int(seed)


def stage_key(seed: int, stage: str) -> tuple[int, int]:
    """Two 64-bit words that identify (seed, stage)."""
    digest = hashlib.blake2b(f"{check_seed(seed)}/{stage}".encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little")


def stream(seed: int, stage: str, user: int = 0) -> np.random.Generator:
    """Return the generator of one user in one stage.

    Examples
    --------
    >>> a, b = stream(0, "demo", 7), stream(0, "demo", 7)
    >>> bool(a.random() == b.random())
    True
    """
    key = np.array(stage_key(seed, stage), dtype=np.uint64)
    counter = np.array([0, 0, 0, user], dtype=np.uint64)  # 2**192 draws lie between two users
    return np.random.Generator(np.random.Philox(key=key, counter=counter))


def pair_keys(seed: int, stage: str, user: IntArray, item: IntArray) -> Words:
    """One 64-bit random key per (user, item) pair, vectorised.

    Sorting a user's items by key gives a uniformly random order that does not depend on the order of the
    rows; the same pair always gets the same key. ``user`` and ``item`` broadcast.

    Notes
    -----
    A counter-based generator: the finalizer of SplitMix64 applied three times, once each to absorb the
    stage key, the user and the item.
    """
    first, second = (np.uint64(word) for word in stage_key(seed, stage))
    with np.errstate(over="ignore"):
        state = _mix((np.asarray(user).astype(np.uint64) + np.uint64(1)) * GOLDEN + first)
        state = _mix(state + (np.asarray(item).astype(np.uint64) + np.uint64(1)) * GOLDEN)
        return _mix(state ^ second)


def _mix(state: Words) -> Words:
    """Return the 64 random bits of each state (the finaliser of SplitMix64)."""
    state = (state ^ (state >> np.uint64(30))) * MIX_1
    state = (state ^ (state >> np.uint64(27))) * MIX_2
    return state ^ (state >> np.uint64(31))


def random_words(state: np.uint64, start: int, stop: int) -> Words:
    """Return the words start..stop-1 of a state.

    Examples
    --------
    >>> all(random_words(np.uint64(7), 0, 5)[2:] == random_words(np.uint64(7), 2, 5))
    True
    """
    with np.errstate(over="ignore"):
        return _mix(state + np.arange(start + 1, stop + 1, dtype=np.uint64) * GOLDEN)


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


def uniform_from_words(word: Words, total: int) -> Words:
    """Return uniform integers below ``total`` (at most 2^63), one try per word, rejected ones left out."""
    short = word >> np.uint64(64 - shift_bits(total))
    accepted: Words = short[short < np.uint64(total)]
    return accepted


def shift_bits(total: int) -> int:
    """Return how many bits of a word hold every integer below ``total``, at least 1."""
    return max(1, (total - 1).bit_length())
