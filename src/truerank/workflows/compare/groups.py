"""Differences between models within groups of users or of targets.

Every model in every group is a model of one comparison, and the pairs are those within a group: intervals,
posteriors and verdicts are those of any comparison, and hold at once for all groups, pairs and metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import SampledRanks
from truerank.core.result import Estimate, Group, Result, Segments
from truerank.core.split import GroupLabels
from truerank.inference.posterior.prior import SeenItems
from truerank.workflows.compare.builder import ComparisonBuilder
from truerank.workflows.compare.changes import NEW, OLD, reference_value, told_by_intervals
from truerank.workflows.compare.differences import AnyRanks
from truerank.workflows.compare.options import ComparedModel, CompareOptions, make_compared_model
from truerank.workflows.compare.result import ComparedGroup, ComparedSegments, Comparison, Difference
from truerank.workflows.segments.values import (
    GroupChange,
    group_size,
    reversals,
    rows_in,
    sampled_in,
    size_notes,
)

_IN = "\x1f"  # between the name of a model and that of its group, while all of them are compared


@dataclass(frozen=True, eq=False)
class GroupComparison:
    """Compares models within groups.

    Parameters
    ----------
    ranks : of all models, which fit together (see ``align_ranks``)
    pairs : of models, by their indices
    options : as for all users. Identification bounds are not computed within groups: from sampled ranks
        posteriors decide
    n_test_users : test users that those with exact ranks were drawn from; within a group fewer were, so that
        intervals for these test users are wider than they need be
    progress, seen : as in ``ComparisonBuilder``
    """

    ranks: Mapping[str, AnyRanks]
    pairs: Sequence[tuple[int, int]]
    options: CompareOptions
    n_test_users: int | None = None
    progress: Progress = SILENT
    seen: SeenItems | None = None

    def run(self, labels: GroupLabels, overall: Comparison) -> ComparedSegments:
        """Return the differences in each group, and where the better model overall is not the better one.

        Parameters
        ----------
        labels : of the users or items
        overall : the comparison over all users
        """
        models: list[ComparedModel] = []
        compared: list[int] = []
        for place, name in enumerate(labels.names):
            parts = self._parts(labels, place)
            if all(len(part) for part in parts.values()):
                compared.append(place)
                models += [
                    make_compared_model(f"{model}{_IN}{name}", part, self.options)
                    for model, part in parts.items()
                ]
        groups = [ComparedGroup(name, *self._size(labels, place)) for place, name in enumerate(labels.names)]
        notes: list[str] = []
        if compared:
            n_models = len(self.ranks)
            pairs = [
                (at * n_models + a, at * n_models + b) for at in range(len(compared)) for a, b in self.pairs
            ]
            options = replace(self.options, bounds=False, shape=None)
            found = ComparisonBuilder(models, options, self.n_test_users, self.progress, self.seen).run(
                pairs, []
            )
            notes = [note.replace(_IN, " in ") for note in found.notes if note not in overall.notes]
            for place in compared:
                groups[place] = _with_differences(groups[place], found)
        return ComparedSegments(
            labels.by,
            labels.of,
            labels.rule,
            tuple(groups),
            (*size_notes(groups), *notes, *group_reversals(labels.by, overall.differences, groups)),
        )

    def _parts(self, labels: GroupLabels, place: int) -> dict[str, AnyRanks]:
        """Return the ranks of each model in one group."""
        parts: dict[str, AnyRanks] = {}
        for name, ranks in self.ranks.items():
            kept = rows_in(ranks, labels, place)
            parts[name] = sampled_in(ranks, kept) if isinstance(ranks, SampledRanks) else ranks.where(kept)
        return parts

    def _size(self, labels: GroupLabels, place: int) -> tuple[int, int]:
        """Return users and targets of a group, of the model that has the fewest."""
        return min(group_size(ranks, rows_in(ranks, labels, place)) for ranks in self.ranks.values())


def _with_differences(group: ComparedGroup, found: Comparison) -> ComparedGroup:
    inside = f"{_IN}{group.name}"
    return replace(
        group,
        estimates=tuple(
            replace(one, model=one.model.removesuffix(inside))
            for one in found.estimates
            if one.model.endswith(inside)
        ),
        differences=tuple(
            replace(
                one,
                first=one.first.removesuffix(inside),
                second=one.second.removesuffix(inside),
                sentence=one.sentence.replace(inside, ""),
            )
            for one in found.differences
            if one.first.endswith(inside)
        ),
    )


def group_reversals(by: str, overall: Sequence[Difference], groups: Sequence[ComparedGroup]) -> Iterator[str]:
    """Yield, for each pair and metric, where the model that is ahead overall is not ahead in groups."""
    for whole in overall:
        if whole.value == 0:
            continue
        sign = 1.0 if whole.value > 0 else -1.0
        better, worse = (whole.first, whole.second) if sign > 0 else (whole.second, whole.first)
        inside = [
            GroupChange.of(group.name, sign, one.value, *_limits(one))
            for group in groups
            for one in group.differences
            if (one.first, one.second, one.metric) == (whole.first, whole.second, whole.metric)
        ]
        yield from reversals(by, better, worse, whole.metric, inside)


def _limits(one: Difference) -> tuple[float, float]:
    return (-1.0, 1.0) if one.low is None or one.high is None else (one.low, one.high)


def changed_groups(
    old: Result,
    new: Result,
    pairs: Sequence[tuple[str, str]],
    metrics: Sequence[str],
    overall: Comparison,
    margin: float | None,
) -> tuple[tuple[ComparedSegments, ...], list[str]]:
    """Return how values changed within the groups that two results share, and notes on those they do not.

    A change within a group is told by the intervals of both results.

    Parameters
    ----------
    old, new : the results
    pairs, metrics : old and new names of models, and the metrics that both have
    overall : the changes of all users
    margin : changes up to this size count as equivalent
    """
    found, notes = [], []
    for before in old.segments:
        now = next((one for one in new.segments if one.by == before.by), None)
        if now is None:
            notes.append(f"The new result has no groups by {before.by}.")
            continue
        if [group.name for group in before.groups] != [group.name for group in now.groups]:
            notes.append(
                f"Groups by {before.by} have other cut points or values in the new result; those with equal "
                "names are compared. Cut points that stay are given, such as history(cuts=5:20)."
            )
        found.append(_changed(before, now, pairs, metrics, overall, margin))
    return tuple(found), notes


def _changed(
    before: Segments,
    now: Segments,
    pairs: Sequence[tuple[str, str]],
    metrics: Sequence[str],
    overall: Comparison,
    margin: float | None,
) -> ComparedSegments:
    groups = []
    for group in now.groups:
        earlier = next((one for one in before.groups if one.name == group.name), None)
        if earlier is None:
            continue
        estimates, differences = [], []
        for name, later in pairs:
            for metric in metrics:
                first, second = _estimate_of(group, later, metric), _estimate_of(earlier, name, metric)
                if first is not None and second is not None:
                    first, second = (
                        replace(first, model=f"{later}{NEW}"),
                        replace(second, model=f"{name}{OLD}"),
                    )
                    estimates += [first, second]
                    differences.append(told_by_intervals(first, second, margin, is_same_data=False))
        sizes = min(group.n_users, earlier.n_users), min(group.n_targets, earlier.n_targets)
        groups.append(ComparedGroup(group.name, *sizes, tuple(estimates), tuple(differences)))
    notes = (*size_notes(groups), *group_reversals(now.by, overall.differences, groups))
    return ComparedSegments(now.by, now.of, now.rule, tuple(groups), notes)


def _estimate_of(group: Group, model: str, metric: str) -> Estimate | None:
    """Return the value of a model by the reference of the group, as for all users."""
    return reference_value(Result("evaluate", group.estimates), model, metric)
