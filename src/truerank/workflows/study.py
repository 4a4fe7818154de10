"""Study of estimators: their error on data where the exact metrics are known, over repeated samples.

Every model is ranked exactly once and against many independent samples of negatives; each estimator is
applied to every sample. Finished parts are kept in a store under keys that say what they depend on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from truerank.core.checkpoint import Store, as_store
from truerank.core.digest import data_hash
from truerank.core.display import Displayed, Overview, frame_of
from truerank.core.errors import (
    MOST_CUTOFFS,
    MOST_REPEATS,
    CannotEstimate,
    InvalidParameter,
    check_at_least,
    check_choice,
    suggests_arguments,
)
from truerank.core.model import Model
from truerank.core.progress import SILENT, Progress, as_progress, tracked
from truerank.core.provenance import head, versions
from truerank.core.random import check_seed
from truerank.core.ranks import SEEN_POLICIES, TIE_POLICIES, SeenPolicy, TiePolicy
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.core.table import Table, count_of
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.base import Estimator
from truerank.estimation.corrections.priors import averaged_prior, fitted_prior
from truerank.estimation.registry import ESTIMATORS
from truerank.estimation.tally import Tally, tally
from truerank.inference.posterior.difference import difference_posterior
from truerank.inference.posterior.interval import MetricPosterior, metric_posterior, weighted_quantiles
from truerank.inference.posterior.prior import learnt_prior
from truerank.metrics.base import Metric
from truerank.metrics.registry import make_metrics, values
from truerank.ranking.exact import exact_ranks
from truerank.ranking.negatives import Sampler
from truerank.ranking.sampled import sample_ranks
from truerank.ranking.samplers.registry import SAMPLERS
from truerank.workflows.fitting import as_split, described, fit_scorer, make_validate, name_models
from truerank.workflows.options import DEFAULT_ESTIMATOR, Estimators, RunSettings

if TYPE_CHECKING:
    import polars as pl

PriorMode: TypeAlias = Literal["per-run", "averaged", "both"]
PRIOR_MODES: tuple[PriorMode, ...] = ("per-run", "averaged", "both")
DEFAULT_FAMILIES = "recall,ndcg,ap"
AVERAGED = "averaged prior"
#: Cut-offs at which a study says who is named best, those of them that it has.
WINNER_CUTOFFS = (1, 5, 10, 20, 50)
#: Quantiles of a posterior that are kept.
_QUANTILES = (np.arange(400) + 0.5) / 400


@dataclass(frozen=True)
class NamedBest:
    """In how many repeats the posterior names the truly best model, names another, and leaves it open."""

    right: int
    wrong: int
    open: int


@dataclass(frozen=True, eq=False, repr=False)
class Study(Displayed):
    """Exact values and the estimates of all repeats.

    Parameters
    ----------
    models, estimators : names, in the order of the arrays
    families : metrics without their cut-off
    cutoffs : (n_cutoffs,) K
    exact : (n_models, n_families, n_cutoffs)
    runs : (n_estimators, n_models, n_repeats, n_families, n_cutoffs)
    items_per_user : (n_models,) scores computed per user and repeat, the targets included
    provenance : sampler, options, seed, data hash and versions
    named : (n_repeats, n_families, n_winner_cutoffs) the model that the posterior names best, -1 where it is
        open; None where there is no posterior
    """

    models: tuple[str, ...]
    estimators: tuple[str, ...]
    families: tuple[str, ...]
    cutoffs: tuple[int, ...]
    exact: FloatArray
    runs: FloatArray
    items_per_user: FloatArray
    named: IntArray | None = None
    provenance: Mapping[str, Any] = field(default_factory=dict)

    @property
    def winner_cutoffs(self) -> tuple[int, ...]:
        """Cut-offs at which the posterior names the best model."""
        return winner_cutoffs(self.cutoffs)

    @property
    def n_repeats(self) -> int:
        """Number of samples per model."""
        return int(self.runs.shape[2])

    def errors(self) -> tuple[FloatArray, FloatArray]:
        """Return the relative error in percent, its mean and standard deviation over repeats.

        The error of a repeat is the mean over K of abs(estimate / exact - 1); where the exact value is 0 the
        term counts as 0. Both arrays are (n_estimators, n_models, n_families).
        """
        exact = self.exact[None, :, None]
        errors = np.abs(self.runs - exact)
        terms = np.divide(errors, exact, out=np.zeros_like(errors), where=exact > 0)
        per_repeat = 100 * terms.mean(axis=-1)
        return per_repeat.mean(axis=2), per_repeat.std(axis=2)

    def overview(self) -> Overview:
        """Return what a console and a notebook show."""
        rows = tuple(
            (*names, f"{error:.2f}", f"{spread:.2f}") for *names, error, spread in self.to_polars().rows()
        )
        columns = ("metric", "model", "estimator", "error %", "+-")
        repeats = count_of(self.n_repeats, "repeat")
        return Overview(f"Study of {repeats}: relative errors over cut-offs", Table(columns, rows))

    def to_polars(self) -> pl.DataFrame:
        """Return mean and standard deviation of ``errors`` by metric, model and estimator."""
        mean, spread = self.errors()
        axes = itertools.product(*map(enumerate, (self.families, self.models, self.estimators)))
        return frame_of(
            [
                {
                    "metric": family,
                    "model": model,
                    "estimator": estimator,
                    "error_percent": float(mean[i, j, k]),
                    "error_spread": float(spread[i, j, k]),
                }
                for (k, family), (j, model), (i, estimator) in axes
            ]
        )

    def best(self, family: str, cutoff: int) -> str:
        """Return the model whose exact value is largest, the first of equal ones."""
        return self.models[int(np.argmax(self._exact(family, cutoff)))]

    def winners(self, family: str, cutoff: int) -> IntArray:
        """Return in how many repeats each estimator gives the truly best model the largest value.

        Of models with equal values the first counts. The array is (n_estimators,).
        """
        metric = (..., self.families.index(family), self.cutoffs.index(cutoff))
        winner = np.argmax(self.runs[metric], axis=1)
        counts: IntArray = (winner == int(np.argmax(self._exact(family, cutoff)))).sum(axis=1)
        return counts

    def posterior_winners(self, family: str, cutoff: int) -> NamedBest:
        """Return how often the posterior names the truly best model; the model named may be as good.

        Raises
        ------
        InvalidParameter
            When the study has no posterior at this cut-off.
        """
        if self.named is None or cutoff not in self.winner_cutoffs:
            raise InvalidParameter(
                f"the posterior of a study needs two models and one of the cut-offs {self.winner_cutoffs}, "
                f"got {len(self.models)} models and {cutoff}. Give posterior=True, or another cut-off."
            )
        named = self.named[:, self.families.index(family), self.winner_cutoffs.index(cutoff)]
        exact = self._exact(family, cutoff)
        is_best = exact[named] == exact.max()
        right, wrong = int((is_best & (named >= 0)).sum()), int((~is_best & (named >= 0)).sum())
        return NamedBest(right, wrong, self.n_repeats - right - wrong)

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON: errors and winners, and the values they come from."""
        mean, spread = self.errors()
        return {
            **head("study"),
            "models": list(self.models),
            "estimators": list(self.estimators),
            "metrics": list(self.families),
            "cutoffs": list(self.cutoffs),
            "repeats": self.n_repeats,
            "items_per_user": self.items_per_user.tolist(),
            "error_percent": mean.tolist(),
            "error_spread": spread.tolist(),
            "exact": self.exact.tolist(),
            "mean": self.runs.mean(axis=2).tolist(),
            "named_best": {
                f"{family}@{cutoff}": self.winners(family, cutoff).tolist()
                for family in self.families
                for cutoff in self.cutoffs
            },
            "named_by_posterior": {
                f"{family}@{cutoff}": asdict(self.posterior_winners(family, cutoff))
                for family in self.families
                for cutoff in self.winner_cutoffs
                if self.named is not None
            },
            "provenance": dict(self.provenance),
        }

    def _exact(self, family: str, cutoff: int) -> FloatArray:
        values: FloatArray = self.exact[:, self.families.index(family), self.cutoffs.index(cutoff)]
        return values


@suggests_arguments
def study(
    models: Any,
    split: Any,
    sampler: str | Sampler = "uniform(m=99)",
    estimators: Estimators = DEFAULT_ESTIMATOR,
    *,
    families: str = DEFAULT_FAMILIES,
    cutoffs: Sequence[int] = tuple(range(1, 51)),
    repeats: int = 20,
    prior_mode: PriorMode = "per-run",
    posterior: bool = False,
    ties: TiePolicy = "expected",
    seen: SeenPolicy = "remove",
    seed: int = 0,
    n_threads: int | None = None,
    store: Store | str | Path | None = None,
    progress: Progress | bool = SILENT,
) -> Study:
    """Return the errors of estimators against the exact metrics of these models, over repeated samples.

    Every model is ranked against all items once, and against ``repeats`` samples. Samples are shared between
    models unless the sampler says otherwise, so that models are compared on the same negatives.

    Parameters
    ----------
    models : as in ``evaluate``
    split : train and test events, or other data as in ``evaluate``
    sampler, estimators : spec strings or objects
    families : metrics without a cut-off, separated by commas
    cutoffs : K, the same for all metrics
    repeats : samples per model
    prior_mode : an estimator with a fitted prior fits it to each sample (``per-run``), or takes the mean of
        all samples' priors (``averaged``, as the tables of Li et al. 2023 do: ``repeats`` times the budget)
    posterior : whether to ask, at the cut-offs of ``WINNER_CUTOFFS``, which model the posterior of the
        differences names best; a tenth of a second per model and repeat
    ties, seen, seed, n_threads : as in ``evaluate``
    store : a store or folder where finished parts are kept; an interrupted study continues where it stopped
    progress : where samples and estimates are reported; True shows bars

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> train = Interactions.from_codes([0, 0, 1, 2], [0, 1, 1, 1], n_users=3, n_items=3)
    >>> test = Interactions.from_codes([1, 2], [0, 2], n_users=3, n_items=3)
    >>> result = study("popularity", Split(train, test), "full", "naive", cutoffs=[1, 2], repeats=2)
    >>> result.errors()[0].tolist()  # all items were sampled
    [[[0.0, 0.0, 0.0]]]
    """
    progress = as_progress(progress)
    check_choice("prior_mode", prior_mode, PRIOR_MODES)
    check_choice("ties", ties, TIE_POLICIES)
    check_choice("seen", seen, SEEN_POLICIES)
    check_seed(seed)
    check_at_least("repeats", repeats, 2, MOST_REPEATS)
    check_at_least("the number of cutoffs", len(cutoffs), 0, MOST_CUTOFFS)
    split = as_split(split, seed=seed, progress=progress)
    outside = [cutoff for cutoff in cutoffs if not 1 <= cutoff <= split.train.n_items]
    if outside or not cutoffs:
        raise InvalidParameter(
            f"cutoffs must lie in 1..{split.train.n_items}, the items of the data, got "
            f"{outside[0] if outside else 'none'}. Leave out what lies outside."
        )
    named = name_models(models)
    job = _Job(
        split=split,
        sampler=SAMPLERS.make(sampler),
        estimators=_with_modes(ESTIMATORS.make_all(estimators), prior_mode),
        metrics=_metrics(families, cutoffs),
        repeats=repeats,
        ties=ties,
        seen=seen,
        seed=seed,
        n_threads=n_threads,
        store=Store(),
        progress=progress,
    )
    job = replace(job, store=as_store(store) or job.store)  # a folder is made when all else is right
    found: dict[str, Mapping[str, FloatArray]] = {}
    metrics = _metrics(families, winner_cutoffs(cutoffs)) if posterior and len(named) > 1 else ()
    parts = list(job.run(named, metrics, found))
    names = tuple(family.strip() for family in families.split(","))
    shape = (len(names), len(cutoffs))
    return Study(
        models=tuple(named),
        estimators=tuple(label for label, _, _ in job.estimators),
        families=names,
        cutoffs=tuple(cutoffs),
        exact=np.stack([exact.reshape(shape) for exact, _, _ in parts]),
        runs=np.stack([runs.reshape(len(runs), repeats, *shape) for _, runs, _ in parts], axis=1),
        items_per_user=np.array([items for _, _, items in parts]),
        named=_name_best(found, repeats).reshape(repeats, len(names), -1) if found else None,
        provenance={
            "models": {name: described(model) for name, model in named.items()},
            "split": split.method,
            "sampler": str(job.sampler),
            "prior_mode": prior_mode,
            "ties": ties,
            "seen": seen,
            "seed": seed,
            "data_hash": data_hash(split),
            "versions": versions(),
        },
    )


def winner_cutoffs(cutoffs: Sequence[int]) -> tuple[int, ...]:
    """Return the cut-offs of a study at which it says who is named best: some, or the last."""
    return tuple(cutoff for cutoff in cutoffs if cutoff in WINNER_CUTOFFS) or (cutoffs[-1],)


def _name_best(found: Mapping[str, Mapping[str, FloatArray]], repeats: int) -> IntArray:
    """Return which model the posterior names best in each repeat and metric, -1 where it is open.

    That is the one with the largest posterior mean, if the intervals of its differences to all others exclude
    0 together.
    """
    names = list(found)
    n_metrics = next(iter(found.values()))["quantiles"].shape[1]
    named = np.full((repeats, n_metrics), -1, dtype=np.int64)
    sharing = learnt_prior().sharing
    for repeat, column in np.ndindex(named.shape):
        posteriors = {
            name: MetricPosterior(
                of["quantiles"][repeat, column][None],
                np.full(len(_QUANTILES), 1 / len(_QUANTILES)),
                of["unit"][repeat, column][None],
                1,
                float(of["widening"][repeat]),
            )
            for name, of in found.items()
        }
        if any(np.isnan(posterior.values).any() for posterior in posteriors.values()):
            continue
        first = max(names, key=lambda name: float(posteriors[name].values.mean()))
        pairs = [(first, name) for name in names if name != first]
        low, _ = difference_posterior(posteriors, pairs, sharing=sharing).limits(0.95, is_simultaneous=True)
        if (low > 0).all():
            named[repeat, column] = names.index(first)
    return named


@dataclass(frozen=True, eq=False)
class _Job(RunSettings):
    split: Split
    sampler: Sampler
    estimators: tuple[tuple[str, Estimator, bool], ...]
    metrics: tuple[Metric, ...]
    repeats: int
    store: Store
    progress: Progress

    def run(
        self,
        models: Mapping[str, Model | Scorer],
        metrics: Sequence[Metric],
        posteriors: dict[str, Mapping[str, FloatArray]],
    ) -> Iterator[tuple[FloatArray, FloatArray, float]]:
        """Yield exact values, the estimates of all repeats, and scores per user, model by model.

        The posteriors of ``metrics``, if any, are put into ``posteriors`` by model.
        """
        digest = data_hash(self.split)
        steps = len(models) * (self.repeats + len(self.estimators))
        with tracked(self.progress, "study", steps) as task:
            for name, model in models.items():
                studied = _StudiedModel(self, name, model, digest)
                runs = []
                for label, estimator, is_averaged in self.estimators:
                    runs.append(studied.estimates(label, estimator, is_averaged, task.advance))
                    task.advance()
                exact = studied.exact()  # after a sampler has refused the data nothing is kept
                if metrics:
                    posteriors[name] = studied.posteriors(metrics, task.advance)
                yield exact, np.stack(runs), studied.items_per_user(task.advance)


class _StudiedModel:
    """One model of a study; it is fitted and sampled only if some result is not in the store."""

    def __init__(self, job: _Job, name: str, model: Model | Scorer, digest: str) -> None:
        self.job, self.name, self.model = job, name, model
        described = str(model) if isinstance(model, Model) else f"scores {name}"
        self.key = f"{digest} {described} seen={job.seen} ties={job.ties} seed={job.seed}"
        self.keeps = isinstance(model, Model)  # scores from elsewhere are not identified by their name
        self._scorer: Scorer | None = None
        self._tallies: tuple[list[Tally], float] | None = None

    def exact(self) -> FloatArray:
        """Return the exact metrics."""
        key = f"study exact {self.key} {_listed(self.job.metrics)}"
        return self._stored(key, "exact", self._exact)

    def estimates(
        self, label: str, estimator: Estimator, is_averaged: bool, advance: Callable[[], None]
    ) -> FloatArray:
        """Return the estimates of one estimator in all repeats, (n_repeats, n_metrics)."""
        job = self.job
        key = (
            f"study runs {self.key} {job.sampler} x{job.repeats} {self._label()} {label} "
            f"{_listed(job.metrics)}"
        )

        def compute() -> FloatArray:
            tallies = self.tallies(advance)[0]
            used = averaged(estimator, tallies) if is_averaged else estimator
            return used.estimate_runs(tallies, job.metrics)

        return self._stored(key, "runs", compute)

    def posteriors(self, metrics: Sequence[Metric], advance: Callable[[], None]) -> Mapping[str, FloatArray]:
        """Return quantiles of the posterior of metrics in all repeats; NaN where the prior has no ground."""
        job = self.job
        key = (
            f"study posterior {self.key} {job.sampler} x{job.repeats} {self._label()} {_listed(metrics)} "
            f"{learnt_prior()}"
        )

        def compute() -> dict[str, FloatArray]:
            quantiles = np.full((job.repeats, len(metrics), len(_QUANTILES)), np.nan)
            unit, widening = np.zeros((job.repeats, len(metrics))), np.ones(job.repeats)
            for repeat, counted in enumerate(self.tallies(advance)[0]):
                try:
                    found = metric_posterior(
                        counted, metrics, seen="kept" if job.seen == "keep" else "removed", seed=job.seed
                    )
                except CannotEstimate:
                    continue
                quantiles[repeat] = [
                    weighted_quantiles(row, found.weights, _QUANTILES.tolist()) for row in found.values
                ]
                unit[repeat], widening[repeat] = found.unit, found.widening
            return {"quantiles": quantiles, "unit": unit, "widening": widening}

        return job.store.arrays(key, compute) if self.keeps else compute()

    def items_per_user(self, advance: Callable[[], None]) -> float:
        """Return the scores computed per user and repeat."""
        job = self.job
        key = f"study items {self.key} {job.sampler} x{job.repeats} {self._label()}"
        return float(self._stored(key, "items", lambda: np.array([self.tallies(advance)[1]]))[0])

    def tallies(self, advance: Callable[[], None]) -> tuple[list[Tally], float]:
        """Return the tally of each repeat, and the scores computed per user and repeat."""
        if self._tallies is None:
            job, tallies, n_scores = self.job, [], 0
            for repeat in range(job.repeats):
                sampled = sample_ranks(
                    self.scorer(),
                    job.split,
                    job.sampler,
                    seen=job.seen,
                    seed=job.seed,
                    repeat=repeat,
                    label=self.name,
                    n_threads=job.n_threads,
                )
                n_scores += sampled.n_scores
                tallies.append(tally(sampled.ranks, ties=job.ties, seed=job.seed))
                advance()
            self._tallies = tallies, n_scores / (job.repeats * tallies[0].n_users)
        return self._tallies

    def scorer(self) -> Scorer:
        """Return the fitted model."""
        if self._scorer is None:
            job = self.job
            validate = make_validate(job.split, seen=job.seen, n_threads=job.n_threads)
            self._scorer = fit_scorer(
                self.model, job.split, validate=validate, seed=job.seed, progress=job.progress
            )
        return self._scorer

    def _exact(self) -> FloatArray:
        job = self.job
        ranks = exact_ranks(self.scorer(), job.split, seen=job.seen, n_threads=job.n_threads)
        means: FloatArray = values(job.metrics, ranks, ties=job.ties, seed=job.seed).mean(axis=0)
        return means

    def _label(self) -> str:
        return "" if self.job.sampler.is_shared else f"label={self.name}"

    def _stored(self, key: str, name: str, compute: Callable[[], FloatArray]) -> FloatArray:
        if not self.keeps:
            return compute()
        return self.job.store.arrays(key, lambda: {name: compute()})[name]


def averaged(estimator: Estimator, tallies: Sequence[Tally]) -> Estimator:
    """Return the estimator with its fitted prior replaced by the mean of the priors fitted to all samples."""
    prior = fitted_prior(estimator)
    if prior is None:
        raise InvalidParameter(
            f"an averaged prior needs an estimator with a fitted prior, but '{estimator}' has no prior that "
            "is fitted to the sample. Use for example bv(prior=mle)."
        )
    return replace(estimator, prior=averaged_prior(prior, tallies))  # type: ignore[call-arg]


def _with_modes(estimators: Sequence[Estimator], mode: PriorMode) -> tuple[tuple[str, Estimator, bool], ...]:
    """Return (label, estimator, whether its prior is averaged over the repeats)."""
    variants = []
    for estimator in estimators:
        has_prior = fitted_prior(estimator) is not None
        if mode != "averaged" or not has_prior:
            variants.append((str(estimator), estimator, False))
        if mode != "per-run" and has_prior:
            variants.append((f"{estimator}, {AVERAGED}", estimator, True))
    return tuple(variants)


def _metrics(families: str, cutoffs: Sequence[int]) -> tuple[Metric, ...]:
    names = [family.strip() for family in families.split(",")]
    if any("@" in name for name in names):
        raise InvalidParameter(
            f"families must be metrics without a cut-off, got {families!r}. Give K by cutoffs."
        )
    return make_metrics([f"{name}@{cutoff}" for name in names for cutoff in cutoffs])


def _listed(metrics: Sequence[Metric]) -> str:
    return ",".join(str(metric) for metric in metrics)
