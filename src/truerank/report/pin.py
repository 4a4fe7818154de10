"""Marks at points: dots with whiskers, and the markers that tell lines apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from truerank.core.chart import Chart, Series, Unit
from truerank.core.number import percent
from truerank.report.axis import Axis
from truerank.report.look import Look
from truerank.report.outline import bar_middles, bar_slot

_ALL = 12  # lines of up to so many points have a marker at each
_SOME = 5  # longer ones have this many
_APART = 11  # pixels between dots at one x


@dataclass(frozen=True)
class Pin:
    """One mark.

    Parameters
    ----------
    look : colour and shape
    x, y : place in percent from the upper left corner
    shift : pixels to the right, so that dots at one x do not hide each other
    whisker : upper and lower end in percent from above; None without an interval
    words : the point in words
    """

    look: Look
    x: float
    y: float
    words: str
    shift: float = 0.0
    whisker: tuple[float, float] | None = None


def dot_pins(chart: Chart, looks: Sequence[Look], x: Axis, y: Axis) -> list[Pin]:
    """Return the dots of all series that stand alone.

    Dots of models at one x stand side by side; a grey reference stays at its x, behind later series.
    """
    series = [(one, look) for one, look in zip(chart.series, looks, strict=True) if one.look == "dots"]
    shared: dict[float, list[int]] = {}  # by x which models have a dot there
    for number, (one, _) in enumerate(series):
        for a in dict.fromkeys(one.x if one.model else ()):
            shared.setdefault(a, []).append(number)
    pins = []
    for number, (one, look) in enumerate(series):
        for at, (a, b) in enumerate(zip(one.x, one.y, strict=True)):
            if not (x.holds(a) and y.holds(b)):
                continue
            rivals = shared[a] if one.model else [number]
            apart = min(_APART, 90 / len(rivals))
            pins.append(
                Pin(
                    look,
                    x.place(a),
                    _from_above(y, b),
                    _words(chart, one, at),
                    round((rivals.index(number) - (len(rivals) - 1) / 2) * apart, 1),
                    _whisker(one, at, y),
                )
            )
    return pins


def line_pins(chart: Chart, looks: Sequence[Look], x: Axis, y: Axis) -> list[Pin]:
    """Return markers along the lines, at different places for different lines."""
    lines = [
        (one, look)
        for one, look in zip(chart.series, looks, strict=True)
        if one.look in ("line", "step") and look.outline
    ]
    return [
        Pin(look, x.place(one.x[at]), _from_above(y, one.y[at]), _words(chart, one, at))
        for number, (one, look) in enumerate(lines)
        for at in _chosen(one, x, y, turn=(number + 0.5) / len(lines))
    ]


def bar_pins(chart: Chart, looks: Sequence[Look], x: Axis, y: Axis) -> list[Pin]:
    """Return markers on some bars of each series, where there are several."""
    bars = [(one, look) for one, look in zip(chart.series, looks, strict=True) if one.look == "bars"]
    slot = bar_slot([one for one, _ in bars], x)
    pins = []
    for turn, (one, look) in enumerate(bars):
        tops = bar_middles(one, x, y, slot=slot, turn=turn, of=len(bars)) if look.outline else []
        stride = max(1, -(-len(tops) // _SOME))
        pins += [Pin(look, round(left, 2), round(top, 2), one.label) for left, top in tops[::stride]]
    return pins


def _chosen(series: Series, x: Axis, y: Axis, *, turn: float) -> list[int]:
    """Return which points get a marker; ``turn`` in [0, 1) shifts them."""
    inside = [
        at for at, (a, b) in enumerate(zip(series.x, series.y, strict=True)) if x.holds(a) and y.holds(b)
    ]
    if len(inside) <= _ALL:
        return inside
    wanted = [100 * (step + turn) / _SOME for step in range(_SOME)]
    nearest = (min(inside, key=lambda at: abs(x.place(series.x[at]) - place)) for place in wanted)
    return sorted(set(nearest))


def _from_above(y: Axis, value: float) -> float:
    return round(100 - y.place(value), 2)


def _whisker(series: Series, at: int, y: Axis) -> tuple[float, float] | None:
    ends = [ends[at] for ends in (series.low, series.high) if ends]
    if not ends or any(math.isnan(end) for end in ends):
        return None
    low, high = min(ends), max(ends)
    return _from_above(y, y.clip(high)), _from_above(y, y.clip(low))


def _words(chart: Chart, series: Series, at: int) -> str:
    ends = ""
    if series.low and series.high:
        low, high = (_number(end[at], chart.y.unit) for end in (series.low, series.high))
        ends = f" ({low} to {high})"
    place = f"{chart.x.label} {_number(series.x[at], chart.x.unit)}"
    return f"{series.label}, {place}: {_number(series.y[at], chart.y.unit)}{ends}"


def _number(value: float, unit: Unit) -> str:
    if unit == "share" and math.isfinite(value):
        return percent(float(f"{value:.4g}"))
    return f"{value:,.0f}" if unit == "count" and math.isfinite(value) else f"{value:.4g}"
