"""The leaderboard as a matplotlib figure, for notebooks and papers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from truerank.core.errors import InvalidData
from truerank.core.number import percent
from truerank.core.palette import LIGHT
from truerank.core.result import Result
from truerank.report.board import Board, build_board, interval_of
from truerank.report.dots import shortened

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_GREY, _INK = "#d5d9de", "#333a42"


def figure(result: Result, *, columns: int = 3) -> Figure:
    """Return dots and whiskers of every model, one panel per metric.

    The figure belongs to no window and no global state; save it with ``figure(result).savefig("x.svg")``.

    Parameters
    ----------
    result : what to draw
    columns : panels side by side

    Raises
    ------
    InvalidData
        When the result holds no estimates.
    """
    from matplotlib.figure import Figure

    board = build_board(result)
    if not board.metrics:
        raise InvalidData("a figure needs at least one estimate, but the result holds none.")
    across = min(columns, len(board.metrics))
    down = -(-len(board.metrics) // across)
    drawn = Figure(figsize=(1.6 + 2.8 * across, down * (0.75 + 0.32 * len(board.rows))), layout="constrained")
    grid = drawn.subplots(down, across, sharey=True, squeeze=False)
    for axes, metric in zip(grid.flat, board.metrics, strict=False):
        _draw_panel(axes, board, metric)
    for axes in grid.flat[len(board.metrics) :]:
        axes.remove()
    _name_rows(drawn, board)
    return drawn


def _draw_panel(axes: Axes, board: Board, metric: str) -> None:
    heights = {row.label: -position for position, row in enumerate(board.rows)}
    for row, cell in board.column(metric):
        height, colour = heights[row.label], LIGHT[row.mark.colour]
        ends = interval_of(cell.estimate)
        if ends is not None:
            axes.plot(ends, (height, height), color=colour, linewidth=1.6, solid_capstyle="butt")
        axes.plot(cell.estimate.value, height, row.mark.code, color=colour, markersize=6)
        axes.annotate(
            cell.text,
            (cell.estimate.value, height),
            xytext=(0, 6),
            textcoords="offset points",
            ha="center",
            fontsize=7.5,
            fontweight="bold" if cell.is_best else "normal",
            color=_INK,
        )
    axes.set_title(metric, fontsize=10, fontweight="bold", loc="left", parse_math=False)
    axes.set_ylim(-len(board.rows) + 0.4, 0.75)
    axes.margins(x=0.12)
    axes.locator_params(axis="x", nbins=5)
    axes.grid(axis="x", color=_GREY, linewidth=0.6)
    axes.tick_params(labelsize=8, length=0, colors=_INK)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(_GREY)


def _name_rows(drawn: Figure, board: Board) -> None:
    names = [shortened(row.label) for row in board.rows]
    for axes in drawn.axes:
        axes.set_yticks([-position for position in range(len(names))], names)
        for label in axes.get_yticklabels():
            label.set_parse_math(False)
    levels = {cell.estimate.level for row in board.rows for cell in row.cells if cell and cell.low}
    known = sorted(level for level in levels if level is not None)
    if known:
        drawn.supxlabel(
            f"whiskers: {' and '.join(percent(level) for level in known)} intervals", fontsize=8, color=_INK
        )
