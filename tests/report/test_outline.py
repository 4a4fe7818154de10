"""Sections of a page: charts by subject, what is folded, and charts that show no more than a sentence."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.report.markup import Page
from tests.report.pictures import make_heat_map, make_lines
from truerank.core.chart import Chart, ChartAxis, Document, Section, Series
from truerank.core.table import Table
from truerank.report.outline import MOST_SECTIONS, anchors, chart_sections, lies_on_one_line, outlined
from truerank.report.page import render_document


def chart_of(*series: Series, x: ChartAxis = ChartAxis("x"), y: ChartAxis = ChartAxis("y")) -> Chart:  # noqa: B008
    return Chart("mine", "Mine", "All are equal.", x, y, series)


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        ((Series("a", (1, 2, 3), (1, 2, 3), model="a"),), True),
        ((Series("a", (1, 2, 3), (1, 2, 3.001), model="a"),), False),
        (
            (
                Series("a", (1,), (5,), kind="dots", model="a"),
                Series("b", (2,), (5,), kind="dots", model="b"),
            ),
            True,
        ),
        ((Series("a", (1, 2), (1, 2), model="a"), Series("b", (1, 2), (2, 1), model="b")), False),
        ((Series("a", (1, 2), (1, 2), (0, 1), (2, 3), model="a"),), False),
        ((Series("a", (1, 2), (1, 2), (1, 2), (1, 2), model="a"),), True),
        ((Series("a", (1, 2, 3), (1, 1, 1), kind="bars", model="a"),), False),
        ((Series("a", (1, 2), (float("nan"),) * 2, model="a"),), False),
        ((), False),
        (
            (Series("one", (0, 1), (0, 1), is_dashed=True), Series("a", (0, 1, 2), (0, 1, 0), model="a")),
            False,
        ),
    ],
    ids=[
        "identity",
        "nearly",
        "level dots",
        "two lines",
        "intervals",
        "no width",
        "bars",
        "unknown",
        "none",
        "other",
    ],
)
def test_points_on_one_line(series: tuple[Series, ...], expected: bool) -> None:
    """Identity charts and charts of equal values are noticed; intervals and bars show more than points."""
    assert lies_on_one_line(chart_of(*series)) is expected


def test_grey_references_do_not_count() -> None:
    """A threshold beside the points does not make them a chart."""
    level = Series("a", (1, 2, 3), (4, 4, 4), model="a")
    reference = Series("threshold", (1, 3), (9, 9), is_dashed=True)
    assert lies_on_one_line(chart_of(reference, level))


def test_such_charts_become_sentences() -> None:
    """The alternative text stands where the chart would be."""
    flat = chart_of(Series("a", (1, 2), (1, 1), model="a"))
    section = chart_sections([flat])["charts"]
    assert section.shown == section.folded == ()
    assert section.notes == ("Mine: all points lie on one line, so there is no chart. All are equal.",)
    html = render_document(Document("t", "", (Section("Differences", charts=(flat, make_lines())),)))
    assert section.notes[0] in html
    assert Page(html).count("figure") == 1


def test_charts_of_the_best_model_come_first() -> None:
    """Where each model has its chart, that of the best one is not folded."""
    charts = [
        replace(make_lines(), key=f"recall-by-k-{n}", title=f"of {name}") for n, name in enumerate("ab")
    ]
    charts = [
        replace(chart, series=(replace(chart.series[1], model=model),))
        for chart, model in zip(charts, "ab", strict=True)
    ]
    section = chart_sections(charts, "b")["list-length"]
    assert [chart.title for chart in (*section.shown, *section.folded)] == ["of b", "of a"]


def test_many_sections_are_folded() -> None:
    """Of twenty sections six stand open, the others in a seventh, and how to repeat it is the eighth."""
    sections = tuple(Section(f"part {n}", notes=(f"note {n}",)) for n in range(20))
    document = Document("t", "", sections, (("seed", "0"),))
    html = render_document(document)
    assert len(re.findall("<h2>", html)) == MOST_SECTIONS
    assert len(re.findall('<details class="fold">', html)) == 14
    assert all(f"note {n}" in html for n in range(20))
    assert len(outlined(replace(document, sections=sections[:7]))) == 7


def test_folded_sections_and_sentences() -> None:
    """A section that asks for it shows its heading alone, and its anchor opens it."""
    section = Section("Values", tables=(Table(("a",), (("1",),)),), details=("One.", "Two."), is_folded=True)
    html = render_document(Document("t", "", (section,)))
    assert '<details class="fold"><summary>Values</summary>\n<div id="values">' in html
    assert "<summary>In words: 2 sentences</summary>" in html


def test_long_tables_are_folded() -> None:
    rows = tuple((str(n), "x") for n in range(41))
    for number, is_folded in ((41, True), (40, False)):
        html = render_document(Document("t", "", (Section("s", tables=(Table(("n", "x"), rows[:number]),)),)))
        assert ("<summary>s: 41 rows</summary>" in html) is is_folded


def test_a_chart_of_an_unknown_kind_has_its_place() -> None:
    """Charts of users go last, whatever their key."""
    charts = [replace(make_heat_map(), key=key) for key in ("my\nkey", "top-share")]
    assert list(chart_sections(charts)) == ["ranks", "charts"]


def test_anchors_are_different() -> None:
    assert anchors(["a", "A", "<a>", "", "推薦"]) == ["a", "a-2", "a-3", "part", "part-2"]
