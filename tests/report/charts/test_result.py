"""All charts of a result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from truerank.core.chart import Chart
from truerank.core.interactions import Interactions
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.result import Estimate, Result
from truerank.core.split import Split
from truerank.inference.estimate_interval.registry import UNCERTAINTIES
from truerank.metrics.registry import make_metrics
from truerank.ranking.simulate import simulate_adaptive, simulate_sample
from truerank.report.charts.result import result_charts
from truerank.report.charts.settings import ChartSettings
from truerank.workflows.estimate import estimate
from truerank.workflows.evaluate import evaluate
from truerank.workflows.options import DEFAULT_ESTIMATOR

DRAW = np.random.default_rng(5)
EXACT = {
    "ease": Ranks.single((DRAW.pareto(0.5, 120) * 3).astype(np.int64).clip(max=199), n_pool=200),
    "pop": Ranks.single(DRAW.integers(0, 120, 120), n_pool=200, n_tied=3),
}
SAMPLED = {name: simulate_sample(one, 29, label=name) for name, one in EXACT.items()}


@pytest.fixture(scope="module")
def split() -> Split:
    user, item = np.divmod(DRAW.permutation(40 * 40)[:400], 40)
    order = np.lexsort((item, user))
    user, item = user[order], item[order]
    is_test = np.diff(user, append=-1) != 0
    train, test = (
        Interactions.from_codes(user[keep], item[keep], n_users=40, n_items=40)
        for keep in (~is_test, is_test)
    )
    return Split(train, test)


def test_exact_results(split: Split) -> None:
    result = evaluate(["popularity", "item-knn"], split, "ndcg@10,recall@5,auc")
    charts = result_charts(result)
    keys = [chart.key for chart in charts]
    assert keys == ["rank-distribution", "ndcg-by-k", "recall-by-k", "order-flip"]
    curve = charts[1]
    assert isinstance(curve, Chart)
    at = curve.series[0].x.index(10)
    assert curve.series[0].y[at] == pytest.approx(result.value("ndcg@10", "popularity"))
    order = charts[3]
    assert isinstance(order, Chart)
    assert [series.y[-1] for series in order.series] == pytest.approx(
        [result.value("ndcg@10", name) for name in ("popularity", "item-knn")]
    )


@pytest.mark.slow
def test_samples_of_several_models() -> None:
    result = estimate(SAMPLED, "recall@10,ndcg@10", ["naive", "bv(gamma=0.1)"], bounds=True)
    charts = result_charts(result, SAMPLED)
    keys = [chart.key for chart in charts]
    assert keys == [
        *("rank-distribution-1", "rank-distribution-2"),
        *("recall-by-k", "recall-by-k-1", "recall-by-k-2", "ndcg-by-k"),
        *("blind-spot", "order-flip"),
    ]
    own = charts[3]
    assert isinstance(own, Chart)
    band, line = own.series
    bound = next(one for one in result.bounds if (one.model, one.metric) == ("ease", "recall@10"))
    at = band.x.index(10)
    assert (band.low[at], band.high[at]) == pytest.approx((bound.low, bound.high), abs=1e-9)
    assert line.y[line.x.index(10)] == result.value("recall@10", "ease", "bv")
    assert all(chart.words and chart.table().rows for chart in charts)
    assert result_charts(result, SAMPLED) == charts


def test_both_kinds_of_ranks_of_one_model() -> None:
    sampled = {"ease": SAMPLED["ease"]}
    result = replace(
        estimate(sampled, "recall@10,ndcg@10", "smooth", uncertainty="delta"), ranks={"ease": EXACT["ease"]}
    )
    charts = result_charts(result, sampled)
    keys = [chart.key for chart in charts]
    assert keys == [
        "rank-distribution-1",
        "recall-by-k-1",
        "ndcg-by-k-1",
        "blind-spot",
        "blind-spot-2",
        "order-flip",
    ]
    assert isinstance(charts[0], Chart)
    assert [series.label for series in charts[0].series][1:] == ["inferred by smooth", "exact ranks"]
    assert isinstance(charts[5], Chart)
    assert charts[5].series[0].x[-1] == 199
    bare = result_charts(result, sampled, bounds=False)
    assert "blind-spot" not in [chart.key for chart in bare]


def test_metrics_without_cutoff_have_a_stand_in() -> None:
    charts = result_charts(estimate(SAMPLED, "auc", "naive"), SAMPLED)
    curve = next(chart for chart in charts if chart.key == "recall-by-k")
    assert "The metrics asked for have no cut-off; recall stands in for them." in curve.notes


@pytest.mark.slow
def test_what_is_left_out_is_said() -> None:
    grown = {"ease": simulate_adaptive(EXACT["ease"], "adaptive(start=10, max=80)")}
    charts = result_charts(estimate(grown, "recall@10", "bv(gamma=0.1)"), grown)
    assert "order-flip" not in [chart.key for chart in charts]
    assert any("no chart of the order of models against m: an adaptive" in note for note in charts[-1].notes)
    many = {f"m{number}": SAMPLED["ease"] for number in range(9)}
    charts = result_charts(estimate(many, "recall@10", "naive"), many, bounds=False)
    assert sum(chart.key.startswith("rank-distribution-") for chart in charts) == 8
    assert "Only the first 8 models have charts of their own." in charts[-1].notes


def test_curves_follow_the_estimator_of_the_leaderboard() -> None:
    """The last one that speaks about all items, whatever stands before it."""
    ways = ("bv", "mle", "smooth", "naive")
    estimates = tuple(Estimate("a", "recall@10", 0.1, kind="estimate", estimator=way) for way in ways)
    setting = ChartSettings.of(Result("estimate", estimates))
    assert str(setting.estimator) == str(setting.mixture) == "smooth"
    assert str(ChartSettings.of(Result("estimate", estimates[:1])).estimator) == "bv"
    assert str(ChartSettings.of(Result("estimate", estimates[-1:])).estimator) == "naive"


def test_results_without_ranks_have_few_charts() -> None:
    assert result_charts(Result("estimate", (Estimate("ease", "recall@10", 0.1),))) == ()


def test_settings_of_other_commands_do_not_trip() -> None:
    """Evaluation up to a precision names ways of its own where others name estimators."""
    one = Estimate("ease", "recall@10", 0.1, kind="estimate", estimator="rows", level=0.9)
    setting = ChartSettings.of(Result("evaluate", (one,), provenance={"target": "population", "seed": 7}))
    assert (setting.estimators, setting.level, setting.target, setting.seed) == ((), 0.9, "population", 7)
    assert str(setting.estimator) == DEFAULT_ESTIMATOR
    assert setting.mixture is None


def test_charts_do_not_wait_for_many_resamples() -> None:
    for spec, quick in {
        "auto": "auto(resamples=100)",
        "bootstrap(resamples=50)": "bootstrap(resamples=50)",
    }.items():
        setting = ChartSettings(uncertainty=UNCERTAINTIES.make(spec))
        assert str(setting.estimation(make_metrics("auc")).uncertainty) == quick
    assert str(ChartSettings(uncertainty=UNCERTAINTIES.make("delta")).estimation(()).uncertainty) == "delta"


def test_tiny_pools_are_shown() -> None:
    one = {"ease": SampledRanks.single([0, 1, 1], n_negatives=1, n_pool=3)}
    charts = result_charts(estimate(one, "recall@1", "naive"), one)
    assert {chart.key for chart in charts} >= {"rank-distribution-1", "recall-by-k-1", "order-flip"}
