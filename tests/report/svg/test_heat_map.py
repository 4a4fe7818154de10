"""Heat maps and their colours."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.pictures import make_heat_map
from truerank.core.table import MISSING
from truerank.report.layout import channels, contrast_ratio
from truerank.report.svg.heat_map import HeatCell, level_colours, level_of, paint_heat_map

INKS = {"#000": "#000000", "#fff": "#ffffff"}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_numbers_can_be_read_on_every_colour(theme: str) -> None:
    """The contrast of text and background is at least the 4.5 that WCAG asks of text."""
    for name, colours in level_colours(theme).items():
        ratio = contrast_ratio(channels(colours.background), channels(INKS[colours.text]))
        assert ratio >= 4.5, name


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_more_is_deeper(theme: str) -> None:
    """Each level stands out more from the card than the one before, on both sides."""
    card = {"light": "#ffffff", "dark": "#1b1f26"}[theme]
    colours = level_colours(theme)
    for side in "hn":
        ramp = [colours["h0"], *(colours[f"{side}{level}"] for level in range(1, 11))]
        ratios = [contrast_ratio(channels(level.background), channels(card)) for level in ramp]
        assert all(before < after for before, after in pairwise(ratios))


@settings(max_examples=60, deadline=None)
@given(st.floats(-2, 2), st.floats(-2, 2))
def test_levels_follow_values(first: float, second: float) -> None:
    """A higher value never has a lower level, with one side or two."""

    def number(name: str) -> int:
        return int(name[1:]) * (1 if name[0] == "h" else -1)

    one_side = make_heat_map(middle=None)
    low, high = sorted((first, second))
    assert number(level_of(make_heat_map(), low)) <= number(level_of(make_heat_map(), high))
    assert number(level_of(one_side, low)) <= number(level_of(one_side, high))
    assert level_of(one_side, low).startswith("h")


def test_cells_show_numbers_and_holes() -> None:
    """Two decimals with a real minus sign; None is a dash without colour; odd scales do no harm."""
    grid = paint_heat_map(make_heat_map())
    assert grid.rows[0][1][0] == HeatCell("n4", "\N{MINUS SIGN}0.40")
    assert grid.rows[1][1][0] == HeatCell("none", MISSING)
    assert grid.limits == ("\N{MINUS SIGN}1.00", "0.00", "1.00")
    assert len(grid.scale) == 21
    assert len(paint_heat_map(make_heat_map(middle=None)).scale) == 11
    assert paint_heat_map(replace(make_heat_map(), low=0, high=0, middle=None)).rows
    hole = replace(make_heat_map(), values=((float("nan"),) * 7,) * 3)
    assert paint_heat_map(hole).data.table.rows[0][1] == MISSING


def test_values_beyond_the_scale_are_named() -> None:
    assert paint_heat_map(make_heat_map()).notes == ()
    narrow = paint_heat_map(replace(make_heat_map(), high=0.5))
    assert narrow.notes == ("Values beyond the scale have the colour of its end.",)
