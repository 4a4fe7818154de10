r"""Grades: how much each target is worth, and the weights that metrics make of it.

The gain of a target is a known number above 0, from its rating or judgement. A graded metric is a sum over
targets of a weight times a function of the rank; the weight is known even where ranks are estimated, because
all targets of a user are scored: their gains and their order among themselves are known. Items of gain 0
are judged but not relevant: they are no targets.

Where targets tie with each other, a weight that depends on the targets before it is the exact mean over all
orders. Of n tied targets with factors q, k of which in random order come first, the mean product is

.. math:: E_k = e_k(q) \Big/ \binom{n}{k}

with the elementary symmetric polynomial :math:`e_k`. Adding a factor to n - 1 of them makes it
:math:`((n - k) E_k + k q E_{k-1}) / n`, a mean of numbers between 0 and 1, so that nothing is cancelled.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, Literal, TypeVar

import numpy as np

from truerank.core.errors import InvalidData, check_choice
from truerank.core.interactions import Interactions
from truerank.core.plugin import Plugin, Registry
from truerank.core.ranks import Ranks, SampledRanks, TiePolicy
from truerank.core.split import Split
from truerank.core.types import FloatArray, IntArray

RanksT = TypeVar("RanksT", Ranks, SampledRanks)


@dataclass(frozen=True)
class Gain(Plugin, ABC):
    """How much a held-out item is worth."""

    @abstractmethod
    def of_ratings(self, ratings: FloatArray) -> FloatArray:
        """Return the gain of each rating, at least 0.

        Raises
        ------
        InvalidData
            When a rating has no gain.
        """


@dataclass(frozen=True)
class RatingGain(Gain):
    """The rating of the held-out event, or two to its power less one.

    Parameters
    ----------
    form : ``linear`` is the rating r itself, ``exp2`` is 2^r - 1, which tells high grades further apart

    Examples
    --------
    >>> RatingGain().of_ratings(np.array([0.0, 4.5])).tolist()
    [0.0, 4.5]
    >>> RatingGain(form="exp2").of_ratings(np.array([0.0, 1.0, 5.0])).tolist()
    [0.0, 1.0, 31.0]
    """

    form: Literal["linear", "exp2"] = "linear"
    key: ClassVar[str] = "rating"

    def __post_init__(self) -> None:
        check_choice("form", self.form, ("linear", "exp2"))

    def of_ratings(self, ratings: FloatArray) -> FloatArray:
        """Return the gain of each rating."""
        least = float(ratings.min(initial=0.0))
        if not least >= 0:
            raise InvalidData(
                f"ratings that are gains must be at least 0, got {least:g}. Shift the scale so that it "
                "begins at 0, or leave gain out."
            )
        values = np.asarray(ratings, dtype=np.float64)
        with np.errstate(over="ignore"):
            gains: FloatArray = values if self.form == "linear" else np.exp2(values) - 1
        if not np.isfinite(gains).all():
            raise InvalidData(
                f"gains must be finite, but 2 to the power of {values.max():g} is not. Use gain 'rating', or "
                "divide the ratings."
            )
        return gains


GAINS: Registry[Gain] = Registry(
    "gain", {"rating": "truerank.metrics.grades:RatingGain"}, {"grade": "rating"}, base=Gain
)


def graded_split(split: Split, gain: Gain) -> Split:
    """Return the split with the gains of its test events as their ratings; those of gain 0 are no targets.

    Items of gain 0 stay in the pool, where they compete as irrelevant ones.

    Raises
    ------
    InvalidData
        When the test part has no ratings, a rating has no gain, or no target is left.

    Examples
    --------
    >>> train = Interactions.from_codes([0], [0], n_users=1, n_items=4)
    >>> test = Interactions.from_codes([0, 0], [1, 2], n_users=1, n_items=4, value=np.array([0.0, 3.0]))
    >>> graded_split(Split(train, test), RatingGain()).test.item.tolist()
    [2]
    """
    if split.test.value is None:
        raise InvalidData(
            f"gain '{gain}' needs a rating for each test event, but '{split.test.name}' has none. Name the "
            "column of ratings, or leave gain out."
        )
    gains = gain.of_ratings(split.test.value)
    kept = gains > 0
    if not kept.any():
        raise InvalidData(
            "at least one test event must have a gain above 0, but none has. Shift the ratings, or leave "
            "gain out."
        )
    test = replace(split.test, value=gains).where(kept)
    if kept.all():
        return replace(split, test=test)
    counts = dict(split.counts)
    counts["targets_without_gain"] = int((~kept).sum())
    counts["users_without_targets"] = int((test.user_counts() == 0).sum())
    return replace(split, test=test, counts=counts)


def with_gains(ranks: RanksT, test: Interactions) -> RanksT:
    """Return the ranks of the targets of a graded test part, with their gains.

    Examples
    --------
    >>> test = Interactions.from_codes([0, 0], [2, 1], n_items=4, value=np.array([5.0, 3.0]))
    >>> none, two = np.zeros(2, dtype=np.int64), np.full(2, 2)
    >>> ranks = Ranks(none, np.array([1, 2]), np.array([0, 3]), none, 2 * two, two, np.array([0, 1]), none)
    >>> with_gains(ranks, test).gain.tolist()
    [3.0, 5.0]
    """
    keys = test.user.astype(np.int64) * test.n_items + test.item
    order = np.argsort(keys, kind="stable")
    wanted = ranks.user.astype(np.int64) * test.n_items + ranks.item
    place = np.searchsorted(keys[order], wanted, side="right") - 1  # of repeated events the last
    gain: FloatArray = np.asarray(test.value, dtype=np.float64)[order[place]]
    return replace(ranks, gain=gain)


def extreme_order(gain: FloatArray | None, ties: TiePolicy, rows: IntArray) -> FloatArray:
    """Return by what ``best`` and ``worst`` order tied targets: falling or rising gain; else zeros."""
    if gain is None or ties not in ("best", "worst"):
        return np.zeros(len(rows))
    return -gain[rows] if ties == "best" else gain[rows]


@dataclass(frozen=True, eq=False)
class GradedTargets:
    """Targets with their gains, and what is known about the order of those of one user.

    Parameters
    ----------
    gain : (n,) above 0
    user : (n,) position of the user, ascending
    n_relevant : (n,) targets of the user
    n_before : (n,) targets of the user that come before this one in any order of the ties
    n_tied : (n,) other targets of the user in its tied block, in random order; 0 where the order is decided
    unranked_user, unranked_gain : targets without a row, such as relevant documents that were not retrieved
    largest : the largest gain of all targets
    """

    gain: FloatArray
    user: IntArray
    n_relevant: IntArray
    n_before: IntArray
    n_tied: IntArray
    unranked_user: IntArray
    unranked_gain: FloatArray
    largest: float

    @classmethod
    def of(
        cls,
        ranks: Ranks | SampledRanks,
        n_before: IntArray,
        n_tied: IntArray,
        unranked: tuple[IntArray, FloatArray] | None = None,
    ) -> GradedTargets:
        """Return the targets of a table with gains.

        Parameters
        ----------
        ranks : the table
        n_before, n_tied : of each row, as in ``GradedTargets``
        unranked : user codes, as in the table, and gains of targets without a row
        """
        if ranks.gain is None:
            raise InvalidData("ranks without a column gain have no grades. Give the gain of each target.")
        starts = ranks.starts
        user = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(ranks)))
        more_user: IntArray = np.zeros(0, dtype=np.int64)
        more_gain: FloatArray = np.zeros(0)
        largest = float(np.max(ranks.gain, initial=0.0))
        if unranked is not None:
            largest = float(np.max(unranked[1], initial=largest))
            position = {int(code): place for place, code in enumerate(ranks.user[starts])}
            place = np.array([position.get(int(code), -1) for code in unranked[0]], dtype=np.int64)
            more_user, more_gain = place[place >= 0], unranked[1][place >= 0]
        return cls(ranks.gain, user, ranks.n_relevant, n_before, n_tied, more_user, more_gain, largest)

    @cached_property
    def complete(self) -> GradedTargets:
        """These targets, if none of a user is missing.

        Raises
        ------
        InvalidData
            When a user has fewer rows than targets, so that gains are not known.
        """
        if len(self.user) == 0:
            return self
        known = np.bincount(self.user) + np.bincount(self.unranked_user, minlength=int(self.user[-1]) + 1)
        is_wrong = known[self.user] != self.n_relevant
        if is_wrong.any():
            row = int(np.argmax(is_wrong))
            raise InvalidData(
                f"a graded metric needs the gains of all targets of a user, but row {row} (counted from 0) "
                f"is of a user with {self.n_relevant[row]} targets and {known[self.user[row]]} rows. Give "
                "all rows of a user."
            )
        return self

    def ideal_sums(self, discounts: FloatArray) -> FloatArray:
        """Return, per user, the sum of gain times discount with all targets on top, highest gain first.

        Parameters
        ----------
        discounts : of ranks 1, 2, ...; targets beyond them add nothing
        """
        gain = np.concatenate([self.gain, self.unranked_gain])
        user = np.concatenate([self.user, self.unranked_user])
        order = np.lexsort((-gain, user))
        counts = np.bincount(user)
        first = np.cumsum(counts) - counts
        place = np.arange(len(order)) - first[user[order]]
        within = place < len(discounts)
        terms = gain[order[within]] * discounts[place[within]]
        sums: FloatArray = np.bincount(user[order[within]], weights=terms, minlength=len(counts)).astype(
            float
        )
        return sums

    @cached_property
    def _ordered(self) -> list[IntArray]:
        """The rows of users with equally many of them, best first, each (n_users, n_rows)."""
        order = np.lexsort((self.n_before, self.user))
        counts = np.bincount(self.user)
        first = np.cumsum(counts) - counts
        sizes = np.unique(counts[counts > 0])
        return [order[first[counts == size][:, None] + np.arange(size)] for size in sizes.tolist()]

    def product_before(self, factor: FloatArray) -> FloatArray:
        """Return the product of the factors of the targets that come before each in any order of the ties."""
        result = np.empty(len(factor))
        for rows in self._ordered:
            products = np.ones(rows.shape)
            np.cumprod(factor[rows[:, :-1]], axis=1, out=products[:, 1:])
            result[rows] = np.take_along_axis(products, self.n_before[rows], axis=1)
        return result

    def tied_products(self, factor: FloatArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield tied targets, (n,), and the mean product of k of the others' factors, (n, block size).

        Column k is the mean over all orders of the product over the tied targets before it, if these are k.
        """
        tied = np.flatnonzero(self.n_tied > 0)
        tied = tied[np.lexsort((self.n_before[tied], self.user[tied]))]
        for others in np.unique(self.n_tied[tied]).tolist():
            rows = tied[self.n_tied[tied] == others].reshape(-1, others + 1)
            for start in range(0, len(rows), max(_MOST_PRODUCTS // (others + 1) ** 2, 1)):
                part = rows[start : start + max(_MOST_PRODUCTS // (others + 1) ** 2, 1)]
                yield part.ravel(), _mean_products(factor[part]).reshape(part.size, others + 1)


_MOST_PRODUCTS = 1 << 21  # mean products in memory at once: 16 MB


def _mean_products(factor: FloatArray) -> FloatArray:
    """Return the mean products of k = 0..n-1 of the other factors, for each of n, (n_blocks, n, n).

    Examples
    --------
    >>> _mean_products(np.array([[0.5, 0.25, 1.0]]))[0, 2].tolist()  # 1, (0.5 + 0.25)/2, 0.5 * 0.25
    [1.0, 0.375, 0.125]
    """
    n_blocks, size = factor.shape
    means = np.zeros((n_blocks, size, size))
    means[:, :, 0] = 1.0
    k = np.arange(1, size)
    for added in range(size):
        for members, n in ((slice(added), added), (slice(added + 1, None), added + 1)):
            if n == 0 or members == slice(size, None):
                continue
            now = means[:, members]
            step = (n - k) * now[:, :, 1:] + k * factor[:, None, added, None] * now[:, :, :-1]
            now[:, :, 1:] = np.where(k <= n, step / n, 0.0)
    return means
