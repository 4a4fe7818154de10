"""``truerank subsample``: a smaller data set, and what it has lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from truerank.cli.complete import data_names, names_of
from truerank.cli.output import Format, emit, say, table_text
from truerank.cli.progress import shown_progress


def subsample(
    data: Annotated[
        str,
        typer.Argument(help="A file, a catalogue name such as ml-1m, or demo.", autocompletion=data_names),
    ],
    strategy: Annotated[
        str, typer.Option(help="Which events to keep.", autocompletion=names_of("strategies"))
    ],
    fraction: Annotated[float, typer.Option(help="Share of the events to keep, 0 to 1.")],
    out: Annotated[Path, typer.Option(help="Where to write the events: .parquet, .csv or .tsv.")],
    split: Annotated[
        str | None,
        typer.Option(
            help="Sample only the train part of this split and write all parts, with a column split.",
            autocompletion=names_of("splits"),
        ),
    ] = None,
    columns: Annotated[
        str | None, typer.Option(help="user=NAME,item=NAME,rating=NAME,timestamp=NAME")
    ] = None,
    duplicates: Annotated[
        str, typer.Option(help="Repeated pairs: last, first, sum, max, error or keep.")
    ] = "last",
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    format: Annotated[Format, typer.Option(help="How to print.")] = Format.table,
) -> None:
    """Keep a fraction of the events, write them with their own ids and say what was lost."""
    from truerank.cli.prepare import prepare
    from truerank.core.strategy import check_fraction
    from truerank.core.stream import check_seed
    from truerank.data import open_data, parse_columns
    from truerank.subsample import write_events
    from truerank.subsample.table import check_path
    from truerank.subsampling import make_strategy
    from truerank.subsampling import subsample as draw

    check_path(out)
    check_fraction(fraction)
    check_seed(seed)
    chosen = make_strategy(strategy)
    with shown_progress() as progress:
        if split is None:
            asked = parse_columns(columns) if columns is not None else None
            events = open_data(data, columns=asked, duplicates=duplicates, progress=progress, tell=say)
            small = draw(events, chosen, fraction, seed=seed, progress=progress)
        else:
            parts = prepare(
                data, split=split, columns=columns, duplicates=duplicates, seed=seed, progress=progress
            )
            small = draw(parts, chosen, fraction, seed=seed, progress=progress)
    write_events(out, small.train if small.split is None else small.split)
    loss = small.loss
    if format is Format.json:
        counts = {} if small.split is None else {"split": small.split.summary()}
        emit(json.dumps({**loss.to_dict(), **counts}, indent=2))
    else:
        rows = [(name, _shown(before), _shown(after)) for name, before, after in loss.rows()]
        emit(table_text(("", "before", "after"), rows, format))
    say(
        f"{loss.after.events:,} of {loss.before.events:,} events kept by {loss.strategy}; "
        f"{loss.users_emptied:,} users and {loss.items_emptied:,} items lost all their events; wrote {out}"
    )
    if small.split is not None:
        counted = small.split.counts
        say(
            f"validation and test are as they were; {counted['users_without_history']:,} test users and "
            f"{counted['items_without_history']:,} test items have no train event now"
        )


def _shown(value: int | float | None) -> str | None:
    if value is None:
        return None
    return f"{value:.4f}" if isinstance(value, float) else str(value)
