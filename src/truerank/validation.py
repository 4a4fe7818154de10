"""Composer: how good a scorer is on the validation part of a split."""

from __future__ import annotations

from functools import partial

from truerank.core.model import Validate
from truerank.core.ranks import SeenPolicy
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.metrics import make_metrics, values
from truerank.ranks import exact_ranks


def make_validate(
    split: Split,
    metric: str | None = None,
    *,
    seen: SeenPolicy = "remove",
    n_threads: int | None = None,
) -> Validate | None:
    """Return what early stopping watches: a metric over all items on the validation part.

    The test part is not looked at, and its items stay in the pool. None when there is no validation part.
    The metric is NDCG@10 unless another one is named (over all items where pools are smaller).

    Examples
    --------
    >>> import numpy as np
    >>> from truerank.core.interactions import Interactions
    >>> from truerank.core.scorer import as_scorer
    >>> train, valid, test = (Interactions.from_codes([0], [item], n_items=4) for item in (0, 1, 2))
    >>> validate = make_validate(Split(train, test, valid), "recall@1")
    >>> validate(as_scorer(np.array([[9.0, 3.0, 1.0, 2.0]])))
    1.0
    """
    if split.valid is None or len(split.valid) == 0:
        return None
    held_out = Split(split.train, split.valid, method=split.method)
    return partial(_mean, split=held_out, metric=metric, seen=seen, n_threads=n_threads)


def _mean(scorer: Scorer, split: Split, metric: str | None, seen: SeenPolicy, n_threads: int | None) -> float:
    ranks = exact_ranks(scorer, split, seen=seen, n_threads=n_threads)
    chosen = make_metrics(metric or f"ndcg@{min(10, int(ranks.n_pool.max()))}")
    return float(values(chosen, ranks).mean())
