"""An experiment with sub-samples as a document: the answer first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from truerank.agreement import Agreement, Board
from truerank.agreement.heat import heat_by_fraction, heat_by_metric
from truerank.charts.facts import facts_of
from truerank.charts.movement import fraction_chart, move_map
from truerank.core.chart import Picture
from truerank.core.document import Document, Section
from truerank.core.number import MISSING
from truerank.core.table import Table


def agreement_document(found: Agreement) -> Document:
    """Return a page of an experiment: the answer, strategies, maps of agreement, and the values."""
    names = [str(counts["name"]) for counts in found.data.values() if counts.get("name")]
    return Document(
        title=f"agreement: {names[0] if names else 'which sub-samples keep the order of models'}",
        lead=found.answer,
        sections=(
            Section(
                "Strategies",
                notes=tuple(f"Not fitted: {problem}" for problem in found.problems),
                tables=tuple(_tables(found)),
            ),
            Section("Agreement", charts=tuple(_charts(found))),
            Section(
                "Values on the full data", tables=tuple(_board(board, found.seeds) for board in found.boards)
            ),
        ),
        facts=(
            ("command", "truerank agreement"),
            *facts_of(
                {
                    "strategies": found.strategies,
                    "fractions": found.fractions,
                    "seeds": found.seeds,
                    "level": found.level,
                    "threshold": found.threshold,
                    "data": found.data,
                    **found.provenance,
                }
            ),
        ),
        version=found.version,
    )


def _charts(found: Agreement) -> Iterator[Picture]:
    yield fraction_chart(found)
    yield heat_by_fraction(found, what="certain")
    yield heat_by_fraction(found)
    if len(found.boards) > 1:
        yield heat_by_metric(found)
    moves = move_map(found)
    if moves is not None:
        yield moves


def _tables(found: Agreement) -> Iterator[Table]:
    psi = "Psi is the mean of Kendall's tau over metrics, fractions and seeds."
    yield replace(found.to_table("strategies"), title="How well each strategy keeps the order", notes=(psi,))
    yield replace(found.to_table("fractions"), title="Each fraction, and what it saves")
    if len(found.boards) > 1:
        yield replace(found.to_table("metrics"), title="Each metric")


def _board(board: Board, seeds: list[int]) -> Table:
    rows = tuple(
        (model, *(_text(values[place]) for values in board.full)) for place, model in enumerate(board.models)
    )
    columns = ("model", *(f"seed {seed}" for seed in seeds))
    certain = f"The order of {board.n_certain} of {board.n_pairs} pairs is certain."
    return Table(columns, rows, f"{board.scenario}: {board.metric}", (certain,))


def _text(value: float | None) -> str:
    return MISSING if value is None else f"{value:.4f}"
