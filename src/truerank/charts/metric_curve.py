"""Charts: a metric against its cut-off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from truerank.charts.cutoff import at_cutoffs, family_name, ladder, telling
from truerank.charts.limits import Limits
from truerank.charts.setting import Setting
from truerank.charts.wording import each
from truerank.core.chart import Chart, ChartAxis, Series
from truerank.core.errors import CannotEstimate
from truerank.core.estimate import Estimate
from truerank.core.metric import Metric
from truerank.core.number import percent
from truerank.core.ranks import Ranks, SampledRanks, TiePolicy
from truerank.core.tally import tally
from truerank.estimation import estimate_each
from truerank.metrics import values

_VALUES = 20_000_000  # of users and cut-offs held at once: 160 MB
_CELLS = 10_000_000  # of cells and cut-offs held at once: 80 MB
_FEWEST = 4  # cut-offs of a curve


def exact_series(
    name: str, ranks: Ranks, metric: Metric, *, ties: TiePolicy = "expected", seed: int = 0, label: str = ""
) -> Series:
    """Return the exact metric of one model along K.

    Examples
    --------
    >>> from truerank.metrics import make_metrics
    >>> series = exact_series("A", Ranks.single([0, 3], n_pool=5), make_metrics("recall@1")[0])
    >>> series.x, series.y
    ((1.0, 2.0, 3.0, 5.0), (0.5, 0.5, 0.5, 1.0))
    """
    cutoffs = ladder(metric, int(ranks.n_pool.max()))
    every = at_cutoffs(metric, cutoffs)
    step = max(_VALUES // max(ranks.n_users, 1), 1)
    means: list[float] = []
    for start in range(0, len(every), step):
        means += values(every[start : start + step], ranks, ties=ties, seed=seed).mean(axis=0).tolist()
    return Series(label or name, tuple(map(float, cutoffs)), tuple(means), model=name)


def estimated_series(
    name: str, ranks: SampledRanks, metric: Metric, setting: Setting, label: str = ""
) -> Series:
    """Return the estimated metric of one model along K, with its interval where there is one.

    Raises
    ------
    CannotEstimate
        When the estimator cannot treat the sample.
    """
    cutoffs = _affordable(metric, ranks, setting)
    found = list(estimate_each(name, ranks, setting.estimation(at_cutoffs(metric, cutoffs))))
    has_interval = all(one.low is not None for one in found)
    return Series(
        label or name,
        tuple(map(float, cutoffs)),
        tuple(one.value for one in found),
        low=_ends(found, "low") if has_interval else (),
        high=_ends(found, "high") if has_interval else (),
        model=name,
        is_dashed=True,
    )


def bound_series(name: str, limits: Limits, level: float) -> Series:
    """Return all values that the sample of one model allows, along K."""
    bounds = limits.bounds.values()
    return Series(
        f"every value the sample allows, at {percent(level)}",
        tuple(map(float, limits.bounds)),
        tuple((one.low + one.high) / 2 for one in bounds),
        low=tuple(one.low for one in bounds),
        high=tuple(one.high for one in bounds),
        look="band",
        model=name,
    )


def curves_chart(
    metric: Metric,
    exact: Mapping[str, Series],
    estimated: Mapping[str, Series],
    *,
    key: str,
    notes: Sequence[str] = (),
) -> Chart:
    """Return one metric of all models along K, without intervals.

    Parameters
    ----------
    metric : at the cut-off that the words speak of
    exact, estimated : series by model
    key : of the chart
    notes : what to read with it
    """
    lines = [*exact.values(), *(replace(one, low=(), high=()) for one in estimated.values())]
    said = [_said(one, metric) for one in lines]
    return Chart(
        key=key,
        title=f"{family_name(metric)} of all models",
        words=f"{family_name(metric)} against K. At K = {metric.cutoff}: {each(said)}.",
        x=ChartAxis("K", "log", "count"),
        y=ChartAxis(family_name(metric), low=0.0),
        series=tuple(lines),
        notes=tuple(notes),
    )


def curve_chart(
    name: str,
    metric: Metric,
    *,
    exact: Series | None,
    estimated: Series | None,
    limits: Limits | None,
    setting: Setting,
    key: str,
    notes: Sequence[str] = (),
) -> Chart:
    """Return one metric of one model along K: what the sample allows, the estimate, and the truth if known.

    Parameters
    ----------
    name, metric : whose and which; the words speak of its cut-off
    exact, estimated, limits : what is known; at least one
    setting : how the result was made
    key : of the chart
    notes : what to read with it
    """
    kind, own = family_name(metric), metric.cutoff
    series, said, told = [], [], list(notes)
    if limits is not None and limits.bounds:
        series.append(bound_series(name, limits, setting.level))
        bound = limits.bounds.get(int(own or 0))
        if bound is not None:
            said.append(f"the sample allows {bound.low:.3f} to {bound.high:.3f}")
        told.append(
            "The wide band holds every value that some distribution of ranks, which fits the sample, gives; "
            "no estimator enters. Where it is wide, the line depends on the estimator."
        )
    elif limits is not None:
        told.append(f"No bounds are shown: {limits.why}")
    if estimated is not None:
        series.append(replace(estimated, label=str(setting.estimator)))
        said.append(_said(series[-1], metric))
        if estimated.low:
            told.append(
                f"The narrow band is the {percent(setting.level)} interval of the estimate, made as in the "
                "table but with fewer resamples, if any; where that ignores bias, so does the band."
            )
    if exact is not None:
        series.append(replace(exact, label="exact"))
        said.append(_said(series[-1], metric))
    return Chart(
        key=key,
        title=f"{kind} of {name}",
        words=f"{kind} of {name} against K. At K = {own}: {each(said)}.",
        x=ChartAxis("K", "log", "count"),
        y=ChartAxis(kind, low=0.0),
        series=tuple(series),
        notes=tuple(told),
    )


def safely_estimated(
    name: str, ranks: SampledRanks, metric: Metric, setting: Setting, label: str = ""
) -> tuple[Series | None, str]:
    """Return the estimated series, or why there is none."""
    try:
        return estimated_series(name, ranks, metric, setting, label), ""
    except CannotEstimate as error:
        return None, f"No estimate is shown: {error}"


def _affordable(metric: Metric, ranks: SampledRanks, setting: Setting) -> tuple[int, ...]:
    """Return the cut-offs of an estimated curve; fewer where a corrected value per cell takes much memory."""
    largest = int(ranks.n_pool.max())
    every = ladder(metric, largest)
    number = _CELLS // max(tally(ranks, ties=setting.ties, seed=setting.seed).n_cells, 1)
    return every if number >= len(every) else telling(metric, largest, max(number, _FEWEST))


def _ends(found: Sequence[Estimate], which: str) -> tuple[float, ...]:
    return tuple(float(np.nan if (end := getattr(one, which)) is None else end) for one in found)


def _said(series: Series, metric: Metric) -> str:
    """Return the value of a series at the metric's own cut-off."""
    at = series.x.index(float(metric.cutoff or 0))
    interval = f" ({series.low[at]:.4f} to {series.high[at]:.4f})" if series.low else ""
    return f"{series.label} {series.y[at]:.4f}{interval}"
