"""Charts by group: a row for each group and model, in reports, pages of comparisons and figures."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from truerank.core.errors import InvalidData
from truerank.core.ranks import Ranks
from truerank.core.result import Estimate, Group, Result, Segments
from truerank.core.split import GroupLabels
from truerank.estimation.registry import ESTIMATORS
from truerank.metrics.registry import make_metrics
from truerank.report.charts.comparison import comparison_document
from truerank.report.charts.segments import plot_segments, segment_charts
from truerank.report.layout import ModelStyles
from truerank.report.page import render_document, render_report
from truerank.report.svg.rows import paint_rows
from truerank.workflows.compare.compare import compare
from truerank.workflows.compare.groups import GroupComparison
from truerank.workflows.compare.options import CompareOptions


def estimates(*values: float, kind: str = "exact") -> tuple[Estimate, ...]:
    return tuple(
        Estimate(f"model <{number}>", metric, value, value - 0.05, value + 0.05, 0.95)
        for metric in ("ndcg@10", "recall@10")
        for number, value in enumerate(values)
    )


def some_segments(n_models: int = 2, n_groups: int = 3) -> Segments:
    values = np.linspace(0.1, 0.9, n_models)
    groups = [Group(f"group {n} & more", 60, 60, estimates(*values)) for n in range(n_groups)]
    return Segments("history", "users", "By train events.", (*groups, Group("empty", 0, 0)), ("Note one.",))


def test_a_chart_for_each_metric_with_the_same_rows() -> None:
    first, second = segment_charts([some_segments()])
    assert (first.key, second.key) == ("segments-1-ndcg@10", "segments-1-recall@10")
    assert [series.label for series in first.series][:2] == [
        "group 0 & more · model <0>",
        "group 0 & more · model <1>",
    ]
    assert [series.x for series in first.series] == [(1,), (2,), (4,), (5,), (7,), (8,)]
    assert [series.x for series in first.series] == [series.x for series in second.series]
    assert first.notes == ("By train events.", "Whiskers are 95\N{NO-BREAK SPACE}% intervals.", "Note one.")
    assert second.notes == ("Whiskers are 95\N{NO-BREAK SPACE}% intervals.",)
    table = first.table()
    assert table.columns == ("group", "ndcg@10")
    assert table.rows[0] == ("group 0 & more · model <0>", "0.1 (0.05 to 0.15)")


def test_rows_have_a_limit() -> None:
    chart = segment_charts([some_segments(n_models=9, n_groups=20)])[0]
    assert len(chart.series) == 60
    assert any(note.startswith("Not shown: model <3>") for note in chart.notes)


def test_exact_values_are_shown_where_there_are_any() -> None:
    both = tuple(
        one
        for estimate in estimates(0.5)
        for one in (replace(estimate, estimator="smooth", kind="estimate", value=0.4), estimate)
    )
    (chart, _) = segment_charts([Segments("g", "users", "", (Group("a", 60, 60, both),))])
    assert [series.y for series in chart.series] == [(0.5,)]


def test_a_report_has_a_section_of_groups() -> None:
    result = Result("evaluate", estimates(0.3, 0.4), segments=(some_segments(),))
    html = render_report(result)
    assert '<section id="groups">' in html
    assert "For whom: the metrics by group" in html
    assert "ndcg@10 by history" in html and "Note one." in html
    assert ">group 0 &amp; more</text>" in html
    assert "group 0 &amp; more · model &lt;0&gt;" in html
    assert "model <0>" not in html
    labels = re.findall(r'class="label number"[^>]*>([^<]*)<', html)
    assert "0.1000" in labels and not [label for label in labels if label.startswith("+")]
    assert "For whom" not in render_report(Result("evaluate", estimates(0.3, 0.4)))


def test_a_comparison_has_a_forest_for_each_grouping() -> None:
    random = np.random.default_rng(0)
    ranks = {name: Ranks.single(random.integers(0, 20, 90), n_pool=30) for name in ("a", "b", "c")}
    options = CompareOptions(make_metrics("recall@3"), ESTIMATORS.make("smooth"), resamples=400)
    found = compare(ranks, metrics="recall@3", resamples=400)
    labels = GroupLabels("g", "users", ("low", "high"), np.arange(90) % 2, "By hand.")
    grouped = GroupComparison(ranks, [(0, 1), (0, 2), (1, 2)], options).run(labels, found)
    (chart,) = segment_charts([grouped])
    assert chart.series[0].label == "no difference"
    assert [series.label for series in chart.series[1:3]] == [
        "low · a \N{MINUS SIGN} b",
        "low · a \N{MINUS SIGN} c",
    ]
    assert "for all groups together" in " ".join(chart.notes)
    document = comparison_document(replace(found, segments=(grouped,)))
    assert [section.title for section in document.sections][2] == "By g"
    assert "Differences in recall@3 by g" in render_document(document)


def test_rows_of_a_group_stand_below_its_name() -> None:
    (chart, _) = segment_charts([some_segments()])
    painted = paint_rows(chart, ModelStyles.of((), [chart]))
    assert [row.group for row in painted.rows] == [
        "group 0 & more",
        "",
        "group 1 & more",
        "",
        "group 2 & more",
        "",
    ]
    assert {row.name for row in painted.rows} == {"model <0>", "model <1>"}
    assert [row.top for row in painted.rows] == [0, 71, 118, 189, 236, 307]
    assert painted.height == 354
    assert painted.rows[0].words.startswith("group 0 & more · model <0>: 0.1000 (")
    (single, _) = segment_charts([some_segments(n_models=1)])
    names = [row.name for row in paint_rows(single, ModelStyles.of((), [single])).rows]
    assert names == ["group 0 & more", "group 1 & more", "group 2 & more"]


@pytest.mark.slow
def test_figures() -> None:
    figure = some_segments().plot()
    titles = [axes.get_title(loc="left") or axes.get_title() for axes in figure.axes]
    assert titles == ["ndcg@10 by history", "recall@10 by history"]
    with pytest.raises(InvalidData, match="a figure needs groups with values, but g has none"):
        plot_segments(Segments("g", "users", "", (Group("a", 0, 0),)))
