"""Li et al. (2023), Towards Reliable Item Sampling for Recommendation Evaluation: tables and figures.

The tables give relative errors of the estimators over repeated samples (fixed sizes n = 100, 500 or 1000, and
adaptive samples), and how often each estimator names the best of five models. The fits of the models are
ours. ``estimators`` is an experiment of this library: every estimator on every data set that is on this
machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from truerank.core.types import FloatArray
from truerank.estimation.registry import ESTIMATORS as REGISTRY
from truerank.estimation.tally import tally
from truerank.papers.figure import make_axes, plot_lines
from truerank.papers.li2023_models import MODELS, MORE, SETUPS, fraction_of_users
from truerank.papers.outcome import PaperNumber, RecipeOutcome
from truerank.papers.recipe import Settings, printed
from truerank.ranking.adaptive_cost import choose_ceiling, cost_curve
from truerank.ranking.sampled import sample_ranks
from truerank.workflows.study import AVERAGED, Study, study

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
_NOTE = "The errors depend on the fits of the models, which are ours: compare sizes and order, not digits."
_REASON = "the fits of the models are ours, and of pinterest-20 two thirds of the users are at hand"
#: end of the columns with what the users at hand give, where the paper has more
AT_HAND = ", users at hand"
FAMILIES = {"RECALL": "recall", "NDCG": "ndcg", "AP": "ap"}


def paper_sampler(n: int) -> str:
    """Return the sampler of the paper, whose n counts the target."""
    return f"uniform(m={n - 1}, replace=true)"


def run_study(
    settings: Settings,
    dataset: str,
    sampler: str,
    estimators: Sequence[str],
    more: Mapping[str, str] | None = None,
    *,
    only: Sequence[str] = (),
    posterior: bool = False,
) -> Study:
    """Return the errors of estimators on one data set by the paper's protocol.

    Items seen in training stay in the pool, negatives are drawn with replacement among all items but the
    target, and all models share them. ``more`` adds models to the paper's five, ``only`` names those that are
    kept; ``posterior`` asks it too.
    """
    setup = SETUPS[dataset]
    models = {**setup.models, **(more or {})}
    setup = replace(setup, models={name: models[name] for name in only or models})
    store = settings.store
    return study(
        setup.fitted(store, settings.seed, quick=settings.quick, without=settings.without),
        store.split(setup.dataset, setup.split),
        sampler,
        list(estimators),
        families=",".join(FAMILIES.values()),
        repeats=settings.repeated(REPEATS, quick=FEW),
        prior_mode="both",
        posterior=posterior,
        seen="keep",
        seed=settings.seed,
        store=store,
        progress=settings.progress,
    )


@dataclass(frozen=True)
class _Errors:
    """Relative errors of one data set and sampler, by (model, column).

    Parameters
    ----------
    measured : with the users at hand
    columns : the paper's name of an estimator to its name in the study
    fraction : users at hand over those of the paper
    """

    measured: Study
    columns: dict[str, str]
    fraction: float

    @cached_property
    def expected(self) -> Study:
        """What to expect with all users of the paper."""
        return with_more_users(self.measured, self.fraction)

    def cell(self, model: str, column: str, family: str, *, measured: bool = False) -> tuple[float, float]:
        """Return mean and standard deviation over repeats, in percent, with all users or those at hand."""
        mean, spread = (self.measured if measured else self.expected).errors()
        index = (
            self.measured.estimators.index(self.columns[column]),
            self.measured.models.index(model),
            self.measured.families.index(family),
        )
        return float(mean[index]), float(spread[index])

    def winners(self, column: str, family: str, cutoff: int, *, measured: bool = False) -> float:
        """Return how often the best model is named, in percent of the repeats."""
        found = self.measured if measured else self.expected
        count = found.winners(family, cutoff)[found.estimators.index(self.columns[column])]
        return 100 * float(count) / found.n_repeats


def with_more_users(found: Study, fraction: float) -> Study:
    """Return the study as it would be with 1 / ``fraction`` as many users of the same kind.

    The noise of an estimate falls as the root of the number of users, its bias does not: the estimates of the
    repeats come nearer to their mean, which stays.
    """
    mean = found.runs.mean(axis=2, keepdims=True)
    return replace(found, runs=mean + np.sqrt(fraction) * (found.runs - mean))


def _fixed(settings: Settings, dataset: str, n: int, *, posterior: bool = False) -> _Errors:
    return _errors(settings, dataset, paper_sampler(n), ESTIMATORS, posterior)


def _adaptive(settings: Settings, dataset: str, *, posterior: bool = False) -> _Errors:
    return _errors(settings, dataset, ADAPTIVE, ADAPTIVE_ESTIMATORS, posterior)


def _errors(
    settings: Settings, dataset: str, sampler: str, columns: Mapping[str, tuple[str, bool]], posterior: bool
) -> _Errors:
    specs = [spec for spec, _ in columns.values()]
    results = run_study(settings, dataset, sampler, specs, posterior=posterior)
    labels = {name: _label(spec, is_averaged) for name, (spec, is_averaged) in columns.items()}
    return _Errors(results, labels, fraction_of_users(settings, dataset)[0])


def _label(spec: str, is_averaged: bool) -> str:
    name = str(REGISTRY.make(spec))
    return f"{name}, {AVERAGED}" if is_averaged else name


def table1(settings: Settings) -> RecipeOutcome:
    """Recall errors at n = 100."""
    return _fixed_table(settings, "table1", "recall", 100)


def table6(settings: Settings) -> RecipeOutcome:
    """Recall errors at n = 100, all data sets."""
    return _fixed_table(settings, "table6", "recall", 100)


def table9(settings: Settings) -> RecipeOutcome:
    """AP errors at n = 100."""
    return _fixed_table(settings, "table9", "ap", 100)


def table10(settings: Settings) -> RecipeOutcome:
    """NDCG errors at n = 500."""
    return _fixed_table(settings, "table10", "ndcg", 500)


def table2(settings: Settings) -> RecipeOutcome:
    """NDCG errors of fixed and adaptive samples."""
    return _adaptive_table(settings, "table2", "ndcg")


def table7(settings: Settings) -> RecipeOutcome:
    """NDCG errors of fixed and adaptive samples, all data sets."""
    return _adaptive_table(settings, "table7", "ndcg")


def table11(settings: Settings) -> RecipeOutcome:
    """Recall errors of fixed and adaptive samples."""
    return _adaptive_table(settings, "table11", "recall")


def table3(settings: Settings) -> RecipeOutcome:
    """How often the best model is named."""
    return _winner_table(settings, "table3")


def table8(settings: Settings) -> RecipeOutcome:
    """How often the best model is named, all data sets."""
    return _winner_table(settings, "table8")


def _fixed_table(settings: Settings, table: str, family: str, n: int) -> RecipeOutcome:
    cells, notes, without = [], [_NOTE], list[str]()
    for dataset, rows in _by_dataset(settings, table, notes, without):
        errors = _fixed(settings, dataset, n)
        for row in rows:
            for column, value in row["values"].items():
                cells += _error_cells(errors, dataset, row["model"], column, family, value)
        notes.append(_agreement(cells, dataset))
    return _outcome(settings, cells, notes, without)


def _adaptive_table(settings: Settings, table: str, family: str) -> RecipeOutcome:
    cells, notes, without = [], [_NOTE], list[str]()
    for dataset, rows in _by_dataset(settings, table, notes, without):
        fixed, adaptive = _fixed(settings, dataset, SAMPLES[dataset]), _adaptive(settings, dataset)
        better = 0
        for row in rows:
            model = row["model"]
            for column, value in row["values"].items():
                if column == "average_size":
                    size = float(adaptive.measured.items_per_user[adaptive.measured.models.index(model)])
                    cells.append(_cell(dataset, model, column, value["mean"], size, value["sd"]))
                else:
                    source = adaptive if column in ADAPTIVE_ESTIMATORS else fixed
                    cells += _error_cells(source, dataset, model, column, family, value)
            best = min(fixed.cell(model, column, family)[0] for column in ESTIMATORS)
            better += adaptive.cell(model, "adaptive_MLE", family)[0] < best
        notes.append(
            f"{dataset}: adaptive samples beat the best fixed estimator at n = {SAMPLES[dataset]} for "
            f"{better} of {len(rows)} models (printed: all), at "
            f"{adaptive.measured.items_per_user.mean():.0f} items per user."
        )
    return _outcome(settings, cells, notes, without)


def _winner_table(settings: Settings, table: str) -> RecipeOutcome:
    cells, notes, without = [], [_NOTE], list[str]()
    for dataset, rows in _by_dataset(settings, table, notes, without):
        fixed = _fixed(settings, dataset, SAMPLES[dataset], posterior=True)
        adaptive = _adaptive(settings, dataset, posterior=True)
        for row in rows:
            family, cutoff = FAMILIES[row["metric"]], int(row["top_k"])
            where = f"{dataset} {row['metric']}@{cutoff}"
            for column, value in row["values"].items():
                source = adaptive if column in ADAPTIVE_ESTIMATORS else fixed
                repeats = source.measured.n_repeats
                variance = max(value / 100 * (1 - value / 100), 0.0025)
                error = 100 * float(np.sqrt(variance * (1 / REPEATS + 1 / repeats)))
                counts = {
                    is_raw: source.winners(column, family, cutoff, measured=is_raw)
                    for is_raw in (False, True)
                }
                cells.append(PaperNumber(where, column, value, counts[False], error, digits=0))
                if source.fraction < 1:
                    cells.append(PaperNumber(where, f"{column}{AT_HAND}", None, counts[True], digits=0))
            cells += _posterior_cells(where, family, cutoff, {"": fixed, "adaptive ": adaptive})
        for family in FAMILIES.values():
            exact = fixed.measured.exact[:, fixed.measured.families.index(family)]
            at = exact[:, fixed.measured.cutoffs.index(10)]
            named = [f"{fixed.measured.models[i]} {at[i]:.4f}" for i in np.argsort(-at)[:2]]
            notes.append(f"{dataset} {family}@10: {' before '.join(named)}")
    return _outcome(settings, cells, notes, without)


def _posterior_cells(
    where: str, family: str, cutoff: int, sources: Mapping[str, _Errors]
) -> list[PaperNumber]:
    """Return how often the posterior names the best model, names another or none, in percent."""
    cells = []
    for prefix, source in sources.items():
        if source.measured.named is not None:
            best = source.measured.posterior_winners(family, cutoff)
            shares = {"right": best.right, "wrong": best.wrong, "open": best.open}
            cells += [
                PaperNumber(
                    where,
                    f"{prefix}posterior, {name}",
                    None,
                    100 * count / source.measured.n_repeats,
                    digits=0,
                )
                for name, count in shares.items()
            ]
    return cells


def _outcome(
    settings: Settings, cells: list[PaperNumber], notes: list[str], without: list[str]
) -> RecipeOutcome:
    return RecipeOutcome(
        tuple(cells),
        notes=tuple(notes),
        reason=_REASON,
        without=tuple(without),
        repeats=settings.repeated(REPEATS, quick=FEW),
    )


def _by_dataset(
    settings: Settings, table: str, notes: list[str], without: list[str]
) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield data sets at hand with the rows of the table that can be run.

    What is left out is appended to ``without``, and to ``notes`` how a part of the users is made up for.
    """
    rows = printed("l23", table)
    for dataset in dict.fromkeys(row["dataset"] for row in rows):
        of_dataset, setup = [row for row in rows if row["dataset"] == dataset], SETUPS[dataset]
        if not setup.is_available:
            without.append(f"{dataset}: data not at hand; its {len(of_dataset)} rows run once it is")
            continue
        missing = {
            name: setup.missing(name, quick=settings.quick, without=settings.without) for name in MODELS
        }
        without += [f"{dataset} {name}: {why}" for name, why in missing.items() if why]
        fraction, n_users = fraction_of_users(settings, dataset)
        if fraction < 1:
            notes.append(
                f"{dataset}: {round(fraction * n_users):,} of {n_users:,} users are at hand. The noise of "
                f"the estimates is multiplied by {np.sqrt(fraction):.3f}, the root of their fraction, their "
                f"bias stays; columns that end in '{AT_HAND.strip(', ')}' show what was measured."
            )
        yield dataset, [row for row in of_dataset if not missing.get(row.get("model", ""))]


def _error_cells(
    errors: _Errors, dataset: str, model: str, column: str, family: str, value: dict[str, float]
) -> list[PaperNumber]:
    """Return the error with all users beside the printed one, and as measured where some are missing."""
    repeats = errors.measured.n_repeats
    mean, spread = errors.cell(model, column, family)
    error = float(np.hypot(value["sd"] / np.sqrt(REPEATS), spread / np.sqrt(repeats)))
    cells = [_cell(dataset, model, column, value["mean"], mean, error)]
    if errors.fraction < 1:
        mean, spread = errors.cell(model, column, family, measured=True)
        cells.append(
            _cell(dataset, model, f"{column}{AT_HAND}", None, mean, float(spread / np.sqrt(repeats)))
        )
    return cells


def _cell(
    dataset: str, model: str, column: str, value: float | None, ours: float, error: float
) -> PaperNumber:
    return PaperNumber(f"{dataset} {model}", column, value, ours, error)


def _agreement(cells: Sequence[PaperNumber], dataset: str) -> str:
    """Return a sentence on whether the estimators have the printed order, which depends less on the fits."""
    rows: dict[str, list[PaperNumber]] = {}
    for cell in cells:
        if cell.row.startswith(f"{dataset} ") and cell.printed is not None:
            rows.setdefault(cell.row, []).append(cell)
    correlations = []
    for row in rows.values():
        ours: FloatArray = np.array([cell.value for cell in row])
        theirs: FloatArray = np.array([cell.printed for cell in row], dtype=float)
        correlations.append(float(np.corrcoef(_ranked(ours), _ranked(theirs))[0, 1]))
    shown = ", ".join(f"{value:+.2f}" for value in correlations)
    return f"{dataset}: rank correlation of the estimators' errors with the printed ones, by model: {shown}"


def _ranked(values: FloatArray) -> FloatArray:
    return np.argsort(np.argsort(values)).astype(np.float64)


#: data sets used instead of those of the paper's figures, which are not available
FIGURE1, FIGURE2 = "ml-1m", "pinterest-20"
ALL = ("ml-1m", "citeulike-a", "pinterest-20")


def figure1(settings: Settings) -> RecipeOutcome:
    """Plot the sampled ranks of EASE at n = 100, and the error of MLE against K."""
    setup, store = SETUPS[FIGURE1], settings.store
    model = setup.fitted(store, settings.seed)["EASE"]
    parts = store.split(setup.dataset, setup.split)
    scorer = model.fit(parts.train)
    sampled = sample_ranks(scorer, parts, paper_sampler(100), seen="keep", seed=settings.seed).ranks
    counts = tally(sampled).counts(0)
    results = run_study(settings, FIGURE1, paper_sampler(100), ["mle"])
    index = results.models.index("EASE")
    recall = results.families.index("recall")
    exact, runs = results.exact[index, recall], results.runs[0, index, :, recall]
    error = 100 * np.abs(runs / np.where(exact > 0, exact, np.nan) - 1)
    figure, (left, right) = make_axes(1, 2)
    plot_lines(
        left,
        np.arange(1, 101),
        {"users": counts},
        title="Sampled ranks, n = 100",
        labels=("sampled rank r", "users"),
        legend=False,
    )
    left.set_yscale("log")
    left.plot([1], [counts[0]], "o", color="#c4500c")
    plot_lines(
        right,
        np.array(results.cutoffs),
        {"mean": np.nanmean(error, axis=0), "90 % of samples": np.nanquantile(error, 0.9, axis=0)},
        title="Error of mle for Recall@K, percent",
        labels=("K", "relative error in percent"),
    )
    mean = np.nanmean(error, axis=0)
    return RecipeOutcome(
        figures={"l23.figure1": figure},
        without=("drawn for ml-1m: the paper's ml-20m is not at hand",),
        repeats=results.n_repeats,
        notes=(
            f"{counts[0] / counts.sum():.0%} of the users have r = 1; the error is {mean[0]:.0f} % at K = 1, "
            f"{mean[9]:.0f} % at 10 and {mean[-1]:.0f} % at 50 (in the paper it grows as K falls to 1).",
        ),
    )


def figure2(settings: Settings) -> RecipeOutcome:
    """Plot the scores computed per settled target against the size of adaptive samples."""
    setup, store = SETUPS[FIGURE2], settings.store
    model = setup.fitted(store, settings.seed)["EASE"]
    parts = store.split(setup.dataset, setup.split)
    n_items = parts.train.n_items
    largest = 100 * 2 ** int(np.log2(n_items / 100))
    sampler = f"adaptive(start=100, max={largest}, replace=true)"
    curve = cost_curve(
        sample_ranks(
            model.fit(parts.train),
            parts,
            sampler,
            seen="keep",
            seed=settings.seed,
            progress=settings.progress,
        ).ranks
    )
    ceiling = choose_ceiling(curve)
    fraction = curve.sizes / n_items
    figure, (axes,) = make_axes(1, 1, width=5.2)
    plot_lines(
        axes,
        100 * fraction[:-1],
        {"C": curve.cost[:-1]},
        title="Scores per settled target",
        labels=("size in percent of the items", "C"),
        legend=False,
    )
    axes.plot(100 * fraction[:-1], curve.cost[:-1], "o", color="#0b57b0")
    axes.axvline(100 * ceiling / n_items, color="#c4500c", linestyle="--", linewidth=1)
    return RecipeOutcome(
        figures={"l23.figure2": figure},
        without=("drawn for a part of pinterest-20: the paper's yelp is not at hand",),
        notes=(
            f"The knee is at {ceiling} of {n_items:,} items, {ceiling / n_items:.1%} (12.4 % in the paper).",
        ),
    )


#: weights of the entropy and of the squares that MES is measured with
ETAS = (
    *(f"mes(eta={eta})" for eta in (0.0003, 0.001, 0.003, 0.01, 0.03)),
    *(f"mes(eta={eta}, weight=shares)" for eta in (0.001, 0.01)),
)


def etas(settings: Settings) -> RecipeOutcome:
    """Compute the errors of MES for EASE on pinterest-20 at n = 100 under several weights."""
    results = run_study(settings, FIGURE2, paper_sampler(100), ETAS, only=("EASE",))
    errors = _Errors(results, {name: name for name in ETAS}, fraction_of_users(settings, FIGURE2)[0])
    cells: list[PaperNumber] = []
    for family, table in (("recall", "table1"), ("ndcg", ""), ("ap", "table9")):
        rows = [row for row in printed("l23", table) if row["dataset"] == FIGURE2] if table else []
        value = next((row["values"]["MES"] for row in rows if row["model"] == "EASE"), None)
        for name in ETAS:
            for is_raw in (False, True):
                mean, spread = errors.cell("EASE", name, family, measured=is_raw)
                error = spread / np.sqrt(results.n_repeats)
                theirs = None if value is None or is_raw else value["mean"]
                if value is not None and not is_raw:
                    error = np.hypot(error, value["sd"] / np.sqrt(REPEATS))
                column = f"{family}{AT_HAND}" if is_raw else family
                cells.append(PaperNumber(name, column, theirs, mean, float(error)))
    chi_square = {
        name: sum(cell.z**2 for cell in cells if cell.row == name and cell.z is not None) for name in ETAS
    }
    nearest = sorted(chi_square, key=chi_square.__getitem__)
    shown = ", ".join(f"{name} {chi_square[name]:.1f}" for name in nearest)
    return RecipeOutcome(
        tuple(cells),
        notes=(
            "Which eta and weights made the printed tables is not known: the text gives eta = 0.001.",
            f"Chi-square of the two printed cells by setting, the nearest first: {shown}.",
        ),
        reason="print can have at most one of these seven settings, and the fit of EASE is ours",
        repeats=results.n_repeats,
    )


def estimators(settings: Settings) -> RecipeOutcome:
    """Compute the errors of every estimator on the available data, with n = 100, 500 and adaptive samples."""
    cells: list[PaperNumber] = []
    notes: list[str] = []
    without: list[str] = []
    fixed = [*(spec for spec, _ in ESTIMATORS.values()), *OURS]
    adaptive = ["mle(iterations=50)", "mle", "bv(gamma=0.01)", "mn(prior=mle(iterations=50))", "smooth"]
    for dataset in ALL:
        if not SETUPS[dataset].is_available:
            without.append(f"{dataset}: data not at hand")
            continue
        setup = replace(SETUPS[dataset], models={**SETUPS[dataset].models, **MORE})
        for name in setup.models:
            if why := setup.missing(name, quick=settings.quick, without=settings.without):
                without.append(f"{dataset} {name}: {why}")
        studies = {
            "n=100": run_study(settings, dataset, paper_sampler(100), fixed, MORE),
            "n=500": run_study(settings, dataset, paper_sampler(500), fixed, MORE),
            "adaptive": run_study(settings, dataset, ADAPTIVE, adaptive, MORE),
        }
        for name, results in studies.items():
            cells += _cells(dataset, name, results)
        notes += _comparisons(dataset, studies)
    repeats = settings.repeated(REPEATS, quick=FEW)
    return RecipeOutcome(tuple(cells), notes=tuple(notes), without=tuple(without), repeats=repeats)


def _cells(dataset: str, design: str, results: Study) -> list[PaperNumber]:
    mean, spread = results.errors()
    cells = []
    for m, model in enumerate(results.models):
        for f, family in enumerate(results.families):
            row = f"{dataset} {model} {family} {design}"
            cells += [
                PaperNumber(
                    row, name, None, float(mean[e, m, f]), float(spread[e, m, f]) / np.sqrt(results.n_repeats)
                )
                for e, name in enumerate(results.estimators)
            ]
        cells.append(
            PaperNumber(
                f"{dataset} {model} {design}", "items", None, float(results.items_per_user[m]), digits=1
            )
        )
    return cells


def _comparisons(dataset: str, studies: dict[str, Study]) -> list[str]:
    """Return sentences on adaptive against fixed samples, and on smooth against EM."""
    adaptive, large = studies["adaptive"], studies["n=500"]
    budget = f"at {adaptive.items_per_user.mean():.0f} items per user"
    published = [str(REGISTRY.make(spec)) for spec, _ in ESTIMATORS.values()]
    pairs = (
        ("mle(iterations=50)", "the best of the paper's seven", published),
        ("smooth", "the best of all, smooth among them,", list(large.estimators)),
    )
    notes = []
    for name, rivals, allowed in pairs:
        errors = adaptive.errors()[0][adaptive.estimators.index(name)]
        best = _best(large, allowed)
        notes.append(
            f"{dataset}: adaptive {name} beats {rivals} at n = 500 (priors per run) in "
            f"{int((errors < best).sum())} of {errors.size} rows, {budget}; mean error {errors.mean():.2f} "
            f"against {best.mean():.2f} %."
        )
    for design in ("n=100", "n=500", "adaptive"):
        results = studies[design]
        mean, _ = results.errors()
        smooth, em = (mean[results.estimators.index(spec)] for spec in ("smooth", "mle"))
        notes.append(
            f"{dataset} {design}: smooth beats mle in {int((smooth < em).sum())} of {em.size} rows; mean "
            f"error {smooth.mean():.2f} against {em.mean():.2f} %."
        )
    return notes


def _best(results: Study, allowed: list[str]) -> FloatArray:
    """Return the smallest error over some estimators whose prior is fixed or comes from the sample itself."""
    kept = [e for e, name in enumerate(results.estimators) if name in allowed and not name.endswith(AVERAGED)]
    best: FloatArray = results.errors()[0][kept].min(axis=0)
    return best
