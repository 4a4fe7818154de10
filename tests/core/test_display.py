"""What consoles, notebooks and data frames show of results and data."""

from __future__ import annotations

import re
import sys
from functools import cache
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import polars as pl
import pytest

import truerank
from truerank.core.display import Displayed, Overview
from truerank.core.errors import MissingDependency
from truerank.core.interactions import Interactions
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.result import Estimate, Result
from truerank.core.split import Split
from truerank.core.table import Table

NASTY = "<script>alert('x')</script>&amp;"
RANKS = Ranks.single([0, 3, 8], n_pool=10)
SAMPLE = SampledRanks.single([0, 1, 4] * 20, n_negatives=5, n_pool=100)
TRAIN = Interactions.from_codes([0, 0, 1, 2], [0, 1, 1, 2], n_users=3, n_items=4, name="tiny")
TEST = Interactions.from_codes([1, 2], [0, 3], n_users=3, n_items=4, name="tiny")
SPLIT = Split(TRAIN, TEST, method="leave-last-out")
RESULT = Result(
    "evaluate",
    (Estimate(NASTY, "auc", 0.8, 0.7, 0.9, 0.95, n_users=3), Estimate("b", "auc", 0.6, n_users=3)),
    data={"name": "tiny"},
    notes=(f"a note on {NASTY}",),
)
TEXTS = {
    "interactions": r"<Interactions 'tiny': 3 users, 4 items, 4 events>",
    "split": r"<Split of 'tiny' by leave-last-out: 4 train, 2 test events>",
    "ranks": r"<Ranks of 3 targets of 3 users among up to 10 items>",
    "sampled": r"<SampledRanks of 60 targets of 60 users among 5 negatives \(uniform\)>",
    "result": r"<Result of evaluate on tiny: 2 models, 1 metric>\nmodel .*\n<script>.* 0\.8000 \[0\.70",
    "comparison": r"<Comparison of 2 models: 0 of 1 difference decided>\nA .*\n<script>",
    "plan": r"<Plan: half-width 0\.1 for 60 users, 100 items>\nRank all items for \d+ of the 60 users",
    "study": r"<Study of 2 repeats: relative errors over cut-offs>\nmetric +model +estimator",
    "sub-sample": r"<Sub-sample of 'tiny': 2 events>\n +all +kept\nevents +4 +2\n",
    "table": r"<Table 'T' of 1 row>\na\nx\nso\Z",
    "registry": r"<\d+ metrics: ap, auc, err, hit, ",
}


@cache
def displayed() -> dict[str, Displayed]:
    """Return one object of each kind."""
    ranks = {NASTY: RANKS, "b": Ranks.single([1, 2, 9], n_pool=10)}
    return {
        "interactions": TRAIN,
        "split": SPLIT,
        "ranks": RANKS,
        "sampled": SAMPLE,
        "result": RESULT,
        "comparison": truerank.compare(ranks, metrics="recall@2"),
        "plan": truerank.plan(SAMPLE, "recall@10", half_width=0.1),
        "study": truerank.study("popularity", SPLIT, "full", "naive", cutoffs=[1, 2], repeats=2),
        "sub-sample": truerank.subsample(TRAIN, "random", 0.5),
        "table": Table(("a",), (("x",),), title="T", notes=("so",)),
        "registry": truerank.METRICS,
    }


each = pytest.mark.parametrize("name", TEXTS)


class Tags(HTMLParser):
    """Which tags a page has, and the text between them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.slow
@each
def test_text(name: str) -> None:
    text = repr(displayed()[name])
    assert re.match(TEXTS[name], text), text
    assert len(text.splitlines()) < 25


@pytest.mark.slow
@each
def test_notebooks_show_escaped_html(name: str) -> None:
    shown = displayed()[name]
    page = Tags(shown._repr_html_())
    assert set(page.tags) <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td"}
    assert shown.overview().title in page.text
    assert (NASTY in page.text) == (name in ("result", "comparison"))


@pytest.mark.slow
@each
def test_frames(name: str) -> None:
    shown = displayed()[name]
    frame, twin = shown.to_polars(), shown.to_pandas()
    assert isinstance(frame, pl.DataFrame)
    assert isinstance(twin, pd.DataFrame)
    assert list(twin.columns) == frame.columns
    assert len(twin) == len(frame) > 0
    for column in frame.columns:
        values = [None if value is None or value != value else value for value in twin[column]]
        assert values == frame[column].to_list()


def test_a_result_has_a_row_per_estimate_and_bound() -> None:
    bound = Estimate("b", "auc", 0.5, 0.4, 0.6, kind="bound")
    frame = Result("evaluate", RESULT.estimates, bounds=(bound,)).to_polars()
    assert frame["value"].to_list() == [0.8, 0.6, 0.5]
    assert frame["kind"].to_list() == ["exact", "exact", "bound"]
    assert frame["n_negatives"].dtype == pl.Float64


def test_a_split_says_which_part() -> None:
    assert SPLIT.to_polars()["split"].to_list() == ["train"] * 4 + ["test"] * 2


def test_interactions_show_their_first_events() -> None:
    many = Interactions.from_codes(
        np.arange(9), np.arange(9), time=np.arange(9), value=np.linspace(1, 5, 9), name="many"
    )
    assert repr(many) == "<Interactions 'many': 9 users, 9 items, 9 events with ratings and times>"
    page = Tags(many._repr_html_())
    assert page.tags.count("tr") == 6
    assert "The first 5 of 9 events." in page.text
    assert repr(many.take(np.zeros(0, np.int64))) == (
        "<Interactions 'many': 9 users, 9 items, 0 events with ratings and times>"
    )


def test_nothing_ranked_is_shown_too() -> None:
    assert repr(Ranks.single([], n_pool=10)) == "<Ranks of 0 targets of 0 users>"


def test_long_tables_are_cut_and_counted() -> None:
    table = Table(("a", "b"), tuple((str(at), "x") for at in range(100)))
    assert repr(table).splitlines()[-1] == "... and 80 more rows"
    assert "... and 40 more rows" in table._repr_html_()
    assert "more row" not in table.text()


def test_cells_of_several_lines_stay_in_their_row() -> None:
    assert Table(("a", "b"), (("x\ny", "1"),)).text() == "a     b\nx\\ny  1"


def test_without_pandas_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        MissingDependency, match=r"^to_pandas\(\) needs pandas\. Install it with: pip install"
    ):
        RESULT.to_pandas()


def test_an_overview_may_be_a_title_alone() -> None:
    assert Overview("so & so").text() == "<so & so>"
    assert Overview("so & so").html() == "<div><b>so &amp; so</b></div>"


def test_a_table_without_columns_is_shown_as_nothing() -> None:
    """What a file can hold can be shown."""
    assert Table((), ()).text() == Table((), ((), ())).text() == ""
