"""What sampled ranks say about the distribution of global ranks: a mixture over bins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.tally import Tally
from truerank.core.types import FloatArray, IntArray, frozen
from truerank.estimators.grid import Grid, make_grid
from truerank.estimators.law import Law, make_law
from truerank.estimators.nodes import make_nodes

_ENTRIES = 1 << 21  # of the law held at once: 16 MB


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
    cells : per run, (n_cells,) the outcome of each cell of its tally, -1 for cells nobody saw
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
        When there is no row.
    """
    if not tallies or any(tally.n_rows == 0 for tally in tallies):
        raise InvalidData("an estimate needs at least one user, got none.")
    if len({tally.design.replacement for tally in tallies}) > 1:
        raise InvalidParameter("runs must be sampled alike, with or without replacement. Fit them apart.")
    replacement = tallies[0].design.replacement
    triples = [_triples(tally) for tally in tallies]
    seen = np.unique(
        np.concatenate([of[tally.cell_weights > 0] for of, tally in zip(triples, tallies, strict=True)]),
        axis=0,
    )
    shares = np.zeros((len(tallies), len(seen)))
    cells = []
    for run, (of, tally) in enumerate(zip(triples, tallies, strict=True)):
        place = _find(seen, of, tally.cell_weights > 0)
        cells.append(frozen(place))
        kept = place >= 0
        np.add.at(shares[run], place[kept], tally.cell_weights[kept] / tally.n_rows)
    m, size, j = (np.ascontiguousarray(column) for column in seen.T)
    grid = make_grid(int(size.max()) + 1, int(m.max()), step=step)
    matrix = np.empty((len(seen), grid.n_bins))
    laws, which = np.unique(seen[:, :2], axis=0, return_inverse=True)
    for number, (n_negatives, n_candidates) in enumerate(laws.tolist()):
        rows = np.flatnonzero(which.ravel() == number)
        law = make_law(n_candidates, n_negatives, replacement=replacement)
        matrix[rows] = bin_law(law, grid, j[rows]).T
    return Likelihood(grid, frozen(matrix), frozen(shares), tuple(cells), frozen(m), frozen(size), frozen(j))


def bin_law(law: Law, grid: Grid, n_above: IntArray) -> FloatArray:
    """Return P(j | bin) for some j, (n_bins, len(n_above)): the mean over the ranks of the bin."""
    nodes = make_nodes(grid, law.n_candidates + 1)
    result = np.zeros((grid.n_bins, len(n_above)))
    step = max(_ENTRIES // (law.n_negatives + 1), 1)
    for start in range(0, len(nodes.bin), step):
        part = slice(start, start + step)
        rows = law.pmf(nodes.n_above[part])[:, n_above] * nodes.weight[part, None]
        bins = nodes.bin[part]
        starts = np.flatnonzero(np.diff(bins, prepend=-1))
        result[bins[starts]] += np.add.reduceat(rows, starts, axis=0)
    return result


def _triples(tally: Tally) -> IntArray:
    """Return (m, L, j) of each cell."""
    contexts = tally.contexts
    repeats = contexts.n_negatives + 1
    j = np.arange(tally.n_cells) - np.repeat(tally.offsets[:-1], repeats)
    return np.stack(
        [np.repeat(contexts.n_negatives, repeats), np.repeat(contexts.n_candidates, repeats), j], axis=1
    )


def _find(seen: IntArray, triples: IntArray, is_seen: np.ndarray) -> IntArray:
    """Return the position in ``seen`` of the triples that were seen, -1 for the others."""
    place = np.full(len(triples), -1)
    key = {tuple(row): index for index, row in enumerate(seen.tolist())}
    rows = np.flatnonzero(is_seen)
    place[rows] = [key[tuple(row)] for row in triples[rows].tolist()]
    return place
