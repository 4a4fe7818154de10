r"""Posterior of metrics of users with several targets: curves by number of targets, and places among them.

A user's targets are not alike. Those of users with many targets rank differently from those of users with
few, so users are grouped by their number of targets and each group has a curve of its own, with the prior of
single targets: it is that of a random target of such a user. Within a group the place k of a target among the
targets of its user is known, and its law given the rank follows from the curve (``places``). The ranks that
fit a target are those that explain both its sampled rank r and its place,

.. math:: P(R \mid r, k) \propto \pi_R \, P(r \mid R) \, P(k \mid R, n).

The last factor depends on the drawn curve and on how much users differ, which is drawn too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix
from scipy.special import ndtri

from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.estimation.distribution.base import bin_gains
from truerank.estimation.distribution.likelihood import Likelihood, grouped, make_likelihood
from truerank.estimation.tally import Contexts, Tally
from truerank.inference.bounds.identify import fully_ranked_contexts, known_value
from truerank.inference.posterior.curves import Draws, Evidence
from truerank.inference.posterior.places import SPREADS, joint_masses, middle_of, place_table, round_down
from truerank.inference.posterior.values import STEP, design_effect, gamma_draws, observed_cells
from truerank.metrics.base import Metric

#: Fewest users of a group; smaller groups are put together with their neighbours.
FEWEST_USERS = 100
#: Correlation of the errors of groups: what the prior gets wrong about a model, it may get wrong for all.
SHARING = 0.6
#: Standard deviation of the spread between users at the first ranks, given that of targets near them.
TOP_SPREAD = 0.3
_CHUNK = 1 << 21  # joint masses in memory at once: 16 MB
_FAR = 1e-7  # relative probability below which sampled ranks and bins do not go together
_TINY = 1e-300


def has_several(tally: Tally) -> bool:
    """Whether some user has more than one target."""
    return bool((tally.contexts.n_relevant > 1).any())


@dataclass(frozen=True, eq=False)
class PlaceKinds:
    """Targets of users who have one number of targets, or nearly, by place among them.

    Parameters
    ----------
    n_targets : the number
    n_rows : targets of these users
    counts : (n_places, n_groups) targets by place and group of sampled ranks; the last place is all places
        that have no gain whatever the rank
    valued : (n_places, n_groups) those of them whose rank is not known
    gains, squared : (n_metrics, n_places, n_bins) mean over targets of the gain in a bin, and of its square
    """

    n_targets: int
    n_rows: float
    counts: FloatArray
    valued: FloatArray
    gains: FloatArray
    squared: FloatArray


@dataclass(frozen=True, eq=False)
class Entries:
    """Targets of a group of users whose rank is not known: users, and where in ``PlaceKinds`` they stand."""

    user: IntArray
    kind: IntArray
    place: IntArray
    group: IntArray
    weight: FloatArray


@dataclass(frozen=True, eq=False)
class UserGroup:
    """Users with about the same number of targets.

    Parameters
    ----------
    evidence : their sampled ranks, for the curve
    kinds : of their targets, by number of targets
    entries : the targets
    n_places : places from this one on have no gain
    bins : per metric, those with a gain
    near : groups of sampled ranks that can come from bins with a gain
    n_bins : first bins, outside of which these sampled ranks do not come from
    n_users : of all groups together, which the mean is over
    """

    evidence: Evidence
    kinds: tuple[PlaceKinds, ...]
    entries: Entries
    n_places: int
    bins: tuple[IntArray, ...]
    near: IntArray
    n_bins: int
    n_users: int

    def spread_heights(self, masses: FloatArray) -> FloatArray:
        """Return log-likelihoods of ``SPREADS``: of the places of targets near the ranks that have a gain.

        Targets of one user are not independent, so the sum over them is divided by their number.
        """
        matrix = self.evidence.matrix[self.near]
        of_ranks = np.maximum(matrix @ masses, _TINY)
        heights = np.zeros(len(SPREADS))
        for number, spread in enumerate(SPREADS.tolist()):
            for kinds in self.kinds:
                predicted = self._joint(kinds, masses[:, None], spread)[..., 0] @ matrix.T
                logs = np.log(np.maximum(predicted, _TINY) / of_ranks)
                heights[number] += float((kinds.counts[:, self.near] * logs).sum()) / kinds.n_targets
        return heights

    def first_places(self, masses: FloatArray, spread: float) -> tuple[FloatArray, FloatArray]:
        """Return targets that came first in their sample by place, counted and expected, (n_steps,) each."""
        matrix = self.evidence.matrix
        is_first = matrix.argmax(axis=1) == 0
        of_ranks = np.maximum(matrix[is_first] @ masses, _TINY)
        counted, expected = np.zeros((2, max(len(kinds.counts) for kinds in self.kinds)))
        for kinds in self.kinds:
            share = self._joint(kinds, masses[:, None], spread)[..., 0] @ matrix[is_first].T / of_ranks
            found = kinds.counts[:, is_first]
            counted[: len(found)] += found.sum(axis=1)
            expected[: len(found)] += share @ found.sum(axis=0)
        return counted, expected

    def sample(
        self,
        draws: Draws,
        spread_weights: FloatArray,
        sampled: float,
        n_unsampled: float,
        generator: np.random.Generator,
    ) -> FloatArray:
        """Return what these users add to each metric under each draw, (n_metrics, n_draws).

        Parameters
        ----------
        draws, sampled, n_unsampled, generator : as in ``SampleGains.sample``
        spread_weights : probabilities of ``SPREADS``
        """
        n_draws = draws.masses.shape[1]
        which = generator.choice(len(SPREADS), n_draws, p=spread_weights)
        near = self._near
        mean, plain, square = np.zeros((3, len(self.bins), n_draws))
        for number in np.unique(which).tolist():
            columns, spread = np.flatnonzero(which == number), float(SPREADS[number])
            for kinds in self.kinds:
                valued = kinds.valued[:, self.near, None]
                step = max(_CHUNK // (len(valued) * sum(near.shape)), 1)
                for start in range(0, len(columns), step):
                    some = columns[start : start + step]
                    joint = self._joint(kinds, draws.masses[: self.n_bins, some], spread)
                    if sampled < 1:
                        plain[:, some] += kinds.n_rows * self._sums(kinds.gains, joint)
                        square[:, some] += kinds.n_rows * self._sums(kinds.squared, joint)
                    # the targets of each place that are expected in each bin, given their sampled ranks
                    joint *= near.T @ (valued / np.maximum(near @ joint, _TINY))
                    mean[:, some] += self._sums(kinds.gains, joint)
        usual = float(SPREADS[np.argmax(spread_weights)])
        together, alone = self._variances(draws.masses @ draws.weights, usual)
        value, n = np.zeros_like(mean), self.n_users
        for row in range(len(value)):
            if sampled > 0:
                variance = np.full(n_draws, together[row] / n**2)
                value[row] += sampled * gamma_draws(mean[row] / n, variance, generator)
            if sampled < 1:
                more = together[row] / alone[row] if alone[row] > 0 else 1.0
                variance = (more * square[row] / n - (plain[row] / n) ** 2) / n_unsampled
                value[row] += (1 - sampled) * gamma_draws(plain[row] / n, variance, generator)
        return value

    @property
    def _near(self) -> FloatArray:
        """P(sampled rank | bin) of those ``near``, (n_near, n_bins)."""
        return np.ascontiguousarray(self.evidence.matrix[self.near, : self.n_bins])

    def _joint(self, kinds: PlaceKinds, masses: FloatArray, spread: float) -> FloatArray:
        return joint_masses(place_table(kinds.n_targets, self.n_places, spread), masses)

    def _sums(self, gains: FloatArray, weights: FloatArray) -> FloatArray:
        """Return sums of gains over places and bins, (n_metrics, n_draws)."""
        return np.stack(
            [
                np.einsum("kb,kbs->s", of[:, bins], weights[:, bins])
                for of, bins in zip(gains, self.bins, strict=True)
            ]
        )

    def _variances(self, masses: FloatArray, spread: float) -> tuple[FloatArray, FloatArray]:
        """Return the variance of the sum of gains, at most, and that of independent targets, (n_metrics,).

        The ranks of a user's targets go together in unknown ways given the sample; the standard deviation of
        a sum is at most the sum of the standard deviations.
        """
        entries, near = self.entries, self._near
        n_places = max(len(kinds.counts) for kinds in self.kinds)
        together, alone = np.zeros((2, len(self.bins)))
        for metric, bins in enumerate(self.bins):
            table = np.zeros((len(self.kinds), n_places, len(self.evidence.counts)))
            for number, kinds in enumerate(self.kinds):
                joint = self._joint(kinds, masses[: self.n_bins, None], spread)[..., 0]
                predicted = np.maximum(joint @ near.T, _TINY)
                first, second = (
                    (joint[:, bins] * of[metric][:, bins]) @ near[:, bins].T / predicted
                    for of in (kinds.gains, kinds.squared)
                )
                table[number, : len(first), self.near] = np.maximum(second - first**2, 0.0).T
            variance = table[entries.kind, entries.place, entries.group]
            of_users = np.bincount(entries.user, entries.weight * np.sqrt(variance))
            alone[metric] = entries.weight @ variance
            together[metric] = max(float(of_users @ of_users), alone[metric])
        return together, alone


@dataclass(frozen=True, eq=False)
class SeveralTargets:
    """A sample of users with several targets as evidence about the ranks of each group of users.

    Parameters
    ----------
    likelihood : of the sampled ranks
    groups : of users by number of targets
    fixed : (n_metrics,) what targets contribute whose candidates were all ranked
    unit : (n_metrics,) the smallest change of the mean over users that one target can make
    """

    likelihood: Likelihood
    groups: tuple[UserGroup, ...]
    fixed: FloatArray
    unit: FloatArray

    @classmethod
    def of(cls, tally: Tally, metrics: Sequence[Metric]) -> SeveralTargets:
        """Return evidence and gains of a sample."""
        likelihood = make_likelihood([tally], step=STEP)
        places = Places.of(tally.contexts, metrics)
        is_known = fully_ranked_contexts(tally)
        gains, squared, least = places.mean_gains(tally, likelihood, metrics)
        builder = _Builder(tally, likelihood, places, gains, squared, is_known)
        return cls(
            likelihood,
            tuple(builder.group(rows) for rows in user_groups(tally)),
            np.array([known_value(tally, metric, is_known) for metric in metrics]),
            least / tally.n_users,
        )

    def spread_weights(self, masses: Sequence[FloatArray]) -> FloatArray:
        """Return probabilities of ``SPREADS`` at the first ranks, given the curve of each group.

        Most of the targets whose places say how much users differ do not have one of the first ranks; there
        users may differ somewhat more or less, by ``TOP_SPREAD``.
        """
        heights = sum(group.spread_heights(of) for group, of in zip(self.groups, masses, strict=True))
        weights = np.exp(heights - np.max(heights))
        near = np.exp(-(((SPREADS[:, None] - SPREADS) / TOP_SPREAD) ** 2) / 2)
        result: FloatArray = near @ (weights / weights.sum() / near.sum(axis=0))
        return result

    def misfit(self, masses: Sequence[FloatArray], spread: float) -> float:
        """Return how far the places of targets that came first are from those of exchangeable targets.

        It is the total variation distance between the shares of places counted and expected, less what chance
        alone makes of it.
        """
        distance = chance = total = 0.0
        for group, of in zip(self.groups, masses, strict=True):
            counted, expected = group.first_places(of, spread)
            distance += float(np.abs(counted - expected).sum()) / 2
            chance += float(np.sqrt(2 / np.pi * expected).sum()) / 2
            total += float(counted.sum())
        return max(distance - chance, 0.0) / max(total, 1.0)


def user_groups(tally: Tally) -> list[BoolArray]:
    """Return the contexts of each group: numbers of targets within a factor of 2, put together if too few."""
    n_targets = tally.contexts.n_relevant
    octave = np.frexp(n_targets.astype(np.float64))[1]
    n_users = np.bincount(octave, tally.context_weights / n_targets)
    groups: list[list[int]] = []
    total = 0.0
    for number in np.flatnonzero(n_users).tolist():
        if groups and total < FEWEST_USERS:
            groups[-1].append(number)
        else:
            groups.append([number])
            total = 0.0
        total += float(n_users[number])
    if len(groups) > 1 and total < FEWEST_USERS:
        last = groups.pop()
        groups[-1] += last
    return [np.isin(octave, group) for group in groups]


@dataclass(frozen=True, eq=False)
class Places:
    """Where contexts stand in tables of places.

    Parameters
    ----------
    size : (n_contexts,) number of targets of the user, rounded down
    row : (n_contexts,) row of ``place_table`` for that number
    start : first row of each size in a list of the rows of all sizes
    n_places : places from this one on have no gain
    """

    size: IntArray
    row: IntArray
    start: Mapping[int, int]
    n_places: int

    @classmethod
    def of(cls, contexts: Contexts, metrics: Sequence[Metric]) -> Places:
        """Return the places of contexts; those beyond all cut-offs are one."""
        cutoffs = [metric.cutoff for metric in metrics]
        most = int(contexts.n_relevant.max())
        n_places = max([1, *(most if cutoff is None else min(cutoff, most) for cutoff in cutoffs)])
        size, row = round_down(contexts.n_relevant), np.empty(len(contexts), dtype=np.int64)
        start, total = {}, 0
        for number in np.unique(size).tolist():
            own, middle = size == number, middle_of(number)
            above = np.minimum(contexts.n_relevant_above[own], middle - 1)
            steps = np.unique(round_down(np.arange(min(n_places, middle))))
            place = np.searchsorted(steps, above, side="right") - 1
            row[own] = np.where(above >= n_places, len(steps), place)
            start[number], total = total, total + len(steps) + 1
        return cls(size, row, start, n_places)

    def rows_of(self, size: int) -> slice:
        """Return which rows in the list of all belong to a number of targets."""
        n_rows = len(place_table(middle_of(size), self.n_places, 0.0))
        return slice(self.start[size], self.start[size] + n_rows)

    def mean_gains(
        self, tally: Tally, likelihood: Likelihood, metrics: Sequence[Metric]
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return mean gains and squares in the rows of all sizes, and the least gain of each metric.

        The first two are (n_metrics, n_rows, n_bins).
        """
        some = np.flatnonzero(tally.contexts.n_relevant_above < self.n_places)
        contexts, weight = tally.contexts.take(some), tally.context_weights[some]
        first = np.array([self.start[size] for size in self.size[some].tolist()], dtype=np.int64)
        at = (first + self.row[some], np.arange(len(some)))
        n_rows = max(self.rows_of(size).stop for size in self.start)
        total = np.maximum(np.bincount(at[0], weight, n_rows), _TINY)
        share = csr_matrix((weight / total[at[0]], at), shape=(n_rows, len(some)))
        gains, squared = np.zeros((2, len(metrics), n_rows, likelihood.grid.n_bins))
        least = np.zeros(len(metrics))
        for number, metric in enumerate(metrics):
            each = bin_gains(metric, contexts, likelihood.grid)
            least[number] = each[each > 0].min(initial=np.inf)
            gains[number] = share @ each
            squared[number] = share @ bin_gains(metric, contexts, likelihood.grid, power=2)
        return gains, squared, np.where(np.isfinite(least), least, 0.0)


@dataclass(frozen=True, eq=False)
class _Builder:
    """Makes the groups of users of a sample."""

    tally: Tally
    likelihood: Likelihood
    places: Places
    gains: FloatArray
    squared: FloatArray
    is_known: BoolArray

    def group(self, contexts: BoolArray) -> UserGroup:
        """Return the group that has these contexts."""
        tally, places = self.tally, self.places
        matrix, _ = grouped(self.likelihood, 0)
        cells, outcome, context = observed_cells(tally, self.likelihood)
        here = contexts[context]
        cells, outcome, context = cells[here], outcome[here], context[here]
        weight = tally.cell_weights[cells]
        seen, outcome = np.unique(outcome, return_inverse=True)
        matrix, outcome = matrix[seen], outcome.ravel()
        entries = contexts[tally.context]
        counts = np.bincount(outcome, weight) / design_effect(tally, entries)
        kinds, sizes = [], np.unique(places.size[contexts])
        for size in sizes.tolist():
            rows, own = places.rows_of(size), places.size[context] == size
            at = (places.row[context[own]], outcome[own])
            shape = (rows.stop - rows.start, len(seen))
            unknown = weight[own] * ~self.is_known[context[own]]
            kinds.append(
                PlaceKinds(
                    middle_of(size),
                    float(weight[own].sum()),
                    csr_matrix((weight[own], at), shape=shape).toarray(),
                    csr_matrix((unknown, at), shape=shape).toarray(),
                    self.gains[:, rows],
                    self.squared[:, rows],
                )
            )
        of_cell = np.zeros(tally.n_cells, dtype=np.int64)
        of_cell[cells] = outcome
        entries &= ~self.is_known[tally.context]
        of_entry = tally.context[entries]
        listed = Entries(
            tally.user[entries],
            np.searchsorted(sizes, places.size[of_entry]),
            places.row[of_entry],
            of_cell[tally.cell[entries]],
            tally.weight[entries],
        )
        bins = tuple(
            np.flatnonzero(np.any([of.gains[row].any(axis=0) for of in kinds], axis=0))
            for row in range(len(self.gains))
        )
        near, n_bins = _reach(matrix, bins)
        evidence = Evidence(matrix, counts)
        return UserGroup(evidence, tuple(kinds), listed, places.n_places, bins, near, n_bins, tally.n_users)


def _reach(matrix: FloatArray, bins: Sequence[IntArray]) -> tuple[IntArray, int]:
    """Return which sampled ranks can come from bins with a gain, and how many first bins are needed.

    Needed are the bins with a gain and all that these sampled ranks can come from.
    """
    largest = matrix.max(axis=1)
    with_gain = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *bins]))
    near = np.flatnonzero(matrix[:, with_gain].max(axis=1, initial=0.0) > _FAR * largest)
    is_reached = (matrix[near] > _FAR * largest[near, None]).any(axis=0)
    last = max(int(np.flatnonzero(is_reached).max(initial=0)), int(with_gain.max(initial=0)))
    return near, last + 1


def coupled_sum(
    values: Sequence[FloatArray],
    weights: Sequence[FloatArray],
    sharing: float,
    generator: np.random.Generator,
    n_draws: int,
) -> FloatArray:
    """Return draws of the sum of what groups add, (n_metrics, n_draws), the errors of groups correlated.

    Parameters
    ----------
    values, weights : (n_metrics, n_drawn) of each group, and their weights
    sharing : correlation of the normal scores of groups
    generator, n_draws : of the joint draws
    """
    scores = ndtri((np.arange(n_draws) + 0.5) / n_draws)
    common = generator.permutation(scores)
    total = np.zeros((len(values[0]), n_draws))
    for drawn, weight in zip(values, weights, strict=True):
        z = np.sqrt(sharing) * common + np.sqrt(1 - sharing) * generator.permutation(scores)
        quantiles = (np.argsort(np.argsort(z)) + 0.5) / n_draws
        total += drawn[:, _at_quantiles(drawn, weight, quantiles)]
    return total


def _at_quantiles(values: FloatArray, weights: FloatArray, quantiles: FloatArray) -> IntArray:
    score = np.zeros(len(weights))
    for row in values:
        order = np.argsort(row, kind="stable")
        sums = np.cumsum(weights[order]) - weights[order] / 2
        score[order] += ndtri(np.clip(sums, 1e-12, 1 - 1e-12))
    order = np.argsort(score, kind="stable")
    place = np.searchsorted(np.cumsum(weights[order]), quantiles)
    found: IntArray = order[np.minimum(place, len(order) - 1)]
    return found
