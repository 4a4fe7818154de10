"""Paired differences between models over users, with simultaneous confidence intervals.

Three steps. ``align_ranks`` checks that models were tested on the same targets and pools, for the same users
or for disjoint ones. ``paired_differences`` returns the differences with their standard errors, resampled
differences (the same resampled users for all models) and a sign-flip test. ``simultaneous_intervals``
corrects intervals and p-values for multiple comparisons.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from typing import cast

import numpy as np
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from truerank.core.errors import InvalidData
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.random import stage_key, stream
from truerank.core.ranks import Design, Ranks, SampledRanks
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.inference.estimate_interval.registry import PointEstimates
from truerank.inference.resample import resample_counts
from truerank.inference.score_interval import ScoreTest
from truerank.workflows.compare.options import ComparedModel, CompareOptions, Correction
from truerank.workflows.compare.result import ROUNDING

_CHUNK = 1 << 22  # counts of resampled users in memory at once: 32 MB


@dataclass(frozen=True, eq=False)
class PairedDifferences:
    """Differences of pairs of models with their sampling distribution over users.

    Parameters
    ----------
    value : (n_pairs, n_metrics) first minus second
    error : (n_pairs, n_metrics) standard error over users; NaN for a single user
    n_users : (n_pairs,) users of each pair, the smaller number where the two models have different ones
    shifts : (n_resamples, n_pairs, n_metrics) resampled difference minus difference, with the standard
        deviation ``error``
    p_randomised : (n_pairs, n_metrics) p-values of the sign-flip test; NaN where users are not paired or
        values are not means over users
    scores : score tests of the differences per user, pair by pair and metric by metric; None for those that
        are equal, estimated, or between different users. Empty where there are none
    """

    value: FloatArray
    error: FloatArray
    n_users: IntArray
    shifts: FloatArray
    p_randomised: FloatArray
    scores: Sequence[ScoreTest | None] = ()


def paired_differences(
    models: Sequence[ComparedModel],
    pairs: Sequence[tuple[int, int]],
    options: CompareOptions,
    *,
    progress: Progress = SILENT,
) -> PairedDifferences:
    r"""Return the differences of pairs of models, their standard errors and resamples.

    Models with the same users: the mean of the differences per user. Its variance has a part from users and a
    part from sampled items; what both models have in common cancels. Models with different users: the
    difference of means, the variances added. Where a rank distribution is fitted, all models are fitted again
    to resampled users, the same ones for models that have the same users.

    Notes
    -----
    Given the users' ranks, the variance of the mean difference d over n users is
    :math:`\sum_u \mathrm{Var}(d_u)/n^2`. The estimate used, :math:`s^2/n` with s the standard deviation over
    users, has this plus the variance of the users' expected differences as its expectation. It is unbiased
    for the population of users and conservative for these test users.
    """
    resampled = _ResampledValues(models, options, progress)
    shape = (len(pairs), len(options.metrics))
    error, p_randomised = np.full(shape, np.nan), np.full(shape, np.nan)
    shifts = np.empty((options.resamples, *shape))
    for row, (a, b) in enumerate(pairs):
        error[row], shifts[:, row] = resampled.error_and_shifts(a, b)
    p_randomised = resampled.sign_flip_p_values(pairs)
    value = np.array([models[a].value - models[b].value for a, b in pairs])
    sizes = [len(model.users) for model in models]
    n_users = np.array([min(sizes[a], sizes[b]) for a, b in pairs])
    scores = [score for a, b in pairs for score in resampled.score_tests(a, b)]
    return PairedDifferences(value, error, n_users, shifts, p_randomised, scores)


class _ResampledValues:
    """Values of all models over bootstrap samples of users; ``shifts`` holds resampled minus actual value."""

    def __init__(self, models: Sequence[ComparedModel], options: CompareOptions, progress: Progress) -> None:
        self.models, self.options = models, options
        self.digest = [model.digest for model in models]
        self.shifts: list[FloatArray] = [np.zeros(0)] * len(models)
        for digest in dict.fromkeys(self.digest):
            group = [index for index, users in enumerate(self.digest) if users == digest]
            self._resample(digest, group, progress)

    def _resample(self, digest: str, group: list[int], progress: Progress) -> None:
        """Compute the shifts of models with the same users."""
        options = self.options
        seed = stage_key(options.seed, f"comparison/{digest}")[0]
        fitted = [index for index in group if self.models[index].per_user is None]
        if fitted:
            from truerank.inference.estimate_interval.resampling import resample_estimates

            estimated = [cast(PointEstimates, self.models[index].estimated) for index in fitted]
            estimates = resample_estimates(
                estimated, target="population", resamples=options.resamples, seed=seed, progress=progress
            )
            for index, model_estimates in zip(fitted, estimates, strict=True):
                self.shifts[index] = model_estimates - self.models[index].value
        averaged = [index for index in group if self.models[index].per_user is not None]
        if averaged:
            columns = np.concatenate([self._per_user(index) for index in averaged], axis=1)
            means = paired_resampled_means(columns, options.resamples, seed, progress)
            for index, model_means in zip(averaged, np.split(means, len(averaged), axis=1), strict=True):
                self.shifts[index] = model_means - self.models[index].value

    def _per_user(self, index: int) -> FloatArray:
        return cast(FloatArray, self.models[index].per_user)

    def error_and_shifts(self, a: int, b: int) -> tuple[FloatArray, FloatArray]:
        """Return the standard error of A - B, (n_metrics,), and its resampled shifts."""
        first, second = self.models[a], self.models[b]
        shifts = self.shifts[a] - self.shifts[b]
        sizes = len(first.users), len(second.users)
        if min(sizes) < 2:
            return np.full(shifts.shape[1], np.nan), shifts
        if first.per_user is None or second.per_user is None:
            return shifts.std(axis=0, ddof=1), shifts
        scale = [np.sqrt(n / (n - 1)) for n in sizes]  # the bootstrap's variance divides by n, not n - 1
        if self.digest[a] == self.digest[b]:
            return standard_error(first.per_user - second.per_user), shifts * scale[0]
        error = np.hypot(standard_error(first.per_user), standard_error(second.per_user))
        return error, self.shifts[a] * scale[0] - self.shifts[b] * scale[1]

    def score_tests(self, a: int, b: int) -> list[ScoreTest | None]:
        """Return the score test of A - B in each metric, where both are exact values of the same users."""
        models = self.models[a], self.models[b]
        if self.digest[a] != self.digest[b] or any(model.estimated is not None for model in models):
            return [None] * len(self.options.metrics)
        return score_tests(self._per_user(a) - self._per_user(b))

    def sign_flip_p_values(self, pairs: Sequence[tuple[int, int]]) -> FloatArray:
        """Return the p-values of the sign-flip test, (n_pairs, n_metrics)."""
        width = len(self.options.metrics)
        result = np.full((len(pairs), width), np.nan)
        for digest in dict.fromkeys(self.digest):
            rows = [
                row
                for row, (a, b) in enumerate(pairs)
                if self.digest[a] == self.digest[b] == digest
                and self.models[a].per_user is not None
                and self.models[b].per_user is not None
            ]
            if rows:
                differences = [self._per_user(a) - self._per_user(b) for a, b in (pairs[row] for row in rows)]
                p_values = sign_flip(
                    np.concatenate(differences, axis=1), self.options.resamples, self.options.seed, digest
                )
                result[rows] = p_values.reshape(len(rows), width)
        return result


def score_tests(values: FloatArray) -> list[ScoreTest | None]:
    """Return the score test of each column of differences per user, None where all of them are equal."""
    return [None if np.ptp(column) == 0 else ScoreTest.of(column) for column in values.T]


def standard_error(values: FloatArray) -> FloatArray:
    """Return the standard error of column means; exactly 0 where all values are equal."""
    spread = np.where(np.ptp(values, axis=0) == 0, 0.0, values.std(axis=0, ddof=1))
    error: FloatArray = spread / np.sqrt(len(values))
    return error


def paired_resampled_means(
    values: FloatArray, resamples: int, seed: int, progress: Progress = SILENT
) -> FloatArray:
    """Return column means over users sampled with replacement, (resamples, n_columns).

    Resample b has the same users as resample b of ``resampling.resample_estimates`` with the same seed, so
    that exact values can be paired with fitted ones. O(resamples x n_users x n_columns).

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
            counts = resample_counts(n, range(first, first + size), seed=seed, stage="bootstrap/users")
            means[first : first + size] = counts @ values / n
            task.advance(size)
    return means


def sign_flip(values: FloatArray, resamples: int, seed: int, stage: str) -> FloatArray:
    """Return two-sided p-values of column means by the sign-flip (paired permutation) test.

    The p-value is the fraction of random sign patterns whose mean is at least as far from 0 as the observed
    one, the observed pattern included.

    Examples
    --------
    >>> sign_flip(np.zeros((4, 1)), 99, 0, "example").tolist()
    [1.0]
    """
    n = len(values)
    generator = stream(seed, f"comparison/signs/{stage}")
    total = values.sum(axis=0)
    # sums in another order differ by rounding: those that close count as ties
    threshold = np.abs(total) - 1e-9 * np.abs(values).sum(axis=0)
    n_reached = np.zeros(values.shape[1])
    block = max(_CHUNK // n, 1)
    for first in range(0, resamples, block):
        words = generator.integers(0, 1 << 64, (min(block, resamples - first), -(-n // 64)), dtype=np.uint64)
        is_plus = np.unpackbits(words.astype("<u8").view(np.uint8), axis=1, count=n)
        # the sum with random signs is twice the sum of the terms with sign +, less the total
        flipped = 2 * (is_plus.astype(np.float64) @ values) - total
        n_reached += (np.abs(flipped) >= threshold).sum(axis=0)
    p_value: FloatArray = (1 + n_reached) / (resamples + 1)
    return p_value


AnyRanks = Ranks | SampledRanks


@dataclass(frozen=True)
class Pairing:
    """Whether two models have users and negatives in common.

    Parameters
    ----------
    is_paired : whether they have the same users
    shares_negatives : whether both were ranked against the same sampled negatives
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
    """Return ranks that can be compared, and notes on users that were left out.

    Every two models have the same users, or none in common.

    Raises
    ------
    InvalidData
        When users overlap in part and ``common_users`` is not set, or targets, pools or designs do not match.
    """
    notes: list[str] = []
    aligned = dict(ranks)
    if options.common_users:
        aligned, notes = _keep_common_users(aligned)
    for a, b in combinations(aligned, 2):
        _check_users(a, aligned[a], b, aligned[b])
        _check_design(a, aligned[a], b, aligned[b], options)
    return aligned, notes


def pairing(a: AnyRanks, b: AnyRanks) -> Pairing:
    """Return what two models with aligned ranks have in common."""
    is_paired = np.array_equal(_users(a), _users(b))
    both = isinstance(a, SampledRanks) and isinstance(b, SampledRanks)
    is_shared = both and a.design == b.design and a.design.shared  # type: ignore[union-attr]
    return Pairing(is_paired, bool(is_paired and is_shared))


def _keep_common_users(ranks: Mapping[str, AnyRanks]) -> tuple[dict[str, AnyRanks], list[str]]:
    """Return the rows of the users that all models have, and a note on how many each model lost."""
    kept: IntArray = reduce(np.intersect1d, [_users(model) for model in ranks.values()])
    if len(kept) == 0:
        raise InvalidData(
            "the models must have users in common, but no user is in all of them. Check that user ids are "
            "written alike."
        )
    notes = [
        f"{name}: {model.n_users - len(kept):,} of {model.n_users:,} users left out, because not all models "
        f"have them."
        for name, model in ranks.items()
        if model.n_users > len(kept)
    ]
    return {name: model.take(np.isin(model.user, kept)) for name, model in ranks.items()}, notes


def _users(ranks: AnyRanks) -> IntArray:
    users: IntArray = ranks.user[ranks.starts]
    return users


def _check_users(a: str, first: AnyRanks, b: str, second: AnyRanks) -> None:
    users, others = _users(first), _users(second)
    if not np.array_equal(users, others):
        n_common = len(np.intersect1d(users, others))
        if n_common == len(users) == len(others):
            raise InvalidData(f"users of {a!r} and {b!r} must come in the same order. Sort the rows by user.")
        if n_common:
            raise InvalidData(
                f"{a!r} and {b!r} must have the same users or none in common, but share {n_common:,} of "
                f"{len(users):,} and {len(others):,}. Compare the shared ones with common_users=True."
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
            f"{a!r} and {b!r} must rank the same pools of items, but one user's pool has {sizes[0]:,} items "
            f"in one and {sizes[1]:,} in the other. Use the same treatment of seen items (seen) for both."
        )

    if not _have_same_gains(first, second):
        raise InvalidData(
            f"{a!r} and {b!r} must have targets of the same gain, but some have another one, or none, in one "
            f"of them. Evaluate both with the same gain."
        )


def _have_same_gains(first: AnyRanks, second: AnyRanks) -> bool:
    if first.gain is None or second.gain is None:
        return first.gain is second.gain
    gains, others = (
        np.asarray(ranks.columns()["gain"])[np.lexsort((ranks.item, ranks.user))] for ranks in (first, second)
    )
    return bool(np.array_equal(gains, others))


def _same_items(first: AnyRanks, second: AnyRanks) -> bool:
    if len(first) != len(second):
        return False
    items, others = (ranks.item[np.lexsort((ranks.item, ranks.user))] for ranks in (first, second))
    return bool(np.array_equal(items, others))


def _check_design(a: str, first: AnyRanks, b: str, second: AnyRanks, options: CompareOptions) -> None:
    """Raise where values are not estimates of the same quantity: naive ones depend on the sample size."""
    if options.estimator.is_global or (isinstance(first, Ranks) and isinstance(second, Ranks)):
        return
    if isinstance(first, Ranks) or isinstance(second, Ranks):
        exact, sampled = (a, b) if isinstance(first, Ranks) else (b, a)
        raise InvalidData(
            f"naive values can be compared only at one sample size, but {exact!r} was ranked against all "
            f"items and {sampled!r} against a sample. Use estimator 'bv'."
        )
    sizes = [np.unique(ranks.n_negatives) for ranks in (first, second)]
    laws = [Design(ranks.design.law, ranks.design.replacement) for ranks in (first, second)]
    if not np.array_equal(sizes[0], sizes[1]) or laws[0] != laws[1]:
        raise InvalidData(
            f"naive values can be compared only at one sample size and design, but those of {a!r} and {b!r} "
            f"differ. Use estimator 'bv', or sample both alike."
        )


@dataclass(frozen=True, eq=False)
class SimultaneousIntervals:
    """Intervals and p-values of all differences, arrays (n_pairs, n_metrics); NaN for a single user.

    Parameters
    ----------
    low, high : limits of the intervals, within [-1, 1]
    p_value, p_adjusted : of the hypothesis of no difference, unadjusted and adjusted for all comparisons
    probability : that the first model is better, bias not counted: Student's distribution function of t
    is_least_p : where ``p_adjusted`` is the least that so many resamples can show; the true one may be less
    """

    low: FloatArray
    high: FloatArray
    p_value: FloatArray
    p_adjusted: FloatArray
    probability: FloatArray
    is_least_p: BoolArray


def simultaneous_intervals(
    paired: PairedDifferences, *, level: float, correction: Correction
) -> SimultaneousIntervals:
    r"""Return intervals and p-values, corrected for multiple comparisons.

    Notes
    -----
    With t = difference/error on n - 1 degrees of freedom and its normal score
    :math:`z = \Phi^{-1}(T_{n-1}(t))`:

    * ``max-t``: the critical score is the quantile of :math:`\max_c |z^*_c|` over resampled users,
      :math:`z^* = \text{shift}/\text{error}`, which accounts for the dependence between comparisons. An
      adjusted p-value is the fraction of maxima that reach :math:`|z|`; it is below 1 - level where the
      interval excludes 0. The interval is difference :math:`\pm T^{-1}_{n-1}(\Phi(z_{crit}))` error.
    * ``holm``: p-values by Holm's step-down procedure, intervals at Bonferroni's level, which may be wider.
    * ``none``: no correction.

    Where few users differ, Student's statistic is too large for means far from 0. So t is the lesser of
    Student's and that of the score test, and an interval the wider one on either side: all means whose
    statistic, of both, does not exceed the critical one.

    A difference c that is equal for all n users has standard error 0. With confidence ``level`` at most a
    fraction :math:`s = 1 - ((1 - \text{level})/2)^{1/n}` of the population differs from c, by at most 1, so
    the mean lies within :math:`c (1 - s) \pm s`, and the p-value is that of the level whose interval ends at
    0: :math:`2 (1 + |c|)^{-n}`. Such differences get their part of 1 - level as in Bonferroni's correction.
    """
    shape = paired.value.shape
    value, error = paired.value.ravel(), paired.error.ravel()
    n_users = np.repeat(paired.n_users, shape[1]).astype(np.float64)
    is_known = np.isfinite(error)
    is_flat = is_known & (error == 0)
    varies = is_known & ~is_flat
    n_comparisons = int(is_known.sum())
    alpha = 1 - level
    single = alpha if correction == "none" else alpha / max(n_comparisons, 1)

    p_value = np.full(len(value), np.nan)
    p_value[is_flat] = np.minimum(2 * (1 + np.abs(value[is_flat])) ** -n_users[is_flat], 1.0)
    free = n_users[varies] - 1
    every = paired.scores or [None] * len(value)
    scores = [score for score, is_used in zip(every, varies, strict=True) if is_used]
    t = _with_scores(value[varies] / error[varies], value[varies], scores)
    p_value[varies] = np.minimum(2 * stdtr(free, -np.abs(t)), 1.0)

    low, high = np.full(len(value), np.nan), np.full(len(value), np.nan)
    fraction = 1 - (single / 2) ** (1 / n_users[is_flat])
    low[is_flat] = value[is_flat] * (1 - fraction) - fraction
    high[is_flat] = value[is_flat] * (1 - fraction) + fraction
    p_adjusted, is_least_p = p_value.copy(), np.zeros(len(value), np.bool_)
    tail: FloatArray = np.full(len(t), single / 2)
    if correction == "max-t" and varies.any():
        part = n_comparisons / int(varies.sum())  # flat differences take their part of alpha
        normal = np.abs(ndtri(stdtr(free, -np.abs(t))))
        shifts = paired.shifts.reshape(len(paired.shifts), -1)[:, varies]
        maxima = np.sort(np.abs(shifts / error[varies]).max(axis=1))
        n_reached = len(maxima) - np.searchsorted(maxima, normal, side="left")
        fractions = part * (1 + n_reached) / (len(maxima) + 1)
        p_adjusted[varies] = np.minimum(np.maximum(fractions, part * p_value[varies]), 1.0)
        is_least_p[varies] = (n_reached == 0) & (fractions >= part * p_value[varies])
        tail[:] = min(float(ndtr(-_critical(maxima, alpha / part))), alpha / part / 2)
        p_adjusted[is_flat] = np.minimum(n_comparisons * p_value[is_flat], 1.0)
    elif correction != "none":
        p_adjusted[is_known] = _holm(p_value[is_known])
    critical = np.where(tail > 0, -stdtrit(free, np.maximum(tail, 1e-300)), np.inf)
    below, above = _widened(critical * error[varies], critical, scores)
    low[varies], high[varies] = value[varies] - below, value[varies] + above

    probability = np.full(len(value), np.nan)
    probability[is_flat] = 0.5 + np.sign(value[is_flat]) * (0.5 - p_value[is_flat] / 2)
    probability[varies] = stdtr(free, t)
    return SimultaneousIntervals(
        np.clip(low, -1, 1).reshape(shape),
        np.clip(high, -1, 1).reshape(shape),
        p_value.reshape(shape),
        p_adjusted.reshape(shape),
        probability.reshape(shape),
        is_least_p.reshape(shape),
    )


def _with_scores(t: FloatArray, value: FloatArray, scores: Sequence[ScoreTest | None]) -> FloatArray:
    """Return, with the sign of t, the lesser of Student's statistic of no difference and the score test's."""
    size = [
        abs(student) if score is None else min(abs(student), score.statistic(-difference))
        for student, difference, score in zip(t, value, scores, strict=True)
    ]
    statistic: FloatArray = np.copysign(size, t)
    return statistic


def _widened(
    half: FloatArray, critical: FloatArray, scores: Sequence[ScoreTest | None]
) -> tuple[FloatArray, FloatArray]:
    """Return how far intervals reach below and above: as far as Student's, or the score test's if farther."""
    below, above = half.copy(), half.copy()
    for place, score in enumerate(scores):
        if score is not None and np.isfinite(critical[place]):
            low, high = score.distances(float(critical[place]))
            below[place], above[place] = max(half[place], low), max(half[place], high)
    return below, above


def _critical(maxima: FloatArray, alpha: float) -> float:
    """Return the critical value: the smallest z whose adjusted p-value is at most alpha."""
    # (1 + #{maxima >= z}) / (B + 1) <= alpha holds for z beyond the maximum that has this many above it
    n_above = int(np.floor(alpha * (len(maxima) + 1))) - 1
    if n_above < 0:
        return float("inf")  # too few resamples for the level: no interval excludes anything
    return float(maxima[len(maxima) - n_above - 1])


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


def count_wins(
    first: ComparedModel, second: ComparedModel, column: int
) -> tuple[int, int, int] | tuple[None, None, None]:
    """Return for how many users the first model has the larger value, an equal one, and the smaller one.

    A sample does not show the value of a single user, so there are no counts where a model was sampled.
    """
    if first.per_user is None or second.per_user is None or first.estimated or second.estimated:
        return None, None, None
    ahead = first.per_user[:, column] - second.per_user[:, column]
    wins, losses = int((ahead > ROUNDING).sum()), int((ahead < -ROUNDING).sum())
    return wins, len(ahead) - wins - losses, losses


def users_needed(value: float, low: float, high: float, n_users: int) -> int | None:
    """Return about how many users would tell the difference from 0; None where no thousandfold number would.

    Examples
    --------
    >>> users_needed(0.01, -0.01, 0.03, 500)
    2000
    """
    if not (low <= 0 <= high) or abs(value) <= ROUNDING:
        return None
    times = ((high - low) / 2 / abs(value)) ** 2
    return math.ceil(times * n_users) if 1 < times < 1000 else None
