"""Settings of charts, read from a result so that its curves agree with it; metrics and cut-offs to show."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from truerank.core.errors import InvalidParameter, UnknownName
from truerank.core.result import Result
from truerank.estimation.base import Estimator
from truerank.estimation.distribution.base import MixtureEstimator
from truerank.estimation.registry import ESTIMATORS
from truerank.inference.estimate_interval.auto import AutoInterval, SamplingInterval
from truerank.inference.estimate_interval.bootstrap import Bootstrap
from truerank.inference.estimate_interval.registry import UNCERTAINTIES, Uncertainty
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics
from truerank.workflows.options import DEFAULT_ESTIMATOR, EstimateOptions, RunSettings

_RESAMPLES = 100  # they give the width of an interval to about a tenth, enough for a chart


@dataclass(frozen=True)
class ChartSettings(RunSettings):
    """Estimators, intervals and run settings of a result, for the further values that its charts show.

    Parameters
    ----------
    estimators : in the order of the result; none for exact ranks
    uncertainty : how intervals of estimates are made
    """

    estimators: tuple[Estimator, ...] = ()
    uncertainty: Uncertainty = field(default_factory=lambda: UNCERTAINTIES.make("auto"))

    @classmethod
    def of(cls, result: Result) -> ChartSettings:
        """Read the settings from a result.

        Examples
        --------
        >>> from truerank.core.result import Estimate
        >>> one = Estimate("ease", "recall@10", 0.1, level=0.9, kind="estimate", estimator="mle")
        >>> setting = ChartSettings.of(Result("estimate", (one,), provenance={"ties": "best"}))
        >>> str(setting.estimator), setting.level, setting.ties
        ('mle', 0.9, 'best')
        """
        named = dict.fromkeys(e.estimator for e in result.estimates if e.kind == "estimate")
        levels = [e.level for e in (*result.estimates, *result.bounds) if e.level is not None]
        given = result.provenance
        plain = cls()
        return cls(
            estimators=tuple(ESTIMATORS.make(name) for name in named if _is_known(name)),
            ties=given.get("ties") or plain.ties,
            level=levels[0] if levels else plain.level,
            seed=int(given.get("seed") or 0),
            uncertainty=UNCERTAINTIES.make(given.get("uncertainty") or "auto"),
            target=given.get("asked_target") or given.get("target") or plain.target,
        )

    @property
    def estimator(self) -> Estimator:
        """The last estimator that corrects the metric, as on the leaderboard, else the last of all."""
        correcting = [estimator for estimator in self.estimators if estimator.is_global]
        return (ESTIMATORS.make(DEFAULT_ESTIMATOR), *self.estimators, *correcting)[-1]

    @property
    def mixture(self) -> MixtureEstimator | None:
        """The last estimator that fits a rank distribution, None without one."""
        fitting = [estimator for estimator in self.estimators if isinstance(estimator, MixtureEstimator)]
        return fitting[-1] if fitting else None

    def estimation(self, metrics: Sequence[Metric]) -> EstimateOptions:
        """Return how metrics are estimated for a chart: by one estimator, with 100 resamples at most."""
        return EstimateOptions(
            tuple(metrics),
            (self.estimator,),
            uncertainty=_quick(self.uncertainty),
            ties=self.ties,
            level=self.level,
            target=self.target,
            seed=self.seed,
        )


def _quick(uncertainty: Uncertainty) -> Uncertainty:
    """Return the same intervals with at most 100 resamples."""
    if (
        isinstance(uncertainty, AutoInterval | Bootstrap | SamplingInterval)
        and uncertainty.resamples > _RESAMPLES
    ):
        return replace(uncertainty, resamples=_RESAMPLES)
    return uncertainty


def _is_known(name: str) -> bool:
    """Whether a name is that of an estimator; evaluation up to a precision uses other names."""
    try:
        ESTIMATORS.make(name)
    except (InvalidParameter, UnknownName):
        return False
    return True


#: Cut-offs of metrics along a logarithmic axis.
CURVE_CUTOFFS = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500)
#: Cut-offs to take where each costs time, the most informative first.
INFORMATIVE_CUTOFFS = (10, 1, 100, 30, 3, 300, 50, 5, 20, 500)
_FAMILIES = 3
_STAND_IN = 10


def charted_metrics(metrics: Iterable[str], largest: int) -> tuple[Metric, ...]:
    """Return metrics with a cut-off, one of each family and three at most; recall where there is none.

    Parameters
    ----------
    metrics : spec strings
    largest : items of the largest pool

    Examples
    --------
    >>> [str(metric) for metric in charted_metrics(["ndcg@10", "ap", "ndcg@5", "recall@10"], 1000)]
    ['ndcg@10', 'recall@10']
    >>> [str(metric) for metric in charted_metrics(["auc"], 7)]
    ['recall@7']
    """
    by_family: dict[Metric, Metric] = {}
    for metric in make_metrics(list(metrics)):
        if metric.cutoff is not None:
            by_family.setdefault(replace(metric, cutoff=1), metric)
    if not by_family:
        return make_metrics(f"recall@{min(_STAND_IN, largest)}")
    return tuple(by_family.values())[:_FAMILIES]


def at_cutoffs(metric: Metric, cutoffs: Iterable[int]) -> tuple[Metric, ...]:
    """Return the metric at other cut-offs."""
    return tuple(replace(metric, cutoff=k) for k in cutoffs)


def family_name(metric: Metric) -> str:
    """Return the name of the metric with K instead of its cut-off.

    Examples
    --------
    >>> [family_name(metric) for metric in make_metrics("recall@10,ap(norm=rel)@5")]
    ['recall@K', 'ap(norm=rel)@K']
    """
    return f"{replace(metric, cutoff=None)}@K"


def curve_cutoffs(metric: Metric, largest: int, *, least: int = 1) -> tuple[int, ...]:
    """Return the cut-offs of a curve: round ones up to 500, and the metric's own.

    Examples
    --------
    >>> curve_cutoffs(make_metrics("recall@12")[0], 25)
    (1, 2, 3, 5, 7, 10, 12, 15, 20)
    """
    cutoffs = set() if metric.cutoff is None else {metric.cutoff}
    return tuple(sorted(k for k in {*CURVE_CUTOFFS, *cutoffs} if least <= k <= largest))


def informative_cutoffs(metric: Metric, largest: int, number: int) -> tuple[int, ...]:
    """Return the metric's own cut-off and the most informative others, ascending, at most ``number``.

    Examples
    --------
    >>> informative_cutoffs(make_metrics("recall@7")[0], 60, 4)
    (1, 7, 10, 30)
    """
    cutoffs = [] if metric.cutoff is None else [metric.cutoff]
    ordered = dict.fromkeys([*cutoffs, *(k for k in INFORMATIVE_CUTOFFS if k <= largest)])
    return tuple(sorted(list(ordered)[: min(number, len(INFORMATIVE_CUTOFFS))]))
