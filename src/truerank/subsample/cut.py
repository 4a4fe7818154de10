"""The score from which on each group's events are kept."""

from __future__ import annotations

import itertools

import numpy as np

from truerank.core.threads import available_threads, ordered_map
from truerank.core.types import AnyArray, IntArray, frozen
from truerank.subsample.key import Keys, chunks

COMPILED_FROM = 1 << 16  # events; below, NumPy is done before compiled code is loaded
_SIGN = np.uint64(1 << 63)


def ordered_bits(scores: AnyArray) -> Keys:
    """Return 64-bit words that stand in the order of the scores, equal where they are equal.

    Examples
    --------
    >>> bits = ordered_bits(np.array([-1.5, -0.0, 0.0, 2.5]))
    >>> bool(bits[0] < bits[1]), bool(bits[1] == bits[2]), bool(bits[2] < bits[3])
    (True, True, True)
    """
    if scores.dtype == np.uint64:
        return scores
    bits = np.empty(len(scores), dtype=np.uint64)
    for block in chunks(len(scores)):
        if scores.dtype.kind == "f":
            words = (scores[block].astype(np.float64) + 0.0).view(np.uint64)  # -0.0 becomes 0.0
            bits[block] = np.where(words >= _SIGN, ~words, words | _SIGN)
        else:
            bits[block] = scores[block].astype(np.int64).view(np.uint64) ^ _SIGN
    return bits


def cuts_of(group: IntArray, quota: IntArray, bits: Keys) -> Keys:
    """Return the ``quota[g]``-th largest word of each group g, 0 where the quota is 0."""
    if len(group) < COMPILED_FROM:
        return _numpy_cuts(group, quota, bits)
    return _compiled_cuts(group, quota, bits)


def _numpy_cuts(group: IntArray, quota: IntArray, bits: Keys) -> Keys:
    ends = np.cumsum(np.bincount(group, minlength=len(quota)))
    ordered = bits[np.lexsort((bits, group))]
    cuts = np.zeros(len(quota), dtype=np.uint64)
    asked = quota > 0
    cuts[asked] = ordered[(ends - quota)[asked]]
    return cuts


def _compiled_cuts(group: IntArray, quota: IntArray, bits: Keys) -> Keys:
    from truerank.subsample.kernels.cut import cut_groups, list_rows

    n_groups = len(quota)
    codes = frozen(group.astype(np.int32, copy=False))
    indptr = np.zeros(n_groups + 1, dtype=np.int64)
    for block in chunks(len(group)):
        indptr[1:] += np.bincount(group[block], minlength=n_groups)
    np.cumsum(indptr, out=indptr)
    rows: IntArray = np.empty(len(group), dtype=np.int32 if len(group) < 1 << 31 else np.int64)
    list_rows(codes, indptr[:-1].copy(), rows)
    cuts = np.zeros(n_groups, dtype=np.uint64)
    words, asked = frozen(bits), frozen(quota.astype(np.int64, copy=False))
    n_threads = available_threads()
    starts = np.searchsorted(indptr, np.linspace(0, len(group), 8 * n_threads + 1)).tolist()
    starts[0], starts[-1] = 0, n_groups
    spans = list(itertools.pairwise(starts))
    for _ in ordered_map(
        lambda span: cut_groups(indptr, rows, words, asked, *span, cuts), spans, n_threads=n_threads
    ):
        pass
    return cuts
