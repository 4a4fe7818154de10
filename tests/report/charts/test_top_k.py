"""Shares of targets within the top K."""

from __future__ import annotations

import numpy as np
import pytest

from tests.report.results import make_result
from truerank.core.ranks import Ranks
from truerank.report.charts.top_k import fraction_in_top, random_fraction_in_top, thinned_cutoffs, top_k_chart


def test_share_by_definition() -> None:
    """The share at K counts mid ranks of at most K."""
    stream = np.random.default_rng(1)
    above, tied = stream.integers(0, 20, 50), stream.integers(0, 5, 50)
    ranks = Ranks.single(above, n_pool=25, n_tied=tied)
    cutoffs = np.arange(1, 26)
    expected = [
        sum(a + t / 2 + 1 <= cutoff for a, t in zip(above, tied, strict=True)) / 50 for cutoff in cutoffs
    ]
    assert fraction_in_top(ranks, cutoffs).tolist() == expected


@pytest.mark.parametrize("largest", [1, 2, 10, 3706, 10_000_000])
def test_cutoffs_are_few_and_span_the_pool(largest: int) -> None:
    """At most 400 ascending cut-offs from 1 to the largest pool, 10 among them."""
    cutoffs = thinned_cutoffs(largest)
    assert len(cutoffs) <= 400
    assert cutoffs[0] == 1
    assert cutoffs[-1] == largest
    assert (np.diff(cutoffs) > 0).all()
    assert min(10, largest) in cutoffs


def test_chance_is_the_diagonal() -> None:
    """With one pool size a random order gives K / N."""
    assert random_fraction_in_top(np.array([8, 8]), np.array([1, 2, 8])).tolist() == [1 / 8, 2 / 8, 1.0]


def test_ends_at_one() -> None:
    """Every target lies within its pool; models come in the order asked for, chance is dashed and grey."""
    result = make_result()
    chart = top_k_chart(result.ranks, ("ease(reg=500)", "nobody", "popularity", "ease(reg=500)"))
    assert chart is not None
    chance, *models = chart.series
    assert chance.is_dashed
    assert (chance.model, chance.y[-1]) == ("", 1.0)
    assert [series.model for series in models] == ["ease(reg=500)", "popularity"]
    for series in models:
        assert series.y[-1] == 1
        assert series.y[series.x.index(10)] == fraction_in_top(result.ranks[series.model], np.array([10]))[0]
    assert "Within the top 10: ease(reg=500) " in chart.words


def test_no_ranks_no_chart() -> None:
    """Neither no ranks nor empty ones give a chart."""
    assert top_k_chart({}, ("popularity",)) is None
    assert top_k_chart({"popularity": Ranks.single([], n_pool=5)}, ("popularity",)) is None


def test_pool_of_one_item() -> None:
    """A pool that holds nothing but the target has one cut-off."""
    chart = top_k_chart({"popularity": Ranks.single([0], n_pool=1)}, ("popularity",))
    assert chart is not None
    assert chart.series[0].x == (1,)
