"""Negatives of one row in plain NumPy: small inputs, and rows for which rejection would be slow.

Rejection draws from all items and passes over those that are blocked or already taken. Where few items are
left, the candidates are written out instead: a key per candidate, the smallest keys are the sample.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from truerank.core.types import FloatArray, IntArray
from truerank.ranks.draw.word import Words, bounded, shortened, words

Proposal = Callable[[Words], IntArray]


def uniform_proposal(n_items: int) -> Proposal:
    """Return the map from words to items that are all equally likely."""
    return lambda word: bounded(word, n_items).astype(np.int64)


def weighted_proposal(cumulated: IntArray) -> Proposal:
    """Return the map from words to items as likely as their integer weights, given their running sums."""

    def propose(word: Words) -> IntArray:
        place = shortened(word, int(cumulated[-1])).astype(np.int64)
        return np.searchsorted(cumulated, place, side="right")

    return propose


def reject(
    state: np.uint64, propose: Proposal, m: int, *, replacement: bool, blocked: IntArray, n_items: int
) -> IntArray:
    """Return the first m proposals that are not blocked (and, without replacement, not repeated)."""
    is_blocked = np.zeros(n_items, np.bool_)
    is_blocked[blocked] = True
    n_words = m + 16
    while True:
        items = propose(words(state, 0, n_words))
        items = items[~is_blocked[items]]
        if not replacement:
            items = items[np.sort(np.unique(items, return_index=True)[1])]
        if len(items) >= m:
            return items[:m]
        n_words *= 2


def pick(state: np.uint64, propose: Proposal, m: int, candidates: IntArray) -> IntArray:
    """Return m candidates drawn with replacement; ``propose`` maps words to positions among them."""
    n_words = m + 16
    while len(places := propose(words(state, 0, n_words))) < m:
        n_words *= 2
    return candidates[places[:m]]


def select(state: np.uint64, m: int, candidates: IntArray, weights: FloatArray | None = None) -> IntArray:
    """Return m distinct candidates, in ascending order: those with the smallest keys.

    Without weights keys are random words, so all subsets are equally likely. With weights w they are
    exponential with rate w: the order of the keys is that of drawing one after another in proportion to w.
    """
    if m == len(candidates):
        return candidates
    word = words(state, 0, len(candidates))
    if weights is None:
        order = np.argsort(word, kind="stable")
    else:
        uniform = ((word >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
        order = np.argsort(-np.log(uniform) / weights, kind="stable")
    return candidates[np.sort(order[:m])]
