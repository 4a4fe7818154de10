"""Draw the picture at the top of the README from ``make demo``'s result: ``make picture``."""

from __future__ import annotations

from pathlib import Path

from truerank.core.drawing import draw_leaderboard
from truerank.core.result import Result

PROJECT = Path(__file__).resolve().parent.parent

if __name__ == "__main__":
    result = Result.from_json((PROJECT / "demo" / "result.json").read_text())
    drawn = draw_leaderboard(result, columns=4, width=9.0)
    drawn.savefig(PROJECT / "docs" / "pictures" / "demo.svg", facecolor="white")
