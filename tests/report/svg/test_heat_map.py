"""Heat maps and their colours."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.pictures import make_heat_map
from truerank.core.table import MISSING
from truerank.report.svg.heat_map import Patch, contrast_ratio, draw_heat_map, level_of, paints

INKS = {"#000": "#000000", "#fff": "#ffffff"}


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_numbers_can_be_read_on_every_colour(theme: str) -> None:
    """The contrast of ink and ground is at least the 4.5 that WCAG asks of text."""
    for name, paint in paints(theme).items():
        assert contrast_ratio(paint.ground, INKS[paint.ink]) >= 4.5, name


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_more_is_deeper(theme: str) -> None:
    """Each level stands out more from the card than the one before, on both sides."""
    card = {"light": "#ffffff", "dark": "#1b1f26"}[theme]
    colours = paints(theme)
    for side in "hn":
        ramp = [colours["h0"], *(colours[f"{side}{level}"] for level in range(1, 11))]
        ratios = [contrast_ratio(paint.ground, card) for paint in ramp]
        assert all(before < after for before, after in pairwise(ratios))


@settings(max_examples=60, deadline=None)
@given(st.floats(-2, 2), st.floats(-2, 2))
def test_levels_follow_values(first: float, second: float) -> None:
    """A higher value never has a lower level, with one side or two."""

    def number(name: str) -> int:
        return int(name[1:]) * (1 if name[0] == "h" else -1)

    low, high = sorted((first, second))
    assert number(level_of(low, -1, 1, 0)) <= number(level_of(high, -1, 1, 0))
    assert number(level_of(low, -1, 1)) <= number(level_of(high, -1, 1))
    assert level_of(low, -1, 1).startswith("h")


def test_cells_show_numbers_and_holes() -> None:
    """Two decimals with a real minus sign; None is a dash without colour; odd scales do no harm."""
    grid = draw_heat_map(make_heat_map())
    assert grid.rows[0][1][0] == Patch("n4", "\N{MINUS SIGN}0.40")
    assert grid.rows[1][1][0] == Patch("none", MISSING)
    assert grid.ends == ("\N{MINUS SIGN}1.00", "0.00", "1.00")
    assert len(grid.scale) == 21
    assert len(draw_heat_map(make_heat_map(middle=None)).scale) == 11
    assert draw_heat_map(replace(make_heat_map(), low=0, high=0, middle=None)).rows
    hole = replace(make_heat_map(), values=((float("nan"),) * 7,) * 3)
    assert draw_heat_map(hole).data.table.rows[0][1] == MISSING


def test_values_beyond_the_scale_are_named() -> None:
    assert draw_heat_map(make_heat_map()).notes == ()
    narrow = draw_heat_map(replace(make_heat_map(), high=0.5))
    assert narrow.notes == ("Values beyond the scale have the colour of its end.",)
