"""``truerank estimate``: estimates of exact metrics from a table of sampled ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from truerank.cli import options as opt
from truerank.cli.options import Answer, Format
from truerank.cli.output import (
    SUFFIXES,
    check_file,
    result_parts,
    say,
    say_intervals,
    show,
    shown_progress,
    write_charts,
)


def estimate(
    ranks: Annotated[
        Path,
        typer.Argument(help="A table of sampled ranks with columns user_id, rank, ... (.csv, .parquet)."),
    ],
    n_items: opt.NItems = None,
    negatives: opt.Negatives = None,
    replacement: opt.Replacement = None,
    zero_based: opt.ZeroBased = False,
    metrics: opt.Metrics = "ndcg@10,recall@10",
    estimator: opt.Estimators = None,
    ties: opt.Ties = "expected",
    uncertainty: opt.Uncertainty = "auto",
    target: opt.Target = "test-users",
    bounds: opt.Bounds = None,
    by: opt.By = None,
    level: opt.Level = 0.95,
    seed: opt.Seed = 0,
    format: opt.OutputFormat = Format.table,
    out: opt.Out = None,
    report: opt.Report = None,
) -> None:
    """Estimate the metrics of exact evaluation from a table of sampled ranks of any framework."""
    from truerank.ranking.files import read_sampled_table
    from truerank.workflows.estimate import estimate as estimate_ranks
    from truerank.workflows.options import DEFAULT_ESTIMATOR
    from truerank.workflows.segments.grouping import make_groupings, split_of_ids

    groupings = make_groupings(by)
    check_file(report, "--report")
    check_file(out, "--out", SUFFIXES)
    table = read_sampled_table(
        ranks,
        n_items=n_items,
        n_negatives=negatives,
        replacement=None if replacement is None else replacement is Answer.true,
        zero_based=zero_based,
    )
    named = {name or ranks.name: sampled for name, sampled in table.models.items()}
    with shown_progress() as progress:
        result = estimate_ranks(
            named,
            metrics,
            estimator or DEFAULT_ESTIMATOR,
            ties=ties,  # type: ignore[arg-type]  # checked with a sentence inside
            level=level,
            seed=seed,
            uncertainty=uncertainty,
            target=target,  # type: ignore[arg-type]  # checked with a sentence inside
            bounds=bounds,
            by=groupings,
            split=split_of_ids(groupings, table.users, table.items) if groupings else None,
            progress=progress,
        )
    data = result.data
    how = "with" if data["replacement"] else "without"
    say(
        f"{data['n_users']:,} users, {data['n_test']:,} targets; pools of {data['smallest_pool']:,} to "
        f"{data['largest_pool']:,} items; {data['fewest_negatives']:,} to {data['most_negatives']:,} "
        f"negatives, sampled {how} replacement."
    )
    say_intervals(result)
    show(lambda style: result_parts(result, style), format, out)
    if report is not None:
        write_charts(result, report, named, bounds=bounds is not False)
