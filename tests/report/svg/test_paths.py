"""Series as points, against positions computed by hand."""

from __future__ import annotations

import math

import pytest

from truerank.core.chart import ChartAxis, Series, SeriesKind
from truerank.report.axis import Axis, chart_axis
from truerank.report.svg.painter import band_paths, bar_middles, bar_paths, bar_slot, line_paths, svg_points

X = chart_axis(ChartAxis("x", low=0, high=10), ())
Y = chart_axis(ChartAxis("y", low=0, high=1), ())
LOG = chart_axis(ChartAxis("x", "log", low=1, high=100), ())


def made(x: tuple[float, ...], y: tuple[float, ...], look: SeriesKind = "line") -> Series:
    return Series("a", x, y, kind=look)


def test_line() -> None:
    """Places are thousandths of the sides, from the upper left corner."""
    assert line_paths(made((0, 5, 10), (0, 0.25, 1)), X, Y) == [[(0, 1000), (500, 750), (1000, 0)]]
    assert line_paths(made((1, 10, 100), (0, 0.5, 1)), LOG, Y) == [[(0, 1000), (500, 500), (1000, 0)]]


def test_step_holds_each_value() -> None:
    """A step goes across first and then up or down."""
    runs = line_paths(made((0, 5, 10), (0, 1, 0.5), "step"), X, Y)
    assert runs == [[(0, 1000), (500, 1000), (500, 0), (1000, 0), (1000, 500)]]


@pytest.mark.parametrize("hole", [math.nan, math.inf])
def test_line_is_cut_at_a_hole(hole: float) -> None:
    """A point without a value leaves a gap, it is not bridged."""
    assert line_paths(made((0, 2, 4, 6), (0, hole, 1, 1)), X, Y) == [[(0, 1000)], [(400, 0), (600, 0)]]
    assert line_paths(made((0, 10, 100), (1, 1, 1)), LOG, Y) == [[(500, 0), (1000, 0)]]


def test_band_goes_there_and_back() -> None:
    """The outline runs along the upper ends and back along the lower ones, clipped to the axis."""
    series = Series("a", (0, 10), (0.5, 0.5), (0.25, -3), (0.75, math.inf), "band")
    assert band_paths(series, X, Y) == [[(0, 250), (1000, 0), (1000, 1000), (0, 750)]]
    assert band_paths(Series("a", (0, 10), (1, 1), (0, math.nan), (1, 1), "band"), X, Y) == [
        [(0, 0), (0, 1000)]
    ]


def test_bars_stand_on_zero_side_by_side() -> None:
    """Two series share the slot of each x; a bar below 0 hangs."""
    upright = Axis(-1, 1, ())
    series = made((2, 4), (0.5, -0.5), "bars")
    assert bar_slot([series], X) == pytest.approx(0.86 * 20)
    first = bar_paths(series, X, upright, slot=10, turn=0, of=2)
    assert first[0] == [(150, 500), (150, 250), (200, 250), (200, 500)]
    assert first[1] == [(350, 500), (350, 750), (400, 750), (400, 500)]
    second = bar_paths(series, X, upright, slot=10, turn=1, of=2)
    assert second[0][0] == first[0][3]
    assert bar_middles(series, X, upright, slot=10, turn=0, of=2) == [(17.5, 25.0), (37.5, 75.0)]


def test_bars_on_a_logarithmic_axis_stand_on_its_edge() -> None:
    """There is no 0 to stand on."""
    assert bar_paths(made((5,), (10,), "bars"), X, LOG, slot=10, turn=0, of=1)[0][0] == (450, 1000)


def test_points_have_one_decimal() -> None:
    """More would not be seen and would make files large; a negative zero is a zero."""
    assert svg_points([(-0.01, 1 / 3), (1000, 99.95)]) == "0,0.3 1000,100"
