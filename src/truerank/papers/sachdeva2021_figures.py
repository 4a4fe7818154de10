"""Sachdeva et al. (2021), SVP-CF: the figures (tau by fraction, who moves up or down, tau by metric)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from truerank.core.types import FloatArray
from truerank.papers.figure import make_axes, plot_lines
from truerank.papers.outcome import PaperNumber, RecipeOutcome
from truerank.papers.recipe import Settings
from truerank.papers.sachdeva2021 import METRICS, measure_available, noise_floor
from truerank.papers.sachdeva2021_protocol import ALGORITHMS, SCENARIOS, SEEDS, STRATEGIES
from truerank.workflows.agreement.order import mean_ignoring_nan
from truerank.workflows.agreement.result import Agreement
from truerank.workflows.agreement.result import StrategyAgreement as Found

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage


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
        cells += _claims(name, agreement, lines[name])
        steps = np.diff(lines[name][~np.isnan(lines[name])])
        notes.append(
            f"{name}: tau {'falls at every step' if (steps <= 0).all() else 'does not fall at every step'} "
            f"from {percents[0]:g} to {percents[-1]:g} % (falls steadily in the paper)."
        )
    notes.append(
        "Enough data is the smallest fraction from which on the mean tau reaches that of the full data with "
        "themselves under other seeds, 1 where none does; the text says 50 to 60 %. Times faster are those "
        "of SVP-CF, its proxy not counted, half-way between 60 and 40 %."
    )
    return _outcome(settings, cells, {"s21.figure1": figure}, notes, without)


#: the text on Figure 1 and the abstract: the fraction that is enough, and the speed-up at half the data
ENOUGH, SPEEDUP = 0.6, 1.8


def _claims(name: str, agreement: Agreement, line: FloatArray) -> list[PaperNumber]:
    """Return what the text says of Figure 1 as cells."""
    cells = []
    floor = noise_floor(agreement)
    if floor is not None:
        enough = 1.0
        for fraction, tau in zip(agreement.fractions, line, strict=True):  # the largest fraction first
            if not tau >= floor:
                break
            enough = fraction
        cells.append(PaperNumber("enough data", name, ENOUGH, enough, digits=1))
    around = [
        float(np.mean(found))
        for fraction in (0.6, 0.4)
        if (found := _speedups(agreement, fraction, "svp-cf")) and fraction in agreement.fractions
    ]
    if len(around) == 2:
        cells.append(PaperNumber("times faster at 50 %", name, SPEEDUP, float(np.mean(around)), digits=1))
    return cells


def figure2(settings: Settings) -> RecipeOutcome:
    """Plot the probability that a model moves up on sub-samples."""
    agreements, without = measure_available(settings)
    notes: list[str] = []
    percents = _percents(agreements)
    figure, panels = make_axes(1, len(SCENARIOS), width=4.4, height=3.6)
    cells: list[PaperNumber] = []
    for scenario, axes in zip(SCENARIOS, panels, strict=True):
        moves = _moves(agreements, scenario)
        shown = _heat(axes, moves, percents, title=scenario, cmap="RdBu", limits=(0.0, 1.0))
        cells += _cells({f"{scenario} {name}": line for name, line in moves.items()}, percents)
        known = ~np.isnan(np.array(list(moves.values()))).all(axis=0)
        last = int(np.flatnonzero(known)[-1])
        extreme = sorted(moves, key=lambda name: -moves[name][last])
        listed = ", ".join(f"{name} {moves[name][last]:.2f}" for name in extreme)
        notes.append(f"{scenario}, at {percents[last]:g} %: {listed}.")
    figure.colorbar(shown, ax=panels, label="probability to move up")
    notes.append(
        "Above one half a model stands better on sub-samples than on the full data; in the paper Bias-only "
        "and PopRec do, SASRec, SVAE and MVAE move down."
    )
    return _outcome(settings, cells, {"s21.figure2": figure}, notes, without)


def figure3(settings: Settings) -> RecipeOutcome:
    """Draw tau of the eight strategies without a proxy as heat maps, metric by metric."""
    agreements, without = measure_available(settings)
    percents = _percents(agreements)
    figure, panels = make_axes(1, len(RANKED), width=4.4, height=3.6)
    cells: list[PaperNumber] = []
    means = {}
    for number, ((column, metric), axes) in enumerate(zip(RANKED.items(), panels, strict=True)):
        lines = {name: _tau_by_metric(agreements, strategy, metric) for name, strategy in PLAIN.items()}
        shown = _heat(axes, lines, percents, title=column, cmap="RdBu", limits=(-1.0, 1.0))
        if number:
            axes.set_yticklabels([])
        cells += _cells({f"{column} {name}": line for name, line in lines.items()}, percents)
        means[column] = float(mean_ignoring_nan(np.array(list(lines.values()))))
    figure.colorbar(shown, ax=panels, label="Kendall's tau")
    listed = ", ".join(f"{column} {value:.3f}" for column, value in means.items())
    note = (
        f"Mean tau, implicit and sequential scenarios: {listed} (in the paper AUC suffers slightly less and "
        "nDCG slightly more)."
    )
    return _outcome(settings, cells, {"s21.figure3": figure}, [note], without)


def _heat(
    axes: Axes,
    lines: Mapping[str, FloatArray],
    percents: FloatArray,
    *,
    title: str,
    cmap: str,
    limits: tuple[float, float],
) -> AxesImage:
    """Draw one row per name and one column per fraction, the numbers in them; missing ones stay white."""
    table = np.array(list(lines.values()))
    middle, half = sum(limits) / 2, (limits[1] - limits[0]) / 2
    shown = axes.imshow(table, cmap=cmap, vmin=limits[0], vmax=limits[1], aspect="auto")
    axes.set_xticks(range(len(percents)), [f"{percent:g}" for percent in percents], fontsize=8)
    axes.set_yticks(range(len(lines)), list(lines), fontsize=8)
    axes.set_xlabel("percent of the train events", fontsize=9)
    axes.set_title(title, fontsize=10, fontweight="bold", loc="left")
    for (row, column), value in np.ndenumerate(table):
        if not np.isnan(value):
            colour = "white" if abs(value - middle) > 0.6 * half else "black"
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=7, color=colour)
    return shown


def _outcome(
    settings: Settings,
    cells: list[PaperNumber],
    figures: dict[str, Figure],
    notes: list[str],
    without: list[str],
) -> RecipeOutcome:
    return RecipeOutcome(
        tuple(cells), figures, tuple(notes), without=tuple(without), repeats=settings.repeated(SEEDS, quick=1)
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
                    if (move.scenario.partition("(")[0], move.model, move.fraction)
                    == (scenario, ours, fraction)
                )
                for fraction in agreement.fractions
            ]
            for agreement in agreements.values()
        ]
        line = mean_ignoring_nan(np.array(lines), axis=0)
        if not np.isnan(line).all():
            moves[name] = line
    return moves


def _speedups(agreement: Agreement, fraction: float, named: str) -> list[float]:
    return [
        cell.speedup
        for cell in agreement.cells
        if not cell.metric
        and cell.fraction == fraction
        and cell.speedup is not None
        and named in cell.strategy
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
