"""The events that a command names: read, filtered and split."""

from __future__ import annotations

from pathlib import Path

from truerank.cli.output import say
from truerank.core.errors import InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.progress import Progress
from truerank.core.split import Split
from truerank.data import clean
from truerank.data.catalogue import open_data
from truerank.data.read import read_interactions
from truerank.data.table import parse_columns
from truerank.split.base import SPLITS


def read_split(
    data: str,
    *,
    split: str,
    test: Path | None = None,
    columns: str | None = None,
    time_format: str | None = None,
    drop_missing: bool = False,
    duplicates: str = "last",
    min_rating: float | None = None,
    core: int = 0,
    min_history: int = 0,
    seed: int,
    progress: Progress,
) -> Split:
    """Read, filter and split; with a test file, read it against the vocabularies of the train file."""
    splitter = SPLITS.make(split)
    is_filtered = min_rating is not None or min_history > 0
    names = parse_columns(columns) if columns is not None else None
    events = open_data(
        data,
        columns=names,
        keep=() if test is not None else splitter.columns,
        duplicates="keep" if is_filtered else duplicates,
        time_format=time_format,
        times="needed" if splitter.needs_time and test is None else "optional",
        drop_missing=drop_missing,
        progress=progress,
        tell=say,
    )
    events = _filter(events, min_rating=min_rating, core=core, min_history=min_history, duplicates=duplicates)
    if test is None:
        return splitter.split(events, seed=seed)
    targets = read_interactions(
        test,
        columns=names,
        duplicates=duplicates,
        time_format=time_format,
        times="optional",
        drop_missing=drop_missing,
        vocabularies=(events.users, events.items),
        progress=progress,
        tell=say,
    )
    return Split(events, targets, method=f"file({test.name})")


def _filter(
    events: Interactions, *, min_rating: float | None, core: int, min_history: int, duplicates: str
) -> Interactions:
    """Filter by rating and history, merge duplicates unless the reader did, then take the k-core."""
    if core < 0 or min_history < 0:
        raise InvalidParameter("--core and --min-history must be at least 0, where 0 is no filter.")
    if min_rating is not None:
        events = clean.min_rating(events, min_rating)
    if min_history:
        events = clean.min_history(events, min_history)
    if min_rating is not None or min_history:
        events = clean.merge_duplicates(events, duplicates)
    return clean.k_core(events, core, core) if core else events
