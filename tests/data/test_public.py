"""The public data sets that lie on this machine have the sizes the catalogue states."""

from __future__ import annotations

import hashlib
import warnings

import polars as pl
import pytest

from truerank.core.errors import DataWarning
from truerank.data.catalogue import describe, find_local, load
from truerank.data.clean import merge_duplicates, min_history

pytestmark = pytest.mark.data


def skip_unless_here(name: str) -> None:
    if find_local(name) is None:
        pytest.skip(f"{name} lies neither in TRUERANK_DATA nor in ../shared/data")


@pytest.mark.parametrize(
    "name", ["ml-100k", "ml-1m", "citeulike-a", "book-crossing", "lastfm-hetrec", "online-retail-uci"]
)
@pytest.mark.filterwarnings(
    "ignore:blanks or other letters:truerank.core.errors.DataWarning"
)  # book-crossing has eleven
def test_sizes(name: str) -> None:
    skip_unless_here(name)
    entry, events = describe(name), load(name)
    assert (events.n_users, events.n_items) == (entry.n_users, entry.n_items)
    assert events.origin["rows_read"] == entry.n_events
    assert len(events) + events.origin["duplicate_rows"] == entry.n_events


def test_pinterest_is_partial() -> None:
    skip_unless_here("pinterest-20")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        events = load("pinterest-20")
    if "partial" in events.origin:
        assert [warning.category for warning in caught] == [DataWarning]
        assert (events.n_users, events.n_items, len(events)) == (37_501, 9_836, 1_000_154)


def test_a_checksum_found_again() -> None:
    """The file that UCSD offers, rebuilt from a copy of one project, has the checksum that another states."""
    skip_unless_here("amazon-magazine-subscriptions")
    copy = find_local("amazon-magazine-subscriptions")
    if copy is None or copy.suffix != ".parquet":
        pytest.skip("the copy here is a file of another form")
    events = pl.read_parquet(copy).select("item", "user", pl.col("rating").cast(pl.Float64), "timestamp")
    lines = events.write_csv(include_header=False, line_terminator="\r\n")
    (file,) = describe("amazon-magazine-subscriptions").files
    assert file.checksum == "sha256:" + hashlib.sha256(lines.encode()).hexdigest()


def test_rule_of_svp_cf() -> None:
    """12,689 events of 3,092 users with 1,305 items: rows counted before repeated pairs are merged."""
    skip_unless_here("amazon-magazine-subscriptions")
    raw = load("amazon-magazine-subscriptions", duplicates="keep")
    assert (raw.n_users, raw.n_items, len(raw)) == (72_098, 2_428, 89_689)
    events = min_history(raw, 3)
    assert (events.n_users, events.n_items, len(events)) == (3_092, 1_305, 12_689)
    merged = merge_duplicates(events)
    assert merged.origin["duplicate_rows"] == 472
    skip_unless_here("amazon-magazine-svpcf")
    same = load("amazon-magazine-svpcf")
    assert same.users == merged.users
    assert same.items == merged.items
    assert sorted(zip(same.user, same.item, strict=True)) == sorted(
        zip(merged.user, merged.item, strict=True)
    )
