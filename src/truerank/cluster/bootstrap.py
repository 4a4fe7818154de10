"""Means of resampled users, the resamples being tasks."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from truerank.cluster.partial import Partial
from truerank.cluster.place import is_remote, join, map_array, write_array
from truerank.core.check import check_at_least
from truerank.core.engine import Engine, Job, Task
from truerank.core.errors import InvalidData
from truerank.core.progress import SILENT, Progress
from truerank.core.store import Store
from truerank.core.types import FloatArray
from truerank.engines import ENGINES
from truerank.inference.resample import resampled_means as means_of

#: Resamples of one task.
PER_TASK = 50


@dataclass(frozen=True)
class MeansJob(Job):
    """Means over users drawn with replacement.

    Parameters
    ----------
    values : .npy file of values per user, (n_users, n_columns)
    digest : of its contents
    seed, stage : resample b is drawn from the stream (seed, stage, b)
    """

    values: str
    digest: str
    seed: int
    stage: str

    @property
    def key(self) -> str:
        """Everything the means depend on."""
        return f"means {self.digest} {self.seed} {self.stage}"

    def open(self) -> FloatArray:
        """Map the values."""
        return map_array(self.values)

    def run(self, state: FloatArray, task: Task) -> bytes:
        """Return the means of some resamples; the task says which."""
        numbers = range(*task.payload)
        means = means_of(state, numbers, seed=self.seed, stage=self.stage, n_threads=1)
        return Partial({"means": means.ravel()}).pack()


def resampled_means(
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
    >>> resampled_means("local", np.array([[0.0, 1.0], [0.0, 1.0]]), resamples=3).tolist()
    [[0.0, 1.0], [0.0, 1.0], [0.0, 1.0]]
    """
    check_at_least("resamples", resamples, 1)
    values = np.ascontiguousarray(values, dtype=np.float64)
    if values.ndim != 2 or len(values) == 0:
        raise InvalidData(f"there must be values of at least one user, got shape {values.shape}.")
    digest = hashlib.blake2b(values.data, digest_size=12).hexdigest()
    with tempfile.TemporaryDirectory(prefix="truerank-work-") as own:
        folder = own if work_dir is None else str(work_dir)
        folder = folder if is_remote(folder) else str(Path(folder).resolve())
        place = join(folder, f"values-{digest}-{'x'.join(map(str, values.shape))}.npy")
        write_array(place, values)
        tasks = [
            Task(f"{start:09d}", (start, min(start + PER_TASK, resamples)), PER_TASK)
            for start in range(0, resamples, PER_TASK)
        ]
        job = MeansJob(place, f"{digest} {values.shape}", seed, stage)
        made = ENGINES.make(engine)
        found = made.map(job, tasks, label=f"resampling on {made.key}", progress=progress, store=store)
    means = [Partial.unpack(partial).arrays["means"] for partial in found.values()]
    return np.concatenate(means).reshape(resamples, values.shape[1])
