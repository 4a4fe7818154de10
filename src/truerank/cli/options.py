"""Arguments and options that several commands share, each declared once.

An alias holds the help text and the shell completion. The command adds the default, and the type where
commands differ: ``seed: opt.Seed = 0``, ``data: opt.Data[str]``. What one command takes is declared there.
"""

from __future__ import annotations

from copy import copy
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from truerank.cli.completion import data_names, plugin_names
from truerank.core.errors import InvalidParameter

T = TypeVar("T")


class Format(StrEnum):
    """How a command prints its data."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"
    latex = "latex"


class Answer(StrEnum):
    """Yes or no; an option that was not given is neither."""

    true = "true"
    false = "false"


def with_data(alias: Any) -> Any:
    """Return the declaration behind an alias for a command where the option needs ``--data``."""
    declared = copy(alias.__metadata__[0])
    declared.help = f"With --data: {declared.help[0].lower()}{declared.help[1:]}"
    return declared


def sampler_spec(negatives: int | None, sampler: str | None) -> str | None:
    """Return the sampler that ``--negatives`` or ``--sampler`` asks for; None ranks all items."""
    if negatives is not None and sampler is not None:
        raise InvalidParameter("give either --negatives or --sampler, not both: --sampler sets the size too.")
    return sampler if negatives is None else f"uniform(m={negatives})"


# The events, the split and the models
Data = Annotated[
    T,
    typer.Argument(
        help="A file of events, a data set of the catalogue such as ml-1m, or demo.",
        autocompletion=data_names,
    ),
]
Models = Annotated[
    T,
    typer.Option(
        help="A model such as ease(reg=500); may be given several times.",
        autocompletion=plugin_names("models"),
    ),
]
SplitRule = Annotated[
    str,
    typer.Option(
        help="How events are split into train, validation and test.", autocompletion=plugin_names("splits")
    ),
]
TestFile = Annotated[Path | None, typer.Option(help="Take the test events from this file; nothing is split.")]
Users = Annotated[
    float | None,
    typer.Option(
        help="Evaluate a random sample of test users: this many or, below 1, this fraction of them."
    ),
]
Columns = Annotated[
    str | None,
    typer.Option(help="Names of columns: user=NAME,item=NAME,rating=NAME,timestamp=NAME"),
]
TimeFormat = Annotated[
    str | None,
    typer.Option(
        help="How times are written, such as '%d/%m/%Y %H:%M', or the unit of numbers: s, ms, us, ns."
    ),
]
DropMissing = Annotated[
    bool, typer.Option("--drop-missing", help="Leave out rows without a user, item, rating or time.")
]
Duplicates = Annotated[
    str, typer.Option(help="Repeated user-item pairs: last, first, sum, max, error or keep.")
]
MinRating = Annotated[float | None, typer.Option(help="Keep events rated at least this.")]
Core = Annotated[
    int, typer.Option(help="k-core: keep users and items with at least this many events among those kept.")
]
MinHistory = Annotated[int, typer.Option(help="Keep users with at least this many events.")]

# Ranks and metrics
Metrics = Annotated[
    str, typer.Option(help="Metrics, separated by commas.", autocompletion=plugin_names("metrics"))
]
Gain = Annotated[
    str | None,
    typer.Option(
        help="How much a target is worth to ndcg and err: rating, or rating(form=exp2) for 2^rating - 1. "
        "Then --min-rating is for train and validation events alone.",
        autocompletion=plugin_names("gains"),
    ),
]
Ties = Annotated[
    str,
    typer.Option(help="Order of equal scores: expected (mean over all orders), best, worst or random."),
]
Seen = Annotated[
    str,
    typer.Option(
        help="Items in the user's train or validation events: remove, bottom (rank last) or keep (as "
        "candidates, where people buy again)."
    ),
]
Sampler = Annotated[
    T,
    typer.Option(
        help="How negatives are sampled, such as uniform(m=99).", autocompletion=plugin_names("samplers")
    ),
]
Estimator = Annotated[
    list[str] | None,
    typer.Option(
        help="How metrics are estimated from sampled ranks; smooth by default.",
        autocompletion=plugin_names("estimators"),
    ),
]
Estimators = Annotated[
    list[str] | None,
    typer.Option(
        help="How metrics are estimated from sampled ranks: several, separated by commas or the "
        "option given several times; smooth by default.",
        autocompletion=plugin_names("estimators"),
    ),
]
Threads = Annotated[int | None, typer.Option(help="Threads for ranking; all cores by default.")]
Seed = Annotated[int, typer.Option(help="Seed of all random numbers.")]

# Intervals and bounds
Interval = Annotated[
    str,
    typer.Option(help="Method of the intervals of exact values.", autocompletion=plugin_names("intervals")),
]
Uncertainty = Annotated[
    str,
    typer.Option(help="Method of the intervals of estimates.", autocompletion=plugin_names("uncertainties")),
]
Level = Annotated[float, typer.Option(help="Confidence level of the intervals.")]
Target = Annotated[
    str,
    typer.Option(
        help="What the intervals cover: the mean over the test-users, or over the population of users."
    ),
]
Resamples = Annotated[int, typer.Option(help="Bootstrap samples of users.")]
Bounds = Annotated[
    bool | None,
    typer.Option(
        "--bounds/--no-bounds",
        help="Show the range of values that the sampled ranks allow; by default unless that takes long.",
        show_default=False,
    ),
]

By = Annotated[
    list[str] | None,
    typer.Option(
        help="Also show values by groups of users or targets: history, activity, popularity, new-items or "
        "column(path=users.csv, name=country); may be given several times.",
        autocompletion=plugin_names("groupings"),
    ),
]

# Files of ranks that do not describe themselves
NItems = Annotated[
    int | None,
    typer.Option(help="Candidates per target, itself included, if the file of ranks has no column for it."),
]
Negatives = Annotated[
    int | None, typer.Option(help="Sampled negatives per target, if the file of ranks has no column for it.")
]
Replacement = Annotated[
    Answer | None,
    typer.Option(
        help="Whether negatives were sampled with replacement, if the file of ranks has no column for it."
    ),
]
ZeroBased = Annotated[bool, typer.Option("--zero-based", help="The best rank in the file is 0.")]

# Where work is done and where results go
WorkDir = Annotated[
    str | None,
    typer.Option(help="With --engine: a folder or URL that all workers can read and write."),
]
Keep = Annotated[
    Path | None, typer.Option(help="Keep finished parts in this folder; a later run continues from there.")
]
OutputFormat = Annotated[
    Format, typer.Option(help="Format of the output: table, json, csv, markdown or latex.")
]
Out = Annotated[
    Path | None, typer.Option(help="Also write the output to this file: .json, .csv, .md, .tex or .txt.")
]
Report = Annotated[Path | None, typer.Option(help="Write a self-contained HTML report to this file.")]
