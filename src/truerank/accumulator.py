"""Composer: sampled ranks of a validation loop in, estimated metrics out."""

from __future__ import annotations

from collections.abc import Sequence

from truerank.core.estimator import Estimator
from truerank.core.metric import Metric
from truerank.core.ranks import TiePolicy
from truerank.core.result import Result
from truerank.estimation import DEFAULT_ESTIMATORS, estimate
from truerank.ranks.accumulator import RankCollector


class RankAccumulator(RankCollector):
    """Metrics of a validation loop: ``update`` with every batch, ``compute`` at its end, then ``reset``.

    Works with torch tensors and NumPy arrays alike and needs neither a metrics library nor a split. For
    several processes, gather the accumulators and ``merge`` them. Parameters as in ``RankCollector``.

    Examples
    --------
    >>> import numpy as np
    >>> metric = RankAccumulator(n_items=10)
    >>> metric.update(np.array([0.7, 0.2]), np.array([[0.1, 0.3, 0.9], [0.0, 0.1, 0.1]]))
    >>> round(metric.compute("recall@2", "naive").value("recall@2"), 3)
    1.0
    """

    def compute(
        self,
        metrics: str | Metric | Sequence[str | Metric] = "ndcg@10,recall@10",
        estimators: str | Estimator | Sequence[str | Estimator] = DEFAULT_ESTIMATORS,
        *,
        ties: TiePolicy = "expected",
        level: float = 0.95,
        seed: int = 0,
    ) -> Result:
        """Return what ranking all items would give, estimated from all batches; see ``estimate``."""
        return estimate(self.ranks(), metrics, estimators, ties=ties, level=level, seed=seed)
