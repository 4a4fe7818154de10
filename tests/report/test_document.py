"""Documents as html."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.report.markup import HOSTILE, Page, drawings
from tests.report.pictures import make_document, make_heat_map, make_lines
from truerank.core.chart import Chart, ChartAxis, Document, Section, Series, Span
from truerank.core.errors import InvalidParameter
from truerank.core.table import Table
from truerank.report.page import render_document, write_document

ODD_NAMES = (HOSTILE, '<b>&"', "x" * 200, "модель", "推薦システム", "نموذج", "{{ 7 * 7 }}", "a\nb\tc")


def test_holds_all_in_order() -> None:
    """Title, lead, sections with notes, tables and charts, and the facts folded away."""
    document = make_document()
    html = render_document(document)
    page = Page(html)
    wanted = [
        document.title,
        document.lead,
        "Verdicts",
        "One pair.",
        "Differences",
        "0.0123",
        "Positive means",
    ]
    wanted += ["recall@K against K", "Charts", "Rank distribution", "How to repeat this", "truerank compare"]
    text, at = page.text(), 0
    for words in wanted:
        at = text.index(words, at)
    assert "<strong>0.0123</strong>" in html
    assert page.count("figure") == 1 + 5 + 1
    assert page.count("details") == 7 + 1
    assert not any("open" in attrs for tag, attrs in page.tags if tag == "details")


def test_charts_have_captions_unless_the_section_has_the_title() -> None:
    """A heading is not said twice."""
    html = render_document(make_document())
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", html)
    assert captions.count("Rank distribution") == 1  # of the two, one stands in a section of that name
    assert len(captions) == 6


def test_loads_nothing() -> None:
    """No address, no script, no import, no inline style."""
    html = render_document(make_document())
    page = Page(html)
    assert not re.search(r"https?:|//[a-z]|url\(|@import", html)
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "img", "iframe", "object", "base"})
    names = {key for _, attrs in page.tags for key in attrs}
    assert not {key for key in names if key.startswith("on") or key in {"src", "srcset", "style"}}
    links = {attrs["href"] for _, attrs in page.tags if "href" in attrs}
    anchors = {f"#{attrs['id']}" for _, attrs in page.tags if "id" in attrs}
    assert links
    assert links <= anchors


def test_same_document_same_bytes() -> None:
    assert render_document(make_document()) == render_document(make_document())


def test_pictures_have_words_and_data() -> None:
    """Every figure has one picture with its alternative text and one table of its data; the rest is mute."""
    document = make_document()
    html = render_document(document)
    page = Page(html)
    spoken = [attrs["aria-label"] for _, attrs in page.tags if attrs.get("role") == "img"]
    assert spoken == [chart.words for section in document.sections for chart in section.charts]
    figures = re.findall(r"<figure.*?</figure>", html, re.DOTALL)
    assert all(figure.count("<details>") == 1 for figure in figures)
    others = [drawing for drawing in drawings(html) if drawing.get("role") != "img"]
    assert all(drawing.get("aria-hidden") == "true" for drawing in others)


@pytest.mark.parametrize("name", ODD_NAMES, ids=range(len(ODD_NAMES)))
def test_every_string_is_escaped(name: str) -> None:
    """Whatever users call their models, it is shown and never run."""
    series = Series(name, (1, 2), (1, 2), (0, 1), (2, 3), model=name)
    dots = replace(series, kind="dots")
    chart = Chart(
        name, name, name, ChartAxis(name), ChartAxis(name), (series, dots), (Span(1, 2, name),), (name,)
    )
    heat = replace(make_heat_map(), key=name, title=name, words=name, rows=(name,) * 3, columns=(name,) * 7)
    table = Table((name, name), ((name, name),), name, (name,), frozenset({(0, 1)}))
    section = Section(name, (name,), (table,), (chart, replace(heat, label=name, notes=(name,))))
    html = render_document(Document(name, name, (section,), ((name, name),), name))
    page = Page(html)
    allowed = {tag for tag, _ in Page(render_document(make_document())).tags} | {"rect"}
    assert {tag for tag, _ in page.tags} <= allowed
    assert all(not key.startswith("on") for _, attrs in page.tags for key in attrs)
    shown = re.sub(r"\s+", " ", name)
    assert page.text().count(shown) >= 12
    spoken = [attrs["aria-label"] for _, attrs in page.tags if attrs.get("role") == "img"]
    assert spoken == [name, name]
    assert drawings(html)


def test_empty_document() -> None:
    """Nothing but a title is a page."""
    page = Page(render_document(Document("nothing", "", (Section("empty"),))))
    assert page.count("details") == page.count("figure") == 0
    assert "How to repeat" not in page.text()


def test_a_chart_without_points_is_a_page() -> None:
    chart = replace(make_lines(), series=(), spans=())
    page = Page(render_document(Document("t", "l", (Section("s", charts=(chart,)),))))
    assert "This chart is empty" in page.text()


def test_writes_the_file(tmp_path: Path) -> None:
    """The file is what was rendered; a folder that does not exist is named."""
    path = tmp_path / "out.html"
    write_document(make_document(), path)
    assert path.read_text("utf-8") == render_document(make_document())
    with pytest.raises(InvalidParameter, match="the report needs an existing folder"):
        write_document(make_document(), tmp_path / "none" / "out.html")
