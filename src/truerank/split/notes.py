"""Sentences on what was merged, dropped and shared between train and test, from the counts of a split.

Commands say them on stderr, and they stand in the notes of a result. All counts are in the result's data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truerank.core.table import count_of

#: Share of held-out events from which it is said that they share a time, or an item, with train events.
LEAST_SHARE = 0.01


def data_notes(counts: Mapping[str, Any]) -> list[str]:
    """Return what to know about the data before believing a metric on them, a sentence each.

    Parameters
    ----------
    counts : as ``Split.summary`` gives them

    Examples
    --------
    >>> data_notes({"rows_read": 10, "duplicate_rows": 4, "n_test": 5, "targets_at_train_times": 0})
    ['4 of 10 rows repeat a pair of user and item and were merged into one event per pair.']
    """
    n_rows, n_test = int(counts.get("rows_read", 0)), int(counts.get("n_test", 0))
    notes = []
    if counts.get("missing_rows"):
        notes.append(f"{_of(counts['missing_rows'], n_rows)} rows have a missing value and were dropped.")
    if counts.get("unknown_rows"):
        rows = _of(counts["unknown_rows"], n_rows)
        notes.append(f"{rows} rows have a user or item that train lacks and were dropped.")
    if counts.get("duplicate_rows"):
        rows = _of(counts["duplicate_rows"], n_rows)
        notes.append(f"{rows} rows repeat a pair of user and item and were merged into one event per pair.")
    if counts.get("events_filtered"):
        names = ("event", "user", "item")
        events, users, items = (count_of(int(counts.get(f"{name}s_filtered", 0)), name) for name in names)
        notes.append(f"Filters removed {events}; {users} and {items} have no event any more.")
    if counts.get("events_dropped"):
        notes.append(f"The split left {counts['events_dropped']:,} events out.")
    if counts.get("times_left_out"):
        notes.append("Times could not be read and are not used.")
    return [*notes, *_shared(counts, n_test)]


def _shared(counts: Mapping[str, Any], n_test: int) -> list[str]:
    """Return sentences on what many held-out events have in common with train events."""
    notes = []
    at_train_times = int(counts.get("targets_at_train_times", 0))
    if at_train_times and at_train_times >= LEAST_SHARE * n_test:
        by_time = str(counts.get("split", "")).startswith("leave-last-out")
        order = ", and the order of the file decides which event is the last" if by_time else ""
        notes.append(
            f"{_share(at_train_times, n_test)} have the time of a train event of the same user: the model "
            f"has seen a part of the same basket{order}. Split 'last-basket' holds out whole baskets, "
            "'last-days' whole days."
        )
    in_train, repeated = (int(counts.get(f"targets_{name}", 0)) for name in ("in_train", "repeated"))
    if in_train:
        notes.append(
            f"{_share(in_train, n_test)} are of items that the user has train events with too: buying "
            "again is evaluated."
        )
    elif repeated and repeated >= LEAST_SHARE * n_test:
        notes.append(
            f"{_share(repeated, n_test)} are of items that the user has several rows with, and are "
            "ranked as if they were new. To evaluate buying again, use duplicates='keep' and seen='keep'."
        )
    return notes


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}" if whole else f"{part:,}"


def _share(part: int, n_test: int) -> str:
    return f"{part:,} of {n_test:,} held-out events ({100 * part / n_test:.0f} %)"
