"""Runs that are kept, the list made from them, tables beside print, and the committed record."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from truerank.core.errors import DataWarning, InvalidData, InvalidParameter
from truerank.core.table import Table
from truerank.papers.gallery import LEGEND, RecipeStatus, comparison_tables, recipe_statuses, runs_document
from truerank.papers.outcome import PaperNumber, RecipeOutcome
from truerank.papers.recipe import PAPERS, RECIPES, Settings, run_recipe
from truerank.papers.record import (
    RUNS,
    Run,
    keep_run,
    last_runs,
    reference_runs,
    runs_from_json,
    runs_to_json,
)
from truerank.papers.store import LEFT_OUT, QUICK, DatasetSetup, PaperStore

DATE = "2026-01-02"
NEAR = PaperNumber("Y", "Sampled", 56.51, 56.55, error=0.03)
SAME = PaperNumber("Y", "Recall", 8.84, 8.8411)
OFF = PaperNumber("X", "AUC", 89.13, 89.30)
WHY = replace(OFF, note="the start is not given")
NEW = PaperNumber("Z", "ours", None, 1.0)


def run(name: str = "r19.table1", **fields: object) -> Run:
    outcome = RecipeOutcome((SAME, NEAR), notes=("a note",), without=("yelp: data not at hand",), repeats=3)
    return replace(Run(name, outcome, date=DATE, seconds=1.25), **fields)  # type: ignore[arg-type]


finite = st.floats(-1e6, 1e6).map(lambda value: float(f"{value:.8g}"))
cells = st.builds(
    PaperNumber,
    st.text(max_size=8),
    st.text(max_size=8),
    st.none() | finite,
    finite,
    st.floats(0, 10).map(lambda value: float(f"{value:.8g}")),
    st.integers(0, 4),
    st.text(max_size=8),
    st.none() | finite.map(abs),
)


@given(st.lists(cells, max_size=5), st.text(max_size=8), st.booleans())
def test_a_record_comes_back(found: list[PaperNumber], text: str, quick: bool) -> None:
    one = Run("a", RecipeOutcome(tuple(found), notes=(text,), reason=text), ("fig",), DATE, 1.5, 2.5, quick)
    assert runs_from_json(runs_to_json([one, one])) == [one, one]


@pytest.mark.parametrize("text", ["", "{}x", '[{"name": "a"}]', "[1]", '["a"]', "[" * 100_000])
def test_what_is_no_record_is_refused(text: str) -> None:
    with pytest.raises(InvalidData, match="a record of runs must be the JSON that truerank wrote"):
        runs_from_json(text)


def test_last_runs(tmp_path: Path) -> None:
    assert last_runs(None) == last_runs(tmp_path) == {}
    keep_run(tmp_path, run())
    keep_run(tmp_path, run(seconds=2.0))
    keep_run(tmp_path, run("r19.table2"))
    (tmp_path / RUNS / "r19.table2.json").write_text("cut off [")
    with pytest.warns(DataWarning, match=r"r19.table2.json' is damaged and left out. Run r19.table2 again"):
        found = last_runs(tmp_path)
    assert list(found) == ["r19.table1"]
    assert found["r19.table1"].seconds == 2.0


def test_a_folder_in_the_place_of_a_run(tmp_path: Path) -> None:
    place = tmp_path / "runs" / "r19.table1.json"
    place.mkdir(parents=True)
    keep_run(tmp_path, run())
    assert list(last_runs(tmp_path)) == ["r19.table1"]
    place.unlink()
    (place / "more").mkdir(parents=True)
    with pytest.raises(InvalidParameter, match=r"is a folder that cannot be removed .*not empty"):
        keep_run(tmp_path, run())


def test_figures_are_kept_in_the_same_bytes(tmp_path: Path) -> None:
    contents = []
    for folder in (tmp_path / "a", tmp_path / "b"):
        outcome = run_recipe("l20.figure4")
        keep_run(folder, Run("l20.figure4", outcome, tuple(outcome.figures)))
        contents.append((folder / RUNS / "l20.figure4.svg").read_bytes())
    assert contents[0] == contents[1]
    assert b"<text" in contents[0]


def test_lines_prefer_the_runs_of_the_user() -> None:
    own, ours = {"r19.table1": run()}, {"r19.table1": run(quick=True), "r19.table2": run("r19.table2")}
    found = {line.recipe.name: line for line in recipe_statuses(own, ours)}
    assert list(found) == list(RECIPES)
    assert found["r19.table1"].how == f"{DATE}, 3 x"
    assert found["r19.table1"].status == "agrees (2 of 2 cells, joint p = 0.55), in part"
    assert found["r19.table2"].how == f"{DATE}, 3 x, reference"
    assert found["r19.figure1"].status == "not run yet"
    assert found["l20.table1"].status == "holds no numbers"
    assert RecipeStatus(RECIPES["r19.table1"], run(quick=True)).how == f"{DATE}, 3 x, quick"


def test_data_that_are_not_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truerank.papers.recipe.find_local", lambda name: None)
    found = {line.recipe.name: line.status for line in recipe_statuses({}, {})}
    assert found["kr20.table3"] == "data not at hand"
    assert found["r19.table1"] == "not run yet"


def test_every_table_and_figure_of_the_papers_is_listed() -> None:
    """Counted in the papers: tables and figures, the two unnumbered tables of Rendle 2019 included."""
    counts = {"r19": (2, 3), "kr20": (4, 6), "l20": (7, 8), "l23": (11, 2), "s21": (4, 3)}
    assert list(counts) == list(PAPERS)
    expected = [
        f"{paper}.{kind}{number}"
        for paper, (tables, figures) in counts.items()
        for kind, last in (("table", tables), ("figure", figures))
        for number in range(1, last + 1)
    ]
    assert sorted(expected) == sorted(name for name, recipe in RECIPES.items() if not recipe.is_ours)


def beside(*cells: PaperNumber, only_printed: bool = False) -> tuple[Table, ...]:
    return comparison_tables(RecipeOutcome(cells), only_printed=only_printed)


def test_tables_beside_print() -> None:
    made = beside(SAME, NEAR, OFF, NEW)
    assert [table.columns for table in made] == [("", "Recall", "Sampled"), ("", "AUC"), ("", "ours")]
    assert made[0].rows == (("Y", "8.84 (8.84)", "56.55 (≈ 56.51, +1.3)"),)
    assert made[1].rows == (("X", "89.30 (≠ 89.13)"),)
    assert made[2].rows == (("Z", "1.00"),)
    assert beside(SAME, NEW, only_printed=True) == beside(SAME)
    gap = beside(SAME, NEAR, PaperNumber("Z", "Recall", None, 3.0))
    assert gap[0].rows[1] == ("Z", "3.00", "")
    short = comparison_tables(RecipeOutcome((NEAR,), short="10 repeats"))
    assert short[0].rows == (("Y", "56.55 (? 56.51, +1.3)"),)


def test_a_page_of_runs() -> None:
    page = runs_document([run(), run("r19.table2", quick=True)], title="papers", left_out=["x: not run."])
    assert page.lead == (
        "Of 4 printed numbers, 4 are found again, to the last digit or within 2 standard errors."
    )
    assert page.sections[0].tables[0].notes == (LEGEND,)
    assert [section.title.partition(":")[0] for section in page.sections] == [
        "Summary",
        "r19.table1",
        "r19.table2",
    ]
    assert page.sections[0].notes == ("x: not run.",)
    assert page.sections[0].tables[0].column("status") == ("agrees (2 of 2 cells, joint p = 0.55)",) * 2
    assert page.sections[1].notes[0] == (
        "Agrees (2 of 2 cells, joint p = 0.55): 1 matches, 1 within 2 standard errors."
    )
    folded = page.sections[1].details
    assert folded[0].startswith("Joint p = 0.55, three times the smallest of: chi-square 1.8 of")
    assert "Without yelp: data not at hand." in folded
    assert dict(page.facts) == {"quick": "yes", "seed": "0", "date": DATE}


def test_quick_settings() -> None:
    assert Settings(quick=True).repeated(100) == 100
    with pytest.raises(InvalidParameter, match="either quick or full"):
        Settings(quick=True, full=True)
    with pytest.raises(InvalidParameter, match="no part of a quick run: it fits X 120 times"):
        run_recipe("kr20.fit-x", Settings(quick=True))
    with pytest.raises(InvalidParameter, match=r"holds no numbers \(notation\)"):
        run_recipe("l20.table1")


def test_a_quick_run_leaves_slow_models_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("truerank.papers.store.find_local", lambda name: name)
    setup = DatasetSetup("demo", "leave-last-out", {"a": "popularity", "b": "ease"}, slow=("b",))
    assert setup.missing("b") == ""
    assert setup.missing("b", quick=True) == QUICK
    assert setup.missing("a", quick=True) == ""
    assert setup.missing("a", without=("a",)) == LEFT_OUT
    assert setup.missing("a", without=("demo:a",)) == LEFT_OUT
    assert setup.missing("a", without=("other:a", "b")) == ""
    assert list(setup.fitted(PaperStore(), 0, without=("a",))) == ["b"]


def test_the_committed_record_says_what_recipes_say() -> None:
    """Recipes without data are run again: the record must hold their numbers, or it is out of date."""
    held = reference_runs()
    for name in ("r19.table1", "r19.table2", "r19.figure1", "l20.figure4", "l20.figure5", "s21.table4"):
        again, kept = run_recipe(name, Settings(quick=held[name].quick)), held[name].outcome
        assert [c.value for c in kept.cells] == pytest.approx([c.value for c in again.cells], rel=1e-6), name
        assert [replace(c, value=0, error=0) for c in kept.cells] == [
            replace(c, value=0, error=0) for c in again.cells
        ]
        assert (kept.status, kept.reason, kept.repeats) == (again.status, again.reason, again.repeats)


def test_no_quick_run_is_a_reference() -> None:
    """Every reference run is a full one or says that it is short; recipes without one are not run in full."""
    held = reference_runs()
    assert set(held) <= set(RECIPES)
    assert [name for name, one in held.items() if one.quick] == []
    for name, one in held.items():
        is_chosen = name == "kr20.fit-x"  # by what it is compared with
        is_short = (one.outcome.repeats or 0) < RECIPES[name].needed
        assert (one.outcome.short != "") == (is_chosen or is_short), name
        assert one.outcome.status != "agrees" or not one.outcome.short
