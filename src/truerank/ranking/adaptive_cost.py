"""Cost of adaptive samples: expected size, cost of each round, and the choice of the largest size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from truerank.core.errors import CannotEstimate, InvalidData, InvalidParameter
from truerank.core.ranks import RankDistribution, Ranks, SampledRanks, Stopping
from truerank.core.types import FloatArray, IntArray, frozen

Doubles = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CostCurve:
    r"""Scores per target that stopped, for each round of adaptive samples.

    .. math:: C_0 = \frac{M n_0}{m_0}, \quad C_j = \frac{(M - \sum_{p<j} m_p)(n_j - n_{j-1})}{m_j}

    Parameters
    ----------
    sizes : (t + 1,) n, the items in a sample after each round, the target counted
    n_entered : (t + 1,) targets that took part in a round
    n_stopped : (t + 1,) m, targets whose rank ended their sample in that round
    n_scores : (t + 1,) scores computed in a round, each target counted by itself

    Notes
    -----
    Implements Eq. (13) of [li2023]_. The last round has no cost: most samples that end there reached the
    largest size.

    Examples
    --------
    >>> curve = CostCurve.of_counts([100, 200, 400], [60, 10, 30])
    >>> curve.cost.round(1).tolist()
    [166.7, 400.0, nan]
    """

    sizes: IntArray
    n_entered: IntArray
    n_stopped: IntArray
    n_scores: IntArray

    @classmethod
    def of_counts(cls, sizes: list[int] | IntArray, counts: list[int] | IntArray) -> CostCurve:
        """Return the curve of ``counts[j]`` samples that ended with ``sizes[j]`` items, targets counted."""
        n, m = np.asarray(sizes), np.asarray(counts)
        if n.shape != m.shape or n.ndim != 1 or len(n) == 0 or (np.diff(n) <= 0).any() or (m < 0).any():
            raise InvalidData(
                "sizes must grow from round to round and each have a count >= 0, got "
                f"sizes {n.tolist()} and counts {m.tolist()}."
            )
        entered = m.sum() - np.cumsum(m) + m
        return cls(frozen(n), frozen(entered), frozen(m), frozen(entered * np.diff(n, prepend=0)))

    @property
    def cost(self) -> FloatArray:
        """C, scores per target that stopped; infinite where none stopped, NaN for the last round."""
        cost = np.full(len(self.sizes), np.inf)
        np.divide(self.n_scores, self.n_stopped, out=cost, where=self.n_stopped > 0)
        cost[-1] = np.nan
        return cost

    @property
    def mean_size(self) -> float:
        """The average size of a sample, the target counted."""
        return float(self.n_scores.sum() / self.n_entered[0])


def cost_curve(ranks: SampledRanks) -> CostCurve:
    """Return the cost of each round of adaptive samples.

    Samples that ended with the last candidate of their pool are not counted as stopped by their rank.

    Raises
    ------
    CannotEstimate
        When the samples are of fixed size.
    """
    stopping = ranks.design.stopping
    if stopping is None:
        raise CannotEstimate(
            "a cost curve needs adaptive samples, got samples of fixed size. Sample with adaptive."
        )
    if len(ranks) == 0:
        raise InvalidData("a cost curve needs at least one target, got none.")
    sizes = np.array(stopping.sizes)
    last = np.searchsorted(sizes, ranks.n_negatives)  # of a sample of all candidates: the round it was cut in
    is_stopped = ranks.n_above - ranks.n_relevant_above >= stopping.rank
    ended = np.bincount(last, minlength=len(sizes))
    stopped = np.bincount(last[is_stopped], minlength=len(sizes))
    entered = ended.sum() - np.cumsum(ended) + ended
    n_scores = entered * np.diff(sizes, prepend=-1)
    missing = np.bincount(last, sizes[last] - ranks.n_negatives, minlength=len(sizes))
    return CostCurve(
        frozen(sizes + 1), frozen(entered), frozen(stopped), frozen(n_scores - missing.astype(np.int64))
    )


def choose_ceiling(curve: CostCurve) -> int:
    """Return the size at the knee of a cost curve, for ``adaptive(max=...)``; the target is counted.

    The knee is the round where the logarithm of the size, scaled to 0..1 from the first to the last round
    with a cost, exceeds the cost, scaled likewise, by most. Rounds in which no target stopped are left out.
    Sample with a ``max`` near the catalogue first.

    Notes
    -----
    The paper reads its knee off a figure. As long as the same fraction of the targets stops in each round,
    the cost is proportional to the size, and then this knee of doubling sizes is a quarter of the last size
    with a cost, about an eighth of the catalogue, whatever the model: 3200 of 25,815 items in the paper's
    example.

    Raises
    ------
    InvalidParameter
        When fewer than three rounds have a cost.

    Examples
    --------
    >>> sizes = [100, 200, 400, 800, 1600, 3200]
    >>> choose_ceiling(CostCurve.of_counts(sizes, [5000, 500, 400, 10, 10, 900]))
    400
    """
    cost = curve.cost
    usable = np.flatnonzero(np.isfinite(cost))
    if len(usable) < 3:
        raise InvalidParameter(
            f"at least three rounds must have settled a target before the last one, got {len(usable)}. "
            "Sample again with a larger max or a smaller factor."
        )
    size, cost = np.log(curve.sizes[usable]), cost[usable]
    spread = cost.max() - cost.min()
    gap = (size - size[0]) / (size[-1] - size[0]) - (cost - cost.min()) / (spread if spread > 0 else 1.0)
    return int(curve.sizes[usable[int(np.argmax(gap))]])


def expected_size(
    distribution: RankDistribution | Ranks | FloatArray,
    stopping: Stopping,
    *,
    n_pool: int | None = None,
    replacement: bool = False,
) -> float:
    r"""Return how many negatives an adaptive sample is expected to take per target.

    .. math:: E[m] = m_0 + \sum_{j \ge 1} (m_j - m_{j-1}) \sum_R P(R) \Pr(r_{j-1} \le q \mid R)

    The sampled rank is binomial with replacement and hypergeometric without, where sizes end at the
    candidates. The paper's average size counts the target: one more. O(N q) per round.

    Parameters
    ----------
    distribution : weights over global ranks 1..N, or exact ranks, each in its own pool and with ties won
    stopping : sizes of the rounds and the rank up to which a target continues
    n_pool : N where there are fewer weights than ranks, the last ones being zero
    replacement : whether to sample with replacement

    Examples
    --------
    >>> expected_size(np.array([1.0, 0.0, 0.0]), Stopping((1, 2)))  # rank 1 of 3: no item above it
    2.0
    """
    weights, above, candidates = _population(distribution, n_pool)
    if (candidates < 1).any():
        raise InvalidData(
            "every pool must hold at least one irrelevant item to sample. Leave out the other targets."
        )
    total, before = 0.0, np.zeros(len(above), np.int64)
    for size in stopping.sizes:
        after = np.full(len(above), size) if replacement else np.minimum(size, candidates)
        going = _chance_at_most(stopping.rank - 1, before, above, candidates, replacement)
        total += float(weights @ ((after - before) * going))
        before = after
    return total


def _population(
    distribution: RankDistribution | Ranks | FloatArray, n_pool: int | None
) -> tuple[Doubles, IntArray, IntArray]:
    """Return weights, items above and candidates of each kind of target."""
    if isinstance(distribution, Ranks):
        if n_pool is not None or len(distribution) == 0:
            raise InvalidParameter("exact ranks must be some, and have pools of their own. Leave out n_pool.")
        kinds = np.stack(
            [
                distribution.n_above - distribution.n_relevant_above,
                distribution.n_pool - distribution.n_relevant,
            ]
        )
        (above, candidates), counts = np.unique(kinds, axis=1, return_counts=True)
        return counts / counts.sum(), above, candidates
    raw = distribution.weights if isinstance(distribution, RankDistribution) else distribution
    weights = np.asarray(raw, np.float64)
    n = len(weights) if n_pool is None else n_pool
    if weights.ndim != 1 or not 1 <= len(weights) <= n:
        raise InvalidParameter(
            f"there must be one weight per rank 1..{n} at most, got an array of shape {weights.shape}."
        )
    return weights, np.arange(len(weights)), np.full(len(weights), n - 1)


def _chance_at_most(
    most: int, size: IntArray, above: IntArray, candidates: IntArray, replacement: bool
) -> Doubles:
    """Return the probability that at most ``most`` of the items above are among ``size`` sampled ones."""
    from scipy.special import bdtr, gammaln

    if replacement:
        return np.where(size == 0, 1.0, bdtr(np.minimum(most, size), size, above / candidates))

    def log_choose(n: IntArray, k: IntArray) -> Doubles:
        return np.asarray(gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0))

    below = candidates - above
    total = np.zeros(len(above))
    for drawn in range(most + 1):
        is_possible = (drawn <= above) & (drawn <= size) & (size - drawn <= below)
        a, b, k = above[is_possible], below[is_possible], size[is_possible]
        log_chance = log_choose(a, np.full(len(a), drawn)) + log_choose(b, k - drawn)
        total[is_possible] += np.exp(log_chance - log_choose(a + b, k))
    return np.minimum(total, 1.0)
