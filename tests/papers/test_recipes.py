"""Recipes: our numbers beside the printed ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from truerank.core.errors import InvalidData, InvalidParameter, UnknownName
from truerank.data.catalogue import find_local
from truerank.papers.outcome import RecipeOutcome
from truerank.papers.recipe import RECIPES, Settings, run_recipe

HAS_ML_1M = find_local("ml-1m") is not None
needs_ml_1m = pytest.mark.skipif(
    not HAS_ML_1M, reason="ml-1m does not lie in TRUERANK_DATA or ../shared/data"
)


def unexplained(outcome: RecipeOutcome) -> list[str]:
    return [
        f"{c.row} {c.column}: {c.value} printed {c.printed}"
        for c in outcome.cells
        if c.status == "differs" or (c.z is not None and abs(c.z) > 4 and c.status != "explained")
    ]


def test_toy_tables_match() -> None:
    assert run_recipe("r19.table1").count() == {"matches": 12}
    sampled = run_recipe("kr20.table2")
    assert len(sampled.cells) == 24
    assert unexplained(sampled) == []
    assert "A: AUC 0.9901 +- 0.0045, AP 0.6366 +- 0.1304, NDCG 0.7290 +- 0.0978" in sampled.notes[0]


def test_figures_of_the_toy_example() -> None:
    second = run_recipe("r19.figure2")
    assert "AUC: exact A > C > B; m 1-9999: A > C > B" in second.notes
    assert second.notes[3].startswith("Recall@10: exact C > A = B; m 1-9: A = B = C; m 10-")
    claims = {cell.column: (cell.value, cell.status) for cell in second.cells if cell.row == "AP"}
    assert claims == {
        "A > C > B below m = 50 (1 = yes)": (1, "matches"),
        "A > B > C at m = 200 (1 = yes)": (1, "matches"),
        "C > A > B at m = 500 (1 = yes)": (1, "matches"),
    }
    ordered, settled = (cell for cell in second.cells if cell.row == "Recall@10")
    assert (ordered.printed, ordered.value, ordered.status) == (5000, 2479, "explained")
    assert (settled.value, settled.status) == (5711, "new")
    assert "from 2,479 samples on" in ordered.note
    for name in ("r19.figure1", "r19.figure2", "r19.figure3", "kr20.figure4"):
        assert len(run_recipe(name).figures) == 1


def test_unknown_and_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnknownName, match=r"Did you mean 'kr20\.table3'"):
        run_recipe("kr20.tabel3")
    with pytest.raises(InvalidParameter, match="repeats must be at least 2"):
        Settings(repeats=1)
    monkeypatch.setattr("truerank.papers.recipe.find_local", lambda name: None)
    with pytest.raises(InvalidData, match="needs the data set 'ml-1m', which is not at hand"):
        run_recipe("kr20.table3")


@pytest.mark.data
@pytest.mark.skipif(
    find_local("citeulike-a") is None or find_local("book-crossing") is None,
    reason="citeulike-a and book-crossing do not lie in TRUERANK_DATA or ../shared/data",
)
@pytest.mark.filterwarnings("ignore:.*incomplete copy:truerank.core.errors.DataWarning")
@pytest.mark.filterwarnings("ignore:blanks or other letters:truerank.core.errors.DataWarning")
def test_sizes_of_data_sets() -> None:
    """Numbers of whole data sets match to the digit; of those at hand in part it is said."""
    outcome = run_recipe("l20.table4")
    rows = {row: [c.status for c in outcome.cells if c.row == row] for row in ("citeulike", "book-X")}
    assert rows == {"citeulike": ["matches"] * 4, "book-X": ["matches"] * 4}
    assert unexplained(outcome) == []
    assert all("pinterest-20" in c.row for c in outcome.cells if c.status == "explained")


def test_every_recipe_leads_to_a_function() -> None:
    import importlib

    assert [name for name, recipe in RECIPES.items() if not recipe.function] == ["l20.table1", "l23.table4"]
    for recipe in (recipe for recipe in RECIPES.values() if recipe.function):
        module, _, function = recipe.function.partition(":")
        assert callable(getattr(importlib.import_module(module), function))
