"""How the numbers of a result were made, so that charts make more of them alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from truerank.core.errors import UnknownName
from truerank.core.estimator import Estimator
from truerank.core.metric import Metric
from truerank.core.ranks import TiePolicy
from truerank.core.result import Result
from truerank.core.uncertainty import Target, Uncertainty
from truerank.estimation import DEFAULT_ESTIMATORS, Estimation
from truerank.estimators import ESTIMATORS
from truerank.estimators.mixture import MixtureEstimator
from truerank.estimators.naive import Naive
from truerank.uncertainty import UNCERTAINTIES
from truerank.uncertainty.auto import Auto
from truerank.uncertainty.bootstrap import Bootstrap

_RESAMPLES = 100  # a spread of so many is within a tenth, which nobody sees


@dataclass(frozen=True)
class Setting:
    """What charts of a result go by.

    Parameters
    ----------
    estimators : in the order of the result; none for exact ranks
    ties, level, seed, uncertainty, target : as in ``Estimation``
    """

    estimators: tuple[Estimator, ...] = ()
    ties: TiePolicy = "expected"
    level: float = 0.95
    seed: int = 0
    uncertainty: Uncertainty = field(default_factory=lambda: UNCERTAINTIES.make("auto"))
    target: Target = "test-users"

    @classmethod
    def of(cls, result: Result) -> Setting:
        """Read the setting from a result.

        Examples
        --------
        >>> from truerank.core.estimate import Estimate
        >>> one = Estimate("ease", "recall@10", 0.1, level=0.9, kind="estimate", estimator="mle")
        >>> setting = Setting.of(Result("estimate", (one,), provenance={"ties": "best"}))
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
            target=given.get("target") or plain.target,
        )

    @property
    def estimator(self) -> Estimator:
        """The first that corrects, or the first there is."""
        correcting = [one for one in self.estimators if not isinstance(one, Naive)]
        return (*correcting, *self.estimators, ESTIMATORS.make(DEFAULT_ESTIMATORS))[0]

    @property
    def mixture(self) -> MixtureEstimator | None:
        """The first that fits a distribution of ranks."""
        fitting = [one for one in self.estimators if isinstance(one, MixtureEstimator)]
        return fitting[0] if fitting else None

    def estimation(self, metrics: Sequence[Metric]) -> Estimation:
        """Return how metrics are estimated for a chart: by one estimator, with 100 resamples at most."""
        return Estimation(
            tuple(metrics),
            (self.estimator,),
            self.ties,
            self.level,
            self.seed,
            uncertainty=_quick(self.uncertainty),
            target=self.target,
        )


def _quick(uncertainty: Uncertainty) -> Uncertainty:
    """Return intervals that a chart can wait for."""
    if isinstance(uncertainty, Auto | Bootstrap) and uncertainty.resamples > _RESAMPLES:
        return replace(uncertainty, resamples=_RESAMPLES)
    return uncertainty


def _is_known(name: str) -> bool:
    """Whether a name is an estimator's; evaluation up to a precision has ways of its own."""
    try:
        ESTIMATORS.make(name)
    except UnknownName:
        return False
    return True
