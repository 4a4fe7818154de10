"""``truerank agreement``: which sub-samples keep the order of models."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from truerank.cli.output import Format, emit, prose, render_table, say, shown_progress, table_text
from truerank.cli.prepare import data_names, names_of
from truerank.core.checkpoint import check_output
from truerank.core.errors import InvalidParameter

if TYPE_CHECKING:
    from truerank.workflows.agreement.experiment import AgreementExperiment
    from truerank.workflows.agreement.result import Agreement, Which


def agreement(
    data: Annotated[
        str,
        typer.Argument(help="A file, a catalogue name such as ml-1m, or demo.", autocompletion=data_names),
    ],
    strategies: Annotated[
        str,
        typer.Option(
            help="Which events sub-samples keep, separated by commas.", autocompletion=names_of("strategies")
        ),
    ] = "random,stratified,random-user,head-user,random-walk",
    fractions: Annotated[str, typer.Option(help="Shares of the train events.")] = "0.5,0.2,0.1",
    models: Annotated[
        str | None,
        typer.Option(
            help="Two or more, separated by commas; those of the paper by default.",
            autocompletion=names_of("models"),
        ),
    ] = None,
    scenario: Annotated[
        str, typer.Option(help="explicit, implicit or sequential; several separated by commas.")
    ] = "implicit",
    seeds: Annotated[int, typer.Option(help="How often all is repeated.")] = 3,
    grid: Annotated[
        str, typer.Option(help="Hyper-parameters to try: none, reduced, repo, paper or paper-large.")
    ] = "none",
    keep: Annotated[
        Path | None, typer.Option(help="Keep finished pieces in this folder; a later run goes on from there.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that work at the same time.")] = 1,
    engine: Annotated[
        str | None,
        typer.Option(
            help="Fit on a cluster instead, such as dask(address=tcp://host:8786); --keep must be shared.",
            autocompletion=names_of("engines"),
        ),
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="Agreement over certain pairs that counts as the same order.")
    ] = 0.8,
    level: Annotated[float, typer.Option(help="Confidence level.")] = 0.95,
    resamples: Annotated[int, typer.Option(help="Bootstrap samples of users.")] = 400,
    by_metric: Annotated[bool, typer.Option("--by-metric", help="Show every metric by itself too.")] = False,
    columns: Annotated[
        str | None, typer.Option(help="user=NAME,item=NAME,rating=NAME,timestamp=NAME")
    ] = None,
    duplicates: Annotated[str, typer.Option(help="Repeated pairs: last, first, sum, max or error.")] = "last",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
    report: Annotated[Path | None, typer.Option(help="Write a self-contained HTML report here.")] = None,
) -> None:
    """Fit models to all data and to sub-samples, and say which sub-samples keep their order.

    tau is Kendall's tau-b between the order of the models on the full data and on the sub-sample; "certain"
    counts only pairs whose order on the full data is beyond the doubt of users and seeds.
    """
    from truerank.data.catalogue import open_data
    from truerank.data.table import parse_columns
    from truerank.workflows.agreement.experiment import AgreementExperiment
    from truerank.workflows.agreement.plan import make_plan

    if report is not None:
        check_output(report, "--report")
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
    )
    asked = parse_columns(columns) if columns is not None else None
    with shown_progress() as progress:
        events = open_data(data, columns=asked, duplicates=duplicates, progress=progress, tell=say)
        experiment = AgreementExperiment(plan, events, folder=keep, workers=workers, engine=engine)
        done, total = experiment.progress()
        if done:
            say(f"{done} of {total} pieces were finished before{'; going on' if done < total else ''}.")
        try:
            found = experiment.run(progress)
        except KeyboardInterrupt:
            say(f"truerank: interrupted. {_left(experiment)}")
            raise typer.Exit(130) from None
    for problem in found.problems:
        say(f"note: not fitted: {problem}")
    _print(found, format, by_metric)
    if report is not None:
        from truerank.report.charts.documents import agreement_document
        from truerank.report.page import write_document

        write_document(agreement_document(found), report)
        say(f"wrote {report}")


def parse_fractions(text: str) -> list[float]:
    """Return the numbers of a list such as ``0.5,10%``.

    Examples
    --------
    >>> parse_fractions("0.5, 10%")
    [0.5, 0.1]
    """
    found = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d*\.?\d+(?:[eE]-?\d+)?)\s*(%?)\s*", part)
        if match is None:
            raise InvalidParameter(
                f"--fractions must be numbers between 0 and 1 such as 0.5,0.1 or 50%,10%, got {text!r}."
            )
        found.append(float(match[1]) / (100 if match[2] else 1))
    return found


def _left(experiment: AgreementExperiment) -> str:
    done, total = experiment.progress()
    if experiment.folder is None:
        return "Nothing was kept; with --keep FOLDER a later run goes on where this one stopped."
    return (
        f"{done} of {total} pieces are finished and kept in '{experiment.folder}'; "
        "give the same command again to go on."
    )


def _print(found: Agreement, format: Format, by_metric: bool) -> None:
    if format is Format.json:
        emit(found.to_json())
        return
    if format is Format.csv:
        fields = list(found.cells[0].__dataclass_fields__)
        emit(table_text(fields, [[getattr(cell, name) for name in fields] for cell in found.cells], format))
        return
    tables: tuple[Which, ...] = ("fractions", "metrics", "strategies", "models")
    for which in tables if by_metric else (tables[0], *tables[2:]):
        emit(render_table(found.to_table(which), format))
        emit("")
    emit(prose(found.answer, format))
