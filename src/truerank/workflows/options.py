"""How to evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from truerank.core.errors import InvalidParameter, check_choice, check_level
from truerank.core.random import check_seed
from truerank.core.ranks import SEEN_POLICIES, TIE_POLICIES, SeenPolicy, TiePolicy
from truerank.estimation.base import Estimator
from truerank.estimation.registry import ESTIMATORS
from truerank.inference.estimate_interval.registry import TARGETS, UNCERTAINTIES, Target, Uncertainty
from truerank.inference.user_interval import INTERVALS, Interval
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics
from truerank.ranking.negatives import Sampler
from truerank.ranking.samplers.full import Full
from truerank.ranking.samplers.registry import SAMPLERS
from truerank.workflows.estimate import DEFAULT_ESTIMATORS, Estimation

DEFAULT_METRICS = "ndcg@10,recall@10"


@dataclass(frozen=True)
class EvaluateOptions:
    """How to evaluate; checked once, before any work starts.

    Parameters
    ----------
    metrics : metrics in the order of the result
    ties : how equal scores count, see ``docs/glossary.md``
    seen : what happens to items of train and valid: removed from the pool, put at its bottom, or kept
    interval, level : the interval over users
    users : how many test users to take, or their share, drawn at random; None takes all
    target : what intervals are for: the value of all test users, or of all users like them. An exact value of
        all test users is that value, so its interval is for the population.
    seed : of everything random
    n_threads, device : threads for ranking, None takes all cores; ``cuda`` ranks models with factors on a GPU
    sampler : how negatives are drawn; None ranks all items
    estimators, uncertainty : what to make of sampled ranks, and how intervals of that are made
    bounds : whether to add all values that the sampled ranks allow; None where they do not take long
    check : whether to rank all items too, and show the exact values beside the estimates
    """

    metrics: tuple[Metric, ...]
    ties: TiePolicy = "expected"
    seen: SeenPolicy = "remove"
    interval: Interval = field(default_factory=lambda: INTERVALS.make("auto"))
    level: float = 0.95
    users: int | float | None = None
    target: Target = "test-users"
    seed: int = 0
    n_threads: int | None = None
    device: str = "cpu"
    sampler: Sampler | None = None
    estimators: tuple[Estimator, ...] = ()
    uncertainty: Uncertainty = field(default_factory=lambda: UNCERTAINTIES.make("auto"))
    bounds: bool | None = False
    check: bool = False

    def __post_init__(self) -> None:
        if self.sampler is None and (self.estimators or self.check or self.bounds):
            raise InvalidParameter(
                "estimators, bounds and check need sampled ranks. "
                "Say how to sample, for example sampler='uni100'."
            )
        check_choice("ties", self.ties, TIE_POLICIES)
        check_choice("seen", self.seen, SEEN_POLICIES)
        check_level(self.level)
        check_choice("target", self.target, TARGETS)
        check_seed(self.seed)
        if self.n_threads is not None and self.n_threads < 1:
            raise InvalidParameter(f"n_threads must be an integer >= 1, got {self.n_threads}.")

    def estimation(self) -> Estimation:
        """Return how sampled ranks are estimated."""
        return Estimation(
            self.metrics,
            self.estimators,
            self.ties,
            self.level,
            self.seed,
            uncertainty=self.uncertainty,
            target=self.target,
        )


def make_options(
    metrics: str | Metric | Sequence[str | Metric] = DEFAULT_METRICS,
    *,
    interval: str | Interval = "auto",
    sampler: str | Sampler | None = None,
    estimators: str | Estimator | Sequence[str | Estimator] | None = None,
    uncertainty: str | Uncertainty = "auto",
    **options: Any,
) -> EvaluateOptions:
    """Build ``EvaluateOptions`` from spec strings or objects.

    Where all items are drawn the default estimator is ``naive``: there is nothing to correct.
    """
    drawn = None if sampler is None else SAMPLERS.make(sampler)
    chosen: tuple[Estimator, ...] = ()
    if estimators is not None or drawn is not None:
        usual = "naive" if isinstance(drawn, Full) else DEFAULT_ESTIMATORS
        chosen = ESTIMATORS.make_all(usual if estimators is None else estimators)
    return EvaluateOptions(
        metrics=make_metrics(metrics),
        interval=INTERVALS.make(interval),
        sampler=drawn,
        estimators=chosen,
        uncertainty=UNCERTAINTIES.make(uncertainty),
        **options,
    )
