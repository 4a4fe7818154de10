"""What sampled ranks allow each model's metrics, and so their differences, to be."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from truerank.core.errors import CannotEstimate
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.types import FloatArray
from truerank.estimation.base import Estimator
from truerank.estimation.distribution.base import MixtureEstimator
from truerank.inference.bounds.identify import identification_bounds
from truerank.inference.bounds.sample_size import SampleDesign
from truerank.inference.estimate_interval.delta import held
from truerank.inference.estimate_interval.outcomes import completed
from truerank.inference.estimate_interval.registry import Estimated
from truerank.inference.estimate_interval.worst_bias import worst_bias
from truerank.metrics.base import Metric
from truerank.workflows.compare.options import ComparedModel, CompareOptions

_MOST = 20_000  # negatives that are advised
_NEARLY = 0.8  # of all candidates: who draws so many can as well rank them all


@dataclass(frozen=True, eq=False)
class ModelBounds:
    """The smallest and largest values of all models, (n_models, n_metrics); NaN where there are none.

    Parameters
    ----------
    low, high : all hold at once; those of exact ranks are the values
    bias_low, bias_high : of the estimator, over the same ranks; infinite where that is not known
    methods : how the region of each model was made
    reasons : by model, why it has no limits
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
        """Return the ends of A - B per metric.

        Nothing is known of how the ranks of A and B go together, so each may be at its own end; where users
        or negatives are shared this is wider than it need be. The interval for noise, moved by the worst
        bias of A minus B, holds as well: what both leave is returned.
        """
        low, high = self.low[a] - self.high[b], self.high[a] - self.low[b]
        inner_low = np.fmax(low, noise[0] - (self.bias_high[a] - self.bias_low[b]))
        inner_high = np.fmin(high, noise[1] - (self.bias_low[a] - self.bias_high[b]))
        fits = inner_low <= inner_high
        return np.where(fits, inner_low, low), np.where(fits, inner_high, high)


def model_bounds(
    entries: Sequence[ComparedModel], options: CompareOptions, *, progress: Progress = SILENT
) -> ModelBounds:
    """Return identification bounds of each model, at levels that make all of them hold together.

    Where the estimator is linear its bias is bounded over the same region. Then the region takes half of
    1 - level, and the noise of the differences takes the other half.
    """
    shape = (len(entries), len(options.metrics))
    low, high = np.full(shape, np.nan), np.full(shape, np.nan)
    bias_low, bias_high = np.full(shape, -np.inf), np.full(shape, np.inf)
    methods, reasons = [], {}
    sampled = [entry for entry in entries if entry.found is not None]
    with tracked(progress, "bounds", len(sampled)) as task:
        for row, entry in enumerate(entries):
            if entry.found is None:
                low[row] = high[row] = entry.value
                bias_low[row] = bias_high[row] = 0.0
                methods.append("exact")
                continue
            try:
                level = region_level(options, len(sampled))
                found = identification_bounds(
                    entry.found.tally.unbinned, options.metrics, level=level, shape=options.shape
                )
                low[row], high[row] = [one.low for one in found], [one.high for one in found]
                if has_linear_bias(options.estimator):
                    bias_low[row], bias_high[row] = _bias(entry.found, level, options)
                methods.append(found[0].method)
            except CannotEstimate as error:
                reasons[entry.name] = str(error)
                methods.append("")
            task.advance()
    return ModelBounds(low, high, bias_low, bias_high, tuple(methods), reasons)


def has_linear_bias(estimator: Estimator) -> bool:
    """Whether the estimate is linear in the sampled ranks, nothing in it being fitted to them."""
    return not isinstance(estimator, MixtureEstimator) and held(estimator) == ""


def region_level(options: CompareOptions, n_models: int) -> float:
    """Return the level of each model's region; see ``model_bounds``."""
    share = 2 if has_linear_bias(options.estimator) else 1
    return 1 - (1 - options.level) / (share * max(n_models, 1))


def _bias(found: Estimated, level: float, options: CompareOptions) -> FloatArray:
    """Return the least and the largest bias of each metric, (2, n_metrics)."""
    counted = completed(found.tally)
    x = found.estimator.corrected(counted, options.metrics)
    return worst_bias(found, counted, x, level=level, shape=options.shape).T


class Adviser:
    """How many negatives would let the bounds of two models part, if sampled ranks stay as they are.

    Widths of bounds are computed for doubling sizes of samples, once per model and metric, and joined by
    straight lines between logarithms.
    """

    def __init__(
        self, entries: Sequence[ComparedModel], limits: ModelBounds, options: CompareOptions
    ) -> None:
        self.entries, self.limits, self.options = entries, limits, options
        self.n_sampled = sum(entry.found is not None for entry in entries)
        self._plans: dict[int, SampleDesign] = {}
        self._widths: dict[tuple[int, Metric, int], float] = {}

    def negatives(self, a: int, b: int, metric: Metric, gap: float) -> int | None:
        """Return about how many are needed for two models whose values lie ``gap`` apart.

        Each bound may reach half of the gap to either side, or all of it where the other model is exact. None
        where only ranking (nearly) all items would do.
        """
        unknown = [index for index in (a, b) if self.entries[index].found is not None]
        sizes = [self._size(index, metric, gap / len(unknown)) for index in unknown]
        found = [size for size in sizes if size is not None]
        return max(found) if len(found) == len(sizes) else None

    def _size(self, index: int, metric: Metric, half_width: float) -> int | None:
        plan = self._plan(index)
        most = min(int(_NEARLY * plan.contexts.n_candidates.max()), _MOST)
        before, size = plan.start, min(2 * plan.start, most)
        while most > plan.start:
            width = self._width(index, metric, size)
            if width <= half_width:
                wide = self._width(index, metric, before)
                if wide <= half_width:
                    return before
                share = math.log(wide / half_width) / math.log(wide / max(width, 1e-9))
                return _two_digits(before * (size / before) ** share)
            if size == most:
                return None
            before, size = size, min(2 * size, most)
        return None

    def _width(self, index: int, metric: Metric, n_negatives: int) -> float:
        key = (index, metric, n_negatives)
        if key not in self._widths:
            self._widths[key] = self._plan(index).half_width(metric, n_negatives)
        return self._widths[key]

    def _plan(self, index: int) -> SampleDesign:
        if index not in self._plans:
            self._plans[index] = SampleDesign.of(
                cast(Estimated, self.entries[index].found).tally,
                level=region_level(self.options, self.n_sampled),
                method="binomial" if self.limits.methods[index] == "binomial" else "chernoff",
                shape=self.options.shape,
                pools="free",
            )
        return self._plans[index]


def _two_digits(number: float) -> int:
    """Return the number rounded up to two digits."""
    unit = 10 ** max(math.floor(math.log10(number)) - 1, 0)
    return int(math.ceil(number / unit) * unit)
