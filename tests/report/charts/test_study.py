"""A study as a page."""

from __future__ import annotations

import numpy as np

from tests.report.markup import HOSTILE, Page, drawings
from truerank.core.chart import Chart, HeatMap
from truerank.report.charts.study import error_maps, study_curve, study_document, study_verdict
from truerank.report.page import render_document
from truerank.workflows.study import Study

CUTOFFS = (1, 5, 10)


def make_study(models: tuple[str, ...] = ("a", "b"), *, n_repeats: int = 4) -> Study:
    """Model b is the better one; naive is ten times too high, smooth alternates around the exact values."""
    exact = np.array([[[0.1, 0.2, 0.3]], [[0.2, 0.3, 0.4]]])[: len(models)]
    factor = np.array([10.0, 1.0])[:, None] + np.array([0.0, 1.0])[:, None] * np.resize(
        [-0.1, 0.1], n_repeats
    )
    runs = factor[:, None, :, None, None] * exact[None, :, None]
    return Study(models, ("naive", "smooth"), ("recall",), CUTOFFS, exact, runs, np.full(len(models), 9.0))


def test_verdict_names_the_closest_estimator() -> None:
    """smooth is 10 % off, naive 900 %; in all 3 x 4 rankings b comes first."""
    assert study_verdict(make_study()) == (
        "Closest to the exact metrics is smooth, 10 % off on average; naive is 900 % off. It puts the best "
        "model first in 12 of 12 rankings, one per sample and metric."
    )
    alone = study_verdict(make_study(("a",)))
    assert alone == "Closest to the exact metrics is smooth, 10 % off on average; naive is 900 % off."


def test_curves_leave_naive_values_out() -> None:
    chart = study_curve(make_study(), "recall", "b")
    assert [series.label for series in chart.series] == ["exact", "smooth"]
    assert chart.series[0].y == (0.2, 0.3, 0.4)
    assert np.allclose(chart.series[1].y, chart.series[0].y)
    assert np.allclose(chart.series[1].low, 0.9 * np.array(chart.series[0].y))
    assert "Naive values" in chart.notes[-1]
    assert chart.words.endswith("At K = 10: exact 0.4000, smooth 0.4000.")


def test_maps_show_errors_by_model() -> None:
    (heat,) = error_maps(make_study())
    assert isinstance(heat, HeatMap)
    assert np.allclose(np.array(heat.values, np.float64), [[900, 900], [10, 10]])
    assert (heat.low, heat.high) == (0.0, 100.0)
    assert not list(error_maps(make_study(("a",))))


def test_page() -> None:
    """Errors, curves of the best model, who is named best, and all errors folded; names are escaped."""
    page = study_document(make_study(("a", HOSTILE)), name=HOSTILE)
    assert [section.title for section in page.sections] == [
        *("Errors", "Exact and estimated curves of the best model", "Who is named best", "All errors"),
    ]
    assert page.sections[0].tables[0].rows == (("smooth", "10.0"), ("naive", "900.0"))
    chart = page.sections[1].charts[0]
    assert isinstance(chart, Chart)
    assert chart.title == f"recall@K of {HOSTILE}"
    assert page.sections[2].tables[0].rows[0] == ("recall@1", HOSTILE, "4 of 4", "4 of 4")
    html = render_document(page)
    assert Page(html).count("script") == Page(html).count("img") == 0
    assert drawings(html)
    alone = study_document(make_study(("a",)))
    assert "Who is named best" not in [section.title for section in alone.sections]
