"""A'DA from marginals: the normal matrix of n = m + 1 sampled ranks without the N x n law."""

from __future__ import annotations

import numpy as np

from truerank.core.blas import single_threaded_blas
from truerank.core.threads import available_threads, ordered_map
from truerank.core.types import FloatArray
from truerank.estimators.kernels.row import add_split
from truerank.estimators.law import Binomial, Hypergeometric, Law, odds_of

_BLOCK = 1 << 17  # entries of the law a thread holds at once: 1 MB


def gram_matrix(law: Law, prior: FloatArray, floor: float) -> FloatArray:
    """Return A'DA by the cheapest of the ways below, (m + 1, m + 1).

    Parameters
    ----------
    law : P(j | J)
    prior : (L + 1,) weights of J = 0..L
    floor : terms of a row below this, relative to its largest, are left out
    """
    if isinstance(law, Binomial):
        return hankel_gram(law, prior, floor)
    if isinstance(law, Hypergeometric) and is_overlap_cheaper(law):
        return overlap_gram(law, prior, floor)
    return blocked_gram(law, prior, floor)


def hankel_gram(law: Binomial, prior: FloatArray, floor: float) -> FloatArray:
    r"""Return A'DA with replacement, in O(N sqrt(m) + m^1.5) time and O(m^2) memory.

    Two samples of size m are one of size 2m that was split, so with c2 the marginal of 2m draws

    .. math:: (A'DA)_{rs} = \binom{m}{r} \binom{m}{s} \Big/ \binom{2m}{r+s} \; c2_{r+s}

    for r, s counted from 0: a Hankel matrix, scaled. The factor is itself hypergeometric: which r of r + s
    items above the target fall into the first half.
    """
    m = law.n_negatives
    double = Binomial(law.n_candidates, 2 * m).add(prior[None, :], floor=floor)
    gram = np.zeros((m + 1, m + 1))
    add_split(double, odds_of(m), floor, gram)
    return gram


def overlap_gram(law: Hypergeometric, prior: FloatArray, floor: float) -> FloatArray:
    r"""Return A'DA without replacement from marginals alone.

    Two independent samples of size m share o items, o being hypergeometric itself; together they are one
    sample of size 2m - o. Of its t items above the target v are shared ones and the others fall into the two
    halves at random:

    .. math:: (A'DA)_{rs} = \sum_o P(o) \sum_v c_{2m-o}[t] \; P(v \mid t, o) \,
              \binom{k}{r-v} \binom{k}{s-v} \Big/ \binom{2k}{t-v}, \qquad k = m - o, \; t = r + s - v.

    Marginals of smaller samples follow from the largest by leaving out one item at a time. The cost grows
    with the number of probable overlaps, so this pays where m^2 is not much more than L.
    """
    m, size = law.n_negatives, law.n_candidates
    chance = law.pmf(m)
    overlaps = np.flatnonzero(chance > floor * chance.max())
    largest = min(2 * m, size)
    counts = Hypergeometric(size, largest).add(prior[None, :], floor=floor)[0]
    marginals = {}
    for union in range(largest, 2 * m - int(overlaps[-1]) - 1, -1):
        marginals[union] = counts
        t = np.arange(union)
        counts = (counts[:-1] * (union - t) + counts[1:] * (t + 1)) / union

    def part(o: int) -> FloatArray:
        joint = chance[o] * _joint(marginals[2 * m - o], o, m - o)
        gram = np.zeros((m + 1, m + 1))
        add_split(joint, odds_of(m - o), floor, gram)
        return gram

    total = np.zeros((m + 1, m + 1))
    for added in ordered_map(part, overlaps.tolist(), n_threads=available_threads()):
        total += added
    return total


def _joint(marginal: FloatArray, o: int, k: int) -> FloatArray:
    """Return the probability of v shared and t - v other items above, (o + 1, 2k + 1), from that of t."""
    if o == 0:
        return marginal[None, :]
    shared = Hypergeometric(2 * k + o, o).pmf(np.arange(2 * k + o + 1))
    return np.stack([marginal[v : v + 2 * k + 1] * shared[v : v + 2 * k + 1, v] for v in range(o + 1)])


def blocked_gram(law: Law, prior: FloatArray, floor: float) -> FloatArray:
    """Return A'DA under any law from blocks of rows; O(N w^2) with w the terms of a row, O(m^2) memory."""
    m = law.n_negatives
    step = max(_BLOCK // (m + 1), 1)

    def part(start: int) -> tuple[slice, FloatArray]:
        weights = prior[start : start + step]
        rows = law.rows(start, start + len(weights), floor=floor)
        # both ends of what a row holds only grow with J
        columns = slice(int(np.argmax(rows[0] > 0)), m + 1 - int(np.argmax(rows[-1, ::-1] > 0)))
        root = np.ascontiguousarray(rows[:, columns]) * np.sqrt(weights)[:, None]
        return columns, root.T @ root

    gram = np.zeros((m + 1, m + 1))
    with single_threaded_blas():
        for columns, added in ordered_map(part, range(0, len(prior), step), n_threads=available_threads()):
            gram[columns, columns] += added
    return gram


def is_overlap_cheaper(law: Hypergeometric) -> bool:
    """Whether the overlaps of two samples are few against the rows of the law."""
    m, size = law.n_negatives, law.n_candidates
    width = min(m + 1.0, 8 * np.sqrt(m))
    mean = m * m / size
    n_overlaps = min(m + 1.0, 16 + 10 * np.sqrt(mean))
    return bool(n_overlaps * (mean + n_overlaps) * m * width * 13 < size * width * width)
