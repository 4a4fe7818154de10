"""New samples: of other users like these, or of other negatives for these users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from truerank.core.stream import stream
from truerank.core.tally import Tally
from truerank.core.types import FloatArray, IntArray
from truerank.estimators.grid import Grid
from truerank.estimators.smooth import Smooth
from truerank.inference.resample import draw_counts
from truerank.uncertainty.outcomes import outcomes_of


@dataclass(frozen=True, eq=False)
class Draws(ABC):
    """Samples that are pure functions of a seed and their number.

    Parameters
    ----------
    tally : the sample they are like
    cells : (n,) where weight may come to lie
    seed : of all draws
    """

    tally: Tally
    cells: IntArray
    seed: int

    @abstractmethod
    def weights(self, number: int) -> FloatArray:
        """Return the weights of the cells in one new sample, (n,)."""


@dataclass(frozen=True, eq=False)
class OtherUsers(Draws):
    """As many users, drawn from those at hand with replacement.

    Which ones depends on the seed, the number and how many users there are, not on their ranks: samples of
    several models draw the same users.

    Parameters
    ----------
    place : (n_entries,) position in ``cells`` of the cell of each entry
    is_plain : whether each user has one entry of weight 1, in order
    """

    place: IntArray
    is_plain: bool

    @classmethod
    def of(cls, tally: Tally, seed: int) -> OtherUsers:
        """Find the cells in use."""
        cells = np.flatnonzero(tally.cell_weights > 0)
        place = np.searchsorted(cells, tally.cell)
        is_plain = len(place) == tally.n_users and bool((tally.weight == 1).all())
        return cls(tally, cells, seed, place, is_plain)

    def weights(self, number: int) -> FloatArray:
        """Return the weights of the cells in one new sample, (n,)."""
        n_users, n_cells = self.tally.n_users, len(self.cells)
        (times,) = draw_counts(n_users, range(number, number + 1), seed=self.seed, stage="bootstrap/users")
        weight = times if self.is_plain else self.tally.weight * times[self.tally.user]
        return np.bincount(self.place, weight, n_cells).astype(np.float64)


@dataclass(frozen=True, eq=False)
class OtherNegatives(Draws):
    """The same users with the same ranks and other negatives.

    Ranks are not known: each target is given one from its posterior under a fitted distribution, once, and
    its outcome is drawn anew from the law. Targets of a user are drawn with one uniform number, best outcomes
    first. That is the most they can depend on each other, so where values fall with the rank no other way to
    share negatives has a larger variance.

    Parameters
    ----------
    label : tells models apart, whose draws are independent of each other
    table, base : (n_entries,) which sums an entry reads, and where the cells of its outcomes begin
    sums, starts : cumulated chances of the outcomes from best to worst, for each law and bin in use
    outcome_cells : where the outcomes lie in ``cells``, in the same order, one situation after the other
    """

    label: str
    table: IntArray
    base: IntArray
    sums: FloatArray
    starts: IntArray
    outcome_cells: IntArray

    @classmethod
    def of(cls, tally: Tally, seed: int, label: str = "") -> OtherNegatives:
        """Fit ranks to a completed tally and draw one for each target."""
        grid, bins = posterior_bins(tally, stream(seed, f"bootstrap/ranks/{label}").random(len(tally.cell)))
        context = np.searchsorted(tally.offsets, tally.cell, side="right") - 1
        situation_base = np.zeros(len(tally.contexts), dtype=np.int64)
        table = np.zeros(len(context), dtype=np.int64)
        sums: list[FloatArray] = []
        lengths: list[int] = []
        cells: list[IntArray] = []
        n_cells = 0
        for outcomes in outcomes_of(tally):
            n_outcomes = outcomes.cells.shape[1]
            n_sizes = len(outcomes.law.sizes) if hasattr(outcomes.law, "sizes") else 1
            rows = outcomes.contexts[:, None] + np.arange(n_sizes)
            situation_base[rows] = (n_cells + np.arange(len(rows)) * n_outcomes)[:, None]
            cells.append(outcomes.cells[:, outcomes.order].ravel())
            n_cells += outcomes.cells.size
            own = np.flatnonzero(np.isin(context, rows))
            used, which = np.unique(bins[own], return_inverse=True)
            table[own] = len(lengths) + which.ravel()
            chances = outcomes.chances(grid)[used][:, outcomes.order]
            total = np.cumsum(chances, axis=1)
            sums.append((total / total[:, -1:]).ravel())
            lengths += [n_outcomes] * len(used)
        possible = np.concatenate(cells)
        reached = np.union1d(possible, np.flatnonzero(tally.cell_weights > 0))
        return cls(
            tally,
            reached,
            seed,
            label,
            table,
            situation_base[context],
            np.concatenate(sums),
            np.concatenate([[0], np.cumsum(lengths)]),
            np.searchsorted(reached, possible),
        )

    def weights(self, number: int) -> FloatArray:
        """Return the weights of the cells in one new sample, (n,)."""
        from truerank.uncertainty.kernels.redraw import add_outcomes

        tally = self.tally
        uniform = stream(self.seed, f"bootstrap/negatives/{self.label}", number).random(tally.n_users)
        out = np.zeros(len(self.cells))
        add_outcomes(
            uniform,
            tally.user,
            tally.weight,
            self.table,
            self.base,
            self.sums,
            self.starts,
            self.outcome_cells,
            out,
        )
        return out


def posterior_bins(tally: Tally, uniform: FloatArray) -> tuple[Grid, IntArray]:
    """Return bins of ranks and, for each entry, one of them from its posterior under what ``smooth`` fits.

    Parameters
    ----------
    tally : the sample
    uniform : (n_entries,) numbers in [0, 1) that choose
    """
    likelihood, fit = Smooth().fit_tallies([tally])
    sums = np.cumsum(likelihood.posterior(fit.masses[0]), axis=1)
    return likelihood.grid, _drawn_bins(sums, likelihood.cells[0][tally.cell], uniform)


def _drawn_bins(sums: FloatArray, outcome: IntArray, uniform: FloatArray) -> IntArray:
    """Return a bin for each entry from the cumulated posterior of its outcome."""
    bins = np.zeros(len(outcome), dtype=np.int64)
    order = np.argsort(outcome, kind="stable")
    found, first = np.unique(outcome[order], return_index=True)
    for one, rows in zip(found, np.split(order, first[1:]), strict=True):
        bins[rows] = np.searchsorted(sums[one], uniform[rows] * sums[one, -1], side="right")
    within: IntArray = np.minimum(bins, sums.shape[1] - 1)
    return within
