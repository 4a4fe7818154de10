"""``--format latex``."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Truerank
from truerank.cli.options import Format
from truerank.cli.output import prose


def test_results(truerank: Truerank, tiny: Path) -> None:
    """One tabular that a paper can read in; both models have the best value, so both are bold."""
    models = ("--model", "popularity", "--model", "item-knn(neighbours=1)")
    done = truerank(
        "evaluate", tiny, *models, "--metrics", "recall@1", "--interval", "normal", "--format", "latex"
    )
    lines = done.out.splitlines()
    assert lines[:4] == [r"\begin{tabular}{lr}", r"\toprule", r"model & recall@1 \\", r"\midrule"]
    assert lines[4].startswith(r"popularity & \textbf{0.6667 [")
    assert lines[5].startswith(r"item-knn(neighbours=1) & \textbf{0.6667 [")
    note = r"Bold: the highest value, and those not distinguishable from it (95 \% confidence)."
    assert lines[6:] == [
        r"\bottomrule",
        r"\end{tabular}",
        rf"\par\smallskip{{\footnotesize {note}\par}}",
    ]


@pytest.mark.parametrize(
    "command", [("list", "metrics"), ("data", "list"), ("data", "describe", "ml-1m"), ("paper", "list")]
)
def test_lists(truerank: Truerank, command: tuple[str, ...]) -> None:
    done = truerank(*command, "--format", "latex")
    assert done.code == 0, done.err
    head, *_, last = done.out.splitlines()
    assert head.startswith(r"\begin{tabular}{")
    assert last == r"\end{tabular}"
    widths = {line.count(" & ") for line in done.out.splitlines() if line.endswith(r"\\")}
    assert len(widths) == 1


def test_sentences_among_tables() -> None:
    assert prose("50 % of A_1", Format.latex) == r"50 \% of A\_1"
    assert prose("50 % of A_1", Format.markdown) == "50 % of A_1"
