"""Hit-ratio curves of Li et al. 2020, global and sampled, and the errors of mappings between them.

The global curve HR@K and the sampled curve SHR@k, each read on the scale of the other through a mapping
function; the error measures of the paper; and the mapping that is exact for a known rank distribution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from truerank.core.errors import (
    CannotEstimate,
    InvalidData,
    InvalidParameter,
    check_above,
    check_at_least,
    check_choice,
)
from truerank.core.random import pair_keys
from truerank.core.ranks import TIE_POLICIES, RankDistribution, Ranks, SampledRanks, TiePolicy
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.law import make_law
from truerank.estimation.mapping.functions import MappingFunction


@dataclass(frozen=True)
class MappingError:
    """Mean absolute and relative differences of HR@f(k) and SHR@k.

    Parameters
    ----------
    abs, rel : over k = 1..n
    abs_at_1, rel_at_1 : at k = 1
    abs_to_10, rel_to_10 : over k = 2..10
    n_undefined : cut-offs with SHR@k = 0, which have no relative error and are left out of its means
    """

    abs: float
    rel: float
    abs_at_1: float
    rel_at_1: float
    abs_to_10: float
    rel_to_10: float
    n_undefined: int = 0


def mapping_error(hit_ratios: FloatArray, shr: FloatArray) -> MappingError:
    """Return the error measures of Table 7 of [li2020]_.

    Parameters
    ----------
    hit_ratios : (n,) HR@f(1) ... HR@f(n)
    shr : (n,) SHR@1 ... SHR@n

    Raises
    ------
    InvalidData
        When the two do not have the same length n >= 2.

    Examples
    --------
    >>> error = mapping_error(np.array([0.1, 0.5, 1.0]), np.array([0.2, 0.4, 1.0]))
    >>> round(error.abs, 4), round(error.rel, 4), error.rel_at_1, round(error.rel_to_10, 4)
    (0.0667, 0.25, 0.5, 0.125)
    """
    if hit_ratios.shape != shr.shape or shr.ndim != 1 or len(shr) < 2:
        raise InvalidData(
            f"both curves must have one value per k = 1..n, n >= 2, got shapes {hit_ratios.shape} and "
            f"{shr.shape}."
        )
    gap = np.abs(hit_ratios - shr)
    relative = np.divide(gap, shr, out=np.full(len(shr), np.nan), where=shr > 0)
    first, next_ten = slice(0, 1), slice(1, 10)
    return MappingError(
        float(gap.mean()),
        _mean(relative),
        float(gap[0]),
        _mean(relative[first]),
        float(gap[next_ten].mean()),
        _mean(relative[next_ten]),
        int(np.isnan(relative).sum()),
    )


def _mean(values: FloatArray) -> float:
    """Return the mean of the values that are not NaN; NaN for none."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def hoeffding_bound(n_users: int, distance: float) -> float:
    """Return Hoeffding's bound on P(SHR@k is at least ``distance`` away from its expectation).

    Examples
    --------
    >>> round(hoeffding_bound(30_000, 0.01), 5)
    0.00496
    """
    check_at_least("n_users", n_users, 1)
    check_above("distance", distance, 0)
    return float(min(1.0, 2 * np.exp(-2 * n_users * distance**2)))


def expected_curve(distribution: RankDistribution, n: int, *, replacement: bool = True) -> FloatArray:
    """Return E[SHR@1] ... E[SHR@n] for ranks that follow a distribution; O(N sqrt(n)).

    Raises
    ------
    CannotEstimate
        When weights are negative.
    InvalidParameter
        When n is below 2, or above N without replacement.
    """
    if distribution.weights.min() < 0:
        raise CannotEstimate(
            f"an expected curve needs weights >= 0, but those of {distribution.method!r} are signed. Use a "
            f"distribution from 'mle', 'mapping' or exact ranks."
        )
    if n < 2 or distribution.n_pool < 2:
        raise InvalidParameter(f"n and n_pool must be at least 2, got {n} and {distribution.n_pool}.")
    law = make_law(distribution.n_pool - 1, n - 1, replacement=replacement)
    curve: FloatArray = np.minimum(np.cumsum(law.add(distribution.weights[None, :])[0]), 1.0)
    curve[-1] = 1.0
    return curve


def exact_map(distribution: RankDistribution, n: int, *, replacement: bool = True) -> FloatArray:
    r"""Return the real f(1) ... f(n) with HR@f(k) = E[SHR@k], HR taken linear between whole ranks.

    With replacement E[SHR@k] is the mean of HR at a Beta(k, n - k) fraction of the list, so f is the
    certainty equivalent of that lottery under the utility HR:

    .. math:: f(k) = F^{-1}\bigl( E F(X) \bigr)

    If F is a concave function of G then f_F <= f_G (Arrow and Pratt): curves of recommenders with more
    targets at the top are read at smaller ranks. ``beta(a)`` is the case F(x) = x^a.

    Parameters
    ----------
    distribution : of global ranks 1..N, weights >= 0
    n : items of the sampled list, the target included
    replacement : whether an item can be drawn twice

    Notes
    -----
    Where HR is flat the first of the ranks with that value is given; f(n) is N. Below rank 1, HR is taken
    linear from 0 at 0, so f(1) may lie below 1.

    Examples
    --------
    >>> uniform = RankDistribution(np.full(1000, 1e-3), method="uniform")
    >>> exact_map(uniform, 4).round(2).tolist()  # beta(a=1) gives 250.75, 500.5, 750.25, 1000
    [250.25, 500.0, 749.75, 1000.0]
    """
    expected = expected_curve(distribution, n, replacement=replacement)
    weights = distribution.weights
    total = np.cumsum(weights)
    above = np.minimum(np.searchsorted(total, expected * (1 - 1e-14), side="left"), len(weights) - 1)
    fraction = np.divide(
        expected - (total[above] - weights[above]),
        weights[above],
        out=np.zeros(n),
        where=weights[above] > 0,
    )
    locations: FloatArray = above + np.clip(fraction, 0.0, 1.0)
    locations[-1] = float(len(weights))
    return locations


@dataclass(frozen=True, eq=False)
class HitCurve:
    """The fraction of targets with rank at most K, as a function of K; linear between whole K.

    Ranks count irrelevant items: a target that J irrelevant items beat has rank J + 1. With one target per
    user this is the usual rank and the hit ratio. With several it is the recall a user would have if its
    other targets were taken out of the list, averaged over users.

    Parameters
    ----------
    first : (n,) rank of each target when all ties are won, ascending
    n_ranks : (n,) the number of ranks it is spread over evenly, from ``first`` on
    weight : (n,) they sum to 1 for all targets of all users

    Examples
    --------
    >>> curve = hit_curve(Ranks.single([0, 3], n_pool=10, n_tied=np.array([0, 1])))
    >>> curve.at([1, 3, 4, 4.5, 5]).tolist()  # the second takes rank 4 or 5
    [0.5, 0.5, 0.75, 0.875, 1.0]
    """

    first: IntArray
    n_ranks: IntArray
    weight: FloatArray

    def at(self, cutoff: ArrayLike) -> FloatArray:
        """Return the hit ratio at real cut-offs >= 0."""
        wanted = np.asarray(cutoff, dtype=np.float64)
        whole = np.floor(wanted)
        low = self._at_whole(whole)
        return low + (wanted - whole) * (self._at_whole(whole + 1) - low)

    def _at_whole(self, cutoff: FloatArray) -> FloatArray:
        is_tied = self.n_ranks > 1
        alone = ~is_tied
        sums = np.concatenate([[0.0], np.cumsum(self.weight[alone])])
        ratio: FloatArray = sums[np.searchsorted(self.first[alone], cutoff, side="right")]
        if is_tied.any():  # each rises evenly over its ranks: a ramp from the first minus one from the last
            slope = self.weight[is_tied] / self.n_ranks[is_tied]
            start = self.first[is_tied] - 1
            ratio = ratio + _ramps(start, slope, cutoff)
            ratio = ratio - _ramps(start + self.n_ranks[is_tied], slope, cutoff)
        return ratio


def _ramps(start: IntArray, slope: FloatArray, at: FloatArray) -> FloatArray:
    """Return the sum of slope max(x - start, 0) at each x."""
    order = np.argsort(start, kind="stable")
    slopes = np.concatenate([[0.0], np.cumsum(slope[order])])
    starts = np.concatenate([[0.0], np.cumsum(slope[order] * start[order])])
    n_started = np.searchsorted(start[order], at, side="left")
    ramps: FloatArray = at * slopes[n_started] - starts[n_started]
    return ramps


def hit_curve(ranks: Ranks | SampledRanks, *, ties: TiePolicy = "expected", seed: int = 0) -> HitCurve:
    """Return the curve of exact ranks (HR@K) or of sampled ones (SHR@k).

    Parameters
    ----------
    ranks : one row per (user, target)
    ties : ``expected`` spreads a target evenly over the ranks among its tied irrelevant items; ``best`` and
        ``worst`` take the first and the last; ``random`` one of them, by a key of (seed, user, item)
    seed : for ``random``
    """
    check_choice("ties", ties, TIE_POLICIES)
    first = ranks.n_above.astype(np.int64) - ranks.n_relevant_above + 1
    n_tied = ranks.n_tied.astype(np.int64) - ranks.n_relevant_tied
    if ties == "worst":
        first = first + n_tied
    elif ties == "random":
        keys = pair_keys(seed, "ties/curve", ranks.user, ranks.item)
        first = first + ((keys >> np.uint64(11)).astype(np.float64) * 2.0**-53 * (n_tied + 1)).astype(int)
    n_ranks = n_tied + 1 if ties == "expected" else np.ones_like(first)
    weight = 1 / (ranks.n_relevant * max(ranks.n_users, 1))
    order = np.argsort(first, kind="stable")
    return HitCurve(first[order], n_ranks[order], weight[order])


def sampled_hit_ratios(sample: SampledRanks, *, ties: TiePolicy = "expected", seed: int = 0) -> FloatArray:
    """Return SHR@1 ... SHR@n, all lists having n = n_negatives + 1 items.

    Raises
    ------
    CannotEstimate
        When sample sizes differ.
    """
    n = sample_length(sample)
    return hit_curve(sample, ties=ties, seed=seed).at(np.arange(1, n + 1))


def sample_length(sample: SampledRanks) -> int:
    """Return n = n_negatives + 1, the same for all rows, or raise."""
    sizes = np.unique(sample.n_negatives)
    if len(sizes) != 1:
        raise CannotEstimate(
            f"a sampled curve needs one number of negatives for all targets, got {len(sizes)} different "
            f"ones. Use estimator 'mapping', which treats each separately."
        )
    return int(sizes[0]) + 1


def global_at_sampled(
    ranks: Ranks,
    mapping: MappingFunction,
    n: int,
    *,
    n_items: int | None = None,
    ties: TiePolicy = "expected",
    seed: int = 0,
) -> FloatArray:
    """Return HR@f(1) ... HR@f(n): the global curve at the locations of a sampled list.

    Parameters
    ----------
    ranks : exact ranks
    mapping : f; its rounding rule says where between two ranks the curve is read
    n : items of the sampled list, the target included
    n_items : one N for the f of all users, as in the paper; None takes each user's own pool
    ties, seed : as in ``hit_curve``

    Raises
    ------
    InvalidParameter
        When ``n_items`` is smaller than a pool.
    """
    k = np.arange(1, n + 1)
    pool = ranks.n_pool - ranks.n_relevant + 1
    if n_items is not None:
        if len(pool) and n_items < pool.max():
            raise InvalidParameter(f"n_items must be at least the largest pool, {pool.max()}, got {n_items}.")
        return hit_curve(ranks, ties=ties, seed=seed).at(mapping.rounded_locations(k, n, n_items))
    total = np.zeros(n)
    for size, part in _by_pool(ranks, pool, ties, seed):
        total += part.at(mapping.rounded_locations(k, n, size))
    return total


def _by_pool(ranks: Ranks, pool: IntArray, ties: TiePolicy, seed: int) -> list[tuple[int, HitCurve]]:
    """Return the curve of each pool size; their weights sum to 1 over all of them."""
    n_users = ranks.n_users
    order = np.argsort(pool, kind="stable")
    sizes, starts = np.unique(pool[order], return_index=True)
    parts = []
    for size, rows in zip(sizes.tolist(), np.split(order, starts[1:]), strict=True):
        rows = np.sort(rows)  # rows of one user stay together
        part = Ranks(
            *(getattr(ranks, name)[rows] for name in ("user", "item", "n_above", "n_tied", "n_pool")),
            *(getattr(ranks, name)[rows] for name in ("n_relevant", "n_relevant_above", "n_relevant_tied")),
        )
        curve = hit_curve(part, ties=ties, seed=seed)
        parts.append((size, HitCurve(curve.first, curve.n_ranks, curve.weight * part.n_users / n_users)))
    return parts


def sampled_at_global(
    shr: FloatArray, mapping: MappingFunction, n_pool: int, cutoffs: ArrayLike
) -> FloatArray:
    """Return SHR@f^-1(K): the sampled curve at global cut-offs, linear between whole k and from 0 at k = 0.

    Parameters
    ----------
    shr : (n,) SHR@1 ... SHR@n
    mapping : f
    n_pool : N
    cutoffs : K in 1..N
    """
    n = len(shr)
    k = mapping.inverse(cutoffs, n, n_pool)
    values: FloatArray = np.interp(k, np.arange(n + 1), np.concatenate([[0.0], shr]))
    return values
