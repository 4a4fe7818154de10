"""``truerank agreement``: whether models fitted to sub-samples keep the order they have on all events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from truerank.cli import options as opt
from truerank.cli.completion import plugin_names
from truerank.cli.interrupt import tell_kept
from truerank.cli.options import Format
from truerank.cli.output import SUFFIXES, Parts, check_file, say, show, shown_progress, table_of, write_page
from truerank.core.errors import InvalidParameter

if TYPE_CHECKING:
    from truerank.workflows.agreement.experiment import AgreementExperiment
    from truerank.workflows.agreement.result import Agreement, Which


def agreement(
    data: opt.Data[str],
    strategies: Annotated[
        str,
        typer.Option(
            help="How events are sub-sampled, separated by commas.", autocompletion=plugin_names("strategies")
        ),
    ] = "random,stratified,random-user,head-user,random-walk",
    fractions: Annotated[
        str, typer.Option(help="Fractions of the train events to keep, separated by commas.")
    ] = "0.5,0.2,0.1",
    models: Annotated[
        str | None,
        typer.Option(
            help="Two or more models, separated by commas; those of the paper by default.",
            autocompletion=plugin_names("models"),
        ),
    ] = None,
    scenario: Annotated[
        str, typer.Option(help="explicit, implicit or sequential; several separated by commas.")
    ] = "implicit",
    seeds: Annotated[int, typer.Option(help="How many times everything is repeated.")] = 3,
    grid: Annotated[
        str,
        typer.Option(
            help="Grid of hyper-parameters to search: none, reduced, reduced-rates, repo, paper or "
            "paper-large."
        ),
    ] = "none",
    keep: opt.Keep = None,
    workers: Annotated[int, typer.Option(help="Processes that work at the same time.")] = 1,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Fit on a cluster, such as dask(address=tcp://host:8786), whose workers all reach --keep.",
            autocompletion=plugin_names("engines"),
        ),
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="Agreement over certain pairs that counts as the same order.")
    ] = 0.8,
    least_events: Annotated[
        int, typer.Option(help="Skip sub-samples with fewer train events; their taus are missing.")
    ] = 0,
    least_users: Annotated[int, typer.Option(help="Skip sub-samples with train events of fewer users.")] = 0,
    least_items: Annotated[int, typer.Option(help="Skip sub-samples with train events of fewer items.")] = 0,
    level: opt.Level = 0.95,
    resamples: opt.Resamples = 400,
    by_metric: Annotated[bool, typer.Option("--by-metric", help="Also show each metric separately.")] = False,
    columns: opt.Columns = None,
    time_format: opt.TimeFormat = None,
    drop_missing: opt.DropMissing = False,
    duplicates: opt.Duplicates = "last",
    seed: opt.Seed = 0,
    format: opt.OutputFormat = Format.table,
    out: opt.Out = None,
    report: opt.Report = None,
) -> None:
    """Fit models to all events and to sub-samples; print which of these keep their order.

    tau is Kendall's tau-b between the order of the models on all events and on the sub-sample; "certain"
    counts only pairs of models whose difference on all events is significant, over users and seeds.
    """
    from truerank.cli.dataset import read_events
    from truerank.workflows.agreement.experiment import AgreementExperiment
    from truerank.workflows.agreement.plan import make_plan

    check_file(out, "--out", SUFFIXES)
    check_file(report, "--report")
    plan = make_plan(
        strategies,
        parse_fractions(fractions),
        scenario,
        models,
        seeds=seeds,
        seed=seed,
        grid=grid,
        level=level,
        resamples=resamples,
        threshold=threshold,
        least_events=least_events,
        least_users=least_users,
        least_items=least_items,
    )
    with shown_progress() as progress:
        events = read_events(
            data,
            columns=columns,
            duplicates=duplicates,
            time_format=time_format,
            drop_missing=drop_missing,
            progress=progress,
        )
        experiment = AgreementExperiment(plan, events, folder=keep, workers=workers, engine=engine)
        done, total = experiment.progress()
        if done:
            more = "; continuing" if done < total else ""
            say(f"{done} of {total} parts were finished by earlier runs{more}.")
        tell_kept(lambda: _remaining(experiment))
        result = experiment.run(progress)
    for problem in result.problems:
        say(f"note: not fitted: {problem}")
    for skipped in result.skipped:
        say(f"note: skipped: {skipped}")
    show(lambda style: _parts(result, style, by_metric), format, out)
    if report is not None:
        from truerank.report.charts.agreement import agreement_document

        write_page(agreement_document(result), report)


def parse_fractions(text: str) -> list[float]:
    """Return the numbers of a list such as ``0.5,10%``.

    Examples
    --------
    >>> parse_fractions("0.5, 10%")
    [0.5, 0.1]
    """
    fractions = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d*\.?\d+(?:[eE]-?\d+)?)\s*(%?)\s*", part)
        if match is None:
            raise InvalidParameter(
                f"--fractions must be numbers between 0 and 1 such as 0.5,0.1 or 50%,10%, got {text!r}."
            )
        fractions.append(float(match[1]) / (100 if match[2] else 1))
    return fractions


def _remaining(experiment: AgreementExperiment) -> str:
    done, total = experiment.progress()
    if experiment.folder is None:
        return "Nothing was kept; with --keep FOLDER a later run continues where this one stopped."
    return (
        f"{done} of {total} parts are finished and kept in '{experiment.folder}'; "
        "run the same command again to continue."
    )


def _parts(result: Agreement, style: Format, by_metric: bool) -> Parts:
    if style is Format.json:
        return [result.to_json()]
    if style is Format.csv:
        fields = list(result.cells[0].__dataclass_fields__)
        return [table_of(fields, [[getattr(cell, name) for name in fields] for cell in result.cells])]
    tables: tuple[Which, ...] = ("fractions", "metrics", "strategies", "models")
    chosen = tables if by_metric else (tables[0], *tables[2:])
    return [*(result.to_table(which) for which in chosen), result.answer]
