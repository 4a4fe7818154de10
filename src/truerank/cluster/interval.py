"""Bootstrap intervals whose resamples are drawn on an engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from truerank.cluster.bootstrap import resampled_means
from truerank.core.engine import Engine
from truerank.core.interval import Band, Interval
from truerank.core.progress import SILENT, Progress
from truerank.core.store import Store
from truerank.core.types import FloatArray
from truerank.inference.auto import Auto
from truerank.inference.bca import BCa

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
        asked = self.interval.chosen(len(values)) if isinstance(self.interval, Auto) else self.interval
        if not isinstance(asked, BCa) or len(values) < LEAST_USERS:
            return asked.band(values, level=level, seed=seed)

        def means(varying: FloatArray) -> FloatArray:
            return resampled_means(
                self.engine,
                varying,
                resamples=asked.resamples,
                seed=seed,
                work_dir=self.folder,
                progress=self.progress,
                store=self.store,
            )

        return asked.band(values, level=level, seed=seed, means=means)
