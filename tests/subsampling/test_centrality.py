"""PageRank, and what the published code computed instead."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.stats import spearmanr

from tests.subsampling.literal import dense_page_rank
from tests.subsampling.strategies import drawn_events
from truerank.core.errors import NotConverged
from truerank.core.interactions import Interactions
from truerank.core.types import FloatArray
from truerank.data.catalogue import find_local, load
from truerank.data.demo import demo
from truerank.subsampling import graph as centrality
from truerank.subsampling.base import STRATEGIES
from truerank.subsampling.graph import EventGraph, keep_nodes, page_rank
from truerank.subsampling.selection import EventKeys, descending_order


@given(drawn_events(least=1), st.sampled_from([0.0, 1e-6, 0.5, 0.85, 0.99]))
@settings(max_examples=60, deadline=None)
def test_equals_a_dense_solver(train: Interactions, damping: float) -> None:
    scores = page_rank(EventGraph.of(train), damping=damping, tolerance=1e-12)
    assert np.abs(scores - dense_page_rank(train, damping)).sum() < 1e-11


@pytest.mark.parametrize("damping", [0.3, 0.85])
def test_equals_scikit_network(damping: float) -> None:
    from sknetwork.ranking import PageRank

    draw = np.random.default_rng(4)
    pairs = np.unique(np.minimum(draw.geometric(0.01, (3000, 2)), 400), axis=0)
    train = Interactions.from_codes(*pairs.T)
    scores = page_rank(EventGraph.of(train), damping=damping)
    linked = np.r_[train.user_counts() > 0, train.item_counts() > 0]
    links = np.zeros((len(linked), len(linked)), dtype=np.bool_)
    links[train.user, train.n_users + train.item] = True
    links |= links.T
    peer = PageRank(damping_factor=damping, solver="piteration", n_iter=200, tol=1e-13)
    peer.fit(csr_matrix(links[linked][:, linked], dtype=np.float64))
    assert np.abs(scores[linked] - peer.scores_).sum() < 1e-8
    assert not scores[~linked].any()
    assert (~linked).any()


@pytest.mark.parametrize("damping", [0.85, 0.99])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-12])
def test_the_error_is_within_the_tolerance(damping: float, tolerance: float) -> None:
    """On a path, where scores spread slowly, and on two components of different size."""
    user = np.repeat(np.arange(30), 2)
    item = np.r_[np.arange(30), np.arange(1, 31)].reshape(2, 30).T.ravel()
    train = Interactions.from_codes(np.r_[user, 30, 30], np.r_[item, 31, 32])
    scores = page_rank(EventGraph.of(train), damping=damping, tolerance=tolerance)
    assert np.abs(scores - dense_page_rank(train, damping)).sum() <= tolerance + 1e-13


def test_not_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(centrality, "_MOST_SWEEPS", 2)
    train = Interactions.from_codes([0, 0, 1, 2], [0, 1, 1, 2])
    with pytest.raises(
        NotConverged, match=r"error may still be .* after 2 sweeps\. Lower the damping"
    ) as error:
        page_rank(EventGraph.of(train), damping=0.999)
    assert isinstance(error.value.last, np.ndarray)


def test_graph_without_events() -> None:
    assert page_rank(EventGraph.of(Interactions.from_codes([], [], n_users=2, n_items=1))).tolist() == [
        0,
        0,
        0,
    ]


def shares_of_neighbours(train: Interactions) -> FloatArray:
    """Return the sum over each node's neighbours of 1 / degree."""
    per_user, per_item = train.user_counts(), train.item_counts()
    of_users = np.bincount(train.user, 1 / per_item[train.item], minlength=train.n_users)
    of_items = np.bincount(train.item, 1 / per_user[train.user], minlength=train.n_items)
    return np.concatenate([of_users, of_items])


@pytest.mark.slow
def test_legacy_orders_by_shares_of_neighbours() -> None:
    """With damping 1e-6 the first step decides."""
    train = demo()
    scores = page_rank(EventGraph.of(train), damping=1e-6)
    assert spearmanr(scores, shares_of_neighbours(train)).statistic > 0.99999
    assert spearmanr(scores, EventGraph.of(train).degrees()).statistic < 0.99


@pytest.mark.slow
def test_legacy_keeps_by_shares_of_neighbours() -> None:
    """Scores that differ in the seventh digit only are still told apart."""
    train = demo()
    mask = STRATEGIES.make("centrality(legacy=true, exact=false)").keep(train, 0.4)
    place = descending_order(
        shares_of_neighbours(train), EventGraph.of(train).keys(0, "subsample/centrality")
    )
    keys = EventKeys(train, 0, "test")
    expected = keep_nodes(train, place, 0.4, keys, edges="both", exact=False)
    assert (mask & expected).sum() > 0.999 * (mask | expected).sum()


@pytest.mark.data
@pytest.mark.skipif(find_local("ml-100k") is None, reason="ml-100k is not on this machine")
def test_legacy_on_ml_100k() -> None:
    """The specification's figures: Spearman .971, kept sets' Jaccard .92/.79/.54 at 20/60/90 % removed."""
    train = load("ml-100k")
    graph = EventGraph.of(train)
    scores, legacy = page_rank(graph), page_rank(graph, damping=1e-6)
    assert spearmanr(scores, legacy).statistic == pytest.approx(0.971, abs=5e-4)
    for fraction, expected in ((0.8, 0.92), (0.4, 0.79), (0.1, 0.54)):
        a, b = (
            STRATEGIES.make(spec).keep(train, fraction)
            for spec in ("centrality(edges=both, exact=false)", "centrality(legacy=true, exact=false)")
        )
        assert (a & b).sum() / (a | b).sum() == pytest.approx(expected, abs=0.006)
