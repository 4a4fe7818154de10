"""Differences between models, how far they may be off, and how they move together over resampled users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from truerank.comparison.entry import Entry
from truerank.comparison.options import Options
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.stream import stage_key, stream
from truerank.core.types import FloatArray, IntArray
from truerank.core.uncertainty import Estimated
from truerank.inference.resample import draw_counts

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


def contrast(
    entries: Sequence[Entry],
    pairs: Sequence[tuple[int, int]],
    options: Options,
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

    def __init__(self, entries: Sequence[Entry], options: Options, progress: Progress) -> None:
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
            from truerank.uncertainty import resampled

            found = [cast(Estimated, self.entries[index].found) for index in fitted]
            tables = resampled(
                found, target="population", resamples=options.resamples, seed=seed, progress=progress
            )
            for index, table in zip(fitted, tables, strict=True):
                self.moved[index] = table - self.entries[index].value
        summed = [index for index in group if self.entries[index].per_user is not None]
        if summed:
            columns = np.concatenate([self._per_user(index) for index in summed], axis=1)
            means = resampled_means(columns, options.resamples, seed, progress)
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


def resampled_means(values: FloatArray, resamples: int, seed: int, progress: Progress = SILENT) -> FloatArray:
    """Return column means over users drawn with replacement, (resamples, n_columns).

    Resample b draws the users that ``truerank.uncertainty.resampled`` draws for the same seed, so that exact
    values can be paired with fitted ones. O(resamples x n_users x n_columns).

    Examples
    --------
    >>> resampled_means(np.ones((5, 1)), 3, 0).tolist()
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
