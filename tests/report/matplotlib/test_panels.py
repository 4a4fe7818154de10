"""``Result.plot``."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from tests.report.matplotlib.pictures import LONG, PICTURES, line
from truerank.core.chart import LIGHT, Chart, model_mark
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.result import Estimate, Result
from truerank.report.matplotlib.panels import plot_leaderboard


def result(
    models: tuple[str, ...] = ("a", "b", "c"), ways: tuple[str, ...] = ("exact",), n_metrics: int = 2
) -> Result:
    """Later models are better."""
    return Result(
        "evaluate",
        tuple(
            Estimate(model, f"ndcg@{column}", value, value - 0.02, value + 0.02, 0.95, estimator=way)
            for way in ways
            for row, model in enumerate(models)
            for column in range(n_metrics)
            for value in (0.1 * (row + 1) + 0.01 * column,)
        ),
    )


def test_leaderboard_panels() -> None:
    """A panel per metric, best model on top, values and whiskers where they belong, the best value bold."""
    drawn = result().plot()
    assert [axes.get_title(loc="left") for axes in drawn.axes] == ["ndcg@0", "ndcg@1"]
    second = drawn.axes[1]
    assert [label.get_text() for label in drawn.axes[0].get_yticklabels()] == ["c", "b", "a"]
    assert [text.get_text() for text in second.texts] == ["0.3100", "0.2100", "0.1100"]
    assert [text.get_fontweight() for text in second.texts] == ["bold", "normal", "normal"]
    whisker, dot = second.lines[:2]
    assert np.asarray(whisker.get_xdata()) == pytest.approx([0.29, 0.33])
    assert np.asarray(dot.get_xdata()) == pytest.approx([0.31])
    assert (dot.get_color(), dot.get_marker()) == (LIGHT[model_mark(2).colour], model_mark(2).code)
    assert drawn.get_supxlabel().replace("\N{NO-BREAK SPACE}", " ") == "whiskers: 95 % intervals"


def test_exact_values_stand_above_estimates_with_the_same_mark() -> None:
    axes = result(models=("a", "b"), ways=("naive", "exact"), n_metrics=1).plot().axes[0]
    names = [label.get_text() for label in axes.get_yticklabels()]
    assert names == ["b · exact", "a · exact", "b · naive", "a · naive"]
    markers = [one.get_marker() for one in axes.lines if one.get_marker() != "None"]
    assert markers == [model_mark(1).code, model_mark(0).code] * 2


def test_missing_values_have_no_dot() -> None:
    one = Result(
        "evaluate", (Estimate("a", "auc", math.nan), Estimate("b", "auc", 0.5), Estimate("c", "ap", 0.1))
    )
    first, second = one.plot().axes
    assert [text.get_text() for text in first.texts] == ["0.5000"]
    assert [text.get_text() for text in second.texts] == ["0.1000"]
    assert one.plot().get_supxlabel() == ""


@pytest.mark.parametrize(
    ("n_metrics", "width", "columns", "grid"),
    [
        (1, None, None, (1, 1)),
        (4, None, None, (1, 4)),
        (4, 3.4, None, (2, 2)),
        (5, None, 2, (3, 2)),
        (4, None, 4, (1, 4)),
    ],
)
def test_panels_fit_the_width(
    n_metrics: int, width: float | None, columns: int | None, grid: tuple[int, int]
) -> None:
    drawn = plot_leaderboard(result(n_metrics=n_metrics), width=width, columns=columns)
    places = drawn.axes[0].get_subplotspec()
    assert places is not None
    assert places.get_gridspec().get_geometry() == grid
    assert len(drawn.axes) == n_metrics
    assert width is None or drawn.get_figwidth() == width


def test_long_names_are_shortened_at_their_middle() -> None:
    drawn = result(models=(LONG, "b")).plot(width=3.4)
    name = drawn.axes[0].get_yticklabels()[1].get_text()
    assert "…" in name
    assert name.startswith("item-knn")


def test_charts_by_key() -> None:
    lines = PICTURES["lines"]
    assert isinstance(lines, Chart)
    shown = replace(result(), charts=(replace(lines, series=(line("c"),)), PICTURES["heat"]))
    drawn = shown.plot("lines", width=5)
    assert drawn.get_figwidth() == 5
    assert drawn.axes[0].lines[0].get_color() == LIGHT[model_mark(2).colour]  # as in the leaderboard
    assert shown.plot("heat").axes[0].patches
    with pytest.raises(InvalidParameter, match=r"which must be one of leaderboard, lines, heat, got 'x'\.$"):
        shown.plot("x")
    with pytest.raises(
        InvalidParameter, match=r"leaderboard, got 'x'. More are made by truerank.report.charts"
    ):
        result().plot("x")


def test_needs_an_estimate() -> None:
    with pytest.raises(InvalidData, match="at least one estimate"):
        Result("evaluate", ()).plot()


@pytest.mark.slow
def test_matplotlib_is_loaded_on_use_and_pyplot_never() -> None:
    code = (
        "import sys, truerank.report.matplotlib;"
        "assert 'matplotlib' not in sys.modules;"
        "from truerank.core.result import Estimate, Result;"
        "Result('evaluate', (Estimate('a', 'auc', 0.5),)).plot()._repr_png_();"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
