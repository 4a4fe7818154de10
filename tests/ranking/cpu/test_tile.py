"""Words of scores decide only what the scores decide, and are counted as plain NumPy counts them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from truerank.ranking.cpu.exact_compiled import address_of
from truerank.ranking.cpu.factors_compiled import set_words
from truerank.ranking.cpu.tile import count_words, word_of
from truerank.ranking.cpu.vectors import ITEMS, LANES

Array = np.ndarray[Any, Any]
WORDS = st.sampled_from([-32768, -32767, -2, -1, 0, 1, 2, 32766, 32767]) | st.integers(-32768, 32767)


def _counted(words: Array, may_stop: int, low: Array, limit: Array, counts: Array) -> Any:
    return count_words(
        address_of(words), low.shape[0], may_stop, address_of(low), address_of(limit), address_of(counts)
    )


def _words_of(scores: Array, scale: Array, out: Array) -> None:
    for at in range(scores.shape[0]):
        for lane in range(scores.shape[1]):
            out[at, lane] = word_of(scores[at, lane], scale[0, lane], scale[1, lane])


counted: Any = njit(_counted)
words_of: Any = njit(_words_of)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), n_thresholds=st.integers(1, 32), may_stop=st.booleans())
def test_words_are_counted_as_numpy_counts(data: st.DataObject, n_thresholds: int, may_stop: bool) -> None:
    """Extreme words too, whose difference does not fit 16 bits; bands of every width."""
    stream = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    some = np.array(data.draw(st.lists(WORDS, min_size=1, max_size=12)))
    words = stream.choice(some, (ITEMS, LANES)).astype(np.int16)
    low = stream.choice(some, (n_thresholds, LANES)).astype(np.int16)
    low = np.sort(low, axis=0) if may_stop else low
    band = stream.choice([0, 1, 3, 40, 0x7FFF, 0x8000], low.shape)
    before = stream.integers(0, 1000, low.shape).astype(np.int16)
    counts = before.copy()
    flags = counted(words, int(may_stop), low, (0xFFFF - band).astype(np.uint16), counts)
    excess = words.astype(int)[None] - low.astype(int)[:, None]
    assert (counts - before == (excess > 0).sum(axis=1)).all()
    # A difference beyond 16 bits is taken for 2^15, which only a band of 2^15 words holds.
    is_close = ((excess > 0) & (np.minimum(excess, 0x8000) <= band[:, None])).any(axis=(1, 2))
    assert [flags >> t & 1 for t in range(n_thresholds)] == is_close.tolist()


@pytest.mark.parametrize("spread", [0.0, 1e-7, 1e-3])
@pytest.mark.parametrize("n_targets", [1, 16])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_words_decide_as_scores_do(spread: float, n_targets: int, size: float) -> None:
    """No score up to the end of a bracket is counted as above it, none from its beginning on as below."""
    draw = np.random.default_rng(n_targets)
    middle = np.sort(draw.standard_normal((n_targets, LANES)) * size, axis=0)
    width = np.abs(middle) * 1e-7
    low, high = (middle - width).astype(np.float32), (middle + width).astype(np.float32)
    low[n_targets // 2 + 1 :, 3] = high[n_targets // 2 + 1 :, 3] = np.inf
    spreads = np.full(LANES, spread * size, np.float32)
    reach = np.full(LANES, 4 * size, np.float32)
    scale = np.zeros((2, LANES), np.float32)
    word_low, word_limit = (
        np.zeros((2 * n_targets, LANES), np.int16),
        np.zeros((2 * n_targets, LANES), np.uint16),
    )
    one, zero = np.float32(1), np.float32(0)
    found = set_words(n_targets, one, one, zero, low, high, spreads, reach, scale, word_low, word_limit)
    assert found == n_targets
    ends = [low - spreads, high + spreads]
    near = [np.nextafter(end, np.float32(side)) for end in ends for side in (-np.inf, np.inf)]
    scores = np.concatenate([*ends, *near, draw.standard_normal((400, LANES)) * size]).astype(np.float32)
    scores = np.where(np.isfinite(scores), scores, np.float32(0))
    words = np.empty_like(scores)
    words_of(scores, scale, words)
    words = np.clip(np.trunc(words), -32768, 32767).astype(int)[None]
    first, band = word_low[:n_targets, None].astype(int), 0xFFFF - word_limit[:n_targets, None].astype(int)
    is_below, is_above = words <= first, words > first + band
    assert (scores[None] < ends[0][:, None])[is_below].all()
    assert (scores[None] > ends[1][:, None])[is_above].all()
    if spread < 1e-3:
        assert (is_below | is_above).mean() > 0.9
