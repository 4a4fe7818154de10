"""Tables as shown."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.pictures import make_many
from truerank.core.table import Table
from truerank.report.charts.top_k import thinned_cutoffs
from truerank.report.shown_table import chart_data_table, round_rows, table_for_page


def test_long_tables_are_thinned_to_round_numbers_and_say_so() -> None:
    """Of 300 rows those at round K stay, with the values of the whole table."""
    chart = make_many()
    sheet = chart_data_table(chart)
    rows = sheet.table.rows
    assert [row[0] for row in rows[:12]] == ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "15", "20"]
    assert rows[-1][0] == "300"
    assert set(rows) <= set(chart.table().rows)
    assert sheet.note == f"{len(rows)} of 300 rows are shown: round values, the first and the last."


def test_tables_that_fit_are_whole() -> None:
    places = [float(n) for n in range(60)]
    assert sum(round_rows(places)[0]) <= 60
    assert table_for_page(Table(("a",), (("1",),))).note == ""


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e9, 1e9), min_size=61, max_size=900, unique=True).map(sorted))
def test_thinning_keeps_few_and_both_ends(places: list[float]) -> None:
    keep, _ = round_rows(places)
    assert len(keep) == len(places)
    assert keep[0]
    assert keep[-1]
    assert 12 <= sum(keep) <= 61


def test_ten_is_among_the_cutoffs_shown() -> None:
    """Whatever the pool, the cut-offs that people ask for are in the table."""
    for largest in (100, 3706, 10**7):
        cutoffs = thinned_cutoffs(largest).tolist()
        keep, which = round_rows(cutoffs)
        assert which == "round values"
        assert {1, 5, 10, 20, 50, 100} <= {cutoff for cutoff, kept in zip(cutoffs, keep, strict=True) if kept}


def test_long_text_may_break() -> None:
    """Numbers stand on the right, short text is never broken, long text may be."""
    table = Table(("a", "b", "c"), (("x", "1.5 (1 to 2)", "y" * 50), ("x", "\N{EN DASH}", "")))
    assert table_for_page(table).kinds == ("short", "number", "long")
    assert table_for_page(Table(("a",), ())).kinds == ("short",)


@pytest.mark.parametrize(
    ("row", "stacking"),
    [
        (("ease", "0.1"), ""),
        (("ease", *("0.1234",) * 5), "narrow"),
        (("ease", "a text of many words that is wrapped between them, however long it may be"), ""),
        (("ease", "68fad0c55045051b7e7ed16d43c5be2e"), "narrow"),
        (("ease", *("0.1234 (0.1 to 0.2)",) * 7), "broad dense"),
    ],
    ids=["small", "numbers", "words", "one long word", "wide"],
)
def test_rows_are_stacked_where_a_table_does_not_fit(row: tuple[str, ...], stacking: str) -> None:
    """Numbers and words that cannot be broken decide how wide a table is."""
    columns = tuple(f"c{n}" for n in range(len(row)))
    assert table_for_page(Table(columns, (row,))).stacking == stacking
