"""The likelihood of sampled ranks over bins against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from tests.reference.mixture import Row, outcome_matrix
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.ranks import Design, SampledRanks, Stopping
from truerank.core.types import IntArray
from truerank.estimation.distribution import likelihood as module
from truerank.estimation.distribution.likelihood import bin_law, make_grid, make_likelihood
from truerank.estimation.law import make_law
from truerank.estimation.tally import Tally, tally


def sample(
    above: list[int] | IntArray, m: int | IntArray, pool: int | IntArray, *, replacement: bool = True
) -> SampledRanks:
    design = Design(replacement=replacement)
    return SampledRanks.single(above, n_negatives=m, n_pool=pool, design=design)


def counted(above: list[int] | IntArray, m: int | IntArray, pool: int | IntArray, **design: bool) -> Tally:
    return tally(sample(above, m, pool, **design), width=0)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("step", [0.0, 0.6])
def test_matrix_is_the_mean_of_the_law_over_each_bin(
    replacement: bool, step: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several pools and sizes of samples, bins of several ranks, from whole numbers."""
    monkeypatch.setattr(module, "make_grid", lambda n, m, step: make_grid(n, m, step=step, singles=2))
    m, pool = np.array([3, 5, 5, 2, 3]), np.array([18, 18, 25, 9, 18])
    above = np.array([0, 2, 5, 1, 0])
    found = make_likelihood([counted(above, m, pool, replacement=replacement)], step=step)
    assert found.grid.n_ranks == 25
    assert step == 0 or 1 < np.diff(found.grid.edges).max() <= 8
    triples = list(zip(found.n_negatives, found.n_candidates, found.n_above, strict=True))
    assert triples == sorted({(int(a), int(b) - 1, int(c)) for a, b, c in zip(m, pool, above, strict=True)})
    rows = [Row(int(a), int(b), int(c)) for a, b, c in triples]
    wanted = outcome_matrix(rows, found.grid.edges.tolist(), replacement)
    np.testing.assert_allclose(found.matrix, wanted, rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(found.fractions, [[0.2, 0.4, 0.2, 0.2]])


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("n_pool", "m", "step"), [(3706, 99, 0.1), (3706, 499, 0.1), (2000, 1500, 0.3)])
def test_wide_bins_are_averaged_from_few_ranks(n_pool: int, m: int, step: float, replacement: bool) -> None:
    law = make_law(n_pool - 1, m, replacement=replacement)
    grid = make_likelihood([counted([m // 9], m, n_pool, replacement=replacement)], step=step).grid
    found = bin_law(law, grid, np.arange(m + 1))
    rows = law.pmf(np.arange(n_pool))
    wanted = np.add.reduceat(rows, grid.edges[:-1], axis=0) / np.diff(grid.edges)[:, None]
    np.testing.assert_allclose(found, wanted, atol=1e-6 * float(wanted.max()) if step < 0.2 else 1e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-12)


def test_shares_and_cells_of_several_runs() -> None:
    """Runs share their outcomes; cells lead to them, and rows of fractions sum to 1."""
    first, second = counted([0, 0, 3, 1], 4, 30), counted([2, 3, 3, 3], 4, 30)
    found = make_likelihood([first, second], step=0.1)
    assert found.n_runs == 2
    assert found.n_above.tolist() == [0, 1, 2, 3]
    np.testing.assert_allclose(found.fractions, [[0.5, 0.25, 0, 0.25], [0, 0, 0.25, 0.75]])
    assert [cells.tolist() for cells in found.cells] == [[0, 1, 2, 3, -1]] * 2
    posterior = found.posterior(found.grid.even)
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    joint = found.matrix * found.grid.even
    np.testing.assert_allclose(posterior, joint / joint.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("step", [0.0, 0.1])
def test_sampling_everything_shows_the_rank(step: float) -> None:
    """Without replacement and with all candidates each outcome has one rank, however the bins are asked."""
    found = make_likelihood([counted([0, 5, 199], 200, 201, replacement=False)], step=step)
    np.testing.assert_array_equal(found.matrix, np.eye(201)[[0, 5, 199]])


def test_the_grid_follows_the_pool_that_tells_most() -> None:
    """A large sample of a small pool does not make bins narrower than ranks of that pool."""
    m, pool = np.array([99, 99]), np.array([101, 5000])
    found = make_likelihood([counted([0, 0], m, pool, replacement=False)], step=0.1)
    assert found.grid.n_bins == make_grid(5000, 99 * 4998 / (4999 - 99)).n_bins


def test_far_tails_are_zero_and_never_nearly_so() -> None:
    """m = 3199: each outcome is likely somewhere, and no entry is too small for full precision."""
    m = 3199
    found = make_likelihood([counted(np.arange(0, m + 1, 13), m, 20_720)], step=0.1).matrix
    assert (found.max(axis=1) > 1e-3).all()
    assert found[found > 0].min() >= 1e-200
    assert (found == 0).any()


def test_an_adaptive_run_in_which_nobody_reached_the_end_has_the_same_grid() -> None:
    design = Design(replacement=True, stopping=Stopping((9, 19, 39)))
    runs = [
        tally(SampledRanks.single([2, 0], n_negatives=np.array([9, last]), n_pool=5000, design=design))
        for last in (19, 39)
    ]
    alone = [make_likelihood([run], step=0.1).grid for run in runs]
    np.testing.assert_array_equal(alone[0].edges, alone[1].edges)
    np.testing.assert_array_equal(alone[0].edges, make_grid(5000, 39).edges)


def test_what_cannot_occur_is_refused() -> None:
    """One candidate drawn five times: either all or none of the draws stand above the target."""
    with pytest.raises(InvalidData, match="2 of 5 negatives above the target cannot occur with 1 candidates"):
        make_likelihood([counted([2], 5, 2)], step=0.1)
    tied = SampledRanks.single([0], n_negatives=5, n_pool=2, n_tied=5, design=Design(replacement=True))
    with pytest.raises(InvalidData, match="use ties=best or ties=worst"):
        make_likelihood([tally(tied)], step=0.1)
    assert make_likelihood([tally(tied, ties="worst")], step=0.1).matrix.tolist() == [[0, 1]]


def test_bad_runs() -> None:
    with pytest.raises(InvalidData, match="at least one user"):
        make_likelihood([], step=0.1)
    with pytest.raises(InvalidData, match="at least one user"):
        make_likelihood([counted([1], 5, 9), counted([], 5, 9)], step=0.1)
    with pytest.raises(InvalidParameter, match="sampled alike"):
        make_likelihood([counted([1], 5, 9), counted([1], 5, 9, replacement=False)], step=0.1)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ENTRIES", 700)
    make_likelihood([counted([0, 1], 99, 3706)], step=0.1)
    with pytest.raises(InvalidParameter, match=r"3 different sampled ranks over 343 bins .* grid=0\.5"):
        make_likelihood([counted([0, 1, 2], 99, 3706)], step=0.1)
