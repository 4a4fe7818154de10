"""What a job costs on GPUs: seconds and memory of each.

Rates are those of one H200, fitted by ``python -m benchmarks.gpu_scale`` to runs whose vectors and lists came
from the memory of the host. Several GPUs share the users; each holds, or is sent, all items.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from truerank.cluster.cost import Work, fit_relative
from truerank.core.check import check_at_least

#: Numbers of item vectors that are on a GPU at a time in exact ranks; with more, users are sent per chunk.
CHUNK = 1 << 27


@dataclass(frozen=True)
class GpuSeconds:
    """Seconds of one GPU per unit; as counts, how many units a job has.

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
    """What a job will take.

    Parameters
    ----------
    seconds : from start to end
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
    """Return the memory of a GPU: what is there at a time of items, users and lists."""
    items = 4.0 * work.items * work.dims
    if work.negatives is not None:
        return items + 1.3e9
    return 3 * min(items, 4.0 * CHUNK) + 1.5e9


def predict_gpu(work: Work, gpus: int = 1, rates: GpuSeconds | None = None) -> GpuCost:
    """Return what a job will take on GPUs that share the users.

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
GPU = GpuSeconds(product=1.113e-14, fetch=3.462e-12, compare=2.258e-13, sent=5.423e-10, listed=4.769e-9)
