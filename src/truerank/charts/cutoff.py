"""Which metrics and cut-offs charts show."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from truerank.core.metric import Metric
from truerank.metrics import make_metrics

#: Cut-offs of metrics along a logarithmic axis.
LADDER = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500)
#: Those to take where each costs time, the ones that tell most first.
TELLING = (10, 1, 100, 30, 3, 300, 50, 5, 20, 500)
_FAMILIES = 3
_STAND_IN = 10


def families(metrics: Iterable[str], largest: int) -> tuple[Metric, ...]:
    """Return the metrics with a cut-off, one for each kind and three at most; recall where there is none.

    Parameters
    ----------
    metrics : spec strings
    largest : items of the largest pool

    Examples
    --------
    >>> [str(metric) for metric in families(["ndcg@10", "ap", "ndcg@5", "recall@10"], 1000)]
    ['ndcg@10', 'recall@10']
    >>> [str(metric) for metric in families(["auc"], 7)]
    ['recall@7']
    """
    found: dict[Metric, Metric] = {}
    for metric in make_metrics(list(metrics)):
        if metric.cutoff is not None:
            found.setdefault(replace(metric, cutoff=1), metric)
    if not found:
        return make_metrics(f"recall@{min(_STAND_IN, largest)}")
    return tuple(found.values())[:_FAMILIES]


def at_cutoffs(metric: Metric, cutoffs: Iterable[int]) -> tuple[Metric, ...]:
    """Return the metric at other cut-offs."""
    return tuple(replace(metric, cutoff=k) for k in cutoffs)


def family_name(metric: Metric) -> str:
    """Return the metric with K in the place of its cut-off.

    Examples
    --------
    >>> [family_name(metric) for metric in make_metrics("recall@10,ap(norm=rel)@5")]
    ['recall@K', 'ap(norm=rel)@K']
    """
    return f"{replace(metric, cutoff=None)}@K"


def ladder(metric: Metric, largest: int, *, least: int = 1) -> tuple[int, ...]:
    """Return the cut-offs of a curve: round ones up to 500, and the metric's own.

    Examples
    --------
    >>> ladder(make_metrics("recall@12")[0], 25)
    (1, 2, 3, 5, 7, 10, 12, 15, 20)
    """
    own = set() if metric.cutoff is None else {metric.cutoff}
    return tuple(sorted(k for k in {*LADDER, *own} if least <= k <= largest))


def telling(metric: Metric, largest: int, number: int) -> tuple[int, ...]:
    """Return the metric's own cut-off and others that tell most, ascending, ``number`` of them at most.

    Examples
    --------
    >>> telling(make_metrics("recall@7")[0], 60, 4)
    (1, 7, 10, 30)
    """
    own = [] if metric.cutoff is None else [metric.cutoff]
    ordered = dict.fromkeys([*own, *(k for k in TELLING if k <= largest)])
    return tuple(sorted(list(ordered)[: min(number, len(TELLING))]))
