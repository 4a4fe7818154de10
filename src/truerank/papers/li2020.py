"""Li et al. (2020), On Sampling Top-K Recommendation Evaluation: the tables, and what the figures share.

The paper maps the cut-off k of a sampled list to a cut-off K = f(k) of the whole catalogue, so that the
sampled hit ratio SHR@k is close to the hit ratio HR@f(k). Here are its data sets, models and sampling
schemes, the curves of both hit ratios over repeated samples, and the tables computed from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from truerank.core.interactions import Interactions
from truerank.core.progress import tracked
from truerank.core.random import stream
from truerank.core.ranks import Ranks, SampledRanks, SeenPolicy
from truerank.core.split import Split
from truerank.core.types import FloatArray
from truerank.data.catalogue import load
from truerank.data.clean import k_core, min_history
from truerank.estimation.mapping.functions import (
    MAPPINGS,
    SampledRankCounts,
    fit_by_iteration,
    fit_by_likelihood,
)
from truerank.estimation.tally import tally
from truerank.models.registry import MODELS
from truerank.papers.mapping_errors import global_at_sampled, mapping_error, sampled_hit_ratios
from truerank.papers.outcome import PaperNumber, RecipeOutcome
from truerank.papers.recipe import Settings, printed
from truerank.papers.store import DatasetSetup
from truerank.ranking.exact import exact_ranks
from truerank.ranking.simulate import simulate_sample
from truerank.split.base import make_split

#: the paper draws one sample per model; repetitions separate sampling error from real differences
REPEATS = 20
NEURAL = {"NeuMF": "neumf", "MultiVAE": "multi-vae", "NGCF": "ngcf"}
#: the paper gives no hyper-parameters: those of the authors' next paper, and on ml-1m the nearest fit
SETUPS = {
    "ml-1m": DatasetSetup(
        "ml-1m",
        "column(name=ncf_split)",
        {
            **NEURAL,
            "EASE": "ease(reg=1250)",
            "itemKNN": "l23-knn(neighbours=150)",
            "ALS": "ials(factors=64)",
        },
        slow=("NeuMF", "NGCF"),
    ),
    "yelp": DatasetSetup(
        "yelp",
        "leave-one-out",
        {
            **NEURAL,
            "EASE": "ease(reg=500)",
            "itemKNN": "l23-knn(neighbours=350)",
            "ALS": "ials(factors=75, reg=0.01, alpha=1)",
        },
        slow=tuple(NEURAL),
    ),
    "pinterest-20": DatasetSetup(
        "pinterest-20",
        "column(name=ncf_test, train=false, test=true)",
        {
            **NEURAL,
            "MultiVAE": "multi-vae(epochs=6)",
            "NeuMF": "neumf(epochs=2)",
            "EASE": "ease(reg=1500)",
            "itemKNN": "l23-knn(neighbours=1250)",
            "ALS": "ials(factors=45, reg=0.01, alpha=1)",
        },
        slow=tuple(NEURAL),
    ),
    "citeulike": DatasetSetup(
        "citeulike-a",
        "leave-one-out",
        {
            **NEURAL,
            "EASE": "ease(reg=500)",
            "itemKNN": "l23-knn(neighbours=350)",
            "ALS": "ials(factors=64)",
        },
        slow=tuple(NEURAL),
    ),
}
FUNCTIONS = {
    "Linear": "linear",
    "Bound": "bound",
    "Beta@1": "beta(a=1)",
    "Beta@0.5": "beta(a=0.5)",
    "Beta@0.2": "beta(a=0.2)",
}
#: why numbers differ by more than sampling error
FITS = "the fits are ours, as the paper gives no hyper-parameters"
#: largest change of hit ratios and exponents of EASE on ml-1m as its regularisation goes from 200 to 1500
SPREAD_HIT, SPREAD_EXPONENT = 0.05, 0.03
#: book-X: books with two events, then users with ten; this gives the printed 786,690 events, 11,325 users
#: and 139,331 books
BOOKS = DatasetSetup(
    "book-crossing",
    "leave-one-out",
    {"ALS": "ials(factors=64)", "NeuMF": NEURAL["NeuMF"]},
    slow=("NeuMF",),
)
BOOK_ITEM, BOOK_USER = 2, 10
#: users whose 139,331 items a network ranks, for the time it takes; all for other models
BOOK_USERS = {"NeuMF": 1_000}


@dataclass(frozen=True)
class Scheme:
    """How negatives are sampled, and whether items that the user has seen stay in the pool."""

    seen: SeenPolicy
    replacement: bool


#: under ``actual`` seen items rank last and are not sampled, so removing them gives the same ranks
SCHEMES = {
    "binom": Scheme("keep", True),
    "hyper": Scheme("keep", False),
    "actual": Scheme("remove", False),
}


def why_missing(setup: DatasetSetup, model: str, settings: Settings) -> str:
    """Return why a model cannot be run on a data set here, '' if it can."""
    name = setup.models[model].partition("(")[0]
    if setup.is_available and name not in MODELS.names():
        return f"model {name} is not there yet"
    return setup.missing(model, quick=settings.quick)


def fit_note(gap: float, spread: float) -> str:
    """Return the note on a gap that is no larger than the spread between fits of the model, else ''."""
    return "the paper gives no hyper-parameters, and fits differ as much" if abs(gap) <= spread else ""


def exact_ranks_of(settings: Settings, dataset: str, model: str, scheme: str) -> Ranks:
    """Return exact ranks, with seen items in the pool or without."""
    setup = SETUPS[dataset]
    return settings.store.ranks(
        setup.dataset,
        setup.split,
        setup.models[model],
        seen=SCHEMES[scheme].seen,
        seed=settings.seed,
        progress=settings.progress,
    )


def repeated_samples(
    settings: Settings, ranks: Ranks, scheme: str, n: int, label: str
) -> Iterator[SampledRanks]:
    """Yield repeated samples of n - 1 negatives."""
    repeats = settings.repeated(REPEATS)
    with tracked(settings.progress, f"{label}, n = {n}", repeats) as task:
        for repeat in range(repeats):
            yield simulate_sample(
                ranks,
                n - 1,
                replacement=SCHEMES[scheme].replacement,
                seed=settings.seed,
                repeat=repeat,
                label=f"l20/{label}/{scheme}",
            )
            task.advance()


@dataclass(frozen=True, eq=False)
class HitRatioCurves:
    """Global and sampled hit ratios of one model.

    Parameters
    ----------
    ranks : exact ranks
    n_items : N of the catalogue, which the paper puts into f whatever the pool
    sampled : (n_repeats, n) SHR@1 ... SHR@n of each sample
    """

    ranks: Ranks
    n_items: int
    sampled: FloatArray

    @property
    def n(self) -> int:
        """Items of the sampled list, the target included."""
        return int(self.sampled.shape[1])

    @property
    def mean(self) -> FloatArray:
        """SHR@k, mean over the samples."""
        return np.asarray(self.sampled.mean(axis=0))

    @property
    def error(self) -> FloatArray:
        """Standard error of the difference between that mean and one sample of the authors."""
        return single_error(self.sampled)

    def at(self, mapping: str, *, own_pool: bool = False) -> FloatArray:
        """Return HR@f(1) ... HR@f(n)."""
        n_items = None if own_pool else self.n_items
        return global_at_sampled(self.ranks, MAPPINGS.make(mapping), self.n, n_items=n_items)


def single_error(runs: FloatArray) -> FloatArray:
    """Return the standard error of the difference between the mean of the runs and one further run."""
    error: FloatArray = runs.std(axis=0, ddof=1) * np.sqrt(1 + 1 / len(runs))
    return error


def hit_ratio_curves(settings: Settings, dataset: str, model: str, scheme: str, n: int) -> HitRatioCurves:
    """Return the curves of a model on a data set."""
    ranks = exact_ranks_of(settings, dataset, model, scheme)
    samples = repeated_samples(settings, ranks, scheme, n, f"{dataset} {model}")
    sampled = np.array([sampled_hit_ratios(sample) for sample in samples])
    return HitRatioCurves(ranks, n_items_of(settings, dataset), sampled)


def n_items_of(settings: Settings, dataset: str) -> int:
    """Return N of a data set."""
    setup = SETUPS[dataset]
    return settings.store.split(setup.dataset, setup.split).train.n_items


def book_events() -> Interactions:
    """Return the book-X of the paper."""
    return min_history(k_core(load(BOOKS.dataset), user=1, item=BOOK_ITEM), BOOK_USER)


def book_split() -> Split:
    """Return book-X with one random test event per user."""
    return make_split(book_events(), BOOKS.split)


def book_ranks(settings: Settings, name: str) -> Ranks:
    """Return exact ranks on book-X, seen items in the pool, of all users or of a random sample of them."""
    model, n_users = MODELS.make(BOOKS.models[name]), BOOK_USERS.get(name)
    key = f"l20 book-X {BOOK_ITEM} {BOOK_USER} {model} users={n_users} seed={settings.seed}"
    names = [field.name for field in fields(Ranks)]

    def compute() -> dict[str, np.ndarray]:
        split = book_split()
        scorer = model.fit(split.train, seed=settings.seed, progress=settings.progress)
        if n_users is not None:
            chosen = stream(settings.seed, "l20/book-X").permutation(split.train.n_users)[:n_users]
            split = Split(
                split.train, split.test.where(np.isin(split.test.user, chosen)), method=split.method
            )
        exact = exact_ranks(scorer, split, seen="keep", progress=settings.progress)
        return {name: getattr(exact, name) for name in names}

    return Ranks(**settings.store.arrays(key, compute))


N = 100
_NOTE = "the paper draws one sample and prints one number; here means over samples and their error"
_PARTIAL = "pinterest-20: 37,501 of the 55,187 users are at hand"
_MEASURES = {
    "abs": "abs",
    "rel": "rel",
    "abs@1": "abs_at_1",
    "rel@1": "rel_at_1",
    "abs@2-10": "abs_to_10",
    "rel@2-10": "rel_to_10",
}
#: f takes the size of the user's own pool instead of that of the catalogue
_OWN = "Beta@0.5 (own pool)"
_FITTED = {"Beta@P": "beta-p", "Beta@P (likelihood)": "beta-p(method=likelihood)"}


def table2(settings: Settings) -> RecipeOutcome:
    """Fit the exponent of Beta ranks by Eq. 19, and by likelihood."""
    cells: list[PaperNumber] = []
    rows = {row["model"]: row["values"] for row in printed("l20", "table2")}
    notes, without = [_NOTE, _PARTIAL], list[str]()
    for dataset, model in _runnable(settings, list(SETUPS), list(rows), without):
        ranks = exact_ranks_of(settings, dataset, model, "binom")
        exponents = np.array(
            [
                [fit_by_iteration(histogram), fit_by_likelihood(histogram)]
                for sample in repeated_samples(settings, ranks, "binom", N, f"{dataset} {model}")
                for histogram in [SampledRankCounts.of(tally(sample))]
            ]
        )
        (by_iteration, by_likelihood), (error, _) = exponents.mean(axis=0), single_error(exponents)
        theirs = rows[model][dataset]
        note = fit_note(by_iteration - theirs, SPREAD_EXPONENT)
        cells.append(
            PaperNumber(model, dataset, theirs, float(by_iteration), float(error), digits=4, note=note)
        )
        cells.append(PaperNumber(model, f"{dataset} (likelihood)", None, float(by_likelihood), digits=4))
    notes.append("Eq. 19 gives too large an exponent by construction; the likelihood is consistent")
    return _outcome(settings, cells, notes, without)


def table3(settings: Settings) -> RecipeOutcome:
    """Compute hit ratios of the best models, and whether SHR names the model with the best HR."""
    shown = {"SHR": "", "Bound": FUNCTIONS["Bound"], "Beta@0.5": FUNCTIONS["Beta@0.5"]}
    rows = printed("l20", "readme-table3")
    models = [name for name in rows[0] if name not in ("dataset", "k")]
    notes = [_NOTE, _PARTIAL, "printed: the authors' README, of which Table 3 is the first three digits"]
    without: list[str] = []
    cells: list[PaperNumber] = []
    for dataset in SETUPS:
        curves_by_model = {
            model: hit_ratio_curves(settings, dataset, model, "actual", N)
            for _, model in _runnable(settings, [dataset], models, without)
        }
        for row in rows:
            if row["dataset"] == dataset:
                for model, curves in curves_by_model.items():
                    values = {name: curves.at(spec) for name, spec in shown.items() if spec}
                    cells += _curve_cells(f"{dataset} {model}", row["k"], row[model], curves, values)
        if len(curves_by_model) > 1:
            cells += _winners(
                dataset, [row["k"] for row in rows if row["dataset"] == dataset], curves_by_model, notes
            )
    return _outcome(settings, cells, notes, without)


def _winners(
    dataset: str, cutoffs: Sequence[int], curves_by_model: Mapping[str, HitRatioCurves], notes: list[str]
) -> list[PaperNumber]:
    """Return how often SHR@k names the model with the best HR@f(k), in percent of the samples."""
    sampled = np.array([curves.sampled for curves in curves_by_model.values()])
    cells = []
    for name in ("Bound", "Beta@0.5"):
        exact = np.array([curves.at(FUNCTIONS[name]) for curves in curves_by_model.values()])
        for k in cutoffs:
            best = int(exact[:, k - 1].argmax())
            runs = sampled[:, :, k - 1]
            named = 100 * float((runs.argmax(axis=0) == best).mean())
            # two models that are nearer to each other than samples are noisy are ordered by luck
            second = np.delete(exact[:, k - 1], best).max()
            noise = float(np.hypot(*np.sort(runs.std(axis=1, ddof=1))[-2:]))
            is_close = exact[best, k - 1] - second < 4 * noise
            note = "the two best are nearer to each other than samples are noisy" if is_close else ""
            cells.append(
                PaperNumber(f"{dataset} winner", f"SHR@{k} = {name}", 100.0, named, digits=0, note=note)
            )
    right = sum(cell.value == 100 for cell in cells)
    notes.append(
        f"{dataset}: SHR names the winner of HR@f in all samples for {right} of {len(cells)} k and f"
    )
    return cells


def table5(settings: Settings) -> RecipeOutcome:
    """Compute hit ratios under three sampling schemes at n = 100."""
    return _schemes(settings, "readme-table5", 100)


def table6(settings: Settings) -> RecipeOutcome:
    """Compute hit ratios under three sampling schemes at n = 1000."""
    return _schemes(settings, "readme-table6", 1000)


def _schemes(settings: Settings, table: str, n: int) -> RecipeOutcome:
    rows = printed("l20", table)
    notes, without = [_NOTE, "EASE: not printed"], list[str]()
    cells: list[PaperNumber] = []
    for dataset, model in _runnable(settings, ["ml-1m"], ["MultiVAE", "EASE"], without):
        for scheme in ("binom", "hyper", "actual"):
            curves = hit_ratio_curves(settings, dataset, model, scheme, n)
            names = [name for name in rows[0][scheme] if name != "SHR"]
            values = {name: curves.at(FUNCTIONS[name]) for name in names}
            if scheme == "actual":
                values[_OWN] = curves.at(FUNCTIONS["Beta@0.5"], own_pool=True)
                notes.append(f"{model} actual, {_overshoot(curves, values, n)}")
            for row in rows:
                theirs = row[scheme] if model == "MultiVAE" else {}
                cells += _curve_cells(f"{model} {scheme}", row["k"], theirs, curves, values)
    return _outcome(settings, cells, notes, without)


def _overshoot(curves: HitRatioCurves, values: Mapping[str, FloatArray], n: int) -> str:
    """Return how far HR@f(k) lies above SHR@k on average, from a tenth to half of the list."""
    part = slice(n // 10 - 1, n // 2)
    gaps = {name: float((values[name] - curves.mean)[part].mean()) for name in ("Beta@0.5", _OWN)}
    shown = ", ".join(f"{name} {gap:+.4f}" for name, gap in gaps.items())
    return f"HR@f(k) - SHR@k for k = {n // 10} to {n // 2}: {shown}"


def _curve_cells(
    row: str, k: int, theirs: Mapping[str, float], curves: HitRatioCurves, values: Mapping[str, FloatArray]
) -> list[PaperNumber]:
    """Return SHR@k and HR@f(k) next to the printed ones."""
    where, error = f"{row} k={k}", float(curves.error[k - 1])
    ours = {"SHR": float(curves.mean[k - 1]), **{name: float(line[k - 1]) for name, line in values.items()}}
    cells = []
    for name, value in ours.items():
        shown = theirs.get(name)
        note = "" if shown is None else fit_note(value - shown, SPREAD_HIT)
        cells.append(
            PaperNumber(where, name, shown, value, error if name == "SHR" else 0.0, digits=4, note=note)
        )
    return cells


def table7(settings: Settings) -> RecipeOutcome:
    """Compute the errors of the mapping functions."""
    rows: dict[str, dict[str, Any]] = {}
    for row in printed("l20", "readme-table7"):
        rows.setdefault(row["setting"], {})[row["function"]] = row["values"]
    notes = [_NOTE, "printed: the paper for MultiVAE and NeuMF, the authors' README for EASE and itemKNN"]
    without: list[str] = []
    cells: list[PaperNumber] = []
    for setting, functions in rows.items():
        model, _, dataset = setting.partition(":")
        for _ in _runnable(settings, [dataset], [model], without):
            errors = _mapping_errors(settings, dataset, model)
            for name, runs in errors.items():
                shown, error = functions.get(name, {}), single_error(runs)
                for column, measure in enumerate(_MEASURES):
                    value, theirs = float(runs[:, column].mean()), shown.get(measure)
                    note = "" if theirs is None else _size_note(value, theirs)
                    where = f"{setting} {name}"
                    cells.append(
                        PaperNumber(where, measure, theirs, value, float(error[column]), digits=4, note=note)
                    )
            notes.append(f"{setting}: abs error {_order(errors)}; printed {_printed_order(functions)}")
    return _outcome(settings, cells, notes, without)


def _mapping_errors(settings: Settings, dataset: str, model: str) -> dict[str, FloatArray]:
    """Return the six measures of each sample, (n_repeats, 6), by mapping function."""
    ranks, n_items = exact_ranks_of(settings, dataset, model, "binom"), n_items_of(settings, dataset)
    fixed = {
        name: global_at_sampled(ranks, MAPPINGS.make(spec), N, n_items=n_items)
        for name, spec in FUNCTIONS.items()
    }
    errors: dict[str, list[list[float]]] = {name: [] for name in (*fixed, *_FITTED)}
    for sample in repeated_samples(settings, ranks, "binom", N, f"{dataset} {model}"):
        counted, sampled = tally(sample), sampled_hit_ratios(sample)
        fitted = {
            name: global_at_sampled(ranks, MAPPINGS.make(spec).fit(counted), N, n_items=n_items)
            for name, spec in _FITTED.items()
        }
        for name, line in {**fixed, **fitted}.items():
            error = mapping_error(line, sampled)
            errors[name].append([getattr(error, measure) for measure in _MEASURES.values()])
    return {name: np.array(runs) for name, runs in errors.items()}


def _size_note(value: float, theirs: float) -> str:
    """Return a note where ours and theirs are within a factor of two, else ''."""
    is_alike = abs(value - theirs) <= 0.003 or theirs / 2 <= value <= 2 * theirs
    return "of the same size; the paper gives no hyper-parameters" if is_alike else ""


def _order(errors: Mapping[str, FloatArray]) -> str:
    return _sorted({name: float(runs[:, 0].mean()) for name, runs in errors.items()})


def _printed_order(functions: Mapping[str, Mapping[str, float]]) -> str:
    return _sorted({name: values["abs"] for name, values in functions.items()})


def _sorted(values: Mapping[str, float]) -> str:
    return " < ".join(f"{name} {value:.4f}" for name, value in sorted(values.items(), key=lambda x: x[1]))


def _outcome(
    settings: Settings, cells: list[PaperNumber], notes: list[str], without: list[str]
) -> RecipeOutcome:
    return RecipeOutcome(
        tuple(cells),
        notes=tuple(notes),
        reason=FITS,
        without=tuple(without),
        repeats=settings.repeated(REPEATS),
    )


def _runnable(
    settings: Settings, datasets: Sequence[str], models: Sequence[str], without: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield data sets and models that can be run here; append to ``without`` why the others cannot."""
    for dataset in datasets:
        if not SETUPS[dataset].is_available:
            without.append(f"{dataset}: data not at hand; {', '.join(models)} run once it is")
            continue
        for model in models:
            why = why_missing(SETUPS[dataset], model, settings)
            if why:
                without.append(f"{dataset} {model}: {why}")
            else:
                yield dataset, model
