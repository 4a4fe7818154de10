"""Colours, markers and dashes of series."""

from __future__ import annotations

from truerank.core.chart import Chart, ChartAxis, Series, model_mark
from truerank.report.layout import ModelStyles


def series(model: str, look: str = "line", *, is_dashed: bool = False) -> Series:
    return Series(model, (1,), (1,), kind=look, model=model, is_dashed=is_dashed)  # type: ignore[arg-type]


def test_known_models_come_first() -> None:
    """Models of the page keep their place; charts add theirs in the order of appearance, references none."""
    chart = Chart("k", "", "", ChartAxis("x"), ChartAxis("y"), tuple(map(series, ("c", "", "a", "d"))))
    assert ModelStyles.of(("a", "b"), (chart,)).models == ("a", "b", "c", "d")


def test_series_of_one_model_differ_by_dashes() -> None:
    """Same colour and shape; what was not measured is hollow; further lines take the next pattern."""
    made = [series("a"), series("a"), series("a", is_dashed=True), series("b"), series("a", is_dashed=True)]
    styles = ModelStyles(("a", "b")).of_series(made)
    assert [style.colour for style in styles] == [0, 0, 0, 1, 0]
    assert [style.is_hollow for style in styles] == [False, False, True, False, True]
    assert len({(style.colour, style.dash) for style in styles}) == 5
    assert {style.marker for style in styles if style.colour == 0} == {model_mark(0)}


def test_references_are_grey() -> None:
    """A grey line has no marker, grey dots have; two grey lines differ."""
    styles = ModelStyles(()).of_series([series(""), series(""), series("", "dots")])
    assert {style.colour for style in styles} == {None}
    assert [bool(style.marker) for style in styles] == [False, False, True]
    assert styles[0].dash != styles[1].dash


def test_bars_have_markers_when_there_are_several() -> None:
    """One series of bars needs no marker, two need them; bands have none."""
    styles = ModelStyles(("a", "b"))
    assert styles.of_series([series("a", "bars")])[0].marker is None
    assert all(style.marker for style in styles.of_series([series("a", "bars"), series("b", "bars")]))
    assert styles.of_series([series("a", "band")])[0].marker is None
