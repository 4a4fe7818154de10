"""Li et al. (2020), On Sampling Top-K Recommendation Evaluation: the tables, and what the figures share.

The paper maps the cut-off k of a sampled list to a cut-off K = f(k) of the whole catalogue, so that the
sampled hit ratio SHR@k is close to the hit ratio HR@f(k). Here are its data sets, models and sampling
schemes, the curves of both hit ratios over repeated samples, and the tables computed from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from truerank.papers.outcome import PaperNumber, RecipeOutcome, independent_cells
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
#: why numbers differ by more than their errors
FITS = "the fits are ours, as the paper gives no hyper-parameters"
#: models that are fitted with several seeds, because their fits depend on a random start, and how many
SEEDS: Mapping[str, Mapping[str, int]] = {"ml-1m": {"MultiVAE": 3, "ALS": 3}}
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
    return setup.missing(model, quick=settings.quick, without=settings.without)


def settings_of_fits(settings: Settings, dataset: str, model: str) -> list[Settings]:
    """Return the settings of each fit: several seeds where a model has a random start, but in quick runs."""
    n_fits = 1 if settings.quick else SEEDS.get(dataset, {}).get(model, 1)
    return [replace(settings, seed=settings.seed + number) for number in range(n_fits)]


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
    sample : the last of the samples
    """

    ranks: Ranks
    n_items: int
    sampled: FloatArray
    sample: SampledRanks

    @property
    def n(self) -> int:
        """Items of the sampled list, the target included."""
        return int(self.sampled.shape[1])

    @property
    def mean(self) -> FloatArray:
        """SHR@k, mean over the samples."""
        return np.asarray(self.sampled.mean(axis=0))

    def at(self, mapping: str, *, own_pool: bool = False) -> FloatArray:
        """Return HR@f(1) ... HR@f(n)."""
        n_items = None if own_pool else self.n_items
        return global_at_sampled(self.ranks, MAPPINGS.make(mapping), self.n, n_items=n_items)

    def hits(self, k: int, mapping: str = "") -> FloatArray:
        """Return who is a hit, (n_targets,): of the last sample at k, or of the exact ranks at f(k)."""
        if not mapping:
            return np.asarray(self.sample.n_above < k, dtype=np.float64)
        cutoff = MAPPINGS.make(mapping).rounded_locations(k, self.n, self.n_items)
        return np.asarray(np.clip(cutoff - self.ranks.n_above, 0.0, 1.0), dtype=np.float64)


def single_error(runs: FloatArray) -> FloatArray:
    """Return the standard error of the difference between the mean of the runs and one further run."""
    error: FloatArray = runs.std(axis=0, ddof=1) * np.sqrt(1 + 1 / len(runs))
    return error


def hit_ratio_curves(settings: Settings, dataset: str, model: str, scheme: str, n: int) -> HitRatioCurves:
    """Return the curves of a model on a data set."""
    ranks = exact_ranks_of(settings, dataset, model, scheme)
    sampled = []
    for sample in repeated_samples(settings, ranks, scheme, n, f"{dataset} {model}"):
        sampled.append(sampled_hit_ratios(sample))
    return HitRatioCurves(ranks, n_items_of(settings, dataset), np.array(sampled), sample)


def hit_ratio_cells(
    row: str,
    printed_by_k: Mapping[int, Mapping[str, float]],
    fits: Sequence[HitRatioCurves],
    functions: Mapping[str, str],
) -> tuple[list[PaperNumber], list[FloatArray]]:
    """Return SHR@k and HR@f(k) next to the printed ones, means over fits, and the hits behind each number.

    The error of a difference is the binomial one of a hit ratio of as many users, with the spread between
    fits where there are several and the sampling error of our mean.

    Parameters
    ----------
    row : what the rows are called
    printed_by_k : k to printed numbers by column; columns that are not printed are shown too
    fits : curves of each fit of the model
    functions : name of a column to its mapping function
    """
    first = fits[0]
    lines = {"SHR": np.array([fit.mean for fit in fits])}
    lines |= {name: np.array([fit.at(spec) for fit in fits]) for name, spec in functions.items()}
    noise = first.sampled.std(axis=0, ddof=1) / np.sqrt(len(first.sampled) * len(fits))
    cells, hits = [], []
    for k, shown in printed_by_k.items():
        for name, line in lines.items():
            values = line[:, k - 1]
            ratio = float(values.mean())
            binomial = np.sqrt(max(ratio * (1 - ratio), 0.0) / first.ranks.n_users)
            sampling = float(noise[k - 1]) if name == "SHR" else 0.0
            error = float(np.hypot(np.hypot(binomial, sampling), fit_error(values)))
            cells.append(PaperNumber(f"{row} k={k}", name, shown.get(name), ratio, error, digits=4))
            if cells[-1].z is not None:
                hits.append(first.hits(k, functions.get(name, "")))
    return cells, hits


def fit_error(values: FloatArray) -> float:
    """Return the standard error of the mean over fits minus one further fit; 0 where there is one fit."""
    return float(values.std(ddof=1) * np.sqrt(1 + 1 / len(values))) if len(values) > 1 else 0.0


def correlation(series: Sequence[FloatArray]) -> FloatArray:
    """Return the correlations of some series; one that is constant has none with the others."""
    centred = np.array([values - values.mean() for values in series])
    scale = np.sqrt((centred**2).sum(axis=1))
    unit = np.divide(centred, scale[:, None], out=np.zeros_like(centred), where=scale[:, None] > 0)
    matrix: FloatArray = unit @ unit.T
    np.fill_diagonal(matrix, 1.0)
    return matrix


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

    def compute() -> Ranks:
        split = book_split()
        scorer = model.fit(split.train, seed=settings.seed, progress=settings.progress)
        if n_users is not None:
            chosen = stream(settings.seed, "l20/book-X").permutation(split.train.n_users)[:n_users]
            split = Split(
                split.train, split.test.where(np.isin(split.test.user, chosen)), method=split.method
            )
        return exact_ranks(scorer, split, seen="keep", progress=settings.progress)

    return settings.store.ranks_by(key, compute)


N = 100
_NOTE = "the paper draws one sample and prints one number; here means over samples and their error"
_PARTIAL = "pinterest-20: 37,501 of the 55,187 users are at hand"
_ERRORS_OF_RATIOS = (
    "the error of a hit ratio is the binomial one of its users, with the spread between our fits where a "
    "model has a random start and is fitted several times"
)
_ERRORS_OF_EXPONENTS = (
    "the error of an exponent a is that of one sample and a / sqrt(users), with the spread between our fits "
    "where a model has a random start and is fitted several times"
)
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
    notes, without = [_NOTE, _PARTIAL, _ERRORS_OF_EXPONENTS], list[str]()
    for dataset, model in _runnable(settings, list(SETUPS), list(rows), without):
        fits = [_exponents(fit, dataset, model) for fit in settings_of_fits(settings, dataset, model)]
        means = np.array([exponents.mean(axis=0) for exponents, _ in fits])
        by_iteration, by_likelihood = (float(value) for value in means.mean(axis=0))
        exponents, n_users = fits[0]
        sampling, users = float(single_error(exponents)[0]), by_iteration / np.sqrt(n_users)
        error = float(np.hypot(np.hypot(sampling, users), fit_error(means[:, 0])))
        cells.append(PaperNumber(model, dataset, rows[model][dataset], by_iteration, error, digits=4))
        cells.append(PaperNumber(model, f"{dataset} (likelihood)", None, by_likelihood, digits=4))
    notes.append("Eq. 19 gives too large an exponent by construction; the likelihood is consistent")
    return _outcome(settings, cells, notes, without)


def _exponents(settings: Settings, dataset: str, model: str) -> tuple[FloatArray, int]:
    """Return the exponents by Eq. 19 and by likelihood of each sample, (n_repeats, 2), and the users."""
    ranks = exact_ranks_of(settings, dataset, model, "binom")
    samples = repeated_samples(settings, ranks, "binom", N, f"{dataset} {model}")
    counts = [SampledRankCounts.of(tally(sample)) for sample in samples]
    return np.array([[fit_by_iteration(c), fit_by_likelihood(c)] for c in counts]), ranks.n_users


def table3(settings: Settings) -> RecipeOutcome:
    """Compute hit ratios of the best models, and whether SHR names the model with the best HR."""
    functions = {name: FUNCTIONS[name] for name in ("Bound", "Beta@0.5")}
    rows = printed("l20", "readme-table3")
    models = [name for name in rows[0] if name not in ("dataset", "k")]
    readme = "printed: the authors' README, of which Table 3 is the first three digits"
    notes, without = [_NOTE, _ERRORS_OF_RATIOS, _PARTIAL, readme], list[str]()
    cells: list[PaperNumber] = []
    blocks: list[FloatArray] = []
    for dataset in SETUPS:
        rows_by_k = {row["k"]: row for row in rows if row["dataset"] == dataset}
        fitted: dict[str, HitRatioCurves] = {}
        for _, model in _runnable(settings, [dataset], models, without):
            fits = [
                hit_ratio_curves(fit, dataset, model, "actual", N)
                for fit in settings_of_fits(settings, dataset, model)
            ]
            shown = {k: row[model] for k, row in rows_by_k.items()}
            more, hits = hit_ratio_cells(f"{dataset} {model}", shown, fits, functions)
            cells += more
            blocks.append(correlation(hits))
            fitted[model] = fits[0]
        if len(fitted) > 1:
            cells += _winners(dataset, list(rows_by_k), fitted, notes)
    return _outcome(settings, cells, notes, without, blocks)


#: ways in which Table 3 may have been made for citeulike: the split, and whether seen items stay in the list
#: of HR and among the items that SHR samples from
VARIANTS: dict[str, tuple[str, SeenPolicy, SeenPolicy]] = {
    "seen items in neither": ("leave-one-out", "remove", "remove"),
    "seen items sampled": ("leave-one-out", "remove", "keep"),
    "seen items in both": ("leave-one-out", "keep", "keep"),
    "two events left out": ("leave-one-out(valid=true)", "remove", "remove"),
}


def citeulike(settings: Settings) -> RecipeOutcome:
    """Compute Table 3 of citeulike under several protocols, since the paper gives none."""
    rows = {row["k"]: row for row in printed("l20", "readme-table3") if row["dataset"] == "citeulike"}
    models = [name for name in rows[1] if name not in ("dataset", "k")]
    functions = {name: FUNCTIONS[name] for name in ("Bound", "Beta@0.5")}
    notes, without, cells = [_NOTE, _ERRORS_OF_RATIOS], list[str](), list[PaperNumber]()
    gaps: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for _, model in _runnable(settings, ["citeulike"], models, without):
        for name, variant in VARIANTS.items():
            curves = _variant_curves(settings, model, *variant)
            shown = {k: row[model] for k, row in rows.items()}
            found, _ = hit_ratio_cells(f"{name}: {model}", shown, [curves], functions)
            cells += [*found, _first_ratio(f"{name}: {model}", found, curves.ranks.n_users)]
            gaps[name] += [abs(cell.difference) for cell in found if cell.difference is not None]
    notes += [f"{name}: mean distance from print {np.mean(gap):.4f}" for name, gap in gaps.items() if gap]
    reason = f"print can have at most one of these {len(VARIANTS)} protocols, and {FITS}"
    return replace(_outcome(settings, cells, notes, without), reason=reason)


def _first_ratio(row: str, cells: Sequence[PaperNumber], n_users: int) -> PaperNumber:
    """Return SHR@1 over HR@f(1), which depends on the protocol more than on how good the fit is."""
    sampled, exact = (next(c for c in cells if c.column == name) for name in ("SHR", "Beta@0.5"))
    theirs = None
    if sampled.printed is not None and exact.printed is not None:
        theirs = sampled.printed / exact.printed
    ratio = sampled.value / exact.value
    error = ratio * float(
        np.sqrt(sum((1 - cell.value) / (cell.value * n_users) for cell in (sampled, exact)))
    )
    return PaperNumber(f"{row} k=1", "SHR / Beta@0.5", theirs, ratio, error, digits=3)


def _variant_curves(
    settings: Settings, model: str, split: str, in_list: SeenPolicy, in_sample: SeenPolicy
) -> HitRatioCurves:
    """Return HR of lists and SHR of samples that differ in whether they hold seen items."""
    setup = SETUPS["citeulike"]
    ranks = {
        seen: settings.store.ranks(
            setup.dataset,
            split,
            setup.models[model],
            seen=seen,
            seed=settings.seed,
            progress=settings.progress,
        )
        for seen in {in_list, in_sample}
    }
    scheme = "actual" if in_sample == "remove" else "hyper"
    samples = list(repeated_samples(settings, ranks[in_sample], scheme, N, f"citeulike {model}"))
    sampled = np.array([sampled_hit_ratios(sample) for sample in samples])
    return HitRatioCurves(ranks[in_list], n_items_of(settings, "citeulike"), sampled, samples[-1])


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
            named = 100 * float((sampled[:, :, k - 1].argmax(axis=0) == best).mean())
            cells.append(PaperNumber(f"{dataset} winner", f"SHR@{k} = {name}", None, named, digits=0))
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
    notes, without = [_NOTE, _ERRORS_OF_RATIOS, "EASE: not printed"], list[str]()
    cells: list[PaperNumber] = []
    blocks: list[FloatArray] = []
    for dataset, model in _runnable(settings, ["ml-1m"], ["MultiVAE", "EASE"], without):
        hits_of_model: list[FloatArray] = []
        for scheme in ("binom", "hyper", "actual"):
            fits = [
                hit_ratio_curves(fit, dataset, model, scheme, n)
                for fit in settings_of_fits(settings, dataset, model)
            ]
            functions = {name: FUNCTIONS[name] for name in rows[0][scheme] if name != "SHR"}
            shown = {row["k"]: row[scheme] if model == "MultiVAE" else {} for row in rows}
            more, hits = hit_ratio_cells(f"{model} {scheme}", shown, fits, functions)
            cells += more
            hits_of_model += hits
            if scheme == "actual":
                own = fits[0].at(FUNCTIONS["Beta@0.5"], own_pool=True)
                cells += [
                    PaperNumber(f"{model} {scheme} k={k}", _OWN, None, float(own[k - 1]), digits=4)
                    for k in shown
                ]
                notes.append(f"{model} actual, {_overshoot(fits[0], own, n)}")
        if hits_of_model:
            blocks.append(correlation(hits_of_model))
    return _outcome(settings, cells, notes, without, blocks)


def _overshoot(curves: HitRatioCurves, own: FloatArray, n: int) -> str:
    """Return how far HR@f(k) lies above SHR@k on average, from a tenth to half of the list."""
    part = slice(n // 10 - 1, n // 2)
    values = {"Beta@0.5": curves.at(FUNCTIONS["Beta@0.5"]), _OWN: own}
    gaps = {name: float((line - curves.mean)[part].mean()) for name, line in values.items()}
    shown = ", ".join(f"{name} {gap:+.4f}" for name, gap in gaps.items())
    return f"HR@f(k) - SHR@k for k = {n // 10} to {n // 2}: {shown}"


def table7(settings: Settings) -> RecipeOutcome:
    """Compute the errors of the mapping functions."""
    rows: dict[str, dict[str, Any]] = {}
    for row in printed("l20", "readme-table7"):
        rows.setdefault(row["setting"], {})[row["function"]] = row["values"]
    notes = [_NOTE, "printed: the paper for MultiVAE and NeuMF, the authors' README for EASE and itemKNN"]
    without: list[str] = []
    cells: list[PaperNumber] = []
    blocks: list[FloatArray] = []
    for setting, functions in rows.items():
        model, _, dataset = setting.partition(":")
        for _ in _runnable(settings, [dataset], [model], without):
            fits = [
                _mapping_errors(fit, dataset, model) for fit in settings_of_fits(settings, dataset, model)
            ]
            compared: list[FloatArray] = []
            for name, runs in fits[0].items():
                sampling, shown = single_error(runs), functions.get(name, {})
                means = np.array([fit[name].mean(axis=0) for fit in fits])
                for column, measure in enumerate(_MEASURES):
                    error = float(np.hypot(sampling[column], fit_error(means[:, column])))
                    value, theirs = float(means[:, column].mean()), shown.get(measure)
                    cells.append(PaperNumber(f"{setting} {name}", measure, theirs, value, error, digits=4))
                    if cells[-1].z is not None:
                        compared.append(runs[:, column])
            blocks.append(correlation(compared))
            notes.append(f"{setting}: abs error {_order(fits[0])}; printed {_printed_order(functions)}")
    return _outcome(settings, cells, notes, without, blocks)


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


def _order(errors: Mapping[str, FloatArray]) -> str:
    return _sorted({name: float(runs[:, 0].mean()) for name, runs in errors.items()})


def _printed_order(functions: Mapping[str, Mapping[str, float]]) -> str:
    return _sorted({name: values["abs"] for name, values in functions.items()})


def _sorted(values: Mapping[str, float]) -> str:
    return " < ".join(f"{name} {value:.4f}" for name, value in sorted(values.items(), key=lambda x: x[1]))


def _outcome(
    settings: Settings,
    cells: list[PaperNumber],
    notes: list[str],
    without: list[str],
    blocks: Sequence[FloatArray] = (),
) -> RecipeOutcome:
    """Return the outcome; ``blocks`` are the correlations of the compared cells of each model."""
    return RecipeOutcome(
        tuple(cells),
        notes=tuple(notes),
        reason=FITS,
        without=tuple(without),
        repeats=settings.repeated(REPEATS),
        short="one fit per model" if settings.quick else "",
        independent=independent_cells(blocks) if blocks else None,
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
