"""Colours and markers that tell models apart.

The eight colours of each theme keep their distance under simulated protanopia, deuteranopia and tritanopia
and stand out from the background. Colour is never the only cue: each model has a marker of its own as well.
"""

from __future__ import annotations

from dataclasses import dataclass

LIGHT = ("#004bb5", "#c5440b", "#1c8a6f", "#f03ea4", "#bf8700", "#5499e0", "#675075", "#6b290f")
DARK = ("#6f80ff", "#f88418", "#28bf9b", "#c091ff", "#f5d85a", "#a6ddff", "#a184aa", "#ec4656")

# Outlines around the origin, about 10 px wide, and the matplotlib codes of the same shapes.
_SHAPES = (
    ("circle", "o", "M-4.6 0a4.6 4.6 0 1 0 9.2 0a4.6 4.6 0 1 0-9.2 0Z"),
    ("square", "s", "M-4.2-4.2H4.2V4.2H-4.2Z"),
    ("triangle", "^", "M0-5.4 5.2 4H-5.2Z"),
    ("diamond", "D", "M0-5.8 5.8 0 0 5.8-5.8 0Z"),
    ("plus", "P", "M-1.8-5.2H1.8V-1.8H5.2V1.8H1.8V5.2H-1.8V1.8H-5.2V-1.8H-1.8Z"),
    ("wedge", "v", "M0 5.4 5.2-4H-5.2Z"),
    ("cross", "X", "M0-2.4 2.6-5 5-2.6 2.4 0 5 2.6 2.6 5 0 2.4-2.6 5-5 2.6-2.4 0-5-2.6-2.6-5Z"),
    ("hexagon", "h", "M-2.8-4.9H2.8L5.6 0 2.8 4.9H-2.8L-5.6 0Z"),
)


@dataclass(frozen=True)
class Mark:
    """How one model looks in every chart.

    Parameters
    ----------
    colour : number of the colour in ``LIGHT`` and ``DARK``
    shape : name of the marker
    outline : its SVG path
    code : its matplotlib marker
    """

    colour: int
    shape: str
    outline: str
    code: str


def mark(position: int) -> Mark:
    """Return the look of the model at a position; 64 of them differ in colour or shape.

    Examples
    --------
    >>> len({(mark(i).colour, mark(i).shape) for i in range(64)})
    64
    """
    turn, colour = divmod(position, len(LIGHT))
    shape, code, outline = _SHAPES[(colour + turn) % len(_SHAPES)]
    return Mark(colour, shape, outline, code)
