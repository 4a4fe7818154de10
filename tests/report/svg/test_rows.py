"""Charts of rows: pairs named at their dots."""

from __future__ import annotations

import math

import pytest

from truerank.core.chart import Chart, ChartAxis, Series
from truerank.core.ranks import Ranks
from truerank.report.charts.comparison import comparison_document, forest_chart
from truerank.report.layout import ModelStyles
from truerank.report.page import render_document
from truerank.report.svg.rows import paint_rows, short_pair
from truerank.workflows.compare.compare import compare

MINUS = "\N{MINUS SIGN}"


def chart(*series: Series) -> Chart:
    return Chart("k", "title", "", ChartAxis("pair"), ChartAxis("difference"), series, has_rows=True)


def test_rows_have_names_whiskers_and_bounds_on_one_axis() -> None:
    shown = chart(
        Series("bounds", (1.0,), (0.0,), (-0.5,), (0.5,), kind="dots"),
        Series("no difference", (0.5, 2.5), (0.0, 0.0), is_dashed=True),
        Series(f"a {MINUS} b", (1.0,), (0.1,), (-0.1,), (0.3,), kind="dots", model="x"),
        Series(f"a {MINUS} c", (2.0,), (-0.2,), kind="dots", model="y"),
        Series("nothing", (3.0,), (math.nan,), kind="dots", model="z"),
    )
    painted = paint_rows(shown, ModelStyles.of((), [shown]))
    first, second = painted.rows
    assert (first.name, first.text) == (f"a {MINUS} b", "+0.1000")
    assert first.words == f"a {MINUS} b: +0.1000 ({MINUS}0.1000 to +0.3000)"
    assert second.text == f"{MINUS}0.2000"
    assert (second.whisker, second.bound) == (None, None)
    assert painted.zero is not None and first.bound is not None and first.whisker is not None
    assert first.bound[0] < first.whisker[0] < painted.zero < first.place < first.whisker[1] < first.bound[1]
    assert first.style != second.style


@pytest.mark.parametrize(
    ("first", "second"),
    [("ials", "x" * 40), ("y" * 40, "ials"), ("x" * 40, "y" * 40), ("a", "b"), ("only" * 20, "")],
)
def test_names_fit_a_phone(first: str, second: str) -> None:
    label = f"{first} {MINUS} {second}" if second else first
    short = short_pair(label)
    assert len(short) <= 28
    assert short == label if len(label) <= 28 else "…" in short
    if second == "ials":
        assert short.endswith(f"{MINUS} ials")


def test_a_page_names_every_pair() -> None:
    """No numbers with a legend: the pair stands at its row, with the difference beside it."""
    ranks = {
        name: Ranks.single([above % size for above in range(60)], n_pool=70)
        for name, size in (("ease", 20), ("ials", 30), ("pop", 60))
    }
    found = compare(ranks, metrics="recall@10")
    assert forest_chart(found, "recall@10").has_rows
    html = render_document(comparison_document(found))
    for pair in (f"ease {MINUS} ials", f"ease {MINUS} pop", f"ials {MINUS} pop"):
        assert '<text class="label" x="0" y=' in html and f">{pair}</text>" in html
    assert '<ul class="legend">' not in html
