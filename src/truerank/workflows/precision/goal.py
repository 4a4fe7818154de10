"""Goals of evaluations that stop by themselves, at a wanted precision or a decision; trace and result."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from truerank.core.errors import InvalidParameter, check_choice
from truerank.core.result import Estimate
from truerank.core.types import FloatArray
from truerank.estimation.base import Estimator
from truerank.metrics.base import Metric
from truerank.models.registry import MODELS
from truerank.workflows.options import RunSettings
from truerank.workflows.plan.cost import RankingSeconds
from truerank.workflows.precision.budget import Budget

#: ``exact`` ranks all items for all users, ``rows`` for some users, ``negatives`` some items for all users.
PrecisionDesign: TypeAlias = Literal["auto", "exact", "rows", "negatives"]
DESIGNS: tuple[str, ...] = get_args(PrecisionDesign)


#: Models that say in which order items are asked for: good at ranking, quick to fit and to score.
DEFAULT_PROXY = "ials(factors=32),item-knn"


@dataclass(frozen=True)
class SampleGoal(RunSettings):
    """What is asked of slow models, and in which order of items.

    Parameters
    ----------
    metrics : in the order of the result
    proxy : cheap models whose scores say which items are asked for first
    """

    metrics: tuple[Metric, ...]
    proxy: Any = field(default=DEFAULT_PROXY, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.proxy, str):
            MODELS.make_all(self.proxy)  # raises where a name is wrong, before anything is fitted

    @property
    def cutoff(self) -> int | None:
        """The largest cut-off; None when some metric has none."""
        cutoffs = [metric.cutoff for metric in self.metrics]
        return None if None in cutoffs else max(c for c in cutoffs if c is not None)


@dataclass(frozen=True)
class DecisionGoal(SampleGoal):
    """A decision between models: which has the larger value, or that they differ by less than a margin.

    Parameters
    ----------
    pairs : indices of the models of each difference
    margin : models that differ by at most this are equivalent; None where every difference matters
    is_joint : whether 1 - level is shared by all differences
    is_contest : whether the best model is looked for, so that models that have lost are asked no more; else
        every difference is decided
    limit : what all models together may cost: scores, or seconds, and the price of scores
    """

    pairs: tuple[tuple[int, int], ...]
    margin: float | None = None
    is_joint: bool = True
    is_contest: bool = True
    limit: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target == "population":
            raise InvalidParameter(
                "a decision is about the test users, got target='population'. Leave target out, or leave out "
                "decide."
            )

    @property
    def pair_level(self) -> float:
        """Level of each interval."""
        return 1 - (1 - self.level) / (len(self.pairs) * len(self.metrics) if self.is_joint else 1)


@dataclass(frozen=True)
class PrecisionGoal(SampleGoal):
    """Wanted precision and how to reach it: the parameters of ``evaluate_to_precision``, checked.

    Parameters
    ----------
    limit : the budget: scores, or seconds, and the price of scores
    precision, estimator, design, costs : as in ``evaluate_to_precision``
    """

    precision: float
    estimator: Estimator
    design: PrecisionDesign = "auto"
    costs: RankingSeconds | None = None
    limit: Budget = field(default_factory=Budget)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.precision < 0.5:
            raise InvalidParameter(
                "precision is the wanted half-width of the intervals and must lie in (0, 0.5), got "
                f"{self.precision!r}. Use for example 0.01."
            )
        check_choice("design", self.design, DESIGNS)
        if self.design == "negatives" and self.target == "population":
            raise InvalidParameter(
                "design='negatives' gives bounds for the test users, got target='population'. Use "
                "design='rows' for a population."
            )

    @property
    def budget(self) -> int | None:
        """Scores that may be used, None for no limit."""
        return self.limit.scores

    @property
    def may_bound(self) -> bool:
        """Whether bounds from sampled negatives are considered; this depends on no data."""
        if self.design == "auto":
            return self.cutoff is None and self.target == "test-users"
        return self.design == "negatives"

    @property
    def row_level(self) -> float:
        """Level of the intervals from rows: they get half of 1 - level where bounds may be used too."""
        return 1 - (1 - self.level) / (2 if self.may_bound else 1)


@dataclass(frozen=True)
class PrecisionTrace:
    """How one model was evaluated, and why this way.

    Parameters
    ----------
    design : ``exact``, ``rows`` or ``negatives``
    rounds : number of users with known values after each round
    n_scores : scores computed
    exact_scores : scores that exact evaluation of all users computes
    is_reached : whether every interval is as narrow as wanted
    why : sentences
    n_users : users with known values in the end
    screened : items that were scored for all users first, at most; 0 for none
    proxies : the cheap models that said which items to score first
    n_asked : scores that the model was asked for in this run; others were kept from earlier ones
    cost : of the scores that were asked for, by the price; None without one
    further : about how many more scores the wanted precision takes; None where it is reached
    """

    design: str
    rounds: tuple[int, ...]
    n_scores: int
    exact_scores: int
    is_reached: bool
    why: tuple[str, ...] = ()
    n_users: int = 0
    screened: int = 0
    proxies: tuple[str, ...] = ()
    n_asked: int = 0
    cost: float | None = None
    further: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        listed = {name: list(getattr(self, name)) for name in ("rounds", "why", "proxies")}
        return {**asdict(self), **listed}

    def __str__(self) -> str:
        return " ".join(self.why)


@dataclass(frozen=True, eq=False)
class PrecisionResult:
    """Values and intervals of all metrics of one model, with the trace of their computation.

    Parameters
    ----------
    value, limits : (n_metrics,) and (n_metrics, 2) lower and upper limits
    trace : how they were computed
    method : of the intervals
    kind, estimator, n_negatives : as in ``Estimate``
    seconds : of fitting and ranking
    """

    value: FloatArray
    limits: FloatArray
    trace: PrecisionTrace
    method: str
    kind: Literal["exact", "estimate", "bound"] = "estimate"
    estimator: str = "exact"
    n_negatives: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def estimates(self, name: str, goal: PrecisionGoal) -> tuple[Estimate, ...]:
        """Return an estimate per metric, under the name of the model."""
        return tuple(
            Estimate(
                model=name,
                metric=str(metric),
                value=float(self.value[column]),
                low=float(self.limits[column, 0]),
                high=float(self.limits[column, 1]),
                level=goal.level,
                kind=self.kind,
                method=self.method,
                estimator=self.estimator,
                n_users=self.trace.n_users,
                n_negatives=self.n_negatives,
                target=goal.target,
            )
            for column, metric in enumerate(goal.metrics)
        )
