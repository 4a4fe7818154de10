"""Write the record of the package and the gallery from kept runs: ``make gallery``.

The folder is the one that ``truerank paper run all --quick --keep FOLDER`` was told.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from truerank.papers.gallery import gallery_page
from truerank.papers.recipe import RECIPES
from truerank.papers.record import RUNS, last_runs, reference_runs, runs_to_json

PROJECT = Path(__file__).resolve().parent.parent
RECORD = PROJECT / "src" / "truerank" / "papers" / "record.json"
PAGE = PROJECT / "docs" / "gallery.md"
FIGURES = PROJECT / "docs" / "gallery"

if __name__ == "__main__":
    if len(sys.argv) > 1:
        folder = Path(sys.argv[1])
        runs = last_runs(folder)
        if not runs:
            sys.exit(f"'{folder}' holds no runs. First: truerank paper run all --quick --keep {folder}")
        RECORD.write_text(runs_to_json(runs[name] for name in RECIPES if name in runs), encoding="utf-8")
        shutil.rmtree(FIGURES, ignore_errors=True)
        FIGURES.mkdir(parents=True)
        for run in runs.values():
            for stem in run.figures:
                shutil.copy(folder / RUNS / f"{stem}.svg", FIGURES / f"{stem}.svg")
    PAGE.write_text(gallery_page(reference_runs()), encoding="utf-8")
