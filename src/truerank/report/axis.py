"""Axes of charts, the same for both painters: their range, and ticks with labels.

The range of an axis holds the values of all series, and keeps the limits that a chart names. A horizontal
axis of the report ends where its values end, a vertical one at ticks; figures leave a little room instead.
Ticks are 1, 2, 2.5 and 5 times powers of ten (1, 2, 5 or powers alone on a logarithmic axis).
``tick_choices`` yields them from many to few, and a painter takes the first whose labels fit its page.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from truerank.core.chart import ChartAxis, Scale, Unit
from truerank.core.table import percent

Anchor: TypeAlias = Literal["start", "middle", "end"]
TickLabels: TypeAlias = list[tuple[float, str]]

_NARROWEST = 280  # pixels: a plot on a phone
_LETTER = 7.0  # pixels of a digit
_LINE = 7.0  # percent of the height that a label needs
_GAP = 7.0  # pixels between two labels
_OVERHANG = 14.0  # pixels by which a label may extend beyond the ends of the axis
_STEPS = (1, 2, 2.5, 5)


@dataclass(frozen=True)
class Tick:
    """One tick of an axis of the report.

    Parameters
    ----------
    position : in percent of the axis
    label : its number as text
    anchor : which part of the label stands at the position
    """

    position: float
    label: str
    anchor: Anchor = "middle"

    def extent(self) -> tuple[float, float]:
        """Return where the label begins and ends, in pixels of the narrowest plot."""
        middle, width = self.position * _NARROWEST / 100, len(self.label) * _LETTER
        start = {"start": middle, "middle": middle - width / 2, "end": middle - width}[self.anchor]
        return start, start + width


@dataclass(frozen=True)
class Axis:
    """An axis from ``low`` to ``high``; positions are percentages of its length."""

    low: float
    high: float
    ticks: tuple[Tick, ...] = ()
    is_log: bool = False

    def position(self, value: float) -> float:
        """Return where a value lies, in percent of the length."""
        return round(100 * _fraction(value, self.low, self.high, is_log=self.is_log), 2)

    def can_show(self, value: float) -> bool:
        """Whether a value has a position: finite, and above 0 on a logarithmic axis."""
        return math.isfinite(value) and (value > 0 or not self.is_log)

    def clip(self, value: float) -> float:
        """Return the value, or the limit of the axis that is nearest to it."""
        return min(max(value, self.low), self.high)

    def holds(self, value: float) -> bool:
        """Whether a value lies within the limits, up to rounding."""
        return self.can_show(value) and -0.01 <= self.position(value) <= 100.01


def place_ticks(fractions: Sequence[float], labels: Sequence[str]) -> tuple[Tick, ...]:
    """Return ticks at fractions of the length; labels that would leave the plot are moved inwards.

    Examples
    --------
    >>> [tick.anchor for tick in place_ticks((0, 0.5, 1), ("1", "1,000", "1,000,000"))]
    ['middle', 'middle', 'end']
    """
    return tuple(
        _moved_inside(Tick(round(100 * fraction, 2) + 0.0, label))
        for fraction, label in zip(fractions, labels, strict=True)
    )


def are_apart(ticks: Sequence[Tick], *, is_vertical: bool = False) -> bool:
    """Whether no two labels touch on a phone; those of a vertical axis stand above each other.

    Examples
    --------
    >>> long = place_ticks((0, 0.2), ("1,000,000", "2,000,000"))
    >>> are_apart(long), are_apart(long, is_vertical=True)
    (False, True)
    """
    if is_vertical:
        positions = sorted(tick.position for tick in ticks)
        return bool(positions) and all(after - before >= _LINE for before, after in pairwise(positions))
    extents = sorted(tick.extent() for tick in ticks)
    return bool(extents) and all(left[1] + _GAP <= right[0] for left, right in pairwise(extents))


def _moved_inside(tick: Tick) -> Tick:
    start, end = tick.extent()
    if end > _NARROWEST + _OVERHANG:
        return Tick(tick.position, tick.label, "end")
    return Tick(tick.position, tick.label, "start") if start < -_OVERHANG else tick


def chart_axis(axis: ChartAxis, values: Iterable[float], *, is_vertical: bool = False) -> Axis:
    """Return the axis of the report that shows values.

    Limits that the chart names are kept. Otherwise a vertical axis ends at ticks, and begins at 0 when that
    is near; a horizontal one ends where its values end.

    Examples
    --------
    >>> axis = chart_axis(ChartAxis("K", "log", "count"), (1, 10, 3706))
    >>> [tick.label for tick in axis.ticks], axis.high
    (['1', '10', '100', '1,000'], 3706.0)
    """
    is_log = axis.scale == "log"
    low, high = data_range(axis, values)
    if is_vertical and not is_log and 0 < low < high / 2:
        low = 0.0
    low, high = widened(low, high, is_log=is_log)
    named = named_limits(axis)
    if is_vertical and named == (None, None) and not is_log:
        return linear_axis(low, high, unit=axis.unit)
    if is_vertical and is_log:
        low, high = _round_limits(low, high)
    elif is_vertical:
        rounded = linear_axis(low, high, unit=axis.unit)
        low, high = rounded.low, rounded.high
    low = low if named[0] is None else named[0]
    high = high if named[1] is None else named[1]
    if low >= high:
        low, high = widened(low, low, is_log=is_log)
    return _ticked(low, high, axis.scale, axis.unit, is_vertical=is_vertical)


def linear_axis(low: float, high: float, *, most: int = 5, unit: Unit = "number") -> Axis:
    """Return an axis around [low, high] that begins and ends at a tick, with at most ``most`` steps.

    Examples
    --------
    >>> axis = linear_axis(0.213, 0.388)
    >>> [tick.label for tick in axis.ticks], axis.position(0.3)
    (['0.20', '0.25', '0.30', '0.35', '0.40'], 50.0)
    """
    low, high = widened(low, high, is_log=False)
    for step, decimals in _steps(high - low, most, unit):
        # The small slack keeps 0.3 / 0.1 = 2.9999999999999996 on its tick.
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        last = max(last, first + 1)  # a range far below the shortest step
        labels = [tick_label(number * step, decimals, unit) for number in range(first, last + 1)]
        if last - first <= most:
            break
    fractions = [index / (last - first) for index in range(len(labels))]
    return Axis(first * step, last * step, place_ticks(fractions, labels))


def _ticked(low: float, high: float, scale: Scale, unit: Unit, *, is_vertical: bool) -> Axis:
    """Return an axis that ends exactly at ``low`` and ``high``; the labels of its ticks do not touch."""
    is_log = scale == "log"
    for choice in tick_choices(low, high, scale, unit, most=5 if is_vertical else 6):
        fractions = [_fraction(value, low, high, is_log=is_log) for value, _ in choice]
        ticks = place_ticks(fractions, [label for _, label in choice])
        if are_apart(ticks, is_vertical=is_vertical):
            break
    return Axis(low, high, ticks, is_log)


def padded_range(
    axis: ChartAxis, values: Iterable[float], *, room: float = 0.04, has_zero: bool = False
) -> tuple[float, float]:
    """Return the limits of an axis of a figure: room is left where the chart names no limit.

    Parameters
    ----------
    axis : what it measures
    values : all that must lie on it
    room : to leave beyond the values, as a fraction of the length
    has_zero : whether 0 must lie on it

    Examples
    --------
    >>> padded_range(ChartAxis("K", "log", low=1), [2, 1000])[0], padded_range(ChartAxis("x"), [3, 3])
    (1.0, (2.7, 3.3))
    """
    is_log = axis.scale == "log"
    lowest, highest = named_limits(axis)
    named = [limit for limit in (lowest, highest) if limit is not None]
    low, high = data_range(axis, [*values, *named, *([0.0] if has_zero else [])])
    outer = widened(low, high, is_log=is_log)
    if outer == (low, high):
        margin = math.exp(room * math.log(high / low)) if is_log else room * (high - low)
        outer = (low / margin, high * margin) if is_log else (low - margin, high + margin)
    if has_zero and not is_log:  # bars stand on the edge of the plot
        outer = (0.0 if low == 0 else outer[0]), (0.0 if low < high == 0 else outer[1])
    if lowest is not None and highest is not None and lowest >= highest:
        return outer
    low, high = outer[0] if lowest is None else lowest, outer[1] if highest is None else highest
    return (low, high) if low < high else outer  # a limit that leaves no room for what must lie on the axis


def data_range(axis: ChartAxis, values: Iterable[float]) -> tuple[float, float]:
    """Return the smallest and the largest value that the axis can show; (0, 1) or (1, 10) without any."""
    is_log = axis.scale == "log"
    known = [float(value) for value in values if math.isfinite(value) and (value > 0 or not is_log)]
    known = known or ([1.0, 10.0] if is_log else [0.0, 1.0])
    return min(known), max(known)


def named_limits(axis: ChartAxis) -> tuple[float | None, float | None]:
    """Return the limits that the chart names, None for those it leaves open or cannot have."""
    low, high = (
        None if limit is None or (axis.scale == "log" and limit <= 0) else float(limit)
        for limit in (axis.low, axis.high)
    )
    return low, high


def widened(low: float, high: float, *, is_log: bool) -> tuple[float, float]:
    """Return the range, with room on both sides where it is a single value.

    Examples
    --------
    >>> widened(5, 5, is_log=False), widened(5, 5, is_log=True), widened(1, 5, is_log=False)
    ((4.5, 5.5), (2.5, 10), (1, 5))
    """
    if high - low > 1e-9 * max(abs(low), abs(high), 1e-300):
        return low, high
    if is_log:
        return low / 2, high * 2
    room = 0.1 * abs(low) or 0.1
    return low - room, high + room


def tick_choices(low: float, high: float, scale: Scale, unit: Unit, *, most: int) -> Iterator[TickLabels]:
    """Yield ticks from ``low`` to ``high`` as (value, label), many first; the last choice is both limits.

    Parameters
    ----------
    low, high : limits of the axis
    scale, unit : of the axis
    most : steps of a linear axis at most

    Examples
    --------
    >>> [[label for _, label in choice] for choice in tick_choices(0, 3, "linear", "count", most=6)][:2]
    [['0', '1', '2', '3'], ['0', '2']]
    """
    if scale == "log":
        for values in _log_choices(low, high, unit):
            yield [(value, _log_label(value, unit)) for value in values]
        return
    for step, decimals in _steps(high - low, most, unit):
        inside = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
        if 1 <= len(inside) <= most + 1:
            yield [(number * step, tick_label(number * step, decimals, unit)) for number in inside]
    digits = next((digits for digits in (3, 6) if f"{low:.{digits}g}" != f"{high:.{digits}g}"), 12)
    yield [(low, f"{low:.{digits}g}"), (high, f"{high:.{digits}g}")]


def _round_limits(low: float, high: float) -> tuple[float, float]:
    """Return the nearest of 1, 2, 5, 10, ... below ``low`` and above ``high``."""
    return max(round_values(low / 10, low * 1.0000001)), min(round_values(high * 0.9999999, high * 10))


def _log_choices(low: float, high: float, unit: Unit) -> Iterator[list[float]]:
    """Yield the numbers that may be ticks, many first."""
    fine = [number for number in round_values(low, high) if unit != "count" or number >= 1]
    powers = [number for number in fine if f"{number:e}".startswith("1.0000")]
    if len(fine) < 3:
        for step, _ in _steps(high - low, 4, unit):
            inside = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
            if len(inside) <= 5:
                yield [number * step for number in inside if number > 0]
    if high / low <= 200:
        yield fine
    for stride in (1, 2, 3, 4, 6, 10):
        yield powers[::stride] or fine[:1] or [low]


def round_values(low: float, high: float) -> list[float]:
    """Return the numbers 1, 2, 5, 10, 20, 50, ... (and 0.5, 0.2, ...) from ``low`` to ``high``.

    Examples
    --------
    >>> round_values(1, 60), round_values(0.04, 0.3)
    ([1.0, 2.0, 5.0, 10.0, 20.0, 50.0], [0.05, 0.1, 0.2])
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    numbers = (float(f"{digit}e{power}") for power in powers for digit in (1, 2, 5))
    return [number for number in numbers if low <= number <= high]


def tick_label(value: float, decimals: int, unit: Unit) -> str:
    """Return a tick's number as its unit asks.

    Examples
    --------
    >>> tick_label(0.25, 2, "number"), tick_label(12000, 0, "count"), tick_label(0.025, 1, "share").split()
    ('0.25', '12,000', ['2.5', '%'])
    """
    value = value + 0.0 if round(value, 12) else 0.0  # no minus sign before a zero
    text = f"{100 * value:,.{decimals}f}\N{NO-BREAK SPACE}%" if unit == "share" else f"{value:,.{decimals}f}"
    return text.replace("-", "\N{MINUS SIGN}")


def _log_label(value: float, unit: Unit) -> str:
    if unit == "share":
        return percent(value)
    if unit == "count" or 1e-4 <= value < 1e7:
        return f"{value:,.10g}" if value < 1e10 else f"{value:,.0f}"
    digits, exponent = f"{value:.5e}".split("e")
    power = str(int(exponent)).translate(str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"))
    return f"10{power}" if float(digits) == 1 else f"{float(digits):g}·10{power}"


def _steps(length: float, most: int, unit: Unit) -> Iterator[tuple[float, int]]:
    """Yield round steps that cut a length into about ``most`` pieces or fewer, and their decimals."""
    scale = 100 if unit == "share" else 1
    start = math.floor(math.log10(scale * length / most))
    for exponent in range(start, start + 3):
        for factor in _STEPS:
            step = factor * 10.0**exponent
            if unit != "count" or (step >= 1 and step == round(step)):
                yield step / scale, max(0, -exponent + (factor == 2.5))
    if unit == "count" and start < -2:
        yield 1.0, 0


def _fraction(value: float, low: float, high: float, *, is_log: bool) -> float:
    return math.log(value / low) / math.log(high / low) if is_log else (value - low) / (high - low)
