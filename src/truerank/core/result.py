"""Results: point estimates with confidence limits, and the provenance that is needed to repeat them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from truerank.core.chart import Picture
from truerank.core.display import Displayed, Overview, frame_of
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.provenance import check_schema, from_fields, head, parse_json
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.table import MISSING, Table, count_of, decimals, fixed, listed_in_words, percent
from truerank.version import __version__

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure


#: In place of an estimator: from some of the scores, those of users drawn at random among them; the interval
#: accounts for what was not scored.
SAMPLED_USERS = "sampled users"
#: The estimator whose values are those of the sampled lists. They do not say which model is best.
NAIVE = "naive"
NAIVE_ORDER = (
    "Naive values are those of the sampled lists, and may put models in another order than all items do. "
    "Other estimators, such as smooth, say more."
)


def block_of(estimator: str) -> str:
    """Return the name of the values that those of an estimator may be compared with: its own.

    Means over sampled users may be compared with exact values, from which they differ by chance alone.

    Examples
    --------
    >>> block_of("naive"), block_of("sampled users")
    ('naive', 'exact')
    """
    return "exact" if estimator == SAMPLED_USERS else estimator


@dataclass(frozen=True)
class Estimate:
    """Point estimate of one metric for one model, with confidence limits and the method that made them.

    Parameters
    ----------
    model, metric, estimator : spec strings; the estimator of an exact value is ``exact``, that of a value
        from some of the scores, those of users drawn at random among them, ``sampled users``
    value : the number
    low, high, level : the interval and its confidence level; None where there is none
    target : what the interval is for: the value of all test users (``test-users``) or that of the population
        they are a sample of (``population``); empty where there is no interval
    kind : ``exact`` (all items ranked), ``estimate`` (from a sample) or ``bound``
    method : how the interval was made, such as ``bca`` or ``normal``
    n_users : users averaged over
    n_negatives : sampled items per target; None for exact values
    is_best : whether no model is shown to be better in this metric by this estimator, so that the true best
        one is among those where this holds; None where models were not compared, and for naive values

    Examples
    --------
    >>> a = Estimate(model="popularity", metric="ndcg@10", value=0.05, low=0.04, high=0.06, level=0.95)
    >>> Estimate.from_dict(a.to_dict()) == a
    True
    """

    model: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    level: float | None = None
    kind: Literal["exact", "estimate", "bound"] = "exact"
    method: str = ""
    estimator: str = "exact"
    n_users: int = 0
    n_negatives: int | None = None
    target: str = ""
    is_best: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Estimate:
        """Build from what ``to_dict`` returned."""
        return from_fields(cls, fields, "an estimate")


#: Groups of fewer users are called small: an interval over so few rests on what they happen to be.
FEWEST_USERS = 50


@dataclass(frozen=True)
class Group:
    """One group of users or of targets, with the values of every model in it.

    Parameters
    ----------
    name : of the group, with its cut points
    n_users : users with targets in it, which values are averaged over
    n_targets : targets in it
    estimates : one per model, estimator and metric; none where the group has no targets
    """

    name: str
    n_users: int
    n_targets: int
    estimates: tuple[Estimate, ...] = ()

    @property
    def is_small(self) -> bool:
        """Whether it has users, but so few that its intervals are not reliable."""
        return 0 < self.n_users < FEWEST_USERS

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {
            "name": self.name,
            "n_users": self.n_users,
            "n_targets": self.n_targets,
            "estimates": [estimate.to_dict() for estimate in self.estimates],
        }


@dataclass(frozen=True, repr=False)
class Segments(Displayed):
    """The values of a result by groups of users or of targets.

    Parameters
    ----------
    by : the spec string of the grouping, such as ``history``
    of : ``users``, or ``items`` for groups of targets: then the relevant items of a user are its targets in
        the group, the list stays as it is, and values are averaged over users who have such targets
    rule : what decides which group a user or target is in
    groups : in the order of their cut points, empty ones too
    notes : what to know about them, such as which are small, and where the best model overall is not the best

    Examples
    --------
    >>> group = Group("head", 1, 1, (Estimate("ease", "auc", 0.8, n_users=1),))
    >>> Segments("popularity", "items", "By train events.", (group,)).value("head", "auc")
    0.8
    """

    by: str
    of: str
    rule: str
    groups: tuple[Group, ...]
    notes: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        """The grouping in a word, for the head of a column: its name, or that of the column of a file."""
        named = re.search(r"\bname=('[^']+'|[^,)]+)", self.by)
        return named[1].strip("'") if named else self.by.partition("(")[0]

    def group(self, name: str) -> Group:
        """Return one group by its name."""
        for group in self.groups:
            if group.name == name:
                return group
        known = "; ".join(group.name for group in self.groups)
        raise InvalidData(f"{self.by} has no group {name!r}. There are: {known}.")

    def value(self, group: str, metric: str, model: str | None = None, estimator: str | None = None) -> float:
        """Return one value by group, metric, model and estimator, as ``Result.value`` does."""
        return Result("segments", self.group(group).estimates).value(metric, model, estimator)

    def to_table(self, *, intervals: bool = True) -> Table:
        """Return one row per group and model; in each group the best are strong, as in ``Result.to_table``.

        Parameters
        ----------
        intervals : whether each value is followed by its interval in brackets
        """
        entries = [estimate for group in self.groups for estimate in group.estimates]
        metrics = list(dict.fromkeys(e.metric for e in entries))
        digits = {name: decimals(e.value for e in entries if e.metric == name) for name in metrics}
        has_estimators = any(e.kind != "exact" for e in entries)
        rows: list[tuple[str, ...]] = []
        strong: set[tuple[int, int]] = set()
        for group in self.groups:
            for model, estimator in dict.fromkeys((e.model, e.estimator) for e in group.estimates):
                cells = {e.metric: e for e in group.estimates if (e.model, e.estimator) == (model, estimator)}
                start = (group.name, model, *((estimator,) if has_estimators else ()))
                strong |= {
                    (len(rows), len(start) + at)
                    for at, name in enumerate(metrics)
                    if name in cells and cells[name].is_best
                }
                shown = (_cell(cells.get(name), digits[name], intervals) for name in metrics)
                rows.append((*start, *shown, f"{group.n_users:,}"))
        columns = (self.heading, "model", *(("estimator",) if has_estimators else ()), *metrics, "users")
        levels = sorted({e.level for e in entries if e.level is not None})
        notes = (*self.notes, *((_best_rule(levels),) if strong else ()))
        return Table(columns, tuple(rows), f"By {self.by}. {self.rule}", notes, frozenset(strong))

    def overview(self) -> Overview:
        """Return what a console and a notebook show."""
        title = f"By {self.by}: {count_of(len(self.groups), 'group')} of {self.of}. {self.rule}"
        return Overview(title, self.to_table(), self.notes)

    def to_polars(self) -> pl.DataFrame:
        """Return one row per group and estimate: ``by``, ``group`` and the fields of `Estimate`."""
        return frame_of(self.rows())

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per group and estimate: ``by``, ``group``, and the fields of `Estimate`."""
        return [
            {"by": self.by, "group": group.name, **estimate.to_dict()}
            for group in self.groups
            for estimate in group.estimates
        ]

    def plot(self, *, width: float | None = None) -> Figure:
        """Return the values as a matplotlib figure, a panel per metric, with the intervals as whiskers.

        Parameters
        ----------
        width : inches; one column of a paper by default, more where panels need it
        """
        from truerank.report.charts.segments import plot_segments

        return plot_segments(self, width=width)

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {
            "by": self.by,
            "of": self.of,
            "rule": self.rule,
            "groups": [group.to_dict() for group in self.groups],
            "notes": list(self.notes),
        }


SegmentsT = TypeVar("SegmentsT", bound=Segments)


def find_segments(segments: Sequence[SegmentsT], by: str) -> SegmentsT:
    """Return the values of one grouping, by its spec string or, where that is enough, its heading."""
    found = [one for one in segments if by == one.by] or [one for one in segments if by == one.heading]
    if len(found) != 1:
        there = listed_in_words([repr(one.by) for one in segments]) if segments else "none"
        raise InvalidParameter(
            f"by must be a grouping that was asked for, got {by!r}; there is {there}. Ask for it when the "
            f"result is made: by={by!r}."
        )
    return found[0]


@dataclass(frozen=True, repr=False)
class Result(Displayed):
    """Estimates with provenance; the JSON form is what ``--format json`` prints.

    Parameters
    ----------
    command : the workflow that made it, such as ``evaluate``
    estimates : one per model and metric
    data : counts of the data and the split
    provenance : options, seed, data hash, versions, seconds and scores computed
    version : of truerank
    bounds : per model and metric all values that its sampled ranks allow, where that was asked; the value of
        such an entry is the middle between its limits
    notes : remarks in words, such as that a sample cannot resolve a metric
    segments : the values by groups of users or targets, one entry for each grouping that was asked for
    ranks, sampled : exact and sampled ranks behind the estimates by model; not part of the JSON form
    charts : pictures of what is behind the estimates, where they were asked for; not part of the JSON form

    Examples
    --------
    >>> result = Result("evaluate", (Estimate("popularity", "auc", 0.8),))
    >>> Result.from_json(result.to_json()) == result
    True
    """

    command: str
    estimates: tuple[Estimate, ...]
    data: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    version: str = __version__
    bounds: tuple[Estimate, ...] = ()
    notes: tuple[str, ...] = ()
    segments: tuple[Segments, ...] = ()
    ranks: Mapping[str, Ranks] = field(default_factory=dict, compare=False, repr=False)
    sampled: Mapping[str, SampledRanks] = field(default_factory=dict, compare=False, repr=False)
    charts: tuple[Picture, ...] = field(default=(), compare=False, repr=False)

    def value(self, metric: str, model: str | None = None, estimator: str | None = None) -> float:
        """Return one value by metric, model and estimator; a name that is the only one may be left out."""
        return self.estimate(metric, model, estimator).value

    def estimate(self, metric: str, model: str | None = None, estimator: str | None = None) -> Estimate:
        """Return one estimate by the names of metric, model and estimator."""
        matching = [
            e
            for e in self.estimates
            if e.metric == metric and model in (None, e.model) and estimator in (None, e.estimator)
        ]
        if len(matching) != 1:
            known = sorted({f"{e.metric} of {e.model} ({e.estimator})" for e in self.estimates})
            raise InvalidData(
                f"there must be exactly one estimate of {metric!r}{f' of {model!r}' if model else ''}, "
                f"found {len(matching)}. There are: {'; '.join(known)}."
            )
        return matching[0]

    def models(self) -> list[str]:
        """Return model names in the order they were evaluated."""
        return list(dict.fromkeys(e.model for e in self.estimates))

    def metrics(self) -> list[str]:
        """Return metric names in the order they were asked for."""
        return list(dict.fromkeys(e.metric for e in self.estimates))

    def best(self, metric: str, estimator: str | None = None) -> list[str]:
        """Return the model with the highest value and those that are not distinguishable from it.

        More exactly: the models of which no other is shown to be better, the highest value first. There are
        none by naive values, which do not say which model is best, and where there is only one model.

        Parameters
        ----------
        metric : spec string
        estimator : the reference by default: exact values where there are any, else the last estimator

        Examples
        --------
        >>> a, b = Estimate("a", "auc", 0.8, 0.75, 0.85), Estimate("b", "auc", 0.7, 0.65, 0.74)
        >>> c = Estimate("c", "auc", 0.82, 0.77, 0.87)
        >>> Result("evaluate", (a, b)).best("auc"), Result("evaluate", (a, b, c)).best("auc")
        (['a'], ['c', 'a'])
        """
        block = self.reference() if estimator is None else block_of(estimator)
        found = [e for e in self.estimates if (e.metric, block_of(e.estimator)) == (metric, block)]
        if not any(e.is_best is not None for e in found):
            found = mark_best(found)
        return [e.model for e in sorted(found, key=lambda e: -e.value) if e.is_best]

    def reference(self) -> str:
        """Return the estimator whose values say which model is best.

        Exact values where there are any, else the last estimator that is not naive.
        """
        blocks = list(dict.fromkeys(block_of(e.estimator) for e in self.estimates)) or ["exact"]
        return "exact" if "exact" in blocks else ([b for b in blocks if b != NAIVE] or blocks)[-1]

    def best_sentences(self) -> list[str]:
        """Return in words which model is best in which metrics, and which cannot be told from it.

        Examples
        --------
        >>> a, b = Estimate("a", "auc", 0.8, 0.75, 0.85, 0.95), Estimate("b", "auc", 0.7, 0.65, 0.74, 0.95)
        >>> c = Estimate("c", "auc", 0.82, 0.77, 0.87, 0.95)
        >>> Result("evaluate", (a, b)).best_sentences()
        ['Best in auc: a.']
        >>> Result("evaluate", (a, b, c)).best_sentences()
        ['Best in auc: c, but a is not distinguishable from it.']
        """
        if len(self.models()) < 2:
            return []
        reference = self.reference()
        if reference == NAIVE:
            return [f"No model is marked as best. {NAIVE_ORDER}"]
        metrics_of: dict[tuple[str, ...], list[str]] = {}
        for metric in self.metrics():
            metrics_of.setdefault(tuple(self.best(metric)), []).append(metric)
        return [
            f"Best in {listed_in_words(metrics)}: {_with_rivals(best, len(self.models()))}."
            for best, metrics in metrics_of.items()
            if best
        ]

    def by(self, grouping: str) -> Segments:
        """Return the values by groups of users or targets.

        Parameters
        ----------
        grouping : as it was asked for in ``evaluate(..., by="history")``

        Raises
        ------
        InvalidParameter
            When it was not asked for.
        """
        return find_segments(self.segments, grouping)

    def to_table(self, *, intervals: bool = True) -> Table:
        """Return models by metrics; the best of a metric and those not distinguishable from it are strong.

        ``print(result.to_table().latex())`` is for a paper, ``markdown()`` for a page, ``csv()`` for a sheet.

        Parameters
        ----------
        intervals : whether each value is followed by its interval in brackets

        Examples
        --------
        >>> a, b = Estimate("a", "auc", 0.8, 0.7, 0.9, 0.95), Estimate("b", "auc", 0.6)
        >>> Result("evaluate", (a, b)).to_table().rows
        (('a', '0.8000 [0.7000, 0.9000]'), ('b', '0.6000'))
        """
        metrics = self.metrics()
        digits = {name: decimals(e.value for e in self.estimates if e.metric == name) for name in metrics}
        has_estimators = bool(self.bounds) or any(e.kind != "exact" for e in self.estimates)
        rows: list[tuple[str, ...]] = []
        strong: set[tuple[int, int]] = set()
        for model, estimator in dict.fromkeys((e.model, e.estimator) for e in self.estimates):
            by_metric = {e.metric: e for e in self.estimates if (e.model, e.estimator) == (model, estimator)}
            start = (model, estimator) if has_estimators else (model,)
            strong |= {
                (len(rows), len(start) + at)
                for at, name in enumerate(metrics)
                if model in self.best(name, estimator)
            }
            cells = (_cell(by_metric.get(name), digits[name], intervals) for name in metrics)
            rows.append((*start, *cells))
        for model in dict.fromkeys(bound.model for bound in self.bounds):
            allowed = {bound.metric: bound for bound in self.bounds if bound.model == model}
            limits = (_limits(allowed.get(name), digits[name]) or MISSING for name in metrics)
            rows.append((model, "bounds", *limits))
        columns = ("model", *(("estimator",) if has_estimators else ()), *metrics)
        notes = (self.best_rule(),) if strong else ()
        return Table(columns, tuple(rows), notes=notes, strong=frozenset(strong))

    def best_rule(self) -> str:
        """Return what marks the best values, in words."""
        return _best_rule(sorted({e.level for e in self.estimates if e.level is not None}))

    def overview(self) -> Overview:
        """Return what a console and a notebook show."""
        data = f" on {self.data['name']}" if "name" in self.data else ""
        sizes = f"{count_of(len(self.models()), 'model')}, {count_of(len(self.metrics()), 'metric')}"
        notes = [*self.best_sentences(), *self.notes]
        notes += [f"By {one.by}: result.by({one.by!r})." for one in self.segments]
        return Overview(f"Result of {self.command}{data}: {sizes}", self.to_table(), notes)

    def to_polars(self) -> pl.DataFrame:
        """Return one row per estimate and bound, with the fields of `Estimate` as columns."""
        return frame_of([estimate.to_dict() for estimate in (*self.estimates, *self.bounds)])

    def plot(self, which: str = "leaderboard", *, width: float | None = None) -> Figure:
        """Return a matplotlib figure; a notebook shows it, ``savefig("x.pdf")`` writes it.

        Parameters
        ----------
        which : ``leaderboard``, or the key of one of ``charts``
        width : inches; one column of a paper by default, more where panels need it

        Raises
        ------
        InvalidParameter
            When there is no such chart.
        """
        from truerank.report.matplotlib.figure import plot
        from truerank.report.matplotlib.panels import plot_leaderboard

        if which == "leaderboard":
            return plot_leaderboard(self, width=width)
        known = {chart.key: chart for chart in self.charts}
        if which not in known:
            there = ", ".join(["leaderboard", *known])
            more = "" if known else " More are made by truerank.report.charts.result.result_charts(result)."
            raise InvalidParameter(f"which must be one of {there}, got {which!r}.{more}")
        return plot(known[which], width=width, models=self.models())

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {
            **head(self.command, self.version),
            "data": dict(self.data),
            "estimates": [estimate.to_dict() for estimate in self.estimates],
            "provenance": dict(self.provenance),
            "bounds": [bound.to_dict() for bound in self.bounds],
            "notes": list(self.notes),
            "segments": [segments.to_dict() for segments in self.segments],
        }

    def to_json(self) -> str:
        """Return the JSON text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Result:
        """Read what ``to_json`` wrote."""
        fields = parse_json(text, "a result")
        check_schema(fields, "a result")
        return from_fields(cls, fields, "a result", without=("ranks", "sampled", "charts"), is_open=True)


def _best_rule(levels: Sequence[float]) -> str:
    level = f" ({' and '.join(percent(level, space=' ') for level in levels)} confidence)" if levels else ""
    return f"Bold: the highest value, and those not distinguishable from it{level}."


def mark_best(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Return estimates that say which models may be best: no other model's interval lies above theirs.

    Models are compared by metric and estimator. Models that share users differ less by chance than two
    intervals side by side suggest, so this marks more than it need; where there is a value per user,
    ``workflows.assembly`` compares users in pairs. An interval of no width is about these test users alone,
    one that ignores bias about the estimator: they tell no models apart. Naive values and single models are
    not marked.

    Examples
    --------
    >>> a, b = Estimate("a", "auc", 0.8, 0.7, 0.9), Estimate("b", "auc", 0.5, 0.4, 0.6)
    >>> [e.is_best for e in mark_best([a, b])], [e.is_best for e in mark_best([a])]
    ([True, False], [None])
    """
    marked = []
    for one in estimates:
        rivals = [
            other
            for other in estimates
            if (other.metric, block_of(other.estimator)) == (one.metric, block_of(one.estimator))
        ]
        is_compared = len({e.model for e in rivals}) > 1 and one.estimator != NAIVE
        is_best = not any(_is_above(other, one) for other in rivals) if is_compared else None
        marked.append(replace(one, is_best=is_best if math.isfinite(one.value) else None))
    return marked


def _is_above(first: Estimate, second: Estimate) -> bool:
    """Whether the whole interval of the first lies above that of the second."""
    if first.low is None or second.high is None:
        return False
    is_silent = any(one.low == one.high or "ignores bias" in one.method for one in (first, second))
    return not is_silent and first.low > second.high


def _with_rivals(best: Sequence[str], n_models: int) -> str:
    if len(best) == 1:
        return best[0]
    if len(best) == n_models > 2:
        return f"{best[0]}, but no model is distinguishable from it"
    verb = "is" if len(best) == 2 else "are"
    return f"{best[0]}, but {listed_in_words(best[1:])} {verb} not distinguishable from it"


def _cell(estimate: Estimate | None, digits: int, intervals: bool) -> str:
    if estimate is None:
        return MISSING
    limits = _limits(estimate, digits) if intervals else ""
    return f"{_number(estimate.value, digits)} {limits}".rstrip()


def _limits(estimate: Estimate | None, digits: int) -> str:
    if estimate is None or estimate.low is None or estimate.high is None:
        return ""
    if not (math.isfinite(estimate.low) and math.isfinite(estimate.high)):
        return ""
    return f"[{_number(estimate.low, digits)}, {_number(estimate.high, digits)}]"


def _number(value: float, digits: int) -> str:
    return fixed(value, digits).replace("\N{MINUS SIGN}", "-")  # that programs can read too
