"""Predicted seconds and memory of a ranking job on CPU workers or GPUs, from its size.

The time of a task is a sum of counts (pairs scored, numbers multiplied, vectors fetched from memory, rows
read) times a rate each. Rates are fitted to runs by non-negative least squares on relative errors; those here
come from ``python -m benchmarks.engines --fit``, which also prints how far they are off on runs they were not
fitted to. GPU rates are those of one H200, fitted by ``python -m benchmarks.gpu_scale`` to runs whose vectors
and lists came from the memory of the host. Several GPUs share the users; each holds, or is sent, all items.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace

import numpy as np

from truerank.core.errors import InvalidData, check_at_least
from truerank.distributed.files import rows_per_task

#: Bytes of item vectors that stay near a core; larger tables are fetched from memory, 64 bytes at a time.
CACHE = 16 << 20
LINE = 64


@dataclass(frozen=True)
class Work:
    """The size of a job.

    Parameters
    ----------
    users, items, dims : of a model that is a dot product
    negatives : sampled items per user; None ranks all items
    targets, seen : items per user, on average
    workers : slots, each of one core
    """

    users: int
    items: int
    dims: int = 64
    negatives: int | None = None
    targets: float = 1
    seen: float = 20
    workers: int = 1

    def __post_init__(self) -> None:
        for name in ("users", "items", "dims", "workers"):
            check_at_least(name, getattr(self, name), 1)
        if self.negatives is not None:
            check_at_least("negatives", self.negatives, 1)

    @property
    def rows(self) -> int:
        """Users of a task."""
        return min(self.users, rows_per_task(self.users, self.items, self.negatives))

    @property
    def tasks(self) -> int:
        """How many tasks there are."""
        return -(-self.users // self.rows)

    @property
    def scores(self) -> int:
        """Pairs that are scored."""
        return self.users * (self.items if self.negatives is None else self.negatives)


@dataclass(frozen=True)
class Seconds:
    """Seconds of one core per unit of work; also used for the number of units of a job.

    Parameters
    ----------
    pair, product : exact ranks: per pair, and per multiplication
    draw, draw_product, fetch : sampled ranks: per negative, per multiplication, and per cache line of a
        vector that has to come from memory
    look : per number of the item vectors, which each task or process reads once
    user, listed : per user read and ranked, and per target and seen item
    """

    pair: float = 0.0
    product: float = 0.0
    draw: float = 0.0
    draw_product: float = 0.0
    fetch: float = 0.0
    look: float = 0.0
    user: float = 0.0
    listed: float = 0.0

    def total(self, counts: Seconds) -> float:
        """Return the seconds of so many units."""
        return _total(self, counts)


@dataclass(frozen=True)
class Bytes:
    """Bytes per unit; also used for the number of units of a job.

    Parameters
    ----------
    process : an interpreter with all libraries and compiled code
    item : per byte of the item vectors, which the processes of a machine share
    row : per byte of the vectors and lists of a task
    target : per target, where ranks are put together
    """

    process: float = 0.0
    item: float = 0.0
    row: float = 0.0
    target: float = 0.0

    def total(self, counts: Bytes) -> float:
        """Return the bytes of so many units."""
        return _total(self, counts)


@dataclass(frozen=True)
class Rates:
    """Rates of a machine; ``start`` and ``task`` are the fixed seconds of a cluster and of each task."""

    seconds: Seconds = field(default_factory=Seconds)
    memory: Bytes = field(default_factory=Bytes)
    start: float = 4.0
    task: float = 0.002


@dataclass(frozen=True)
class JobCost:
    """Predicted cost of a job on CPU workers.

    Parameters
    ----------
    seconds : wall-clock time
    core_seconds : processor time of all workers together
    worker_bytes : memory of one worker, of which ``shared_bytes`` (item vectors) are shared on one machine
    driver_bytes : memory of the driver, which assembles the results
    tasks : number of tasks
    """

    seconds: float
    core_seconds: float
    worker_bytes: float
    shared_bytes: float
    driver_bytes: float
    tasks: int


def _total(rates: Seconds | Bytes, counts: Seconds | Bytes) -> float:
    known = asdict(counts)
    return float(sum(rate * known[name] for name, rate in asdict(rates).items()))


def seconds_of(work: Work) -> Seconds:
    """Return how many units of each kind a job has."""
    item_numbers = work.items * work.dims
    listed = work.users * (work.targets + work.seen)
    if work.negatives is None:
        return Seconds(
            pair=work.scores,
            product=work.scores * work.dims,
            look=item_numbers * work.workers,
            user=work.users,
            listed=listed,
        )
    far = max(0.0, 1 - CACHE / (4 * item_numbers))
    return Seconds(
        draw=work.scores,
        draw_product=work.scores * work.dims,
        fetch=work.scores * far * math.ceil(4 * work.dims / LINE),
        look=item_numbers * work.tasks,
        user=work.users,
        listed=listed,
    )


def bytes_of(work: Work, *, is_worker: bool = True, is_driver: bool = True) -> Bytes:
    """Return the units of memory of a process: a worker with one slot, the driver, or both in one."""
    width = 4 * (work.dims + work.targets + work.seen)
    return Bytes(
        process=1,
        item=4.0 * work.items * work.dims if is_worker else 0,
        row=work.rows * width if is_worker else 0,
        target=work.users * work.targets if is_driver else 0,
    )


def predict(work: Work, rates: Rates | None = None, *, keep_ranks: bool = True) -> JobCost:
    """Return the predicted cost of a job on machines like the one the rates were fitted on.

    Parameters
    ----------
    work : the size of the job
    rates : of the machines; None takes those of one core of an AMD EPYC server
    keep_ranks : whether ranks come back, rather than sums

    Examples
    --------
    >>> one, eight = (predict(Work(10**7, 10**5, workers=workers)) for workers in (1, 8))
    >>> 7 < one.seconds / eight.seconds < 8
    True
    """
    rates = rates or MEASURED
    core = rates.seconds.total(seconds_of(work))
    waves = math.ceil(work.tasks / work.workers) / (
        work.tasks / work.workers
    )  # the last wave may be incomplete
    worker = rates.memory.total(bytes_of(work, is_driver=False))
    driver = bytes_of(work, is_worker=False, is_driver=keep_ranks)
    return JobCost(
        seconds=rates.start + max(waves * core / work.workers, rates.task * work.tasks),
        core_seconds=core,
        worker_bytes=worker,
        shared_bytes=rates.memory.item * bytes_of(work).item,
        driver_bytes=rates.memory.total(driver),
        tasks=work.tasks,
    )


def fit_seconds(runs: Sequence[tuple[Work, float]]) -> Seconds:
    """Return the rates that come nearest to measured seconds of one core, by relative error."""
    return Seconds(**fit_relative([(asdict(seconds_of(work)), taken) for work, taken in runs]))


def fit_bytes(runs: Sequence[tuple[Work, float]]) -> Bytes:
    """Return the rates that come nearest to measured peaks of one process that is worker and driver."""
    return Bytes(**fit_relative([(asdict(bytes_of(work)), taken) for work, taken in runs]))


def fit_relative(runs: Sequence[tuple[dict[str, float], float]]) -> dict[str, float]:
    """Return non-negative rates by name from runs, each the numbers of units and the measurement."""
    from scipy.optimize import nnls

    if not runs or min(taken for _, taken in runs) <= 0:
        raise InvalidData("rates are fitted to runs with positive measurements, got none. Measure some runs.")
    names = list(runs[0][0])
    design = np.array([[counts[name] / taken for name in names] for counts, taken in runs])
    scale = np.where(design.max(axis=0) > 0, design.max(axis=0), 1.0)
    rates, _ = nnls(design / scale, np.ones(len(runs)))
    return dict(zip(names, (rates / scale).tolist(), strict=True))


#: Fitted by ``python -m benchmarks.engines --fit``; see benchmarks/results.
MEASURED = Rates(
    Seconds(
        pair=4.25e-10,
        product=1.93e-11,
        draw_product=3.77e-10,
        fetch=4.70e-9,
        user=1.34e-6,
        listed=1.69e-7,
    ),
    Bytes(process=2.83e8, item=0.933, row=1.57, target=268.0),
)


#: Numbers of item vectors that are on a GPU at a time in exact ranks; with more, users are sent per chunk.
CHUNK = 1 << 27
#: Numbers of user vectors that are there at a time.
BATCH = 1 << 26


@dataclass(frozen=True)
class GpuSeconds:
    """Seconds of one GPU per unit of work; also used for the number of units of a job.

    Parameters
    ----------
    product : exact ranks: per multiplication
    fetch, compare : sampled ranks: per number of a sampled vector, and per two negatives of a user, which are
        kept apart
    sent : per number of the vectors that cross from the host
    user, listed : per user, and per target and seen item, each time they are sent
    """

    product: float = 0.0
    fetch: float = 0.0
    compare: float = 0.0
    sent: float = 0.0
    user: float = 0.0
    listed: float = 0.0

    def total(self, counts: GpuSeconds) -> float:
        """Return the seconds of so many units."""
        known = asdict(counts)
        return float(sum(rate * known[name] for name, rate in asdict(self).items()))


@dataclass(frozen=True)
class GpuCost:
    """Predicted cost of a job on GPUs.

    Parameters
    ----------
    seconds : wall-clock time
    gpu_bytes : memory of each GPU
    host_bytes : vectors and lists, in the memory of the hosts together
    """

    seconds: float
    gpu_bytes: float
    host_bytes: float


def gpu_seconds(work: Work) -> GpuSeconds:
    """Return how many units of each kind a job has on one GPU."""
    item_numbers = work.items * work.dims
    lists = work.users * (work.targets + work.seen)
    if work.negatives is not None:
        return GpuSeconds(
            fetch=work.scores * work.dims,
            compare=work.users * work.negatives**2 / 2,
            sent=item_numbers + work.users * work.dims,
            user=work.users,
            listed=lists,
        )
    n_chunks = -(-item_numbers // CHUNK)
    passes = 1 if n_chunks == 1 else 2 * n_chunks  # the first is for the scores of the targets
    return GpuSeconds(
        product=work.scores * work.targets * work.dims,
        sent=item_numbers * min(passes, 2) + passes * work.users * work.dims,
        user=work.users * passes,
        listed=lists * n_chunks,
    )


def gpu_bytes(work: Work) -> float:
    """Return the memory of a GPU: the items, users and lists that it holds at a time."""
    items = 4.0 * work.items * work.dims
    if work.negatives is not None:
        return items + 0.5e9
    users = 4.0 * work.users * work.targets * work.dims
    return 3 * min(items, 4.0 * CHUNK) + 3.2 * min(users, 4.0 * BATCH) + 1.4e9


def predict_gpu(work: Work, gpus: int = 1, rates: GpuSeconds | None = None) -> GpuCost:
    """Return the predicted cost of a job on GPUs that share the users.

    Examples
    --------
    >>> one, eight = (predict_gpu(Work(10**8, 10**6), gpus).seconds for gpus in (1, 8))
    >>> 7.9 < one / eight <= 8
    True
    """
    check_at_least("gpus", gpus, 1)
    mine = replace(work, users=-(-work.users // gpus))
    width = 4.0 * (work.dims + work.targets + work.seen)
    return GpuCost(
        seconds=(rates or GPU).total(gpu_seconds(mine)),
        gpu_bytes=gpu_bytes(mine),
        host_bytes=4.0 * work.items * work.dims + work.users * width,
    )


def fit_gpu(runs: Sequence[tuple[Work, float]]) -> GpuSeconds:
    """Return the rates that come nearest to measured seconds of one GPU, by relative error."""
    return GpuSeconds(**fit_relative([(asdict(gpu_seconds(work)), taken) for work, taken in runs]))


#: Of one H200, fitted by ``python -m benchmarks.gpu_scale``; see benchmarks/results.
GPU = GpuSeconds(product=9.021e-15, fetch=9.786e-13, compare=3.687e-13, sent=1.038e-10, listed=1.782e-9)
