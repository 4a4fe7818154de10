"""Composer: sampled ranks in, estimated metrics out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from truerank.core.check import check_choice, check_level
from truerank.core.errors import InvalidParameter
from truerank.core.estimate import Estimate
from truerank.core.estimator import Estimator
from truerank.core.metric import Metric
from truerank.core.ranks import TIE_POLICIES, SampledRanks, TiePolicy
from truerank.core.result import Result
from truerank.core.stream import check_seed
from truerank.core.tally import WIDTH, tally
from truerank.estimators import ESTIMATORS
from truerank.metrics import make_metrics

DEFAULT_ESTIMATORS = "bv(gamma=0.1)"
METHOD = "normal, ignores bias"


@dataclass(frozen=True)
class Estimation:
    """How to estimate; checked once, before any work starts.

    Parameters
    ----------
    metrics, estimators : in the order of the result
    ties : how equal scores count
    level : of the intervals
    seed : for ties broken at random
    width : relative width of the bins that pools of nearly equal size share
    """

    metrics: tuple[Metric, ...]
    estimators: tuple[Estimator, ...]
    ties: TiePolicy = "expected"
    level: float = 0.95
    seed: int = 0
    width: float = WIDTH

    def __post_init__(self) -> None:
        check_choice("ties", self.ties, TIE_POLICIES)
        check_level(self.level)
        check_seed(self.seed)


def estimate(
    ranks: SampledRanks | Mapping[str, SampledRanks],
    metrics: str | Metric | Sequence[str | Metric] = "ndcg@10,recall@10",
    estimators: str | Estimator | Sequence[str | Estimator] = DEFAULT_ESTIMATORS,
    *,
    ties: TiePolicy = "expected",
    level: float = 0.95,
    seed: int = 0,
) -> Result:
    """Return what exact evaluation would give, estimated from ranks among sampled items.

    Parameters
    ----------
    ranks : sampled ranks, of one model or of several by name
    metrics, estimators : spec strings (a comma-separated text or a list) or objects
    ties, level, seed : as in ``Estimation``

    Examples
    --------
    >>> ranks = SampledRanks.single([0, 3, 0, 7], n_negatives=9, n_pool=10)
    >>> estimate(ranks, "recall@1", "naive").value("recall@1")  # all items were sampled: exact
    0.5
    """
    named = ranks if isinstance(ranks, Mapping) else {"sampled ranks": ranks}
    chosen = Estimation(make_metrics(metrics), ESTIMATORS.make_all(estimators), ties, level, seed)
    return Result(
        command="estimate",
        estimates=tuple(e for name, one in named.items() for e in estimate_each(name, one, chosen)),
        data={"name": ", ".join(named), **_counts(next(iter(named.values())))},
        provenance={
            "estimators": [str(estimator) for estimator in chosen.estimators],
            "ties": ties,
            "interval": METHOD,
            "seed": seed,
            "pool_bins": chosen.width,
        },
    )


def estimate_each(name: str, ranks: SampledRanks, chosen: Estimation) -> Iterator[Estimate]:
    """Yield one estimate per estimator and metric."""
    largest = int(ranks.n_pool.max(initial=0))
    for metric in chosen.metrics:
        if metric.cutoff is not None and metric.cutoff > largest:
            raise InvalidParameter(
                f"cutoff of {metric} must be at most the largest pool of {largest} items. Lower it."
            )
    counted = tally(ranks, ties=chosen.ties, seed=chosen.seed, width=chosen.width)
    sizes = np.unique(ranks.n_negatives)
    factor = float(stdtrit(max(ranks.n_users - 1, 1), (1 + chosen.level) / 2))
    for estimator in chosen.estimators:
        found = estimator.estimate(counted, chosen.metrics)
        for column, metric in enumerate(chosen.metrics):
            value, half = float(found.value[column]), factor * float(found.standard_error[column])
            has_interval = bool(np.isfinite(half))
            yield Estimate(
                model=name,
                metric=str(metric),
                value=value,
                low=value - half if has_interval else None,
                high=value + half if has_interval else None,
                level=chosen.level if has_interval else None,
                kind="estimate",
                method=METHOD if has_interval else "",
                estimator=str(estimator),
                n_users=ranks.n_users,
                n_negatives=int(sizes[0]) if len(sizes) == 1 else None,
            )


def _counts(ranks: SampledRanks) -> dict[str, int | bool]:
    return {
        "n_users": ranks.n_users,
        "n_test": len(ranks),
        "smallest_pool": int(ranks.n_pool.min()),
        "largest_pool": int(ranks.n_pool.max()),
        "fewest_negatives": int(ranks.n_negatives.min()),
        "most_negatives": int(ranks.n_negatives.max()),
        "replacement": ranks.design.replacement,
    }
