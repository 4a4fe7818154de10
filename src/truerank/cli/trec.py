"""``truerank trec``: metrics of a run that another tool wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from truerank.cli.output import Format, emit, render_result, say
from truerank.cli.prepare import names_of


def trec(
    run: Annotated[Path, typer.Argument(help="The run: query Q0 document rank score tag.")],
    qrels: Annotated[Path, typer.Argument(help="The judgements: query 0 document grade.")],
    metrics: Annotated[
        str, typer.Option(help="Metrics, separated by commas.", autocompletion=names_of("metrics"))
    ] = "ndcg@10,recall@10,ap(norm=rel),mrr",
    relevance: Annotated[int, typer.Option(help="Documents of at least this grade are relevant.")] = 1,
    n_pool: Annotated[
        int | None, typer.Option(help="Documents in the collection; needed by metrics such as auc.")
    ] = None,
    ties: Annotated[str, typer.Option(help="expected, best, worst or random")] = "expected",
    interval: Annotated[
        str, typer.Option(help="Interval over queries.", autocompletion=names_of("intervals"))
    ] = "auto",
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
) -> None:
    """Compute metrics from a TREC run and qrels."""
    from truerank.workflows.evaluate import evaluate_trec
    from truerank.workflows.options import make_options

    options = make_options(metrics, ties=ties, interval=interval, level=level, seed=seed)
    result = evaluate_trec(run, qrels, options, relevance=relevance, n_pool=n_pool)
    counts = ", ".join(
        f"{key.replace('_', ' ')} {value:,}" for key, value in result.data.items() if key != "name"
    )
    say(f"{result.data['name']}: {counts}.")
    emit(render_result(result, format))
