"""Groups of targets that are free to have rank distributions of their own."""

from __future__ import annotations

import numpy as np

from truerank.core.errors import CannotEstimate
from truerank.core.tally import Contexts
from truerank.core.types import IntArray

_POOLS = 12  # so many sizes of pools are told apart
_MOST = 240  # groups in all
_NEAR = 0.02  # pools that differ by less, relatively, are not told apart when there are many
_RATIOS = (
    1.1,
    1.2,
    1.4,
    2.0,
    4.0,
    16.0,
)  # by which numbers of targets may differ within a group, tried in turn


def group_contexts(contexts: Contexts, *, by_sample: bool) -> tuple[IntArray, IntArray]:
    """Return the group of each context and the kind of each group, both from 0.

    Targets in a group have pools of similar size, samples of the same size (unless the size itself is an
    outcome), and similar numbers of targets beside and above them. Whatever differs within a group widens the
    limits: it is not assumed away. Groups of one kind differ in the sizes of pools and samples alone.

    Parameters
    ----------
    contexts : situations of targets
    by_sample : whether the size of the sample tells groups apart

    Raises
    ------
    CannotEstimate
        When there are too many sizes of samples.
    """
    sample = contexts.n_negatives if by_sample else np.zeros(len(contexts), dtype=np.int64)
    for n_pools, ratio in (
        (_POOLS, 1.0),
        (_POOLS // 3, 1.0),
        *((_POOLS // 3, r) for r in _RATIOS),
        (1, np.inf),
    ):
        kind = [_merged(values, ratio) for values in (contexts.n_relevant, contexts.n_relevant_above)]
        label = np.stack([sample, _pools(contexts.n_candidates, n_pools), *kind], axis=1)
        distinct, which = np.unique(label, axis=0, return_inverse=True)
        if len(distinct) <= _MOST:
            return which.ravel(), np.unique(distinct[:, 2:], axis=0, return_inverse=True)[1].ravel()
    raise CannotEstimate(
        f"bounds can tell at most {_MOST} sizes of samples apart, got {len(np.unique(sample))}. "
        f"Use samples of one size."
    )


def _pools(sizes: IntArray, most: int) -> IntArray:
    """Return the group of each size of pool: each its own when they are few, otherwise by nearness."""
    distinct = np.unique(sizes)
    if len(distinct) <= most:
        return np.searchsorted(distinct, sizes)
    span = np.log((distinct[-1] + 1) / distinct[0])
    count = int(min(most, np.ceil(span / _NEAR)))
    edges = np.geomspace(distinct[0], distinct[-1] + 1, count + 1)
    return np.searchsorted(edges[1:-1], sizes, side="right")


def _merged(values: IntArray, ratio: float) -> IntArray:
    """Return numbers >= 0 with those merged that differ by less than a ratio; small ones stay apart."""
    if ratio == 1.0:
        return values
    merged: IntArray = np.floor(np.log1p(values) / np.log(ratio)).astype(np.int64)
    return merged
