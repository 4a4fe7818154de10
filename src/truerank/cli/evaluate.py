"""``truerank evaluate``: metrics of models on a data set, exact or estimated from sampled ranks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from truerank.cli import options as opt
from truerank.cli.completion import plugin_names
from truerank.cli.interrupt import kept_parts, say_interrupted, tell_kept, told_scores
from truerank.cli.messages import is_given
from truerank.cli.options import Format, sampler_spec
from truerank.cli.output import (
    SUFFIXES,
    check_file,
    result_parts,
    say,
    say_intervals,
    say_written,
    show,
    shown_progress,
    write_charts,
)
from truerank.core.errors import InvalidParameter
from truerank.core.table import count_of

if TYPE_CHECKING:
    from truerank.core.ranks import SeenPolicy, TiePolicy
    from truerank.core.result import Result
    from truerank.core.split import Split
    from truerank.inference.estimate_interval.registry import Target


def evaluate(
    data: opt.Data[str],
    model: opt.Models[list[str]],
    split: opt.SplitRule = "leave-last-out",
    test: opt.TestFile = None,
    metrics: opt.Metrics = "ndcg@10,recall@10,ap,auc",
    gain: opt.Gain = None,
    ties: opt.Ties = "expected",
    seen: opt.Seen = "remove",
    interval: opt.Interval = "auto",
    level: opt.Level = 0.95,
    target: opt.Target = "test-users",
    users: opt.Users = None,
    seed: opt.Seed = 0,
    columns: opt.Columns = None,
    time_format: opt.TimeFormat = None,
    drop_missing: opt.DropMissing = False,
    duplicates: opt.Duplicates = "last",
    min_rating: opt.MinRating = None,
    core: opt.Core = 0,
    min_history: opt.MinHistory = 0,
    negatives: Annotated[
        int | None, typer.Option(help="Rank each target against this many sampled items instead of all.")
    ] = None,
    sampler: opt.Sampler[str | None] = None,
    estimator: opt.Estimators = None,
    uncertainty: opt.Uncertainty = "auto",
    bounds: opt.Bounds = None,
    by: opt.By = None,
    precision: Annotated[
        float | None,
        typer.Option(help="Compute scores until every interval has this half-width, such as 0.01."),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="With --precision: what each model may cost, in scores (50000), time (600s, 10min, 2h) or "
            "money (20usd)."
        ),
    ] = None,
    price: Annotated[
        float | None, typer.Option(help="With --precision: what 1,000 scores cost, to show the cost.")
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            help="With --precision: keep scores of slow models (http) in this file, and ask for none twice."
        ),
    ] = None,
    proxy: Annotated[
        str | None,
        typer.Option(
            help="With --precision: cheap models that say which items to score first, which saves scores.",
            autocompletion=plugin_names("models"),
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Also rank all items, and show exact values next to estimates.")
    ] = False,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Where ranks are computed: gpu, dask(address=tcp://...) or spark(master=...).",
            autocompletion=plugin_names("engines"),
        ),
    ] = None,
    work_dir: opt.WorkDir = None,
    threads: opt.Threads = None,
    format: opt.OutputFormat = Format.table,
    out: opt.Out = None,
    ranks_out: Annotated[
        Path | None, typer.Option(help="Write the exact ranks to this file: .parquet or .csv.")
    ] = None,
    report: opt.Report = None,
) -> None:
    """Rank items for every test user and print metrics, exact or estimated from sampled items."""
    from truerank.cli.dataset import read_split
    from truerank.workflows.evaluate import run_evaluation
    from truerank.workflows.fitting import is_slow, name_models
    from truerank.workflows.options import DEFAULT_METRICS, make_options

    check_file(out, "--out", SUFFIXES)
    check_file(ranks_out, "--ranks-out", (".parquet", ".csv"))
    check_file(report, "--report")
    check_file(scores, "--scores")
    _check_precision(
        precision,
        {"--budget": budget, "--price": price, "--scores": scores, "--proxy": proxy},
        {
            "--negatives": negatives,
            "--sampler": sampler,
            "--estimator": estimator,
            "--users": users,
            "--gain": gain,
            "--engine": engine,
            "--ranks-out": ranks_out,
            "--by": by or None,
        },
    )
    if work_dir is not None and engine is None:
        raise InvalidParameter("--work-dir needs --engine, such as dask.")
    is_sampled = negatives is not None or sampler is not None
    models = name_models(list(model))
    if precision is not None and any(map(is_slow, models.values())) and not is_given("metrics"):
        metrics = DEFAULT_METRICS
        say(f"{metrics}: ap and auc need complete rows of slow models. Name them in --metrics to have them.")
    options = make_options(
        metrics,
        sampler=sampler_spec(negatives, sampler),
        estimators=estimator or None,
        uncertainty=uncertainty,
        bounds=bounds or (None if bounds is None and is_sampled else False),
        check=check,
        precision=precision,
        budget=budget,
        price=price,
        scores=scores,
        gain=gain,
        proxy=proxy,
        ties=cast("TiePolicy", ties),
        seen=cast("SeenPolicy", seen),
        interval=interval,
        level=level,
        target=cast("Target", target),
        users=users,
        seed=seed,
        n_threads=threads,
        engine=engine,
        work_dir=work_dir,
        by=by,
    )
    if ranks_out is not None and is_sampled and not check:
        raise InvalidParameter("--ranks-out writes exact ranks. Add --check, or use truerank sample.")
    if work_dir is not None and "://" not in work_dir:
        tell_kept(lambda: kept_parts(Path(work_dir, "partials")))
    if scores is not None:
        tell_kept(lambda: told_scores(scores))
    with shown_progress() as progress:
        parts = read_split(
            data,
            split=split,
            test=test,
            columns=columns,
            time_format=time_format,
            drop_missing=drop_missing,
            duplicates=duplicates,
            min_rating=min_rating,
            core=core,
            min_history=min_history,
            graded=gain is not None,
            seen=seen,
            seed=seed,
            progress=progress,
        )
        result = run_evaluation(models, parts, options, progress=progress)
    if ranks_out is not None:
        result = with_ranks_file(result, ranks_out, out)
    _explain(result)
    show(lambda style: result_parts(result, style), format, out)
    if ranks_out is not None:
        _write_ranks(result, ranks_out, parts)
    if report is not None:
        write_charts(result, report, bounds=bounds is not False)
    trainings = result.provenance.get("interrupted", {}).values()
    if "unfinished" in result.provenance or not all(training["path"] for training in trainings):
        raise typer.Exit(say_interrupted())


def _check_precision(
    precision: float | None, needing: Mapping[str, object], chosen: Mapping[str, object]
) -> None:
    for name, value in needing.items():
        if precision is None and value is not None:
            raise InvalidParameter(f"{name} needs --precision, the half-width to reach, such as 0.01.")
    given = [name for name, value in chosen.items() if value is not None]
    if precision is not None and given:
        raise InvalidParameter(
            f"--precision chooses users and items by itself. Leave out {', '.join(given)}, or leave out "
            "--precision."
        )


def _explain(result: Result) -> None:
    data = result.data
    has, none = data["users_with_targets"], data["users_without_targets"]
    say(
        f"{data['name']}: {data['n_users']:,} users, {data['n_items']:,} items, {data['n_train']:,} train, "
        f"{data['n_valid']:,} valid and {data['n_test']:,} test events; "
        f"{count_of(has, 'user')} {'has' if has == 1 else 'have'} targets, "
        f"{none:,} {'has' if none == 1 else 'have'} none."
    )
    if "users_drawn_from" in data:
        say(f"{data['users_with_targets']:,} of {data['users_drawn_from']:,} test users were sampled.")
    sampler = result.provenance["sampler"]
    ranks = "Ranks among all items" if sampler is None else f"Sampled ranks, {sampler}"
    gain = f"; gain: {result.provenance['gain']}" if "gain" in result.provenance else ""
    say(f"{ranks}; ties: {result.provenance['ties']}; seen items: {result.provenance['seen']}{gain}.")
    say_intervals(result)


def with_ranks_file(result: Result, ranks: Path, out: Path | None) -> Result:
    """Return the result with the file of its ranks in the provenance, seen from the folder of the result."""
    place = str(ranks) if out is None else os.path.relpath(ranks, out.parent)
    return replace(result, provenance={**result.provenance, "ranks_out": place})


def _write_ranks(result: Result, path: Path, parts: Split) -> None:
    from truerank.core.checkpoint import replace_table
    from truerank.core.provenance import file_metadata
    from truerank.ranking.files import ranks_table

    table = ranks_table(result.ranks, parts.train.users, parts.train.items)
    told = {name: value for name, value in result.provenance.items() if name not in ("seconds", "versions")}
    replace_table(path, table, "--ranks-out", metadata=file_metadata(**told))
    say_written(path)
