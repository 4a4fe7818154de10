"""Walks and fires."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from truerank.core.interactions import Interactions
from truerank.subsampling.base import STRATEGIES
from truerank.subsampling.graph import EventGraph, ForestFire, RandomWalk, VisitStrategy


def visited(strategy: VisitStrategy, train: Interactions, start: int, n_wanted: int, seed: int) -> list[int]:
    """Return the nodes in the order of their visits, from one start only."""
    graph = EventGraph.of(train)
    place = np.full(graph.n_nodes, graph.n_nodes, dtype=np.int32)
    state = np.array([seed], dtype=np.uint64)
    strategy.visit(graph, np.array([start], dtype=np.int32), n_wanted, graph.n_nodes, state, place)
    order = np.argsort(place, kind="stable")
    return [int(node) for node in order[: int((place < graph.n_nodes).sum())]]


@pytest.mark.parametrize("name", ["random-walk", "forest-fire"])
@pytest.mark.parametrize("fraction", [0.02, 0.5, 0.98])
def test_many_components(name: str, fraction: float) -> None:
    """5000 users with an item each: every visit ends at once and another begins."""
    train = Interactions.from_codes(np.arange(5000), np.arange(5000))
    assert STRATEGIES.make(name).keep(train, fraction).sum() == round(fraction * 5000)


@pytest.mark.parametrize("name", ["random-walk", "forest-fire"])
def test_a_path_of_ten_thousand_nodes(name: str) -> None:
    """A walk that always goes back gets nowhere far; it must give up and not step forever."""
    user = np.repeat(np.arange(5000), 2)
    item = np.c_[np.arange(5000), np.arange(1, 5001)].ravel()
    train = Interactions.from_codes(user, item)
    assert STRATEGIES.make(name).keep(train, 0.9).sum() == 9000


def test_a_walk_stays_in_its_component_until_it_is_used_up() -> None:
    """Two blocks: half of the events are those of one block exactly."""
    user, item = np.divmod(np.arange(36), 6)
    train = Interactions.from_codes(np.r_[user, user + 6], np.r_[item, item + 6])
    for name in ("random-walk", "forest-fire(burn=0.2)"):
        for seed in range(20):
            kept = train.user[STRATEGIES.make(name).keep(train, 0.5, seed=seed)]
            assert len(kept) == 36
            assert (kept < 6).all() or (kept >= 6).all()


@pytest.mark.parametrize("strategy", [RandomWalk(restart=0.0), ForestFire()])
def test_one_start_visits_its_whole_component(strategy: VisitStrategy) -> None:
    user = [0, 1, 1, 2, 3]
    train = Interactions.from_codes(user, [0, 0, 1, 1, 2])
    nodes = visited(strategy, train, 0, 5, seed=3)
    assert nodes[0] == 0
    assert sorted(nodes) == [0, 1, 2, 4, 5]  # user 3 and item 2 lie elsewhere


@pytest.mark.stat
@pytest.mark.parametrize("strategy", [RandomWalk(restart=0.3), ForestFire()])
def test_first_visits_are_uniform(strategy: VisitStrategy) -> None:
    """A user with seven items: the second node visited is each of them equally often; level 5e-7 each.

    Negative control: the last node of the component by number, counted as often, must be rejected.
    """
    train = Interactions.from_codes([0] * 7, list(range(7)))
    seeds = np.random.default_rng(0).integers(0, 2**63, 4000)
    second = [visited(strategy, train, 0, 1, seed=int(seed))[1] for seed in seeds]
    counts = np.bincount(second, minlength=8)[1:]
    assert stats.chisquare(counts).pvalue > 5e-7
    skewed = np.bincount([max(a, b) for a, b in zip(second[::2], second[1::2], strict=True)], minlength=8)[1:]
    assert stats.chisquare(skewed).pvalue < 5e-7


@pytest.mark.stat
def test_a_fire_spreads_geometrically() -> None:
    """The first burst from a user with 30 items follows Geometric(0.4) cut at 30; level 1e-6.

    Negative control: the law that begins at 0 must be rejected.
    """
    train = Interactions.from_codes([0] * 30 + list(range(1, 31)), [*range(30), *range(30)])
    sizes = []
    for seed in np.random.default_rng(1).integers(0, 2**63, 3000):
        order = visited(ForestFire(), train, 0, 60, seed=int(seed))
        first = next(k for k, node in enumerate(order[1:]) if node <= 30)  # items follow, then their users
        sizes.append(first)
    observed = np.bincount(np.minimum(sizes, 9), minlength=10)[1:]
    law = stats.geom(0.4).pmf(np.arange(1, 10))
    law[-1] += 1 - law.sum()
    assert stats.chisquare(observed, 3000 * law).pvalue > 1e-6
    shifted = stats.geom(0.4, loc=-1).pmf(np.arange(1, 10))
    shifted[-1] += 1 - shifted.sum()
    assert stats.chisquare(observed, 3000 * shifted).pvalue < 1e-6


def test_graph_is_sorted_and_symmetric() -> None:
    draw = np.random.default_rng(0)
    train = Interactions.from_codes(draw.integers(0, 9, 200), draw.integers(0, 5, 200), n_users=10, n_items=6)
    graph = EventGraph.of(train)
    ends = np.repeat(np.arange(graph.n_nodes), graph.degrees())
    assert (np.diff(graph.neighbours[ends == 0]) >= 0).all()
    pairs = sorted(zip(ends.tolist(), graph.neighbours.tolist(), strict=True))
    assert pairs == list(zip(ends.tolist(), graph.neighbours.tolist(), strict=True))
    expected = list(zip(train.user.tolist(), (train.item + 10).tolist(), strict=True))
    assert pairs == sorted(expected + [(item, user) for user, item in expected])
