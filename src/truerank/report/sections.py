"""The leaderboard: models by metrics, with the best value of each metric marked.

Dots and whiskers: one panel per metric, the values of one model in neighbouring rows.

Counts of the data, and what is needed to repeat a result.

Tables as shown: which columns hold numbers, and which rows of a long one are shown.

Share of targets ranked within the top K, for every K.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any

import numpy as np

from truerank.core.chart import Chart, ChartAxis, HeatMap, Mark, Series, model_mark
from truerank.core.ranks import Ranks
from truerank.core.result import Estimate, Result
from truerank.core.table import LONGEST_NAME, MISSING, Table, count_of, decimals, fixed, percent, shorten
from truerank.core.types import FloatArray, IntArray
from truerank.report.axis import Axis, linear_axis, round_values


@dataclass(frozen=True)
class ShownValue:
    """One value as shown.

    Parameters
    ----------
    estimate : where it comes from
    text, low, high : the numbers; low and high are empty without an interval
    is_best : whether no other model has a higher value by the same estimator
    """

    estimate: Estimate
    text: str
    low: str
    high: str
    is_best: bool

    @property
    def words(self) -> str:
        """The value and its interval in words."""
        if not self.low:
            return self.text
        level = self.estimate.level
        name = f"{percent(level)} interval " if level is not None else ""
        return f"{self.text} ({name}{self.low} to {self.high})"


@dataclass(frozen=True)
class Row:
    """One model by one estimator; ``cells`` holds None where a metric was not computed."""

    label: str
    model: str
    estimator: str
    mark: Mark
    cells: tuple[ShownValue | None, ...]


@dataclass(frozen=True)
class Leaderboard:
    """The leaderboard: one block of rows per estimator, in each the best model of the first metric on top.

    Models are compared within one estimator only. ``reference`` is the one that counts, and its block comes
    first: exact values where there are any, else the last estimator that was asked for.
    """

    metrics: tuple[str, ...]
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    reference: str = "exact"

    def column(self, metric: str) -> list[tuple[Row, ShownValue]]:
        """Return the rows that have a finite value of one metric."""
        at = self.metrics.index(metric)
        cells = [(row, row.cells[at]) for row in self.rows]
        return [(row, cell) for row, cell in cells if cell and math.isfinite(cell.estimate.value)]

    def leaders(self) -> Leaderboard:
        """Return the rows of the reference estimator."""
        return replace(self, rows=tuple(row for row in self.rows if row.estimator == self.reference))

    def best(self, metric: str) -> list[Row]:
        """Return the rows marked as best on one metric."""
        return [row for row, cell in self.column(metric) if cell.is_best]


def build_board(result: Result) -> Leaderboard:
    """Return the leaderboard of a result.

    A model that was estimated in several ways has one row for each.
    """
    ways = list(dict.fromkeys((e.model, e.estimator) for e in result.estimates))
    models = result.models()
    estimators = list(dict.fromkeys(estimator for _, estimator in ways))
    reference = "exact" if "exact" in estimators or not estimators else estimators[-1]
    metrics = tuple(result.metrics())
    columns = {metric: _column(metric, result) for metric in metrics}
    rows = [
        Row(
            label=model if len(estimators) == 1 else f"{model} · {estimator}",
            model=model,
            estimator=estimator,
            mark=model_mark(models.index(model)),
            cells=tuple(columns[metric].get((model, estimator)) for metric in metrics),
        )
        for model, estimator in ways
    ]
    blocks = [reference, *(estimator for estimator in estimators if estimator != reference)]
    rows.sort(key=lambda row: (blocks.index(row.estimator), *_order(row)))
    return Leaderboard(metrics, tuple(rows), _notes(result, metrics), reference)


def _column(metric: str, result: Result) -> dict[tuple[str, str], ShownValue]:
    estimates = [e for e in result.estimates if e.metric == metric]
    places = decimals(e.value for e in estimates)
    has_rivals = len(result.models()) > 1
    highest = {
        way: max(
            (e.value for e in estimates if e.estimator == way and math.isfinite(e.value)), default=math.nan
        )
        for way in {e.estimator for e in estimates}
    }
    column = {}
    for e in estimates:
        low, high = interval_of(e) or (None, None)
        column[e.model, e.estimator] = ShownValue(
            estimate=e,
            text=fixed(e.value, places),
            low="" if low is None else fixed(low, places),
            high="" if high is None else fixed(high, places),
            is_best=has_rivals and e.value == highest[e.estimator],
        )
    return column


def interval_of(estimate: Estimate) -> tuple[float, float] | None:
    """Return both ends of the interval, or None unless both are known."""
    low, high = estimate.low, estimate.high
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return None
    return low, high


def _order(row: Row) -> tuple[bool, float]:
    """Highest value of the first metric first, rows without one last; equal rows keep their order."""
    value = row.cells[0].estimate.value if row.cells and row.cells[0] else math.nan
    return (math.isnan(value), -value if math.isfinite(value) else 0.0)


def _notes(result: Result, metrics: tuple[str, ...]) -> tuple[str, ...]:
    notes = []
    has_rivals = len(result.models()) > 1
    if has_rivals:
        notes.append(f"Higher is better; models are in the order of {metrics[0]}.")
    if len({e.estimator for e in result.estimates}) > 1:
        notes.append(
            "Compare models within one estimator: naive is the metric of the sampled list itself, the other "
            "estimators say what it would be among all items."
        )
    with_interval = [e for e in result.estimates if interval_of(e)]
    if with_interval:
        levels = sorted({percent(e.level) for e in with_interval if e.level is not None})
        methods = sorted({e.method for e in with_interval if e.method})
        name = " ".join([" and ".join(levels), "interval"]).strip()
        made = f" ({'; '.join(methods)})" if methods else ""
        notes.append(f"Below each value stands its {name}{made}.")
    if with_interval and has_rivals:
        notes.append(
            "Each interval is about one model alone. The models share their users, so two of them can "
            "differ clearly although their intervals overlap."
        )
    if result.estimates and all(e.kind == "exact" for e in result.estimates):
        notes.append("All values are exact: every target was ranked among its user's whole pool.")
    return tuple(notes)


_LONGEST_ESTIMATOR = 12  # what fits beside a model and a value on a phone


@dataclass(frozen=True)
class Dot:
    """One value of a model in a panel; places are percentages of the width.

    ``is_first`` says that the row is the first of its model, and ``is_hollow`` that it is an estimate which
    stands beside exact values.
    """

    row: Row
    cell: ShownValue
    name: str
    place: float
    whisker: tuple[float, float] | None
    is_first: bool
    is_hollow: bool


@dataclass(frozen=True)
class Panel:
    """All models on one metric; the table of its data has ``places`` decimals."""

    metric: str
    places: int
    axis: Axis
    dots: tuple[Dot, ...]

    @property
    def has_both(self) -> bool:
        """Whether exact values and estimates stand side by side."""
        return any(dot.is_hollow for dot in self.dots)

    @property
    def is_grouped(self) -> bool:
        """Whether a model has several rows."""
        return not all(dot.is_first for dot in self.dots)

    @property
    def words(self) -> str:
        """What the panel shows, for those who cannot see it."""
        listed = "; ".join(f"{dot.row.label} {dot.cell.words}" for dot in self.dots)
        return f"{self.metric} by model: {listed}."


def dot_panels(board: Leaderboard) -> list[Panel]:
    """Return one panel per metric that has a value.

    Models are in the order of the leaderboard. The rows of one model stand together, its exact value first.
    """
    models = list(dict.fromkeys(row.model for row in board.rows))
    columns = [
        (metric, sorted(board.column(metric), key=lambda entry: models.index(entry[0].model)))
        for metric in board.metrics
    ]
    return [_panel(metric, column) for metric, column in columns if column]


def _panel(metric: str, column: list[tuple[Row, ShownValue]]) -> Panel:
    has_exact = any(cell.estimate.kind == "exact" for _, cell in column)
    before = [None, *(row.model for row, _ in column)]
    values = [cell.estimate.value for _, cell in column]
    ends = [end for _, cell in column for end in interval_of(cell.estimate) or ()]
    axis = linear_axis(min(values + ends), max(values + ends))
    dots = tuple(
        Dot(
            row=row,
            cell=cell,
            name=_name(row, is_first=row.model != above),
            place=axis.position(cell.estimate.value),
            whisker=_whisker(axis, cell),
            is_first=row.model != above,
            is_hollow=has_exact and cell.estimate.kind != "exact",
        )
        for (row, cell), above in zip(column, before, strict=False)
    )
    return Panel(metric, decimals(values) + 3, axis, dots)


def _whisker(axis: Axis, cell: ShownValue) -> tuple[float, float] | None:
    ends = interval_of(cell.estimate)
    return None if ends is None else (axis.position(ends[0]), axis.position(ends[1]))


def _name(row: Row, *, is_first: bool) -> str:
    """Return the model, with its estimator where there are several; further rows name the estimator alone."""
    if row.label == row.model:
        return shorten(row.model)
    if not is_first:
        return shorten(row.estimator)
    estimator = shorten(row.estimator, _LONGEST_ESTIMATOR)
    return f"{shorten(row.model, LONGEST_NAME - 3 - len(estimator))} · {estimator}"


_COUNTS = {
    "n_users": "users",
    "n_items": "items",
    "n_train": "events in train",
    "n_valid": "events in valid",
    "n_test": "events in test (targets)",
}

_PER_MODEL = {"models": "spec"}
_COST = ("seconds", "scores_computed")


@dataclass(frozen=True)
class Fact:
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


def repeat_facts(result: Result) -> list[Fact]:
    """Return every option, seed, hash and version; nested entries are named by their path."""
    facts = [
        Fact("command", f"truerank {result.command}"),
        Fact("models", "; ".join(result.models())),
        Fact("metrics", "; ".join(result.metrics())),
        Fact("truerank", result.version),
    ]
    for key, value in result.provenance.items():
        if not _is_per_model(value, result):
            facts += [Fact(name, as_typed(leaf)) for name, leaf in _leaves(key_words(key), value)]
    return facts


def model_table(result: Result) -> Table | None:
    """Return what the provenance holds for each model beside its cost, or None when it holds nothing."""
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
    """Return a key as words.

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
    """Return a value as it would be typed."""
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


_MOST_ROWS = 60
_FEWEST_ROWS = 12
_SHORT = 24  # letters that need no second line

# What makes a number round, by its significant digits; the first rule that leaves few enough rows is taken.
_ROUND: tuple[Callable[[str], bool], ...] = (
    lambda digits: len(digits) <= 1 or (len(digits) == 2 and digits[1] == "5"),
    lambda digits: len(digits) <= 1,
    lambda digits: digits in ("1", "2", "5"),
)


@dataclass(frozen=True)
class ShownTable:
    """A table as shown.

    Parameters
    ----------
    table : columns and rows
    kinds : for each column ``number`` (stands on the right), ``short`` (never broken) or ``long`` text
    note : which rows are shown when not all are
    """

    table: Table
    kinds: tuple[str, ...]
    note: str = ""


def as_sheet(table: Table, note: str = "") -> ShownTable:
    """Return a table with its columns told apart.

    Examples
    --------
    >>> as_sheet(Table(("model", "auc", "data"), (("popularity", "0.8", "ml-1m"),))).kinds
    ('short', 'number', 'short')
    """
    return ShownTable(table, tuple(_kind(table, at) for at in range(len(table.columns))), note)


def chart_sheet(chart: Chart) -> ShownTable:
    """Return the points of a chart; of very many rows those at round values, with a note that says so."""
    known = replace(chart, series=tuple(_finite(series) for series in chart.series))
    n_lost = sum(len(one.x) for one in chart.series) - sum(len(one.x) for one in known.series)
    notes = [f"{count_of(n_lost, 'point')} without a finite value left out."] if n_lost else []
    table = known.table()
    places = sorted({x for series in known.series for x in series.x})
    if len(places) > _MOST_ROWS:
        keep, which = thinned(places)
        table = replace(table, rows=tuple(compress(table.rows, keep)))
        shown = f"{len(table.rows):,} of {len(places):,} rows are shown"
        notes.append(f"{shown}: {which}, the first and the last.")
    return as_sheet(table, " ".join(notes))


def map_sheet(chart: HeatMap) -> ShownTable:
    """Return the values of a heat map."""
    values = tuple(
        tuple(None if value is None or not math.isfinite(value) else value for value in row)
        for row in chart.values
    )
    return as_sheet(replace(chart, values=values).table())


def thinned(places: Sequence[float]) -> tuple[list[bool], str]:
    """Return which of many ascending numbers to keep, and in words which these are.

    Examples
    --------
    >>> keep, which = thinned(range(1, 101))
    >>> sum(keep), which
    (28, 'round values')
    """
    digits = [f"{abs(place):.11e}".split("e")[0].replace(".", "").rstrip("0") for place in places]
    for is_round in _ROUND:
        keep = [is_round(text) for text in digits]
        keep[0] = keep[-1] = True
        if _FEWEST_ROWS <= sum(keep) <= _MOST_ROWS:
            return keep, "round values"
    stride = -(-len(places) // (_MOST_ROWS - 1))
    return [at % stride == 0 or at == len(places) - 1 for at in range(len(places))], f"one in {stride}"


def _kind(table: Table, at: int) -> str:
    if table.is_number(at):
        return "number"
    return "short" if all(len(row[at]) <= _SHORT for row in table.rows) else "long"


def _finite(series: Series) -> Series:
    parts = [part for part in (series.x, series.y, series.low, series.high) if part]
    keep = [all(map(math.isfinite, point)) for point in zip(*parts, strict=True)]
    if all(keep):
        return series
    x, y, low, high = (tuple(compress(part, keep)) for part in (series.x, series.y, series.low, series.high))
    return replace(series, x=x, y=y, low=low, high=high)


_POINTS = 200  # more cannot be told apart on a screen


def top_share_chart(ranks: Mapping[str, Ranks], models: Iterable[str]) -> Chart | None:
    """Return the share of targets within the top K by model, or None when there are no ranks.

    K runs over at most a few hundred whole numbers from 1 to the largest pool, evenly spaced on a
    logarithmic axis, the round ones among them.

    Parameters
    ----------
    ranks : exact ranks by model
    models : in the order of the legend; those without ranks are left out
    """
    known = [model for model in dict.fromkeys(models) if len(ranks.get(model, ()))]
    if not known:
        return None
    largest = max(int(ranks[model].n_pool.max()) for model in known)
    cutoffs = thinned_cutoffs(largest)
    shares = {model: top_share(ranks[model], cutoffs) for model in known}
    chance = chance_share(ranks[known[0]].n_pool, cutoffs)
    xs = tuple(cutoffs.tolist())
    return Chart(
        key="top-share",
        title="Share of targets ranked within the top K",
        words=_words(cutoffs, shares),
        x=ChartAxis(f"K, up to {largest:,}", "log", "count"),
        y=ChartAxis("share of targets", unit="share", low=0.0, high=1.0),
        series=(
            Series("random order", xs, tuple(chance.tolist()), is_dashed=True),
            *(Series(model, xs, tuple(share.tolist()), model=model) for model, share in shares.items()),
        ),
        notes=(
            "Every target counts alike, so with several targets per user this is not the average of recall "
            "over users.",
            "Among tied items a target takes the middle rank: 1 + items above + half the items tied.",
        ),
    )


def thinned_cutoffs(largest: int) -> IntArray:
    """Return whole numbers from 1 to ``largest``, evenly spaced on a logarithmic axis.

    Examples
    --------
    >>> thinned_cutoffs(7).tolist(), len(thinned_cutoffs(1_000_000)) <= 400
    ([1, 2, 3, 4, 5, 6, 7], True)
    """
    spaced = np.rint(np.geomspace(1, largest, _POINTS)).astype(np.int64)
    return np.union1d(spaced, np.array(round_values(1, largest), dtype=np.int64))


def top_share(ranks: Ranks, cutoffs: IntArray) -> FloatArray:
    """Return the share of targets whose mid rank is at most each cut-off.

    Targets count alike, whatever the number of targets of their user. Among ties a target takes the middle
    rank ``1 + n_above + n_tied / 2``.

    Examples
    --------
    >>> top_share(Ranks.single([0, 3], n_pool=10, n_tied=2), np.array([1, 2, 4, 5])).tolist()
    [0.0, 0.5, 0.5, 1.0]
    """
    middle = np.sort(ranks.n_above + ranks.n_tied / 2 + 1)
    return np.searchsorted(middle, cutoffs, side="right") / len(ranks)


def chance_share(n_pool: IntArray, cutoffs: IntArray) -> FloatArray:
    """Return the expected share when every pool is in random order.

    Examples
    --------
    >>> chance_share(np.array([10, 2]), np.array([1, 5])).tolist()
    [0.3, 0.75]
    """
    pools, counts = np.unique(n_pool, return_counts=True)
    shares = [np.average(np.minimum(cutoff / pools, 1), weights=counts) for cutoff in cutoffs]
    return np.array(shares, dtype=np.float64)


def _words(cutoffs: IntArray, shares: Mapping[str, FloatArray]) -> str:
    shown = min(10, int(cutoffs[-1]))
    at = int(np.searchsorted(cutoffs, shown))
    listed = "; ".join(f"{model} {percent(round(float(share[at]), 4))}" for model, share in shares.items())
    return f"Share of targets ranked within the top K, by model. Within the top {shown}: {listed}."
