"""``truerank trec``: metrics of a run that another tool wrote."""

from __future__ import annotations

import typer


def trec() -> None:
    raise typer.Exit(1)
