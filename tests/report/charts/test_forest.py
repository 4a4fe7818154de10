"""Differences as charts, figures and tables."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from truerank.core.errors import InvalidData
from truerank.core.ranks import Ranks, SampledRanks
from truerank.report.charts.comparison import BOUNDS, forest_chart, forest_charts
from truerank.workflows.compare.compare import compare as run_compare
from truerank.workflows.compare.result import Comparison

compare = partial(run_compare, estimator="bv(gamma=0.1)")  # differences per user: quicker than a fit

MINUS = "\N{MINUS SIGN}"


def sampled(top: int) -> SampledRanks:
    return SampledRanks.single(np.arange(200) * top // 200, n_negatives=50, n_pool=300)


@pytest.fixture(scope="module")
def found() -> Comparison:
    """Three models with sampled ranks, two metrics."""
    ranks = {"good": sampled(10), "fair_1": sampled(20), "bad": sampled(45)}
    return compare(ranks, metrics="auc,recall@10", resamples=200)


def test_the_chart_holds_the_differences(found: Comparison) -> None:
    chart = forest_chart(found, "recall@10")
    differences = [one for one in found.differences if one.metric == "recall@10"]
    bounds, zero, *dots = chart.series
    assert chart.key == "forest-recall@10"
    assert [dot.label for dot in dots] == [f"good {MINUS} fair_1", f"good {MINUS} bad", f"fair_1 {MINUS} bad"]
    for place, (dot, one) in enumerate(zip(dots, differences, strict=True), start=1):
        assert (dot.x, dot.y, dot.low, dot.high) == ((place,), (one.value,), (one.low,), (one.high,))
    assert (bounds.label, bounds.model) == (BOUNDS, "")
    assert bounds.low == tuple(one.bound_low for one in differences)
    assert bounds.high == tuple(one.bound_high for one in differences)
    assert (zero.y, zero.is_dashed) == ((0.0, 0.0), True)
    assert f"good and bad {differences[1].value:+.4f}" in chart.words
    assert len(chart.notes) == 2
    assert [one.key for one in forest_charts(found)] == ["forest-auc", "forest-recall@10"]


def test_known_differences_have_no_whiskers_and_no_bounds() -> None:
    ranks = {"a": Ranks.single([0, 1, 5], n_pool=9), "b": Ranks.single([0, 2, 5], n_pool=9)}
    chart = forest_chart(compare(ranks, metrics="mrr", target="test-users"), "mrr")
    assert [one.label for one in chart.series] == ["no difference", f"a {MINUS} b"]
    assert chart.notes == (
        "All items were ranked: on these users the differences are known and have no whiskers.",
    )


def test_figure(found: Comparison) -> None:
    """Rows are pairs; the bounds are the widest bars, the whiskers lie on them, a line marks 0."""
    drawn = found.plot()
    assert [axes.get_title(loc="left").replace("\n", " ") for axes in drawn.axes] == [
        "Differences in auc",
        "Differences in recall@10",
    ]
    axes = drawn.axes[1]
    assert [label.get_text() for label in drawn.axes[0].get_yticklabels()][1] == f"good {MINUS} bad"
    bars = [line for line in axes.lines if line.get_linewidth() > 5]
    one = found.difference("good", "bad", "recall@10")
    assert np.asarray(bars[1].get_xdata()) == pytest.approx([one.bound_low, one.bound_high])
    assert [np.asarray(line.get_xdata()).tolist() for line in axes.lines if line.get_linestyle() == "--"] == [
        [0.0, 0.0]
    ]
    assert len(found.plot("auc", width=3.4).axes) == 1
    with pytest.raises(
        InvalidData, match=r"no difference in 'ap'\. Metrics that were compared: auc, recall@10"
    ):
        found.plot("ap")
    with pytest.raises(InvalidData, match="at least one estimate or difference"):
        Comparison((), ()).plot()


def test_table(found: Comparison) -> None:
    table = found.to_table()
    assert table.columns == ("A", "B", "metric", "A - B", "relative", "adjusted p", "verdict")
    one = found.differences[0]
    assert table.rows[0][:4] == (
        "good",
        "fair_1",
        "auc",
        f"{one.value:+.4f} [{one.low:+.4f}, {one.high:+.4f}]",
    )
    assert [table.is_number(at) for at in range(7)] == [False, False, False, True, True, True, False]
    assert len(table.rows) == len(found.differences) == 6
    assert r"good & fair\_1 & auc & \textbf{+0." in table.latex()
    assert table.notes == (
        "Bold: the difference is told from 0 for these test users, at 95 % confidence, for all 6 comparisons "
        "together.",
    )
