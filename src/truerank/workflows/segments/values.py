"""Values by group: the same metrics and intervals, each from the rows of its group.

Exact values of groups of users are means of the same values per user. For groups of targets the relevant
items of a user are its targets in the group; the list stays as it is, so that recall@10 of the tail counts
targets of the tail among the ten items that were recommended. Estimates are made from the sampled ranks of
the group alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from truerank.core.errors import CannotEstimate
from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.result import FEWEST_USERS, Estimate, Group, Segments, mark_best
from truerank.core.split import GroupLabels
from truerank.core.table import listed_in_words
from truerank.core.types import BoolArray, FloatArray
from truerank.metrics.registry import values
from truerank.workflows.assembly import MOST_PAIRED, EvaluatedModel, metric_estimates, pair_intervals
from truerank.workflows.estimate import estimate_each
from truerank.workflows.options import EstimateOptions, EvaluateOptions


def rows_in(ranks: Ranks | SampledRanks, labels: GroupLabels, place: int) -> BoolArray:
    """Return which rows of ranks are in the group at a place of the names."""
    kept: BoolArray = labels.of_rows(ranks.user, ranks.item) == place
    return kept


def group_size(ranks: Ranks | SampledRanks, kept: BoolArray) -> tuple[int, int]:
    """Return the users and the targets among some rows."""
    user = ranks.user[kept]  # rows of one user lie together
    return int(np.count_nonzero(np.diff(user))) + bool(len(user)), len(user)


def sampled_in(sample: SampledRanks, kept: BoolArray) -> SampledRanks:
    """Return the sampled ranks of a group; users drawn from more test users are the same part of them."""
    part = sample.where(kept)
    total = sample.design.n_test_users
    if total is None or part.n_users == 0:
        return part
    n_all = max(round(total * part.n_users / sample.n_users), part.n_users)
    return replace(part, design=replace(part.design, n_test_users=n_all))


@dataclass(frozen=True, eq=False)
class _Group:
    """One group while it is evaluated: ``per_user`` has the exact values of each model."""

    group: Group
    per_user: list[FloatArray]
    notes: list[str]


def evaluated_segments(
    models: Sequence[EvaluatedModel],
    groups: Sequence[GroupLabels],
    options: EvaluateOptions,
    *,
    n_test_users: int | None = None,
    progress: Progress = SILENT,
) -> tuple[Segments, ...]:
    """Return the values of evaluated models by each grouping.

    Parameters
    ----------
    models : with their exact or sampled ranks
    groups : of the split that they were evaluated on
    options : metrics and intervals, as for the values of all users
    n_test_users : test users that those ranked were drawn from; None when all were taken
    progress : where resamples are reported
    """
    found = []
    for labels in groups:
        parts = [
            _evaluated(models, labels, place, options, n_test_users, progress)
            for place in range(len(labels.names))
        ]
        notes = [note for part in parts for note in part.notes]
        groups_of = [part.group for part in parts]
        filled = [at for at, part in enumerate(parts) if len(part.per_user) == len(models) > 1]
        if filled and len(models) <= MOST_PAIRED:
            marked, sentences = _compared(models, labels.by, [parts[at] for at in filled], options)
            notes += sentences
            for at, group in zip(filled, marked, strict=True):
                groups_of[at] = group
        found.append(
            Segments(
                labels.by,
                labels.of,
                labels.rule,
                tuple(groups_of),
                (*size_notes(groups_of), *dict.fromkeys(notes)),
            )
        )
    return tuple(found)


def estimated_segments(
    samples: Mapping[str, SampledRanks],
    groups: Sequence[GroupLabels],
    options: EstimateOptions,
    progress: Progress = SILENT,
) -> tuple[Segments, ...]:
    """Return the estimates of some models by each grouping, each group from its own sampled ranks.

    Parameters
    ----------
    samples : sampled ranks by model
    groups : of the users and items of their codes
    options, progress : as for all users
    """
    found = []
    for labels in groups:
        parts, notes = list[Group](), list[str]()
        for place, group in enumerate(labels.names):
            estimates, sizes = list[Estimate](), (0, 0)
            for name, sample in samples.items():
                kept = rows_in(sample, labels, place)
                if kept.any():
                    sizes = max(sizes, group_size(sample, kept))
                    made, reason = estimated_group(name, sampled_in(sample, kept), options, progress)
                    estimates += made
                    notes += [f"{group}: {reason}"] if reason else []
            parts.append(Group(group, *sizes, tuple(mark_best(estimates))))
        told = (*size_notes(parts), *dict.fromkeys(notes))
        found.append(Segments(labels.by, labels.of, labels.rule, tuple(parts), told))
    return tuple(found)


def _evaluated(
    models: Sequence[EvaluatedModel],
    labels: GroupLabels,
    place: int,
    options: EvaluateOptions,
    n_test_users: int | None,
    progress: Progress,
) -> _Group:
    estimates, per_user, notes, sizes = list[Estimate](), list[FloatArray](), list[str](), (0, 0)
    for model in models:
        if model.sampled is not None:
            kept = rows_in(model.sampled, labels, place)
            sizes = group_size(model.sampled, kept)
            if sizes[0]:
                found, reason = estimated_group(
                    model.name, sampled_in(model.sampled, kept), options.estimation(), progress
                )
                estimates += found
                notes += [f"{labels.names[place]}: {reason}"] if reason else []
        if model.ranks is not None and model.per_user is not None:
            kept = rows_in(model.ranks, labels, place)
            sizes = group_size(model.ranks, kept)
            if sizes[0]:
                own = _exact_values(model.ranks, model.per_user, kept, labels, options)
                drawn_from = None
                if n_test_users is not None:
                    drawn_from = max(round(n_test_users * len(own) / len(model.per_user)), len(own))
                estimates += metric_estimates(model.name, own, options, n_test_users=drawn_from)
                per_user.append(own)
    return _Group(Group(labels.names[place], *sizes, tuple(mark_best(estimates))), per_user, notes)


def _exact_values(
    ranks: Ranks, per_user: FloatArray, kept: BoolArray, labels: GroupLabels, options: EvaluateOptions
) -> FloatArray:
    """Return the values per user of a group, (n_users, n_metrics)."""
    if labels.of == "users":
        return per_user[kept[ranks.starts]]
    return values(options.metrics, ranks.where(kept), ties=options.ties, seed=options.seed)


def estimated_group(
    name: str, sample: SampledRanks, options: EstimateOptions, progress: Progress = SILENT
) -> tuple[list[Estimate], str]:
    """Return the estimates of one model in a group, or none and the reason why there are none."""
    try:
        return list(estimate_each(name, sample, options, progress=progress)), ""
    except CannotEstimate as error:
        return [], f"no estimates of {name}, because {str(error)[:1].lower()}{str(error)[1:]}"


def size_notes(groups: Sequence[Group]) -> Iterator[str]:
    """Yield which groups are empty, and which are too small for their intervals to be relied on."""
    empty = [group.name for group in groups if group.n_users == 0]
    if empty:
        yield f"Without targets: {listed_in_words(empty)}."
    small = [f"{group.name} ({group.n_users:,})" for group in groups if group.is_small]
    if small:
        few = f"Fewer than {FEWEST_USERS} users, so that intervals are not reliable"
        yield f"{few}: {listed_in_words(small)}."


def _compared(
    models: Sequence[EvaluatedModel], by: str, parts: Sequence[_Group], options: EvaluateOptions
) -> tuple[list[Group], list[str]]:
    """Return groups that say which models may be best in them, and where the best one overall is not."""
    found = pair_intervals([part.per_user for part in parts], level=options.level, seed=options.seed)
    pairs = list(combinations(range(len(models)), 2))
    metrics = [str(metric) for metric in options.metrics]
    may_be_best = np.ones((len(parts), len(models), len(metrics)), np.bool_)
    for row, (a, b) in enumerate(pairs):
        may_be_best[:, b] &= ~(found.low[:, row] > 0)
        may_be_best[:, a] &= ~(found.high[:, row] < 0)
    names = [model.name for model in models]
    marked = [
        replace(
            part.group,
            estimates=tuple(
                replace(e, is_best=bool(may_be_best[at, names.index(e.model), metrics.index(e.metric)]))
                if e.kind == "exact"
                else e
                for e in part.group.estimates
            ),
        )
        for at, part in enumerate(parts)
    ]
    overall = np.array([model.per_user.mean(axis=0) for model in models if model.per_user is not None])
    sentences: list[str] = []
    for column, metric in enumerate(metrics):
        best = int(np.argmax(overall[:, column]))
        for row, (a, b) in enumerate(pairs):
            if best not in (a, b) or overall[a, column] == overall[b, column]:
                continue
            sign = 1.0 if best == a else -1.0
            inside = [
                GroupChange.of(
                    part.group.name,
                    sign,
                    *(one[at, row, column] for one in (found.value, found.low, found.high)),
                )
                for at, part in enumerate(parts)
            ]
            sentences += reversals(by, names[best], names[b if best == a else a], metric, inside)
    return marked, sentences


@dataclass(frozen=True)
class GroupChange:
    """How far the better model overall is ahead in one group, with the simultaneous interval of that."""

    name: str
    value: float
    low: float
    high: float

    @classmethod
    def of(cls, name: str, sign: float, value: float, low: float, high: float) -> GroupChange:
        """Return a difference, or with the sign -1 the opposite one."""
        first, second = sorted((sign * float(low), sign * float(high)))
        return cls(name, sign * float(value), first, second)


def reversals(by: str, better: str, worse: str, metric: str, groups: Sequence[GroupChange]) -> Iterator[str]:
    """Yield where the better model of two loses, and whether it is better only by the mix of groups.

    A model loses in a group where the simultaneous interval of the difference lies below 0. It is better by
    the mix alone where it is behind in every group: its users or targets lie more often in groups where
    values are high.

    Parameters
    ----------
    by : spec string of the grouping
    better, worse : names of the models; overall the first has the higher value
    metric : spec string
    groups : differences, better minus worse; those with targets

    Examples
    --------
    >>> list(reversals("history", "a", "b", "auc", [GroupChange("below 5", -0.2, -0.3, -0.1)]))[0]
    "a is ahead of b in auc overall, but loses to it in the group 'below 5' (-0.2000 [-0.3000, -0.1000])..."
    """
    lost = [
        f"{one.name!r} ({one.value:+.4f} [{one.low:+.4f}, {one.high:+.4f}])" for one in groups if one.high < 0
    ]
    if lost:
        which = "group" if len(lost) == 1 else "groups"
        yield (
            f"{better} is ahead of {worse} in {metric} overall, but loses to it in the {which} "
            f"{listed_in_words(lost)} of {by}."
        )
    if groups and all(group.value < 0 for group in groups):
        yield (
            f"{better} is ahead of {worse} in {metric} overall only through the mix of groups: in every "
            f"group of {by} it is behind."
        )
