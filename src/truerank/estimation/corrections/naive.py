"""Naive: the metric among the sampled items, without correction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from truerank.core.plugin import Source
from truerank.core.types import FloatArray
from truerank.estimation.adaptive_law import check_fixed
from truerank.estimation.base import Estimator, cell_gains
from truerank.estimation.tally import Tally
from truerank.metrics.base import Metric


@dataclass(frozen=True)
class Naive(Estimator):
    r"""The metric of the short list: the sampled negatives and the user's targets.

    What most papers print. It does not estimate the global metric; only AUC has the same expectation. Time
    O(m) per pool. Treats every design but adaptive samples, whose metric depends on the stopping rule.

    .. math:: x[r] = M(r), \qquad n = m + s

    Notes
    -----
    The list has m + s items, with s targets of the user, so AUC divides by m and not by the pool.

    Examples
    --------
    >>> str(Naive())
    'naive'
    """

    key: ClassVar[str] = "naive"
    is_global: ClassVar[bool] = False
    source: ClassVar[Source] = Source("rendle2019", "Sec. 4")

    def correct_sample(self, tally: Tally, metrics: Sequence[Metric]) -> FloatArray:
        """Return the value of each metric in each cell, (n_cells, n_metrics)."""
        check_fixed(self, tally, "a metric of lists whose length depends on what was drawn estimates nothing")
        return cell_gains(tally, metrics, tally.contexts.n_negatives + tally.contexts.n_relevant)
