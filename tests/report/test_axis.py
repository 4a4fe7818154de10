"""Axes and their ticks."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerank.core.chart import ChartAxis, Scale, Unit
from truerank.report.axis import are_apart, chart_axis, linear_axis

numbers = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 6))
positive = st.floats(1e-7, 1e9)
units = st.sampled_from(["number", "count", "share"])


@settings(max_examples=60, deadline=None)
@given(numbers, numbers)
def test_axis_holds_its_range(first: float, second: float) -> None:
    """Both ends lie on the axis, which has two to six ticks in ascending order."""
    low, high = sorted((first, second))
    axis = linear_axis(low, high)
    assert -1e-3 <= axis.position(low) <= axis.position(high) <= 100 + 1e-3
    places = [tick.position for tick in axis.ticks]
    assert 2 <= len(places) <= 6
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0, 100)
    assert len({tick.label for tick in axis.ticks}) == len(places)


@pytest.mark.parametrize("value", [0.0, 0.5, -3.0, 1e-12, 1e9])
def test_single_value_gets_room(value: float) -> None:
    """One value alone lies inside the axis, not at its edge."""
    assert 0 < linear_axis(value, value).position(value) < 100


@settings(max_examples=60, deadline=None)
@given(st.lists(numbers, min_size=1, max_size=5), units, st.booleans())
def test_linear_axis_of_a_chart(values: list[float], unit: Unit, is_vertical: bool) -> None:
    """All values lie on the axis, and labels neither repeat nor, on a flat axis, touch."""
    axis = chart_axis(ChartAxis("x", unit=unit), values, is_vertical=is_vertical)
    assert all(axis.holds(value) for value in values)
    labels = [tick.label for tick in axis.ticks]
    assert len(set(labels)) == len(labels) >= 1
    assert are_apart(axis.ticks, is_vertical=is_vertical)


@settings(max_examples=60, deadline=None)
@given(st.lists(positive, min_size=1, max_size=5), units, st.booleans())
def test_logarithmic_axis_of_a_chart(values: list[float], unit: Unit, is_vertical: bool) -> None:
    """All values lie on the axis, ticks lie where the logarithm of their number is, labels do not repeat."""
    axis = chart_axis(ChartAxis("x", "log", unit), values, is_vertical=is_vertical)
    assert axis.is_log
    assert all(axis.holds(value) for value in values)
    labels = [tick.label for tick in axis.ticks]
    assert len(set(labels)) == len(labels) >= 1
    assert are_apart(axis.ticks, is_vertical=is_vertical)
    if unit == "count":
        for tick in axis.ticks:
            share = math.log(float(tick.label.replace(",", "")) / axis.low) / math.log(axis.high / axis.low)
            assert tick.position == pytest.approx(100 * share, abs=0.05)


@pytest.mark.parametrize(
    ("axis", "values", "expected"),
    [
        (ChartAxis("K", "log", "count"), (1, 3706), ["1", "10", "100", "1,000"]),
        (ChartAxis("K", "log", "count"), (1, 50), ["1", "2", "5", "10", "20", "50"]),
        (ChartAxis("n", "log", "count"), (1, 10**7), ["1", "100", "10,000", "1,000,000"]),
        (ChartAxis("loss", "log"), (1e-6, 1e-2), ["10⁻⁶", "10⁻⁵", "0.0001", "0.001", "0.01"]),
        (ChartAxis("share", "log", "share"), (0.001, 1), ["0.1 %", "1 %", "10 %", "100 %"]),
        (ChartAxis("K", "log", "count"), (23, 37), ["25", "30", "35"]),
        (ChartAxis("pair", unit="count"), (1, 3), ["1", "2", "3"]),
        (ChartAxis("tau"), (-0.95, 0.9), ["-0.5", "0.0", "0.5"]),
        (
            ChartAxis("share", unit="share", low=0, high=1),
            (),
            ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"],
        ),
        (ChartAxis("m"), (0, 2e6), ["0", "1,000,000", "2,000,000"]),
        (ChartAxis("half", unit="count"), (0.2, 0.6), ["0.2", "0.6"]),
    ],
)
def test_ticks(axis: ChartAxis, values: tuple[float, ...], expected: list[str]) -> None:
    """Ticks are round numbers in the unit of the axis, and few enough for a phone."""
    labels = [tick.label for tick in chart_axis(axis, values).ticks]
    plain = [label.replace("\N{NO-BREAK SPACE}", " ").replace("\N{MINUS SIGN}", "-") for label in labels]
    assert plain == expected


@pytest.mark.parametrize("scale", ["linear", "log"])
@pytest.mark.parametrize("ends", [{"low": 2.0}, {"high": 30.0}, {"low": 2.0, "high": 30.0}])
def test_ends_that_are_named_are_kept(scale: Scale, ends: dict[str, Any]) -> None:
    """An end that the chart names is the end of the axis, even where values lie beyond it."""
    axis = chart_axis(ChartAxis("x", scale, **ends), (1.0, 50.0), is_vertical=True)
    assert axis.low == ends.get("low", axis.low)
    assert axis.high == ends.get("high", axis.high)
    assert not axis.holds(1.0 if "low" in ends else 50.0)
    assert all(0 <= tick.position <= 100 for tick in axis.ticks)


@pytest.mark.parametrize(
    ("axis", "values"),
    [
        (ChartAxis("x"), ()),
        (ChartAxis("x", "log"), ()),
        (ChartAxis("x", "log"), (0.0, -1.0)),
        (ChartAxis("x"), (math.nan, math.inf)),
        (ChartAxis("x", low=3, high=3), (3,)),
        (ChartAxis("x", "log", low=0, high=-1), (5,)),
        (ChartAxis("x", "log", low=9, high=1), (5,)),
    ],
)
def test_odd_axes(axis: ChartAxis, values: tuple[float, ...]) -> None:
    """Without values, or with ends that make no sense, there is still an axis with a tick."""
    made = chart_axis(axis, values)
    assert made.low < made.high
    assert made.ticks


def test_upright_axis_begins_at_zero_when_that_is_near() -> None:
    """From 0.1 to 0.5 begins at 0; from 0.4 to 0.5 would waste most of the height."""
    assert chart_axis(ChartAxis("y"), (0.1, 0.5), is_vertical=True).low == 0
    assert chart_axis(ChartAxis("y"), (0.4, 0.5), is_vertical=True).low == pytest.approx(0.4)


def test_logarithmic_places() -> None:
    """Equal factors have equal lengths."""
    axis = chart_axis(ChartAxis("x", "log"), (1, 1000))
    places = [axis.position(value) for value in (1, 10, 100, 1000)]
    assert [round(after - before, 1) for before, after in pairwise(places)] == [33.3, 33.3, 33.3]
    assert not axis.can_show(0)


@pytest.mark.parametrize("unit", ["number", "share", "count"])
def test_a_range_below_every_step_is_an_axis(unit: Unit) -> None:
    """Rounding errors around 0 are shorter than the shortest step of shares and counts."""
    axis = linear_axis(0.0, 2.2e-16, unit=unit)
    assert axis.low < axis.high
    assert 0 <= axis.position(2.2e-16) <= 100
