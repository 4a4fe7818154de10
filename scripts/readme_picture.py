"""Plot the pictures of the README from the demo data: ``make picture``."""

from __future__ import annotations

from pathlib import Path

import truerank
from truerank.core.result import Result
from truerank.report.charts.result import result_charts
from truerank.report.matplotlib.figure import plot
from truerank.report.matplotlib.panels import plot_leaderboard

PROJECT = Path(__file__).resolve().parent.parent
PICTURES = PROJECT / "docs" / "pictures"

if __name__ == "__main__":
    demo = Result.from_json((PROJECT / "demo" / "result.json").read_text())
    plot_leaderboard(demo, columns=4, width=9.0).savefig(PICTURES / "demo.svg", facecolor="white")
    split = truerank.make_split(truerank.load("demo"), "leave-last-out")
    result = truerank.evaluate(["popularity", "item-knn", "ials"], split, "recall@10")
    flip = next(chart for chart in result_charts(result) if chart.key == "order-flip")
    plot(flip, width=7.0, title=False).savefig(PICTURES / "order_flip.svg", facecolor="white")
