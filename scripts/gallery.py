"""Write the record of the package, the gallery and the table of all items from kept runs: ``make gallery``.

The folders are those that ``truerank paper run ... --keep FOLDER`` was told; of a recipe that several of them
hold the last one counts, and of one that none holds the record's. Quick runs are refused: they are no
reference. Without a folder the pages are written from the record as it is.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from truerank.papers.gallery import gallery_page, with_items
from truerank.papers.recipe import RECIPES
from truerank.papers.record import RUNS, last_runs, reference_runs, runs_to_json

PROJECT = Path(__file__).resolve().parent.parent
RECORD = PROJECT / "src" / "truerank" / "papers" / "record.json"
PAGE = PROJECT / "docs" / "gallery.md"
FIGURES = PROJECT / "docs" / "gallery"

PAPERS = PROJECT / "docs" / "papers.md"

if __name__ == "__main__":
    folders = [Path(name) for name in sys.argv[1:]]
    runs = reference_runs() if folders else {}
    for folder in folders:
        found = last_runs(folder)
        if not found:
            sys.exit(f"'{folder}' holds no runs. First: truerank paper run all --keep {folder}")
        if quick := [name for name, run in found.items() if run.quick]:
            sys.exit(
                f"quick runs are no reference, but '{folder}' holds {', '.join(quick)}. Run them in full."
            )
        for name, run in found.items():
            runs[name] = run
            for stem in run.figures:
                shutil.copy(folder / RUNS / f"{stem}.svg", FIGURES / f"{stem}.svg")
    if folders:
        kept = [runs[name] for name in RECIPES if name in runs and not runs[name].quick]
        RECORD.write_text(runs_to_json(kept), encoding="utf-8")
        shown = {stem for run in kept for stem in run.figures}
        for path in FIGURES.glob("*.svg"):
            if path.stem not in shown:
                path.unlink()
    held = reference_runs()
    PAGE.write_text(gallery_page(held), encoding="utf-8")
    PAPERS.write_text(with_items(PAPERS.read_text(encoding="utf-8"), held), encoding="utf-8")
