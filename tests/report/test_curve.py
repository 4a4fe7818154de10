"""Shares of targets within the top K."""

from __future__ import annotations

import numpy as np
import pytest

from tests.report.results import make_result
from truerank.core.ranks import Ranks
from truerank.report.board import build_board
from truerank.report.curve import chance_share, thinned_cutoffs, top_share, top_share_curve


def test_share_by_definition() -> None:
    """The share at K counts mid ranks of at most K."""
    stream = np.random.default_rng(1)
    above, tied = stream.integers(0, 20, 50), stream.integers(0, 5, 50)
    ranks = Ranks.single(above, n_pool=25, n_tied=tied)
    cutoffs = np.arange(1, 26)
    expected = [
        sum(a + t / 2 + 1 <= cutoff for a, t in zip(above, tied, strict=True)) / 50 for cutoff in cutoffs
    ]
    assert top_share(ranks, cutoffs).tolist() == expected


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
    assert chance_share(np.array([8, 8]), np.array([1, 2, 8])).tolist() == [1 / 8, 2 / 8, 1.0]


def test_ends_at_one() -> None:
    """Every target lies within its pool."""
    result = make_result()
    curve = top_share_curve(result.ranks, build_board(result))
    assert curve is not None
    assert [line.label for line in curve.lines] == [
        "ease(reg=500)",
        "item-knn(power=3, norm=l2)",
        "popularity",
    ]
    for line in curve.lines:
        assert line.shares[-1] == 1
        assert line.points.endswith("1000,0")
        assert all(0 <= x <= 100 and 0 <= y <= 100 for x, y in line.places)


def test_no_ranks_no_curve() -> None:
    """Neither no ranks nor empty ones give a curve."""
    board = build_board(make_result())
    assert top_share_curve({}, board) is None
    assert top_share_curve({"popularity": Ranks.single([], n_pool=5)}, board) is None


def test_pool_of_one_item() -> None:
    """A pool that holds nothing but the target is drawn without error."""
    board = build_board(make_result())
    curve = top_share_curve({"popularity": Ranks.single([0], n_pool=1)}, board)
    assert curve is not None
    assert curve.cutoffs.tolist() == [1]
