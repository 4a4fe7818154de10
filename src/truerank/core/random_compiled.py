"""SplitMix64 in compiled code, with the bits of ``core.random``; imported by compiled modules alone.

Word j of a state is the finaliser applied to state + (j + 1) GOLDEN, so that any word can be computed without
those before it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.core.jit import compiled, inlined
from truerank.core.random import GOLDEN, MIX_1, MIX_2


@inlined
def mix64(state: Any) -> Any:
    """Return the 64 random bits of a state (the finaliser of SplitMix64)."""
    state = (state ^ (state >> np.uint64(30))) * MIX_1
    state = (state ^ (state >> np.uint64(27))) * MIX_2
    return state ^ (state >> np.uint64(31))


@compiled
def next_word(state: Any) -> np.uint64:
    """Move a state, an array of one word, on by one and return its 64 random bits."""
    state[0] += GOLDEN
    return np.uint64(mix64(state[0]))
