"""What changed between two results: the same models and metrics, last week and now, and a gate on it.

Where both results have their exact ranks, and these are of the same users and targets, a change is a paired
difference as in any comparison. From the numbers alone it is told by the intervals of both values, which hold
whatever the two runs have in common, and is wide. What differs in data, split or settings is said first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from truerank.core.checkpoint import check_input, polars_path, readable
from truerank.core.errors import (
    InvalidData,
    InvalidParameter,
    TruerankError,
    check_level,
    suggests_arguments,
)
from truerank.core.progress import SILENT, Progress
from truerank.core.provenance import FILE_KEY, versions
from truerank.core.ranks import Ranks
from truerank.core.result import NAIVE, Estimate, Result, block_of
from truerank.core.table import Table, about, count_of, listed_in_words, percent
from truerank.estimation.registry import ESTIMATORS
from truerank.metrics.registry import make_metrics
from truerank.ranking.files import read_rank_tables
from truerank.workflows.compare.builder import ComparisonBuilder
from truerank.workflows.compare.differences import align_ranks
from truerank.workflows.compare.options import CompareOptions, Correction, make_compared_model
from truerank.workflows.compare.result import (
    Comparison,
    Difference,
    Strength,
    Verdict,
    verdict_of_interval,
)
from truerank.workflows.options import DEFAULT_ESTIMATOR

#: Settings that decide whether two numbers measure the same thing, and how they are called.
_SETTINGS = {
    "split": "split",
    "ties": "ties",
    "seen": "seen items",
    "sampler": "sampler",
    "precision": "precision",
    "seed": "seed",
}
OLD, NEW = " (old)", " (new)"


class Gate(StrEnum):
    """When a change makes a command fail."""

    WORSE = "worse"
    NOT_BETTER = "not-better"
    POSSIBLY_WORSE = "possibly-worse"


@suggests_arguments
def changes(
    old: Result,
    new: Result,
    *,
    ranks: tuple[Mapping[str, Ranks], Mapping[str, Ranks]] | None = None,
    metrics: str | Sequence[str] | None = None,
    tie_margin: float | None = None,
    level: float = 0.95,
    correction: Correction = "max-t",
    resamples: int = 2000,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Comparison:
    """Return how every metric of every model changed from one result to another: new minus old.

    Models are matched by name; where each result has one, these two. Notes say first what else differs: data,
    split, settings. With the exact ranks of both on the same users and targets, users are paired and the
    interval is one for the population of users. Else the interval of a change reaches from the lowest new
    value minus the highest old one to the opposite: it holds at the level of the two, whatever they have in
    common (normal errors with standard deviations s and t have a difference of at most s + t).

    Parameters
    ----------
    old, new : results of ``evaluate`` or ``estimate``
    ranks : exact ranks of the models of both, with the same codes for the same users and items; by default
        those of the results, where both were made from the same data
    metrics : which to compare; all that both have by default
    tie_margin : changes up to this size count as equivalent
    level, correction, resamples, seed : as in ``compare``, for paired users
    progress : where resampling is reported

    Raises
    ------
    InvalidData
        When the results have no model or no metric in common.

    Examples
    --------
    >>> old = Result("evaluate", (Estimate("ease", "auc", 0.70, 0.68, 0.72, 0.95),))
    >>> new = Result("evaluate", (Estimate("ease", "auc", 0.77, 0.75, 0.79, 0.95),))
    >>> found = changes(old, new).differences[0]
    >>> found.verdict.value, round(found.low, 2), round(found.high, 2)
    ('A beats B', 0.03, 0.11)
    """
    check_level(level)
    pairs, missing, added = _matched_models(old, new)
    wanted, lacking = _matched_metrics(old, new, metrics)
    notes = [*_data_notes(old, new), *_setting_notes(old, new), *missing, *added, *lacking]
    given = ranks or ((old.ranks, new.ranks) if _is_same_data(old, new) else ({}, {}))
    made, why = _paired(
        old,
        new,
        pairs,
        wanted,
        given,
        options={
            "tie_margin": tie_margin,
            "level": level,
            "correction": correction,
            "resamples": resamples,
            "seed": seed,
        },
        progress=progress,
    )
    if made is None:
        notes.append(f"Users are not paired, so changes are told by the intervals of both results: {why}.")
        made = _unpaired(old, new, pairs, wanted, tie_margin)
        others = sorted({one.level for one in made.differences} - {level})
        if others and level != 0.95:
            notes.append(f"Their level is {listed_in_words([str(one) for one in others])}, not {level}.")
    if old.segments:
        from truerank.workflows.compare.groups import changed_groups

        segments, unmatched = changed_groups(old, new, pairs, wanted, made, tie_margin)
        notes += unmatched
        made = replace(made, segments=segments)
    provenance = {
        **made.provenance,
        "old": _origin(old),
        "new": _origin(new),
        "missing": [*missing, *lacking],
    }
    return replace(made, notes=(*notes, *made.notes), provenance=provenance)


@dataclass(frozen=True)
class ResultFiles:
    """Two results read from files, and the exact ranks beside them.

    Parameters
    ----------
    old, new : the results
    ranks : exact ranks of both, coded alike; empty where a result has none beside it
    notes : why ranks could not be used
    """

    old: Result
    new: Result
    ranks: tuple[Mapping[str, Ranks], Mapping[str, Ranks]]
    notes: tuple[str, ...] = ()


def read_result_files(old: str | Path, new: str | Path) -> ResultFiles:
    """Read two results that ``evaluate --out`` wrote, with the ranks that ``--ranks-out`` wrote beside them.

    A result says where its ranks were written; they are looked for there, seen from its folder, and in the
    folder itself.

    Raises
    ------
    InvalidData
        When a file is missing or holds no result.
    """
    paths = [Path(old), Path(new)]
    results = [_read_result(path) for path in paths]
    found = [_ranks_beside(path, result) for path, result in zip(paths, results, strict=True)]
    notes = tuple(why for _, why in found if why)
    tables = iter(read_rank_tables([path for path, _ in found if path is not None]).models)
    exact = [
        {name: ranks for name, ranks in next(tables).items() if isinstance(ranks, Ranks)} if path else {}
        for path, _ in found
    ]
    return ResultFiles(results[0], results[1], (exact[0], exact[1]), notes)


def _read_result(path: Path) -> Result:
    check_input(path, "a result")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidData(
            f"'{path}' must be a result that truerank evaluate --out wrote, but it cannot be read "
            f"({type(error).__name__}). Check the path."
        ) from None
    try:
        result = Result.from_json(text)
    except InvalidData as error:
        raise InvalidData(f"'{path}': {error}") from None
    if not result.estimates:
        raise InvalidData(f"'{path}' must hold estimates, but it holds none. Evaluate again.")
    return result


def _ranks_beside(path: Path, result: Result) -> tuple[Path | None, str]:
    """Return the file of ranks that belongs to a result, or None and why there is none."""
    named = result.provenance.get("ranks_out")
    if not isinstance(named, str):
        return None, ""
    places = [path.parent / named, path.parent / Path(named).name]
    with readable(f"'{named}', the ranks of '{path}',", "table"):
        file = next((place for place in places if place.is_file()), None)
    if file is None:
        return None, f"The ranks of '{path}', {named}, were not found."
    if file.suffix == ".parquet":
        import polars as pl

        with readable(f"'{file}'", "table"):
            kept = json.loads(pl.read_parquet_metadata(polars_path(file)).get(FILE_KEY, "{}"))
        if not isinstance(kept, dict) or kept.get("data_hash") != result.provenance.get("data_hash"):
            return None, f"'{file}' does not hold the ranks of '{path}': it was made from other data."
    return file, ""


def _origin(result: Result) -> dict[str, Any]:
    """Return what identifies one of the two results."""
    kept = {key: result.provenance.get(key) for key in ("data_hash", *_SETTINGS)}
    return {"version": result.version, "data": dict(result.data), **kept}


def _is_same_data(old: Result, new: Result) -> bool:
    return old.provenance.get("data_hash") == new.provenance.get("data_hash") is not None


def _matched_models(old: Result, new: Result) -> tuple[list[tuple[str, str]], list[str], list[str]]:
    """Return pairs of models, and sentences on models that only the old or only the new result has."""
    before, now = old.models(), new.models()
    common = [name for name in before if name in now]
    if not common and len(before) == len(now) == 1:
        return [(before[0], now[0])], [], []
    if not common:
        raise InvalidData(
            f"the results must have a model in common, but the old one has {listed_in_words(before)}, the "
            f"new one {listed_in_words(now)}. Name the models alike."
        )
    lost, added = (
        [name for name in one if name not in other] for one, other in ((before, now), (now, before))
    )
    return (
        [(name, name) for name in common],
        [f"The new result lacks {listed_in_words(lost)}."] if lost else [],
        [f"The new result also has {listed_in_words(added)}."] if added else [],
    )


def _matched_metrics(
    old: Result, new: Result, metrics: str | Sequence[str] | None
) -> tuple[list[str], list[str]]:
    before, now = old.metrics(), new.metrics()
    wanted = [str(metric) for metric in make_metrics(metrics)] if metrics is not None else before
    found = [name for name in wanted if name in before and name in now]
    if not found:
        raise InvalidData(
            f"the results must have a metric in common, but the old one has {listed_in_words(before)}, the "
            f"new one {listed_in_words(now)}. Evaluate both with the same --metrics."
        )
    lost = [name for name in wanted if name not in found]
    return found, [f"Not both results have {listed_in_words(lost)}."] if lost else []


def _data_notes(old: Result, new: Result) -> list[str]:
    before, now = old.data, new.data
    counts = [
        f"{key.replace('n_', '').replace('_', ' ')} {before[key]:,} -> {now[key]:,}"
        for key in before
        if isinstance(before[key], int) and isinstance(now.get(key), int) and before[key] != now[key]
    ]
    is_named_alike = before.get("name") == now.get("name")
    names = "" if is_named_alike else f" ({before.get('name')} -> {now.get('name')})"
    if old.provenance.get("data_hash") == new.provenance.get("data_hash") and not counts:
        return []
    detail = f": {', '.join(counts)}" if counts else ", with the same counts"
    return [f"The data are not the same{names}{detail}. A change may come from them."]


def _setting_notes(old: Result, new: Result) -> list[str]:
    differing = [
        f"{name} {_shown(old.provenance.get(key))} -> {_shown(new.provenance.get(key))}"
        for key, name in _SETTINGS.items()
        if old.provenance.get(key) != new.provenance.get(key)
    ]
    told = [result.provenance.get("models") for result in (old, new)]
    specs = [one if isinstance(one, Mapping) else {} for one in told]
    differing += [
        f"{name} is {specs[0][name]} -> {specs[1][name]}"
        for name in specs[0]
        if name in specs[1] and specs[0][name] != specs[1][name]
    ]
    if old.version != new.version:
        differing.append(f"truerank {old.version} -> {new.version}")
    return [f"Settings that differ: {'; '.join(differing)}."] if differing else []


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)


def _paired(
    old: Result,
    new: Result,
    pairs: Sequence[tuple[str, str]],
    metrics: Sequence[str],
    ranks: tuple[Mapping[str, Ranks], Mapping[str, Ranks]],
    *,
    options: Mapping[str, Any],
    progress: Progress,
) -> tuple[Comparison | None, str]:
    """Return the comparison of users in pairs, or None and why users cannot be paired."""
    lacking = [
        which
        for which, side, at in (("old", ranks[0], 0), ("new", ranks[1], 1))
        if any(pair[at] not in side for pair in pairs)
    ]
    if lacking:
        verb = "has" if len(lacking) == 1 else "have"
        return None, f"the {' and the '.join(lacking)} result {verb} no exact ranks (--ranks-out) beside it"
    if old.provenance.get("ties") != new.provenance.get("ties"):
        return None, "they treat ties in different ways"
    named: dict[str, Any] = {}
    for before, now in pairs:
        named[f"{now}{NEW}"], named[f"{before}{OLD}"] = ranks[1][now], ranks[0][before]
    chosen = CompareOptions(
        make_metrics(list(metrics)),
        ESTIMATORS.make(DEFAULT_ESTIMATOR),
        target="population",
        ties=old.provenance.get("ties", "expected"),
        **options,
    )
    try:
        aligned, notes = align_ranks(named, chosen)
    except TruerankError:
        return None, "they were not tested on the same users and targets"
    compared = [make_compared_model(name, one, chosen) for name, one in aligned.items()]
    if len({model.digest for model in compared}) > 1:
        return None, "they have no users in common"
    builder = ComparisonBuilder(compared, chosen, None, progress)
    found = builder.run([(2 * at, 2 * at + 1) for at in range(len(pairs))], notes)
    return replace(found, differences=tuple(map(_unchanged, found.differences))), ""


def _unchanged(change: Difference) -> Difference:
    """Return a change as none where no user's value changed: the model is the same, not only alike."""
    if change.wins != 0 or change.losses != 0:
        return change
    same = f"{change.first} and {change.second} have exactly the same {change.metric} for every user."
    return replace(
        change,
        low=0.0,
        high=0.0,
        verdict=Verdict.EQUAL,
        strength=Strength.EXACT,
        needed_users=None,
        sentence=same,
    )


def _unpaired(
    old: Result,
    new: Result,
    pairs: Sequence[tuple[str, str]],
    metrics: Sequence[str],
    margin: float | None,
) -> Comparison:
    """Return the changes as the numbers of both results tell them."""
    if NAIVE in (old.reference(), new.reference()):
        raise InvalidData(
            "naive values are those of sampled lists and do not tell how a model changed. Evaluate both with "
            "another --estimator, such as smooth, or rank all items."
        )
    is_same_data = _is_same_data(old, new)
    estimates: list[Estimate] = []
    differences = []
    for before, now in pairs:
        for metric in metrics:
            first, second = reference_value(new, now, metric), reference_value(old, before, metric)
            if first is None or second is None:
                continue
            first, second = replace(first, model=f"{now}{NEW}"), replace(second, model=f"{before}{OLD}")
            estimates += [first, second]
            differences.append(told_by_intervals(first, second, margin, is_same_data=is_same_data))
    if not differences:
        raise InvalidData(
            "the results must have values of a model in common, but none has. Evaluate both again."
        )
    provenance = {
        "metrics": list(metrics),
        "level": differences[0].level,
        "correction": "none",
        "tie_margin": margin,
        "data_hash": {"old": old.provenance.get("data_hash"), "new": new.provenance.get("data_hash")},
        "versions": versions(),
    }
    return Comparison(tuple(estimates), tuple(differences), (), provenance)


def reference_value(result: Result, model: str, metric: str) -> Estimate | None:
    """Return the value of a model by the estimator that says which model is best; None where it has none."""
    block = result.reference()
    for one in result.estimates:
        if (one.model, one.metric, block_of(one.estimator)) == (model, metric, block):
            return one
    return None


def told_by_intervals(
    first: Estimate, second: Estimate, margin: float | None, *, is_same_data: bool
) -> Difference:
    """Return the difference of two values, with an interval that holds whatever they have in common."""
    value = first.value - second.value
    limits = (first.low, first.high, second.low, second.high)
    low = high = None
    is_known = is_same_data and first.kind == second.kind == "exact"
    verdict, strength = Verdict.NOISE, Strength.NONE
    if value == 0 and is_known:
        verdict, strength, low, high = Verdict.EQUAL, Strength.EXACT, 0.0, 0.0
    elif all(limit is not None for limit in limits) and not any(
        one.low == one.high for one in (first, second)
    ):
        low, high = first.low - second.high, first.high - second.low  # type: ignore[operator]
        verdict = verdict_of_interval(low, high, margin)
        strength = Strength.INTERVALS if verdict.is_decided else Strength.NONE
    change = Difference(
        first=first.model,
        second=second.model,
        metric=first.metric,
        value=value,
        low=low,
        high=high,
        level=min(first.level or 0.95, second.level or 0.95),
        target=first.target or "population",
        probability=None,
        population_low=low,
        population_high=high,
        p_value=None,
        p_adjusted=None,
        p_randomised=None,
        bound_low=None,
        bound_high=None,
        method="intervals of both results",
        pairing="users not paired",
        verdict=verdict,
        strength=strength,
        by_interval=verdict,
        n_users=min(first.n_users, second.n_users),
        relative=value / second.value if second.value > 0 else None,
        relative_low=low / second.value if low is not None and second.value > 0 else None,
        relative_high=high / second.value if high is not None and second.value > 0 else None,
    )
    return replace(change, sentence=_change_sentence(change, first.value, second.value))


def _change_sentence(change: Difference, new: float, old: float) -> str:
    interval = "" if change.low is None else f" [{change.low:+.4f}, {change.high:+.4f}]"
    moved = f"{old:.4f} -> {new:.4f}, {change.value:+.4f}{interval}"
    pair = f"{change.first} and {change.second}"
    if change.verdict is Verdict.EQUAL:
        return f"{pair} have exactly the same {change.metric}, {new:.4f}."
    if change.verdict is Verdict.EQUIVALENT:
        return f"{pair} are equivalent in {change.metric} within the margin: {moved}."
    if change.verdict is Verdict.NOISE:
        return f"these results cannot tell {pair} apart in {change.metric}: {moved}."
    better, worse = (change.first, change.second) if change.value > 0 else (change.second, change.first)
    return (
        f"{better} beats {worse} in {change.metric}: {moved}, the intervals of both results do not overlap."
    )


def change_table(comparison: Comparison) -> Table:
    """Return one row per model and metric: the value before and now, the change, and what it means."""
    value = {(one.model, one.metric): one.value for one in comparison.estimates}
    rows = tuple(
        (
            one.first.removesuffix(NEW),
            one.metric,
            f"{value[one.second, one.metric]:.4f}",
            f"{value[one.first, one.metric]:.4f}",
            f"{one.value:+.4f}" + ("" if one.low is None else f" [{one.low:+.4f}, {one.high:+.4f}]"),
            change_words(one),
        )
        for one in comparison.differences
    )
    strong = frozenset(
        (at, 4)
        for at, one in enumerate(comparison.differences)
        if one.verdict in (Verdict.FIRST, Verdict.SECOND)
    )
    level = percent(comparison.differences[0].level, space=" ")
    notes = (f"Bold: the change is told from 0, at {level} confidence.",) if strong else ()
    return Table(("model", "metric", "old", "new", "change", "verdict"), rows, notes=notes, strong=strong)


def change_words(change: Difference) -> str:
    """Return what one change means, in a few words."""
    if change.verdict is Verdict.NOISE:
        needed = change.needed_users
        return "not told" if needed is None else f"not told (about {about(needed)} users needed)"
    return {
        Verdict.FIRST: "better",
        Verdict.SECOND: "worse",
        Verdict.EQUIVALENT: "equivalent",
        Verdict.EQUAL: "unchanged",
    }[change.verdict]


def change_summary(comparison: Comparison, since: str) -> str:
    """Return how many changes are better, worse, and not told, in one sentence.

    Parameters
    ----------
    comparison : what ``changes`` returned
    since : the name of the old result
    """
    words = [change_words(one).partition(" (")[0] for one in comparison.differences]
    kinds = [f"{words.count(kind)} {kind}" for kind in dict.fromkeys(words)]
    return f"Since {since}, of {count_of(len(words), 'value')}: {listed_in_words(kinds)}."


@dataclass(frozen=True)
class GateOutcome:
    """Whether a gate lets a comparison pass.

    Parameters
    ----------
    fail_on : the rule
    failures : a sentence for each reason to fail
    """

    fail_on: Gate
    failures: tuple[str, ...]

    @property
    def is_passed(self) -> bool:
        """Whether there is no reason to fail."""
        return not self.failures

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {"fail_on": self.fail_on.value, "passed": self.is_passed, "failures": list(self.failures)}


def make_gate(fail_on: str | Gate, margin: float | None) -> Gate:
    """Return the rule of that name.

    Raises
    ------
    InvalidParameter
        When there is no such rule, or it needs a margin and has none.
    """
    try:
        gate = Gate(fail_on)
    except ValueError:
        raise InvalidParameter(
            f"fail_on must be one of {', '.join(one.value for one in Gate)}, got {str(fail_on)!r}."
        ) from None
    if gate is Gate.POSSIBLY_WORSE and margin is None:
        raise InvalidParameter(
            "fail_on 'possibly-worse' needs a margin: the loss that is accepted, such as 0.005."
        )
    return gate


def judge(comparison: Comparison, fail_on: str | Gate, *, margin: float | None = None) -> GateOutcome:
    """Return whether the first model of every difference passes the gate against the second.

    ``worse`` fails where one is shown to be worse, ``not-better`` where one is not shown to be better, and
    ``possibly-worse`` where its interval does not exclude that it is worse by more than the margin. Models
    and metrics that the old result has and the new one lacks fail every gate.

    Parameters
    ----------
    comparison : every model against a baseline, or what ``changes`` returned
    fail_on : the rule
    margin : the loss that is accepted, for ``possibly-worse``

    Examples
    --------
    >>> old = Result("evaluate", (Estimate("ease", "auc", 0.70, 0.68, 0.72, 0.95),))
    >>> new = Result("evaluate", (Estimate("ease", "auc", 0.71, 0.69, 0.73, 0.95),))
    >>> found = changes(old, new)
    >>> [judge(found, rule, margin=0.05).is_passed for rule in ("worse", "possibly-worse", "not-better")]
    [True, True, False]
    """
    gate = make_gate(fail_on, margin)
    failures = list(comparison.provenance.get("missing", ()))
    failures += [_failure(one, gate, margin) for one in comparison.differences if _fails(one, gate, margin)]
    return GateOutcome(gate, tuple(failures))


def _fails(one: Difference, gate: Gate, margin: float | None) -> bool:
    if gate is Gate.WORSE:
        return one.verdict is Verdict.SECOND
    if gate is Gate.NOT_BETTER:
        return one.verdict is not Verdict.FIRST
    return one.low is None or one.low < -(margin or 0.0)


def _failure(one: Difference, gate: Gate, margin: float | None) -> str:
    pair = f"{one.first} against {one.second} in {one.metric}"
    interval = "" if one.low is None else f" [{one.low:+.4f}, {one.high:+.4f}]"
    what = {
        Gate.WORSE: "is worse",
        Gate.NOT_BETTER: "is not shown to be better",
        Gate.POSSIBLY_WORSE: f"may be worse by more than {margin or 0:g}",
    }[gate]
    return f"{pair} {what}: {one.value:+.4f}{interval}."
