"""The gallery is what the generator makes of the committed record."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from truerank.core.errors import InvalidData
from truerank.papers.gallery import gallery_page, items_table, with_items
from truerank.papers.outcome import PaperNumber, RecipeOutcome
from truerank.papers.recipe import RECIPES
from truerank.papers.record import Run, reference_runs

DOCS = Path(__file__).parents[2] / "docs"
needs_docs = pytest.mark.skipif(not DOCS.is_dir(), reason="the folder docs is not there")


@needs_docs
def test_the_page_is_the_generated_one() -> None:
    made = gallery_page(reference_runs())
    assert (DOCS / "gallery.md").read_text(encoding="utf-8") == made, "write it again: make gallery"


@needs_docs
def test_the_table_of_all_items_is_the_generated_one() -> None:
    page = (DOCS / "papers.md").read_text(encoding="utf-8")
    assert page == with_items(page, reference_runs()), "write it again: python scripts/gallery.py"
    rows = [line for line in items_table(reference_runs()).splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + len(RECIPES)
    assert sum("| Own experiment: " in row for row in rows) == sum(r.is_ours for r in RECIPES.values())


def test_rows_of_the_table() -> None:
    near = PaperNumber("Y", "Sampled", 56.51, 56.55, error=0.03)
    outcome = RecipeOutcome(
        (near, PaperNumber("Y", "Recall", 8.84, 8.8411)), repeats=100, without=("X: slow",)
    )
    short = RecipeOutcome((near,), repeats=10, short="10 of 100 repeats")
    runs = {
        "kr20.table3": Run("kr20.table3", outcome, date="2026-01-02"),
        "l23.table1": Run("l23.table1", short, date="2026-01-02"),
        "r19.figure3": Run("r19.figure3", RecipeOutcome(), ("pic",), "2026-01-02"),
        "r19.table1": Run("r19.table1", RecipeOutcome((PaperNumber("A", "AUC", 0.5, 0.6),))),
        "s21.figure1": Run("s21.figure1", RecipeOutcome((PaperNumber("enough", "x", 0.5, 0.6),), repeats=3)),
    }
    table = items_table(runs)
    assert (
        "| Krichene and Rendle 2020 | Table 3: Exact, sampled and corrected metrics of X, Y, Z "
        "| `kr20.table3` | 2026-01-02, 100 x | 2 of 2 | p = 0.55, largest z 1.3 of 1 "
        "| agrees (2 of 2 cells); without X: slow |"
    ) in table
    assert "| 0 of 1 | p = 0.55, largest z 1.3 of 1 | 10 of 100 repeats, no evidence |" in table
    assert "| `r19.figure3` | 2026-01-02 | - | - | drawn, no printed numbers |" in table
    assert "| Li et al. 2020 | Table 1: Notation | - | - | - | - | holds no numbers |" in table
    assert "| 0 of 1 | exact numbers | differs" in table
    assert ", 3 x | 0 of 1 | no standard errors | differs" in table
    assert "| `kr20.table4` | no |  |  | not run in full |" in table
    with pytest.raises(InvalidData, match="the page must hold the comments"):
        with_items("# a page", runs)


@needs_docs
def test_every_figure_is_there_and_small() -> None:
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\]\(gallery/([^)]+)\)", page))
    files = {path.name: path.stat().st_size for path in (DOCS / "gallery").iterdir()}
    assert shown == set(files)
    assert sum(files.values()) < 3_000_000
    runs = reference_runs()
    assert all(runs[name].figures for name in RECIPES if ".figure" in name and name in runs)


def test_links_lead_somewhere() -> None:
    page = gallery_page(reference_runs())
    assert set(re.findall(r"\(#([^)]+)\)", page)) == set(re.findall(r'<a id="([^"]+)">', page))


def test_what_differs_is_said() -> None:
    cells = (
        PaperNumber("X", "AUC", 89.13, 89.30, note="the start is not given"),
        *(PaperNumber(f"Y{n}", "AUC", 1.0, 2.0) for n in range(8)),
        PaperNumber("Z", "AUC", None, 1.0),
    )
    outcome = RecipeOutcome(cells, notes=("a note",), reason="fits are ours", without=("yelp: no data",))
    page = gallery_page({"kr20.table3": Run("kr20.table3", outcome, ("pic",), "2026-01-02", 9.0, 3.0, True)})
    assert (
        "| [Table 3](#kr20-table3) | Exact, sampled and corrected metrics of X, Y, Z | differs because"
        in page
    )
    assert "**Differs because fits are ours (9 of 9 cells).** Of 9 numbers: 1 explained, 8 differs." in page
    assert "`truerank paper run kr20.table3 --quick`: quick run of 2026-01-02, 3.0 s." in page
    assert "![Exact, sampled and corrected metrics of X, Y, Z](gallery/pic.svg)" in page
    assert "* ≠ the start is not given: X AUC." in page
    assert (
        "* ≠ without a reason of its own: Y0 AUC, Y1 AUC, Y2 AUC, Y3 AUC, Y4 AUC, Y5 AUC and 2 more." in page
    )
    assert "| X | 89.30 (≠ 89.13) |" in page
    assert "| Z |" not in page
    assert "* A note\n* Without yelp: no data." in page
    assert "| Table 4 | How often pairs of X, Y, Z are ordered correctly | not run in full |" in page
