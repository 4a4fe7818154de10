"""Draw docs/pictures/posterior.svg: what a sample says about ranks, what the prior adds, and the intervals.

python -m benchmarks.posterior_picture

One model (item-knn) on ml-1m, seen items removed: its exact ranks, one sample of 99 negatives per user drawn
from them, and the posterior interval of that sample beside ``delta`` and ``bounds``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from truerank.core.chart import LIGHT
from truerank.core.random import stream
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.types import FloatArray
from truerank.data.catalogue import load
from truerank.estimation.distribution.smooth import Smooth
from truerank.estimation.tally import tally
from truerank.inference.estimate_interval.registry import UNCERTAINTIES, PointEstimates
from truerank.inference.posterior.curves import draw_curves
from truerank.inference.posterior.interval import DRAWS, resolved_rank, weighted_quantiles
from truerank.inference.posterior.prior import learnt_prior, make_curves
from truerank.inference.posterior.values import SampleGains
from truerank.metrics.registry import make_metrics
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks
from truerank.ranking.simulate import simulate_sample
from truerank.split.base import make_split

PATH = Path(__file__).parent.parent / "docs" / "pictures" / "posterior.svg"
METRICS = ("recall@1", "recall@10", "ndcg@10")
KINDS = ("delta", "posterior", "bounds")
N_NEGATIVES = 99
_INK, _GREY = "#333a42", "#d5d9de"
_PRIOR, _FIT, _OTHER = LIGHT[0], LIGHT[1], LIGHT[6]
_COLOURS = {"delta": _FIT, "posterior": _PRIOR, "bounds": _OTHER}
_SINGLE = 10  # first ranks that have a dot each
_RATIO = 1.25  # of the ranks that share a dot beyond them


def ranks_of(model: str, data_set: str) -> Ranks:
    """Return exact ranks of the last item of every user."""
    split = make_split(load(data_set), "leave-last-out")
    return exact_ranks(MODELS.make(model).fit(split.train, seed=0), split, seen="remove")


def draw(ranks: Ranks) -> Figure:
    """Return the rank distribution with its posterior above, intervals of metrics below."""
    sample = simulate_sample(ranks, N_NEGATIVES)
    drawn = Figure(figsize=(6.4, 7.4), layout="constrained")
    top, below = drawn.subplots(2, 1, height_ratios=(3, 2))
    _curves(top, ranks, sample)
    _intervals(below, ranks, sample)
    for axes in (top, below):
        axes.tick_params(which="both", labelsize=8.5, length=0, colors=_INK)
        axes.set_axisbelow(True)
        for side, spine in axes.spines.items():
            spine.set_visible(side == "bottom")
            spine.set_color(_GREY)
    return drawn


def _curves(axes: Axes, ranks: Ranks, sample: SampledRanks) -> None:
    counted = tally(sample)
    gains = SampleGains.of(counted, ())
    grid = gains.likelihood.grid
    prior = learnt_prior()
    draws = draw_curves(
        gains.evidence, make_curves(prior, grid), prior, "removed", 4 * DRAWS, stream(0, "posterior")
    )
    widths, middle = np.diff(grid.edges), (grid.edges[:-1] + 1 + grid.edges[1:]) / 2
    levels = (0.01, 0.25, 0.75, 0.99)
    limits = np.array([weighted_quantiles(row, draws.weights, levels) for row in draws.masses])
    limits /= widths[:, None]
    axes.fill_between(middle, limits[:, 0], limits[:, 3], color=_PRIOR, alpha=0.16, linewidth=0)
    axes.fill_between(middle, limits[:, 1], limits[:, 2], color=_PRIOR, alpha=0.34, linewidth=0)
    fitted = Smooth().distribution(counted).weights
    axes.plot(np.arange(1, len(fitted) + 1), fitted, color=_FIT, linewidth=1.6)
    where, share = exact_shares(ranks)
    axes.plot(where, share, "o", color=_INK, markersize=3.4, linewidth=0)
    axes.set(xscale="log", yscale="log", xlim=(0.9, grid.n_ranks), ylim=(2e-6, 0.5))
    axes.set_ylabel("share of users whose target has this rank", fontsize=9, color=_INK)
    axes.set_xlabel("rank of the target among all items", fontsize=9, color=_INK)
    axes.set_xticks([1, 10, 100, 1000], ["1", "10", "100", "1,000"])
    axes.set_yticks([1e-5, 1e-4, 1e-3, 1e-2, 1e-1], ["0.001 %", "0.01 %", "0.1 %", "1 %", "10 %"])
    axes.minorticks_off()
    axes.grid(axis="y", color=_GREY, linewidth=0.6)
    edge = resolved_rank(counted)
    axes.axvline(edge, ymin=0.4, color=_INK, linewidth=0.9, linestyle=(0, (4, 3)))
    sides = (
        ("right", edge / 1.12, f"below rank {edge}\nthe prior decides"),
        ("left", edge * 1.12, "from here on\nthe sample decides"),
    )
    for side, rank, label in sides:
        axes.text(rank, 0.42, label, ha=side, color=_INK, fontsize=9, va="top", linespacing=1.25)
    labels = (
        (1.1e-4, _INK, "dots: exact ranks, which the sample does not show"),
        (4e-5, _FIT, f"line: smooth, fitted to {N_NEGATIVES} negatives per user"),
        (1.5e-5, _PRIOR, "bands: 50 % and 98 % of the curves that\nagree with both the prior and the sample"),
    )
    for height, colour, label in labels:
        axes.text(1.1, height, label, color=colour, fontsize=9, va="top", linespacing=1.25)


def exact_shares(ranks: Ranks) -> tuple[FloatArray, FloatArray]:
    """Return ranks and the share of users at each: single first ranks, then means over ranges."""
    rank = ranks.n_above + ranks.n_tied / 2 + 1
    last = int(ranks.n_pool.max())
    n_steps = int(np.log(last / _SINGLE) / np.log(_RATIO))
    wide = np.rint(_SINGLE * np.exp(np.linspace(0, np.log(last / _SINGLE), n_steps + 1)))
    edges = np.concatenate([np.arange(_SINGLE), wide]) + 0.5
    counts = np.histogram(rank, edges)[0]
    where = np.sqrt((edges[:-1] + 0.5) * (edges[1:] - 0.5))
    has_any = counts > 0
    share = counts / np.diff(edges) / len(rank)
    return where[has_any], share[has_any]


def _intervals(axes: Axes, ranks: Ranks, sample: SampledRanks) -> None:
    counted, metrics = tally(sample), make_metrics(METRICS)
    exact = np.array([metric.per_user(ranks).mean() for metric in metrics])
    estimates = PointEstimates(sample, counted, Smooth(), metrics, Smooth().estimate(counted, metrics).value)
    bands = [UNCERTAINTIES.make(kind).band(estimates) for kind in KINDS]
    height = len(KINDS) + 1.4
    for at, name in enumerate(METRICS):
        base = -height * at
        axes.plot([exact[at]] * 2, [base + 0.5, base - len(KINDS) + 0.3], color=_INK, linewidth=1.1)
        words = f"{name}: exact {exact[at]:.3f}"
        axes.text(exact[at], base + 0.62, words, fontsize=9, color=_INK, ha="left", va="bottom")
        for row, (kind, band) in enumerate(zip(KINDS, bands, strict=True)):
            low, high, colour = band.low[at], band.high[at], _COLOURS[kind]
            axes.plot(
                [low, high], [base - row] * 2, color=colour, linewidth=5, solid_capstyle="butt", alpha=0.75
            )
            axes.text(high + 0.003, base - row, kind, color=colour, fontsize=8.5, va="center")
    axes.set_yticks([])
    axes.set_xlim(-0.004, max(band.high.max() for band in bands) + 0.03)
    axes.set_ylim(-height * (len(METRICS) - 1) - len(KINDS), 1.9)
    axes.set_xlabel("value, with 95 % intervals from the same sample", fontsize=9, color=_INK)
    axes.grid(axis="x", color=_GREY, linewidth=0.6)


def main() -> None:
    """Rank, sample and draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--model", default="item-knn")
    parser.add_argument("--data", default="ml-1m", help="a data set of the catalogue")
    parser.add_argument("--out", type=Path, default=PATH)
    options = parser.parse_args()
    mpl.rcParams["svg.hashsalt"] = "truerank"
    mpl.rcParams["svg.fonttype"] = "path"
    drawn = draw(ranks_of(options.model, options.data))
    metadata = {"Date": None} if options.out.suffix == ".svg" else None
    drawn.savefig(options.out, metadata=metadata, facecolor="white", dpi=150)


if __name__ == "__main__":
    main()
