"""Confidence limits of mean chances, for rows that are independent but not alike.

Events whose frequencies bound a rank distribution: a target is among the best of its sample.

Groups of targets that are free to have rank distributions of their own.
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
    """Limits within which the mean chances of all events lie at once.

    Parameters
    ----------
    low, high : (n_events,)
    level : probability, at least, that none of them is missed
    method : how they were made
    """

    low: FloatArray
    high: FloatArray
    level: float
    method: Method


def make_region(share: FloatArray, n: int, *, level: float, method: Method) -> ConfidenceRegion:
    r"""Return limits of :math:`\bar p_e = \frac1n \sum_i p_{ie}` for all events e, from the shares seen.

    Each of n independent rows has its own chances. ``binomial`` and ``chernoff`` split what the level leaves
    evenly over the ends of all events (Bonferroni), ``dkw`` takes one distance for all.

    Parameters
    ----------
    share : (n_events,) means over rows of numbers within [0, 1]
    n : rows
    level : simultaneous confidence
    method : ``binomial`` for events that happen or not; ``chernoff`` for any numbers within [0, 1];
        ``dkw`` for nested events, those that a number stays below a limit

    Notes
    -----
    *binomial.* The number of events is a sum of independent indicators, whose law is not binomial. By
    Hoeffding's theorem 4 its chance to reach s is at most the binomial one of the same mean, provided that
    :math:`s \ge n \bar p + 1`; likewise below. Clopper and Pearson's limits :math:`c_-(s), c_+(s)` hence hold
    at every level when drawn out to :math:`\min(c_-, (s-1)/n)` and :math:`\max(c_+, (s+1)/n)`: a limit is
    then missed only by an s for which the theorem speaks. The change matters for s = 1 and s = n - 1 alone.

    *chernoff.* :math:`\Pr(S \ge n x) \le \exp(-n \, \mathrm{KL}(x, \bar p))` for :math:`x \ge \bar p` holds
    for sums of independent numbers within [0, 1] (Hoeffding 1963), users with several targets among them.

    *dkw.* Half-width :math:`\sqrt{(1 + \log(2/\alpha))/2n}`; Massart's constant 2 needs rows that are alike,
    Bretagnolle's 2e does not.
    """
    check_level(level)
    share = np.clip(np.asarray(share, dtype=np.float64), 0.0, 1.0)
    if method == "dkw":
        half = np.sqrt((1 + np.log(2 / (1 - level))) / (2 * n))
        return ConfidenceRegion(np.maximum(share - half, 0.0), np.minimum(share + half, 1.0), level, method)
    alpha = (1 - level) / (2 * len(share))
    limits = binomial_limits if method == "binomial" else chernoff_limits
    low, high = limits(share, n, alpha)
    return ConfidenceRegion(low, high, level, method)


def binomial_limits(share: FloatArray, n: int, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return limits, each missed with at most ``alpha``, of mean chances of which a share was seen.

    Examples
    --------
    >>> low, high = binomial_limits(np.array([0.0, 0.01, 0.5]), 100, 0.025)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.0, 0.3983], [0.0362, 0.0545, 0.6017])
    """
    count: IntArray = np.rint(np.asarray(share) * n).astype(np.int64)
    low = np.where(count > 0, betaincinv(np.maximum(count, 1), n - count + 1, alpha), 0.0)
    high = np.where(count < n, betaincinv(count + 1, np.maximum(n - count, 1), 1 - alpha), 1.0)
    low = np.clip(np.minimum(low, (count - 1) / n), 0.0, 1.0)
    return low, np.clip(np.maximum(high, (count + 1) / n), 0.0, 1.0)


def chernoff_limits(share: FloatArray, n: int, alpha: float) -> tuple[FloatArray, FloatArray]:
    """Return limits, each missed with at most ``alpha``, of the means of numbers within [0, 1].

    Examples
    --------
    >>> low, high = chernoff_limits(np.array([0.0, 0.5]), 100, 0.025)
    >>> low.round(4).tolist(), high.round(4).tolist()
    ([0.0, 0.3667], [0.0362, 0.6333])
    """
    most = -np.log(alpha) / n
    share = np.asarray(share, dtype=np.float64)
    ends = []
    for end in (0.0, 1.0):
        inside, outside = share.copy(), np.full_like(share, end)
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            is_in = _divergence(share, middle) <= most
            inside, outside = np.where(is_in, middle, inside), np.where(is_in, outside, middle)
        ends.append(outside)
    return ends[0], ends[1]


def _divergence(x: FloatArray, p: FloatArray) -> FloatArray:
    with np.errstate(divide="ignore", invalid="ignore"):
        found: FloatArray = xlogy(x, x / p) + xlogy(1 - x, (1 - x) / (1 - p))
    return np.where((p <= 0) & (x > 0) | (p >= 1) & (x < 1), np.inf, np.where(x == p, 0.0, found))


_SINGLES = 3  # events k = 0 .. 2 one by one
_RATIO = 1.25  # then each k is so much larger than the one before


@dataclass(frozen=True, eq=False)
class ThresholdEvents:
    """At most a certain share of the sampled items stand above the target: (2 j + 1)/(m + 1) is small.

    Chosen from the largest sample alone, never from what was seen, so the limits hold for them all.

    Parameters
    ----------
    largest : the largest m
    n_above : (n_events,) ascending; of the largest sample at most so many stand above

    Examples
    --------
    >>> make_events(99).n_above.tolist()
    [0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 19, 24, 30, 38, 48, 60, 75, 94]
    >>> make_events(99).happen(np.array([99, 9]), np.array([4, 0])).astype(int)[:, :6].tolist()
    [[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 1]]
    """

    largest: int
    n_above: IntArray

    def __len__(self) -> int:
        return len(self.n_above)

    def happen(self, n_negatives: IntArray, n_above: IntArray) -> BoolArray:
        """Return which events each outcome (m, j) fulfils, (n_outcomes, n_events)."""
        own = (2 * np.asarray(n_above) + 1)[:, None] * (self.largest + 1)
        found: BoolArray = own <= (2 * self.n_above + 1) * (np.asarray(n_negatives) + 1)[:, None]
        return found


def make_events(largest: int) -> ThresholdEvents:
    """Return the events for samples of at most ``largest`` negatives."""
    found, k = [], 0
    while k < largest:
        found.append(k)
        k = max(k + 1, round(k * _RATIO)) if k >= _SINGLES else k + 1
    return ThresholdEvents(largest, np.array(found, dtype=np.int64))


def observed_region(
    tally: Tally, is_used: BoolArray, events: ThresholdEvents, *, level: float
) -> tuple[ConfidenceRegion, int]:
    """Return limits of the mean chances of the events over users, and the number of users.

    A user counts the mean over its targets. With one untied target each these are events, and the limits are
    binomial; otherwise numbers within [0, 1], which users make independently whatever a user's targets share.

    Parameters
    ----------
    tally : sampled ranks
    is_used : (n_contexts,) the contexts that take part
    events, level : what is looked at
    """
    entries = np.flatnonzero(is_used[tally.context])
    context = tally.context[entries]
    above = tally.cell[entries] - tally.offsets[context]
    weight = tally.weight[entries] / tally.contexts.n_relevant[context]
    users, user = np.unique(tally.user[entries], return_inverse=True)
    if (np.bincount(user, weight) > 1 + 1e-9).any():
        raise InvalidData(
            "n_relevant must be at least the number of rows of a user, but some user has more rows. "
            "Correct the table."
        )
    is_plain = len(users) == len(entries) and bool((weight == 1).all())
    seen = events.happen(tally.contexts.n_negatives[context], above)
    share: FloatArray = weight @ seen / len(users)
    method: Method = "binomial" if is_plain else "chernoff"
    return make_region(share, len(users), level=level, method=method), len(users)


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
