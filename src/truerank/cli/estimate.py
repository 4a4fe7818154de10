"""``truerank estimate``: global metrics from ranks among sampled items."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from truerank.cli.output import Format, emit, render_result, say, say_intervals, shown_progress
from truerank.cli.prepare import names_of
from truerank.core.checkpoint import check_output, replace_text


class Answer(StrEnum):
    """Yes or no, as on the command line."""

    true = "true"
    false = "false"


def estimate(
    ranks: Annotated[
        Path, typer.Argument(help="A table of sampled ranks: user_id, rank, ... (csv, parquet).")
    ],
    n_items: Annotated[
        int | None,
        typer.Option(help="Items each target competes with, itself included, if no column says it."),
    ] = None,
    negatives: Annotated[
        int | None, typer.Option(help="Sampled items per target, itself not counted, if no column says it.")
    ] = None,
    replacement: Annotated[
        Answer | None, typer.Option(help="Whether items could be drawn twice, if no column says it.")
    ] = None,
    zero_based: Annotated[bool, typer.Option("--zero-based", help="The best rank in the file is 0.")] = False,
    metrics: Annotated[
        str, typer.Option(help="Metrics, separated by commas.", autocompletion=names_of("metrics"))
    ] = "ndcg@10,recall@10",
    estimator: Annotated[
        list[str] | None,
        typer.Option(help="An estimator; may be given several times.", autocompletion=names_of("estimators")),
    ] = None,
    ties: Annotated[str, typer.Option(help="expected, best, worst or random")] = "expected",
    uncertainty: Annotated[
        str,
        typer.Option(help="How intervals are made.", autocompletion=names_of("uncertainties")),
    ] = "auto",
    target: Annotated[
        str, typer.Option(help="What intervals are for: test-users or population.")
    ] = "test-users",
    bounds: Annotated[
        bool | None,
        typer.Option(
            "--bounds/--no-bounds",
            help="Show every value that the sampled ranks allow; by default unless that takes long.",
            show_default=False,
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
    report: Annotated[Path | None, typer.Option(help="Write a self-contained HTML report here.")] = None,
    out: Annotated[Path | None, typer.Option(help="Also write the JSON here.")] = None,
) -> None:
    """Estimate what exact evaluation would give from a table of sampled ranks that any framework wrote."""
    from truerank.ranking.files import read_sampled_models
    from truerank.workflows.estimate import DEFAULT_ESTIMATORS, has_all_items
    from truerank.workflows.estimate import estimate as estimate_ranks

    for path, what in ((report, "--report"), (out, "--out")):
        if path is not None:
            check_output(path, what)
    models = read_sampled_models(
        ranks,
        n_items=n_items,
        n_negatives=negatives,
        replacement=None if replacement is None else replacement is Answer.true,
        zero_based=zero_based,
    )
    named = {name or ranks.name: one for name, one in models.items()}
    with shown_progress() as progress:
        result = estimate_ranks(
            named,
            metrics,
            estimator
            or ["naive", *([] if all(map(has_all_items, named.values())) else [DEFAULT_ESTIMATORS])],
            ties=ties,  # type: ignore[arg-type]  # checked with a sentence inside
            level=level,
            seed=seed,
            uncertainty=uncertainty,
            target=target,  # type: ignore[arg-type]  # checked with a sentence inside
            bounds=bounds,
            progress=progress,
        )
    data = result.data
    drawn = "with" if data["replacement"] else "without"
    say(
        f"{data['n_users']:,} users, {data['n_test']:,} targets; pools of {data['smallest_pool']:,} to "
        f"{data['largest_pool']:,} items; {data['fewest_negatives']:,} to {data['most_negatives']:,} "
        f"negatives, drawn {drawn} replacement."
    )
    say_intervals(result)
    emit(render_result(result, format))
    if out is not None:
        replace_text(out, result.to_json() + "\n", "--out")
        say(f"wrote {out}")
    if report is not None:
        from truerank.report.charts.result import result_charts
        from truerank.report.page import write_report

        with shown_progress() as progress:
            charts = result_charts(result, named, bounds=bounds is not False, progress=progress)
        write_report(replace(result, charts=charts), report)
        say(f"wrote {report}")
