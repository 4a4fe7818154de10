"""Ticks: places, labels, and whether the labels touch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

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
