"""Bins of ranks and the ranks that stand for them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.reference.mixture import bin_mean
from truerank.core.errors import InvalidParameter
from truerank.estimation.distribution.likelihood import SINGLES, RankGrid, make_grid, make_nodes


@given(st.integers(1, 10**7), st.floats(0.5, 1e5), st.floats(0.05, 5), st.integers(0, 60))
@settings(deadline=None, max_examples=60)
def test_bins_partition_the_ranks(n_ranks: int, m: float, step: float, singles: int) -> None:
    grid = make_grid(n_ranks, m, step=step, singles=singles)
    assert grid.edges[0] == 0
    assert grid.edges[-1] == grid.n_ranks == n_ranks
    assert (np.diff(grid.edges) > 0).all()
    first = min(singles, n_ranks)
    np.testing.assert_array_equal(grid.edges[: first + 1], np.arange(first + 1))
    assert grid.even.sum() == pytest.approx(1)


@pytest.mark.parametrize("n_ranks", [3706, 20_720, 1_000_000])
@pytest.mark.parametrize("m", [1, 99, 499, 3199])
@pytest.mark.parametrize("step", [0.05, 0.1, 0.5])
def test_no_bin_is_wider_than_it_may_be(n_ranks: int, m: int, step: float) -> None:
    """In standard deviations of the sampled rank, and below four expected items in units of the rank."""
    edges = make_grid(n_ranks, m, step=step).edges.astype(float)
    low, high = edges[:-1] + 0.5, edges[1:] - 0.5  # an edge is rounded to a whole rank
    wide = high - low > 1
    angle = 2 * np.sqrt(m) * (np.arcsin(np.sqrt(high / n_ranks)) - np.arcsin(np.sqrt(low / n_ranks)))
    assert (angle[wide] <= step * 1.03).all()
    near = wide & (high < n_ranks * 4 / (m + 4))
    assert (high[near] / low[near] <= np.exp(step / 2) * 1.001).all()


def test_the_number_of_bins_hardly_grows_with_the_ranks() -> None:
    assert [make_grid(n, 99).n_bins for n in (3706, 20_720, 1_000_000)] == [343, 380, 458]
    assert make_grid(10**9, 99).n_bins < 600


def test_step_zero_and_large_samples_keep_every_rank_apart() -> None:
    for grid in (make_grid(300, 9, step=0), make_grid(300, 1e6, step=0.1)):
        np.testing.assert_array_equal(grid.edges, np.arange(301))
    assert make_grid(SINGLES, 1, step=3).n_bins == SINGLES


@pytest.mark.parametrize("step", [-0.1, np.nan, np.inf])
def test_a_width_must_be_a_number(step: float) -> None:
    with pytest.raises(InvalidParameter, match=r"grid must be a width >= 0 .* Use 0\.1"):
        make_grid(10, 3, step=step)


@given(st.integers(2, 60), st.integers(1, 60), st.data())
@settings(deadline=None, max_examples=50)
def test_spread_and_cdf_agree(n_ranks: int, size: int, data: st.DataObject) -> None:
    """Mass lies evenly within a bin, whatever the pool: the weights of ranks are differences of the cdf."""
    inner = data.draw(st.sets(st.integers(1, n_ranks - 1)))
    grid = RankGrid(np.array([0, *sorted(inner), n_ranks]))
    masses = np.random.default_rng(n_ranks).dirichlet(np.ones(grid.n_bins))
    spread = grid.spread(masses, size)
    assert spread.sum() == pytest.approx(1)
    np.testing.assert_allclose(np.cumsum(spread), grid.cdf(masses, np.arange(1, size + 1) / size), atol=1e-12)
    rank = float(data.draw(st.integers(0, size - 1)))
    literal = masses @ bin_mean(grid.edges.tolist(), size, lambda J: float(rank == J))
    assert spread[int(rank)] == pytest.approx(literal, abs=1e-12)


@given(st.integers(1, 70), st.integers(1, 70), st.data())
@settings(deadline=None, max_examples=50)
def test_nodes_average_polynomials_of_third_degree(n_ranks: int, size: int, data: st.DataObject) -> None:
    inner = data.draw(st.sets(st.integers(1, max(n_ranks - 1, 1)), max_size=6)) if n_ranks > 1 else set()
    grid = RankGrid(np.array([0, *sorted(inner), n_ranks]))
    nodes = make_nodes(grid, size)
    assert (nodes.n_above >= 0).all()
    assert (nodes.n_above < size).all()
    assert (np.diff(nodes.bin) >= 0).all()
    assert (nodes.weight > 0).all()
    for degree in range(4):
        found = np.bincount(nodes.bin, nodes.weight * (nodes.n_above / size) ** degree, grid.n_bins)
        wanted = bin_mean(grid.edges.tolist(), size, lambda J, degree=degree: (J / size) ** degree)  # type: ignore[misc]
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


def test_nodes_of_few_ranks_are_those_ranks() -> None:
    """Up to eight ranks of a bin are taken one by one, so that any function is averaged exactly."""
    grid, draw = RankGrid(np.array([0, 1, 9, 12, 20])), np.random.default_rng(0)
    table = draw.normal(size=20)
    nodes = make_nodes(grid, 20)
    found = np.bincount(nodes.bin, nodes.weight * table[nodes.n_above])
    wanted = [table[a:b].mean() for a, b in zip(grid.edges[:-1], grid.edges[1:], strict=True)]
    np.testing.assert_allclose(found, wanted)


def test_nodes_of_large_pools_stay_exact() -> None:
    """Edges are whole numbers of the product of both sizes: no rank is lost to rounding."""
    grid = make_grid(10**6, 99)
    for size in (10**6, 999_983, 7):
        nodes = make_nodes(grid, size)
        np.testing.assert_allclose(np.bincount(nodes.bin, nodes.weight), 1, rtol=1e-13)
        mean = grid.even @ np.bincount(nodes.bin, nodes.weight * nodes.n_above)
        assert mean == pytest.approx((size - 1) / 2, rel=1e-12)
