"""Recipes: our numbers beside the printed ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from truerank.core.errors import InvalidData, InvalidParameter, UnknownName
from truerank.data.catalogue import find_local
from truerank.papers.krichene2020 import _reason
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
    for name in ("r19.figure1", "r19.figure2", "r19.figure3", "kr20.figure4"):
        assert len(run_recipe(name).figures) == 1


@pytest.mark.data
@needs_ml_1m
def test_krichene_rendle_tables() -> None:
    """Twenty repetitions: no cell of Y differs by more than sampling error, none at all without a reason."""
    settings = Settings(repeats=20)
    third, fourth = run_recipe("kr20.table3", settings), run_recipe("kr20.table4", settings)
    assert len(third.cells) == 12 * 8
    assert len(fourth.cells) == 12 * 7
    assert unexplained(third) == []
    assert unexplained(fourth) == []
    exact = [c for c in third.cells if c.row.endswith("Y") and c.column == "Exact"]
    assert [c.status for c in exact] == ["matches"] * 4
    stochastic = [
        c for c in third.cells if c.row.endswith("Y") and not c.column.startswith(("Exact", "RankE"))
    ]
    assert max(abs(c.z or 0.0) for c in stochastic) < 4


@pytest.mark.data
@needs_ml_1m
def test_reasons_do_not_cover_everything() -> None:
    """A reason is given only where it is large enough, and never for what it cannot explain."""
    assert _reason("X", "Recall", "Exact", 7.63, 7.60, 7.63)
    assert not _reason("X", "Recall", "Exact", 8.60, 7.60, 8.60)
    assert not _reason("X", "Recall", "BV_0.1", 6.60, 6.49, 7.63)
    assert not _reason("Y", "AUC", "Sampled", 85.40, 85.33, 85.33)
    assert _reason("Y", "AUC", "RankEstimate", 85.35, 85.48, 85.33)
    assert not _reason("Y", "AUC", "RankEstimate", 85.35, 85.60, 85.33)
    assert not _reason("Z", "Recall", "Exact", 9.50, 9.42, 9.50)
    assert _reason("Z", "AUC", "Exact", 74.81, 74.73, 74.81)
    assert not _reason("Z", "AUC", "Exact", 74.81, 96.0, 74.81)
    fourth = run_recipe("kr20.table4", Settings(repeats=20))
    assert {cell.note for cell in fourth.cells} == {""}


@pytest.mark.data
@needs_ml_1m
def test_rank_histogram() -> None:
    found = {(c.row, c.column): c for c in run_recipe("kr20.figure5").cells}
    assert found["X", "in the top 100"].value == pytest.approx(2310, abs=25)


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
