"""Coefficients of the linear program for bounds: event probabilities and gains on a grid of ranks, per group.

A grid point stands for the ranks around it; lower and upper coefficients contain those of all of them, so
that the program on the grid excludes no rank distribution.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np

from truerank.core.parallel import available_threads, ordered_map
from truerank.core.progress import SILENT_TASK, ProgressTask
from truerank.core.ranks import Design, Stopping
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.estimation.adaptive_law import AdaptiveLaw, stopping_of
from truerank.estimation.corrections.equations import gain_at
from truerank.estimation.distribution.base import bin_gains
from truerank.estimation.distribution.likelihood import RankGrid, make_grid, make_nodes
from truerank.estimation.law import Law, make_law
from truerank.estimation.tally import Contexts, Tally
from truerank.inference.bounds.program import LinearProgram, envelope, interior_points
from truerank.inference.bounds.region import (
    ConfidenceRegion,
    Method,
    SampledRankEvents,
    group_contexts,
    make_events,
    observed_region,
)
from truerank.metrics.base import Metric

Shape: TypeAlias = Literal["decreasing"]
Pools: TypeAlias = Literal["free", "shared"]
#: Spacing of grid points, in standard deviations of the sampled rank.
STEP = 0.2
_CHUNK = 1 << 22  # probabilities in memory at once: 32 MB
_EIGHTH = 6.0  # a parabola deviates from its chord by 1/8 of its second difference; 1/6 is allowed
_KINKS = 1000  # most cut-off positions that become grid points


@dataclass(frozen=True, eq=False)
class BoundProblem:
    """The program of bounds for a sampling design: all of it but the observed frequencies.

    Positions are numbers of irrelevant items above a target, scaled to the largest pool. Under ``decreasing``
    every rank distribution is a mixture of uniform distributions on the first ranks, and a position is the
    number of ranks of such a uniform distribution.

    Parameters
    ----------
    contexts : those whose ranks are unknown
    design, stopping : how negatives were sampled
    group, kind : of each context, and of each group; see ``group_contexts``
    events : those whose probabilities the region limits
    shape : assumption on the rank distribution, or None
    """

    contexts: Contexts
    design: Design
    stopping: Stopping | None
    group: IntArray
    kind: IntArray
    events: SampledRankEvents
    shape: Shape | None

    @classmethod
    def of(
        cls, contexts: Contexts, design: Design, stopping: Stopping | None, shape: Shape | None
    ) -> BoundProblem:
        """Return the problem of these contexts: groups them and chooses the events."""
        group, kind = group_contexts(contexts, by_sample=stopping is None)
        largest = int(contexts.n_negatives.max()) if stopping is None else stopping.sizes[-1]
        return cls(contexts, design, stopping, group, kind, make_events(largest), shape)

    @classmethod
    def of_tally(cls, counted: Tally, is_known: BoolArray, shape: Shape | None) -> BoundProblem:
        """Return the problem of the contexts of a tally whose ranks are unknown."""
        contexts = counted.contexts.take(np.flatnonzero(~is_known))
        return cls.of(contexts, counted.design, stopping_of(counted), shape)

    def sample_limits(
        self,
        metrics: Sequence[Metric],
        counted: Tally,
        is_known: BoolArray,
        *,
        level: float,
        step: float = STEP,
        pools: Pools = "free",
        task: ProgressTask = SILENT_TASK,
    ) -> tuple[FloatArray, Method]:
        """Return limits of what targets with unknown ranks add to each metric, and the region's method.

        Parameters
        ----------
        metrics : the metrics to bound
        counted, is_known : the sample, and the contexts whose ranks are known, as in ``of_tally``
        level : of the confidence region
        step, pools, task : as in ``limits``
        """
        region, n_users = observed_region(counted, ~is_known, self.events, level=level)
        n_targets = counted.context_weights[~is_known]
        masses = np.bincount(self.group, n_targets / self.contexts.n_relevant) / n_users
        limits = self.limits(metrics, region, masses, step=step, pools=pools, task=task)
        return limits * (n_users / counted.n_users), region.method

    def limits(
        self,
        metrics: Sequence[Metric],
        region: ConfidenceRegion,
        masses: FloatArray,
        *,
        step: float = STEP,
        pools: Pools = "free",
        task: ProgressTask = SILENT_TASK,
    ) -> FloatArray:
        """Return the smallest and largest mean gain over users of each metric, (n_metrics, 2).

        Parameters
        ----------
        metrics : the metrics to bound
        region : limits of the mean probabilities of the events
        masses : (n_groups,) weight of each group's targets, 1/(relevant items of their user), per user
        step : spacing of grid points in standard deviations of the sampled rank
        pools : whether groups of one kind share their distribution of R/N
        task : where finished metrics are reported
        """
        points = self.grid_points(metrics, step)
        merged = self.kind if pools == "shared" else np.arange(len(self.kind))
        weights = np.zeros((int(merged.max()) + 1, len(merged)))
        weights[merged, np.arange(len(merged))] = masses
        total = weights.sum(axis=1)
        weights /= total[:, None]
        lower, upper = (np.tensordot(weights, table, 1) for table in self.probabilities(points))
        program = LinearProgram(lower, upper, total, region.low, region.high)
        columns = program.feasible_columns  # shared by all metrics

        def both(metric: Metric) -> tuple[float, float]:
            low, high = (weights @ table for table in self.gains(metric, points))
            limits = -program.upper_bound(-low, columns), program.upper_bound(high, columns)
            task.advance()
            return limits

        return np.array(list(ordered_map(both, metrics, n_threads=available_threads())))

    @property
    def last_position(self) -> int:
        """The position of the last rank of the largest pool."""
        return int(self.contexts.n_candidates.max()) + (self.shape is not None)

    @cached_property
    def members(self) -> list[Contexts]:
        """Contexts that represent each group: per kind of target its smallest, median and largest pool.

        Of graded targets each of them has the smallest and the largest weight of its kind.
        """
        members = []
        for group in range(len(self.kind)):
            rows = np.flatnonzero(self.group == group)
            kinds = np.stack([self.contexts.n_relevant[rows], self.contexts.n_relevant_above[rows]], axis=1)
            keep, extremes = [], []
            for kind in np.unique(kinds, axis=0):
                alike = rows[(kinds == kind).all(axis=1)]
                alike = alike[np.lexsort((self.contexts.n_pool[alike], self.contexts.n_candidates[alike]))]
                keep.append(np.unique([alike[0], alike[len(alike) // 2], alike[-1]]))
                if self.contexts.weights is not None:
                    own = self.contexts.weights[alike]
                    both = np.stack([own.min(axis=0), own.max(axis=0)])
                    extremes.append(np.repeat(both[:, None], len(keep[-1]), axis=1))
            taken = self.contexts.take(np.unique(np.concatenate(keep)))
            if extremes:
                weights = np.concatenate(extremes, axis=1)
                taken = self.contexts.take(np.tile(np.concatenate(keep), 2))
                taken = replace(taken, weights=weights.reshape(-1, weights.shape[2]))
            members.append(taken)
        return members

    def grid_points(self, metrics: Sequence[Metric], step: float) -> FloatArray:
        """Return the positions of the grid, cut-offs of the metrics among them where these are few."""
        size = int(self.contexts.n_candidates.max())
        n_negatives = float(self.events.largest)
        if not self.design.replacement:
            m = min(n_negatives, size - 0.5)
            n_negatives = min(m * size / (size - m), max(m, (step * size / 2) ** 2))
        edges = make_grid(size + 1, n_negatives, step=step).edges
        points = edges[1:] if self.shape else np.append(edges[:-1], size)
        kinks: list[FloatArray] = [np.zeros(0)]
        for members in self.members:
            kinks += [self._kinks(metric, members).ravel() for metric in metrics]
        extra = np.unique(np.concatenate(kinks).round(6))
        extra = extra if len(extra) <= _KINKS else np.zeros(0)
        return np.unique(np.concatenate([points.astype(np.float64), extra]))

    def probabilities(self, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper probabilities of the events, (n_groups, n_points, n_events).

        Interpolated between grid points they contain the probabilities of every rank in between.
        """
        at = interior_points(points)
        lower, upper = np.empty((2, len(self.kind), len(points), len(self.events)))
        largest = self.contexts.n_candidates.max()
        for group, members in enumerate(self.members):
            sizes = np.unique(np.sort(members.n_candidates)[[0, len(members) // 2, -1]])
            laws = [self._law(int(size), int(members.n_negatives[0])) for size in sizes]
            low, high = envelope(points, at, np.stack([self._probabilities_at(law, at) for law in laws]))
            if len(laws) > 1 or sizes[0] < largest:  # at this scale, ranks of other pools are no integers
                margin = self._curvature(laws[0], points)
                low, high = low - margin, high + margin
            lower[group], upper[group] = low, high
        return lower, upper

    def gains(self, metric: Metric, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper gains, times relevant items of the user, (n_groups, n_points)."""
        at = interior_points(points)
        lower, upper = np.empty((2, len(self.kind), len(points)))
        for group, members in enumerate(self.members):
            curves = self._gains_at(metric, members, np.broadcast_to(at, (len(members), *at.shape)))
            kinks = self._kinks(metric, members)
            gains = self._gains_at(metric, members, kinks)[..., None]
            low, high = envelope(points, at, curves[..., None], (kinks, gains))
            lower[group], upper[group] = low[:, 0], high[:, 0]
        return lower, upper

    def _kinks(self, metric: Metric, members: Contexts) -> FloatArray:
        """Return the positions next to a metric's cut-off, (n_members, 2); (n_members, 0) without cut-off."""
        if metric.cutoff is None:
            return np.zeros((len(members), 0))
        within = (metric.cutoff - members.n_relevant_above)[:, None]  # number of ranks within the cut-off
        first = 0 if self.shape is None else 1
        size = (members.n_candidates + first)[:, None]
        at = np.concatenate([within - 1, within], axis=1)
        position: FloatArray = np.where((at >= first) & (at <= size), at, first) * (self.last_position / size)
        return position

    def _law(self, n_candidates: int, n_negatives: int) -> Law:
        if self.stopping is not None:
            return AdaptiveLaw(n_candidates, self.stopping, self.design.replacement)
        return make_law(n_candidates, n_negatives, replacement=self.design.replacement)

    def _probabilities_at(self, law: Law, at: FloatArray) -> FloatArray:
        """Return the probabilities at positions, (..., n_events)."""
        if self.shape is None:
            return _interpolate(
                at * (law.n_candidates / self.last_position), lambda n: self._probabilities_of(law, n)
            )

        def uniform(counts: IntArray) -> FloatArray:
            grid = _grid_of(counts, law.n_candidates)
            nodes = make_nodes(grid, law.n_candidates + 1)
            ranks, back = np.unique(nodes.n_above, return_inverse=True)
            terms = nodes.weight[:, None] * self._probabilities_of(law, ranks)[back]
            means = np.add.reduceat(terms, np.searchsorted(nodes.bin, np.arange(grid.n_bins)))
            return _running_means(means, grid, counts)

        return _interpolate(np.maximum(at * ((law.n_candidates + 1) / self.last_position), 1.0), uniform)

    def _curvature(self, law: Law, points: FloatArray) -> FloatArray:
        """Return the largest deviation of probabilities between ranks from chords, (n_points, n_events)."""
        first = 0 if self.shape is None else 1
        unit = self.last_position / (law.n_candidates + first)
        nearest = np.clip(np.rint(points / unit), first + 1, max(law.n_candidates + first - 1, first + 1))
        around = (nearest[:, None] + np.array([-1, 0, 1])) * unit
        left, middle, right = np.moveaxis(
            self._probabilities_at(law, np.minimum(around, self.last_position)), 1, 0
        )
        deviation = np.abs(left - 2 * middle + right) / _EIGHTH
        padded = np.pad(deviation, ((1, 1), (0, 0)), mode="edge")
        widest: FloatArray = np.maximum(np.maximum(padded[:-2], padded[2:]), deviation)
        return widest

    def _probabilities_of(self, law: Law, n_above: IntArray) -> FloatArray:
        """Return the probabilities given J, (len(n_above), n_events)."""
        weights = self.events.indicators(law.outcome_sizes, law.outcome_above).astype(np.float64)
        rows = max(_CHUNK // len(weights), 1)
        parts = [law.pmf(n_above[i : i + rows]) @ weights for i in range(0, len(n_above), rows)]
        return np.concatenate(parts)

    def _gains_at(self, metric: Metric, members: Contexts, at: FloatArray) -> FloatArray:
        """Return gains, times relevant items of the user, at positions of each member, shaped as ``at``."""
        size, flat = members.n_candidates[:, None], at.reshape(len(members), -1)
        if self.shape is None:
            position = _rounded(flat * (size / self.last_position))
            left = np.floor(position).astype(np.int64)
            below = gain_at(metric, left, members)
            gains = below + (position - left) * (gain_at(metric, np.minimum(left + 1, size), members) - below)
        else:
            gains = np.stack(
                [
                    self._mean_gains(metric, members.take(np.array([row])), flat[row])
                    for row in range(len(size))
                ]
            )
        return (gains * members.n_relevant[:, None]).reshape(at.shape)

    def _mean_gains(self, metric: Metric, member: Contexts, at: FloatArray) -> FloatArray:
        """Return the mean gains over the first k ranks, for positions k, (len(at),)."""
        size = int(member.n_candidates[0])

        def uniform(counts: IntArray) -> FloatArray:
            grid = _grid_of(counts, size)
            return _running_means(bin_gains(metric, member, grid)[0][:, None], grid, counts)

        return _interpolate(np.maximum(at * ((size + 1) / self.last_position), 1.0), uniform)[:, 0]


def _rounded(position: FloatArray) -> FloatArray:
    """Return positions with those that are integers up to rounding made exact."""
    whole = np.rint(position)
    return np.where(np.abs(position - whole) < 1e-9 * (1 + whole), whole, position)


def _interpolate(position: FloatArray, values: Callable[[IntArray], FloatArray]) -> FloatArray:
    """Return values at positions by linear interpolation between integers, (..., n_columns)."""
    position = _rounded(position)
    left = np.floor(position).astype(np.int64)
    right = np.ceil(position).astype(np.int64)
    needed, which = np.unique(np.stack([left, right]), return_inverse=True)
    table = values(needed)
    below, above = table[which.reshape(2, *position.shape)]
    values_at: FloatArray = below + (position - left)[..., None] * (above - below)
    return values_at


def _grid_of(counts: IntArray, n_candidates: int) -> RankGrid:
    """Return bins of ranks with the given counts of ranks as edges."""
    return RankGrid(np.unique(np.concatenate([[0, n_candidates + 1], counts])))


def _running_means(means: FloatArray, grid: RankGrid, counts: IntArray) -> FloatArray:
    """Return the means over the first k ranks, for k in counts, from means over bins."""
    sums = np.cumsum(means * np.diff(grid.edges)[:, None], axis=0)
    running: FloatArray = sums[np.searchsorted(grid.edges, counts) - 1] / counts[:, None]
    return running
