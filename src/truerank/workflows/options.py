"""Settings of an evaluation, an estimate or a comparison, checked once before any work starts.

``RunSettings`` holds what all of them share; the options of one workflow derive from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from truerank.core.errors import InvalidParameter, check_at_least, check_choice, check_level
from truerank.core.parallel import chosen_threads
from truerank.core.random import check_seed
from truerank.core.ranks import SEEN_POLICIES, TIE_POLICIES, SampledRanks, SeenPolicy, TiePolicy
from truerank.distributed.engine import ENGINES, Engine
from truerank.distributed.local import Gpu
from truerank.estimation.base import Estimator
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import WIDTH, Tally, tally
from truerank.inference.estimate_interval.registry import TARGETS, UNCERTAINTIES, Target, Uncertainty
from truerank.inference.user_interval import INTERVALS, Interval
from truerank.metrics.base import Metric
from truerank.metrics.grades import GAINS, Gain
from truerank.metrics.registry import make_metrics
from truerank.ranking.negatives import Sampler
from truerank.ranking.samplers.registry import SAMPLERS
from truerank.workflows.segments.grouping import By, Grouping, make_groupings

#: One metric or several, as spec strings (``"ndcg@10,recall@10"``) or objects.
Metrics: TypeAlias = str | Metric | Sequence[str | Metric]
#: One estimator or several, as spec strings (``"naive,smooth"``) or objects.
Estimators: TypeAlias = str | Estimator | Sequence[str | Estimator]

#: What comes back from workers: a rank per target, or sums of each metric.
Keep: TypeAlias = Literal["auto", "ranks", "sums"]
KEEPS: tuple[Keep, ...] = ("auto", "ranks", "sums")

DEFAULT_METRICS = "ndcg@10,recall@10"
#: The estimator of every command and function: that with the least error of those tried (docs/smooth.md).
DEFAULT_ESTIMATOR = "smooth"


def single_estimator(written: Estimators, command: str) -> Estimator:
    """Return the estimator of a command that uses one, however it was written.

    Examples
    --------
    >>> str(single_estimator(["bv"], "plan"))
    'bv'
    """
    made = ESTIMATORS.make_all(written)
    if len(made) > 1:
        raise InvalidParameter(
            f"estimator must be a single one, because {command} uses one, got {len(made)}: "
            f"{', '.join(map(str, made))}. Name one of them."
        )
    return made[0]


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """What evaluations, estimates and comparisons have in common.

    Parameters
    ----------
    ties : how equal scores count: ``expected``, ``best``, ``worst`` or ``random``, see ``docs/glossary.md``
    seen : what happens to items of train and valid: ``remove`` from the pool, put at its ``bottom``, ``keep``
    level : confidence level of the intervals
    target : what intervals are for: the value of all ``test-users``, or of the ``population`` that they are a
        sample of. An exact value of all test users is that value, so its interval is for the population.
    seed : of everything random
    n_threads : threads for ranking; None takes all cores
    by : groupings of users or targets, for each of which values are computed by group as well
    """

    ties: TiePolicy = "expected"
    seen: SeenPolicy = "remove"
    level: float = 0.95
    target: Target = "test-users"
    seed: int = 0
    n_threads: int | None = None
    by: tuple[Grouping, ...] = ()

    def __post_init__(self) -> None:
        check_choice("ties", self.ties, TIE_POLICIES)
        check_choice("seen", self.seen, SEEN_POLICIES)
        check_level(self.level)
        check_choice("target", self.target, TARGETS)
        check_seed(self.seed)
        chosen_threads(self.n_threads)


@dataclass(frozen=True)
class EstimateOptions(RunSettings):
    """How metrics are estimated from sampled ranks.

    Parameters
    ----------
    metrics, estimators : in the order of the result
    width : relative width of the bins that pools of nearly equal size share
    uncertainty : how intervals of estimates are made
    """

    metrics: tuple[Metric, ...]
    estimators: tuple[Estimator, ...]
    width: float = WIDTH
    uncertainty: Uncertainty = field(default_factory=lambda: UNCERTAINTIES.make("auto"))

    def tally(self, ranks: SampledRanks) -> Tally:
        """Return the counts of one model's sampled ranks, which estimates and bounds share."""
        return tally(ranks, ties=self.ties, seed=self.seed, width=self.width, metrics=self.metrics)


@dataclass(frozen=True)
class EvaluateOptions(RunSettings):
    """How models are evaluated.

    Parameters
    ----------
    metrics : metrics in the order of the result
    interval : the interval over users
    gain : how much a target is worth, to metrics that know grades; None counts all alike
    users : how many test users to take, or which fraction of them, sampled at random; None takes all
    device, memory : ``cuda`` ranks models with factors on a GPU, within so many bytes of it
    sampler : how negatives are sampled; None ranks all items
    estimators, uncertainty : what to make of sampled ranks, and how intervals of that are made
    bounds : whether to add identification bounds of sampled ranks; None where they do not take long
    check : whether to rank all items too, and show the exact values beside the estimates
    precision, budget : half-width that every interval shall have, and the scores, time or money that each
        model may take; users and items are then chosen by the evaluation itself
    price, scores : of 1,000 scores, and the file in which those of slow models are kept
    proxy : with ``precision``, cheap models whose scores say which items are asked for first
    engine : where ranks are computed; None for threads of this process
    work_dir : for engines with workers, a folder or URL that all of them can read
    keep, rows : for engines with workers, what comes back from them, and users per task
    """

    metrics: tuple[Metric, ...]
    interval: Interval = field(default_factory=lambda: INTERVALS.make("auto"))
    gain: Gain | None = None
    users: int | float | None = None
    device: str = "cpu"
    memory: int | None = None
    sampler: Sampler | None = None
    estimators: tuple[Estimator, ...] = ()
    uncertainty: Uncertainty = field(default_factory=lambda: UNCERTAINTIES.make("auto"))
    bounds: bool | None = False
    check: bool = False
    precision: float | None = None
    budget: int | str | None = None
    price: float | None = None
    scores: str | Path | None = None
    proxy: Any = None
    engine: Engine | None = None
    work_dir: str | Path | None = None
    keep: Keep = "auto"
    rows: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("keep", self.keep, KEEPS)
        if self.rows is not None:
            check_at_least("rows", self.rows, 1)
        if self.sampler is None and (self.estimators or self.check or self.bounds):
            raise InvalidParameter(
                "estimators, bounds and check need sampled ranks. "
                "Say how to sample, for example sampler='uni100'."
            )
        if self.work_dir is not None and not self.has_workers:
            raise InvalidParameter(
                "work_dir is for engines with workers. Name one, such as dask, or leave it out."
            )
        if self.by and self.keep == "sums":
            raise InvalidParameter(
                "by needs the ranks of all users, got keep='sums'. Use keep='ranks', or leave by out."
            )
        if self.precision is None:
            for name in ("budget", "proxy", "price", "scores"):
                if getattr(self, name) is not None:
                    raise InvalidParameter(f"{name} needs precision, the half-width to reach, such as 0.01.")
            return
        if self.gain is not None:
            raise InvalidParameter(
                "precision knows no gains, because its sequential intervals are those of metrics without "
                "grades. Leave out gain, or leave out precision."
            )
        chosen = {"sampler": self.sampler, "users": self.users, "engine": self.engine}
        given = [name for name, value in chosen.items() if value is not None]
        if self.by:
            raise InvalidParameter(
                "precision is reached for all users together, not in groups of them. Leave out by, or leave "
                "out precision."
            )
        if given:
            raise InvalidParameter(
                f"precision chooses users and items itself. Leave out {', '.join(given)}, or leave out "
                "precision."
            )

    @property
    def has_workers(self) -> bool:
        """Whether an engine ranks in tasks, so that users and item vectors are written to files first."""
        return self.engine is not None and not isinstance(self.engine, Gpu)

    def provenance(self) -> dict[str, Any]:
        """Return what a result records of the options, besides the settings of the run."""
        where = {} if self.engine is None else {"engine": str(self.engine)}
        groups = {"by": [str(grouping) for grouping in self.by]} if self.by else {}
        gain = {} if self.gain is None else {"gain": str(self.gain)}
        return {
            "interval": str(self.interval),
            "uncertainty": str(self.uncertainty),
            "users": self.users,
            "sampler": None if self.sampler is None else str(self.sampler),
            **groups,
            **gain,
            **where,
        }

    def estimation(self) -> EstimateOptions:
        """Return how sampled ranks are estimated."""
        return EstimateOptions(
            self.metrics,
            self.estimators,
            uncertainty=self.uncertainty,
            ties=self.ties,
            level=self.level,
            target=self.target,
            seed=self.seed,
        )


def make_options(
    metrics: Metrics = DEFAULT_METRICS,
    *,
    sampler: str | Sampler | None = None,
    estimators: Estimators | None = None,
    uncertainty: str | Uncertainty = "auto",
    bounds: bool | None = False,
    check: bool = False,
    ties: TiePolicy = "expected",
    seen: SeenPolicy = "remove",
    interval: str | Interval = "auto",
    level: float = 0.95,
    target: Target = "test-users",
    gain: str | Gain | None = None,
    users: int | float | None = None,
    seed: int = 0,
    n_threads: int | None = None,
    device: str = "cpu",
    precision: float | None = None,
    budget: int | str | None = None,
    price: float | None = None,
    scores: str | Path | None = None,
    proxy: Any = None,
    engine: str | Engine | None = None,
    work_dir: str | Path | None = None,
    keep: Keep = "auto",
    rows: int | None = None,
    by: By = None,
) -> EvaluateOptions:
    """Build ``EvaluateOptions`` from spec strings or objects."""
    made = None if sampler is None else SAMPLERS.make(sampler)
    where = None if engine is None else ENGINES.make(engine)
    groupings = make_groupings(by)
    chosen: tuple[Estimator, ...] = ()
    if estimators is not None or made is not None:
        chosen = ESTIMATORS.make_all(DEFAULT_ESTIMATOR if estimators is None else estimators)
    return EvaluateOptions(
        metrics=make_metrics(metrics),
        interval=INTERVALS.make(interval),
        gain=None if gain is None else GAINS.make(gain),
        users=users,
        device=where.device if isinstance(where, Gpu) else device,
        memory=where.memory if isinstance(where, Gpu) else None,
        sampler=made,
        estimators=chosen,
        uncertainty=UNCERTAINTIES.make(uncertainty),
        bounds=bounds,
        check=check,
        precision=precision,
        budget=budget,
        price=price,
        scores=scores,
        proxy=proxy,
        engine=where,
        work_dir=work_dir,
        keep="ranks" if groupings and keep == "auto" else keep,
        rows=rows,
        by=groupings,
        ties=ties,
        seen=seen,
        level=level,
        target=target,
        seed=seed,
        n_threads=n_threads,
    )
