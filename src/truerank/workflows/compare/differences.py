"""Differences between models, how far they may be off, and how they move together over resampled users.

Which models were tested on the same users, and whether they can be compared at all.

Many comparisons at once: intervals that all hold together, and p-values to match.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from itertools import combinations
from typing import cast

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from truerank.core.errors import InvalidData
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.random import stage_key, stream
from truerank.core.ranks import Design, Ranks, SampledRanks
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.corrections.naive import Naive
from truerank.inference.estimate_interval.registry import Estimated
from truerank.inference.resample import draw_counts
from truerank.workflows.compare.options import ComparedModel, CompareOptions, Correction

_CHUNK = 1 << 22  # resampled users held at once: 32 MB


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Differences of pairs of models.

    Parameters
    ----------
    value : (n_pairs, n_metrics) first minus second
    error : (n_pairs, n_metrics) their standard error over users; NaN for a single user
    n_users : (n_pairs,) users behind each, the smaller number where the two models have different ones
    shifts : (n_resamples, n_pairs, n_metrics) resampled difference minus difference, spread as ``error`` says
    p_randomised : (n_pairs, n_metrics) of the sign-flip test; NaN where users are not paired or values not
        sums over users
    """

    value: FloatArray
    error: FloatArray
    n_users: IntArray
    shifts: FloatArray
    p_randomised: FloatArray


def paired_differences(
    entries: Sequence[ComparedModel],
    pairs: Sequence[tuple[int, int]],
    options: CompareOptions,
    *,
    progress: Progress = SILENT,
) -> Contrasts:
    r"""Compare pairs of models over users.

    The same users: the mean of the differences per user, whose variance holds what users and sampled items
    add, less what both models have in common. Different users: the difference of means, variances added.
    Where a distribution is fitted, all models are fitted again to resampled users, the same ones for models
    that have the same users.

    Notes
    -----
    Given the users' ranks the variance of a mean of d over n users is :math:`\sum_u \mathrm{Var}(d_u)/n^2`.
    What is used, :math:`s^2/n` with s over users, has this plus the spread of the users' own differences as
    its mean. It is right for all users like these and too large for these users.
    """
    draws = _Draws(entries, options, progress)
    shape = (len(pairs), len(options.metrics))
    error, p_randomised = np.full(shape, np.nan), np.full(shape, np.nan)
    shifts = np.empty((options.resamples, *shape))
    for row, (a, b) in enumerate(pairs):
        error[row], shifts[:, row] = draws.error_and_shifts(a, b)
    p_randomised = draws.randomised(pairs)
    value = np.array([entries[a].value - entries[b].value for a, b in pairs])
    sizes = [len(entry.users) for entry in entries]
    n_users = np.array([min(sizes[a], sizes[b]) for a, b in pairs])
    return Contrasts(value, error, n_users, shifts, p_randomised)


class _Draws:
    """Resampled values of all models."""

    def __init__(self, entries: Sequence[ComparedModel], options: CompareOptions, progress: Progress) -> None:
        self.entries, self.options = entries, options
        self.digest = [entry.digest for entry in entries]
        self.moved: list[FloatArray] = [np.zeros(0)] * len(entries)
        for digest in dict.fromkeys(self.digest):
            group = [index for index, own in enumerate(self.digest) if own == digest]
            self._resample(digest, group, progress)

    def _resample(self, digest: str, group: list[int], progress: Progress) -> None:
        """Fill in how far the values of models with the same users move."""
        options = self.options
        seed = stage_key(options.seed, f"comparison/{digest}")[0]
        fitted = [index for index in group if self.entries[index].per_user is None]
        if fitted:
            from truerank.inference.estimate_interval.resampling import resampled

            found = [cast(Estimated, self.entries[index].found) for index in fitted]
            tables = resampled(
                found, target="population", resamples=options.resamples, seed=seed, progress=progress
            )
            for index, table in zip(fitted, tables, strict=True):
                self.moved[index] = table - self.entries[index].value
        summed = [index for index in group if self.entries[index].per_user is not None]
        if summed:
            columns = np.concatenate([self._per_user(index) for index in summed], axis=1)
            means = paired_resampled_means(columns, options.resamples, seed, progress)
            width = len(options.metrics)
            for place, index in enumerate(summed):
                own = means[:, place * width : (place + 1) * width]
                self.moved[index] = own - self.entries[index].value

    def _per_user(self, index: int) -> FloatArray:
        return cast(FloatArray, self.entries[index].per_user)

    def error_and_shifts(self, a: int, b: int) -> tuple[FloatArray, FloatArray]:
        """Return the standard error of A - B, (n_metrics,), and its resampled shifts."""
        first, second = self.entries[a], self.entries[b]
        shifts = self.moved[a] - self.moved[b]
        sizes = len(first.users), len(second.users)
        if min(sizes) < 2:
            return np.full(shifts.shape[1], np.nan), shifts
        if first.per_user is None or second.per_user is None:
            return shifts.std(axis=0, ddof=1), shifts
        stretch = [np.sqrt(n / (n - 1)) for n in sizes]
        if self.digest[a] == self.digest[b]:
            return _error(first.per_user - second.per_user), shifts * stretch[0]
        error = np.hypot(_error(first.per_user), _error(second.per_user))
        return error, self.moved[a] * stretch[0] - self.moved[b] * stretch[1]

    def randomised(self, pairs: Sequence[tuple[int, int]]) -> FloatArray:
        """Return the p-values of the sign-flip test, (n_pairs, n_metrics)."""
        width = len(self.options.metrics)
        result = np.full((len(pairs), width), np.nan)
        for digest in dict.fromkeys(self.digest):
            rows = [
                row
                for row, (a, b) in enumerate(pairs)
                if self.digest[a] == self.digest[b] == digest
                and self.entries[a].per_user is not None
                and self.entries[b].per_user is not None
            ]
            if rows:
                parts = [self._per_user(pairs[row][0]) - self._per_user(pairs[row][1]) for row in rows]
                found = sign_flip(
                    np.concatenate(parts, axis=1), self.options.resamples, self.options.seed, digest
                )
                result[rows] = found.reshape(len(rows), width)
        return result


def _error(values: FloatArray) -> FloatArray:
    """Return the standard error of column means; exactly 0 where all values are equal."""
    spread = np.where(np.ptp(values, axis=0) == 0, 0.0, values.std(axis=0, ddof=1))
    error: FloatArray = spread / np.sqrt(len(values))
    return error


def paired_resampled_means(
    values: FloatArray, resamples: int, seed: int, progress: Progress = SILENT
) -> FloatArray:
    """Return column means over users drawn with replacement, (resamples, n_columns).

    Resample b draws the users that ``resampling.resampled`` draws for the same seed, so that exact
    values can be paired with fitted ones. O(resamples x n_users x n_columns).

    Examples
    --------
    >>> paired_resampled_means(np.ones((5, 1)), 3, 0).tolist()
    [[1.0], [1.0], [1.0]]
    """
    n = len(values)
    means = np.empty((resamples, values.shape[1]))
    block = max(_CHUNK // n, 1)
    with tracked(progress, "resampling users", resamples) as task:
        for first in range(0, resamples, block):
            size = min(block, resamples - first)
            counts = draw_counts(n, range(first, first + size), seed=seed, stage="bootstrap/users")
            means[first : first + size] = counts @ values / n
            task.advance(size)
    return means


def sign_flip(values: FloatArray, resamples: int, seed: int, stage: str) -> FloatArray:
    """Return two-sided p-values of column means if each user's difference could as well have the other sign.

    The share of random signs whose mean is at least as far from 0, the observed signs counted in.

    Examples
    --------
    >>> sign_flip(np.zeros((4, 1)), 99, 0, "example").tolist()
    [1.0]
    """
    n = len(values)
    draw = stream(seed, f"comparison/signs/{stage}")
    whole = values.sum(axis=0)
    least = np.abs(whole) - 1e-9 * np.abs(values).sum(
        axis=0
    )  # rounding differs between orders: call them ties
    reached = np.zeros(values.shape[1])
    block = max(_CHUNK // n, 1)
    for first in range(0, resamples, block):
        words = draw.integers(0, 1 << 64, (min(block, resamples - first), -(-n // 64)), dtype=np.uint64)
        heads = np.unpackbits(words.astype("<u8").view(np.uint8), axis=1, count=n)
        # the sum with signs +-1 is twice that of the heads less the whole
        reached += (np.abs(2 * (heads.astype(np.float64) @ values) - whole) >= least).sum(axis=0)
    p_value: FloatArray = (1 + reached) / (resamples + 1)
    return p_value


AnyRanks = Ranks | SampledRanks


@dataclass(frozen=True)
class Pairing:
    """How two models belong together, in words.

    Parameters
    ----------
    is_paired : whether they have the same users
    shares_negatives : whether both were ranked against the same draws
    """

    is_paired: bool
    shares_negatives: bool

    def __str__(self) -> str:
        if not self.is_paired:
            return "independent users"
        return "paired users, shared negatives" if self.shares_negatives else "paired users"


def align_ranks(
    ranks: Mapping[str, AnyRanks], options: CompareOptions
) -> tuple[dict[str, AnyRanks], list[str]]:
    """Return ranks that can be compared, and what was done to them in words.

    Every two models have the same users, or none in common.

    Raises
    ------
    InvalidData
        When users overlap in part and ``common_users`` is not set, or targets, pools or designs do not fit.
    """
    notes: list[str] = []
    chosen = dict(ranks)
    if options.common_users:
        chosen, notes = _common(chosen)
    for a, b in combinations(chosen, 2):
        _check_users(a, chosen[a], b, chosen[b])
        _check_design(a, chosen[a], b, chosen[b], options)
    return chosen, notes


def pairing(a: AnyRanks, b: AnyRanks) -> Pairing:
    """Return how two models with checked users belong together."""
    is_paired = np.array_equal(_users(a), _users(b))
    both = isinstance(a, SampledRanks) and isinstance(b, SampledRanks)
    is_shared = both and a.design == b.design and a.design.shared  # type: ignore[union-attr]
    return Pairing(is_paired, bool(is_paired and is_shared))


def _common(ranks: Mapping[str, AnyRanks]) -> tuple[dict[str, AnyRanks], list[str]]:
    """Return the rows of the users that all models have, and how many each lost."""
    kept: IntArray = reduce(np.intersect1d, [_users(one) for one in ranks.values()])
    if len(kept) == 0:
        raise InvalidData("the models must have users in common, but no user is in all of them. Check ids.")
    notes = [
        f"{name}: {one.n_users - len(kept):,} of {one.n_users:,} users left out, because not all models "
        f"have them."
        for name, one in ranks.items()
        if one.n_users > len(kept)
    ]
    return {name: _take(one, np.isin(one.user, kept)) for name, one in ranks.items()}, notes


def _take(ranks: AnyRanks, keep: np.ndarray) -> AnyRanks:
    columns = {
        field.name: getattr(ranks, field.name)[keep] for field in fields(ranks) if field.name != "design"
    }
    if isinstance(ranks, Ranks):
        return Ranks(**columns)
    return SampledRanks(**columns, design=ranks.design)


def _users(ranks: AnyRanks) -> IntArray:
    users: IntArray = ranks.user[ranks.starts]
    return users


def _check_users(a: str, first: AnyRanks, b: str, second: AnyRanks) -> None:
    own, other = _users(first), _users(second)
    if not np.array_equal(own, other):
        n_common = len(np.intersect1d(own, other))
        if n_common == len(own) == len(other):
            raise InvalidData(f"users of {a!r} and {b!r} must come in the same order. Sort the rows by user.")
        if n_common:
            raise InvalidData(
                f"{a!r} and {b!r} must have the same users or none in common, but share {n_common:,} of "
                f"{len(own):,} and {len(other):,}. Compare the shared ones with --common-users "
                f"(common_users=True)."
            )
        return
    if not np.array_equal(first.n_relevant[first.starts], second.n_relevant[second.starts]):
        raise InvalidData(
            f"{a!r} and {b!r} must have been tested on the same targets, but some users have more of them "
            f"in one than in the other. Evaluate both on one split."
        )
    if first.item.any() and second.item.any() and not _same_items(first, second):
        raise InvalidData(
            f"{a!r} and {b!r} must have been tested on the same targets, but some users have other items in "
            f"one than in the other. Evaluate both on one split."
        )
    if not np.array_equal(first.n_pool[first.starts], second.n_pool[second.starts]):
        row = int(np.argmax(first.n_pool[first.starts] != second.n_pool[second.starts]))
        sizes = first.n_pool[first.starts][row], second.n_pool[second.starts][row]
        raise InvalidData(
            f"{a!r} and {b!r} must rank the same pools, but one user's has {sizes[0]:,} items in one and "
            f"{sizes[1]:,} in the other. Treat seen items alike."
        )


def _same_items(first: AnyRanks, second: AnyRanks) -> bool:
    if len(first) != len(second):
        return False
    one, other = (ranks.item[np.lexsort((ranks.item, ranks.user))] for ranks in (first, second))
    return bool(np.array_equal(one, other))


def _check_design(a: str, first: AnyRanks, b: str, second: AnyRanks, options: CompareOptions) -> None:
    """Raise where values are no estimates of the same thing: naive ones depend on the sample's size."""
    if not isinstance(options.estimator, Naive) or (isinstance(first, Ranks) and isinstance(second, Ranks)):
        return
    if isinstance(first, Ranks) or isinstance(second, Ranks):
        exact, sampled = (a, b) if isinstance(first, Ranks) else (b, a)
        raise InvalidData(
            f"naive values must come from samples of one size, but {exact!r} was ranked against all items "
            f"and {sampled!r} against a sample. Use estimator 'bv'."
        )
    sizes = [np.unique(one.n_negatives) for one in (first, second)]
    laws = [Design(one.design.law, one.design.replacement) for one in (first, second)]
    if not np.array_equal(sizes[0], sizes[1]) or laws[0] != laws[1]:
        raise InvalidData(
            f"naive values must come from samples of one size and kind, but those of {a!r} and {b!r} differ. "
            f"Use estimator 'bv', or sample both alike."
        )


@dataclass(frozen=True, eq=False)
class Family:
    """Intervals and p-values of all differences, arrays (n_pairs, n_metrics); NaN for a single user.

    Parameters
    ----------
    low, high : ends of the intervals, within [-1, 1]
    p_value, p_adjusted : of no difference, alone and among all comparisons
    probability : that the first is better, as far as noise goes: Student's, at the difference
    """

    low: FloatArray
    high: FloatArray
    p_value: FloatArray
    p_adjusted: FloatArray
    probability: FloatArray


def make_family(found: Contrasts, *, level: float, correction: Correction) -> Family:
    r"""Return intervals and p-values by one of the corrections.

    Notes
    -----
    With t = difference/error on n - 1 degrees of freedom and its normal score
    :math:`z = \Phi^{-1}(T_{n-1}(t))`:

    * ``max-t``: the critical score is the quantile of :math:`\max_c |z^*_c|` over resampled users,
      :math:`z^* = \text{shift}/\text{error}`, which knows how comparisons depend on each other. An adjusted
      p-value is the share of maxima that reach :math:`|z|`; it is below 1 - level where the interval leaves
      out 0. The interval is difference :math:`\pm T^{-1}_{n-1}(\Phi(z_{crit}))` error.
    * ``holm``: p-values by Holm's steps, intervals by Bonferroni's level, which may be wider.
    * ``none``: each for itself.

    Differences that are equal for all users have no spread. At the level at most
    :math:`s = 1 - ((1 - \text{level})/2)^{1/n}` of the users differ, by at most 1, so the mean lies within
    :math:`c (1 - s) \pm s`, and the p-value is that of the level whose interval ends at 0:
    :math:`2 (1 + |c|)^{-n}`. They take their part of the family's level as in Bonferroni's correction.
    """
    shape = found.value.shape
    value, error = found.value.ravel(), found.error.ravel()
    n_users = np.repeat(found.n_users, shape[1]).astype(np.float64)
    is_known = np.isfinite(error)
    is_flat = is_known & (error == 0)
    varies = is_known & ~is_flat
    size = int(is_known.sum())
    alpha = 1 - level
    single = alpha if correction == "none" else alpha / max(size, 1)

    p_value = np.full(len(value), np.nan)
    p_value[is_flat] = np.minimum(2 * (1 + np.abs(value[is_flat])) ** -n_users[is_flat], 1.0)
    t = value[varies] / error[varies]
    free = n_users[varies] - 1
    p_value[varies] = np.minimum(2 * stdtr(free, -np.abs(t)), 1.0)

    low, high = np.full(len(value), np.nan), np.full(len(value), np.nan)
    share = 1 - (single / 2) ** (1 / n_users[is_flat])
    low[is_flat] = value[is_flat] * (1 - share) - share
    high[is_flat] = value[is_flat] * (1 - share) + share
    p_adjusted = p_value.copy()
    tail: FloatArray = np.full(len(t), single / 2)
    if correction == "max-t" and varies.any():
        part = size / int(varies.sum())  # what flat differences leave of the level
        scores = np.abs(ndtri(stdtr(free, -np.abs(t))))
        shifts = found.shifts.reshape(len(found.shifts), -1)[:, varies]
        maxima = np.sort(np.abs(shifts / error[varies]).max(axis=1))
        reached = len(maxima) - np.searchsorted(maxima, scores, side="left")
        shares = part * (1 + reached) / (len(maxima) + 1)
        p_adjusted[varies] = np.minimum(np.maximum(shares, part * p_value[varies]), 1.0)
        tail[:] = min(float(ndtr(-_critical(maxima, alpha / part))), alpha / part / 2)
        p_adjusted[is_flat] = np.minimum(size * p_value[is_flat], 1.0)
    elif correction != "none":
        p_adjusted[is_known] = _holm(p_value[is_known])
    half = np.where(tail > 0, -stdtrit(free, np.maximum(tail, 1e-300)), np.inf) * error[varies]
    low[varies], high[varies] = value[varies] - half, value[varies] + half

    probability = np.full(len(value), np.nan)
    probability[is_flat] = 0.5 + np.sign(value[is_flat]) * (0.5 - p_value[is_flat] / 2)
    probability[varies] = stdtr(free, t)
    return Family(
        np.clip(low, -1, 1).reshape(shape),
        np.clip(high, -1, 1).reshape(shape),
        p_value.reshape(shape),
        p_adjusted.reshape(shape),
        probability.reshape(shape),
    )


def _critical(maxima: FloatArray, alpha: float) -> float:
    """Return the smallest maximum reached by a share below alpha, in the counting of adjusted p-values."""
    # (1 + #{maxima >= z}) / (B + 1) <= alpha holds beyond the place that leaves this many above
    above = int(np.floor(alpha * (len(maxima) + 1))) - 1
    if above < 0:
        return float("inf")  # too few resamples for the level: nothing can be told
    return float(maxima[len(maxima) - above - 1])


def _holm(p_value: FloatArray) -> FloatArray:
    """Return Holm's adjusted p-values.

    Examples
    --------
    >>> _holm(np.array([0.01, 0.04, 0.03])).round(4).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_value, kind="stable")
    steps = p_value[order] * np.arange(len(p_value), 0, -1)
    adjusted = np.empty_like(p_value)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted
