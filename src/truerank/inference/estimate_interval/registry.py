"""The intervals of estimates there are.

Intervals of estimates from sampled ranks as plug-ins.
"""

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

#: What an interval is for: the value that exact evaluation of these test users would print, or the value that
#: it would print for all users like them.
Target: TypeAlias = Literal["test-users", "population"]
TARGETS: tuple[str, ...] = get_args(Target)


@dataclass(frozen=True, eq=False)
class Estimated:
    """Estimates of several metrics by one estimator, and what they were made from.

    Parameters
    ----------
    ranks : the sampled ranks
    tally : their counts, with the tie policy applied
    estimator, metrics : what was asked
    value : (n_metrics,) the estimates
    """

    ranks: SampledRanks
    tally: Tally
    estimator: Estimator
    metrics: tuple[Metric, ...]
    value: FloatArray


@dataclass(frozen=True)
class Uncertainty(Plugin, ABC):
    """A way to say how far an estimate from sampled ranks may lie from its target."""

    @abstractmethod
    def band(
        self,
        found: Estimated,
        *,
        target: Target = "test-users",
        level: float = 0.95,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Band:
        """Return one interval per metric, and the name of the method that made it.

        Ends are NaN where no interval can be given. The name ends in ``ignores bias`` where the interval
        holds the noise of the sample but not what the estimator is off by on average.

        Parameters
        ----------
        found : the estimates
        target, level : what the intervals are for, and how surely
        seed : of everything random
        progress : where kinds that take long report
        """


UNCERTAINTIES: Registry[Uncertainty] = Registry(
    "uncertainty",
    {
        "auto": "truerank.inference.estimate_interval.auto:AutoInterval",
        "bias-aware": "truerank.inference.estimate_interval.bias_aware:BiasAware",
        "bootstrap": "truerank.inference.estimate_interval.bootstrap:Bootstrap",
        "bounds": "truerank.inference.estimate_interval.bias_aware:Identified",
        "delta": "truerank.inference.estimate_interval.delta:Delta",
    },
)
