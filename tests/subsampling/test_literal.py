"""Every strategy equals its slow twin, event for event."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.subsampling import literal
from tests.subsampling.strategies import drawn_events
from truerank.core.interactions import Interactions
from truerank.core.types import BoolArray
from truerank.subsampling.base import STRATEGIES, largest_count, nearest_count
from truerank.subsampling.graph import EventGraph, page_rank

EVENTS = drawn_events(repeats=False, least=1)
TENTHS = st.integers(1, 99).map(lambda percent: percent / 100)
SEEDS = st.integers(0, 1000)


def kept(spec: str, train: Interactions, fraction: float, seed: int) -> set[literal.Event]:
    mask: BoolArray = STRATEGIES.make(spec).keep(train, fraction, seed=seed)
    return set(literal.events_of(train.where(mask)))


@given(EVENTS, TENTHS, SEEDS)
@settings(max_examples=50, deadline=None)
def test_random(train: Interactions, fraction: float, seed: int) -> None:
    n_keep = nearest_count(fraction, len(train))
    assert kept("random", train, fraction, seed) == literal.random(train, n_keep, seed)


@pytest.mark.parametrize("stage", ["stratified", "temporal"])
@given(EVENTS, TENTHS, SEEDS)
@settings(max_examples=50, deadline=None)
def test_shares_of_histories(stage: str, train: Interactions, fraction: float, seed: int) -> None:
    lengths = {user: int(n) for user, n in enumerate(train.user_counts()) if n}
    n_keep = nearest_count(fraction, len(train))
    quota = literal.quotas(lengths, Fraction(str(fraction)), n_keep, seed, stage)
    assert sum(quota.values()) == n_keep
    assert kept(stage, train, fraction, seed) == literal.per_user(train, quota, seed, stage)


@pytest.mark.parametrize("stage", ["stratified", "temporal"])
@given(EVENTS, TENTHS, SEEDS)
@settings(max_examples=50, deadline=None)
def test_legacy_removes_the_ceiling(stage: str, train: Interactions, fraction: float, seed: int) -> None:
    """x = removed share: ceil(x L) of each user's L events go, in exact arithmetic."""
    removed = 1 - Fraction(str(fraction))
    quota = {user: int(n) - ceil(removed * int(n)) for user, n in enumerate(train.user_counts())}
    found = kept(f"{stage}(legacy=true)", train, fraction, seed)
    assert found == literal.per_user(train, quota, seed, stage)


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("name", ["random-user", "head-user", "random-item", "head-item"])
@given(EVENTS, TENTHS, SEEDS)
@settings(max_examples=30, deadline=None)
def test_units(name: str, exact: bool, train: Interactions, fraction: float, seed: int) -> None:
    n_keep = (nearest_count if exact else largest_count)(fraction, len(train))
    expected = literal.units(
        train,
        int(name.endswith("item")),
        is_head=name.startswith("head"),
        n_keep=n_keep,
        seed=seed,
        stage=name,
        exact=exact,
    )
    assert kept(f"{name}(exact={str(exact).lower()})", train, fraction, seed) == expected


@pytest.mark.parametrize("exact", ["true", "false"])
@pytest.mark.parametrize(
    ("params", "damping", "edges"),
    [("edges=any", 0.85, "any"), ("edges=both", 0.85, "both"), ("legacy=true", 1e-6, "both")],
)
@given(EVENTS, TENTHS, SEEDS)
@settings(max_examples=30, deadline=None)
def test_centrality(
    params: str, damping: float, edges: str, exact: str, train: Interactions, fraction: float, seed: int
) -> None:
    n_keep = (nearest_count if exact == "true" else largest_count)(fraction, len(train))
    scores = page_rank(EventGraph.of(train), damping=damping)  # against a dense solver: test_centrality.py
    came = scores - (1 - damping) / (scores > 0).sum()
    expected = literal.central(train, came, edges=edges, n_keep=n_keep, seed=seed, exact=exact == "true")
    assert kept(f"centrality({params}, exact={exact})", train, fraction, seed) == expected


@pytest.mark.parametrize("exact", ["true", "false"])
@pytest.mark.parametrize(("restart", "patience"), [(0.1, 100), (0.5, 2), (0.0, 1), (1.0, 3)])
@given(EVENTS, TENTHS, SEEDS)
@settings(max_examples=25, deadline=None)
def test_random_walk(
    restart: float, patience: int, exact: str, train: Interactions, fraction: float, seed: int
) -> None:
    order = literal.walked(train, nearest_count(fraction, len(train)), seed, restart, patience)
    n_keep = (nearest_count if exact == "true" else largest_count)(fraction, len(train))
    batches = literal.brought(train, order, "both")
    expected = literal.fill(batches, n_keep, seed, "random-walk", exact=exact == "true")
    spec = f"random-walk(restart={restart}, patience={patience}, exact={exact})"
    assert kept(spec, train, fraction, seed) == expected


@pytest.mark.parametrize("exact", ["true", "false"])
@pytest.mark.parametrize("burn", [0.4, 1.0, 0.05])
@given(EVENTS, TENTHS, SEEDS)
@settings(max_examples=25, deadline=None)
def test_forest_fire(burn: float, exact: str, train: Interactions, fraction: float, seed: int) -> None:
    order = literal.burned(train, nearest_count(fraction, len(train)), seed, burn)
    n_keep = (nearest_count if exact == "true" else largest_count)(fraction, len(train))
    batches = literal.brought(train, order, "both")
    expected = literal.fill(batches, n_keep, seed, "forest-fire", exact=exact == "true")
    assert kept(f"forest-fire(burn={burn}, exact={exact})", train, fraction, seed) == expected


@pytest.mark.parametrize("name", ["random-walk", "forest-fire"])
@given(EVENTS, TENTHS, SEEDS)
@settings(max_examples=60, deadline=None)
def test_legacy_visits_nodes_and_removes_the_others(
    name: str, train: Interactions, fraction: float, seed: int
) -> None:
    """As the published code: restart 0.1, Geometric(0.4), a fraction of the nodes, the rest removed."""
    visit = {
        "random-walk": lambda visits, wanted, words: literal.walk(visits, wanted, words, 0.1, 100),
        "forest-fire": lambda visits, wanted, words: literal.burn(visits, wanted, words, 0.4),
    }[name]
    expected = literal.unvisited_removed(train, fraction, seed, name, visit)
    assert kept(f"{name}(legacy=true, exact=false)", train, fraction, seed) == expected


def test_forest_fire_with_more_neighbours_than_it_remembers() -> None:
    """One user with 300 items, each known to one other user: the backlog overflows and is used up."""
    user = np.r_[np.zeros(300, dtype=np.int64), np.arange(1, 301)]
    train = Interactions.from_codes(user, np.r_[np.arange(300), np.arange(300)])
    for seed, n_keep in ((0, 60), (1, 150), (2, 300), (3, 550)):
        order = literal.burned(train, n_keep, seed, 0.4)
        batches = literal.brought(train, order, "both")
        expected = literal.fill(batches, n_keep, seed, "forest-fire", exact=True)
        assert kept("forest-fire", train, n_keep / 600, seed) == expected


def test_random_integers() -> None:
    """Below 3 * 2**30 every fourth number is drawn again, without which some would come twice as often."""
    from truerank.subsampling.kernels import next_uniform, uniform_below

    words = literal.Words(5, "test")
    state = np.array([words.state], dtype=np.uint64)
    for n in [1, 2, 7, 3 << 30, (1 << 32) - 1] * 40:
        assert uniform_below(state, n) == words.below(n)
        assert next_uniform(state) == words.uniform()
