"""What is remembered and what is let go."""

from __future__ import annotations

import numpy as np

from truerank.core.types import FloatArray
from truerank.estimation.corrections.base import ResultCache


def test_the_least_recently_used_goes_first() -> None:
    memory: ResultCache[FloatArray] = ResultCache(max_bytes=200)
    for key in "ab":
        memory.put(key, np.zeros(10))
    assert memory.find("a") is not None
    memory.put("c", np.zeros(10))
    assert memory.find("b") is None
    assert memory.find("a") is not None


def test_a_value_too_large_is_not_kept() -> None:
    memory: ResultCache[FloatArray] = ResultCache(max_bytes=8)
    assert len(memory.get("a", lambda: np.zeros(10))) == 10
    assert memory.find("a") is None


def test_a_new_value_replaces_the_old_one() -> None:
    memory: ResultCache[FloatArray] = ResultCache(max_bytes=100)
    for fill in (1.0, 2.0):
        memory.put("a", np.full(10, fill))
    assert memory.get("a", lambda: np.zeros(10))[0] == 2.0
