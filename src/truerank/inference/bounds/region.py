"""Confidence region of a rank distribution: simultaneous limits for probabilities of sampled-rank events.

The events are that at most a given fraction of the sampled items rank above the target, and that a fraction
between two consecutive ones does. Targets are independent but have different ranks, so limits are for mean
probabilities over targets. Targets are grouped by what the law of their sampled rank depends on; each group
may have a rank distribution of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from scipy.special import betaincinv, xlogy

from truerank.core.errors import CannotEstimate, InvalidData, check_level
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.estimation.tally import Contexts, Tally

Method: TypeAlias = Literal["binomial", "chernoff", "dkw"]
_HALVINGS = 60


@dataclass(frozen=True, eq=False)
class ConfidenceRegion:
    """Simultaneous confidence limits for the mean probabilities of all events.

    Parameters
    ----------
    low, high : (n_events,) limits
    level : probability, at least, that all mean probabilities lie within their limits
    method : how the limits were made
    """

    low: FloatArray
    high: FloatArray
    level: float
    method: Method


def make_region(frequency: FloatArray, n: int, *, level: float, method: Method) -> ConfidenceRegion:
    r"""Return limits of :math:`\bar p_e = \frac1n \sum_i p_{ie}` for all events e, from observed frequencies.

    Each of n independent rows has its own probabilities. ``binomial`` and ``chernoff`` split 1 - level evenly
    over the limits of all events (Bonferroni), ``dkw`` uses one half-width for all.

    Parameters
    ----------
    frequency : (n_events,) means over rows of indicators, or of numbers within [0, 1]
    n : rows
    level : simultaneous confidence
    method : ``binomial`` for indicators; ``chernoff`` for any numbers within [0, 1]; ``dkw`` for nested
        events, those that a number stays below a threshold

    Notes
    -----
    *binomial.* The number of times an event occurs is a sum of independent indicators with different
    probabilities, whose law is not binomial. By Hoeffding's theorem 4 its probability of reaching s is at
    most the binomial one of the same mean, provided that :math:`s \ge n \bar p + 1`; likewise below. Clopper
    and Pearson's limits :math:`c_-(s), c_+(s)` are hence valid at every level when widened to
    :math:`\min(c_-, (s-1)/n)` and :math:`\max(c_+, (s+1)/n)`: a limit is then missed only by an s to which
    the theorem applies. The change matters for s = 1 and s = n - 1 alone.

    *chernoff.* :math:`\Pr(S \ge n x) \le \exp(-n \, \mathrm{KL}(x, \bar p))` for :math:`x \ge \bar p` holds
    for sums of independent numbers within [0, 1] (Hoeffding 1963), such as the means of users with several
    targets.

    *dkw.* Half-width :math:`\sqrt{(1 + \log(2/\alpha))/2n}`; Massart's constant 2 needs identically
    distributed rows, Bretagnolle's 2e does not.
    """
    check_level(level)
    frequency = np.clip(np.asarray(frequency, dtype=np.float64), 0.0, 1.0)
    if method == "dkw":
        half = np.sqrt((1 + np.log(2 / (1 - level))) / (2 * n))
        return ConfidenceRegion(
            np.maximum(frequency - half, 0.0), np.minimum(frequency + half, 1.0), level, method
        )
    alpha = (1 - level) / (2 * len(frequency))
    limits = binomial_limits if method == "binomial" else chernoff_limits
    low, high = limits(frequency, n, alpha)
    return ConfidenceRegion(low, high, level, method)


def binomial_limits(frequency: FloatArray, n: int, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper limits of mean probabilities, each wrong with probability at most ``alpha``.

    Examples
    --------
    >>> low, high = binomial_limits(np.array([0.0, 0.01, 0.5]), 100, 0.025)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.0, 0.3983], [0.0362, 0.0545, 0.6017])
    """
    count: IntArray = np.rint(np.asarray(frequency) * n).astype(np.int64)
    low = np.where(count > 0, betaincinv(np.maximum(count, 1), n - count + 1, alpha), 0.0)
    high = np.where(count < n, betaincinv(count + 1, np.maximum(n - count, 1), 1 - alpha), 1.0)
    low = np.clip(np.minimum(low, (count - 1) / n), 0.0, 1.0)
    return low, np.clip(np.maximum(high, (count + 1) / n), 0.0, 1.0)


def chernoff_limits(frequency: FloatArray, n: int, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return limits of the means of numbers within [0, 1], each wrong with probability at most ``alpha``.

    Examples
    --------
    >>> low, high = chernoff_limits(np.array([0.0, 0.5]), 100, 0.025)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.3667], [0.0362, 0.6333])
    """
    largest = -np.log(alpha) / n
    frequency = np.asarray(frequency, dtype=np.float64)
    limits = []
    for extreme in (0.0, 1.0):
        inside, outside = frequency.copy(), np.full_like(frequency, extreme)
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            is_inside = _divergence(frequency, middle) <= largest
            inside, outside = np.where(is_inside, middle, inside), np.where(is_inside, outside, middle)
        limits.append(outside)
    return limits[0], limits[1]


def _divergence(x: FloatArray, p: FloatArray) -> FloatArray:
    """Return the Kullback-Leibler divergence KL(x, p) of two Bernoulli laws."""
    with np.errstate(divide="ignore", invalid="ignore"):
        divergence: FloatArray = xlogy(x, x / p) + xlogy(1 - x, (1 - x) / (1 - p))
    return np.where((p <= 0) & (x > 0) | (p >= 1) & (x < 1), np.inf, np.where(x == p, 0.0, divergence))


_SINGLES = 3  # thresholds k = 0, 1, 2 are all used
_RATIO = 1.25  # of consecutive thresholds from there on


@dataclass(frozen=True, eq=False)
class SampledRankEvents:
    """Events that the sampled rank is below a threshold, and that it lies between two consecutive ones.

    With j of m sampled items above the target, the sampled rank is below threshold k of a largest sample of M
    items if (2 j + 1)/(m + 1) <= (2 k + 1)/(M + 1). The thresholds depend on M alone, never on the outcomes,
    so that Bonferroni's correction applies. The program weighs sampled ranks near the top with alternating
    signs. Written with thresholds alone, such weights take large multiples of frequent events, whose limits
    are wide; events between thresholds are rarer and have narrower limits.

    Parameters
    ----------
    largest : M, the largest number of negatives
    n_above : (n_thresholds,) thresholds k, ascending

    Examples
    --------
    >>> make_events(99).n_above.tolist()
    [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 19, 24, 30, 38, 48, 60, 75, 94]
    >>> events = make_events(4)  # j = 0, j <= 1, j <= 2, j <= 3, then j = 1, j = 2, j = 3
    >>> events.indicators(np.array([4, 4, 1]), np.array([0, 2, 0])).astype(int).tolist()
    [[1, 1, 1, 1, 0, 0, 0], [0, 0, 1, 1, 0, 1, 0], [0, 1, 1, 1, 1, 0, 0]]
    """

    largest: int
    n_above: IntArray

    def __len__(self) -> int:
        return 2 * len(self.n_above) - 1

    def indicators(self, n_negatives: IntArray, n_above: IntArray) -> BoolArray:
        """Return whether each outcome (m, j) is in each event, (n_outcomes, n_events)."""
        scaled = (2 * np.asarray(n_above) + 1)[:, None] * (self.largest + 1)
        is_below = scaled <= (2 * self.n_above + 1) * (np.asarray(n_negatives) + 1)[:, None]
        return np.hstack([is_below, is_below[:, 1:] & ~is_below[:, :-1]])


def make_events(largest: int) -> SampledRankEvents:
    """Return the events for samples of at most ``largest`` negatives."""
    thresholds, k = [], 0
    while k < largest:
        thresholds.append(k)
        k = max(k + 1, round(k * _RATIO)) if k >= _SINGLES else k + 1
    return SampledRankEvents(largest, np.array(thresholds, dtype=np.int64))


def observed_region(
    tally: Tally, is_used: BoolArray, events: SampledRankEvents, *, level: float
) -> tuple[ConfidenceRegion, int]:
    """Return the confidence region that a sample gives, and the number of users it is based on.

    Each user contributes the mean of the indicators over its targets. With one untied target per user these
    are indicators again, and the limits are binomial; otherwise numbers within [0, 1], which are independent
    between users however a user's targets depend on each other.

    Parameters
    ----------
    tally : counts of the sampled ranks
    is_used : (n_contexts,) the contexts that enter
    events, level : of the region
    """
    entries = np.flatnonzero(is_used[tally.context])
    context = tally.context[entries]
    above = tally.cell[entries] - tally.offsets[context]
    weight = tally.weight[entries] / tally.contexts.n_relevant[context]
    users, user = np.unique(tally.user[entries], return_inverse=True)
    if (np.bincount(user, weight) > 1 + 1e-9).any():
        raise InvalidData(
            "n_relevant must be at least the number of rows of a user, but some user has more rows. "
            "Correct n_relevant, or remove duplicate rows."
        )
    is_single = len(users) == len(entries) and bool((weight == 1).all())
    is_in = events.indicators(tally.contexts.n_negatives[context], above)
    frequency: FloatArray = weight @ is_in / len(users)
    method: Method = "binomial" if is_single else "chernoff"
    return make_region(frequency, len(users), level=level, method=method), len(users)


_POOLS = 12  # most groups of pool sizes
_MOST = 240  # most groups in all
_NEAR = 0.02  # relative difference below which pool sizes share a group when there are many sizes
#: Ratios of numbers of relevant items that may share a group, tried in turn until there are few enough.
_RATIOS = (1.1, 1.2, 1.4, 2.0, 4.0, 16.0)


def group_contexts(contexts: Contexts, *, by_sample: bool) -> tuple[IntArray, IntArray]:
    """Return the group of each context and the kind of each group, both numbered from 0.

    Targets in a group have pools of similar size, samples of the same size (unless the size itself is an
    outcome), and similar numbers of relevant items, in all and above the target. What differs within a group
    widens the bounds; it is not ignored. Groups of one kind differ only in the sizes of pools and samples.

    Parameters
    ----------
    contexts : distinct situations of targets
    by_sample : whether samples of different size are in different groups

    Raises
    ------
    CannotEstimate
        When there are more than 240 sizes of samples.
    """
    sample = contexts.n_negatives if by_sample else np.zeros(len(contexts), dtype=np.int64)
    for n_pools, ratio in (
        (_POOLS, 1.0),
        (_POOLS // 3, 1.0),
        *((_POOLS // 3, r) for r in _RATIOS),
        (1, np.inf),
    ):
        kind = [_merged(values, ratio) for values in (contexts.n_relevant, contexts.n_relevant_above)]
        if contexts.weights is not None:
            kind += [_merged_weights(column, ratio) for column in contexts.weights.T]
        label = np.stack([sample, _pools(contexts.n_candidates, n_pools), *kind], axis=1)
        distinct, which = np.unique(label, axis=0, return_inverse=True)
        if len(distinct) <= _MOST:
            return which.ravel(), np.unique(distinct[:, 2:], axis=0, return_inverse=True)[1].ravel()
    raise CannotEstimate(
        f"bounds need at most {_MOST} different numbers of negatives, got {len(np.unique(sample))}. "
        f"Sample the same number for all targets."
    )


def _pools(sizes: IntArray, most: int) -> IntArray:
    """Return the group of each pool size: one per size when they are few, else logarithmic bins."""
    distinct = np.unique(sizes)
    if len(distinct) <= most:
        return np.searchsorted(distinct, sizes)
    span = np.log((distinct[-1] + 1) / distinct[0])
    count = int(min(most, np.ceil(span / _NEAR)))
    edges = np.geomspace(distinct[0], distinct[-1] + 1, count + 1)
    return np.searchsorted(edges[1:-1], sizes, side="right")


def _merged_weights(weights: FloatArray, ratio: float) -> IntArray:
    """Return a label for each weight that weights within a ratio of each other share."""
    if ratio == 1.0:
        return np.unique(weights, return_inverse=True)[1].ravel()
    labels: IntArray = np.floor(np.log(np.maximum(weights, 1e-300)) / np.log(ratio)).astype(np.int64)
    return labels


def _merged(values: IntArray, ratio: float) -> IntArray:
    """Return a label for each number >= 0 that numbers within a ratio of each other share."""
    if ratio == 1.0:
        return values
    merged: IntArray = np.floor(np.log1p(values) / np.log(ratio)).astype(np.int64)
    return merged
