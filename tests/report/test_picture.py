"""The figure for notebooks."""

from __future__ import annotations

import io
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

from tests.report.results import make_result
from truerank.core.errors import InvalidData
from truerank.core.result import Result
from truerank.report import figure


def test_one_panel_per_metric() -> None:
    """Panels carry the metrics' names and each model's value."""
    result = make_result(metrics=("ndcg@10", "recall@10", "auc", "ap"))
    drawn = figure(result)
    assert [axes.get_title(loc="left") for axes in drawn.axes] == result.metrics()
    assert [text.get_text() for text in drawn.axes[0].texts] == ["0.3100", "0.2100", "0.1100"]


def test_saves_names_that_look_like_formulas() -> None:
    """Dollar signs in a name are letters, not mathematics."""
    target = io.StringIO()
    figure(make_result(models=("a$_$b", "c$"), metrics=("x$\\bad$",))).savefig(target, format="svg")
    assert ET.fromstring(target.getvalue()).tag.endswith("svg")


def test_needs_an_estimate() -> None:
    """A result without estimates cannot be drawn."""
    with pytest.raises(InvalidData, match="at least one estimate"):
        figure(Result("evaluate", ()))


def test_heavy_libraries_are_loaded_on_use() -> None:
    """Importing the stage loads neither matplotlib nor jinja2, and drawing never loads pyplot."""
    code = (
        "import sys, truerank.report as report;"
        "assert not {'matplotlib', 'jinja2'} & set(sys.modules);"
        "from truerank.core.result import Estimate, Result;"
        "report.figure(Result('evaluate', (Estimate('a', 'auc', 0.5),)));"
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
