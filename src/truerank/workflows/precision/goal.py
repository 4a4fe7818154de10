"""What evaluation up to a precision is asked for, and what it reports about its way there."""

from __future__ import annotations

import numbers
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias, get_args

from truerank.core.errors import InvalidParameter, check_choice, check_level
from truerank.core.random import check_seed
from truerank.core.ranks import SEEN_POLICIES, TIE_POLICIES, SeenPolicy, TiePolicy
from truerank.core.types import FloatArray
from truerank.estimation.base import Estimator
from truerank.inference.estimate_interval.registry import TARGETS, Target
from truerank.metrics.base import Metric
from truerank.workflows.plan.cost import RankingSeconds

#: ``exact`` ranks all items for all users, ``rows`` for some users, ``negatives`` some items for all users.
Design: TypeAlias = Literal["auto", "exact", "rows", "negatives"]
DESIGNS: tuple[str, ...] = get_args(Design)


@dataclass(frozen=True)
class PrecisionGoal:
    """What is wanted; checked once, before any work starts.

    Parameters
    ----------
    metrics : in the order of the result
    precision : the half-width that every interval shall have
    budget : scores that may be computed for each model; None for any number
    level, target : of the intervals
    estimator : gives the value where negatives are sampled; the bounds do not depend on it
    design : the way to go; ``auto`` chooses
    costs : seconds, where they shall decide instead of the number of scores
    ties, seen, seed, n_threads : as in ``evaluate``
    """

    metrics: tuple[Metric, ...]
    precision: float
    budget: int | None
    level: float
    target: Target
    estimator: Estimator
    design: Design = "auto"
    costs: RankingSeconds | None = None
    ties: TiePolicy = "expected"
    seen: SeenPolicy = "remove"
    seed: int = 0
    n_threads: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.precision < 0.5:
            raise InvalidParameter(
                f"precision must lie between 0 and 0.5, the half-width that knows nothing, got "
                f"{self.precision!r}. Use for example 0.01."
            )
        budget = self.budget
        if budget is not None and (
            isinstance(budget, bool) or not isinstance(budget, numbers.Integral) or budget < 1
        ):
            raise InvalidParameter(f"budget must be a number of scores >= 1, got {budget!r}.")
        check_level(self.level)
        check_choice("target", self.target, TARGETS)
        check_choice("design", self.design, DESIGNS)
        check_choice("ties", self.ties, TIE_POLICIES)
        check_choice("seen", self.seen, SEEN_POLICIES)
        check_seed(self.seed)
        if self.design == "negatives" and self.target == "population":
            raise InvalidParameter(
                "bounds from sampled negatives are for the test users. Use design='rows' for a population."
            )

    @property
    def cutoff(self) -> int | None:
        """The largest cut-off; None when some metric looks at the whole list."""
        cutoffs = [metric.cutoff for metric in self.metrics]
        return None if None in cutoffs else max(c for c in cutoffs if c is not None)

    @property
    def may_bound(self) -> bool:
        """Whether sampled negatives are considered; known before anything is drawn."""
        if self.design == "auto":
            return self.cutoff is None and self.target == "test-users"
        return self.design == "negatives"

    @property
    def row_level(self) -> float:
        """The level of intervals from rows: half of the error where bounds may be used too."""
        return 1 - (1 - self.level) / (2 if self.may_bound else 1)


@dataclass(frozen=True)
class PrecisionTrace:
    """How a model was evaluated, and why so.

    Parameters
    ----------
    design : ``exact``, ``rows`` or ``negatives``
    rounds : users known after each look at the intervals
    n_scores : scores computed
    exact_scores : what exact evaluation of all users computes
    is_reached : whether every interval is as narrow as wanted
    why : sentences
    """

    design: str
    rounds: tuple[int, ...]
    n_scores: int
    exact_scores: int
    is_reached: bool
    why: tuple[str, ...] = ()
    n_users: int = 0
    screened: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {**asdict(self), "rounds": list(self.rounds), "why": list(self.why)}

    def __str__(self) -> str:
        return " ".join(self.why)


@dataclass(frozen=True, eq=False)
class PrecisionResult:
    """Values and limits of all metrics of one model, and the way to them."""

    value: FloatArray
    limits: FloatArray
    way: PrecisionTrace
    method: str
    kind: Literal["exact", "estimate", "bound"] = "estimate"
    estimator: str = "exact"
    n_negatives: int | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    def half_width(self) -> float:
        """Return that of the widest interval."""
        return float((self.limits[:, 1] - self.limits[:, 0]).max() / 2)
