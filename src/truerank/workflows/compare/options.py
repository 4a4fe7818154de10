"""Options of a comparison, checked before any work starts, and one model with its values.

The values of a model are means over users of exact or corrected metrics; where the estimator fits a rank
distribution there is no value per user, only the estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from truerank.core.digest import content_digest
from truerank.core.errors import (
    MOST_RESAMPLES,
    InvalidData,
    InvalidParameter,
    UnknownName,
    check_at_least,
    check_choice,
)
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.base import Estimator
from truerank.estimation.distribution.base import MixtureEstimator
from truerank.estimation.tally import tally
from truerank.inference.bounds.problem import Shape
from truerank.inference.estimate_interval.registry import PointEstimates
from truerank.metrics.base import Metric
from truerank.metrics.registry import values
from truerank.workflows.options import RunSettings

Correction: TypeAlias = Literal["max-t", "holm", "none"]
CORRECTIONS: tuple[str, ...] = get_args(Correction)


@dataclass(frozen=True)
class CompareOptions(RunSettings):
    """What is compared, and by which rules: the parameters of ``compare`` after they were parsed."""

    metrics: tuple[Metric, ...]
    estimator: Estimator
    correction: Correction = "max-t"
    baseline: str | None = None
    tie_margin: float | None = None
    posterior: bool = True
    bounds: bool = True
    shape: Shape | None = None
    common_users: bool = False
    resamples: int = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("correction", self.correction, CORRECTIONS)
        check_choice("shape", self.shape or "decreasing", ("decreasing",))
        check_at_least("resamples", self.resamples, round(10 / (1 - self.level)), MOST_RESAMPLES)
        if self.tie_margin is not None and not 0 < self.tie_margin < 1:
            raise InvalidParameter(
                f"tie_margin must lie between 0 and 1, got {self.tie_margin!r}. Leave it out for no margin."
            )
        if self.shape is not None and not self.bounds:
            raise InvalidParameter(
                f"shape is an assumption of the bounds, got shape={self.shape!r} with bounds=False. "
                "Leave shape out, or set bounds=True."
            )

    def pairs(self, names: Sequence[str]) -> list[tuple[int, int]]:
        """Return the model indices of each difference: all pairs, or each model minus the baseline."""
        if len(names) < 2:
            raise InvalidParameter(f"a comparison needs at least two models, got {len(names)}. Add one.")
        if self.baseline is None:
            return [(a, b) for a in range(len(names)) for b in range(a + 1, len(names))]
        if self.baseline not in names:
            raise UnknownName("baseline", self.baseline, names)
        base = list(names).index(self.baseline)
        return [(a, base) for a in range(len(names)) if a != base]


@dataclass(frozen=True, eq=False)
class ComparedModel:
    """One model of a comparison.

    Parameters
    ----------
    name : of the model
    ranks : exact or sampled
    value : (n_metrics,) exact values, or estimates
    per_user : (n_users, n_metrics) values whose mean is ``value``; None where a distribution is fitted
    estimated : the estimates with the sampled ranks and the estimator behind them; None for exact ranks
    """

    name: str
    ranks: Ranks | SampledRanks
    value: FloatArray
    per_user: FloatArray | None
    estimated: PointEstimates | None

    @property
    def users(self) -> IntArray:
        """Codes of the users, in the order of ``per_user``."""
        codes: IntArray = self.ranks.user[self.ranks.starts]
        return codes

    @property
    def digest(self) -> str:
        """Hash of the user codes: models with the same users get the same resamples."""
        return content_digest([np.asarray(self.users, np.int64)], size=8)

    @property
    def n_negatives(self) -> int | None:
        """Negatives per target; None for exact ranks and where targets have different numbers."""
        if isinstance(self.ranks, Ranks):
            return None
        sizes = np.unique(self.ranks.n_negatives)
        return int(sizes[0]) if len(sizes) == 1 else None


def make_compared_model(name: str, ranks: Ranks | SampledRanks, options: CompareOptions) -> ComparedModel:
    """Evaluate or estimate the metrics of one model."""
    if len(ranks) == 0:
        raise InvalidData(f"model {name!r} must have at least one user, got none. Leave it out.")
    for metric in options.metrics:
        metric.check_cutoff(int(ranks.n_pool.max()))
    if isinstance(ranks, Ranks):
        exact = values(options.metrics, ranks, ties=options.ties, seed=options.seed)
        return ComparedModel(name, ranks, exact.mean(axis=0), exact, None)
    counted = tally(ranks, ties=options.ties, seed=options.seed, metrics=options.metrics)
    estimator = options.estimator
    if isinstance(estimator, MixtureEstimator) and not counted.is_fully_ranked:
        per_user, value = None, estimator.estimate(counted, options.metrics).value
    else:
        per_user = estimator.per_user(counted, options.metrics)
        value = per_user.mean(axis=0)
    return ComparedModel(
        name, ranks, value, per_user, PointEstimates(ranks, counted, estimator, options.metrics, value)
    )


def check_decide(decide: bool, split: Any, needing: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """Raise unless the arguments of a comparison suit a decision, or there is none.

    Parameters
    ----------
    decide, split : whether models are asked until it is known which is better, and the data
    needing : arguments that a decision alone has
    others : arguments that it does not have
    """
    if not decide:
        for name, value in needing.items():
            if value is not None:
                raise InvalidParameter(
                    f"{name} needs decide=True: without it all models are asked for everything."
                )
        return
    if split is None:
        raise InvalidParameter(
            "decide asks models for scores, which needs models and a split, but ranks were given. Leave "
            "decide out, or give models and a split."
        )
    given = [name for name, value in others.items() if value not in (None, (), [], "test-users")]
    if given:
        raise InvalidParameter(
            f"decide chooses items and users itself, and is about all test users. Leave out "
            f"{', '.join(given)}, or leave out decide."
        )
