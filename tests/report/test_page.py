"""The html file as a whole."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import replace
from html import unescape

import pytest

from tests.report.markup import HOSTILE, Page, drawings
from tests.report.pictures import make_heat_map, make_pictures
from tests.report.results import make_result
from truerank.core.result import Estimate, Result
from truerank.report.page import render_report


def test_loads_nothing() -> None:
    """No address, no script, no import: the file opens from disk without a network."""
    html = render_report(make_result())
    page = Page(html)
    assert not re.search(r"https?:|//[a-z]|url\(|@import", html)
    assert {tag for tag, _ in page.tags}.isdisjoint({"script", "link", "img", "iframe", "object", "base"})
    names = {key for _, attrs in page.tags for key in attrs}
    assert not {key for key in names if key.startswith("on") or key in {"src", "srcset", "style"}}
    links = {attrs["href"] for _, attrs in page.tags if "href" in attrs}
    anchors = {f"#{attrs['id']}" for _, attrs in page.tags if "id" in attrs}
    assert links
    assert links <= anchors


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
    html = render_report(make_result())
    figures = re.findall(r"<figure.*?</figure>", html, re.DOTALL)
    assert len(figures) == 4
    assert all(figure.count("<summary>Data</summary>") == figure.count("<table") == 1 for figure in figures)
    assert Page(html).count("table") == 4 + 2  # and the leaderboard and the cost


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


def test_charts_stand_by_subject() -> None:
    """Charts of one subject share a section; the contents list all sections, eight at most."""
    charts = make_pictures()
    html = render_report(replace(make_result(), charts=charts, notes=("Known.",)))
    titles = re.findall(r"<h2>(.*?)</h2>", html)
    assert titles == [
        *("Leaderboard", "What is known, and what is not", "How far up the held-out items stand"),
        *("Cost", "Further charts", "Data, and how to repeat this"),
    ]
    assert re.findall(r'<li><a href="#[a-z-]+">(.*?)</a></li>', html) == titles
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", html)
    assert sorted(captions) == sorted(
        [
            *make_result().metrics(),
            *(chart.title for chart in charts),
            "Share of targets ranked within the top K",
        ]
    )


def test_no_report_has_more_than_eight_sections() -> None:
    """Every subject at once makes eight sections; of many charts of one all but the first are folded."""
    keys = ["rank-distribution", *(f"recall-by-k-{n}" for n in range(9)), "blind-spot", "order-flip", "cost"]
    charts = tuple(replace(make_heat_map(), key=key, title=key) for key in [*keys, "mine"])
    html = render_report(replace(make_result(), charts=charts, notes=("Known.",)))
    assert len(re.findall("<section ", html)) == len(re.findall("<h2>", html)) == 8
    folded = re.search(r'<details class="more"><summary>8 more charts: (.*?)</summary>', html)
    assert folded is not None
    assert folded[1].split("; ") == [f"recall-by-k-{n}" for n in range(1, 9)]


def test_says_what_metrics_mean_and_what_the_values_rest_on() -> None:
    """A metric has its line below the table and as a tooltip; below the verdict stands what was ranked."""
    result = make_result()
    result = replace(result, data={**result.data, "n_items": 1000, "users_with_targets": 200})
    html = render_report(result)
    assert "Exact for 200 test users: every one of 1,000 items was ranked." in html
    meaning = "The share of a user&#39;s held-out items that stand among the first 10."
    assert f'<abbr title="{meaning}">recall@10</abbr>' in html
    assert f"<dt>recall@10</dt><dd>{meaning}</dd>" in html


def test_verdicts_on_all_metrics_stand_on_top() -> None:
    """Where metrics disagree each has its sentence; where they agree, that is said once."""
    values = {"auc": (0.9, 0.5), "ap": (0.2, 0.8)}
    apart = tuple(
        Estimate(model, metric, value, value - 0.01, value + 0.01, 0.95)
        for metric, both in values.items()
        for model, value in zip("ab", both, strict=True)
    )
    html = render_report(Result("evaluate", apart))
    assert re.findall(r"<li>(Best in .*?)</li>", html) == ["Best in auc: a.", "Best in ap: b."]
    close = tuple(replace(e, metric=f"{e.metric}@{k}", low=0.0) for e in apart[:2] for k in (1, 5))
    assert "<li>The same holds for both metrics.</li>" in render_report(Result("evaluate", close))
    assert 'class="verdicts"' not in render_report(make_result())


def test_what_the_sample_allows_stands_on_top() -> None:
    """Bounds wider than what counts as resolved are said with the verdict."""
    one = Estimate("a", "recall@10", 0.2, 0.1, 0.3, 0.95, kind="estimate", estimator="smooth", n_negatives=9)
    bound = replace(one, low=0.0, high=0.4, kind="bound", estimator="bounds")
    said = "The sample alone allows any recall@10 of a from 0.0000 to 0.4000"
    assert said in render_report(Result("estimate", (one,), bounds=(bound,))).partition("<main>")[0]
    narrow = replace(bound, low=0.15, high=0.25)
    assert "The sample alone" not in render_report(Result("estimate", (one,), bounds=(narrow,)))


def test_command_to_paste() -> None:
    """The command line stands on the page, an option to a line, and not once more among the facts."""
    command = "truerank evaluate demo --model 'ials(factors=64)' --report out.html"
    result = make_result()
    known = {**result.provenance, "command_line": command}
    html = render_report(replace(result, provenance=known))
    shown = re.search(r'<pre class="command" tabindex="0"><code>(.*?)</code></pre>', html, re.DOTALL)
    assert shown is not None
    assert shlex.split(unescape(shown[1]).replace("\\\n", " ")) == shlex.split(command)
    assert html.count("factors=64") == 1
    assert '<pre class="command"' not in render_report(result)


def test_values_of_the_sampled_list_are_folded() -> None:
    """The leaderboard shows the estimator that speaks about all items; naive values wait below it."""
    estimates = tuple(
        Estimate(model, "auc", value, kind="estimate", estimator=estimator, n_negatives=9)
        for estimator, values in {"naive": (0.7, 0.6), "smooth": (0.1, 0.3)}.items()
        for model, value in zip("ab", values, strict=True)
    )
    html = render_report(Result("estimate", estimates, {"n_items": 50, "n_users": 3}))
    shown, _, folded = html.partition("<summary>By other estimators: naive</summary>")
    assert "0.7000" not in shown
    assert "0.7000" in folded.partition("</details>")[0]
    assert "It is not the metric among all items." in folded
    assert "By <strong>smooth</strong>: " in shown


def test_a_model_looks_the_same_everywhere() -> None:
    """Leaderboard, dots and charts show one model in one colour, whatever the order of the series."""
    html = render_report(replace(make_result(), charts=make_pictures()))
    entries = re.findall(r'<li><svg class="key (\w+)[^"]*".*?</svg><span>(.*?)</span></li>', html, re.DOTALL)
    colours = {colour for colour, name in entries if name.startswith("ease(reg=500)")}
    assert len([name for _, name in entries if name.startswith("ease(reg=500)")]) >= 4
    board = re.search(r'<svg class="swatch (\w+)"[^>]*>[^>]*></svg><span>ease\(reg=500\)</span>', html)
    assert board is not None
    assert colours == {board[1]}


def test_exact_and_estimates_side_by_side() -> None:
    """The rows of a model stand together, the exact one first and filled, the estimates hollow."""
    estimates = tuple(
        Estimate(
            model, "auc", value, estimator=estimator, kind="exact" if estimator == "exact" else "estimate"
        )
        for estimator, values in {"naive": (0.7, 0.6), "exact": (0.1, 0.3)}.items()
        for model, value in zip("ab", values, strict=True)
    )
    html = render_report(Result("evaluate", estimates))
    rows = re.findall(r'<g class="(c\d)([^"]*)"><title>(.*?):', html)
    assert [(colour, "hollow" in css, title) for colour, css, title in rows] == [
        ("c1", False, "b · exact"),
        ("c1", True, "b · naive"),
        ("c0", False, "a · exact"),
        ("c0", True, "a · naive"),
    ]
    assert "hollow ones are estimates" in html
    assert "hollow ones are estimates" not in render_report(make_result())


def test_cost_is_left_out_when_unknown() -> None:
    """Sampled ranks from a file cost nothing that is known."""
    assert "<h2>Cost</h2>" in render_report(make_result())
    assert "<h2>Cost</h2>" not in render_report(Result("estimate", (Estimate("a", "auc", 0.5),)))


def test_charts_of_a_result_are_escaped() -> None:
    """Names in charts are shown, never run."""
    chart = replace(make_heat_map(), title=HOSTILE, rows=(HOSTILE,) * 3, words=HOSTILE, label=HOSTILE)
    page = Page(render_report(replace(make_result(), charts=(chart,))))
    assert page.count("script") == page.count("img") == 0
    assert page.text().count(HOSTILE) == 1 + 3 + 1 + 3


def test_heavy_libraries_are_loaded_on_use() -> None:
    """Importing the stage loads neither matplotlib nor jinja2."""
    code = "import sys, truerank.report; assert not {'matplotlib', 'jinja2'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
