"""Which chances and gains the ranks of each group of targets can have, at places that stand for them all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from truerank.core.parallel import available_threads, ordered_map
from truerank.core.progress import SILENT_TASK, ProgressTask
from truerank.core.ranks import Design, Stopping
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.adaptive_law import AdaptiveLaw
from truerank.estimation.corrections.equations import gain_at
from truerank.estimation.distribution.base import bin_gains
from truerank.estimation.distribution.likelihood import RankGrid, make_grid, make_nodes
from truerank.estimation.law import Law, make_law
from truerank.estimation.tally import Contexts
from truerank.inference.bounds.program import LinearProgram, envelope, interior_points
from truerank.inference.bounds.region import ConfidenceRegion, ThresholdEvents, group_contexts, make_events
from truerank.metrics.base import Metric

Shape: TypeAlias = Literal["decreasing"]
Pools: TypeAlias = Literal["free", "shared"]
STEP = 0.2
_CHUNK = 1 << 22  # chances held at once: 32 MB
_EIGHTH = 6.0  # a parabola is at most 1/8 of its second difference off its chord; 1/6 is taken
_BENDS = 1000  # positions at cut-offs that have a place of their own


@dataclass(frozen=True, eq=False)
class BoundProblem:
    """What bounds rest on, all but the frequencies seen.

    Positions are numbers of irrelevant items above a target, stretched to the largest pool; with a shape they
    count the ranks over which a uniform distribution reaches.

    Parameters
    ----------
    contexts : those whose ranks are not known
    design, stopping : how negatives were drawn
    group, kind : of each context, and of each group
    events : what is counted
    shape : the assumption made
    """

    contexts: Contexts
    design: Design
    stopping: Stopping | None
    group: IntArray
    kind: IntArray
    events: ThresholdEvents
    shape: Shape | None

    @classmethod
    def of(
        cls, contexts: Contexts, design: Design, stopping: Stopping | None, shape: Shape | None
    ) -> BoundProblem:
        """Group the contexts and choose the events."""
        group, kind = group_contexts(contexts, by_sample=stopping is None)
        largest = int(contexts.n_negatives.max()) if stopping is None else stopping.sizes[-1]
        return cls(contexts, design, stopping, group, kind, make_events(largest), shape)

    def ends(
        self,
        metrics: Sequence[Metric],
        region: ConfidenceRegion,
        shares: FloatArray,
        *,
        step: float = STEP,
        pools: Pools = "free",
        task: ProgressTask = SILENT_TASK,
    ) -> FloatArray:
        """Return the smallest and largest mean gains over the users that take part, (n_metrics, 2).

        Parameters
        ----------
        metrics : what is bounded
        region : limits of the mean chances of the events
        shares : (n_groups,) targets / (targets of their user) / users
        step : distance of places in standard deviations of the sampled rank
        pools : whether groups of one kind share their distribution of R/N
        task : where finished metrics are reported
        """
        places = self.places(metrics, step)
        merged = self.kind if pools == "shared" else np.arange(len(self.kind))
        weights = np.zeros((int(merged.max()) + 1, len(merged)))
        weights[merged, np.arange(len(merged))] = shares
        total = weights.sum(axis=1)
        weights /= total[:, None]
        lower, upper = (np.tensordot(weights, table, 1) for table in self.chances(places))
        program = LinearProgram(lower, upper, total, region.low, region.high)
        columns = program.feasible  # for all metrics

        def both(metric: Metric) -> tuple[float, float]:
            low, high = (weights @ table for table in self.gains(metric, places))
            ends = -program.largest(-low, columns), program.largest(high, columns)
            task.advance()
            return ends

        return np.array(list(ordered_map(both, metrics, n_threads=available_threads())))

    @property
    def top(self) -> int:
        """The last position."""
        return int(self.contexts.n_candidates.max()) + (self.shape is not None)

    @cached_property
    def members(self) -> list[Contexts]:
        """For each group the contexts at the ends and in the middle of its range of pools, kind by kind."""
        found = []
        for group in range(len(self.kind)):
            rows = np.flatnonzero(self.group == group)
            kinds = np.stack([self.contexts.n_relevant[rows], self.contexts.n_relevant_above[rows]], axis=1)
            keep = []
            for kind in np.unique(kinds, axis=0):
                own = rows[(kinds == kind).all(axis=1)]
                own = own[np.lexsort((self.contexts.n_pool[own], self.contexts.n_candidates[own]))]
                keep += [own[0], own[len(own) // 2], own[-1]]
            found.append(self.contexts.take(np.unique(keep)))
        return found

    def places(self, metrics: Sequence[Metric], step: float) -> FloatArray:
        """Return the positions that stand for all."""
        size = int(self.contexts.n_candidates.max())
        n_negatives = float(self.events.largest)
        if not self.design.replacement:
            m = min(n_negatives, size - 0.5)
            n_negatives = min(m * size / (size - m), max(m, (step * size / 2) ** 2))
        edges = make_grid(size + 1, n_negatives, step=step).edges
        own = edges[1:] if self.shape else np.append(edges[:-1], size)
        bends: list[FloatArray] = [np.zeros(0)]
        for members in self.members:
            bends += [self._bends(metric, members).ravel() for metric in metrics]
        extra = np.unique(np.concatenate(bends).round(6))
        extra = extra if len(extra) <= _BENDS else np.zeros(0)
        return np.unique(np.concatenate([own.astype(np.float64), extra]))

    def chances(self, places: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return chances of the events below and above those of any rank, (n_groups, n_places, n_events)."""
        at = interior_points(places)
        lower, upper = np.empty((2, len(self.kind), len(places), len(self.events)))
        largest = self.contexts.n_candidates.max()
        for group, members in enumerate(self.members):
            sizes = np.unique(np.sort(members.n_candidates)[[0, len(members) // 2, -1]])
            laws = [self._law(int(size), int(members.n_negatives[0])) for size in sizes]
            low, high = envelope(places, at, np.stack([self._chances_at(law, at) for law in laws]))
            if len(laws) > 1 or sizes[0] < largest:  # ranks of other pools lie between those of these
                margin = self._curvature(laws[0], places)
                low, high = low - margin, high + margin
            lower[group], upper[group] = low, high
        return lower, upper

    def gains(self, metric: Metric, places: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return gains times targets of the user, below and above those of any rank, (n_groups, n_places)."""
        at = interior_points(places)
        lower, upper = np.empty((2, len(self.kind), len(places)))
        for group, members in enumerate(self.members):
            curves = self._gains_at(metric, members, np.broadcast_to(at, (len(members), *at.shape)))
            bends = self._bends(metric, members)
            kinks = (bends, self._gains_at(metric, members, bends)[..., None])
            low, high = envelope(places, at, curves[..., None], kinks)
            lower[group], upper[group] = low[:, 0], high[:, 0]
        return lower, upper

    def _bends(self, metric: Metric, members: Contexts) -> FloatArray:
        """Return the positions next to a metric's cut-off, (n_members, 2), or none, (n_members, 0)."""
        if metric.cutoff is None:
            return np.zeros((len(members), 0))
        within = (metric.cutoff - members.n_relevant_above)[:, None]  # so many ranks are
        first = 0 if self.shape is None else 1
        size = (members.n_candidates + first)[:, None]
        at = np.concatenate([within - 1, within], axis=1)
        position: FloatArray = np.where((at >= first) & (at <= size), at, first) * (self.top / size)
        return position

    def _law(self, n_candidates: int, n_negatives: int) -> Law:
        if self.stopping is not None:
            return AdaptiveLaw(n_candidates, self.stopping, self.design.replacement)
        return make_law(n_candidates, n_negatives, replacement=self.design.replacement)

    def _chances_at(self, law: Law, at: FloatArray) -> FloatArray:
        """Return the chances at positions, (..., n_events)."""
        if self.shape is None:
            return _joined(at * (law.n_candidates / self.top), lambda n: self._chances_of(law, n))

        def uniform(counts: IntArray) -> FloatArray:
            grid = _grid(counts, law.n_candidates)
            nodes = make_nodes(grid, law.n_candidates + 1)
            ranks, back = np.unique(nodes.n_above, return_inverse=True)
            terms = nodes.weight[:, None] * self._chances_of(law, ranks)[back]
            means = np.add.reduceat(terms, np.searchsorted(nodes.bin, np.arange(grid.n_bins)))
            return _running(means, grid, counts)

        return _joined(np.maximum(at * ((law.n_candidates + 1) / self.top), 1.0), uniform)

    def _curvature(self, law: Law, places: FloatArray) -> FloatArray:
        """Return how far chances between ranks may lie from the line joining them, (n_places, n_events)."""
        first = 0 if self.shape is None else 1
        unit = self.top / (law.n_candidates + first)
        nearest = np.clip(np.rint(places / unit), first + 1, max(law.n_candidates + first - 1, first + 1))
        around = (nearest[:, None] + np.array([-1, 0, 1])) * unit
        left, middle, right = np.moveaxis(self._chances_at(law, np.minimum(around, self.top)), 1, 0)
        bent = np.abs(left - 2 * middle + right) / _EIGHTH
        padded = np.pad(bent, ((1, 1), (0, 0)), mode="edge")
        widest: FloatArray = np.maximum(np.maximum(padded[:-2], padded[2:]), bent)
        return widest

    def _chances_of(self, law: Law, n_above: IntArray) -> FloatArray:
        """Return the chances given J, (len(n_above), n_events)."""
        happen = self.events.happen(law.outcome_sizes, law.outcome_above)
        weights = happen.astype(np.float64)
        rows = max(_CHUNK // len(weights), 1)
        parts = [law.pmf(n_above[i : i + rows]) @ weights for i in range(0, len(n_above), rows)]
        return np.concatenate(parts)

    def _gains_at(self, metric: Metric, members: Contexts, at: FloatArray) -> FloatArray:
        """Return gains times targets of the user at positions of each member, shaped as ``at``."""
        size, flat = members.n_candidates[:, None], at.reshape(len(members), -1)
        if self.shape is None:
            position = _whole(flat * (size / self.top))
            left = np.floor(position).astype(np.int64)
            below = gain_at(metric, left, members)
            found = below + (position - left) * (gain_at(metric, np.minimum(left + 1, size), members) - below)
        else:
            found = np.stack(
                [
                    self._mean_gains(metric, members.take(np.array([row])), flat[row])
                    for row in range(len(size))
                ]
            )
        return (found * members.n_relevant[:, None]).reshape(at.shape)

    def _mean_gains(self, metric: Metric, one: Contexts, at: FloatArray) -> FloatArray:
        """Return the mean gains over the first ranks, so many as positions say, (len(at),)."""
        size = int(one.n_candidates[0])

        def uniform(counts: IntArray) -> FloatArray:
            grid = _grid(counts, size)
            return _running(bin_gains(metric, one, grid)[0][:, None], grid, counts)

        return _joined(np.maximum(at * ((size + 1) / self.top), 1.0), uniform)[:, 0]


def _whole(position: FloatArray) -> FloatArray:
    """Return positions, those that are whole up to rounding made so."""
    whole = np.rint(position)
    return np.where(np.abs(position - whole) < 1e-9 * (1 + whole), whole, position)


def _joined(position: FloatArray, values: Callable[[IntArray], FloatArray]) -> FloatArray:
    """Return values at positions between whole numbers, joined by straight lines, (..., n_columns)."""
    position = _whole(position)
    left = np.floor(position).astype(np.int64)
    right = np.ceil(position).astype(np.int64)
    needed, which = np.unique(np.stack([left, right]), return_inverse=True)
    table = values(needed)
    below, above = table[which.reshape(2, *position.shape)]
    joined: FloatArray = below + (position - left)[..., None] * (above - below)
    return joined


def _grid(counts: IntArray, n_candidates: int) -> RankGrid:
    """Return bins that end after so many ranks each."""
    return RankGrid(np.unique(np.concatenate([[0, n_candidates + 1], counts])))


def _running(means: FloatArray, grid: RankGrid, counts: IntArray) -> FloatArray:
    """Return the means over the first ranks, so many of them, from those over bins."""
    sums = np.cumsum(means * np.diff(grid.edges)[:, None], axis=0)
    running: FloatArray = sums[np.searchsorted(grid.edges, counts) - 1] / counts[:, None]
    return running
