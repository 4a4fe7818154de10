"""The random key from which on events are kept, found without bringing the keys of all events together.

Keys are uniform, so the k-th largest of n lies near 1 - k/n of their range. Workers count what lies above
a narrow window around that place and send the keys within: some ten times the square root of n.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from truerank.cluster.drawing import Coded
from truerank.cluster.partial import Partial
from truerank.cluster.worksheet import Sheet, Worksheet
from truerank.core.engine import Engine, Job, Task
from truerank.core.progress import SILENT, Progress
from truerank.core.types import IntArray
from truerank.subsample.key import EventKeys, Keys

LAST = (1 << 64) - 1
#: Half the window, in standard deviations of the place of the cut; and what small numbers of events add.
DEVIATIONS, ADDED = 8.0, 64.0


@dataclass(frozen=True)
class Window:
    """Keys from low to high, both included.

    Examples
    --------
    >>> Window.around(500, 1000, 1.0).high == LAST, Window.around(10**8, 10**10, 1.0).width < 1e-4
    (True, True)
    """

    low: int = 0
    high: int = LAST

    @classmethod
    def around(cls, n_keep: int, n_events: int, times: float) -> Window:
        """Return where the key of the last kept event lies, nearly surely with ``times`` = 1."""
        share = 1 - n_keep / n_events
        half = times * (DEVIATIONS * math.sqrt(share * (1 - share) / n_events) + ADDED / n_events)
        low, high = max(0.0, share - half), min(1.0, share + half)
        if high - low > 0.1:
            return cls()
        return cls(int(low * 2.0**64), min(LAST, int(high * 2.0**64)))

    @property
    def width(self) -> float:
        """As a share of all keys."""
        return (self.high - self.low) / LAST


@dataclass(frozen=True)
class Cut:
    """Which keys are kept: those above, and of those at the cut so many of each partition.

    Parameters
    ----------
    key : the cut
    at : by partition, how many events at the cut are kept; usually there is one such event
    """

    key: int
    at: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class KeysJob(Job):
    """Send the keys within a window, and how many lie above it."""

    sheet: Worksheet
    stage: str
    seed: int
    item: int | None
    window: Window

    @property
    def key(self) -> str:
        """Everything the keys depend on."""
        return (
            f"keys {self.sheet.folder} {self.sheet.digest} {self.stage} {self.seed} {self.item} {self.window}"
        )

    def open(self) -> Sheet:
        """Open what all partitions share."""
        return self.sheet.open()

    def run(self, state: Sheet, task: Task) -> bytes:
        """Look at one partition."""
        _, coded = self.sheet.read(state, *task.payload)
        _, keys = keys_of(coded, self.seed, self.stage, self.item)
        above = int((keys > np.uint64(self.window.high)).sum())
        inside = keys[(keys >= np.uint64(self.window.low)) & (keys <= np.uint64(self.window.high))]
        return Partial({"keys": np.sort(inside).view(np.int64)}, {"above": above}).pack()


def keys_of(coded: Coded, seed: int, stage: str, item: int | None) -> tuple[IntArray, Keys]:
    """Return the rows that keys decide about, and their keys: all events, or those of one item."""
    keys = EventKeys(coded, seed, stage)
    if item is None:
        return np.arange(len(coded.user)), keys.all()
    rows = np.flatnonzero(coded.item == item)
    return rows, keys.of(rows)


def find_cut(
    engine: Engine,
    job: KeysJob,
    tasks: Sequence[Task],
    n_keep: int,
    n_events: int,
    *,
    progress: Progress = SILENT,
) -> Cut:
    """Return the cut above and at which ``n_keep`` of ``n_events`` keys lie."""
    if n_keep == 0:
        return Cut(LAST)
    times = 1.0
    while True:
        window = Window.around(n_keep, n_events, times)
        asked = replace(job, window=window)
        found = engine.map(asked, tasks, label=f"drawing on {engine.key}, files", progress=progress)
        partials = [Partial.unpack(partial) for partial in found.values()]
        above = sum(one.facts["above"] for one in partials)
        keys = [one.arrays["keys"].view(np.uint64) for one in partials]
        if above < n_keep <= above + sum(map(len, keys)):
            break
        times *= 64  # keys that are not uniform: look at more of them
    inside = np.sort(np.concatenate(keys))
    cut = inside[len(inside) - (n_keep - above)]
    missing = n_keep - above - int((inside > cut).sum())
    at = []
    for task, own in zip(tasks, keys, strict=True):
        taken = min(missing, int((own == cut).sum()))
        missing -= taken
        if taken:
            at.append((int(task.payload[0]), taken))
    return Cut(int(cut), tuple(at))
