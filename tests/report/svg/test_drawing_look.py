"""Colours, markers and dashes of series."""

from __future__ import annotations

from truerank.core.chart import Chart, ChartAxis, Series, model_mark
from truerank.report.svg.drawing import Looks


def series(model: str, look: str = "line", *, is_dashed: bool = False) -> Series:
    return Series(model, (1,), (1,), look=look, model=model, is_dashed=is_dashed)  # type: ignore[arg-type]


def test_known_models_come_first() -> None:
    """Models of the page keep their place; charts add theirs in the order of appearance, references none."""
    chart = Chart("k", "", "", ChartAxis("x"), ChartAxis("y"), tuple(map(series, ("c", "", "a", "d"))))
    assert Looks.of(("a", "b"), (chart,)).models == ("a", "b", "c", "d")


def test_series_of_one_model_differ_by_dashes() -> None:
    """Same colour and shape; what was not measured is hollow; further lines take the next pattern."""
    made = [series("a"), series("a"), series("a", is_dashed=True), series("b"), series("a", is_dashed=True)]
    looks = Looks(("a", "b")).of_series(made)
    assert [look.colour for look in looks] == ["c0", "c0", "c0", "c1", "c0"]
    assert [look.is_hollow for look in looks] == [False, False, True, False, True]
    assert len({(look.colour, look.dash) for look in looks}) == 5
    assert {look.outline for look in looks if look.colour == "c0"} == {model_mark(0).outline}


def test_references_are_grey() -> None:
    """A grey line has no marker, grey dots have; two grey lines differ."""
    looks = Looks(()).of_series([series(""), series(""), series("", "dots")])
    assert {look.colour for look in looks} == {"ref"}
    assert [bool(look.outline) for look in looks] == [False, False, True]
    assert looks[0].dash != looks[1].dash


def test_bars_have_markers_when_there_are_several() -> None:
    """One series of bars needs no marker, two need them; bands have none."""
    looks = Looks(("a", "b"))
    assert looks.of_series([series("a", "bars")])[0].outline == ""
    assert all(look.outline for look in looks.of_series([series("a", "bars"), series("b", "bars")]))
    assert looks.of_series([series("a", "band")])[0].outline == ""
