"""Sachdeva et al. (2021), SVP-CF: Selection via Proxy for Collaborative Filtering Data: the tables.

Table 1 is Psi, the mean of Kendall's tau between the order of models on sub-samples and on the full data, for
sixteen strategies, under one of two protocols (``sachdeva2021_protocol``). Tables 2 to 4 are the scenarios,
the sizes of the data sets, and the arithmetic behind the printed CO2.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from statistics import NormalDist

import numpy as np

from truerank.core.digest import events_hash
from truerank.core.errors import InvalidData
from truerank.core.types import FloatArray
from truerank.data.catalogue import load
from truerank.data.clean import min_history
from truerank.papers.outcome import IndependentCells, PaperNumber, RecipeOutcome
from truerank.papers.recipe import Settings, printed
from truerank.papers.sachdeva2021_protocol import (
    ALGORITHMS,
    DATA,
    QUICK_SEARCH,
    SEEDS,
    STRATEGIES,
    PaperData,
    find_protocol,
    n_fits,
    plan_of,
)
from truerank.papers.store import QUICK, PaperStore
from truerank.workflows.agreement.experiment import AgreementExperiment
from truerank.workflows.agreement.order import kendall, mean_ignoring_nan
from truerank.workflows.agreement.plan import AgreementPlan
from truerank.workflows.agreement.result import Agreement
from truerank.workflows.agreement.scenarios import SCENARIOS as REGISTRY

#: protocol of a run that names none
DEFAULT = "ours"


def measure_agreement_on(settings: Settings, data: PaperData) -> Agreement:
    """Return the result of the experiment on one data set; finished parts and the result are stored.

    Where the store holds the result of the same plan by stacks of networks (``benchmarks/svp_cf``), it is
    taken.
    """
    protocol = find_protocol(settings.protocol or DEFAULT)
    plan, store = _plan(settings, data), settings.store
    events = data.events(protocol, settings.progress)
    key = key_of(plan, data, events_hash(events))
    if is_stacked(store, key):
        key = stacked(key)

    def run() -> dict[str, object]:
        folder = None if store.folder is None else store.folder / f"s21-{data.dataset}-{protocol.name}"
        experiment = AgreementExperiment(plan, events, folder=folder, workers=settings.workers)
        return experiment.run(settings.progress).to_dict()

    return Agreement.from_json(json.dumps(store.value(key, run)))


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
            f"a run that is not full needs the data set {name!r}, which is not at hand. Run it with --full."
        )
    agreements = {data.name: measure_agreement_on(settings, data) for data in DATA if not why[data.name]}
    return agreements, [f"{name}: {reason}" for name, reason in why.items() if reason]


def _plan(settings: Settings, data: PaperData) -> AgreementPlan:
    return plan_of(
        data,
        settings.protocol or DEFAULT,
        full=settings.full,
        quick=settings.quick,
        seeds=settings.repeated(SEEDS, quick=1),
        seed=settings.seed,
    )


def _missing(data: PaperData, settings: Settings) -> str:
    if not data.is_available:
        return f"data not at hand ({data.dataset}); it runs once it is"
    if settings.full or not data.is_slow:
        return ""
    if settings.quick:
        return QUICK
    protocol = find_protocol(settings.protocol or DEFAULT)
    key = key_of(_plan(settings, data), data, events_hash(data.events(protocol)))
    if is_stacked(settings.store, key):
        return ""
    fits = sum(n_fits(_plan(settings, data)))
    return f"no result by stacks of networks is stored; its {fits:,} fits run one by one with --full"


def stacked(key: str) -> str:
    """Return the key of the result that stacks of networks gave."""
    return f"{key} by stacks"


def is_stacked(store: PaperStore, key: str) -> bool:
    """Whether a store has the result of stacks of networks."""
    path = store.path_of(stacked(key), ".json")
    return path is not None and path.is_file()


def key_of(plan: AgreementPlan, data: PaperData, digest: str) -> str:
    """Return the key of the stored result: everything it depends on."""
    models = {
        str(scenario): [[str(model) for model in model_grid.configurations] for model_grid in listed]
        for scenario, listed in plan.model_grids.items()
    }
    strategies = [str(strategy) for strategy in plan.strategies.values()]
    parts = (plan.fractions, plan.seeds, plan.seed, plan.level, plan.resamples, plan.threshold)
    least = (plan.least_events, plan.least_users, plan.least_items)
    return f"s21 agreement {data.dataset} data={digest} {models} {strategies} {parts} {least}"


#: users with fewer events are left out, before repeated pairs are merged
LEAST_HISTORY = 3
#: speed-up of a development cycle by SVP-CF that the paper states
CLAIMED_SPEEDUP = 1.8
#: a column of Table 2 to the metric of a scenario
METRICS = {"MSE": "mse", "AUC": "auc", "Recall@k": "recall(norm=min)@100", "nDCG@k": "ndcg@10"}
_LIMITS = (
    "Nobody can reproduce the single numbers: print has one run, which varies as ours do; the published code "
    "draws its splits, weights and walks from generators whose states are not given; it searches up to 45 "
    "configurations, here six; it trains the towers of NeuMF first, which a search in full alone does here; "
    "and it computes AUC pooled over users with 100 negatives each, here per user over all items."
)
_UNITS = {"": 1.0, "k": 1e3, "M": 1e6}


def table1(settings: Settings) -> RecipeOutcome:
    """Compute Psi of the sixteen strategies beside print, under one of the two protocols."""
    agreements, without = measure_available(settings)
    cells: list[PaperNumber] = []
    for row in printed("s21", "table1"):
        cells += _psi_cells(agreements, row["group"], row["sampler"], row["values"])
    single = [cell for cell in cells if cell.z is not None and cell.column in agreements]
    cells += _means_over_strategies(single)
    cells += [
        PaperNumber("full data with themselves", name, None, floor, digits=3)
        for name, agreement in agreements.items()
        if (floor := noise_floor(agreement)) is not None
    ]
    compared = sum(cell.z is not None for cell in cells)
    seeds = settings.repeated(SEEDS, quick=1)
    notes = [_protocol_note(settings)]
    if seeds > 1:
        notes.append(
            "The error of a difference is that of one run against the mean of ours: the spread of Psi over "
            "seeds, pooled over strategies; print is one run."
        )
        notes += [
            f"{name}: sub-samples under one seed, so the spread is that over seeds of the full data alone, "
            "and the error is too small."
            for name, agreement in agreements.items()
            if n_seeds_of(agreement) == 1
        ]
    else:
        notes.append(
            "The error is that of test users alone: one seed, so the doubt of training is not in it."
        )
    notes.append(
        "Full data with themselves is the mean tau between trainings on the full data under two seeds: the "
        "floor of the noise, which a sub-sample reaches if it changes nothing but the random numbers. "
        "Averages and means over strategies count for nothing of their own in the joint test."
    )
    notes.append(_LIMITS)
    for name, agreement in agreements.items():
        notes += _findings(name, agreement, [cell for cell in single if cell.column == name])
    return RecipeOutcome(
        tuple(cells),
        notes=tuple(notes),
        without=tuple(without),
        repeats=seeds,
        independent=IndependentCells(compared, len(single), len(single)) if single else None,
    )


def psi_by_seed(agreement: Agreement) -> FloatArray:
    """Return Psi of each strategy under each seed, (strategies, seeds)."""
    taus = np.array([board.tau for board in agreement.boards], dtype=np.float64)
    return mean_ignoring_nan(taus, axis=(0, 2))


def psi_by_full_seed(agreement: Agreement) -> FloatArray:
    """Return Psi of each strategy, (strategies, seeds): the first seed against the full data under each."""
    taus = []
    for board in agreement.boards:
        full, small = (np.array(values, dtype=np.float64) for values in (board.full, board.small))
        taus.append(kendall(full, small[:, :, :1]))
    return mean_ignoring_nan(np.array(taus), axis=(0, 2))


def n_seeds_of(agreement: Agreement) -> int:
    """Return under how many seeds sub-samples were trained on."""
    return int(np.isfinite(psi_by_seed(agreement)).any(axis=0).sum())


def noise_floor(agreement: Agreement) -> float | None:
    """Return the mean tau of the full data with themselves under another seed; None with one seed."""
    floors = [board.ceiling for board in agreement.boards if board.ceiling is not None]
    return float(np.mean(floors)) if floors else None


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
    distinct = sum(sum(n_fits(plan_of(data, full=True, seeds=1))) for data in DATA)
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
        if score.psi is None:
            continue  # a note says that no tau exists
        compared.append(
            PaperNumber(row, name, values[name], score.psi, _error(agreement, strategy), digits=3)
        )
        cells.append(compared[-1])
        for part in ("low", "high", "certain"):
            value = getattr(score, part)
            if value is not None:
                cells.append(PaperNumber(row, f"{name} {part}", None, value, digits=3))
    if len(compared) > 1:
        printed_mean = float(np.mean([cell.printed for cell in compared]))
        ours = float(np.mean([cell.value for cell in compared]))
        error = float(np.sqrt(np.sum([cell.error**2 for cell in compared])) / len(compared))
        cells.append(PaperNumber(row, "average", printed_mean, ours, error, digits=3))
    return cells


def _error(agreement: Agreement, strategy: str) -> float:
    """Return the standard error of the difference to a single run, from seeds; with one seed from users."""
    n_seeds = n_seeds_of(agreement)
    by_seed = psi_by_seed(agreement) if n_seeds > 1 else psi_by_full_seed(agreement)
    if by_seed.shape[1] > 1:
        spread = np.nanmean(np.nanvar(by_seed, axis=1, ddof=1))
        return float(np.sqrt(spread * (1 + 1 / n_seeds)))
    score = agreement.score(strategy)
    if score.low is None or score.high is None:
        return 0.0
    return (score.high - score.low) / (2 * NormalDist().inv_cdf((1 + agreement.level) / 2))


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
        best, worst = (cells[int(index)].row for index in (ours.argmax(), ours.argmin()))
        by_scenario = {
            board.scenario.partition("(")[0]: [
                b.tau for b in agreement.boards if b.scenario == board.scenario
            ]
            for board in agreement.boards
        }
        means = {key: mean_ignoring_nan(np.array(taus, np.float64)) for key, taus in by_scenario.items()}
        shown = ", ".join(f"{key} {float(mean):.2f}" for key, mean in means.items())
        correlation, tau = float(np.corrcoef(ours, theirs)[0, 1]), float(kendall(ours, theirs))
        notes.append(
            f"{name}: mean Psi {ours.mean():.3f} (printed {theirs.mean():.3f}; {shown}), best {best}, worst "
            f"{worst}; Pearson's correlation of our sixteen Psi with the printed ones is "
            f"{correlation:+.2f}, Kendall's tau {tau:+.2f}."
        )
    whole = [cell for cell in agreement.cells if not cell.metric]
    pairs = sum(board.n_pairs for board in agreement.boards)
    certain = sum(board.n_certain for board in agreement.boards)
    ties = f"{certain} of {pairs} pairs of models are certain on the full data; " if certain else ""
    notes.append(
        f"{name}: {ties}{sum(cell.n_missing for cell in whole)} taus do not exist, "
        f"{sum(cell.n_skipped for cell in whole)} sub-samples were too small to count, and "
        f"{len(agreement.problems)} models could not be fitted to a sub-sample."
    )
    notes += [f"{name}: {sentence}" for sentence in agreement.provenance.get("remarks", [])]
    if agreement.answer:
        notes.append(agreement.answer)
    return notes


def _protocol_note(settings: Settings) -> str:
    name = settings.protocol or DEFAULT
    if settings.quick:
        return (
            f"Protocol {name}, search {QUICK_SEARCH}: one small configuration of each model, at most 20 "
            "epochs."
        )
    grid = (
        "The paper's search over widths, dropout and learning rates"
        if settings.full
        else "Search over the widths 8 and 32 and the learning rates 0.001, 0.006 and 0.02, NeuMF without "
        "pre-training"
    )
    if name == "published":
        return (
            f"Protocol published: {grid}, chosen on the test part by one metric per scenario (squared error, "
            "AUC, recall@100), anew for each sub-sample; sub-samples below 100 train events skipped (the "
            "code's 50 users and 50 items are those of all parts, which always have more); splits, masks, "
            "catalogue, known items and strategies as in the authors' code."
        )
    return (
        f"Protocol ours: {grid}, chosen on the validation part by one metric per scenario; every sub-sample "
        "counts."
    )
