"""Facts of a report: what it rests on, what its metrics mean, how to repeat it, and cost by model."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from truerank.core.errors import TruerankError
from truerank.core.result import SAMPLED_USERS, Result, block_of
from truerank.core.table import MISSING, Table, count_of, decimals, fixed, percent
from truerank.estimation.registry import ESTIMATORS
from truerank.metrics.base import Metric
from truerank.metrics.registry import METRICS
from truerank.workflows.estimate import RESOLVED

_COUNTS = {
    "n_users": "users",
    "n_items": "items",
    "n_train": "events in train",
    "n_valid": "events in valid",
    "n_test": "events in test (targets)",
}
_PER_MODEL = {"models": "spec"}
_COST = ("seconds", "scores_computed")
#: where the command line that made a result stands in its provenance
COMMAND_LINE = "command_line"

# Metrics in a line each, for readers who do not use them every day; {top} says how long the list is.
_METRICS = {
    "ap": "The precision at each held-out item{top}, averaged: 1 when they all stand first.",
    "auc": "How often a held-out item stands above another item: 1 is always, 0.5 is chance.",
    "hit": "The share of users with at least one held-out item{top}.",
    "mrr": "One over the rank of the first held-out item{top}: 1 at the top, 0.5 in second place.",
    "ndcg": "How far up the held-out items stand{top}: 1 at the top, less with every place, 0 if not there.",
    "precision": "The share of the items{top} that are held-out ones.",
    "recall": "The share of a user's held-out items that stand{top}.",
}
_ESTIMATORS = {
    "exact": "Every target was ranked among all items of its pool.",
    "naive": "The metric of the sampled list itself. It is not the metric among all items.",
    "smooth": "Fits the spread of ranks among all items to the sampled ranks, and takes the metric of that.",
    SAMPLED_USERS: "From some of the scores, those of users drawn at random among them.",
}


class Fact(NamedTuple):
    """One named value as shown."""

    name: str
    text: str


def data_facts(data: Mapping[str, Any]) -> list[Fact]:
    """Return the counts of data and split.

    Examples
    --------
    >>> data_facts({"n_users": 6040, "users_without_targets": 3})
    [Fact(name='users', text='6,040'), Fact(name='users without targets', text='3')]
    """
    return [Fact(_COUNTS.get(key, key_words(key)), formatted_quantity(value)) for key, value in data.items()]


def metric_facts(metrics: Iterable[str]) -> list[Fact]:
    """Return each metric with a line on what it measures; names that are no metrics are left out.

    Examples
    --------
    >>> metric_facts(["recall@10", "mine"])
    [Fact(name='recall@10', text="The share of a user's held-out items that stand among the first 10.")]
    """
    facts = []
    for name in metrics:
        try:
            metric = METRICS.make(name)
        except TruerankError:
            continue
        facts.append(Fact(name, _metric_line(metric)))
    return facts


def _metric_line(metric: Metric) -> str:
    """Return what a metric measures; of a metric that is not known here, the first line of its docstring."""
    top = " in the ranking" if metric.cutoff is None else f" among the first {metric.cutoff:,}"
    known = _METRICS.get(getattr(metric, "key", ""))
    return known.format(top=top) if known else _first_line(metric)


def estimator_line(name: str) -> str:
    """Return what an estimator does in a line; nothing where the name is none of an estimator.

    Examples
    --------
    >>> estimator_line("exact"), estimator_line("mine")
    ('Every target was ranked among all items of its pool.', '')
    """
    if name in _ESTIMATORS:
        return _ESTIMATORS[name]
    try:
        return _first_line(ESTIMATORS.make(name))
    except TruerankError:
        return ""


def _first_line(plugin: object) -> str:
    return (plugin.__doc__ or "").strip().partition("\n")[0]


def basis_sentence(result: Result) -> str:
    """Return what the values of a result rest on: users, items, and whether all items were ranked.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from truerank.core.result import Estimate
    >>> counts = {"users_with_targets": 2500, "n_items": 6000}
    >>> basis_sentence(Result("evaluate", (Estimate("ease", "auc", 0.9),), counts))
    'Exact for 2,500 test users: every one of 6,000 items was ranked.'
    >>> one = Estimate("ease", "auc", 0.9, kind="estimate", estimator="smooth", n_users=99, n_negatives=100)
    >>> basis_sentence(Result("estimate", (one,), {"n_items": 6000}))
    'Estimated for 99 test users from ranks among 100 sampled items instead of all 6,000.'
    >>> slow, asked = replace(one, estimator="sampled users"), {"n_scores": 12_000, "exact_scores": 594_000}
    >>> found = Result("evaluate", (slow,), {"n_items": 6000}, provenance={"ways": {"ease": asked}})
    >>> print(basis_sentence(found).replace("\N{NO-BREAK SPACE}", " "))
    Estimated for 99 test users from 2 % of the scores; the interval accounts for the others.
    """
    ways = {block_of(e.estimator) for e in result.estimates}
    users = result.data.get("users_with_targets") or max((e.n_users for e in result.estimates), default=0)
    items = result.data.get("n_items") or result.data.get("largest_pool")
    if not ways or not users or not items:
        return ""
    of_users = f"for {count_of(int(users), 'test user')}"
    drawn = {e.n_negatives for e in result.estimates if e.n_negatives}
    sampled = (
        f"{min(drawn):,} sampled items" if len(drawn) == 1 else "sampled items"
    )  # adaptive samples differ in size
    if any(e.estimator == SAMPLED_USERS for e in result.estimates):
        return f"Estimated {of_users} from {_share_of_scores(result)}; the interval accounts for the others."
    if ways == {"exact"}:
        return f"Exact {of_users}: every one of {int(items):,} items was ranked."
    beside = ", with the exact values beside them" if "exact" in ways else ""
    return f"Estimated {of_users} from ranks among {sampled} instead of all {int(items):,}{beside}."


def _share_of_scores(result: Result) -> str:
    """Return which share of the scores of exact evaluation was computed, where it was not all.

    Examples
    --------
    >>> ways = {"a": {"n_scores": 9, "exact_scores": 1000}, "b": {"n_scores": 30, "exact_scores": 1000}}
    >>> _share_of_scores(Result("evaluate", (), provenance={"ways": ways})).split()
    ['0.9', '%', 'to', '3', '%', 'of', 'the', 'scores']
    """
    ways = result.provenance.get("ways", {}).values()
    shares = [share for way in ways if (share := way["n_scores"] / way["exact_scores"]) < 1]
    told = dict.fromkeys(percent(share, 2) for share in (min(shares), max(shares))) if shares else ()
    return f"{' to '.join(told)} of the scores" if told else "some of the scores"


def caution_sentence(result: Result, model: str, metric: str) -> str:
    """Return what the sample alone says of a value: nothing where there are no bounds, or they are narrow.

    Examples
    --------
    >>> from truerank.core.result import Estimate
    >>> bound = Estimate("ease", "ndcg@10", 0.2, 0.0, 0.4, 0.95, kind="bound", estimator="bounds")
    >>> caution_sentence(Result("estimate", (), bounds=(bound,)), "ease", "ndcg@10")
    'The sample alone allows any ndcg@10 of ease from 0.0000 to 0.4000; the rest is assumed by the estimator.'
    """
    for bound in result.bounds:
        if (bound.model, bound.metric) != (model, metric) or bound.low is None or bound.high is None:
            continue
        if bound.high - bound.low > 2 * RESOLVED:
            limits = f"{fixed(bound.low, 4)} to {fixed(bound.high, 4)}"
            allowed = f"The sample alone allows any {metric} of {model} from {limits}"
            return f"{allowed}; the rest is assumed by the estimator."
    return ""


def pasted(command_line: object) -> str:
    r"""Return a command line with one option to a line, as a shell reads it too; nothing for no text.

    Examples
    --------
    >>> print(pasted("truerank evaluate demo --model 'ials(factors=64)' --check"))
    truerank evaluate demo \
      --model 'ials(factors=64)' \
      --check
    >>> pasted(None)
    ''
    """
    if not isinstance(command_line, str):
        return ""
    try:
        words = shlex.split(command_line)
    except ValueError:  # no command of a shell
        return command_line
    lines: list[list[str]] = [[]]
    for word in words:
        if word.startswith("-") and len(word) > 1 and not word[1].isdigit():
            lines.append([])
        lines[-1].append(shlex.quote(word))
    return " \\\n  ".join(" ".join(line) for line in lines if line)


def repeat_facts(result: Result) -> list[Fact]:
    """Return every option, seed, hash and version; nested entries are named by their path."""
    facts = [
        Fact("command", f"truerank {result.command}"),
        Fact("models", "; ".join(result.models())),
        Fact("metrics", "; ".join(result.metrics())),
        Fact("truerank", result.version),
    ]
    common = {
        key: value
        for key, value in result.provenance.items()
        if key != COMMAND_LINE and not _is_per_model(value, result)
    }
    return [*facts, *flat_facts(common)]


def flat_facts(entries: Mapping[str, Any]) -> list[Fact]:
    """Return nested entries as facts that are named by their path.

    Examples
    --------
    >>> [fact.name for fact in flat_facts({"tie_margin": None, "data": {"n_users": 6040}})]
    ['tie margin', 'data: n users']
    >>> [fact.text for fact in flat_facts({"tie_margin": None, "metrics": ["auc", "ap"]})]
    ['none', 'auc, ap']
    """
    return [
        Fact(name, as_typed(leaf))
        for key, value in entries.items()
        for name, leaf in _leaves(key_words(key), value)
    ]


def model_table(result: Result) -> Table | None:
    """Return what the provenance holds by model, cost excepted, or None when it holds nothing."""
    return _per_model(result, [key for key in result.provenance if key not in _COST])


def cost_table(result: Result) -> Table | None:
    """Return seconds and scores computed by model, or None when they are not known."""
    return _per_model(result, [key for key in _COST if key in result.provenance])


def _per_model(result: Result, keys: Iterable[str]) -> Table | None:
    columns: dict[str, dict[str, Any]] = {}
    for key in keys:
        value = result.provenance[key]
        if _is_per_model(value, result):
            for model, entry in value.items():
                for name, leaf in _leaves(_PER_MODEL.get(key, key_words(key)), entry):
                    columns.setdefault(name, {})[model] = leaf
    if not columns:
        return None
    texts = [_aligned(column) for column in columns.values()]
    rows = [(model, *(text.get(model, MISSING) for text in texts)) for model in result.models()]
    return Table(("Model", *columns), tuple(rows))


def _aligned(column: Mapping[str, Any]) -> dict[str, str]:
    """Return a column as text; fractions get the same number of decimals."""
    fractions = [value for value in column.values() if isinstance(value, float)]
    places = min(decimals(fractions), 3)
    return {
        model: fixed(value, places) if isinstance(value, float) else formatted_quantity(value)
        for model, value in column.items()
    }


def key_words(key: str) -> str:
    """Return a key with spaces instead of underscores.

    Examples
    --------
    >>> key_words("users_without_targets")
    'users without targets'
    """
    return str(key).replace("_", " ").strip()


def formatted_quantity(value: Any) -> str:
    """Return a quantity for reading, with thousands marked in whole numbers.

    Examples
    --------
    >>> formatted_quantity(1234567), formatted_quantity(0.5), formatted_quantity("ml-1m")
    ('1,234,567', '0.5', 'ml-1m')
    """
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else as_typed(value)


def as_typed(value: Any) -> str:
    """Return a value as it is typed in an option: lists with commas, none, true, false."""
    if value is None or isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={as_typed(entry)}" for key, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(as_typed(entry) for entry in value)
    return str(value)


def _is_per_model(value: Any, result: Result) -> bool:
    return isinstance(value, Mapping) and len(value) > 0 and set(value) <= set(result.models())


def _leaves(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield name, value
        return
    for key, entry in value.items():
        yield from _leaves(f"{name}: {key_words(key)}", entry)
