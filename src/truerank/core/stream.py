"""Randomness as a pure function of (seed, stage, user).

No global state and no shared generator: a draw depends on nothing but the seed, the name of the stage that
draws, and the user (or user-item pair) it is drawn for. Batch size, row order, threads and workers cannot
change it.
"""

from __future__ import annotations

import hashlib
import numbers

import numpy as np
from numpy.typing import NDArray

from truerank.core.errors import InvalidParameter
from truerank.core.types import IntArray

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


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


def pair_keys(seed: int, stage: str, user: IntArray, item: IntArray) -> NDArray[np.uint64]:
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
        state = _mix((np.asarray(user).astype(np.uint64) + np.uint64(1)) * _GOLDEN + first)
        state = _mix(state + (np.asarray(item).astype(np.uint64) + np.uint64(1)) * _GOLDEN)
        return _mix(state ^ second)


def _mix(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _MIX_1
    state = (state ^ (state >> np.uint64(27))) * _MIX_2
    return state ^ (state >> np.uint64(31))
