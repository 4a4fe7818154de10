"""Sampling law of adaptive samples, which grow round by round until a stopping rule holds.

An outcome is a pair (m, j): sampling ended with m negatives, j of them above the target. Also here: the laws
that the contexts of a tally follow, fixed or adaptive, and the checks that an adaptive sample can come from
its stopping rule and that an estimator can treat it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from truerank.core.errors import CannotEstimate, InvalidData
from truerank.core.parallel import available_threads, ordered_map, single_threaded_blas
from truerank.core.plugin import Source
from truerank.core.ranks import Design, Stopping
from truerank.core.types import FloatArray, IntArray, frozen
from truerank.estimation.base import Estimator
from truerank.estimation.law import BLOCK, TINY, Hypergeometric, Law, Round, make_law
from truerank.estimation.law_compiled import dot_rows, fill_round
from truerank.estimation.tally import Tally

_RARE = 1e-20  # rarer outcomes, whatever the rank, take the value of the last one of their round
_CUT = 1e-30  # fraction of the probability of a round that may be lost with the rows it leaves out
_CHUNK = 256


@dataclass(frozen=True)
class AdaptiveLaw(Law):
    r"""P(m, j | J): sampling ends with m negatives, j of which rank above a target that J of L beat.

    The draws of a sample are exchangeable, so given that j of m are above, their order does not depend on J.
    The probability that the rule let the sample grow to m is therefore a factor that does not depend on J:

    .. math:: P(m_t, j \mid J) = h_t(j) \, P(j \mid J; m_t), \qquad
              h_t(j) = \sum_{k < q} P(k \mid j; m_{t-1} \text{ of } m_t) \, h_{t-1}(k)

    with P(j | J; m) the law of a fixed sample, binomial or hypergeometric, and the first factor under the sum
    hypergeometric under both. Outcomes are ordered by round, then by j.

    Parameters
    ----------
    n_candidates : L >= 1
    stopping : the rule; without replacement no sample is larger than the pool
    replacement : whether an item can be drawn twice

    Notes
    -----
    Outcomes whose factor is below 1e-20 are not among ``n_outcomes``: when samples double and q = 1, all j
    items above the target are in the last half with probability 2^-j, so of 3,200 outcomes about 450 are
    left. Those left out take the value of the last one of their round; the probability that one occurs is
    below 1e-16.

    Examples
    --------
    >>> law = AdaptiveLaw(4, Stopping((1, 2)), replacement=True)
    >>> list(zip(law.outcome_sizes.tolist(), law.outcome_above.tolist()))
    [(1, 1), (2, 0), (2, 1)]
    >>> law.pmf([1]).tolist()  # 1/4 at once, 3/4 * 3/4 never, 3/4 * 1/4 in the second round
    [[0.25, 0.5625, 0.1875]]
    """

    stopping: Stopping
    replacement: bool
    source: ClassVar[Source] = Source("li2023", "Algorithm 1")

    @property
    def design(self) -> Design:
        """Uniform samples that grow by the rule."""
        return Design(replacement=self.replacement, stopping=self.stopping)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """The sizes a sample can have."""
        return self.stopping.sizes if self.replacement else self.stopping.sizes_in(self.n_candidates)

    @cached_property
    def rounds(self) -> tuple[Round, ...]:
        """The outcomes with which each round can end."""
        q, sizes = self.stopping.rank, self.sizes
        rounds = []
        reached: FloatArray = np.ones(sizes[0] + 1)
        before: FloatArray = np.zeros(0)
        for number, size in enumerate(sizes):
            if number:
                before = reached[:q]
                reached = _reached(size, sizes[number - 1], before, q)
            is_last = number == len(sizes) - 1
            first = 0 if is_last else q
            added = size - sizes[number - 1] if number else size
            last = min(size, added + (len(before) - 1 if number else 0))
            law = make_law(self.n_candidates, size, replacement=self.replacement)
            rounds.append(Round(law, first, last, frozen(reached[first:]), frozen(before)))
        return tuple(rounds)

    @property
    def locations(self) -> FloatArray:
        """Return j/m."""
        fractions: FloatArray = self.outcome_above / self.outcome_sizes
        return fractions

    def pmf(self, n_above: ArrayLike) -> FloatArray:
        """Return P(outcome | J) for each J, (..., n_outcomes); rows sum to 1."""
        above = self._checked(n_above)
        return self.fill(above.ravel(), len(self.sizes), TINY).reshape(*above.shape, self.n_outcomes)

    def fill(self, above: IntArray, n_rounds: int, floor: float) -> FloatArray:
        """Return P(outcome | J) for the outcomes of the first rounds, (len(above), n).

        Terms of the first round below ``floor``, relative to the largest of their row, are 0.
        """
        rows = np.zeros((len(above), int(self.offsets[n_rounds])))
        L, replacement = self.n_candidates, self.replacement
        for number, reached in enumerate(self.rounds[:n_rounds]):
            part = rows[:, self.offsets[number] : self.offsets[number + 1]]
            least = TINY if number else floor
            fill_round(above, L, replacement, reached.law.odds, least, reached.first, reached.factor, part)
        return rows

    def rows(self, start: int, stop: int, *, floor: float = TINY) -> FloatArray:
        """Return P(outcome | J) for J = start..stop-1."""
        return self.fill(np.arange(start, stop), len(self.rounds), floor)

    def mean_size(self, n_above: ArrayLike) -> FloatArray:
        """Return the expected number of negatives for each J."""
        return self.pmf(n_above) @ self.outcome_sizes

    def add(self, values: FloatArray, limits: IntArray | None = None, *, floor: float = TINY) -> FloatArray:
        """Return the sums over J of P(outcome | J) values[c, J], (n_columns, n_outcomes)."""
        needed = self._all_rows if limits is None else limits
        total = np.zeros((len(values), self.n_outcomes))
        for number, reached in enumerate(self.rounds):
            kept = slice(reached.first, reached.first + len(reached.factor))
            columns = slice(self.offsets[number], self.offsets[number + 1])
            sums = reached.law.add(values[:, : needed[number]], floor=TINY if number else floor)
            total[:, columns] = sums[:, kept] * reached.factor
        return total

    def dot(self, dual: FloatArray, limits: IntArray | None = None, *, floor: float = TINY) -> FloatArray:
        """Return the sum over outcomes of P(outcome | J) dual[outcome] for J = 0..L, (L + 1,)."""
        needed = self._all_rows if limits is None else limits
        result = np.zeros(self.n_candidates + 1)
        for number, reached in enumerate(self.rounds):
            padded = np.zeros(reached.law.n_negatives + 1)
            values = dual[self.offsets[number] : self.offsets[number + 1]] * reached.factor
            padded[reached.first : reached.first + len(values)] = values
            part = np.zeros(int(needed[number]))
            least = TINY if number else floor
            dot_rows(0, self.n_candidates, self.replacement, reached.law.odds, least, padded, part)
            result[: len(part)] += part
        return result

    def limits_of(self, prior: FloatArray) -> IntArray:
        """Return how many rows, J = 0, 1, ..., each round needs under a prior over J, (n_rounds,).

        Only targets near the top get to a late round. The rows left out have less than 1e-30 of the
        probability of a round.
        """
        size = self.n_candidates + 1
        some = np.unique(np.geomspace(1, size, 100).astype(np.int64)) - 1
        up_to, from_on = np.cumsum(prior)[some], np.cumsum(prior[::-1])[::-1][some]
        limits = [size]
        for reached, earlier in zip(self.rounds[1:], self.rounds, strict=False):
            reach = earlier.law.pmf(some)[:, : len(reached.entered)] @ reached.entered  # decreasing in J
            is_over = reach * from_on <= _CUT * (reach * up_to).max()
            limits.append(int(some[np.argmax(is_over)]) if is_over.any() else size)
        return np.maximum.accumulate(np.array(limits)[::-1])[::-1]

    def gram(self, prior: FloatArray, *, floor: float) -> FloatArray:
        """Return A'DA, (n_outcomes, n_outcomes).

        Rows far down the list have entries in the first round alone, and there in a window of j; the full
        width is needed near the top only. Memory O(n_outcomes^2), time O(N w^2) with w the entries of a row.
        """
        limits = self.limits_of(prior)

        def part(rows: tuple[int, int, int]) -> tuple[slice, FloatArray]:
            start, stop, n_rounds = rows
            weights = prior[start:stop]
            above = start + np.flatnonzero(weights)
            dense = self.fill(above, n_rounds, floor)
            used = np.flatnonzero(dense.any(axis=0))
            if len(used) == 0:
                return slice(0, 0), np.zeros((0, 0))
            columns = slice(int(used[0]), int(used[-1]) + 1)
            root = dense[:, columns] * np.sqrt(prior[above])[:, None]
            return columns, root.T @ root

        gram = np.zeros((self.n_outcomes, self.n_outcomes))
        with single_threaded_blas():
            for columns, added in ordered_map(part, self._pieces(limits), n_threads=available_threads()):
                gram[columns, columns] += added
        return gram

    def _pieces(self, limits: IntArray) -> list[tuple[int, int, int]]:
        """Return (first row, one past the last, rounds they get to) of blocks that fit into memory."""
        pieces = []
        start = 0
        for n_rounds, end in zip(range(len(limits), 0, -1), limits[::-1].tolist(), strict=True):
            step = max(BLOCK // max(int(self.offsets[n_rounds]), 1), 1)
            while start < end:
                stop = min(start + step, end)
                pieces.append((start, stop, n_rounds))
                start = stop
        return pieces

    @property
    def _all_rows(self) -> IntArray:
        return np.full(len(self.sizes), self.n_candidates + 1)


def _reached(size: int, earlier: int, before: FloatArray, q: int) -> FloatArray:
    """Return the probability that a sample grew from ``earlier`` to ``size``, given j of ``size`` above.

    For j = 0, 1, ... until it is negligible, and for j <= q in any case. It is decreasing in j.
    """
    law, probability = Hypergeometric(size, earlier), np.zeros(0)
    for start in range(0, size + 1, _CHUNK):
        j = np.arange(start, min(start + _CHUNK, size + 1))
        probability = np.concatenate([probability, law.pmf(j)[:, : len(before)] @ before])
        if probability[-1] < _RARE and len(probability) > q:
            break
    n_kept = max(int(np.searchsorted(-probability, -_RARE, side="right")), q + 1)
    return probability[:n_kept]


def stopping_of(tally: Tally) -> Stopping | None:
    """Return the rule by which samples grew; None for samples of fixed size and for rules of one size."""
    stopping = tally.design.stopping
    return stopping if stopping is not None and len(stopping.sizes) > 1 else None


def check_fixed(estimator: Estimator, tally: Tally, reason: str) -> None:
    """Raise for adaptive samples, whose size depends on the rank."""
    if stopping_of(tally) is not None:
        raise CannotEstimate(
            f"'{estimator}' cannot treat adaptive samples, because {reason}. Use estimator 'mle' or 'bv'."
        )


def outcome_laws(tally: Tally) -> Sequence[tuple[Law, IntArray]]:
    """Return the laws of a tally and the contexts that follow each.

    Samples of fixed size have one law per pair of sample and pool size, adaptive ones one per pool size.
    """
    rule = stopping_of(tally)
    if rule is not None:
        return _adaptive_laws(tally, rule)
    replacement = tally.design.replacement
    return [(make_law(size, m, replacement=replacement), rows) for m, size, rows in tally.contexts.laws()]


def check_outcomes(tally: Tally) -> None:
    """Raise unless every row of an adaptive sample can come from the stopping rule.

    Ties may put more items above a target than the last round of its sample added; that is checked only for
    rows that were not spread over a tied block.

    Raises
    ------
    InvalidData
        When a sample has a size that is not among those of the rule, or did not stop where the rule does.
    """
    rule = stopping_of(tally)
    if rule is None:
        return
    for law, rows in _adaptive_laws(tally, rule):
        for row in rows.tolist():
            size = int(tally.contexts.n_negatives[row])
            if size not in law.sizes:
                raise InvalidData(
                    f"adaptive samples from {law.n_candidates} candidates must have one of the sizes "
                    f"{law.sizes}, got {size}. Correct the table or its stopping rule."
                )
            _check_cells(tally, row, law)


def _adaptive_laws(tally: Tally, rule: Stopping) -> list[tuple[AdaptiveLaw, IntArray]]:
    sizes, which = np.unique(tally.contexts.n_candidates, return_inverse=True)
    return [
        (AdaptiveLaw(int(size), rule, tally.design.replacement), np.flatnonzero(which == number))
        for number, size in enumerate(sizes)
    ]


def _check_cells(tally: Tally, row: int, law: AdaptiveLaw) -> None:
    """Raise unless sampling can have ended with the sampled ranks of one context."""
    size, q = int(tally.contexts.n_negatives[row]), law.stopping.rank
    seen = np.flatnonzero((tally.counts(row) > 0) & ~law.is_possible(size))
    if len(seen) == 0:
        return
    outcome = f"a sample with {size} negatives and rank {int(seen[0]) + 1} cannot come from the stopping rule"
    if seen[0] < q:
        raise InvalidData(
            f"{outcome}, which goes on sampling while the rank is at most {q}. Correct the table or its "
            f"stopping rule."
        )
    if tally.ties not in ("expected", "best"):
        return
    first = int(tally.offsets[row])
    is_whole = np.isin(tally.cell, first + seen) & (tally.weight == 1)
    if is_whole.any():
        raise InvalidData(
            f"{outcome}, whose last round adds fewer items above the target. Correct the table or its "
            f"stopping rule."
        )
