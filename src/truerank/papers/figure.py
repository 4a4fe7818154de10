"""Line plots of the paper figures in one style, without pyplot and its global state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from numpy.typing import ArrayLike

from truerank.core.errors import MissingDependency

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


# dashes tell the lines apart without colour
_COLOURS = ("#0b57b0", "#c4500c", "#1b8a6b", "#b8860b", "#8f3fa8", "#444c56", "#d63384", "#0f8b8d")
_DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (7, 2)))


def make_axes(
    rows: int, columns: int, *, width: float = 4.2, height: float = 3.1
) -> tuple[Figure, list[Axes]]:
    """Return a figure and its axes, row by row."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingDependency("a figure", "matplotlib") from None
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def plot_lines(
    axes: Axes,
    x: ArrayLike,
    lines: Mapping[str, ArrayLike],
    *,
    title: str = "",
    labels: Sequence[str] = ("", ""),
    log: bool = False,
    legend: bool = True,
) -> None:
    """Plot one line per name, each with its own colour and dashes."""
    for index, (name, y) in enumerate(lines.items()):
        axes.plot(
            x,
            y,
            label=name,
            color=_COLOURS[index % len(_COLOURS)],
            linestyle=_DASHES[index % len(_DASHES)],
            linewidth=1.6,
        )
    if log:
        axes.set_xscale("log")
    axes.set_title(title, fontsize=10, fontweight="bold", loc="left")
    axes.set_xlabel(labels[0], fontsize=9)
    axes.set_ylabel(labels[1], fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(color="#d5d9de", linewidth=0.5)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    if legend:
        axes.legend(fontsize=8, frameon=False)
