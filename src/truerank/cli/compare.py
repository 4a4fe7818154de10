"""``truerank compare``: which of several models is better, with simultaneous intervals and verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from truerank.cli import options as opt
from truerank.cli.completion import data_names, plugin_names
from truerank.cli.options import Answer, Format, sampler_spec, with_data
from truerank.cli.output import (
    SUFFIXES,
    check_file,
    emit,
    render_table,
    say,
    shown_progress,
    table_text,
    write_page,
    write_text,
)
from truerank.core.errors import InvalidParameter

if TYPE_CHECKING:
    from truerank.workflows.compare.result import Comparison


def compare(
    ranks: Annotated[
        list[Path] | None,
        typer.Argument(help="Tables of exact or sampled ranks, each of one or several models."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            help="Fit and rank models on these events, instead of reading ranks: a file, ml-1m, demo.",
            autocompletion=data_names,
        ),
    ] = None,
    model: Annotated[list[str] | None, with_data(opt.Models)] = None,
    split: Annotated[str, with_data(opt.SplitRule)] = "leave-last-out",
    sampler: Annotated[
        str | None,
        typer.Option(
            help="With --data: how negatives are sampled, such as uniform(m=99); default: rank all items.",
            autocompletion=plugin_names("samplers"),
        ),
    ] = None,
    negatives: Annotated[
        int | None,
        typer.Option(
            help="Sampled negatives per target: to sample with --data, or in files without that column."
        ),
    ] = None,
    n_items: opt.NItems = None,
    replacement: opt.Replacement = None,
    zero_based: opt.ZeroBased = False,
    metrics: opt.Metrics = "ndcg@10,recall@10",
    estimator: opt.Estimator = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="What verdicts are about: the population of users (default from exact ranks), or these "
            "test-users (default from sampled ranks)."
        ),
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level of all intervals together.")] = 0.95,
    correction: Annotated[
        str, typer.Option(help="Correction for multiple comparisons: max-t, holm or none.")
    ] = "max-t",
    baseline: Annotated[
        str | None, typer.Option(help="Compare every other model with this one; all pairs by default.")
    ] = None,
    margin: Annotated[
        float | None, typer.Option(help="Models whose difference is at most this count as equivalent.")
    ] = None,
    posterior: Annotated[
        bool,
        typer.Option(
            "--posterior/--no-posterior",
            help="Whether sampled ranks get intervals under a prior learnt from real recommenders.",
        ),
    ] = True,
    bounds: Annotated[
        bool,
        typer.Option(
            "--bounds/--no-bounds",
            help="Whether to compute what all exact ranks that the samples allow have in common.",
        ),
    ] = True,
    shape: Annotated[
        str | None, typer.Option(help="Assumption of the bounds on the rank distribution: decreasing.")
    ] = None,
    common_users: Annotated[
        bool, typer.Option("--common-users", help="Leave out users that some model has no ranks for.")
    ] = False,
    ties: opt.Ties = "expected",
    seen: Annotated[str, with_data(opt.Seen)] = "remove",
    columns: Annotated[str | None, with_data(opt.Columns)] = None,
    time_format: Annotated[str | None, with_data(opt.TimeFormat)] = None,
    drop_missing: Annotated[bool, with_data(opt.DropMissing)] = False,
    test: Annotated[Path | None, with_data(opt.TestFile)] = None,
    users: Annotated[float | None, with_data(opt.Users)] = None,
    duplicates: Annotated[str, with_data(opt.Duplicates)] = "last",
    min_rating: Annotated[float | None, with_data(opt.MinRating)] = None,
    core: Annotated[int, with_data(opt.Core)] = 0,
    min_history: Annotated[int, with_data(opt.MinHistory)] = 0,
    resamples: opt.Resamples = 2000,
    seed: opt.Seed = 0,
    threads: opt.Threads = None,
    format: opt.OutputFormat = Format.table,
    out: opt.Out = None,
    report: opt.Report = None,
) -> None:
    """Compare models, from files of ranks or on a data set: which is better, or why it is open."""
    from truerank.ranking.files import read_rank_files
    from truerank.workflows.compare.compare import compare as run_compare
    from truerank.workflows.options import DEFAULT_ESTIMATOR

    _check(ranks, data, model, sampler)
    check_file(out, "--out", SUFFIXES)
    check_file(report, "--report")
    if data is None and any((test, users is not None, min_rating is not None, core, min_history)):
        raise InvalidParameter(
            "--test, --users and filters of events need --data. Leave them out: the files already hold ranks."
        )
    options: dict[str, Any] = {
        "estimator": estimator or DEFAULT_ESTIMATOR,
        "target": target,
        "level": level,
        "correction": correction,
        "baseline": baseline,
        "tie_margin": margin,
        "posterior": posterior,
        "bounds": bounds,
        "shape": shape,
        "common_users": common_users,
        "ties": ties,
        "resamples": resamples,
        "seed": seed,
    }
    said: list[str] = []  # when the data were read
    with shown_progress() as progress:
        if data is None:
            rank_files = read_rank_files(
                ranks or [],
                n_items=n_items,
                n_negatives=negatives,
                replacement=None if replacement is None else replacement is Answer.true,
                zero_based=zero_based,
            )
            comparison = run_compare(rank_files, metrics=metrics, progress=progress, **options)
        else:
            from truerank.cli.dataset import read_split
            from truerank.split.base import sample_users
            from truerank.split.notes import data_notes

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
                seen=seen,
                seed=seed,
                progress=progress,
            )
            if users is not None:
                parts = sample_users(parts, users, seed=seed)
            said = data_notes(parts.summary())
            comparison = run_compare(
                list(model or []),
                parts,
                metrics,
                sampler=sampler_spec(negatives, sampler),
                seen=seen,  # type: ignore[arg-type]  # checked with a sentence inside
                n_threads=threads,
                progress=progress,
                **options,
            )
    for note in comparison.notes:
        if note not in said:
            say(f"note: {note}")
    for difference in comparison.differences:
        say(difference.sentence)
    emit(render_comparison(comparison, format))
    if out is not None:
        write_text(out, render_comparison(comparison, SUFFIXES[out.suffix]))
    if report is not None:
        from truerank.report.charts.comparison import comparison_document

        write_page(comparison_document(comparison), report)


def _check(
    ranks: list[Path] | None,
    data: str | None,
    model: list[str] | None,
    sampler: str | None,
) -> None:
    if (data is None) == (not ranks):
        raise InvalidParameter("give either files of ranks, or --data and --model.")
    if data is None and (model or sampler):
        raise InvalidParameter(
            "--model and --sampler need --data. Leave them out: the files already hold ranks."
        )
    if data is not None and not model:
        raise InvalidParameter("--data needs models to compare. Add --model at least twice.")


def render_comparison(comparison: Comparison, style: Format) -> str:
    """Return the comparison in one of the formats."""
    if style is Format.json:
        return comparison.to_json()
    if style is Format.csv:
        lines = [list(difference.to_dict().values()) for difference in comparison.differences]
        return table_text(list(comparison.differences[0].to_dict()), lines, style)
    return render_table(comparison.to_table(), style)
