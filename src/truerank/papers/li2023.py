"""Recipes of Li et al. (2023): errors of the estimators, adaptive sampling, and who is named the best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from truerank.core.types import FloatArray
from truerank.papers.li2023_setup import MODELS, SETUPS
from truerank.papers.outcome import Cell, Outcome
from truerank.papers.recipe import Settings, printed
from truerank.studies import AVERAGED, Study, study

REPEATS = 100
#: repeats of a quick run
FEW = 10
#: the paper's name of an estimator, its spec, and whether the printed one has a prior averaged over repeats
ESTIMATORS = {
    "MES": ("mes", False),
    "MLE": ("mle", False),
    "BV": ("bv(gamma=0.01)", False),
    "BV_MES": ("bv(gamma=0.01, prior=mes)", True),
    "BV_MLE": ("bv(gamma=0.01, prior=mle)", True),
    "MN_MES": ("mn(prior=mes)", True),
    "MN_MLE": ("mn(prior=mle)", True),
}
ADAPTIVE_ESTIMATORS = {"adaptive_MLE": ("mle(iterations=50)", False)}
#: estimators that the paper does not have
OURS = ("naive", "beta-binomial", "smooth")
SAMPLES = {"pinterest-20": 500, "yelp": 500, "ml-20m": 1000, "ml-1m": 500, "citeulike-a": 500}
ADAPTIVE = "adaptive(start=100, max=3200, replace=true)"
_NOTE = (
    "The errors depend on the fits of the models, which are ours, and of pinterest-20 the first 37,501 of "
    "55,187 users are at hand: compare sizes and order, not digits."
)
_REASON = "the fits of the models are ours, and of pinterest-20 two thirds of the users are at hand"
FAMILIES = {"RECALL": "recall", "NDCG": "ndcg", "AP": "ap"}


def uniform(n: int) -> str:
    """Return the sampler of the paper, whose n counts the target."""
    return f"uniform(m={n - 1}, replace=true)"


def run_study(
    settings: Settings,
    dataset: str,
    sampler: str,
    estimators: Sequence[str],
    more: Mapping[str, str] | None = None,
) -> Study:
    """Return the errors of estimators on one data set by the paper's protocol.

    Items seen in training stay in the pool, negatives are drawn with replacement among all items but the
    target, and all models share them. ``more`` adds models to the paper's five.
    """
    setup = SETUPS[dataset]
    setup = replace(setup, models={**setup.models, **(more or {})})
    store = settings.store
    return study(
        setup.fitted(store, settings.seed, quick=settings.quick),
        store.split(setup.dataset, setup.split),
        sampler,
        list(estimators),
        families=",".join(FAMILIES.values()),
        repeats=settings.repeated(REPEATS, quick=FEW),
        prior_mode="both",
        seen="keep",
        seed=settings.seed,
        store=store,
        progress=settings.progress,
    )


@dataclass(frozen=True)
class _Errors:
    """Relative errors of one data set and sampler, by (model, column)."""

    found: Study
    columns: dict[str, str]

    def cell(self, model: str, column: str, family: str) -> tuple[float, float]:
        """Return mean and standard deviation over repeats, in percent."""
        mean, spread = self.found.errors()
        place = (
            self.found.estimators.index(self.columns[column]),
            self.found.models.index(model),
            self.found.families.index(family),
        )
        return float(mean[place]), float(spread[place])


def _fixed(settings: Settings, dataset: str, n: int) -> _Errors:
    specs = [spec for spec, _ in ESTIMATORS.values()]
    found = run_study(settings, dataset, uniform(n), specs)
    return _Errors(found, {name: _label(spec, avg) for name, (spec, avg) in ESTIMATORS.items()})


def _adaptive(settings: Settings, dataset: str) -> _Errors:
    specs = [spec for spec, _ in ADAPTIVE_ESTIMATORS.values()]
    found = run_study(settings, dataset, ADAPTIVE, specs)
    return _Errors(found, {name: _label(spec, avg) for name, (spec, avg) in ADAPTIVE_ESTIMATORS.items()})


def _label(spec: str, is_averaged: bool) -> str:
    from truerank.estimators import ESTIMATORS as REGISTRY

    name = str(REGISTRY.make(spec))
    return f"{name}, {AVERAGED}" if is_averaged else name


def table1(settings: Settings) -> Outcome:
    """Recall errors at n = 100."""
    return _fixed_table(settings, "table1", "recall", 100)


def table6(settings: Settings) -> Outcome:
    """Recall errors at n = 100, all data sets."""
    return _fixed_table(settings, "table6", "recall", 100)


def table9(settings: Settings) -> Outcome:
    """AP errors at n = 100."""
    return _fixed_table(settings, "table9", "ap", 100)


def table10(settings: Settings) -> Outcome:
    """NDCG errors at n = 500."""
    return _fixed_table(settings, "table10", "ndcg", 500)


def table2(settings: Settings) -> Outcome:
    """NDCG errors of fixed and adaptive samples."""
    return _adaptive_table(settings, "table2", "ndcg")


def table7(settings: Settings) -> Outcome:
    """NDCG errors of fixed and adaptive samples, all data sets."""
    return _adaptive_table(settings, "table7", "ndcg")


def table11(settings: Settings) -> Outcome:
    """Recall errors of fixed and adaptive samples."""
    return _adaptive_table(settings, "table11", "recall")


def table3(settings: Settings) -> Outcome:
    """How often the best model is named."""
    return _winner_table(settings, "table3")


def table8(settings: Settings) -> Outcome:
    """How often the best model is named, all data sets."""
    return _winner_table(settings, "table8")


def _fixed_table(settings: Settings, table: str, family: str, n: int) -> Outcome:
    cells, notes, without = [], [_NOTE], list[str]()
    for dataset, rows in _by_dataset(table):
        if not SETUPS[dataset].is_at_hand:
            without.append(f"{dataset}: data not at hand; its {len(rows)} rows run once it is")
            continue
        errors = _fixed(settings, dataset, n)
        for row in rows:
            model = row["model"]
            if why := SETUPS[dataset].missing(model, quick=settings.quick):
                without.append(f"{dataset} {model}: {why}")
                continue
            cells += [
                _error_cell(errors, dataset, model, column, family, printed_value)
                for column, printed_value in row["values"].items()
            ]
        notes.append(_agreement(cells, dataset))
    return _outcome(settings, cells, notes, without)


def _adaptive_table(settings: Settings, table: str, family: str) -> Outcome:
    cells, notes, without = [], [_NOTE], list[str]()
    for dataset, rows in _by_dataset(table):
        if not SETUPS[dataset].is_at_hand:
            without.append(f"{dataset}: data not at hand; its {len(rows)} rows run once it is")
            continue
        fixed, adaptive = _fixed(settings, dataset, SAMPLES[dataset]), _adaptive(settings, dataset)
        better = 0
        for row in rows:
            model = row["model"]
            if why := SETUPS[dataset].missing(model, quick=settings.quick):
                without.append(f"{dataset} {model}: {why}")
                continue
            for column, value in row["values"].items():
                if column == "average_size":
                    size = float(adaptive.found.items_per_user[adaptive.found.models.index(model)])
                    cells.append(_cell(dataset, model, column, value["mean"], size, value["sd"]))
                else:
                    source = adaptive if column in ADAPTIVE_ESTIMATORS else fixed
                    cells.append(_error_cell(source, dataset, model, column, family, value))
            best = min(fixed.cell(model, column, family)[0] for column in ESTIMATORS)
            better += adaptive.cell(model, "adaptive_MLE", family)[0] < best
        notes.append(
            f"{dataset}: adaptive samples beat the best fixed estimator at n = {SAMPLES[dataset]} for "
            f"{better} of {len(fixed.found.models)} models (printed: all), at "
            f"{adaptive.found.items_per_user.mean():.0f} items per user."
        )
    return _outcome(settings, cells, notes, without)


def _winner_table(settings: Settings, table: str) -> Outcome:
    cells, notes, without = [], [_NOTE], list[str]()
    repeats = settings.repeated(REPEATS, quick=FEW)
    for dataset, rows in _by_dataset(table):
        if not SETUPS[dataset].is_at_hand:
            without.append(f"{dataset}: data not at hand; its {len(rows)} rows run once it is")
            continue
        fixed, adaptive = _fixed(settings, dataset, SAMPLES[dataset]), _adaptive(settings, dataset)
        for name in MODELS:
            if why := SETUPS[dataset].missing(name, quick=settings.quick):
                without.append(f"{dataset} {name}: {why}")
        for row in rows:
            family, cutoff = FAMILIES[row["metric"]], int(row["top_k"])
            for column, value in row["values"].items():
                source = adaptive if column in ADAPTIVE_ESTIMATORS else fixed
                counts = source.found.winners(family, cutoff)
                count = 100 * float(counts[source.found.estimators.index(source.columns[column])]) / repeats
                error = 100 * np.sqrt(max(value / 100 * (1 - value / 100), 0.0025) * (1 / 100 + 1 / repeats))
                cells.append(
                    Cell(
                        f"{dataset} {row['metric']}@{cutoff}",
                        column,
                        value,
                        count,
                        float(error),
                        digits=0,
                    )
                )
        for family in FAMILIES.values():
            exact = fixed.found.exact[:, fixed.found.families.index(family)]
            at = exact[:, fixed.found.cutoffs.index(10)]
            order = np.argsort(-at)
            named = [f"{fixed.found.models[i]} {at[i]:.4f}" for i in order[:2]]
            notes.append(f"{dataset} {family}@10: {' before '.join(named)}")
    return _outcome(settings, cells, notes, without)


def _outcome(settings: Settings, cells: list[Cell], notes: list[str], without: list[str]) -> Outcome:
    return Outcome(
        tuple(cells),
        notes=tuple(notes),
        reason=_REASON,
        without=tuple(without),
        repeats=settings.repeated(REPEATS, quick=FEW),
    )


def _by_dataset(table: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    rows = printed("l23", table)
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        yield dataset, [row for row in rows if row["dataset"] == dataset]


def _error_cell(
    errors: _Errors, dataset: str, model: str, column: str, family: str, value: dict[str, float]
) -> Cell:
    mean, spread = errors.cell(model, column, family)
    repeats = errors.found.n_repeats
    error = float(np.hypot(value["sd"] / np.sqrt(REPEATS), spread / np.sqrt(repeats)))
    return _cell(dataset, model, column, value["mean"], mean, error)


def _cell(dataset: str, model: str, column: str, value: float, ours: float, error: float) -> Cell:
    return Cell(f"{dataset} {model}", column, value, ours, error)


def _agreement(cells: Sequence[Cell], dataset: str) -> str:
    """Return a sentence on what does not depend on the fits: which estimators are the better ones."""
    rows: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.row.startswith(f"{dataset} "):
            rows.setdefault(cell.row, []).append(cell)
    correlations = []
    for row in rows.values():
        ours: FloatArray = np.array([cell.value for cell in row])
        theirs: FloatArray = np.array([cell.printed for cell in row], dtype=float)
        correlations.append(float(np.corrcoef(_ranked(ours), _ranked(theirs))[0, 1]))
    told = ", ".join(f"{value:+.2f}" for value in correlations)
    return f"{dataset}: rank correlation of the estimators' errors with the printed ones, by model: {told}"


def _ranked(values: FloatArray) -> FloatArray:
    return np.argsort(np.argsort(values)).astype(np.float64)
