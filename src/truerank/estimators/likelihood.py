"""What sampled ranks say about the distribution of global ranks: a mixture over bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.tally import Tally
from truerank.core.threads import available_threads, ordered_map
from truerank.core.types import FloatArray, IntArray, frozen
from truerank.estimators.grid import Grid, make_grid
from truerank.estimators.law import TINY, Law, make_law
from truerank.estimators.nodes import make_nodes

_ENTRIES = 1 << 28  # of the matrix: 2 GB
_NONE = 1e-200  # what is less probable is 0: products of such numbers lose their precision and slow BLAS down


@dataclass(frozen=True, eq=False)
class Likelihood:
    r"""Outcomes, their shares, and how probable each is in each bin.

    An outcome is a triple (m, L, j): of m negatives out of L candidates j stand above the target. With masses
    :math:`\pi` over bins its probability is :math:`q_o = \sum_b \pi_b P(o \mid b)`, and the mean
    log-likelihood :math:`\sum_o p_o \log q_o`. The size m may depend on earlier draws (adaptive samples): the
    factor that this adds is the same for all bins.

    Parameters
    ----------
    grid : the bins
    matrix : (n_outcomes, n_bins) P(outcome | bin), only for outcomes that were seen in some run
    shares : (n_runs, n_outcomes) share of the rows of each run with each outcome; rows sum to 1
    cells : per run, (n_cells,) the outcome of each cell of its tally, -1 for outcomes nobody saw
    n_negatives, n_candidates, n_above : (n_outcomes,) the triples
    """

    grid: Grid
    matrix: FloatArray
    shares: FloatArray
    cells: tuple[IntArray, ...]
    n_negatives: IntArray
    n_candidates: IntArray
    n_above: IntArray

    @property
    def n_runs(self) -> int:
        """How many samples are looked at together."""
        return len(self.shares)

    def posterior(self, masses: FloatArray) -> FloatArray:
        """Return P(bin | outcome) under masses, (n_outcomes, n_bins)."""
        joint: FloatArray = self.matrix * masses
        total = joint.sum(axis=1, keepdims=True)
        joint /= np.where(total > 0, total, 1.0)
        return joint


def make_likelihood(tallies: Sequence[Tally], *, step: float) -> Likelihood:
    """Return the likelihood of one or several runs of the same experiment over a common grid.

    Raises
    ------
    InvalidData
        When there is no row, or one that cannot occur.
    InvalidParameter
        When runs were sampled by different laws, or the matrix would not fit into 2 GB.
    """
    if not tallies or any(tally.n_rows == 0 for tally in tallies):
        raise InvalidData("an estimate needs at least one user, got none.")
    if len({tally.design.replacement for tally in tallies}) > 1:
        raise InvalidParameter("runs must be sampled alike, with or without replacement. Fit them apart.")
    replacement = tallies[0].design.replacement
    sizes = [np.stack([tally.contexts.n_negatives, tally.contexts.n_candidates], axis=1) for tally in tallies]
    laws, which = np.unique(np.concatenate(sizes), axis=0, return_inverse=True)
    first = np.concatenate([[0], np.cumsum(laws[:, 0] + 1)])  # outcomes of a law are numbered by j
    of_run = np.split(which.ravel(), np.cumsum([len(part) for part in sizes])[:-1])
    codes = [_codes(tally, first[part]) for tally, part in zip(tallies, of_run, strict=True)]
    is_seen = np.zeros(first[-1], dtype=np.bool_)
    for tally, code in zip(tallies, codes, strict=True):
        is_seen[code[tally.cell_weights > 0]] = True
    seen = np.flatnonzero(is_seen)
    place = np.where(is_seen, np.cumsum(is_seen) - 1, -1)
    cells = tuple(frozen(place[code]) for code in codes)
    shares = np.stack(
        [
            np.bincount(code, tally.cell_weights, minlength=len(is_seen))[seen] / tally.n_rows
            for tally, code in zip(tallies, codes, strict=True)
        ]
    )
    number = np.searchsorted(first, seen, side="right") - 1
    m, size, j = laws[number, 0], laws[number, 1], seen - first[number]
    grid = grid_of(tallies, step=step)
    _check_size(len(seen), grid)
    matrix = np.zeros((len(seen), grid.n_bins))
    parts = np.split(np.arange(len(seen)), np.flatnonzero(np.diff(number)) + 1)

    def fill(rows: IntArray) -> None:
        law = make_law(int(size[rows[0]]), int(m[rows[0]]), replacement=replacement)
        _add_law(law, grid, j[rows], matrix[rows[0] : rows[-1] + 1])

    for _ in ordered_map(fill, parts, n_threads=available_threads()):
        pass
    matrix[matrix < _NONE] = 0.0
    _check_possible(matrix, m, size, j)
    return Likelihood(grid, frozen(matrix), frozen(shares), cells, frozen(m), frozen(size), frozen(j))


def grid_of(tallies: Sequence[Tally], *, step: float) -> Grid:
    """Return the bins that the likelihood of one or several runs has.

    Examples
    --------
    >>> from truerank.core.ranks import SampledRanks
    >>> from truerank.core.tally import tally
    >>> grid_of([tally(SampledRanks.single([0], n_negatives=99, n_pool=3706))], step=0.1).n_bins
    346
    """
    contexts = [tally.contexts for tally in tallies]
    sizes = np.stack(
        [
            np.concatenate([one.n_negatives for one in contexts]),
            np.concatenate([one.n_candidates for one in contexts]),
        ],
        axis=1,
    )
    return make_grid(int(sizes[:, 1].max()) + 1, _resolution(tallies, sizes, step), step=step)


def bin_law(law: Law, grid: Grid, n_above: IntArray, *, floor: float = TINY) -> FloatArray:
    """Return P(j | bin) for some ascending j, (n_bins, len(n_above)): the mean over the ranks of the bin.

    What is less probable than ``floor`` times the most probable j of a rank may be left out; a larger floor
    takes less time.

    Examples
    --------
    >>> law, grid = make_law(3, 1, replacement=True), Grid(np.array([0, 1, 4]))
    >>> bin_law(law, grid, np.array([0, 1])).round(4).tolist()
    [[1.0, 0.0], [0.3333, 0.6667]]
    """
    result = np.zeros((len(n_above), grid.n_bins))
    _add_law(law, grid, n_above, result, floor)
    return result.T


def _add_law(law: Law, grid: Grid, n_above: IntArray, out: FloatArray, floor: float = TINY) -> None:
    from truerank.estimators.kernels.binned import add_nodes

    nodes = make_nodes(grid, law.n_candidates + 1)
    L, odds = law.n_candidates, law.odds
    columns = np.ascontiguousarray(n_above)
    add_nodes(nodes.n_above, nodes.bin, nodes.weight, L, law.replacement, odds, floor, columns, out)


def _codes(tally: Tally, first: IntArray) -> IntArray:
    """Return the number of the outcome of each cell, given that of j = 0 in each context."""
    repeats = tally.contexts.n_negatives + 1
    codes: IntArray = np.arange(tally.n_cells) + np.repeat(first - tally.offsets[:-1], repeats)
    return codes


def _resolution(tallies: Sequence[Tally], laws: IntArray, step: float) -> float:
    """Return how many draws with replacement would tell ranks apart as well as the best sample does.

    The rule of an adaptive sample says how large it may become, so that a run in which nobody got there has
    the grid of the others. Without replacement a sample of m from L tells as much as m (L - 1)/(L - m) with;
    bins need not be narrower than a rank of the pool.
    """
    rules = [tally.design.stopping for tally in tallies]
    most = max((rule.sizes[-1] for rule in rules if rule is not None), default=0)
    m, size = np.maximum(laws[:, 0], most).astype(np.float64), laws[:, 1].astype(np.float64)
    if tallies[0].design.replacement:
        return float(m.max())
    m = np.minimum(m, size)
    enough = np.maximum(m, (step * (size + 1) / 2) ** 2)
    return float(np.minimum(m * (size - 1) / np.maximum(size - m, 0.5), enough).max())


def _check_size(n_outcomes: int, grid: Grid) -> None:
    if n_outcomes * grid.n_bins > _ENTRIES:
        raise InvalidParameter(
            f"{n_outcomes:,} different sampled ranks over {grid.n_bins:,} bins need "
            f"{8e-9 * n_outcomes * grid.n_bins:.1f} GB, and at most {8e-9 * _ENTRIES:.1f} are taken. "
            f"Use wider bins, such as grid=0.5, or fewer runs at once."
        )


def _check_possible(matrix: FloatArray, m: IntArray, size: IntArray, j: IntArray) -> None:
    """Raise when a row was seen that no global rank can give; its likelihood would be 0 for all masses."""
    never = np.flatnonzero(~matrix.any(axis=1))
    if len(never):
        row = never[0]
        raise InvalidData(
            f"{j[row]} of {m[row]} negatives above the target cannot occur with {size[row]} candidates. "
            f"Check n_negatives and n_pool; where ties were split, use ties=best or ties=worst."
        )
