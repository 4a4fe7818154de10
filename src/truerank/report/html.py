"""Templates, filled with text that is escaped."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from truerank.core.chart import HeatMap, Picture
from truerank.core.number import MISSING, fixed, percent
from truerank.core.palette import DARK, LIGHT
from truerank.report.drawing import Drawing, axis_name, draw_chart
from truerank.report.heat_map import HeatGrid, draw_heat_map
from truerank.report.look import Looks
from truerank.report.shades import paints
from truerank.report.sheet import as_sheet

if TYPE_CHECKING:
    from jinja2 import Environment


def fill(template: str, looks: Looks, version: str, **entries: Any) -> str:
    """Return a page; its charts are drawn with the looks of its models."""

    def drawn(picture: Picture) -> Drawing | HeatGrid:
        return draw_heat_map(picture) if isinstance(picture, HeatMap) else draw_chart(picture, looks)

    return _environment().get_template(template).render(drawn=drawn, version=version, **entries)


@cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("truerank.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        light=LIGHT, dark=DARK, missing=MISSING, light_paints=paints("light"), dark_paints=paints("dark")
    )
    environment.filters.update(fixed=fixed, percent=percent, axis_name=axis_name, sheet=as_sheet)
    return environment
