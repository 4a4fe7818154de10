"""``truerank subsample``: a fraction of a data set, and how it differs from the whole."""

from __future__ import annotations

import json
from glob import has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from truerank.cli import options as opt
from truerank.cli.completion import data_names, plugin_names
from truerank.cli.options import Format
from truerank.cli.output import Parts, say, show, shown_progress, table_of
from truerank.core.errors import InvalidParameter

if TYPE_CHECKING:
    from truerank.subsampling.subsample import SubsampleLoss


def subsample(
    data: Annotated[
        str,
        typer.Argument(
            help="A file of events, a data set of the catalogue such as ml-1m, or demo; or a folder or URL "
            "of Parquet files.",
            autocompletion=data_names,
        ),
    ],
    strategy: Annotated[
        str, typer.Option(help="Which events to keep.", autocompletion=plugin_names("strategies"))
    ],
    fraction: Annotated[float, typer.Option(help="Fraction of the events to keep, between 0 and 1.")],
    out: Annotated[
        str,
        typer.Option(
            help="Write the events to this file: .parquet, .csv or .tsv; those of a folder to this folder."
        ),
    ],
    split: Annotated[
        str | None,
        typer.Option(
            help="Sample only the train part of this split and write all parts, with a column split.",
            autocompletion=plugin_names("splits"),
        ),
    ] = None,
    columns: opt.Columns = None,
    time_format: opt.TimeFormat = None,
    drop_missing: opt.DropMissing = False,
    duplicates: opt.Duplicates = "last",
    engine: Annotated[
        str | None,
        typer.Option(
            help="Where files of a folder are processed: local(threads=2), dask(address=tcp://host:8786)...",
            autocompletion=plugin_names("engines"),
        ),
    ] = None,
    gather: Annotated[
        int | None,
        typer.Option(help="First rewrite a folder's events into this many files, each user in one of them."),
    ] = None,
    work_dir: opt.WorkDir = None,
    seed: opt.Seed = 0,
    format: opt.OutputFormat = Format.table,
) -> None:
    """Write a fraction of the events, with their original ids, and print what has been lost.

    A folder of Parquet files may be larger than memory: it is processed file by file, on the workers of
    --engine if one is given, and the result is a folder of Parquet files.
    """
    from truerank.data.table import parse_columns

    names = None if columns is None else dict(parse_columns(columns))
    if engine is not None or gather is not None or work_dir is not None or is_partitioned(data):
        if split is not None:
            raise InvalidParameter(
                "--split needs one file, but DATA is a folder. Leave --split out, and split the result."
            )
        if Path(out).suffix.lower() in (".parquet", ".csv", ".tsv"):
            raise InvalidParameter(f"--out must name a folder where DATA is a folder, got '{out}'.")
        if time_format is not None or drop_missing:
            raise InvalidParameter(
                "--time-format and --drop-missing need one file, but DATA is a folder. Leave them out."
            )
        _subsample_files(
            data,
            out,
            strategy,
            fraction,
            engine=engine or "local",
            columns=names,
            duplicates=duplicates,
            gather=gather,
            seed=seed,
            work_dir=work_dir,
            format=format,
        )
        return
    from truerank.cli.dataset import read_events, read_split
    from truerank.core.digest import events_hash
    from truerank.core.random import check_seed
    from truerank.subsampling.base import check_fraction
    from truerank.subsampling.importance import make_strategy
    from truerank.subsampling.subsample import check_path, write_events
    from truerank.subsampling.subsample import subsample as sample_events

    check_path(Path(out))
    check_fraction(fraction)
    check_seed(seed)
    chosen = make_strategy(strategy)
    with shown_progress() as progress:
        if split is None:
            events = read_events(
                data,
                columns=columns,
                duplicates=duplicates,
                time_format=time_format,
                drop_missing=drop_missing,
                progress=progress,
            )
            small = sample_events(events, chosen, fraction, seed=seed, progress=progress)
        else:
            parts = read_split(
                data,
                split=split,
                columns=columns,
                time_format=time_format,
                drop_missing=drop_missing,
                duplicates=duplicates,
                seed=seed,
                progress=progress,
            )
            small = sample_events(parts, chosen, fraction, seed=seed, progress=progress)
    write_events(out, small.train if small.split is None else small.split)
    counts = {} if small.split is None else {"split": small.split.summary()}
    sampled_from = events if split is None else parts.train
    further = {**counts, "provenance": _provenance(events_hash(sampled_from))}
    show(lambda style: _parts(small.loss, style, further), format)
    _say_kept(small.loss, out)
    if small.split is not None:
        counted = small.split.counts
        say(
            f"validation and test are unchanged; {counted['users_without_history']:,} test users and "
            f"{counted['items_without_history']:,} test items have no train event any more"
        )


def is_partitioned(data: str) -> bool:
    """Whether data are a folder, a pattern or a URL of files, to be processed file by file."""
    if not data.strip():  # the reader refuses it; as a path it would be the working directory
        return False
    if "://" in data or (has_magic(data) and not Path(data).exists()):
        return True
    return Path(data).is_dir() and next(Path(data).rglob("*.parquet"), None) is not None


def _subsample_files(
    data: str, out: str, strategy: str, fraction: float, *, format: Format, **options: Any
) -> None:
    from truerank.distributed.subsample import subsample_files

    with shown_progress() as progress:
        written = subsample_files(data, out, strategy, fraction, progress=progress, tell=say, **options)
    further = {"files": written.n_files, "provenance": _provenance(written.data_hash)}
    show(lambda style: _parts(written.loss, style, further), format)
    _say_kept(written.loss, f"{written.n_files:,} files to {out}")


def _parts(loss: SubsampleLoss, style: Format, further: dict[str, Any]) -> Parts:
    from truerank.core.provenance import head

    if style is Format.json:
        return [json.dumps({**head("subsample"), **loss.to_dict(), **further}, indent=2)]
    rows = [(name, _shown(before), _shown(after)) for name, before, after in loss.rows()]
    return [table_of(("", "before", "after"), rows)]


def _provenance(data_hash: str) -> dict[str, Any]:
    from truerank.core.provenance import versions

    return {"data_hash": data_hash, "versions": versions()}


def _say_kept(loss: SubsampleLoss, out: str) -> None:
    say(
        f"{loss.after.events:,} of {loss.before.events:,} events kept by {loss.strategy}; "
        f"{loss.users_emptied:,} users and {loss.items_emptied:,} items lost all their events; wrote {out}"
    )


def _shown(value: int | float | None) -> str | None:
    if value is None:
        return None
    return f"{value:.4f}" if isinstance(value, float) else str(value)
