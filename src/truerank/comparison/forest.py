"""Differences as a chart: a dot with its interval for every pair, what all ranks allow behind it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from truerank.comparison.difference import Comparison, Difference
from truerank.comparison.wording import headline
from truerank.core.chart import Chart, ChartAxis, Series
from truerank.core.errors import InvalidData
from truerank.core.number import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: What the bounds are called in legends.
BOUNDS = "what all ranks allow"


def forest(found: Comparison, metric: str) -> Chart:
    """Return the differences of all pairs in one metric; x counts the pairs.

    Raises
    ------
    InvalidData
        When the metric was not compared.
    """
    lines = [one for one in found.differences if one.metric == metric]
    if not lines:
        known = ", ".join(compared(found)) or "none"
        raise InvalidData(f"there is no difference in {metric!r}. Metrics that were compared: {known}.")
    bounds = _bounds(lines)
    zero = Series("no difference", (0.5, len(lines) + 0.5), (0.0, 0.0), is_dashed=True)
    dots = tuple(_dot(place, one) for place, one in enumerate(lines, start=1))
    return Chart(
        key=f"forest-{metric}",
        title=f"Differences in {metric}",
        words=f"Differences in {metric}, first minus second: {'; '.join(map(_words, lines))}.",
        x=ChartAxis("pair", unit="count"),
        y=ChartAxis(f"difference in {metric}"),
        series=(*((bounds,) if bounds else ()), zero, *dots),
        notes=_notes(lines, has_bounds=bounds is not None),
    )


def forests(found: Comparison) -> tuple[Chart, ...]:
    """Return one chart per metric."""
    return tuple(forest(found, metric) for metric in compared(found))


def draw_forests(found: Comparison, metric: str | None = None, *, width: float | None = None) -> Figure:
    """Return the forest of one metric, or a panel for each; see ``Comparison.plot``."""
    from truerank.core.drawing import draw_panels

    charts = forests(found) if metric is None else (forest(found, metric),)
    caption = " ".join(dict.fromkeys(note for chart in charts for note in chart.notes))
    panels = [replace(chart, y=replace(chart.y, label="")) for chart in charts]
    return draw_panels(panels, width=width, caption=caption)


def compared(found: Comparison) -> list[str]:
    """Return the metrics in the order they were asked for."""
    return list(dict.fromkeys(one.metric for one in found.differences))


def _dot(place: int, one: Difference) -> Series:
    label = f"{one.first} \N{MINUS SIGN} {one.second}"
    low, high = ((one.low,), (one.high,)) if one.low is not None and one.high is not None else ((), ())
    return Series(label, (place,), (one.value,), low, high, look="dots", model=label)


def _bounds(lines: list[Difference]) -> Series | None:
    ends = [
        (place, one.bound_low, one.bound_high)
        for place, one in enumerate(lines, start=1)
        if one.bound_low is not None and one.bound_high is not None
    ]
    if not ends:
        return None
    places, low, high = zip(*ends, strict=True)
    middle = tuple((a + b) / 2 for a, b in zip(low, high, strict=True))
    return Series(BOUNDS, places, middle, low, high, look="dots")


def _words(one: Difference) -> str:
    ends = "" if one.low is None or one.high is None else f" ({one.low:+.4f} to {one.high:+.4f})"
    return f"{one.first} and {one.second} {one.value:+.4f}{ends}, {headline(one)}"


def _notes(lines: list[Difference], *, has_bounds: bool) -> tuple[str, ...]:
    known = [one for one in lines if one.low is not None]
    notes = []
    if known and all(math.isclose(one.low or 0.0, one.high or 0.0) for one in known):
        notes.append("All items were ranked: on these users the differences are known and have no whiskers.")
    elif known:
        notes.append(f"Whiskers are {percent(known[0].level)} intervals.")
    if has_bounds:
        notes.append("Behind them in grey stands every difference that the sampled ranks allow.")
    return tuple(notes)
