"""The events that a command names: read, filtered and split."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from truerank.cli.messages import is_given, name_options
from truerank.cli.output import say
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.progress import Progress
from truerank.core.split import Split
from truerank.core.table import count_of
from truerank.data import clean
from truerank.data.catalogue import open_data
from truerank.data.read import read_interactions
from truerank.data.table import parse_columns
from truerank.split.base import SPLITS
from truerank.split.notes import data_notes


def read_events(
    data: str,
    *,
    columns: str | None = None,
    duplicates: str = "last",
    time_format: str | None = None,
    drop_missing: bool = False,
    progress: Progress,
) -> Interactions:
    """Read all events without a split, and say what was merged and dropped."""
    events = open_data(
        data,
        columns=parse_columns(columns) if columns is not None else None,
        duplicates=duplicates,
        time_format=time_format,
        drop_missing=drop_missing,
        progress=progress,
        tell=say,
    )
    for note in data_notes(events.origin):
        say(note)
    return events


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
    graded: bool = False,
    seen: str | None = None,
    seed: int,
    progress: Progress,
) -> Split:
    """Read, filter and split, and say what was merged and dropped and what train and test share.

    A test file is read against the vocabularies of the train file, and filters hold for it too: events rated
    too low leave, and those of users and items that left train. Commands that rank say what becomes of
    ``seen`` items: where these are kept, a pair of user and item may lie in train and test. Of a ``graded``
    test part the ratings say how relevant an item is, so that events rated too low leave train alone.
    """
    least_in_train = min_rating if graded else None
    min_rating = None if graded else min_rating
    if test is not None and is_given("split"):
        raise InvalidParameter(
            "--test names the held-out events, and --split makes them. Give one of the two."
        )
    if test == Path():
        raise InvalidParameter(
            "--test must name a file of events, got the working directory or an empty name."
        )
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
    whole = events
    events = _filter(events, min_rating=min_rating, core=core, min_history=min_history, duplicates=duplicates)
    if test is None:
        is_repeated = duplicates == "keep" and seen is not None
        parts = splitter.split(events, seed=seed, repeated="keep" if is_repeated else "refuse")
        return _told(parts, seen, least_in_train)
    targets = read_interactions(
        test,
        columns=names,
        duplicates="keep" if is_filtered else duplicates,
        time_format=time_format,
        times="optional",
        drop_missing=drop_missing,
        vocabularies=(whole.users, whole.items),
        progress=progress,
        tell=say,
    )
    n_before = len(targets)
    if whole is not events:
        targets = _filter_targets(targets, events, test, min_rating=min_rating)
    n_removed = n_before - len(targets)
    if is_filtered:
        targets = clean.merge_duplicates(targets, duplicates)
    counts = {f"test_{name}": count for name, count in targets.origin.items()}
    if n_removed:
        counts["test_events_filtered"] = n_removed
        say(f"{test}: filters removed {n_removed:,} of {count_of(n_before, 'event')}.")
    for note in data_notes(targets.origin):
        say(f"{test}: {note}")
    parts = Split(events, targets, method=f"file({test.name})", counts=counts, repeats=seen is not None)
    return _told(parts, seen, least_in_train)


def _with_rated_train(parts: Split, least: float) -> Split:
    """Return the parts without train and validation events that are rated too low."""
    before, after = len(parts.train) + len(parts.valid or ()), []
    for part in (parts.train, parts.valid):
        if part is not None and part.value is None:
            raise InvalidData(
                f"{part.name!r} must have ratings to be filtered by --min-rating, but has none."
            )
        after.append(None if part is None or part.value is None else part.where(part.value >= least))
    train, valid = after
    if train is None or not len(train):
        raise InvalidData(f"train must have events rated at least {least:g}. Lower --min-rating.")
    n_removed = before - len(train) - len(valid or ())
    say(f"{n_removed:,} of {before:,} train and validation events are rated below {least:g} and left out.")
    counts = {**parts.counts, "train_events_filtered": n_removed}
    return replace(parts, counts=counts, train=train, valid=valid if valid else None)


def _filter_targets(
    targets: Interactions, train: Interactions, test: Path, *, min_rating: float | None
) -> Interactions:
    """Keep the targets that are rated high enough and whose user and item the filters left in train."""
    user = train.users.encode(targets.users.ids)[targets.user]
    item = train.items.encode(targets.items.ids)[targets.item]
    kept = (user >= 0) & (item >= 0)
    if min_rating is not None:
        if targets.value is None:
            raise InvalidData(f"'{test}' must have ratings to be filtered by --min-rating, but has none.")
        kept &= targets.value >= min_rating
    if not kept.any():
        raise InvalidData(f"'{test}' must have events that pass the filters, but none is left. Lower them.")
    return replace(
        targets.where(kept),
        user=user[kept].astype(np.int32),
        item=item[kept].astype(np.int32),
        users=train.users,
        items=train.items,
    )


def _told(parts: Split, seen: str | None, least_in_train: float | None) -> Split:
    """Say what there is to know about the parts; raise where seen targets would not compete."""
    if least_in_train is not None:
        parts = _with_rated_train(parts, least_in_train)
    repeated = parts.overlap["targets_in_train"] if parts.repeats else 0
    if seen != "keep" and repeated:
        raise InvalidData(
            f"{repeated:,} of {len(parts.test):,} held-out events are of items that the user has train "
            "events with, and these do not compete. To evaluate buying again, use --seen keep; else leave "
            "them out, or merge repeated pairs by --duplicates last."
        )
    if parts.repeats and (seen != "keep" or (parts.valid is None and not repeated)):
        parts = replace(parts, repeats=False)
    for note in data_notes(parts.summary()):
        say(name_options(note, {"duplicates": "--duplicates", "seen": "--seen"}))
    return parts


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
