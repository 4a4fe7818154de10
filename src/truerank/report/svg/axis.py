"""Where an axis begins and ends, and where it has its ticks.

Ticks: places, labels, and whether the labels touch.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from truerank.core.chart import ChartAxis, Unit
from truerank.core.table import percent

Anchor: TypeAlias = Literal["start", "middle", "end"]

_NARROWEST = 280  # pixels: a plot on a phone
_LETTER = 7.0  # pixels of a digit
_LINE = 7.0  # percent of the height that a label needs
_GAP = 7.0  # pixels between two labels
_ROOM = 14.0  # pixels that a label may stand out beyond the ends


@dataclass(frozen=True)
class Tick:
    """One tick: its place as a percentage of the axis, its label and which part of that stands there."""

    place: float
    label: str
    anchor: Anchor = "middle"

    def extent(self) -> tuple[float, float]:
        """Return where the label begins and ends, in pixels of the narrowest plot."""
        middle, width = self.place * _NARROWEST / 100, len(self.label) * _LETTER
        start = {"start": middle, "middle": middle - width / 2, "end": middle - width}[self.anchor]
        return start, start + width


def place_ticks(shares: Sequence[float], labels: Sequence[str]) -> tuple[Tick, ...]:
    """Return ticks at shares of the length; labels that would leave the plot are moved inwards.

    Examples
    --------
    >>> [tick.anchor for tick in place_ticks((0, 0.5, 1), ("1", "1,000", "1,000,000"))]
    ['middle', 'middle', 'end']
    """
    return tuple(
        _inside(Tick(round(100 * share, 2) + 0.0, label)) for share, label in zip(shares, labels, strict=True)
    )


def are_apart(ticks: Sequence[Tick], *, is_upright: bool = False) -> bool:
    """Whether no two labels touch on a phone; those of an upright axis stand above each other.

    Examples
    --------
    >>> long = place_ticks((0, 0.2), ("1,000,000", "2,000,000"))
    >>> are_apart(long), are_apart(long, is_upright=True)
    (False, True)
    """
    if is_upright:
        places = sorted(tick.place for tick in ticks)
        return bool(places) and all(after - before >= _LINE for before, after in pairwise(places))
    extents = sorted(tick.extent() for tick in ticks)
    return bool(extents) and all(one[1] + _GAP <= other[0] for one, other in pairwise(extents))


def _inside(tick: Tick) -> Tick:
    start, end = tick.extent()
    if end > _NARROWEST + _ROOM:
        return Tick(tick.place, tick.label, "end")
    return Tick(tick.place, tick.label, "start") if start < -_ROOM else tick


_STEPS = (1, 2, 2.5, 5)


@dataclass(frozen=True)
class Axis:
    """An axis from ``low`` to ``high``."""

    low: float
    high: float
    ticks: tuple[Tick, ...]
    is_log: bool = False

    def place(self, value: float) -> float:
        """Return where a value lies, in percent of the length."""
        return round(100 * _share(value, self.low, self.high, is_log=self.is_log), 2)

    def can_place(self, value: float) -> bool:
        """Whether a value has a place at all, within the ends or not."""
        return math.isfinite(value) and (value > 0 or not self.is_log)

    def clip(self, value: float) -> float:
        """Return the value, or the end of the axis that is nearest to it."""
        return min(max(value, self.low), self.high)

    def holds(self, value: float) -> bool:
        """Whether a value lies between the ends, with a little room for rounding."""
        return self.can_place(value) and -0.01 <= self.place(value) <= 100.01


def chart_axis(axis: ChartAxis, values: Iterable[float], *, is_upright: bool = False) -> Axis:
    """Return the axis that shows values.

    Ends that the chart names are kept. Otherwise an upright axis ends at ticks, and begins at 0 when that is
    near; one that lies flat ends where its values end.

    Examples
    --------
    >>> flat = chart_axis(ChartAxis("K", "log", "count"), (1, 10, 3706))
    >>> [tick.label for tick in flat.ticks], flat.high
    (['1', '10', '100', '1,000'], 3706.0)
    """
    is_log = axis.scale == "log"
    known = [float(value) for value in values if math.isfinite(value) and (value > 0 or not is_log)]
    fallback = [1.0, 10.0] if is_log else [0.0, 1.0]
    low, high = min(known or fallback), max(known or fallback)
    if is_upright and not is_log and 0 < low < high / 2:
        low = 0.0
    if is_log:
        made = _log_axis(*_wide_factor(low, high), unit=axis.unit, is_upright=is_upright)
    elif is_upright:
        made = linear_axis(low, high, unit=axis.unit)
    else:
        made = _snug_axis(*_wide(low, high), unit=axis.unit)
    named = [None if end is None or (is_log and end <= 0) else float(end) for end in (axis.low, axis.high)]
    if named == [None, None]:
        return made
    low, high = (
        end if kept is None else kept for end, kept in zip((made.low, made.high), named, strict=True)
    )
    if low >= high:
        low, high = _wide_factor(low, low) if is_log else _wide(low, low)
    if is_log:
        return _log_axis(low, high, unit=axis.unit, is_upright=is_upright, is_kept=True)
    return _snug_axis(low, high, unit=axis.unit, is_upright=is_upright)


def linear_axis(low: float, high: float, *, most: int = 5, unit: Unit = "number") -> Axis:
    """Return an axis around [low, high] that begins and ends at a tick, with at most ``most`` steps.

    Examples
    --------
    >>> axis = linear_axis(0.213, 0.388)
    >>> [tick.label for tick in axis.ticks], axis.place(0.3)
    (['0.20', '0.25', '0.30', '0.35', '0.40'], 50.0)
    """
    low, high = _wide(low, high)
    for step, decimals in _steps(high - low, most, unit):
        # The small slack keeps 0.3 / 0.1 = 2.9999999999999996 on its tick.
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        labels = [tick_label(number * step, decimals, unit) for number in range(first, last + 1)]
        if last - first <= most:
            break
    shares = [index / (last - first) for index in range(len(labels))]
    return Axis(first * step, last * step, place_ticks(shares, labels))


def _snug_axis(low: float, high: float, *, unit: Unit, is_upright: bool = False) -> Axis:
    """Return an axis that ends exactly at ``low`` and ``high``; the labels of its ticks do not touch."""
    most = 5 if is_upright else 6
    for step, decimals in _steps(high - low, most, unit):
        inside = range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
        numbers = [number * step for number in inside]
        labels = [tick_label(number, decimals, unit) for number in numbers]
        ticks = place_ticks([(number - low) / (high - low) for number in numbers], labels)
        if len(numbers) <= most + 1 and are_apart(ticks, is_upright=is_upright):
            return Axis(low, high, ticks)
    return Axis(low, high, place_ticks((0.0, 1.0), (f"{low:.3g}", f"{high:.3g}")))


def _log_axis(low: float, high: float, *, unit: Unit, is_upright: bool, is_kept: bool = False) -> Axis:
    """Return a logarithmic axis; an upright one ends at round numbers, unless its ends are to be kept."""
    if is_upright and not is_kept:
        low = max(number for number in round_values(low / 10, low * 1.0000001))
        high = min(number for number in round_values(high * 0.9999999, high * 10))
    for numbers in _log_choices(low, high, unit):
        labels = [_log_label(number, unit) for number in numbers]
        ticks = place_ticks([_share(number, low, high, is_log=True) for number in numbers], labels)
        if are_apart(ticks, is_upright=is_upright):
            break
    return Axis(low, high, ticks, is_log=True)


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


def _share(value: float, low: float, high: float, *, is_log: bool) -> float:
    return math.log(value / low) / math.log(high / low) if is_log else (value - low) / (high - low)


def _wide(low: float, high: float) -> tuple[float, float]:
    """Give room to one value alone."""
    if high - low > 1e-9 * max(abs(low), abs(high), 1e-300):
        return low, high
    room = 0.1 * abs(low) or 0.1
    return low - room, high + room


def _wide_factor(low: float, high: float) -> tuple[float, float]:
    return (low, high) if high > low * (1 + 1e-9) else (low / 2, high * 2)
