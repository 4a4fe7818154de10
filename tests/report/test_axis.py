"""Ticks."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truerank.report.axis import linear_axis, log_ticks

numbers = st.floats(-1e6, 1e6, allow_nan=False).map(lambda value: round(value, 6))


@given(numbers, numbers)
def test_axis_holds_its_range(first: float, second: float) -> None:
    """Both ends lie on the axis, which has two to six ticks in ascending order."""
    low, high = sorted((first, second))
    axis = linear_axis(low, high)
    assert -1e-3 <= axis.place(low) <= axis.place(high) <= 100 + 1e-3
    places = [tick.place for tick in axis.ticks]
    assert 2 <= len(places) <= 6
    assert places == sorted(places)
    assert (places[0], places[-1]) == (0, 100)
    assert len({tick.label for tick in axis.ticks}) == len(places)


@pytest.mark.parametrize("value", [0.0, 0.5, -3.0, 1e-12, 1e9])
def test_single_value_gets_room(value: float) -> None:
    """One value alone lies inside the axis, not at its edge."""
    assert 0 < linear_axis(value, value).place(value) < 100


@pytest.mark.parametrize("most", [1, 2, 9, 99, 101, 10**7])
def test_log_ticks_lie_on_the_axis(most: int) -> None:
    """Ticks begin at 1 and their places are logarithms."""
    ticks = log_ticks(most)
    assert (ticks[0].place, ticks[0].label) == (0, "1")
    for tick in ticks:
        number = int(tick.label.replace(",", ""))
        assert number <= most
        assert tick.place == pytest.approx(100 * math.log(number) / math.log(max(most, 2)), abs=0.01)
