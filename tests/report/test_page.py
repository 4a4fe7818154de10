"""The html file as a whole."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from tests.report.results import make_result
from truerank.core.estimate import Estimate
from truerank.core.result import Result
from truerank.report import render_report

VOID = {"meta", "br", "hr", "img", "link", "input"}
HOSTILE = "<script>alert('x')</script>&\"><img src=x onerror=y>"


class Page(HTMLParser):
    """Tags, attributes and visible text; fails on tags that are not closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {key: value or "" for key, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def count(self, tag: str) -> int:
        return sum(name == tag for name, _ in self.tags)


def drawings(html: str) -> list[ET.Element]:
    """Outermost svg elements, parsed as XML."""
    found, depth, start = [], 0, 0
    for match in re.finditer(r"<svg\b|</svg>", html):
        if match.group() == "</svg>":
            depth -= 1
            if depth == 0:
                found.append(ET.fromstring(html[start : match.end()]))
        else:
            start = match.start() if depth == 0 else start
            depth += 1
    return found


def test_loads_nothing() -> None:
    """No address, no script, no import: the file opens from disk without a network."""
    html = render_report(make_result())
    page = Page(html)
    assert not re.search(r"https?:|//[a-z]|url\(|@import", html)
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "img", "iframe", "object", "base"})
    names = {key for _, attrs in page.tags for key in attrs}
    assert not {key for key in names if key.startswith("on") or key in {"src", "href", "srcset", "style"}}


def test_same_result_same_bytes() -> None:
    """The file is a function of the result alone."""
    assert render_report(make_result()) == render_report(make_result())


def test_shows_every_value() -> None:
    """Values, intervals, counts and provenance are all there."""
    result = make_result()
    text = Page(render_report(result)).text()
    for estimate in result.estimates:
        assert estimate.low is not None
        assert estimate.high is not None
        assert f"{estimate.value:.4f}" in text
        assert f"{estimate.low:.4f} \N{EN DASH} {estimate.high:.4f}" in text
    for expected in ("12345", "9f86d081884c7d65", "2.1.0", "1.250", "200,000", "users without targets 3"):
        assert expected in text


def test_escapes_every_string() -> None:
    """Names with markup are shown, never run."""
    result = make_result(models=(HOSTILE, "b"), metrics=(HOSTILE,), name=HOSTILE)
    result = replace(
        result,
        command=HOSTILE,
        version=HOSTILE,
        data={**result.data, HOSTILE: HOSTILE},
        provenance={**result.provenance, HOSTILE: {HOSTILE: [HOSTILE]}},
        estimates=tuple(replace(e, method=HOSTILE, estimator=HOSTILE) for e in result.estimates),
    )
    html = render_report(result)
    page = Page(html)
    assert page.count("script") == page.count("img") == 0
    assert "<script" not in html
    assert f"truerank {HOSTILE}" in page.text()
    assert all(drawing.get("role") == "img" or drawing.get("aria-hidden") for drawing in drawings(html))


def test_drawings_are_valid_and_described() -> None:
    """Every drawing is well-formed and has a text for those who cannot see it, or is mere decoration."""
    result = make_result()
    found = drawings(render_report(result))
    charts = [drawing for drawing in found if drawing.get("role") == "img"]
    assert len(charts) == len(result.metrics()) + 1
    assert all(chart.get("aria-label") for chart in charts)
    assert all(drawing.get("aria-hidden") == "true" for drawing in found if drawing not in charts)
    assert charts[0].get("aria-label", "").startswith("ndcg@10 by model: ease(reg=500) 0.3100 (95")


def test_every_chart_has_its_table() -> None:
    """Each chart is followed by its numbers."""
    page = Page(render_report(make_result()))
    assert page.count("figure") == page.count("details") == 4
    assert page.count("table") == 4 + 2


def test_stays_small() -> None:
    """Five models, ten metrics and 140,000 users take less than 300 kB."""
    metrics = tuple(f"{name}@{cutoff}" for name in ("ndcg", "recall") for cutoff in (1, 5, 10, 20, 100))
    result = make_result(tuple("abcde"), metrics, n_users=140_000, n_items=60_000)
    assert len(render_report(result).encode()) < 300_000


def test_without_ranks() -> None:
    """A result read from JSON has no ranks: the curve is left out, all else stays."""
    result = Result.from_json(make_result().to_json())
    text = Page(render_report(result)).text()
    assert "within the top K" not in text
    assert "Leaderboard" in text


@pytest.mark.parametrize(
    "estimates",
    [
        (),
        (Estimate("a", "auc", 0.0),),
        (Estimate("a", "auc", float("nan"), float("nan"), float("inf"), 0.9),),
        (Estimate("a", "auc", 0.5), Estimate("b", "ndcg", -1.5, -2, 4, None)),
        (Estimate("a", "mean-rank", 1e7, 1e6, 1e8, 0.9, n_users=5), Estimate("b", "mean-rank", 1e-9)),
        (Estimate("a", "auc", 0.5, kind="estimate", estimator="mle"), Estimate("a", "auc", 0.6)),
    ],
    ids=["empty", "zero", "not finite", "holes", "large and tiny", "two estimators"],
)
def test_odd_results(estimates: tuple[Estimate, ...]) -> None:
    """Whatever a result may hold, the page is well-formed."""
    html = render_report(Result("estimate", estimates))
    Page(html)
    drawings(html)
    assert not re.search(r"\b(nan|inf|None)\b", html)


def test_two_estimators_of_one_model() -> None:
    """Two ways to estimate one model are two rows, and an estimate is not passed off as exact."""
    estimates = (Estimate("a", "auc", 0.5, kind="estimate", estimator="mle"), Estimate("a", "auc", 0.6))
    text = Page(render_report(Result("estimate", estimates))).text()
    assert "a · mle" in text
    assert "a · exact" in text
    assert "All values are exact" not in text


def test_bounds_and_notes_are_shown_and_escaped() -> None:
    bound = Estimate("a", "ndcg@10", 0.15, 0.1, 0.2, 0.95, kind="bound", estimator="bounds")
    result = replace(make_result(), bounds=(bound,), notes=(HOSTILE,))
    page = Page(render_report(result))
    assert "What is known, and what is not" in page.text()
    assert "0.1000 to 0.2000" in page.text()
    assert HOSTILE in page.text()
    assert page.count("script") == 0
    assert "What is known" not in Page(render_report(make_result())).text()
