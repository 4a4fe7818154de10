"""From what the user names to a split."""

from __future__ import annotations

from pathlib import Path

from truerank.cli.output import say
from truerank.core.errors import InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.progress import Progress
from truerank.core.split import Split
from truerank.data.catalogue import open_data
from truerank.data.clean import k_core, merge_duplicates, min_history, min_rating
from truerank.data.read import read_interactions
from truerank.data.table import parse_columns
from truerank.split.base import SPLITS


def read_split(
    data: str,
    *,
    split: str,
    test: Path | None = None,
    columns: str | None = None,
    duplicates: str = "last",
    least_rating: float | None = None,
    core: int = 0,
    history: int = 0,
    seed: int,
    progress: Progress,
) -> Split:
    """Read, filter and split; with a test file, read it against the vocabularies of the train file."""
    splitter = SPLITS.make(split)
    is_filtered = least_rating is not None or history > 0
    asked = parse_columns(columns) if columns is not None else None
    events = open_data(
        data,
        columns=asked,
        keep=() if test is not None else splitter.columns,
        duplicates="keep" if is_filtered else duplicates,
        progress=progress,
        tell=say,
    )
    events = _filter(events, least_rating=least_rating, core=core, history=history, duplicates=duplicates)
    if test is None:
        return splitter.split(events, seed=seed)
    targets = read_interactions(
        test,
        columns=asked,
        duplicates=duplicates,
        vocabularies=(events.users, events.items),
        progress=progress,
        tell=say,
    )
    return Split(events, targets, method=f"file({test.name})")


def _filter(
    events: Interactions, *, least_rating: float | None, core: int, history: int, duplicates: str
) -> Interactions:
    """Filter by rating and history, merge duplicates unless the reader did, then take the core."""
    if core < 0 or history < 0:
        raise InvalidParameter("--core and --min-history must be at least 0 (0: no filter).")
    if least_rating is not None:
        events = min_rating(events, least_rating)
    if history:
        events = min_history(events, history)
    if least_rating is not None or history:
        events = merge_duplicates(events, duplicates)
    return k_core(events, core, core) if core else events
