"""The notebook of the documentation runs, and every cell shows what a reader expects.

Cells are run as a kernel would run them, the value of the last line shown, but without Jupyter.
"""

from __future__ import annotations

import ast
import json
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.docs.page import PROJECT

pytestmark = pytest.mark.slow
NOTEBOOK = PROJECT / "docs" / "first_evaluation.ipynb"
#: what stands in the output of each code cell, and what a notebook shows it as
SHOWN = [
    ("_repr_html_", "Interactions 'demo': 2,500 users"),
    ("_repr_html_", "Split of 'demo' by leave-last-out"),
    ("_repr_html_", "Result of evaluate on demo: 3 models, 2 metrics"),
    ("", "['item-knn', 'ease']"),
    ("_repr_html_", "Comparison of 3 models"),
    ("_repr_html_", "popularity"),
    ("savefig", "Canvas size"),
    ("_repr_html_", "Result of evaluate on data: 1 model, 1 metric"),
    ("_repr_html_", "SampledRanks of 2,500 targets"),
    ("_repr_html_", "smooth"),
    ("_repr_html_", "Plan: half-width 0.02"),
    ("_repr_html_", "6 samplers"),
]


def shown_by(source: str, names: dict[str, Any]) -> Any:
    """Run a cell and return the value of its last line."""
    body = ast.parse(source)
    last = body.body.pop()
    assert isinstance(last, ast.Expr), source
    exec(compile(body, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


def test_every_cell_shows_what_it_promises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads(NOTEBOOK.read_text())
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    assert len(cells) == len(SHOWN)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for source, (method, text) in zip(cells, SHOWN, strict=True):
            value = shown_by(source, names)
            page = getattr(value, method)() if method == "_repr_html_" else repr(value)
            assert hasattr(value, method or "__len__")
            assert text.replace("'", "&#x27;") in page or text in page
    said = [str(warning.message) for warning in told if "was split by" in str(warning.message)]
    assert said == [
        "'data' was split by leave-last-out, because no split was given. Choose a rule with "
        "truerank.make_split(data, 'leave-last-out')."
    ]


def test_the_notebook_holds_no_outputs() -> None:
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
