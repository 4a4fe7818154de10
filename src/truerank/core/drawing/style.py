"""What all figures have in common: sizes, inks, and names that are letters and nothing else."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from truerank.core.chart import Series
from truerank.core.errors import InvalidParameter
from truerank.core.palette import LIGHT, Mark, mark
from truerank.core.short import LONGEST_NAME, shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

COLUMN, PAGE = 3.4, 7.0  # inches: one column of a paper, and both
SMALL, MIDDLE, LARGE = 7.5, 8.0, 9.0  # points
LETTER = 0.0085  # inches that a letter takes on average, per point of size
_BOLD = 1.15  # how much wider bold letters are
INK, GRID, REFERENCE, SHADE = "#333a42", "#d5d9de", "#6b7280", "#e6e9ed"


def model_marks(series: Iterable[Series], models: Sequence[str] = ()) -> dict[str, Mark]:
    """Return the look of each model: those given first, then those of the series in their order."""
    names = dict.fromkeys([*models, *(one.model for one in series if one.model)])
    return {name: mark(position) for position, name in enumerate(names)}


def colour_of(series: Series, marks: Mapping[str, Mark]) -> str:
    """Return the colour of the model, grey for a reference."""
    return LIGHT[marks[series.model].colour] if series.model else REFERENCE


def figure_of(axes: Axes) -> Figure:
    """Return the figure that axes lie in."""
    found = axes.get_figure(root=True)
    if found is None:
        raise InvalidParameter("axes must belong to a figure, but these were removed from theirs.")
    return found


def plain(texts: Iterable[Text]) -> None:
    """Let dollar signs be letters, not mathematics."""
    for text in texts:
        text.set_parse_math(False)


def dress(axes: Axes, *, grid: str, title: str, wide: float) -> None:
    """Give axes the look of the report; the title breaks after ``wide`` inches."""
    axes.grid(False)
    if grid:
        axes.grid(axis=grid, color=GRID, linewidth=0.6)  # type: ignore[arg-type]
    axes.set_axisbelow(True)
    axes.set_facecolor("white")
    axes.tick_params(which="both", labelsize=SMALL, length=0, colors=INK)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(GRID)
    if title:
        text = folded(title, wide / _BOLD, LARGE)
        axes.set_title(text, fontsize=LARGE, fontweight="bold", loc="left", color=INK, parse_math=False)


def folded(text: str, wide: float, size: float) -> str:
    """Return text in lines that fit ``wide`` inches."""
    return textwrap.fill(text, max(12, int(wide / (LETTER * size))))


def room_for(names: Iterable[str], size: float = MIDDLE, *, longest: int = LONGEST_NAME) -> float:
    """Return the inches that the longest of the shortened names takes."""
    return max((len(shortened(name, longest)) for name in names), default=0) * LETTER * size
