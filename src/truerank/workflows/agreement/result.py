"""Result of an agreement experiment: taus per strategy and fraction, scores, ranks of models, and tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from truerank.core.display import Displayed, Overview, frame_of
from truerank.core.errors import InvalidData, check_choice
from truerank.core.provenance import check_schema, from_fields, head, parse_json
from truerank.core.table import Table, listed_in_words
from truerank.core.types import FloatArray
from truerank.version import __version__

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class MetricTaus:
    """Values of all models by one metric of one scenario, and the taus they give.

    Parameters
    ----------
    scenario, metric : spec strings
    higher_is_better : whether larger values are better
    models : names
    full : values on the full data, seeds x models; None where a model could not be fitted
    small : values on sub-samples, strategies x fractions x seeds x models
    tau, expected, certain : strategies x fractions x seeds; as in `StrategyAgreement`
    n_pairs, n_certain : pairs of models, and those whose order on the full data is certain
    ceiling : mean tau between full data and full data under another seed; None with one seed
    """

    scenario: str
    metric: str
    higher_is_better: bool
    models: list[str]
    full: list[Any]
    small: list[Any]
    tau: list[Any]
    expected: list[Any]
    certain: list[Any]
    n_pairs: int
    n_certain: int
    ceiling: float | None


@dataclass(frozen=True)
class StrategyAgreement:
    """Agreement of the orders on sub-samples, of one strategy and fraction, with that on the full data.

    Parameters
    ----------
    strategy, fraction : of the sub-sample
    scenario, metric : spec strings; empty for the mean over all
    tau, low, high : Kendall's tau-b with the order on the full data, mean over seeds; None if missing
    expected : mean tau over resampled users: pairs whose order is open count about 0
    certain, certain_low, certain_high : agreement over pairs whose order on the full data is certain
    n_missing : taus that do not exist, because a model could not be fitted, all values are equal or the
        sub-sample was skipped
    seconds : CPU seconds of sampling and training, mean over seeds; None for a single metric
    speedup : CPU seconds of training on the full data divided by these
    speedup_validated : the same including validation for early stopping, which costs as much on every
        sub-sample as on the full data
    n_skipped : sub-samples that were too small; there are no seconds where one was
    """

    strategy: str
    fraction: float
    scenario: str
    metric: str
    tau: float | None
    low: float | None
    high: float | None
    expected: float | None
    certain: float | None
    certain_low: float | None
    certain_high: float | None
    n_missing: int
    seconds: float | None = None
    speedup: float | None = None
    speedup_validated: float | None = None
    n_skipped: int = 0


@dataclass(frozen=True)
class StrategyScore:
    """Agreement of one strategy over all fractions.

    Parameters
    ----------
    strategy : name
    psi, low, high : mean tau over metrics, fractions and seeds
    expected, certain, certain_low, certain_high : as in `StrategyAgreement`
    keeps_to : the smallest fraction such that it and all larger ones keep the order; None if there is none
    """

    strategy: str
    psi: float | None
    low: float | None
    high: float | None
    expected: float | None
    certain: float | None
    certain_low: float | None
    certain_high: float | None
    keeps_to: float | None


@dataclass(frozen=True)
class ModelMove:
    """P_MLE of one model: above one half when it ranks better on sub-samples than on the full data."""

    scenario: str
    model: str
    fraction: float
    probability: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, repr=False)
class Agreement(Displayed):
    """The result of an experiment; the JSON form is what ``--format json`` prints.

    Parameters
    ----------
    answer : the main finding in a sentence
    strategies, fractions, seeds : axes of the arrays of ``boards``
    boards, cells, scores, moves : values and taus per metric; agreement per strategy and fraction, and per
        strategy; changes of rank per model
    problems : models that could not be fitted to a sub-sample, and why
    skipped : sub-samples that were too small to count, and why
    level, threshold : see ``AgreementPlan``
    data, provenance : counts of the splits; grid, resamples, seed and models
    """

    answer: str
    strategies: list[str]
    fractions: list[float]
    seeds: list[int]
    boards: list[MetricTaus]
    cells: list[StrategyAgreement]
    scores: list[StrategyScore]
    moves: list[ModelMove]
    problems: list[str]
    level: float
    threshold: float
    data: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    version: str = __version__

    def cell(self, strategy: str, fraction: float, metric: str = "", scenario: str = "") -> StrategyAgreement:
        """Return the agreement of a strategy and fraction; without a metric, that over all metrics."""
        for cell in self.cells:
            if (cell.strategy, cell.fraction, cell.metric) == (strategy, fraction, metric) and (
                scenario in ("", cell.scenario)
            ):
                return cell
        raise InvalidData(
            f"there is no cell of {strategy!r} at {fraction}{f' by {metric!r}' if metric else ''}. "
            f"Strategies: {', '.join(self.strategies)}; fractions: {', '.join(map(str, self.fractions))}."
        )

    def score(self, strategy: str) -> StrategyScore:
        """Return the agreement of one strategy over all fractions."""
        for score in self.scores:
            if score.strategy == strategy:
                return score
        raise InvalidData(f"there is no strategy {strategy!r}. There are: {', '.join(self.strategies)}.")

    def to_table(self, which: Literal["fractions", "metrics", "strategies", "models"] = "fractions") -> Table:
        """Return agreement per strategy and fraction, the same per metric, per strategy, or P_MLE per model.

        Parameters
        ----------
        which : ``fractions`` and ``metrics`` show ``cells``, ``strategies`` shows ``scores``, ``models``
            shows ``moves``
        """
        return agreement_table(self, which)

    def overview(self) -> Overview:
        """Return what a console and a notebook show."""
        title = f"Agreement of {listed_in_words(self.strategies)} with all events"
        return Overview(title, self.to_table(), [self.answer, *self.problems, *self.skipped])

    def to_polars(self) -> pl.DataFrame:
        """Return one row per strategy, fraction and metric, with the fields of `StrategyAgreement`."""
        return frame_of([asdict(cell) for cell in self.cells])

    def plot(
        self,
        by: Literal["fraction", "metric"] = "fraction",
        *,
        what: Literal["tau", "expected", "certain"] = "tau",
        width: float | None = None,
    ) -> Figure:
        """Return a heat map of the agreement as a matplotlib figure.

        Parameters
        ----------
        by : what the columns are; metrics show the mean over fractions
        what : as in ``StrategyAgreement``
        width : inches; one column of a paper by default, more where the numbers need it
        """
        from truerank.core.errors import check_choice
        from truerank.report.charts.agreement import heat_by_fraction, heat_by_metric
        from truerank.report.matplotlib.figure import plot

        check_choice("by", by, ("fraction", "metric"))
        make = heat_by_fraction if by == "fraction" else heat_by_metric
        return plot(make(self, what=what), width=width)

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {**head("agreement"), **asdict(self)}

    def to_json(self) -> str:
        """Return the JSON text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Agreement:
        """Read what ``to_json`` wrote."""
        fields = parse_json(text, "an agreement")
        check_schema(fields, "an agreement")
        if not isinstance(fields, dict) or fields.get("command") != "agreement":
            raise InvalidData("an agreement must be the JSON that truerank wrote, by the command agreement.")
        return from_fields(cls, fields, "an agreement", is_open=True)


def none_if_nan(value: float | FloatArray) -> float | None:
    """Return a plain number, None for NaN."""
    plain = float(value)
    return None if np.isnan(plain) else plain


def nested_lists(values: FloatArray) -> list[Any]:
    """Return nested lists with None for NaN."""
    plain = values.astype(object)
    plain[np.isnan(values)] = None
    nested: list[Any] = plain.tolist()
    return nested


Which: TypeAlias = Literal["fractions", "metrics", "strategies", "models"]

_TAU_COLUMNS = ("tau", "expected", "certain pairs")
_COLUMNS = ("strategy", "fraction", *_TAU_COLUMNS, "CPU s", "times faster", "with validation")


def agreement_table(agreement: Agreement, which: Which = "fractions") -> Table:
    """Return one of the four tables of an experiment; see ``Agreement.to_table``."""
    tables = {"fractions": _fractions, "metrics": _metrics, "strategies": _strategies, "models": _models}
    check_choice("which", which, tuple(tables))
    return tables[which](agreement)


def _fractions(agreement: Agreement) -> Table:
    rows = (
        (
            *_agreement_cells(cell),
            _number(cell.seconds, ".3g"),
            _number(cell.speedup, ".2f"),
            _number(cell.speedup_validated, ".2f"),
        )
        for cell in agreement.cells
        if not cell.metric
    )
    return Table(_COLUMNS, tuple(rows))


def _metrics(agreement: Agreement) -> Table:
    rows = ((cell.scenario, cell.metric, *_agreement_cells(cell)) for cell in agreement.cells if cell.metric)
    return Table(("scenario", "metric", *_COLUMNS[:5]), tuple(rows))


def _strategies(agreement: Agreement) -> Table:
    rows = (
        (
            score.strategy,
            _interval(score.psi, score.low, score.high),
            _number(score.expected),
            _interval(score.certain, score.certain_low, score.certain_high),
            _number(score.keeps_to, "g"),
        )
        for score in agreement.scores
    )
    return Table(("strategy", "Psi", *_TAU_COLUMNS[1:], "keeps order to"), tuple(rows))


def _models(agreement: Agreement) -> Table:
    rows = []
    for scenario, model in dict.fromkeys((move.scenario, move.model) for move in agreement.moves):
        moves = (move for move in agreement.moves if (move.scenario, move.model) == (scenario, model))
        rows.append((scenario, model, *(_interval(move.probability, move.low, move.high) for move in moves)))
    heads = (f"P_MLE at {fraction:g}" for fraction in agreement.fractions)
    return Table(("scenario", "model", *heads), tuple(rows))


def _agreement_cells(cell: StrategyAgreement) -> tuple[str, ...]:
    return (
        cell.strategy,
        f"{cell.fraction:g}",
        _interval(cell.tau, cell.low, cell.high),
        _number(cell.expected),
        _interval(cell.certain, cell.certain_low, cell.certain_high),
    )


def _number(value: float | None, form: str = ".3f") -> str:
    return "" if value is None else format(value, form)


def _interval(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return _number(value)
    return f"{value:.3f} [{low:.2f}, {high:.2f}]"
