"""Rank estimate: the metric at an unbiased estimate of the global rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from truerank.core.errors import check_choice
from truerank.core.plugin import Source
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.adaptive_law import check_fixed
from truerank.estimation.base import Estimator, check_uniform
from truerank.estimation.tally import Contexts, Tally
from truerank.metrics.base import Metric

_REASON = "j/m is not an unbiased estimate of J/L where m depends on what was drawn"


@dataclass(frozen=True)
class RankEstimate(Estimator):
    r"""The metric at the unbiased estimate of the global rank.

    Unbiased for the rank, not for the metric: with (N - 1)/m above the cut-off, recall and NDCG count sampled
    rank 1 only, with its full gain. Time O(m) per pool.

    .. math:: x[r] = M\big( \lfloor 1 + (N - 1)(r - 1)/m \rfloor \big)

    Parameters
    ----------
    round : ``floor`` takes the metric at the next better rank, as in the paper; ``linear`` interpolates the
        metric between the two ranks around the estimate

    Notes
    -----
    Differs from the paper: relevant items above the target are known, so only irrelevant ones are scaled up.

    Examples
    --------
    >>> str(RankEstimate("linear"))
    'rank-estimate(round=linear)'
    """

    round: Literal["floor", "linear"] = "floor"
    key: ClassVar[str] = "rank-estimate"
    source: ClassVar[Source] = Source("krichene2020", "Eq. 20")

    def __post_init__(self) -> None:
        check_choice("round", self.round, ("floor", "linear"))

    def correct_sample(self, tally: Tally, metrics: Sequence[Metric]) -> FloatArray:
        """Return the corrected value of each metric in each cell, (n_cells, n_metrics)."""
        check_uniform(self, tally)
        check_fixed(self, tally, _REASON)
        j, each = tally.cells()
        low, fraction = self._ranks(j, each)
        return np.stack([_interpolated(metric, low, fraction, each) for metric in metrics], axis=1)

    def weigh_sample(self, tally: Tally) -> list[FloatArray]:
        """Return, per context, weights over J = 0..L irrelevant items above the target."""
        check_uniform(self, tally)
        check_fixed(self, tally, _REASON)
        result: list[FloatArray] = []
        for row in range(len(tally.contexts)):
            context = tally.contexts.take(np.array([row]))
            low, fraction = self._ranks(np.arange(int(context.n_negatives[0]) + 1), context)
            counts = tally.counts(row) / tally.n_users
            size = int(context.n_candidates[0]) + 1
            weights = np.zeros(size)
            np.add.at(weights, low, counts * (1 - fraction))
            np.add.at(weights, np.minimum(low + 1, size - 1), counts * fraction)
            result.append(weights)
        return result

    def _ranks(self, j: IntArray, contexts: Contexts) -> tuple[IntArray, FloatArray]:
        """Return floor(L j/m) and the fractional part; 0 unless ``round`` is ``linear``."""
        low, remainder = np.divmod(contexts.n_candidates * j, contexts.n_negatives)
        fraction = remainder / contexts.n_negatives if self.round == "linear" else np.zeros(len(j))
        return low, fraction


def _interpolated(metric: Metric, low: IntArray, fraction: FloatArray, contexts: Contexts) -> FloatArray:
    value = contexts.gains(metric, low + 1 + contexts.n_relevant_above)
    if fraction.any():
        high = np.minimum(low + 1, contexts.n_candidates)
        value += fraction * (contexts.gains(metric, high + 1 + contexts.n_relevant_above) - value)
    return value
