"""Li et al. (2020), On Sampling Top-K Recommendation Evaluation: the figures."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from truerank.core.ranks import Ranks
from truerank.core.types import FloatArray
from truerank.estimation.law import Hypergeometric
from truerank.estimation.mapping.functions import MAPPINGS, BetaMapping, LinearMapping
from truerank.papers.figure import make_axes, plot_lines
from truerank.papers.li2020 import (
    BOOKS,
    FITS,
    FUNCTIONS,
    REPEATS,
    SETUPS,
    HitRatioCurves,
    book_ranks,
    hit_ratio_curves,
    repeated_samples,
    why_missing,
)
from truerank.papers.mapping_errors import hit_curve, sampled_at_global, sampled_hit_ratios
from truerank.papers.outcome import PaperNumber, RecipeOutcome
from truerank.papers.recipe import Settings, printed

if TYPE_CHECKING:
    from matplotlib.figure import Figure


N, N_ITEMS = 100, 3706
#: standard error of a number that is read off a drawing
READING = 0.01
READ_OFF = f"SHR@1 (read off the drawing, +-{READING})"
_SHOWN = ("Linear", "Bound", "Beta@1", "Beta@0.5")
_K = ("K", "hit ratio")
_k = ("k", "hit ratio")


def figure1(settings: Settings) -> RecipeOutcome:
    """Plot global and sampled curves of all models on ml-1m, with two zooms each."""
    without: list[str] = []
    curves_by_model = _curves(settings, ("itemKNN", "ALS", "EASE", "NeuMF", "MultiVAE", "NGCF"), without)
    figure, panels = make_axes(2, 3, width=3.8)
    for axes, (low, high) in zip(panels[:3], ((1, N_ITEMS), (1, 350), (60, 120)), strict=True):
        cutoffs = np.arange(low, high + 1)
        lines = {name: hit_curve(curves.ranks).at(cutoffs) for name, curves in curves_by_model.items()}
        title = f"HR@K, K = {low} to {high}"
        plot_lines(axes, cutoffs, lines, title=title, labels=_K, legend=axes is panels[0])
    for axes, (low, high) in zip(panels[3:], ((1, N), (1, 10), (2, 5)), strict=True):
        lines = {name: curves.mean[low - 1 : high] for name, curves in curves_by_model.items()}
        title = f"SHR@k, k = {low} to {high}"
        plot_lines(axes, np.arange(low, high + 1), lines, title=title, labels=_k, legend=False)
    cutoffs = np.arange(1, N + 1)
    cutoffs_of_k = BetaMapping(0.5).rounded_locations(cutoffs, N, N_ITEMS)
    exact = np.array([hit_curve(curves.ranks).at(cutoffs_of_k) for curves in curves_by_model.values()])
    sampled = np.array([curves.mean for curves in curves_by_model.values()])
    same = int((exact.argmax(axis=0) == sampled.argmax(axis=0)).sum())
    pairs = [(i, j) for i in range(len(curves_by_model)) for j in range(i)]
    kept = np.mean([np.sign(exact[i] - exact[j]) == np.sign(sampled[i] - sampled[j]) for i, j in pairs])
    cells = (
        PaperNumber("SHR@k = HR@f(k), beta(a=0.5)", "k with the same winner, of 100", None, same, digits=0),
        PaperNumber("SHR@k = HR@f(k), beta(a=0.5)", "pairs in the same order, %", None, 100 * kept, digits=1),
    )
    return RecipeOutcome(
        cells, {"l20.figure1": figure}, without=tuple(without), repeats=settings.repeated(REPEATS)
    )


def figure2(settings: Settings) -> RecipeOutcome:
    """Plot P(r <= 20 | R), the weight of each rank in SHR@20, against the step function at f(20)."""
    notes: list[str] = []
    name, curves = _one(settings, notes)
    rank = np.arange(1, N_ITEMS + 1)
    probability = Hypergeometric(N_ITEMS - 1, N - 1).cdf(rank - 1)[:, 19]
    step = float(LinearMapping().locations(20, N, N_ITEMS))
    curve = hit_curve(curves.ranks).at(np.arange(N_ITEMS + 1))
    mass = np.diff(curve)
    width = 25
    smooth = np.convolve(mass, np.full(width, 1 / width), mode="same")
    lines = {
        "P(r ≤ 20 | R)": probability,
        "1[R ≤ f(20)]": (rank <= step).astype(float),
        "HR@K": curve[1:],
        "SHR@k at f(k)": sampled_at_global(curves.mean, LinearMapping(), N_ITEMS, rank),
        "5 W (mean of 25 ranks)": 5 * smooth,
    }
    figure, (axes,) = make_axes(1, 1, width=6.0, height=4.0)
    plot_lines(axes, rank, lines, title=f"{name}, ml-1m, n = 100, k = 20", labels=("rank", ""))
    cells = (
        PaperNumber("step", "f(20) by Eq. 9", None, step, digits=0),
        PaperNumber(
            name, "E[SHR@20] - HR@f(20)", None, float(mass @ probability - curve[int(step)]), digits=4
        ),
    )
    return RecipeOutcome(cells, {"l20.figure2": figure}, tuple(notes))


def figure3(settings: Settings) -> RecipeOutcome:
    """Plot the density of the ranks of a model and Beta densities on one scale."""
    notes = ["the paper draws counts of users over densities; here both are densities of the relative rank"]
    name, curves = _one(settings, notes)
    edges = np.linspace(0, 1, 101)
    density = np.diff(hit_curve(curves.ranks).at(edges * N_ITEMS)) * 100
    middle = (edges[1:] + edges[:-1]) / 2
    lines = {name: density}
    for a in (0.5, 0.6):
        lines[f"Beta({a}, 1)"] = np.diff(edges**a) * 100
    figure, panels = make_axes(1, 2)
    for axes, last in zip(panels, (100, 15), strict=True):
        shown = {label: line[:last] for label, line in lines.items()}
        title = "density of the relative rank" if last == 100 else "the first 15 %"
        plot_lines(axes, middle[:last], shown, title=title, labels=("rank / N", "density"), log=False)
    panels[0].set_yscale("log")
    x = 1 / (N_ITEMS - 1)
    cells = tuple(
        PaperNumber(f"Beta({a}, 1)", "density at x = 1/3705", None, a * x ** (a - 1), digits=1)
        for a in (0.5, 0.6)
    )
    return RecipeOutcome(cells, {"l20.figure3": figure}, tuple(notes))


def figure4(settings: Settings) -> RecipeOutcome:
    """Plot the locations of ``beta`` relative to those of a = 1."""
    k = np.arange(1, N + 1)
    line = BetaMapping(1.0).locations(k, N, N_ITEMS)
    lines = {f"a = {a}": BetaMapping(a).locations(k, N, N_ITEMS) / line - 1 for a in (0.2, 0.4, 0.6, 0.8)}
    figure, (axes,) = make_axes(1, 1, width=5.0, height=3.4)
    plot_lines(axes, k, lines, title="f(k; a)/f(k; 1) - 1, N = 3706, n = 100", labels=("k", ""))
    cells = tuple(
        PaperNumber(name, "k = 1", None, float(values[0]), digits=3) for name, values in lines.items()
    )
    return RecipeOutcome(cells, {"l20.figure4": figure})


def figure5(settings: Settings) -> RecipeOutcome:
    """Plot the locations of ``beta`` around a = 0.3."""
    k = np.arange(1, N + 1)
    base = BetaMapping(0.3).locations(k, N, N_ITEMS)
    exponents = (0.24, 0.26, 0.28, 0.32, 0.34)
    lines = {f"a = {a}": BetaMapping(a).locations(k, N, N_ITEMS) - base for a in exponents}
    figure, (axes,) = make_axes(1, 1, width=5.0, height=3.4)
    plot_lines(axes, k, lines, title="f(k; a) - f(k; 0.3), N = 3706, n = 100", labels=("k", "ranks"))
    largest = {name: float(values[np.abs(values).argmax()]) for name, values in lines.items()}
    cells = tuple(
        PaperNumber(name, "largest difference", None, value, digits=3) for name, value in largest.items()
    )
    far = ", ".join(f"{value:+.3f} at {name}" for name, value in largest.items() if abs(value) >= 1)
    note = f"the paper says that all differences are below 1; {far or 'so they are'}"
    return RecipeOutcome(cells, {"l20.figure5": figure}, (note,))


def figure6(settings: Settings) -> RecipeOutcome:
    """Plot two recommenders with Beta ranks: SHR@k of the better one maps to a smaller K."""
    last, k = 80, 1
    cutoffs = np.arange(1, last + 1)
    figure, (axes,) = make_axes(1, 1, width=5.6, height=3.8)
    better, worse = 0.3, 1.0
    lines = {f"HR, a = {a}": ((cutoffs - 1) / (N_ITEMS - 1)) ** a for a in (better, worse)}
    plot_lines(axes, cutoffs, lines, title=f"where SHR@{k} is read, n = 100", labels=_K, legend=False)
    at = {a: float(BetaMapping(a).locations(k, N, N_ITEMS)) for a in (better, worse)}
    for a, colour in ((better, "#0b57b0"), (worse, "#c4500c")):
        value = ((at[a] - 1) / (N_ITEMS - 1)) ** a
        axes.plot([at[a]], [value], "o", color=colour)
        axes.plot([at[a], at[a], 0], [0, value, value], color=colour, linewidth=0.7)
        text = f"f({k}; {a}) = {at[a]:.1f}, SHR@{k} = {value:.3f}"
        axes.annotate(text, (at[a], value), (8, -14), textcoords="offset points", fontsize=8)
    axes.set_xlim(0, last)
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    note = f"f({k}; {better}) = {at[better]:.2f} < f({k}; {worse}) = {at[worse]:.2f}: f rises with a"
    return RecipeOutcome(
        (), {"l20.figure6": figure}, (note, "the sentence of remedy 3 has the sign reversed")
    )


def figure7(settings: Settings) -> RecipeOutcome:
    """Plot both alignments of the curves: MultiVAE as in the paper, EASE as in the authors' README."""
    without: list[str] = []
    curves_by_model = _curves(settings, ("MultiVAE", "EASE"), without)
    figures = {
        "l20.figure7" if number == 0 else f"l20.figure7-{name.lower()}": _views(name, curves)
        for number, (name, curves) in enumerate(curves_by_model.items())
    }
    cells = [
        PaperNumber(name, f"mean |HR@f(k) - SHR@k|, {shown}", None, _gap(curves, FUNCTIONS[shown]), digits=4)
        for name, curves in curves_by_model.items()
        for shown in _SHOWN
    ]
    return RecipeOutcome(tuple(cells), figures, without=tuple(without), repeats=settings.repeated(REPEATS))


def _gap(curves: HitRatioCurves, mapping: str) -> float:
    return float(np.abs(curves.at(mapping) - curves.mean).mean())


def _views(name: str, curves: HitRatioCurves) -> Figure:
    """Plot the sampled curve on the global scale, and the global curve on the sampled one."""
    figure, panels = make_axes(2, 2)
    for axes, last in zip(panels[:2], (N_ITEMS, 400), strict=True):
        cutoffs = np.arange(1, last + 1)
        lines: dict[str, FloatArray] = {"population": hit_curve(curves.ranks).at(cutoffs)}
        for shown in _SHOWN:
            mapping = MAPPINGS.make(FUNCTIONS[shown])
            line = sampled_at_global(curves.mean, mapping, N_ITEMS, cutoffs)
            lines[shown] = np.where(cutoffs >= mapping.locations(1, N, N_ITEMS), line, np.nan)
        plot_lines(axes, cutoffs, lines, title=f"{name}: SHR at f(k)", labels=_K, legend=axes is panels[0])
    for axes, last in zip(panels[2:], (N, 10), strict=True):
        lines = {"sample": curves.mean[:last]}
        lines |= {shown: curves.at(FUNCTIONS[shown])[:last] for shown in _SHOWN}
        title = f"{name}: HR@f(k)"
        plot_lines(axes, np.arange(1, last + 1), lines, title=title, labels=_k, legend=axes is panels[2])
    return figure


def figure8(settings: Settings) -> RecipeOutcome:
    """Plot samples of 50 to 1000 items on the 139,331 items of book-X."""
    rows = {row["n"]: row for row in printed("l20", "figure8")}
    notes: list[str] = []
    without: list[str] = []
    ranks_by_model: dict[str, Ranks] = {}
    for name in BOOKS.models:
        why = why_missing(BOOKS, name, settings)
        if why:
            without.append(f"{name}: {why}")
            continue
        ranks_by_model[name] = book_ranks(settings, name)
        notes.append(f"{name}: ranks of {ranks_by_model[name].n_users} users")
    figure, panels = make_axes(1, len(ranks_by_model), width=5.0, height=3.6)
    cells: list[PaperNumber] = []
    for axes, (name, ranks) in zip(panels, ranks_by_model.items(), strict=True):
        n_items = int(ranks.n_pool.max())
        cutoffs = np.unique(np.geomspace(100, n_items, 400).astype(np.int64))
        lines: dict[str, FloatArray] = {"population": hit_curve(ranks).at(cutoffs)}
        for n, row in rows.items():
            sampled = np.array(
                [
                    sampled_hit_ratios(s)
                    for s in repeated_samples(settings, ranks, "binom", n, f"book-X {name}")
                ]
            )
            mean = sampled.mean(axis=0)
            users = float(np.sqrt(mean[0] * (1 - mean[0]) / ranks.n_users))
            error = float(
                np.hypot(np.hypot(users, sampled[:, 0].std(ddof=1) / np.sqrt(len(sampled))), READING)
            )
            first = float(BetaMapping(1.0).locations(1, n, n_items))
            line = sampled_at_global(mean, BetaMapping(1.0), n_items, cutoffs)
            lines[f"n = {n}"] = np.where(cutoffs >= first, line, np.nan)
            shown = row["HR"] if name == "NeuMF" else None
            where = f"{name} n={n}"
            cells.append(PaperNumber(where, "f(1), beta(a=1)", None, first, digits=0))
            cells.append(PaperNumber(where, READ_OFF, shown, float(mean[0]), error))
            gap = np.abs(
                hit_curve(ranks).at(BetaMapping(0.5).rounded_locations(np.arange(1, n + 1), n, n_items))
                - mean
            )
            cells.append(
                PaperNumber(where, "mean |HR@f(k) - SHR@k|, beta(a=0.5)", None, float(gap.mean()), digits=4)
            )
        title = f"{name}, book-X, {n_items:,} items"
        plot_lines(axes, cutoffs, lines, title=title, labels=_K, log=True)
    return RecipeOutcome(
        tuple(cells),
        {"l20.figure8": figure},
        tuple(notes),
        FITS,
        tuple(without),
        settings.repeated(REPEATS),
    )


def _curves(settings: Settings, names: tuple[str, ...], without: list[str]) -> dict[str, HitRatioCurves]:
    """Return curves on ml-1m of the models that can be run: seen items kept, sampled with replacement."""
    curves_by_model = {}
    for name in names:
        why = why_missing(SETUPS["ml-1m"], name, settings)
        if why:
            without.append(f"{name}: {why}")
        else:
            curves_by_model[name] = hit_ratio_curves(settings, "ml-1m", name, "binom", N)
    return curves_by_model


def _one(settings: Settings, notes: list[str]) -> tuple[str, HitRatioCurves]:
    """Return the curves of MultiVAE, or of EASE where MultiVAE cannot be run."""
    why = why_missing(SETUPS["ml-1m"], "MultiVAE", settings)
    name = "EASE" if why else "MultiVAE"
    if why:
        notes.append(f"MultiVAE: {why}; drawn for EASE")
    return name, hit_ratio_curves(settings, "ml-1m", name, "binom", N)
