"""Agreement as heat maps, figures and tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.report.charts.agreement import heat_by_fraction, heat_by_metric
from truerank.workflows.agreement.result import Agreement, ModelMove, StrategyAgreement, StrategyScore

TAUS = {("random", 0.5): 0.9, ("random", 0.1): 0.4, ("head_user", 0.5): -0.5, ("head_user", 0.1): None}


def cell(strategy: str, fraction: float, tau: float | None, metric: str = "") -> StrategyAgreement:
    scenario = "implicit" if metric else ""
    low, high = (None, None) if tau is None else (tau - 0.1, tau + 0.1)
    return StrategyAgreement(
        strategy, fraction, scenario, metric, tau, low, high, tau, tau, low, high, 0, 2.0, 3.0, 2.5
    )


FOUND = Agreement(
    answer="",
    strategies=["random", "head_user"],
    fractions=[0.5, 0.1],
    seeds=[0],
    boards=[],
    cells=[
        *(cell(*place, tau) for place, tau in TAUS.items()),
        *(cell(*place, tau, metric) for place, tau in TAUS.items() for metric in ("auc", "ndcg@10")),
    ],
    scores=[StrategyScore("random", 0.65, 0.6, 0.7, 0.6, 0.8, 0.7, 0.9, 0.5)],
    moves=[ModelMove("implicit", "ease", fraction, 0.5, 0.4, 0.6) for fraction in (0.5, 0.1)],
    problems=[],
    level=0.95,
    threshold=0.8,
)


def test_by_fraction() -> None:
    heat = heat_by_fraction(FOUND)
    assert (heat.key, heat.rows) == ("tau-by-fraction", ("random", "head_user"))
    assert [name.split() for name in heat.columns] == [["50", "%"], ["10", "%"]]
    assert heat.values == ((0.9, 0.4), (-0.5, None))
    assert (heat.low, heat.middle, heat.high) == (-1.0, 0.0, 1.0)
    assert "The highest is 0.90, random at 50" in heat.words
    assert "the lowest -0.50, head_user at 50" in heat.words
    one = heat_by_fraction(FOUND, metric="auc", scenario="implicit", what="certain")
    assert (one.key, one.values) == ("certain-by-fraction", heat.values)
    assert "auc" in one.title
    with pytest.raises(InvalidData, match=r"no cell of 'random' at 0\.5 by 'ap'"):
        heat_by_fraction(FOUND, metric="ap")
    with pytest.raises(InvalidParameter, match="what must be one of tau, expected, certain"):
        heat_by_fraction(FOUND, what="x")  # type: ignore[arg-type]


def test_by_metric_is_the_mean_over_fractions_that_have_a_value() -> None:
    heat = heat_by_metric(FOUND)
    assert (heat.key, heat.columns) == ("tau-by-metric", ("auc", "ndcg@10"))
    assert heat.values[0] == pytest.approx((0.65, 0.65))
    assert heat.values[1] == pytest.approx((-0.5, -0.5))
    other = [replace(one, scenario="explicit") for one in FOUND.cells if one.metric == "auc"]
    both = replace(FOUND, cells=[*FOUND.cells, *other])
    assert heat_by_metric(both).columns == ("implicit: auc", "implicit: ndcg@10", "explicit: auc")
    empty = replace(FOUND, cells=[replace(one, tau=None) for one in FOUND.cells])
    assert heat_by_metric(empty).values[0] == (None, None)
    assert heat_by_metric(empty).words.endswith("There are no values.")


def test_figures() -> None:
    drawn = FOUND.plot()
    assert [text.get_text() for text in drawn.axes[0].texts][:2] == ["0.90", "0.40"]
    assert FOUND.plot("metric", what="certain", width=5).get_figwidth() == 5
    with pytest.raises(InvalidParameter, match="by must be one of fraction, metric"):
        FOUND.plot("model")  # type: ignore[arg-type]


def test_tables() -> None:
    rows = FOUND.to_table().rows
    assert rows[0] == (
        "random",
        "0.5",
        "0.900 [0.80, 1.00]",
        "0.900",
        "0.900 [0.80, 1.00]",
        "2",
        "3.00",
        "2.50",
    )
    assert rows[3][:5] == ("head_user", "0.1", "", "", "")
    assert len(rows) == 4
    by_metric = FOUND.to_table("metrics")
    assert by_metric.columns[:4] == ("scenario", "metric", "strategy", "fraction")
    assert len(by_metric.rows) == 8
    scores = FOUND.to_table("strategies")
    assert scores.rows == (("random", "0.650 [0.60, 0.70]", "0.600", "0.800 [0.70, 0.90]", "0.5"),)
    models = FOUND.to_table("models")
    assert models.columns == ("scenario", "model", "P_MLE at 0.5", "P_MLE at 0.1")
    assert models.rows == (("implicit", "ease", "0.500 [0.40, 0.60]", "0.500 [0.40, 0.60]"),)
    with pytest.raises(InvalidParameter, match="which must be one of fractions, metrics, strategies, models"):
        FOUND.to_table("x")  # type: ignore[arg-type]
