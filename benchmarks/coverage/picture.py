"""Draw docs/pictures/coverage.svg from a result of ``benchmarks.coverage``.

python -m benchmarks.coverage.picture benchmarks/results/CPU/coverage.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.coverage.result import unpacked
from truerank.core.chart import LIGHT, model_mark

PATH = Path(__file__).parent.parent.parent / "docs" / "pictures" / "coverage.svg"
#: estimator and kind of interval, and its name in the picture
NAMES = {
    ("naive", "delta"): "naive",
    ("bv(gamma=0.1)", "delta"): "bv",
    ("mle", "delta"): "mle",
    ("smooth", "delta"): "smooth",
    ("bv(gamma=0.1)", "bias-aware"): "bias-aware",
    ("any", "bounds"): "bounds",
}
CUTOFFS = (1, 10, 50)
_INK, _GREY = "#333a42", "#d5d9de"


def draw(rows: list[dict[str, Any]], level: float) -> Figure:
    """Return coverage above, mean width below, one column per design; a dot is one metric of one model."""
    designs = list(dict.fromkeys(row["design"] for row in rows))
    drawn = Figure(figsize=(11, 5.2), layout="constrained")
    grid = drawn.subplots(2, len(designs), sharey="row", squeeze=False)
    for column, design in enumerate(designs):
        own = [row for row in rows if row["design"] == design and "coverage" in row]
        top, below = grid[:, column]
        for axes, key in ((top, "coverage"), (below, "width")):
            _dots(axes, own, key)
        top.set_title(design, fontsize=9, loc="left")
        top.axhline(level, color=_INK, linewidth=0.8, linestyle="--")
        top.set_ylim(-0.03, 1.03)
        below.set_yscale("log")
        top.tick_params(labelbottom=False)
    grid[0, 0].set_ylabel(f"holds the exact value\n(nominal {level:.0%})", fontsize=9)
    grid[1, 0].set_ylabel("mean width", fontsize=9)
    handles = [
        grid[0, 0].plot(
            [], [], model_mark(i).code, color=LIGHT[model_mark(i).colour], markersize=5, label=f"K = {k}"
        )[0]
        for i, k in enumerate(CUTOFFS)
    ]
    drawn.legend(handles=handles, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    return drawn


def _dots(axes: Axes, rows: list[dict[str, Any]], key: str) -> None:
    shift = np.random.default_rng(0)
    for place, case in enumerate(NAMES):
        for number, cutoff in enumerate(CUTOFFS):
            own = [
                row[key]
                for row in rows
                if (row["estimator"], row["uncertainty"]) == case and row["metric"].endswith(f"@{cutoff}")
            ]
            x = place + (number - 1) * 0.25 + shift.uniform(-0.08, 0.08, len(own))
            look = model_mark(number)
            (dots,) = axes.plot(
                x, own, look.code, color=LIGHT[look.colour], markersize=2.6, alpha=0.65, linewidth=0
            )
            dots.set_rasterized(True)  # thousands of them
    axes.set_xticks(range(len(NAMES)), list(NAMES.values()), rotation=40, ha="right", fontsize=8)
    axes.set_xlim(-0.6, len(NAMES) - 0.4)
    axes.tick_params(which="both", labelsize=8, length=0, colors=_INK)
    axes.grid(axis="y", color=_GREY, linewidth=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side == "bottom")
        spine.set_color(_GREY)


def main() -> None:
    """Read and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("result", type=Path)
    parser.add_argument("--out", type=Path, default=PATH)
    options = parser.parse_args()
    found = json.loads(options.result.read_text())
    mpl.rcParams["svg.hashsalt"] = "truerank"
    mpl.rcParams["svg.fonttype"] = "path"
    drawn = draw(unpacked(found["rows"]), found["level"])
    metadata = {"Date": None} if options.out.suffix == ".svg" else None
    drawn.savefig(options.out, metadata=metadata, facecolor="white", dpi=150)


if __name__ == "__main__":
    main()
