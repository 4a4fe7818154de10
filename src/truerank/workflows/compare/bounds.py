"""Identification bounds of each model's metrics and of their differences, from sampled ranks.

Bounds of all models hold simultaneously, so the difference A - B lies between the lower bound of A minus the
upper bound of B and the upper bound of A minus the lower bound of B. Where the estimator is linear, the
interval for noise widened by the worst bias holds as well, and both are intersected. ``NegativesNeeded`` says
how many negatives would separate the bounds of two models.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from truerank.core.errors import CannotEstimate
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.table import round_up
from truerank.core.types import FloatArray
from truerank.estimation.base import Estimator
from truerank.estimation.distribution.base import MixtureEstimator
from truerank.inference.bounds.identify import identification_bounds
from truerank.inference.bounds.sample_size import SampleDesign
from truerank.inference.estimate_interval.delta import held_fixed
from truerank.inference.estimate_interval.outcomes import complete_tally
from truerank.inference.estimate_interval.registry import PointEstimates
from truerank.inference.estimate_interval.worst_bias import worst_bias
from truerank.metrics.base import Metric
from truerank.workflows.compare.options import ComparedModel, CompareOptions

_MOST_NEGATIVES = 20_000  # more are never advised
_LARGEST_FRACTION = 0.8  # of all candidates: beyond it, ranking all items costs about the same


@dataclass(frozen=True, eq=False)
class ModelBounds:
    """Lower and upper bounds of all models' metrics, (n_models, n_metrics); NaN where there are none.

    Parameters
    ----------
    low, high : hold simultaneously; both equal the value for exact ranks
    bias_low, bias_high : bounds of the estimator's bias over the same rank distributions; infinite where the
        estimator is not linear
    methods : how the confidence region of each model's ranks was made
    reasons : by model, why it has no bounds
    """

    low: FloatArray
    high: FloatArray
    bias_low: FloatArray
    bias_high: FloatArray
    methods: tuple[str, ...]
    reasons: dict[str, str] = field(default_factory=dict)

    def of_difference(
        self, a: int, b: int, noise: tuple[FloatArray, FloatArray]
    ) -> tuple[FloatArray, FloatArray]:
        """Return the lower and the upper bound of A - B per metric.

        The joint distribution of the ranks of A and B is not identified, so each model may be at its own
        bound; where users or negatives are shared this is conservative. The interval for noise, widened by
        the worst bias of A minus B, holds as well, and the intersection of both is returned.

        Parameters
        ----------
        a, b : indices of the models
        noise : lower and upper limits of the interval for noise, (n_metrics,) each
        """
        low, high = self.low[a] - self.high[b], self.high[a] - self.low[b]
        inner_low = np.fmax(low, noise[0] - (self.bias_high[a] - self.bias_low[b]))
        inner_high = np.fmin(high, noise[1] - (self.bias_low[a] - self.bias_high[b]))
        overlaps = inner_low <= inner_high
        return np.where(overlaps, inner_low, low), np.where(overlaps, inner_high, high)


def model_bounds(
    models: Sequence[ComparedModel], options: CompareOptions, *, progress: Progress = SILENT
) -> ModelBounds:
    """Return identification bounds of each model, at levels that make all of them hold simultaneously.

    Where the estimator is linear its bias is bounded over the same confidence region. The region then gets
    half of 1 - level, and the noise of the differences the other half.
    """
    shape = (len(models), len(options.metrics))
    low, high = np.full(shape, np.nan), np.full(shape, np.nan)
    bias_low, bias_high = np.full(shape, -np.inf), np.full(shape, np.inf)
    methods, reasons = [], {}
    sampled = [model for model in models if model.estimated is not None]
    with tracked(progress, "bounds", len(sampled)) as task:
        for row, model in enumerate(models):
            if model.estimated is None:
                low[row] = high[row] = model.value
                bias_low[row] = bias_high[row] = 0.0
                methods.append("exact")
                continue
            try:
                level = region_level(options, len(sampled))
                bounds = identification_bounds(
                    model.estimated.tally.unbinned, options.metrics, level=level, shape=options.shape
                )
                low[row], high[row] = [bound.low for bound in bounds], [bound.high for bound in bounds]
                if has_linear_bias(options.estimator):
                    bias_low[row], bias_high[row] = _bias(model.estimated, level, options)
                methods.append(bounds[0].method)
            except CannotEstimate as error:
                reasons[model.name] = str(error)
                methods.append("")
            task.advance()
    return ModelBounds(low, high, bias_low, bias_high, tuple(methods), reasons)


def has_linear_bias(estimator: Estimator) -> bool:
    """Whether the estimator is a fixed linear function of the observed counts, with no fitted prior."""
    return not isinstance(estimator, MixtureEstimator) and held_fixed(estimator) == ""


def region_level(options: CompareOptions, n_models: int) -> float:
    """Return the level of each model's confidence region; see ``model_bounds``."""
    n_parts = 2 if has_linear_bias(options.estimator) else 1
    return 1 - (1 - options.level) / (n_parts * max(n_models, 1))


def _bias(estimated: PointEstimates, level: float, options: CompareOptions) -> FloatArray:
    """Return the smallest and the largest bias of each metric, (2, n_metrics)."""
    counted = complete_tally(estimated.tally)
    x = estimated.estimator.corrected(counted, options.metrics)
    return worst_bias(estimated, counted, x, level=level, shape=options.shape).T


class NegativesNeeded:
    """Number of negatives with which the bounds of two models would no longer overlap, by extrapolation.

    The rank distribution is taken as the sampled ranks suggest it. Widths of bounds are computed for doubling
    sample sizes, once per model and metric, and interpolated linearly on logarithmic axes.

    Parameters
    ----------
    models, bounds, options : the models, what ``model_bounds`` returned for them, and the rules
    """

    def __init__(self, models: Sequence[ComparedModel], bounds: ModelBounds, options: CompareOptions) -> None:
        self.models, self.bounds, self.options = models, bounds, options
        self.n_sampled = sum(model.estimated is not None for model in models)
        self._designs: dict[int, SampleDesign] = {}
        self._half_widths: dict[tuple[int, Metric, int], float] = {}

    def for_pair(self, a: int, b: int, metric: Metric, gap: float) -> int | None:
        """Return about how many negatives are needed for two models whose values lie ``gap`` apart.

        Each bound may reach half of the gap to either side, or all of it where the other model is exact. None
        where only ranking (nearly) all items would do.
        """
        sampled = [index for index in (a, b) if self.models[index].estimated is not None]
        sizes = [self._size(index, metric, gap / len(sampled)) for index in sampled]
        known = [size for size in sizes if size is not None]
        return max(known) if len(known) == len(sizes) else None

    def _size(self, index: int, metric: Metric, half_width: float) -> int | None:
        design = self._design(index)
        most = min(int(_LARGEST_FRACTION * design.contexts.n_candidates.max()), _MOST_NEGATIVES)
        smaller, size = design.start, min(2 * design.start, most)
        while most > design.start:
            reached = self._half_width(index, metric, size)
            if reached <= half_width:
                wider = self._half_width(index, metric, smaller)
                if wider <= half_width:
                    return smaller
                exponent = math.log(wider / half_width) / math.log(wider / max(reached, 1e-9))
                return round_up(smaller * (size / smaller) ** exponent, digits=2)
            if size == most:
                return None
            smaller, size = size, min(2 * size, most)
        return None

    def _half_width(self, index: int, metric: Metric, n_negatives: int) -> float:
        key = (index, metric, n_negatives)
        if key not in self._half_widths:
            self._half_widths[key] = self._design(index).half_width(metric, n_negatives)
        return self._half_widths[key]

    def _design(self, index: int) -> SampleDesign:
        if index not in self._designs:
            self._designs[index] = SampleDesign.of(
                cast(PointEstimates, self.models[index].estimated).tally,
                level=region_level(self.options, self.n_sampled),
                method="binomial" if self.bounds.methods[index] == "binomial" else "chernoff",
                shape=self.options.shape,
                pools="free",
            )
        return self._designs[index]
