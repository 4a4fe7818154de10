"""Draw the picture at the top of the README from ``make demo``'s result: ``make picture``."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

from truerank.core.result import Result
from truerank.report import figure

PROJECT = Path(__file__).resolve().parent.parent

if __name__ == "__main__":
    mpl.rcParams["svg.hashsalt"] = "truerank"
    mpl.rcParams["svg.fonttype"] = "path"
    result = Result.from_json((PROJECT / "demo" / "result.json").read_text())
    drawn = figure(result, columns=4)
    drawn.savefig(PROJECT / "docs" / "pictures" / "demo.svg", metadata={"Date": None}, facecolor="white")
