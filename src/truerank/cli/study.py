"""``truerank study``: errors of estimators on data where all items can be ranked."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from truerank.cli import options as opt
from truerank.cli.interrupt import kept_parts, tell_kept
from truerank.cli.options import Format
from truerank.cli.output import SUFFIXES, Parts, check_file, say, show, shown_progress, table_of, write_page
from truerank.core.errors import MOST_CUTOFFS, InvalidParameter, check_at_least, excerpt

if TYPE_CHECKING:
    from truerank.workflows.study import Study


def study(
    data: opt.Data[str],
    model: opt.Models[list[str]],
    estimator: opt.Estimators = None,
    sampler: opt.Sampler[str] = "uniform(m=99)",
    metrics: Annotated[str, typer.Option(help="Metrics without a cut-off, separated by commas.")] = (
        "recall,ndcg,ap"
    ),
    cutoffs: Annotated[str, typer.Option(help="Cut-offs K, such as 1-50 or 1,5,10.")] = "1-50",
    repeats: Annotated[int, typer.Option(help="How many times negatives are sampled.")] = 20,
    prior_mode: Annotated[
        str,
        typer.Option(help="Priors fitted to the ranks: per-run, averaged (over the repeats) or both."),
    ] = "per-run",
    posterior: Annotated[
        bool,
        typer.Option(
            "--posterior/--no-posterior", help="Whether to ask the posterior too which model is best."
        ),
    ] = True,
    split: opt.SplitRule = "leave-last-out",
    seen: opt.Seen = "remove",
    ties: opt.Ties = "expected",
    columns: opt.Columns = None,
    time_format: opt.TimeFormat = None,
    drop_missing: opt.DropMissing = False,
    seed: opt.Seed = 0,
    threads: opt.Threads = None,
    keep: opt.Keep = None,
    format: opt.OutputFormat = Format.table,
    out: opt.Out = None,
    report: opt.Report = None,
) -> None:
    """Measure the errors of estimators: rank all items once, and sampled items many times.

    The error is the relative error, averaged over the cut-offs K; "named best" counts the samples in which an
    estimator ranks the best model first. The posterior names a model only where its differences to all others
    are decided, and leaves the other samples open.
    """
    from truerank.cli.dataset import read_split
    from truerank.workflows.options import DEFAULT_ESTIMATOR
    from truerank.workflows.study import study as run_study

    check_file(out, "--out", SUFFIXES)
    check_file(report, "--report")
    wanted = parse_cutoffs(cutoffs)
    with shown_progress() as progress:
        parts = read_split(
            data,
            split=split,
            columns=columns,
            time_format=time_format,
            drop_missing=drop_missing,
            seen=seen,
            seed=seed,
            progress=progress,
        )
        tell_kept(lambda: kept_parts(keep))
        measured = run_study(
            list(model),
            parts,
            sampler,
            estimator or DEFAULT_ESTIMATOR,
            families=metrics,
            cutoffs=wanted,
            repeats=repeats,
            prior_mode=prior_mode,  # type: ignore[arg-type]  # checked with a sentence inside
            posterior=posterior,
            ties=ties,  # type: ignore[arg-type]
            seen=seen,  # type: ignore[arg-type]
            seed=seed,
            n_threads=threads,
            store=keep,
            progress=progress,
        )
    say(
        f"{repeats} samples by {sampler}; errors relative, in percent, mean over K = {cutoffs} and "
        "samples; spread: standard deviation over samples."
    )
    show(lambda style: _parts(measured, style), format, out)
    if report is not None:
        from truerank.report.charts.study import study_document

        write_page(study_document(measured, name=data), report)


def parse_cutoffs(text: str) -> list[int]:
    """Return the numbers of a list such as ``1-5,10``.

    Examples
    --------
    >>> parse_cutoffs("1-3,10")
    [1, 2, 3, 10]
    """
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,18})\s*(?:-\s*(\d{1,18})\s*)?", part)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise InvalidParameter(
                f"--cutoffs must be numbers and ranges such as 1-50 or 1,5,10, got {excerpt(text)!r}. "
                "Numbers have at most 18 digits, and ranges ascend."
            )
        numbers.update(islice(range(int(match[1]), int(match[2] or match[1]) + 1), MOST_CUTOFFS + 1))
        check_at_least("the number of --cutoffs", len(numbers), 1, MOST_CUTOFFS)
    return sorted(numbers)


def _parts(measured: Study, style: Format) -> Parts:
    if style is Format.json:
        return [json.dumps(measured.to_dict(), indent=2)]
    errors = table_of(("metric", "model", "estimator", "error", "spread", "items"), _errors(measured))
    if len(measured.models) < 2 or style is Format.csv:
        return [errors]
    return [errors, table_of(("metric", "best model", "estimator", "named best"), _winners(measured))]


def _errors(measured: Study) -> list[tuple[str, ...]]:
    mean, spread = measured.errors()
    return [
        (
            family,
            model,
            estimator,
            f"{mean[e, m, f]:.2f}",
            f"{spread[e, m, f]:.2f}",
            f"{measured.items_per_user[m]:.1f}",
        )
        for f, family in enumerate(measured.families)
        for m, model in enumerate(measured.models)
        for e, estimator in enumerate(measured.estimators)
    ]


def _winners(measured: Study) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for family in measured.families:
        for cutoff in measured.winner_cutoffs:
            best = measured.best(family, cutoff)
            counts = measured.winners(family, cutoff)
            rows += [
                (f"{family}@{cutoff}", best, estimator, f"{count} of {measured.n_repeats}")
                for estimator, count in zip(measured.estimators, counts, strict=True)
            ]
            if measured.named is not None:
                found = measured.posterior_winners(family, cutoff)
                text = f"{found.right} of {measured.n_repeats}, {found.wrong} wrong, {found.open} open"
                rows.append((f"{family}@{cutoff}", best, "posterior", text))
    return rows
