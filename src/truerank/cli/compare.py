"""``truerank compare``: which of several models is better, with simultaneous intervals and verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from truerank.cli import options as opt
from truerank.cli.completion import data_names, plugin_names
from truerank.cli.interrupt import tell_kept, told_scores
from truerank.cli.options import Answer, Format, sampler_spec, with_data
from truerank.cli.output import (
    SUFFIXES,
    Parts,
    check_file,
    grouped_rows,
    say,
    segment_parts,
    show,
    shown_progress,
    write_page,
)
from truerank.core.errors import InvalidParameter

if TYPE_CHECKING:
    from truerank.core.progress import Progress
    from truerank.workflows.compare.result import Comparison


def compare(
    context: typer.Context,
    ranks: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Tables of exact or sampled ranks, each of one or several models; or two results of "
            "evaluate, the old .json first."
        ),
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
    decide: Annotated[
        bool,
        typer.Option(
            "--decide",
            help="With --data: ask slow models only until it is known which is better, or --margin is held.",
        ),
    ] = False,
    proxy: Annotated[
        str | None,
        typer.Option(
            help="With --decide: cheap models that say which items to score first, which saves scores.",
            autocompletion=plugin_names("models"),
        ),
    ] = None,
    scores: Annotated[
        Path | None,
        typer.Option(
            help="With --decide: keep scores of slow models (http) in this file, and ask for none twice."
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="With --decide: what all models together may cost, in scores (50000), time (600s, 10min, "
            "2h) or money (20usd)."
        ),
    ] = None,
    price: Annotated[
        float | None, typer.Option(help="With --decide: what 1,000 scores cost, to show the cost.")
    ] = None,
    fail_on: Annotated[
        str | None,
        typer.Option(
            help="Exit with 1 where a model is, against the baseline or the old result: worse; not-better "
            "(not shown to be better); possibly-worse (by more than --margin)."
        ),
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
    gain: Annotated[str | None, with_data(opt.Gain)] = None,
    by: opt.By = None,
    resamples: opt.Resamples = 2000,
    seed: opt.Seed = 0,
    threads: opt.Threads = None,
    format: opt.OutputFormat = Format.table,
    out: opt.Out = None,
    report: opt.Report = None,
) -> None:
    """Compare models, from files of ranks or on a data set: which is better, or why it is open."""
    from truerank.ranking.files import read_rank_tables
    from truerank.workflows.compare.compare import compare as run_compare
    from truerank.workflows.options import DEFAULT_ESTIMATOR
    from truerank.workflows.segments.grouping import make_groupings, split_of_ids

    _check(ranks, data, model, sampler)
    _check_decide(
        data,
        decide,
        {"--proxy": proxy, "--scores": scores, "--budget": budget, "--price": price},
        {
            "--negatives": negatives,
            "--sampler": sampler,
            "--estimator": estimator,
            "--gain": gain,
            "--shape": shape,
            "--users": users,
            "--by": by or None,
            "--target": None if target == "test-users" else target,
        },
    )
    is_results = any(path.suffix == ".json" for path in ranks or ())
    _check_gate(fail_on, baseline, margin, is_results=is_results)
    check_file(out, "--out", SUFFIXES)
    check_file(report, "--report")
    check_file(scores, "--scores")
    if scores is not None:
        tell_kept(lambda: told_scores(scores))
    if data is None and any((test, users is not None, min_rating is not None, core, min_history, gain)):
        raise InvalidParameter(
            "--test, --users, --gain and filters of events need --data. Leave them out: the files already "
            "hold ranks."
        )
    if is_results and by:
        raise InvalidParameter(
            "--by has no meaning with results: groups that both have are compared. Leave it out here, and "
            "evaluate with it."
        )
    groupings = make_groupings(by)
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
        if is_results:
            comparison = _compare_results(
                ranks or [],
                context,
                {key: options[key] for key in ("level", "correction", "tie_margin", "resamples", "seed")},
                metrics,
                progress,
            )
        elif data is None:
            paths = list(dict.fromkeys(map(str, ranks or [])))
            tables = read_rank_tables(
                paths,
                n_items=n_items,
                n_negatives=negatives,
                replacement=None if replacement is None else replacement is Answer.true,
                zero_based=zero_based,
            )
            comparison = run_compare(
                tables.named(paths),
                split_of_ids(groupings, tables.users, tables.items) if groupings else None,
                metrics,
                by=groupings,
                progress=progress,
                **options,
            )
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
                graded=gain is not None,
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
                gain=gain,
                by=groupings,
                decide=decide,
                proxy=proxy,
                scores=scores,
                budget=budget,
                price=price,
                progress=progress,
                **options,
            )
    outcome = None
    if fail_on is not None:
        from truerank.workflows.compare.changes import judge

        outcome = judge(comparison, fail_on, margin=margin)
        comparison = replace(comparison, provenance={**comparison.provenance, "gate": outcome.to_dict()})
    for note in comparison.notes:
        if note not in said:
            say(f"note: {note}")
    if is_results:
        from truerank.workflows.compare.changes import change_summary

        say(change_summary(comparison, str((ranks or [Path()])[0])))
    for difference in comparison.differences:
        say(difference.sentence)
    show(lambda style: comparison_parts(comparison, style), format, out)
    if report is not None:
        from truerank.report.charts.comparison import comparison_document

        write_page(comparison_document(comparison), report)
    if outcome is not None:
        for failure in outcome.failures:
            say(f"--fail-on {outcome.fail_on}: {failure}")
        if not outcome.is_passed:
            raise typer.Exit(1)
        say(f"--fail-on {outcome.fail_on}: passed.")


def _compare_results(
    paths: list[Path], context: typer.Context, options: dict[str, Any], metrics: str, progress: Progress
) -> Comparison:
    """Return what changed between two results of ``evaluate``."""
    from truerank.workflows.compare.changes import changes, read_result_files

    if len(paths) != 2 or any(path.suffix != ".json" for path in paths):
        raise InvalidParameter(
            "results are compared two at a time, old.json and new.json. Give both, or tables of ranks alone."
        )
    source = context.get_parameter_source("metrics")
    is_asked = source is not None and source.name != "DEFAULT"
    files = read_result_files(*paths)
    found = changes(
        files.old,
        files.new,
        ranks=files.ranks,
        metrics=metrics if is_asked else None,
        progress=progress,
        **options,
    )
    return replace(found, notes=(*files.notes, *found.notes))


def _check_gate(fail_on: str | None, baseline: str | None, margin: float | None, *, is_results: bool) -> None:
    """Raise before any work where a gate cannot be judged."""
    if is_results and baseline is not None:
        raise InvalidParameter("--baseline has no meaning with results: the old one is. Leave it out.")
    if fail_on is None:
        return
    from truerank.workflows.compare.changes import make_gate

    make_gate(fail_on, margin)
    if not is_results and baseline is None:
        raise InvalidParameter("--fail-on needs --baseline, the model that the others are held against.")


def _check_decide(
    data: str | None, decide: bool, needing: Mapping[str, object], chosen: Mapping[str, object]
) -> None:
    """Raise before any work where options do not go with ``--decide``."""
    if not decide:
        for name, value in needing.items():
            if value is not None:
                raise InvalidParameter(
                    f"{name} needs --decide, without which every model is asked everything."
                )
        return
    if data is None:
        raise InvalidParameter("--decide asks models for scores, which needs --data and --model.")
    given = [name for name, value in chosen.items() if value is not None]
    if given:
        raise InvalidParameter(
            "--decide chooses items and users by itself, and is about all test users. Leave out "
            f"{', '.join(given)}, or leave out --decide."
        )


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


def comparison_parts(comparison: Comparison, style: Format) -> Parts:
    """Return a comparison as ``show`` takes it."""
    if style is Format.json:
        return [comparison.to_json()]
    if style is Format.csv:
        rows = [difference.to_dict() for difference in comparison.differences]
        return [grouped_rows(rows, comparison.segments)]
    segments = [part for one in comparison.segments for part in segment_parts(one, style)]
    if "old" in comparison.provenance:
        from truerank.workflows.compare.changes import change_table

        return [change_table(comparison), *segments]
    return [comparison.to_table(), *segments]
