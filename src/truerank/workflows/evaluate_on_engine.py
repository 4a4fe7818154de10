"""Evaluation on an engine: the digits of ``evaluate``, with ranks and bootstrap resamples as tasks.

Users are cut into tasks that rank them (``EngineRun``); what comes back are ranks or sums of each metric. The
resamples of a BCa interval of many users are tasks as well (``ResampledBy``). No digit depends on the engine,
on the size of tasks or on which worker did them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from truerank.core.checkpoint import Store
from truerank.core.digest import content_digest
from truerank.core.errors import (
    MOST_RESAMPLES,
    InvalidData,
    InvalidParameter,
    check_at_least,
    suggests_arguments,
)
from truerank.core.interactions import Interactions
from truerank.core.model import Model, interrupted_training
from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import Ranks, SampledRanks, SeenPolicy, TiePolicy
from truerank.core.result import Estimate, Result
from truerank.core.scorer import Scorer
from truerank.core.split import Split
from truerank.core.types import FloatArray
from truerank.distributed.engine import ENGINES, Engine, EngineTask, Job
from truerank.distributed.engine import started as running
from truerank.distributed.files import Files, negatives_of, rows_per_task, slice_tasks, write_files
from truerank.distributed.rank_job import JobRanks, PartialForm, RankJob, assemble_ranks, normal_band
from truerank.distributed.sealed import private_folder
from truerank.distributed.storage import (
    PartialResult,
    array_bytes,
    is_remote,
    join,
    map_array,
    seal_of,
    work_folder,
    write_bytes,
)
from truerank.inference.estimate_interval.registry import Target, Uncertainty
from truerank.inference.resample import resampled_means as means_of
from truerank.inference.user_interval import AutoUserInterval, Band, BCa, Interval
from truerank.metrics.grades import with_gains
from truerank.metrics.registry import values
from truerank.ranking.negatives import Sampler
from truerank.ranking.samplers.given import Given, GivenLists
from truerank.workflows.assembly import EvaluatedModel, assemble_result, metric_estimates
from truerank.workflows.estimate import BoundsWithMessages, bound_metrics, estimate_each
from truerank.workflows.fitting import (
    check_targets,
    described,
    fit_scorer,
    make_validate,
    unknown_of,
    was_interrupted,
)
from truerank.workflows.options import (
    DEFAULT_METRICS,
    Estimators,
    EvaluateOptions,
    Keep,
    Metrics,
    make_options,
)

#: Resamples of one task.
PER_TASK = 50


@dataclass(frozen=True)
class MeansJob(Job):
    """Means over users drawn with replacement.

    Parameters
    ----------
    values : .npy file of values per user, (n_users, n_columns)
    digest, seal : of its contents, and of the file
    seed, stage : resample b is drawn from the stream (seed, stage, b)
    """

    values: str
    digest: str
    seal: str
    seed: int
    stage: str

    @property
    def key(self) -> str:
        """Everything the means depend on."""
        return f"means {self.digest} {self.seed} {self.stage}"

    def open(self) -> FloatArray:
        """Map the values."""
        return map_array(self.values, self.seal)

    def run(self, state: FloatArray, task: EngineTask) -> bytes:
        """Return the means of some resamples; the task says which."""
        numbers = range(*task.payload)
        means = means_of(state, numbers, seed=self.seed, stage=self.stage, n_threads=1)
        return PartialResult({"means": means.ravel()}).pack()


def resampled_means_on(
    engine: str | Engine,
    values: FloatArray,
    *,
    resamples: int = 2000,
    seed: int = 0,
    stage: str = "bca",
    work_dir: str | Path | None = None,
    progress: Progress = SILENT,
    store: Store | None = None,
) -> FloatArray:
    """Return the mean of each column over each of many resamples of the users, (resamples, n_columns).

    All columns share the resamples. Which resamples are drawn depends on seed and stage alone, the default
    being those of the interval ``bca``; sums are formed on one thread, so all engines give the same digits.

    Parameters
    ----------
    engine : a spec string or an engine
    values : (n_users, n_columns)
    resamples : how many
    seed, stage : of the draws
    work_dir : a folder or URL that all workers can read; None takes a folder of this machine and removes it
    progress, store : as in ``Engine.map``

    Examples
    --------
    >>> resampled_means_on("local", np.array([[0.0, 1.0], [0.0, 1.0]]), resamples=3).tolist()
    [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
    """
    check_at_least("resamples", resamples, 1, MOST_RESAMPLES)
    values = np.ascontiguousarray(values, dtype=np.float64)
    if values.ndim != 2 or len(values) == 0:
        raise InvalidData(f"there must be values of at least one user, got shape {values.shape}.")
    digest = content_digest([values], size=12)
    with work_folder(work_dir) as folder:
        place = join(folder, f"values-{digest}-{'x'.join(map(str, values.shape))}.npy")
        data = array_bytes(values)
        write_bytes(place, data)
        tasks = [
            EngineTask(f"{start:09d}", (start, min(start + PER_TASK, resamples)), PER_TASK)
            for start in range(0, resamples, PER_TASK)
        ]
        job = MeansJob(place, f"{digest} {values.shape}", seal_of(data), seed, stage)
        made = ENGINES.make(engine)
        found = made.map(job, tasks, label=f"resampling on {made.key}", progress=progress, store=store)
    means = [PartialResult.unpack(partial).arrays["means"] for partial in found.values()]
    return np.concatenate(means).reshape(resamples, values.shape[1])


#: With fewer users the resamples are drawn sooner than they are sent.
LEAST_USERS = 10_000


@dataclass(frozen=True)
class ResampledBy(Interval):
    """What ``interval`` gives, to the digit; bootstrap samples of many users are tasks of an engine.

    Parameters
    ----------
    engine : where they are drawn
    folder : work folder that all workers can read
    interval : the interval that was asked for
    progress, store : as in ``Engine.map``
    """

    key: ClassVar[str] = "resampled-by"

    engine: Engine
    folder: str
    interval: Interval
    progress: Progress = SILENT
    store: Store | None = None

    def band(self, values: FloatArray, *, level: float = 0.95, seed: int = 0) -> Band:
        """Return the intervals."""
        asked = (
            self.interval.chosen(len(values))
            if isinstance(self.interval, AutoUserInterval)
            else self.interval
        )
        if not isinstance(asked, BCa) or len(values) < LEAST_USERS:
            return asked.band(values, level=level, seed=seed)

        def means(varying: FloatArray) -> FloatArray:
            return resampled_means_on(
                self.engine,
                varying,
                resamples=asked.resamples,
                seed=seed,
                work_dir=self.folder,
                progress=self.progress,
                store=self.store,
            )

        return asked.band(values, level=level, seed=seed, means=means)


#: Up to this many users ``auto`` keeps a rank per target, above it sums.
MOST_RANKS = 20_000_000


@dataclass(frozen=True)
class EngineRun:
    """Where and how the users of one model are ranked.

    Parameters
    ----------
    engine : runs the tasks
    options : as in ``evaluate``; of them ``keep`` says what comes back, ``rows`` how many users make a task
    store : where finished tasks are kept
    progress : where rows are reported
    folder : a work folder that all workers can read; None where there is none, intervals are then made here
    """

    engine: Engine
    options: EvaluateOptions
    store: Store | None = None
    progress: Progress = SILENT
    folder: str | None = None

    @classmethod
    def of(cls, options: EvaluateOptions, progress: Progress) -> EngineRun:
        """Return the run that the options ask for, before its engine is started."""
        if isinstance(options.sampler, Given | GivenLists | Mapping):
            raise InvalidParameter(
                "candidate lists are not sent to workers. Evaluate without an engine, or sample negatives, "
                "for example by uniform(m=99)."
            )
        if options.keep == "sums" and options.sampler is not None:
            raise InvalidParameter(
                "estimates need all sampled ranks, got keep='sums'. Use keep='ranks', and fewer users where "
                "they do not fit: users=1000000."
            )
        return cls(options.engine or ENGINES.make("local"), options, _store(options.work_dir), progress)

    def form(self, files: Files) -> PartialForm:
        """Return what exact ranks come back as."""
        keep = self.options.keep
        if keep == "auto":
            keep = "ranks" if files.n_rows <= MOST_RANKS else "sums"
        if keep == "sums" and self.options.gain is not None:
            raise InvalidParameter(
                "workers know no gains, so sums of graded metrics cannot be made there. Use keep='ranks', or "
                "leave gain out."
            )
        return keep

    def interval(self) -> Interval:
        """Return the interval over users, resampled by the engine where that is worth it."""
        own = self.options.interval
        if self.folder is None:
            return own
        return ResampledBy(self.engine, self.folder, own, self.progress, self.store)

    def run(self, name: str, files: Files, *, is_sampled: bool) -> JobRanks:
        """Rank all users of the files."""
        options = self.options
        job = RankJob(
            files.for_job(),
            files.key,
            seen=options.seen,
            sampler=options.sampler if is_sampled else None,
            seed=options.seed,
            label=name,
            form="ranks" if is_sampled else self.form(files),
            metrics=options.metrics,
            ties=options.ties,
            n_users=files.n_rows,
        )
        suited = rows_per_task(files.n_rows, files.size, negatives_of(job.sampler, files.size))
        tasks = slice_tasks(files, options.rows or suited)
        label = f"{'sampling' if is_sampled else 'ranking'} on {self.engine.key}"
        partials = self.engine.map(job, tasks, label=label, progress=self.progress, store=self.store)
        return assemble_ranks(job, list(partials.values()))


def evaluate_each_on(
    models: Mapping[str, Model | Scorer],
    split: Split,
    options: EvaluateOptions,
    *,
    progress: Progress = SILENT,
) -> Iterator[EvaluatedModel]:
    """Yield what ``evaluate_each`` yields, to the digit, ranked by an engine.

    Models are fitted here. User vectors, targets and seen items are then written as Parquet, item vectors as
    arrays that each worker maps; workers read their slices of users and send small partials back.

    Without a work folder one of this machine is used and removed. In a folder that is given finished tasks
    are kept, so that the same call after a failure goes on where it stopped. With ``keep="ranks"`` a rank per
    target comes back and the numbers are those of ``evaluate``; ``"sums"`` brings a few numbers per task, for
    more users than fit one machine: means without rounding errors and normal intervals.
    """
    check_targets(split)
    if split.repeats:
        raise InvalidParameter(
            f"engine {str(options.engine)!r} takes splits whose parts share no pair, but this one may have "
            "pairs in several. Leave engine out, or merge repeated pairs."
        )
    planned = EngineRun.of(options, progress)
    with (
        work_folder(options.work_dir) as folder,
        private_folder(folder) as private,
        running(planned.engine) as engine,
    ):
        run = replace(planned, engine=engine, folder=folder)
        validate = make_validate(split, seen=options.seen, n_threads=options.n_threads)
        for name, model in models.items():
            started = time.perf_counter()
            scorer = fit_scorer(
                model, split, validate=validate, seed=options.seed, progress=progress, keeps_part=True
            )
            fitted = time.perf_counter()
            files = write_files(folder, scorer, split, options.seen, private=private)
            seconds = {"fit": fitted - started, "write": time.perf_counter() - fitted}
            graded = None if options.gain is None else split.test
            evaluated, _ = _evaluated(run, name, described(model), files, seconds, graded)
            yield replace(evaluated, unknown=unknown_of(scorer), interrupted=interrupted_training(scorer))
            if was_interrupted(scorer):
                return


@suggests_arguments
def evaluate_files(
    engine: str | Engine,
    models: Files | Mapping[str, Files],
    metrics: Metrics = DEFAULT_METRICS,
    *,
    sampler: str | Sampler | None = None,
    estimators: Estimators | None = None,
    uncertainty: str | Uncertainty = "auto",
    bounds: bool | None = False,
    check: bool = False,
    ties: TiePolicy = "expected",
    seen: SeenPolicy = "remove",
    interval: str | Interval = "auto",
    level: float = 0.95,
    target: Target = "test-users",
    seed: int = 0,
    work_dir: str | Path | None = None,
    keep: Keep = "auto",
    rows: int | None = None,
    progress: Progress = SILENT,
) -> Result:
    """Return metrics of models whose users and vectors lie in files, for data that never were on one machine.

    Parameters
    ----------
    engine : a spec string such as ``dask(address=tcp://host:8786)``, or an engine
    models : what workers read, of one model or of several by name. Users that are a random part of all test
        users are sampled when the files are written; ``Files.n_test_users`` says from how many.
    metrics, sampler, estimators, uncertainty, bounds, check, ties, seen, interval, level, target, seed : as
        in ``truerank.evaluate``
    work_dir : a folder of the driver where finished tasks are kept; None keeps none
    keep, rows, progress : as in ``truerank.evaluate``
    """
    options = make_options(
        metrics,
        sampler=sampler,
        estimators=estimators,
        uncertainty=uncertainty,
        bounds=bounds,
        check=check,
        ties=ties,
        seen=seen,
        interval=interval,
        level=level,
        target=target,
        seed=seed,
        engine=engine,
        work_dir=work_dir,
        keep=keep,
        rows=rows,
    )
    named = models if isinstance(models, Mapping) else {models.name: models}
    if not named:
        raise InvalidParameter("at least one model is needed, got none. Name its files.")
    run = EngineRun.of(options, progress)
    done, counts = [], {}
    for name, files in named.items():
        evaluated, ranked = _evaluated(run, name, f"files ({files.users})", files, {})
        done.append(evaluated)
        counts = {
            "name": files.name,
            "n_items": files.size,
            "n_test": ranked.n_test,
            "users_with_targets": ranked.n_users,
            "users_without_targets": ranked.n_without_targets,
        }
    keys = {name: files.key for name, files in named.items()}
    return assemble_result(done, options, counts, keys, **options.provenance())


def _evaluated(
    run: EngineRun,
    name: str,
    described: str,
    files: Files,
    seconds: dict[str, float],
    graded: Interactions | None = None,
) -> tuple[EvaluatedModel, JobRanks]:
    """Rank one model's users as the options ask and estimate its metrics; ``graded`` holds the gains."""
    options, estimates, n_scores = run.options, list[Estimate](), 0
    kept, drawn, found, per_user, bounded = None, None, None, None, BoundsWithMessages()
    if options.sampler is not None:
        started = time.perf_counter()
        found = run.run(name, files, is_sampled=True)
        seconds["sample"] = time.perf_counter() - started
        assert isinstance(found.ranks, SampledRanks)  # noqa: S101 - what samplers give
        drawn = found.ranks if graded is None else with_gains(found.ranks, graded)
        chosen = options.estimation()
        counted = chosen.tally(drawn)
        estimates += estimate_each(name, drawn, chosen, counted=counted, progress=run.progress)
        if options.bounds is not False:
            bounded = bound_metrics(
                name,
                counted,
                chosen,
                is_limited=options.bounds is None,
                progress=run.progress,
            )
        n_scores += found.n_scores
    if options.sampler is None or options.check:
        started = time.perf_counter()
        found = run.run(name, files, is_sampled=False)
        seconds["rank"] = time.perf_counter() - started
        n_scores += found.n_scores
        if isinstance(found.ranks, Ranks):
            kept = found.ranks if graded is None else with_gains(found.ranks, graded)
            per_user = values(options.metrics, kept, ties=options.ties, seed=options.seed)
            asked = replace(options, interval=run.interval())
            estimates += metric_estimates(name, per_user, asked, n_test_users=files.n_test_users)
        else:
            estimates += _from_sums(name, found, options, files.n_test_users)
    assert found is not None  # noqa: S101 - one of the two ran
    evaluated = EvaluatedModel(
        name, described, tuple(estimates), kept, seconds, n_scores, bounded, drawn, per_user
    )
    return evaluated, found


def _from_sums(
    name: str, found: JobRanks, options: EvaluateOptions, n_test_users: int | None
) -> Iterator[Estimate]:
    """Yield the mean of each metric with its normal interval."""
    if options.interval.key not in ("auto", "normal"):
        raise InvalidParameter(
            f"interval {options.interval} needs a value per user, which sums do not keep. "
            "Use interval='normal', or keep='ranks'."
        )
    band = normal_band(found.sums, options.level)
    is_finite = n_test_users is not None and options.target == "test-users"
    factor = np.sqrt(1 - found.n_users / n_test_users) if is_finite and n_test_users else 1.0
    for column, (metric, one) in enumerate(zip(options.metrics, found.sums, strict=True)):
        metric.check_cutoff(found.largest_pool)
        yield Estimate(
            model=name,
            metric=str(metric),
            value=one.mean,
            low=float(one.mean - factor * (one.mean - band.low[column])),
            high=float(one.mean + factor * (band.high[column] - one.mean)),
            level=options.level,
            kind="exact",
            method=band.method[column] + (", finite population" if is_finite else ""),
            n_users=found.n_users,
            target="test-users" if is_finite else "population",
        )


def _store(work_dir: str | Path | None) -> Store | None:
    """Return where finished tasks are kept: in a work folder of this machine, or nowhere."""
    if work_dir is None or is_remote(str(work_dir)):
        return None
    return Store(Path(work_dir) / "partials")
