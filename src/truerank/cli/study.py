"""``truerank study``: how far estimators are off on data where everything can be ranked."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated

import typer

from truerank.cli import options as opt
from truerank.cli.options import Format
from truerank.cli.output import emit, say, shown_progress, table_text
from truerank.core.errors import InvalidParameter

if TYPE_CHECKING:
    from truerank.workflows.study import Study


def study(
    data: opt.Data[str],
    model: opt.Models[list[str]],
    estimator: opt.Estimators[list[str]],
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
    split: opt.SplitRule = "leave-last-out",
    seen: opt.Seen = "remove",
    ties: opt.Ties = "expected",
    columns: opt.Columns = None,
    seed: opt.Seed = 0,
    threads: opt.Threads = None,
    keep: opt.Keep = None,
    format: opt.OutputFormat = Format.table,
) -> None:
    """Measure the errors of estimators: rank all items once, and sampled items many times.

    The error is the mean over K of the relative error; "named best" says in how many samples an estimator
    names the model that is best.
    """
    from truerank.cli.dataset import read_split
    from truerank.core.checkpoint import Store
    from truerank.workflows.study import study as run_study

    listed = parse_cutoffs(cutoffs)
    with shown_progress() as progress:
        parts = read_split(data, split=split, columns=columns, seed=seed, progress=progress)
        found = run_study(
            list(model),
            parts,
            sampler,
            list(estimator),
            families=metrics,
            cutoffs=listed,
            repeats=repeats,
            prior_mode=prior_mode,  # type: ignore[arg-type]  # checked with a sentence inside
            ties=ties,  # type: ignore[arg-type]
            seen=seen,  # type: ignore[arg-type]
            seed=seed,
            n_threads=threads,
            store=Store(keep),
            progress=progress,
        )
    say(
        f"{repeats} samples by {sampler}; errors in percent of the exact value, mean over K = {cutoffs} and "
        "over samples; spread over samples."
    )
    if format is Format.json:
        emit(json.dumps(found.to_dict(), indent=2))
        return
    emit(table_text(("metric", "model", "estimator", "error", "spread", "items"), _errors(found), format))
    if len(found.models) > 1 and format is not Format.csv:
        emit("")
        emit(table_text(("metric", "best model", "estimator", "named best"), _winners(found), format))


def parse_cutoffs(text: str) -> list[int]:
    """Return the numbers of a list such as ``1-5,10``.

    Examples
    --------
    >>> parse_cutoffs("1-3,10")
    [1, 2, 3, 10]
    """
    numbers: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if match is None or (match[2] and int(match[2]) < int(match[1])):
            raise InvalidParameter(
                f"--cutoffs must be numbers and ranges such as 1-50 or 1,5,10, got {text!r}."
            )
        numbers.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return sorted(numbers)


def _errors(found: Study) -> list[tuple[str, ...]]:
    mean, spread = found.errors()
    return [
        (
            family,
            model,
            estimator,
            f"{mean[e, m, f]:.2f}",
            f"{spread[e, m, f]:.2f}",
            f"{found.items_per_user[m]:.1f}",
        )
        for f, family in enumerate(found.families)
        for m, model in enumerate(found.models)
        for e, estimator in enumerate(found.estimators)
    ]


def _winners(found: Study) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    shown = [cutoff for cutoff in found.cutoffs if cutoff in (1, 5, 10, 20, 50)] or [found.cutoffs[-1]]
    for family in found.families:
        for cutoff in shown:
            best = found.best(family, cutoff)
            counts = found.winners(family, cutoff)
            rows += [
                (f"{family}@{cutoff}", best, estimator, f"{count} of {found.n_repeats}")
                for estimator, count in zip(found.estimators, counts, strict=True)
            ]
    return rows
