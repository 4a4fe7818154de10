"""Charts of ranks, of the order of models and of the cost: what they show and say."""

from __future__ import annotations

import numpy as np
import pytest

from truerank.core.ranks import Design, Ranks, SampledRanks
from truerank.core.result import Estimate, Result
from truerank.core.table import rounded
from truerank.estimation.distribution.mle import MaximumLikelihood
from truerank.metrics.registry import make_metrics
from truerank.ranking.simulate import simulate_sample
from truerank.report.charts.cost import cost_chart, ranking_costs
from truerank.report.charts.order_flip import crossings, order_flip_chart
from truerank.report.charts.ranks import exact_rank_chart, sampled_rank_chart

RECALL = make_metrics("recall@10")[0]
#: steady is always at rank 30, bold at 5 for four of ten users and at the bottom for the others
STEADY = Ranks.single([29] * 10, n_pool=1000)
BOLD = Ranks.single([4] * 4 + [900] * 6, n_pool=1000)


def test_order_flips_are_named_where_they_happen() -> None:
    """Among few items rank 30 of 1,000 is within the top 10 for sure, among all it never is."""
    chart = order_flip_chart({"steady": STEADY, "bold": BOLD}, RECALL)
    steady, bold = (np.array(series.y) for series in chart.series)
    sizes = np.array(chart.series[0].x)
    assert (steady[-1], bold[-1]) == pytest.approx((0.0, 0.4))
    last = sizes[steady > bold].max()
    first = sizes[(sizes > last)].min()
    (one,) = crossings("steady", "bold", {"steady": steady, "bold": bold}, sizes.astype(np.int64))
    assert (one.small, one.large) == ("steady", "bold")
    assert last < one.size < first
    size = rounded(one.size)
    said = f"Order that depends on m: steady is ahead of bold up to about m = {size}, behind it beyond."
    assert said in chart.words
    assert said in chart.notes
    assert "Best first with all items: bold 0.4000 and steady 0.0000." in chart.words
    assert chart.x.scale == "log"


def test_no_flip_is_said_to_be_none() -> None:
    chart = order_flip_chart({"bold": BOLD, "again": BOLD}, RECALL)
    assert "No pair of models changes its order with m." in chart.words
    better = Ranks.single([3] * 4 + [800] * 6, n_pool=1000)
    assert "No pair of models" in order_flip_chart({"bold": BOLD, "better": better}, RECALL).words
    assert "pair" not in order_flip_chart({"bold": BOLD}, RECALL).words


def test_samples_reach_as_far_as_they_go() -> None:
    drawn = {name: simulate_sample(one, 50) for name, one in {"steady": STEADY, "bold": BOLD}.items()}
    chart = order_flip_chart(drawn, RECALL)
    assert chart.series[0].x[-1] == 50
    printed = [(1 + one.n_above <= 10).mean() for one in drawn.values()]
    assert [series.y[-1] for series in chart.series] == pytest.approx(printed)
    assert any("reach as far as this sample" in note for note in chart.notes)


def test_pairs_that_cross_often_are_counted() -> None:
    """Lines that cross twice: a has the best and the worst targets, b those in between."""
    a = Ranks.single([0] * 2 + [40] * 4 + [900] * 4, n_pool=1000)
    b = Ranks.single([12] * 5 + [200] * 5, n_pool=1000)
    chart = order_flip_chart({"a": a, "b": b}, RECALL)
    lines = {series.label: np.array(series.y) for series in chart.series}
    found = crossings("a", "b", lines, np.array(chart.series[0].x).astype(np.int64))
    signs = np.sign(np.round(lines["a"] - lines["b"], 9))
    signs = signs[signs != 0]
    assert len(found) == (signs[1:] != signs[:-1]).sum() >= 2
    said = (
        f"b and a change places {len(found)} times, and a is ahead beyond about m = {rounded(found[-1].size)}"
    )
    assert said in chart.words


def test_only_some_pairs_are_listed() -> None:
    shifted = {f"m{n}": Ranks.single([n] * n + [30 + 9 * n] * (10 - n), n_pool=1000) for n in range(2, 8)}
    words = order_flip_chart(shifted, RECALL).words
    assert words.count(" up to about m = ") + words.count(" times, and ") <= 6
    assert "; and " in words


def test_exact_rank_chart_shows_every_model() -> None:
    chart = exact_rank_chart({"steady": STEADY, "bold": BOLD})
    assert [series.model for series in chart.series] == ["steady", "bold"]
    assert all(series.kind == "step" for series in chart.series)
    widths = np.diff(np.log2(chart.series[0].x))
    for series in chart.series:
        assert np.array(series.y[:-1]) @ widths == pytest.approx(1)
        assert series.y[-1] == 0
    assert "bold: about 40 % within the top 10" in chart.words
    assert "steady: about 0 % within the top 10" in chart.words


def test_sampled_rank_chart_shows_what_is_known() -> None:
    ranks = simulate_sample(BOLD, 50)
    bare = sampled_rank_chart("bold", ranks)
    assert [series.label for series in bare.series] == [
        "sampled ranks, scaled to the catalogue",
        "inferred by smooth",
    ]
    assert any("the one shown was fitted by smooth" in note for note in bare.notes)
    full = sampled_rank_chart("bold", ranks, BOLD, estimator=MaximumLikelihood())
    assert [series.label for series in full.series][1:] == ["inferred by mle", "exact ranks"]
    assert not any("fitted by" in note for note in full.notes)
    assert "Exact ranks: about 40 % within the top 10" in full.words


def test_what_cannot_be_inferred_is_said() -> None:
    ranks = SampledRanks.single([0, 3], n_negatives=9, n_pool=50, design=Design(law="popularity"))
    chart = sampled_rank_chart("bold", ranks)
    assert len(chart.series) == 1
    assert any("No distribution could be inferred: 'smooth' needs negatives" in note for note in chart.notes)


def result(seconds: dict[str, float], n_scores: int) -> Result:
    return Result(
        "evaluate",
        (Estimate("ease", "auc", 0.8),),
        data={"users_with_targets": 100, "n_items": 50},
        provenance={"seconds": {"ease": seconds}, "scores_computed": {"ease": n_scores}},
    )


def test_cost_tells_both_ways_apart() -> None:
    both = result({"fit": 1.0, "sample": 0.5, "rank": 2.0}, 5000 + 1000)
    assert [(one.way, one.n_scores, one.seconds) for one in ranking_costs(both)] == [
        ("sampled", 1000, 0.5),
        ("exact", 5000, 2.0),
    ]
    chart = cost_chart(both)
    assert chart is not None
    assert chart.series[0].y == (5000, 5000)
    assert (
        "ease (sampled): 1,000 scores in 0.5 s, 0.2 of all; ease (exact): 5,000 scores in 2 s." in chart.words
    )
    part = result({"fit": 1.0, "rank": 2.0}, 700)
    assert [(one.way, one.n_scores) for one in ranking_costs(part)] == [("part", 700)]
    assert cost_chart(Result("estimate", (Estimate("ease", "auc", 0.8),))) is None
