"""All charts of a result of ``evaluate`` or ``estimate``, in the order in which a report shows them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from truerank.core.chart import Chart, Picture
from truerank.core.errors import CannotEstimate
from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.result import Result
from truerank.metrics.base import Metric
from truerank.report.charts.cost import cost_chart
from truerank.report.charts.curves import (
    BoundCurve,
    blind_spot_chart,
    bound_curves,
    curve_chart,
    curves_chart,
    estimated_series_or_reason,
    exact_series,
)
from truerank.report.charts.order_flip import order_flip_chart
from truerank.report.charts.ranks import exact_rank_chart, sampled_rank_chart
from truerank.report.charts.settings import ChartSettings, charted_metrics

_EACH = 8  # models with charts of their own


def result_charts(
    result: Result,
    sampled: Mapping[str, SampledRanks] | None = None,
    *,
    bounds: bool = True,
    progress: Progress = SILENT,
) -> tuple[Picture, ...]:
    """Return the charts of a result of ``evaluate`` or ``estimate``.

    The distribution of target ranks, metrics against K with intervals and bounds, which K a sample resolves,
    the order of models against the sample size, and the cost of ranking; each where the result holds the
    ranks that it needs. Put them into a report with ``dataclasses.replace(result, charts=...)``. Equal inputs
    give equal charts.

    Parameters
    ----------
    result : its ``ranks`` are the exact ones, its ``sampled`` those of a sample
    sampled : sampled ranks by model, where estimates were made from them; those of the result by default
    bounds : whether to find identification bounds along K, which takes up to about 20 seconds
    progress : where long jobs report

    Examples
    --------
    >>> from truerank.workflows.estimate import estimate
    >>> ranks = {"ease": SampledRanks.single([0, 3, 0, 7], n_negatives=9, n_pool=50)}
    >>> charts = result_charts(estimate(ranks, "recall@10"), ranks)
    >>> [chart.key for chart in charts]
    ['rank-distribution-1', 'recall-by-k-1', 'blind-spot', 'order-flip']
    """
    return tuple(
        ResultCharts.of(result, result.sampled if sampled is None else sampled, bounds, progress).charts()
    )


@dataclass(frozen=True, eq=False)
class ResultCharts:
    """A result and the ranks behind it.

    Parameters
    ----------
    result : what the charts show
    setting : how its numbers were computed
    exact, sampled : ranks by model; users without targets are not there
    has_bounds, progress : as in ``result_charts``
    metrics : with cut-offs
    """

    result: Result
    setting: ChartSettings
    exact: Mapping[str, Ranks]
    sampled: Mapping[str, SampledRanks]
    has_bounds: bool
    progress: Progress
    metrics: tuple[Metric, ...] = ()

    @classmethod
    def of(
        cls, result: Result, sampled: Mapping[str, SampledRanks], has_bounds: bool, progress: Progress
    ) -> ResultCharts:
        """Return the charts of a result, with the metrics to show."""
        exact = {name: ranks for name, ranks in result.ranks.items() if len(ranks)}
        known_samples = {name: ranks for name, ranks in sampled.items() if len(ranks)}
        pools = [int(ranks.n_pool.max()) for ranks in exact.values()]
        pools += [int(ranks.n_pool.max()) for ranks in known_samples.values()]
        metrics = charted_metrics(result.metrics(), min(pools)) if pools else ()
        metrics = tuple(metric for metric in metrics if (metric.cutoff or 1) <= min(pools, default=1))
        return cls(result, ChartSettings.of(result), exact, known_samples, has_bounds, progress, metrics)

    def charts(self) -> list[Chart]:
        """Return the charts; the notes of the last one say which charts are missing and why."""
        limits = self._limits()
        order = self._order_chart()
        charts = [*self._rank_charts(), *self._metric_charts(limits), *self._blind_spots(limits)]
        omitted = [order] if isinstance(order, str) else []
        if isinstance(order, Chart):
            charts.append(order)
        cost = cost_chart(self.result)
        if cost is not None:
            charts.append(cost)
        if len(self.sampled) > _EACH:
            omitted.append(f"Only the first {_EACH} models have charts of their own.")
        if charts and omitted:
            charts[-1] = replace(charts[-1], notes=(*charts[-1].notes, *omitted))
        return charts

    @property
    def _own(self) -> dict[str, SampledRanks]:
        """The first models, which get charts of their own."""
        return dict(list(self.sampled.items())[:_EACH])

    @property
    def _bounded_metrics(self) -> tuple[Metric, ...]:
        """Metrics with bounds: all of a single model, the first one when there are several models."""
        return self.metrics if len(self.sampled) == 1 else self.metrics[:1]

    def _rank_charts(self) -> Iterator[Chart]:
        setting = self.setting
        if self.exact and not self.sampled:
            yield exact_rank_chart(self.exact, setting.ties)
        for position, (name, ranks) in enumerate(self._own.items()):
            yield sampled_rank_chart(
                name,
                ranks,
                self.exact.get(name),
                estimator=setting.mixture,
                ties=setting.ties,
                seed=setting.seed,
                key=f"rank-distribution-{position + 1}",
            )

    def _limits(self) -> dict[str, tuple[BoundCurve, ...]]:
        if not self.has_bounds or not self._bounded_metrics:
            return {}
        return bound_curves(
            self._own,
            self._bounded_metrics,
            level=self.setting.level,
            ties=self.setting.ties,
            progress=self.progress,
        )

    def _metric_charts(self, limits: Mapping[str, tuple[BoundCurve, ...]]) -> Iterator[Chart]:
        setting = self.setting
        for position, metric in enumerate(self.metrics):
            exact = {
                name: exact_series(
                    name,
                    ranks,
                    metric,
                    ties=setting.ties,
                    seed=setting.seed,
                    label=self._label(name, "exact"),
                )
                for name, ranks in self.exact.items()
            }
            tried = {
                name: estimated_series_or_reason(
                    name, ranks, metric, setting, self._label(name, str(setting.estimator))
                )
                for name, ranks in self.sampled.items()
            }
            estimated = {name: series for name, (series, _) in tried.items() if series is not None}
            why = tuple(dict.fromkeys(sentence for _, sentence in tried.values() if sentence))
            if str(metric) not in self.result.metrics():
                why = (*why, f"The metrics asked for have no cut-off; {metric.key} stands in for them.")
            key = f"{metric.key}-by-k" if self._is_only(metric) else f"{metric.key}-{position + 1}-by-k"
            if len(self.sampled) != 1 and (exact or estimated):
                yield curves_chart(metric, exact, estimated, key=key, notes=why)
            if metric not in self._bounded_metrics:
                continue
            for number, name in enumerate(self._own):
                curve = limits[name][position] if name in limits else None
                if name in estimated or name in exact or (curve is not None and curve.bounds):
                    yield curve_chart(
                        name,
                        metric,
                        exact=exact.get(name),
                        estimated=estimated.get(name),
                        limits=curve,
                        setting=setting,
                        key=f"{key}-{number + 1}",
                        notes=[tried[name][1]] if tried[name][1] else [],
                    )

    def _is_only(self, metric: Metric) -> bool:
        return sum(other.key == metric.key for other in self.metrics) == 1

    def _label(self, name: str, way: str) -> str:
        """Return the label of a line: the model, and exact or the estimator where a chart has both."""
        return f"{name}, {way}" if self.exact and self.sampled else name

    def _blind_spots(self, limits: Mapping[str, tuple[BoundCurve, ...]]) -> Iterator[Chart]:
        for position in range(len(self._bounded_metrics) if limits else 0):
            curves = {name: each[position] for name, each in limits.items()}
            key = "blind-spot" if position == 0 else f"blind-spot-{position + 1}"
            chart = blind_spot_chart(curves, n_negatives=self._drawn(), key=key)
            if chart is not None:
                yield chart

    def _order_chart(self) -> Chart | str | None:
        """Return the chart, a sentence on why there is none, or None where there are no ranks."""
        ranks: Mapping[str, Ranks] | Mapping[str, SampledRanks] = self.exact or self.sampled
        if not ranks or not self.metrics:
            return None
        try:
            return order_flip_chart(ranks, self.metrics[0], ties=self.setting.ties, seed=self.setting.seed)
        except CannotEstimate as error:
            return f"There is no chart of the order of models against m: {error}"

    def _drawn(self) -> str:
        sizes = np.unique(np.concatenate([np.unique(ranks.n_negatives) for ranks in self.sampled.values()]))
        return f"{int(sizes[0]):,} negatives" if len(sizes) == 1 else "these samples"
