"""Interface and registry of intervals for estimates from sampled ranks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from truerank.core.plugin import Plugin, Registry
from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import SampledRanks
from truerank.core.types import FloatArray
from truerank.estimation.base import Estimator
from truerank.estimation.tally import Tally
from truerank.inference.user_interval import Band
from truerank.metrics.base import Metric

#: What an interval covers: the value that exact evaluation of these test users would print, or its mean over
#: the population that the users are a sample of.
Target: TypeAlias = Literal["test-users", "population"]
TARGETS: tuple[str, ...] = get_args(Target)


@dataclass(frozen=True, eq=False)
class PointEstimates:
    """Point estimates of several metrics by one estimator, with the sample they were made from.

    Parameters
    ----------
    ranks : the sampled ranks
    tally : their counts, with the tie policy applied
    estimator, metrics : the estimator and the metrics that it estimated
    value : (n_metrics,) the estimates
    """

    ranks: SampledRanks
    tally: Tally
    estimator: Estimator
    metrics: tuple[Metric, ...]
    value: FloatArray


def sampled_fraction(target: Target, n_users: int, n_test_users: int | None) -> float:
    """Return f, the fraction of the users whose mean is the target that were sampled; 0 for a population.

    Examples
    --------
    >>> sampled_fraction("test-users", 50, 200), sampled_fraction("test-users", 50, None)
    (0.25, 1.0)
    """
    return 0.0 if target == "population" else n_users / (n_test_users or n_users)


@dataclass(frozen=True)
class Uncertainty(Plugin, ABC):
    """Method that makes confidence intervals for estimates from sampled ranks."""

    @abstractmethod
    def band(
        self,
        estimates: PointEstimates,
        *,
        target: Target = "test-users",
        level: float = 0.95,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Band:
        """Return one interval per metric, and the name of the method that made it.

        Limits are NaN where no interval can be given. The name ends in ``ignores bias`` where the interval
        covers the sampling error but not the bias of the estimator.

        Parameters
        ----------
        estimates : the point estimates
        target, level : what the intervals cover, and their nominal coverage
        seed : of the bootstrap
        progress : where methods that take long report
        """


UNCERTAINTIES: Registry[Uncertainty] = Registry(
    "uncertainty",
    {
        "auto": "truerank.inference.estimate_interval.auto:AutoInterval",
        "bias-aware": "truerank.inference.estimate_interval.bias_aware:BiasAware",
        "bootstrap": "truerank.inference.estimate_interval.bootstrap:Bootstrap",
        "bounds": "truerank.inference.estimate_interval.bias_aware:IdentificationInterval",
        "delta": "truerank.inference.estimate_interval.delta:Delta",
        "posterior": "truerank.inference.posterior.interval:PosteriorInterval",
        "sampling": "truerank.inference.estimate_interval.auto:SamplingInterval",
    },
)
