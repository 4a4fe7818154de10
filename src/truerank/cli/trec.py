"""``truerank trec``: metrics of a run in TREC format."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from truerank.cli import options as opt
from truerank.cli.options import Format
from truerank.cli.output import SUFFIXES, check_file, result_parts, say, show

if TYPE_CHECKING:
    from truerank.core.ranks import TiePolicy


def trec(
    run: Annotated[Path, typer.Argument(help="The run, lines of: query Q0 document rank score tag.")],
    qrels: Annotated[
        Path, typer.Argument(help="The relevance judgements, lines of: query 0 document grade.")
    ],
    metrics: opt.Metrics = "ndcg@10,recall@10,ap(norm=rel),mrr",
    relevance: Annotated[int, typer.Option(help="Documents of at least this grade are relevant.")] = 1,
    n_pool: Annotated[
        int | None, typer.Option(help="Documents in the collection; needed by metrics such as auc.")
    ] = None,
    gain: Annotated[
        str,
        typer.Option(
            help="How much a grade is worth to ndcg and err: grade, grade(form=exp2) for 2^grade - 1, or "
            "none to count all relevant documents alike."
        ),
    ] = "grade",
    ties: opt.Ties = "expected",
    interval: opt.Interval = "auto",
    level: opt.Level = 0.95,
    seed: opt.Seed = 0,
    format: opt.OutputFormat = Format.table,
    out: opt.Out = None,
) -> None:
    """Compute metrics from a TREC run and its qrels."""
    from truerank.workflows.evaluate import evaluate_trec
    from truerank.workflows.options import make_options

    check_file(out, "--out", SUFFIXES)
    options = make_options(
        metrics,
        gain=None if gain == "none" else gain,
        ties=cast("TiePolicy", ties),
        interval=interval,
        level=level,
        seed=seed,
    )
    result = evaluate_trec(run, qrels, options, relevance=relevance, n_pool=n_pool)
    counts = ", ".join(
        f"{key.replace('_', ' ')} {value:,}" for key, value in result.data.items() if key != "name"
    )
    say(f"{result.data['name']}: {counts}.")
    show(lambda style: result_parts(result, style), format, out)
