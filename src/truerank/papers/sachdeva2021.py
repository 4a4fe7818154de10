"""Sachdeva et al. (2021), SVP-CF: Selection via Proxy for Collaborative Filtering Data: the tables.

Table 1 is Psi, the mean of Kendall's tau between the order of models on sub-samples and on the full data, for
sixteen strategies. By default each model has one configuration; the paper's search runs with ``full``. Tables
2 to 4 are the scenarios, the sizes of the data sets, and the arithmetic behind the printed CO2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from truerank.core.digest import events_hash
from truerank.core.errors import InvalidData
from truerank.core.types import FloatArray
from truerank.data.catalogue import find_local, load
from truerank.data.clean import min_history
from truerank.models.registry import MODELS
from truerank.papers.outcome import IndependentCells, PaperNumber, RecipeOutcome
from truerank.papers.recipe import Settings, printed
from truerank.papers.store import QUICK
from truerank.workflows.agreement.experiment import AgreementExperiment
from truerank.workflows.agreement.order import kendall, mean_ignoring_nan
from truerank.workflows.agreement.plan import (
    PAPER_FRACTIONS,
    AgreementPlan,
    ModelGrid,
    configurations,
    find_grid,
    make_plan,
)
from truerank.workflows.agreement.result import Agreement
from truerank.workflows.agreement.scenarios import SCENARIOS as REGISTRY

SCENARIOS = ("explicit", "implicit", "sequential")
#: group and sampler in Table 1 to the strategy
STRATEGIES: Mapping[tuple[str, str], str] = {
    ("interaction", "Random"): "random",
    ("interaction", "Stratified"): "stratified",
    ("interaction", "Temporal"): "temporal",
    ("interaction", "SVP-CF w/ MF"): "s21-svp-cf-mf",
    ("interaction", "SVP-CF w/ Bias-only"): "s21-svp-cf-bias",
    ("interaction", "SVP-CF-PROP w/ MF"): "s21-svp-cf-prop-mf",
    ("interaction", "SVP-CF-PROP w/ Bias-only"): "s21-svp-cf-prop-bias",
    ("user", "Random"): "random-user",
    ("user", "Head"): "head-user",
    ("user", "SVP-CF w/ MF"): "s21-svp-cf-mf-user",
    ("user", "SVP-CF w/ Bias-only"): "s21-svp-cf-bias-user",
    ("user", "SVP-CF-PROP w/ MF"): "s21-svp-cf-prop-mf-user",
    ("user", "SVP-CF-PROP w/ Bias-only"): "s21-svp-cf-prop-bias-user",
    ("graph", "Centrality"): "centrality",
    ("graph", "Random-walk"): "random-walk",
    ("graph", "Forest-fire"): "forest-fire",
}
#: the paper's name of an algorithm to ours
ALGORITHMS = {
    "Bias-only": "bias-only",
    "MF": "mf",
    "NeuMF": "neumf",
    "PopRec": "popularity",
    "MVAE": "multi-vae",
    "SVAE": "svae",
    "SASRec": "sasrec",
}
#: repetitions of the whole experiment: one, as in the paper
SEEDS = 1
#: name of the search that is run by default: one configuration of each model
REDUCED = "s21-reduced"


@dataclass(frozen=True)
class PaperData:
    """A data set of the paper.

    Parameters
    ----------
    name : as in Table 1
    dataset : what ``load`` takes
    epochs, batch, every, patience, length : training options of the published code; the model is validated
        after ``every`` epochs, and histories have at most ``length`` items
    grid : the search of the paper's appendix
    short : length of histories in the reduced search
    is_slow : whether a quick run leaves it out
    """

    name: str
    dataset: str
    epochs: int
    batch: int
    every: int
    patience: int
    length: int
    grid: str
    short: int = 10
    is_slow: bool = True

    @property
    def is_available(self) -> bool:
        """Whether the data set lies on this machine."""
        return find_local(self.dataset) is not None

    def models(self, full: bool) -> dict[str, str]:
        """Return the models by name: with the training of the published code, or the reduced ones."""
        if full:
            common = f"epochs={self.epochs}, batch={self.batch}, every={self.every}, patience={self.patience}"
            return {
                "popularity": "popularity",
                "bias-only": f"s21-bias-only({common})",
                "mf": f"s21-mf({common})",
                "neumf": f"s21-neumf({common})",
                "multi-vae": f"s21-multi-vae({common}, anneal_epochs={self.epochs})",
                "svae": f"s21-svae({common}, anneal_epochs={self.epochs}, max_length={self.length})",
                "sasrec": f"s21-sasrec({common}, max_length={self.length})",
            }
        # batches of users are small: with 1,024 of a few thousand users there would be too few steps
        return {
            "popularity": "popularity",
            "bias-only": "s21-bias-only(every=10, patience=2)",
            "mf": "s21-mf(every=10, patience=2)",
            "neumf": "s21-neumf(factors=8, layers=16-8-8, pretrain=false, epochs=50, every=10, patience=2)",
            "multi-vae": "s21-multi-vae(hidden=32, latent=32, epochs=50, anneal_epochs=50, batch=128, "
            "every=10, patience=2)",
            "svae": f"s21-svae(max_length={self.short}, embedding=16, recurrent=16, hidden=16, latent=16, "
            "epochs=20, anneal_epochs=20, batch=64, every=5, patience=2)",
            "sasrec": f"s21-sasrec(max_length={self.short}, factors=16, epochs=40, batch=128, every=10, "
            "patience=2)",
        }


DATA = (
    PaperData("Amazon Magazine", "amazon-magazine-svpcf", 120, 1024, 5, 6, 10, "paper", is_slow=False),
    PaperData("ML-100k", "ml-100k", 100, 1024, 5, 5, 100, "paper", short=20),
    PaperData("Amazon Luxury", "amazon-luxury-beauty", 80, 1024, 5, 4, 10, "paper"),
    PaperData("Amazon Video-games", "amazon-video-games", 25, 1024, 3, 2, 10, "paper-large"),
    PaperData("Beer Advocate", "beeradvocate", 30, 256, 3, 3, 10, "paper-large"),
    PaperData("Goodreads Comics", "goodreads-comics", 20, 128, 3, 2, 30, "paper-large", short=20),
)


def plan_of(data: PaperData, *, full: bool = False, seeds: int = SEEDS, seed: int = 0) -> AgreementPlan:
    """Return the experiment of one data set: sixteen strategies, six fractions, three scenarios.

    Examples
    --------
    >>> small, large = (sum(n_fits(plan_of(DATA[0], full=full))) for full in (False, True))
    >>> small, large
    (1455, 41807)
    """
    plan = make_plan(list(STRATEGIES.values()), PAPER_FRACTIONS, SCENARIOS, seeds=seeds, seed=seed)
    models, grid = data.models(full), find_grid(data.grid if full else "none")
    model_grids = {
        scenario: tuple(
            ModelGrid(
                model_grid.name, configurations(scenario.adapt(MODELS.make(models[model_grid.name])), grid)
            )
            for model_grid in listed
        )
        for scenario, listed in plan.model_grids.items()
    }
    return replace(plan, model_grids=model_grids, grid=data.grid if full else REDUCED)


def n_fits(plan: AgreementPlan) -> tuple[int, int]:
    """Return how many models are fitted to the full data, and how many to sub-samples."""
    each = sum(
        len(model_grid.configurations) for listed in plan.model_grids.values() for model_grid in listed
    )
    each *= len(plan.seeds)
    return each, each * len(plan.strategies) * len(plan.fractions)


def measure_agreement_on(settings: Settings, data: PaperData) -> Agreement:
    """Return the result of the experiment on one data set; finished parts and the result are stored."""
    plan = plan_of(data, full=settings.full, seeds=settings.repeated(SEEDS), seed=settings.seed)
    events = load(data.dataset, progress=settings.progress)
    store = settings.store

    def run() -> dict[str, object]:
        folder = None if store.folder is None else store.folder / f"s21-{data.dataset}"
        experiment = AgreementExperiment(plan, events, folder=folder, workers=settings.workers)
        return experiment.run(settings.progress).to_dict()

    return Agreement.from_json(json.dumps(store.value(_key(plan, data, events_hash(events)), run)))


def measure_available(settings: Settings) -> tuple[dict[str, Agreement], list[str]]:
    """Return results by the paper's name of the data set, and sentences on data sets that were left out.

    Raises
    ------
    InvalidData
        When no data set can be used.
    """
    why = {data.name: _missing(data, settings) for data in DATA}
    if all(why.values()):
        name = next(data.dataset for data in DATA if not data.is_slow)
        raise InvalidData(
            f"a quick run needs the data set {name!r}, which is not at hand. Run without --quick."
        )
    agreements = {data.name: measure_agreement_on(settings, data) for data in DATA if not why[data.name]}
    return agreements, [f"{name}: {reason}" for name, reason in why.items() if reason]


def _missing(data: PaperData, settings: Settings) -> str:
    if not data.is_available:
        return f"data not at hand ({data.dataset}); it runs once it is"
    return QUICK if settings.quick and data.is_slow else ""


def _key(plan: AgreementPlan, data: PaperData, digest: str) -> str:
    """Return the key of the stored result: everything it depends on."""
    models = {
        str(scenario): [[str(model) for model in model_grid.configurations] for model_grid in listed]
        for scenario, listed in plan.model_grids.items()
    }
    strategies = [str(strategy) for strategy in plan.strategies.values()]
    parts = (plan.fractions, plan.seeds, plan.seed, plan.level, plan.resamples, plan.threshold)
    return f"s21 agreement {data.dataset} data={digest} {models} {strategies} {parts}"


#: users with fewer events are left out, before repeated pairs are merged
LEAST_HISTORY = 3
#: speed-up of a development cycle by SVP-CF that the paper states
CLAIMED_SPEEDUP = 1.8
#: models that give all items the same score when a user has no train events
NEED_HISTORY = ("svae", "sasrec")
#: a column of Table 2 to the metric of a scenario
METRICS = {"MSE": "mse", "AUC": "auc", "Recall@k": "recall(norm=min)@100", "nDCG@k": "ndcg@10"}
_REASON = (
    "among other things each model has one configuration instead of up to 45, and SVAE and SASRec rank at "
    "random for users whose train events are all gone"
)
_UNITS = {"": 1.0, "k": 1e3, "M": 1e6}


def table1(settings: Settings) -> RecipeOutcome:
    """Compute Psi of the sixteen strategies, with intervals."""
    agreements, without = measure_available(settings)
    cells: list[PaperNumber] = []
    for row in printed("s21", "table1"):
        cells += _psi_cells(agreements, row["group"], row["sampler"], row["values"])
    single = [cell for cell in cells if cell.z is not None and cell.column in agreements]
    cells += _means_over_strategies(single)
    compared = sum(cell.z is not None for cell in cells)
    seeds = settings.repeated(SEEDS)
    notes = [
        _search(settings),
        "low and high are the ends of 95 % intervals over test users"
        + (f" and {seeds} seeds." if seeds > 1 else "; one seed, so the doubt of training is not in them."),
        "certain is Psi over pairs of models whose order on the full data is beyond that doubt. The error of "
        "a difference is that of our Psi, as print gives none; average is that of the data sets at hand, of "
        "both sides, and the error of a mean over strategies the mean of theirs, which holds whatever their "
        "correlation. Averages and means count for nothing of their own in the joint test.",
    ]
    for name, agreement in agreements.items():
        notes += _findings(name, agreement, [cell for cell in single if cell.column == name])
    return RecipeOutcome(
        tuple(cells),
        notes=tuple(notes),
        reason="" if settings.full else _REASON,
        without=tuple(without),
        repeats=seeds,
        independent=IndependentCells(compared, len(single), len(single)) if single else None,
    )


def table2(settings: Settings) -> RecipeOutcome:
    """List which algorithms and metrics each scenario has, from the scenarios themselves."""
    cells = []
    for row in printed("s21", "table2"):
        scenario = REGISTRY.make(row["scenario"].lower())
        has = {name: ours in scenario.models for name, ours in ALGORITHMS.items()}
        has |= {name: ours in scenario.metric_names() for name, ours in METRICS.items()}
        cells += [
            PaperNumber(row["scenario"], column, float(value), float(has[column]), digits=0)
            for column, value in row["values"].items()
        ]
    return RecipeOutcome(tuple(cells), notes=("1 where the scenario has the algorithm or metric, else 0.",))


def table3(settings: Settings) -> RecipeOutcome:
    """Count events, users and items of the available data sets."""
    cells, notes, without = [], [], []
    names = {data.name: data for data in DATA}
    for row in printed("s21", "table3"):
        data = names[row["dataset"]]
        if not data.is_available:
            without.append(f"{data.name}: data not at hand ({data.dataset})")
            continue
        events = load(data.dataset, duplicates="keep", progress=settings.progress)
        events = min_history(events, LEAST_HISTORY)
        counts = {"interactions": len(events), "users": events.n_users, "items": events.n_items}
        quantities = {**counts, "interactions per user": len(events) / events.n_users}
        for column, value in row["values"].items():
            unit = f" ({value['unit']})" if value["unit"] else ""
            ours = quantities[column] / _UNITS[value["unit"]]
            cells.append(PaperNumber(data.name, column + unit, value["value"], ours, digits=value["digits"]))
        repeated = events.origin.get("duplicate_rows_kept", 0)
        if repeated:
            notes.append(
                f"{data.name}: {repeated} of its events repeat a pair of user and item. Table 1 is measured "
                "with the last event of each pair, and users with fewer than 3 of these left out."
            )
    return RecipeOutcome(tuple(cells), notes=tuple(notes), without=tuple(without))


def table4(settings: Settings) -> RecipeOutcome:
    """Compute how many models the paper trained, and the CO2 of a development cycle."""
    models = 6 * 3 * 7 * 16 * 7 * 30  # data sets, scenarios, algorithms, strategies, percents, configurations
    hours = 25 * 40 * (4e9 / 20e6) * 0.4 / 60  # algorithms, configurations, times ML-20M, minutes on a DGX-2
    pounds = 10 * hours * 1.58 * 0.954  # kW, overhead of a data centre, pounds per kWh
    values = (models / 1e5, hours / 1e3, pounds / 1e3, pounds / 1e3 / CLAIMED_SPEEDUP)
    reasons = ("", "4/3, printed as if rounded up", "", "")
    rows = printed("s21", "table4")
    cells = [
        PaperNumber(row["quantity"], "Table 4", row["value"], value, digits=row["digits"], note=note)
        for row, value, note in zip(rows, values, reasons, strict=True)
    ]
    distinct = sum(sum(n_fits(plan_of(data, full=True))) for data in DATA)
    needed = pounds / 1e3 / rows[-1]["value"]
    return RecipeOutcome(
        tuple(cells),
        reason=f"the last number needs a speed-up of {needed:.2f} where the text names {CLAIMED_SPEEDUP}, "
        "and 1333 hours are printed as 1340",
        notes=(
            f"Models trained: {models:,}, if all seven algorithms served every scenario, with 30 "
            f"configurations each, and the full data were fitted anew for each strategy. The search that the "
            f"appendix describes makes {distinct:,} different fits.",
            f"With SVP-CF: a speed-up of {CLAIMED_SPEEDUP}, as the text has it, gives {values[-1]:.1f} "
            f"thousand lbs; the printed number needs {needed:.2f}.",
            "A flight from New York to San Francisco and back (2) and a year of a human life (11 thousand "
            "lbs) are quoted from elsewhere and not computed here.",
        ),
    )


def _psi_cells(
    agreements: Mapping[str, Agreement], group: str, sampler: str, values: Mapping[str, float]
) -> list[PaperNumber]:
    """Return Psi of one strategy on all available data sets, and the average."""
    strategy, row = STRATEGIES[group, sampler], f"{group} {sampler}"
    cells, compared = [], []
    for name, agreement in agreements.items():
        score = agreement.score(strategy)
        if score.psi is None or score.low is None or score.high is None:
            continue  # a note says that no tau exists
        error = (score.high - score.low) / (2 * NormalDist().inv_cdf((1 + agreement.level) / 2))
        compared.append(PaperNumber(row, name, values[name], score.psi, error, digits=3))
        cells += [
            compared[-1],
            PaperNumber(row, f"{name} low", None, score.low, digits=3),
            PaperNumber(row, f"{name} high", None, score.high, digits=3),
        ]
        if score.certain is not None:
            cells.append(PaperNumber(row, f"{name} certain", None, score.certain, digits=3))
    if len(compared) > 1:
        printed_mean = float(np.mean([cell.printed for cell in compared]))
        ours = float(np.mean([cell.value for cell in compared]))
        error = float(np.sqrt(np.sum([cell.error**2 for cell in compared])) / len(compared))
        cells.append(PaperNumber(row, "average", printed_mean, ours, error, digits=3))
    return cells


def _means_over_strategies(cells: Sequence[PaperNumber]) -> list[PaperNumber]:
    """Return the mean Psi of each data set beside that of print."""
    means = []
    for name in dict.fromkeys(cell.column for cell in cells):
        of_data = [cell for cell in cells if cell.column == name]
        printed_mean = float(np.mean([cell.printed for cell in of_data]))
        ours, error = (float(np.mean([getattr(c, part) for c in of_data])) for part in ("value", "error"))
        means.append(PaperNumber("mean over strategies", name, printed_mean, ours, error, digits=3))
    return means


def _findings(name: str, agreement: Agreement, cells: Sequence[PaperNumber]) -> list[str]:
    """Return sentences on one data set."""
    notes = []
    rows = [f"{group} {sampler}" for group, sampler in STRATEGIES]  # in the order of the scores
    lost = [row for row, score in zip(rows, agreement.scores, strict=True) if score.psi is None]
    if lost:
        notes.append(f"{name}: no tau exists for {', '.join(lost)}.")
    if len(cells) > 1:
        ours = np.array([cell.value for cell in cells])
        theirs = np.array([cell.printed for cell in cells], dtype=np.float64)
        intervals = {row: (score.low, score.high) for row, score in zip(rows, agreement.scores, strict=True)}
        inside = sum(_holds(*intervals[cell.row], cell.printed) for cell in cells)
        best, worst = (cells[int(index)].row for index in (ours.argmax(), ours.argmin()))
        notes.append(
            f"{name}: mean Psi {ours.mean():.3f} (printed {theirs.mean():.3f}), best {best}, worst {worst}; "
            f"{inside} of {len(cells)} printed numbers lie in our intervals; Kendall's tau between our order "
            f"of the strategies and the printed one is {float(kendall(ours, theirs)):+.2f}."
        )
        psi = psi_without(agreement, NEED_HISTORY)
        kept = np.array([psi[rows.index(cell.row)] for cell in cells])
        notes.append(
            f"{name}: without {' and '.join(NEED_HISTORY)}, which rank at random for users whose "
            f"train events are all gone, mean Psi is {kept.mean():.3f}, and Kendall's tau with the printed "
            f"order {float(kendall(kept, theirs)):+.2f}."
        )
    whole = [cell for cell in agreement.cells if not cell.metric]
    pairs = sum(board.n_pairs for board in agreement.boards)
    certain = sum(board.n_certain for board in agreement.boards)
    ceilings = [board.ceiling for board in agreement.boards if board.ceiling is not None]
    ceiling = f"; the full data under other seeds reach {np.mean(ceilings):.3f}" if ceilings else ""
    notes.append(
        f"{name}: {certain} of {pairs} pairs of models are certain on the full data{ceiling}; "
        f"{sum(cell.n_missing for cell in whole)} taus do not exist; {len(agreement.problems)} models could "
        "not be fitted to a sub-sample."
    )
    notes.append(agreement.answer)
    return notes


def psi_without(agreement: Agreement, models: Sequence[str]) -> FloatArray:
    """Return Psi of each strategy when some models do not take part."""
    taus = []
    for board in agreement.boards:
        kept = [index for index, model in enumerate(board.models) if model not in models]
        full, small = (np.array(values, dtype=np.float64)[..., kept] for values in (board.full, board.small))
        taus.append(kendall(full, small))
    return mean_ignoring_nan(np.array(taus), axis=(0, 2, 3))


def _holds(low: float | None, high: float | None, value: float | None) -> bool:
    return low is not None and high is not None and value is not None and low <= value <= high


def _search(settings: Settings) -> str:
    if settings.full:
        return "The paper's search over hyper-parameters, chosen on validation events for each metric."
    return (
        f"Search {REDUCED}: one configuration of each model instead of the paper's up to 45, short training, "
        "and histories of at most 20 items; the paper's with --full."
    )
