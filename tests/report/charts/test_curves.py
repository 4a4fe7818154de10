"""Metrics against K and blind spots: the same numbers as the result's own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from truerank.core.chart import Series
from truerank.core.ranks import Design, Ranks, SampledRanks
from truerank.estimation.registry import ESTIMATORS
from truerank.inference.bounds.identify import IdentificationBound, bound_seconds, identification_bounds
from truerank.metrics.registry import make_metrics, values
from truerank.report.charts import curves as metric_curve
from truerank.report.charts.curves import (
    BoundCurve,
    blind_spot_chart,
    bound_curves,
    curve_chart,
    curves_chart,
    estimated_series,
    estimated_series_or_reason,
    exact_series,
    unresolved,
)
from truerank.report.charts.settings import ChartSettings, at_cutoffs, charted_metrics, curve_cutoffs
from truerank.workflows.estimate import estimate

DRAW = np.random.default_rng(3)
SAMPLE = SampledRanks.single(DRAW.geometric(0.08, 200).clip(max=20) - 1, n_negatives=19, n_pool=100)
RECALL = make_metrics("recall@10")[0]
BV = ChartSettings((ESTIMATORS.make("bv(gamma=0.1)"),))


def limits_of(widths: Mapping[int, float]) -> BoundCurve:
    bounds = {
        k: IdentificationBound(f"recall@{k}", 0.1, 0.1 + 2 * width, 0.95, "binomial")
        for k, width in widths.items()
    }
    return BoundCurve(RECALL, bounds)


def test_exact_line_is_the_metric_at_every_cutoff() -> None:
    ranks = Ranks.single(DRAW.integers(0, 300, 50), n_pool=310, n_tied=DRAW.integers(0, 9, 50))
    for spec in ("recall@12", "ndcg@10"):
        (metric,) = make_metrics(spec)
        found = exact_series("ease", ranks, metric)
        every = at_cutoffs(metric, map(int, found.x))
        np.testing.assert_allclose(found.y, values(every, ranks).mean(axis=0), atol=1e-12)
        assert metric.cutoff in found.x
        assert max(found.x) == 300


def test_estimated_line_is_what_estimate_gives() -> None:
    found = estimated_series("ease", SAMPLE, RECALL, BV)
    result = estimate({"ease": SAMPLE}, [f"recall@{k:.0f}" for k in found.x], "bv(gamma=0.1)")
    assert found.y == tuple(one.value for one in result.estimates)
    assert found.low == tuple(one.low for one in result.estimates)
    assert found.high == tuple(one.high for one in result.estimates)
    assert found.is_dashed


def test_samples_with_many_cells_have_fewer_cutoffs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metric_curve, "_CELLS", 100)  # of 20 cells
    assert estimated_series("ease", SAMPLE, RECALL, BV).x == (1, 3, 10, 30, 100)


def test_what_cannot_be_estimated_is_said() -> None:
    popular = SampledRanks.single([0, 3], n_negatives=9, n_pool=50, design=Design(law="popularity"))
    series, why = estimated_series_or_reason("ease", popular, RECALL, BV)
    assert series is None
    assert why.startswith("No estimate is shown: 'bv' needs negatives that were drawn uniformly")


def test_bounds_are_those_of_identified() -> None:
    (found,) = bound_curves({"ease": SAMPLE}, [RECALL])["ease"]
    assert tuple(found.bounds) == (1, 3, 5, 10, 20, 30, 50, 100)
    twin = identification_bounds(SAMPLE, [f"recall@{k}" for k in found.bounds])
    for bound, other in zip(found.bounds.values(), twin, strict=True):
        assert (bound.low, bound.high) == pytest.approx((other.low, other.high), abs=1e-9)


def test_less_time_means_fewer_cutoffs_and_then_none() -> None:
    each = bound_seconds(SAMPLE)
    (few,) = bound_curves({"ease": SAMPLE}, [RECALL], seconds=4.5 * each)["ease"]
    assert tuple(few.bounds) == (1, 10, 30, 100)
    (none,) = bound_curves({"ease": SAMPLE}, [RECALL], seconds=2.5 * each)["ease"]
    assert none.bounds == {}
    assert "would take long" in none.why


def test_designs_without_bounds_say_why() -> None:
    popular = SampledRanks.single([0, 3], n_negatives=9, n_pool=50, design=Design(law="popularity"))
    (found,) = bound_curves({"ease": popular}, [RECALL])["ease"]
    assert "drawn uniformly" in found.why
    chart = curve_chart(
        "ease",
        RECALL,
        exact=Series("ease", (1, 10), (0.1, 0.4), model="ease"),
        estimated=None,
        limits=found,
        setting=BV,
        key="k",
    )
    assert any("No bounds are shown: bounds need negatives" in note for note in chart.notes)
    assert [series.label for series in chart.series] == ["exact"]
    assert blind_spot_chart({"ease": found}, n_negatives="9 negatives") is None


def test_curve_of_one_model_holds_all_that_is_known() -> None:
    (limits,) = bound_curves({"ease": SAMPLE}, [RECALL])["ease"]
    chart = curve_chart(
        "ease",
        RECALL,
        exact=exact_series("ease", Ranks.single([0, 50], n_pool=100), RECALL),
        estimated=estimated_series("ease", SAMPLE, RECALL, BV),
        limits=limits,
        setting=BV,
        key="k",
    )
    assert [series.kind for series in chart.series] == ["band", "line", "line"]
    assert [series.label for series in chart.series][1:] == ["bv", "exact"]
    bound = limits.bounds[10]
    assert f"At K = 10: the sample allows {bound.low:.3f} to {bound.high:.3f}; bv " in chart.words
    assert "exact 0.5000" in chart.words
    assert len(chart.table().rows) == len({x for series in chart.series for x in series.x})


def test_curves_of_all_models_have_no_bands() -> None:
    lines = {name: estimated_series(name, SAMPLE, RECALL, BV) for name in ("a", "b")}
    chart = curves_chart(RECALL, {}, lines, key="k")
    assert all(series.low == () for series in chart.series)
    assert chart.words.startswith("recall@K against K. At K = 10: a 0.")


def test_families_are_told_apart() -> None:
    specs = ["recall@5", "recall@20", "ap@5", "ap(norm=rel)@5", "mrr@3", "auc"]
    found = [str(metric) for metric in charted_metrics(specs, 1000)]
    assert found[0] == "recall@5"
    assert len(found) == 3
    assert curve_cutoffs(RECALL, 9) == (1, 2, 3, 5, 7)


def test_blind_spot_is_shaded_where_bounds_are_wide() -> None:
    given = {"ease": limits_of({1: 0.01, 100: 0.09, 200: 0.01}), "pop": limits_of({1: 0.01, 200: 0.02})}
    chart = blind_spot_chart(given, n_negatives="99 negatives")
    assert chart is not None
    (span,) = chart.spans
    assert (span.low, span.high) == pytest.approx((10.0, 100 * 2**0.5), rel=1e-6)
    assert chart.series[0].y == (0.05, 0.05)
    assert "ease: recall@K is not resolved to 0.05 for K from 10 to 140; at K = 100" in chart.words
    assert "pop: recall@K is resolved to 0.05 at every K shown." in chart.words
    everywhere = blind_spot_chart({"ease": limits_of({1: 0.2, 10: 0.3})}, n_negatives="9 negatives")
    assert everywhere is not None
    assert [(span.low, span.high) for span in everywhere.spans] == [(1, 10)]
    nowhere = blind_spot_chart({"pop": given["pop"]}, n_negatives="99 negatives")
    assert nowhere is not None
    assert nowhere.spans == ()


def test_unresolved_stretches_may_be_several() -> None:
    assert unresolved({1: 0.09, 10: 0.01, 100: 0.09}, 0.05) == [
        (1.0, pytest.approx(10**0.5)),
        (pytest.approx(10**1.5), 100.0),
    ]
