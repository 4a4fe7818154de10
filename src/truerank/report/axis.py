"""Where an axis has its ticks."""

from __future__ import annotations

import math
from dataclasses import dataclass

_STEPS = (1, 2, 2.5, 5, 10, 20)


@dataclass(frozen=True)
class Tick:
    """One tick: its place as a percentage of the axis and its label."""

    place: float
    label: str


@dataclass(frozen=True)
class Axis:
    """A linear axis from ``low`` to ``high``."""

    low: float
    high: float
    ticks: tuple[Tick, ...]

    def place(self, value: float) -> float:
        """Return where a value lies, in percent of the length."""
        return round(100 * (value - self.low) / (self.high - self.low), 2)


def linear_axis(low: float, high: float, *, most: int = 5) -> Axis:
    """Return an axis around [low, high] that begins and ends at a tick, with at most ``most`` steps.

    Examples
    --------
    >>> axis = linear_axis(0.213, 0.388)
    >>> [tick.label for tick in axis.ticks], axis.place(0.3)
    (['0.20', '0.25', '0.30', '0.35', '0.40'], 50.0)
    """
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-300):  # one value only: give it room
        room = 0.1 * abs(low) or 0.1
        low, high = low - room, high + room
    exponent = math.floor(math.log10((high - low) / most))
    for factor in _STEPS:
        step = factor * 10.0**exponent
        # The small slack keeps 0.3 / 0.1 = 2.9999999999999996 on its tick.
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first <= most:
            break
    places = max(0, -exponent + (factor == 2.5) - (factor >= 10))
    labels = [f"{number * step:,.{places}f}" for number in range(first, last + 1)]
    ticks = tuple(
        Tick(round(100 * index / (last - first), 2), label.replace("-", "\N{MINUS SIGN}"))
        for index, label in enumerate(labels)
    )
    return Axis(first * step, last * step, ticks)


def round_numbers(most: int) -> list[int]:
    """Return 1, 2, 5, 10, 20, 50, ... up to ``most``.

    Examples
    --------
    >>> round_numbers(60)
    [1, 2, 5, 10, 20, 50]
    """
    powers = range(len(str(most)))
    return [digit * 10**power for power in powers for digit in (1, 2, 5) if digit * 10**power <= most]


def log_ticks(most: int) -> tuple[Tick, ...]:
    """Return the ticks of a logarithmic axis from 1 to ``most``: powers of ten, or more when that is few.

    Examples
    --------
    >>> [tick.label for tick in log_ticks(3706)]
    ['1', '10', '100', '1,000']
    """
    numbers = round_numbers(most)
    if most > 100:
        numbers = [number for number in numbers if str(number).startswith("1")]
    length = math.log(max(most, 2))
    return tuple(Tick(round(100 * math.log(number) / length, 2), f"{number:,}") for number in numbers)
