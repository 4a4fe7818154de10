"""Sachdeva et al. (2021), SVP-CF: the figures (tau by fraction, who moves up or down, tau by metric)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from truerank.core.types import FloatArray
from truerank.papers.figure import make_axes, plot_lines
from truerank.papers.outcome import PaperNumber, RecipeOutcome
from truerank.papers.recipe import Settings
from truerank.papers.sachdeva2021 import ALGORITHMS, METRICS, SCENARIOS, SEEDS, STRATEGIES, measure_available
from truerank.workflows.agreement.order import mean_ignoring_nan
from truerank.workflows.agreement.result import Agreement
from truerank.workflows.agreement.result import StrategyAgreement as Found

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: strategies of Figure 3: those without a proxy
PLAIN = {
    (f"{sampler} {group}" if sampler == "Random" else sampler): strategy
    for (group, sampler), strategy in STRATEGIES.items()
    if not sampler.startswith("SVP")
}
RANKED = {column: metric for column, metric in METRICS.items() if column != "MSE"}


def figure1(settings: Settings) -> RecipeOutcome:
    """Plot the mean tau over all strategies against the fraction kept, and report the time saved."""
    agreements, without = measure_available(settings)
    notes: list[str] = []
    percents = _percents(agreements)
    lines = {
        name: _tau_by_fraction(agreement, lambda cell: not cell.metric)
        for name, agreement in agreements.items()
    }
    if len(lines) > 1:
        lines["mean"] = mean_ignoring_nan(np.array(list(lines.values())), axis=0)
    figure, (axes,) = make_axes(1, 1, width=5.2)
    plot_lines(
        axes,
        percents,
        lines,
        title="Mean tau of sixteen strategies",
        labels=("percent of the train events", "Kendall's tau"),
    )
    cells = _cells(lines, percents)
    for name, agreement in agreements.items():
        steps = np.diff(lines[name])
        speed = ", ".join(
            f"{np.mean(_speedups(agreement, fraction)):.2f} at {100 * fraction:g} %"
            for fraction in agreement.fractions
        )
        notes.append(
            f"{name}: tau {'falls at every step' if (steps <= 0).all() else 'does not fall at every step'} "
            f"from {percents[0]:g} to {percents[-1]:g} % (falls steadily in the paper). Times faster than on "
            f"the full data, mean over strategies, drawing and proxies included: {speed} (about 1.8 at 50 % "
            "in the paper)."
        )
    return _outcome(settings, cells, {"s21.figure1": figure}, notes, without)


def figure2(settings: Settings) -> RecipeOutcome:
    """Plot the probability that a model moves up on sub-samples."""
    agreements, without = measure_available(settings)
    notes: list[str] = []
    percents = _percents(agreements)
    figure, panels = make_axes(1, len(SCENARIOS), width=4.4, height=3.6)
    cells: list[PaperNumber] = []
    for scenario, axes in zip(SCENARIOS, panels, strict=True):
        moves = _moves(agreements, scenario)
        table = np.array(list(moves.values()))
        shown = axes.imshow(table, cmap="RdBu", vmin=0, vmax=1, aspect="auto")
        axes.set_xticks(range(len(percents)), [f"{percent:g}" for percent in percents], fontsize=8)
        axes.set_yticks(range(len(moves)), list(moves), fontsize=8)
        axes.set_xlabel("percent of the train events", fontsize=9)
        axes.set_title(scenario, fontsize=10, fontweight="bold", loc="left")
        for (row, column), value in np.ndenumerate(table):
            colour = "white" if abs(value - 0.5) > 0.3 else "black"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
        cells += _cells({f"{scenario} {name}": line for name, line in moves.items()}, percents)
        extreme = sorted(moves, key=lambda name: -moves[name][-1])
        listed = ", ".join(f"{name} {moves[name][-1]:.2f}" for name in extreme)
        notes.append(f"{scenario}, at {percents[-1]:g} %: {listed}.")
    figure.colorbar(shown, ax=panels, label="probability to move up")
    notes.append(
        "Above one half a model stands better on sub-samples than on the full data; in the paper Bias-only "
        "and PopRec do, SASRec, SVAE and MVAE move down."
    )
    return _outcome(settings, cells, {"s21.figure2": figure}, notes, without)


def figure3(settings: Settings) -> RecipeOutcome:
    """Plot tau of the eight strategies without a proxy, metric by metric."""
    agreements, without = measure_available(settings)
    notes: list[str] = []
    percents = _percents(agreements)
    figure, panels = make_axes(1, len(RANKED), width=4.4, height=3.6)
    cells: list[PaperNumber] = []
    means = {}
    for (column, metric), axes in zip(RANKED.items(), panels, strict=True):
        lines = {name: _tau_by_metric(agreements, strategy, metric) for name, strategy in PLAIN.items()}
        plot_lines(
            axes,
            percents,
            lines,
            title=column,
            labels=("percent of the train events", "Kendall's tau"),
            legend=False,
        )
        cells += _cells({f"{column} {name}": line for name, line in lines.items()}, percents)
        means[column] = float(mean_ignoring_nan(np.array(list(lines.values()))))
    figure.legend(
        *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8, frameon=False
    )
    shown = ", ".join(f"{column} {value:.3f}" for column, value in means.items())
    notes.append(
        f"Mean tau, implicit and sequential scenarios: {shown} (in the paper AUC suffers slightly less and "
        "nDCG slightly more)."
    )
    return _outcome(settings, cells, {"s21.figure3": figure}, notes, without)


def _outcome(
    settings: Settings,
    cells: list[PaperNumber],
    figures: dict[str, Figure],
    notes: list[str],
    without: list[str],
) -> RecipeOutcome:
    return RecipeOutcome(
        tuple(cells), figures, tuple(notes), without=tuple(without), repeats=settings.repeated(SEEDS)
    )


def _percents(agreements: Mapping[str, Agreement]) -> FloatArray:
    first = next(iter(agreements.values()))
    return 100 * np.array(first.fractions)


def _tau_by_fraction(agreement: Agreement, chosen: Callable[[Found], bool]) -> FloatArray:
    """Return the mean tau of some cells at each fraction."""
    kept = [cell for cell in agreement.cells if chosen(cell)]
    return np.array(
        [_mean(cell.tau for cell in kept if cell.fraction == fraction) for fraction in agreement.fractions]
    )


def _tau_by_metric(agreements: Mapping[str, Agreement], strategy: str, metric: str) -> FloatArray:
    """Return the mean over data sets and scenarios at each fraction."""
    lines = [
        _tau_by_fraction(agreement, lambda cell: (cell.strategy, cell.metric) == (strategy, metric))
        for agreement in agreements.values()
    ]
    return mean_ignoring_nan(np.array(lines), axis=0)


def _moves(agreements: Mapping[str, Agreement], scenario: str) -> dict[str, FloatArray]:
    """Return P_MLE of each algorithm of a scenario at each fraction, the mean over data sets."""
    moves: dict[str, FloatArray] = {}
    for name, ours in ALGORITHMS.items():
        lines = [
            [
                _mean(
                    move.probability
                    for move in agreement.moves
                    if (move.scenario, move.model, move.fraction) == (scenario, ours, fraction)
                )
                for fraction in agreement.fractions
            ]
            for agreement in agreements.values()
        ]
        line = mean_ignoring_nan(np.array(lines), axis=0)
        if not np.isnan(line).all():
            moves[name] = line
    return moves


def _speedups(agreement: Agreement, fraction: float) -> list[float]:
    return [
        cell.speedup
        for cell in agreement.cells
        if not cell.metric and cell.fraction == fraction and cell.speedup is not None
    ]


def _cells(lines: Mapping[str, FloatArray], percents: FloatArray) -> list[PaperNumber]:
    return [
        PaperNumber(name, f"{percent:g} %", None, float(value), digits=3)
        for name, line in lines.items()
        for percent, value in zip(percents, line, strict=True)
        if not np.isnan(value)
    ]


def _mean(values: Iterable[float | None]) -> float:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else float("nan")
