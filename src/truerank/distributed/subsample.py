"""Sub-samples of data that do not fit one machine: partitioned Parquet in, partitioned Parquet out.

The events kept are those that ``subsample`` keeps of the same data in one file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from truerank.core.checkpoint import Store, make_folder, remove_parts
from truerank.core.digest import content_digest
from truerank.core.errors import InvalidParameter, JobFailed, check_at_least
from truerank.core.interactions import Interactions
from truerank.core.progress import SILENT, Progress
from truerank.core.random import check_seed
from truerank.core.types import BoolArray
from truerank.distributed.engine import ENGINES, Engine, EngineTask, Job, started
from truerank.distributed.partitions import (
    EventCounts,
    Partition,
    count_events,
    file_digest,
    find_partitions,
    partition_file,
    read_partition,
    repartition_by_user,
    sum_counts,
    write_frame,
)
from truerank.distributed.selection import (
    LARGEST_KEY,
    ItemPlan,
    KeysJob,
    KeyThreshold,
    KeyWindow,
    LargestKeys,
    PartitionPlan,
    QuotaPerUser,
    check_distributable,
    event_keys,
    find_threshold,
    make_selection,
)
from truerank.distributed.storage import (
    PartialResult,
    fetch_bytes,
    is_remote,
    join,
    list_names,
    work_folder,
    write_bytes,
)
from truerank.subsampling.base import Strategy, check_fraction
from truerank.subsampling.importance import make_strategy
from truerank.subsampling.selection import EventKeys, keep_largest_of_each
from truerank.subsampling.subsample import SubsampleLoss, compare_counts, events_frame

_MARK = "_truerank.json"
_KIND = "truerank subsample"


@dataclass(frozen=True)
class SampledFiles:
    """Where a sub-sample was written, and what it lost.

    Parameters
    ----------
    out : the folder, with one file ``part-*.parquet`` per partition that had events
    n_files : number of these files
    loss : users, items and events before and after
    data_hash : digest of the files that were read: their names, sizes and times of change
    """

    out: str
    n_files: int
    loss: SubsampleLoss
    data_hash: str = ""


@dataclass(frozen=True)
class KeepJob(Job):
    """Select the events of each partition that are kept, and write them.

    Parameters
    ----------
    plan : what the driver has decided about users and items
    out : folder of the result
    stage, seed : random stream of the keys
    by : what decides within a user (see `QuotaPerUser`); None keeps by the threshold
    threshold, item : the key from which on events are kept, among all events or those of one item
    types : dtypes of ratings and times, the same in all files
    """

    plan: PartitionPlan
    out: str
    stage: str
    seed: int
    by: str | None = None
    threshold: KeyThreshold = KeyThreshold(LARGEST_KEY)  # noqa: RUF009 - frozen
    item: int | None = None
    types: tuple[str | None, str | None] = (None, None)

    @property
    def key(self) -> str:
        """Everything the result depends on."""
        return f"keep {self.plan.folder} {self.plan.digest} {self.out}"

    def open(self) -> ItemPlan:
        """Read the items, which all partitions share."""
        return self.plan.open()

    def run(self, state: ItemPlan, task: EngineTask) -> bytes:
        """Select and write the events of one partition."""
        number, partition, seal = task.payload
        mask, kept = self._kept(state, number, partition, seal)
        types = zip(("value", "time"), self.types, strict=True)
        typed = {name: getattr(kept, name).astype(dtype) for name, dtype in types if dtype is not None}
        place = partition_file(self.out, "part", number)
        write_frame(place, events_frame(replace(kept, **typed)), what="the sub-sample")
        counts = kept.item_counts()
        listed = np.flatnonzero(counts)
        left = pl.DataFrame({"id": listed, "n": counts[listed]})
        left_seal = write_frame(partition_file(self.plan.folder, f"left-{self.plan.digest}", number), left)
        lengths, times = np.unique(kept.user_counts(), return_counts=True)
        facts = {"n_events": int(mask.sum()), "left": left_seal}
        return PartialResult({"lengths": lengths, "times": times}, facts).pack()

    def _kept(
        self, item_plan: ItemPlan, number: int, partition: Partition, seal: str
    ) -> tuple[BoolArray, Interactions]:
        events, coded = self.plan.read(item_plan, number, partition, seal)
        keys = EventKeys(coded, self.seed, self.stage)
        if self.by is not None:
            scores: Any = np.zeros(len(events))
            if self.by != "user":
                scores = events.time if self.by == "time" else keys.all()
            mask = keep_largest_of_each(events.user, self.plan.quota(number, seal), scores, keys)
        else:
            mask = item_plan.whole[events.item]
            rows, words = event_keys(coded, self.seed, self.stage, self.item)
            mask[rows[words > np.uint64(self.threshold.key)]] = True
            n_level = dict(self.threshold.at).get(number, 0)
            mask[rows[words == np.uint64(self.threshold.key)][:n_level]] = True
        return mask, events.where(mask)


def subsample_files(
    source: str | Path,
    out: str | Path,
    strategy: str | Strategy,
    fraction: float,
    *,
    engine: str | Engine = "local",
    columns: Mapping[str, str] | None = None,
    duplicates: str = "last",
    gather: int | None = None,
    seed: int = 0,
    work_dir: str | Path | None = None,
    progress: Progress = SILENT,
    tell: Callable[[str], None] | None = None,
) -> SampledFiles:
    """Keep a fraction of the events in partitioned Parquet; the events kept are those of ``subsample``.

    Workers read and write one partition at a time. The driver holds one count per user and per item, and no
    events.

    Parameters
    ----------
    source : a folder, a pattern or a URL of Parquet files; each file is a partition, and all events of a
        user must lie in one
    out : an empty or a new folder, or a URL
    strategy : ``random``, ``stratified``, ``temporal``, ``random-user``, ``head-user``, ``random-item`` or
        ``head-item``; the others need all events at once
    fraction : fraction of the events to keep, 0 to 1
    engine : where the work is done: ``local(threads=2)``, ``dask(address=tcp://host:8786)``, ...
    columns, duplicates : as in ``read_interactions``
    gather : first write the events into this many partitions of whole users; for files in which users are
        spread, and for files too large for a worker
    seed : of everything random
    work_dir : folder or URL that all workers can read and write, for counts and repartitioned events.
        None takes a temporary folder of this machine.
    progress : where finished files are reported
    tell : called with the choice of columns

    Raises
    ------
    InvalidData
        When a user has events in several files, or a file cannot be read.
    InvalidParameter
        When the strategy needs all events at once, or ``out`` is not empty.
    """
    chosen, made = make_strategy(strategy), ENGINES.make(engine)
    check_fraction(fraction)
    check_seed(seed)
    check_distributable(chosen)
    if gather is not None:
        check_at_least("gather", gather, 1)
    layout, partitions = find_partitions(str(source), columns, duplicates)
    if tell is not None:
        tell(f"columns of {len(partitions)} files at {source}: {layout.columns}")
    target = str(out) if is_remote(str(out)) else str(Path(out).resolve())
    request = f"{chosen} {fraction!r} {seed}"
    _check_free(target, request)
    with work_folder(work_dir) as folder, started(made) as running:
        digest = data_hash = file_digest(layout, partitions)
        if gather is not None:
            digest = f"{digest}-{gather}"
        plan_folder = join(folder, f"truerank-{digest}")
        # in a folder that stays, counts are found again by the next run
        kept = None if work_dir is None or is_remote(folder) else Store(Path(plan_folder) / "partials")
        if gather is not None:
            partitions = repartition_by_user(
                running, layout, partitions, gather, plan_folder, progress=progress, store=kept
            )
        counted = count_events(
            running, layout, partitions, plan_folder, digest, progress=progress, store=kept
        )
        request_digest = content_digest([request], size=6)
        plan = PartitionPlan(layout, plan_folder, request_digest)
        _mark(target, {"done": False, "asked": request})
        loss = _keep(running, chosen, fraction, seed, counted, plan, partitions, target, progress)
        _check_written(target, counted)
    _mark(target, {"done": True, "asked": request, **loss.to_dict()})
    return SampledFiles(target, len(counted.parts), loss, data_hash)


def _keep(
    engine: Engine,
    strategy: Strategy,
    fraction: float,
    seed: int,
    counted: EventCounts,
    plan: PartitionPlan,
    partitions: Sequence[Partition],
    out: str,
    progress: Progress,
) -> SubsampleLoss:
    """Select and write the events, and count what is left."""
    selection = make_selection(strategy, counted, float(fraction), seed)
    plan, seals = plan.write(counted, selection)
    tasks = [
        EngineTask(f"{number:06d}", (number, partitions[number], seals[number])) for number in counted.parts
    ]
    job = KeepJob(plan, out, selection.stage, seed, types=(counted.value, counted.time))
    if isinstance(selection, QuotaPerUser):
        job = replace(job, by=selection.by)
    elif isinstance(selection, LargestKeys):
        keys_job = KeysJob(plan, selection.stage, seed, selection.item, KeyWindow())
        threshold = find_threshold(
            engine, keys_job, tasks, selection.n_keep, selection.n_events, progress=progress
        )
        job = replace(job, threshold=threshold, item=selection.item)
    packed = engine.map(job, tasks, label=f"writing on {engine.key}, files", progress=progress)
    partials = [PartialResult.unpack(partial) for partial in packed.values()]
    lengths = [np.repeat(one.arrays["lengths"], one.arrays["times"]) for one in partials]
    left = sum_counts(
        read_partition(partition_file(plan.folder, f"left-{plan.digest}", part), one.facts["left"])
        for part, one in zip(counted.parts, partials, strict=True)
    )
    items = np.zeros(counted.items.height, np.int64)
    items[left["id"].to_numpy()] = left["n"].to_numpy()
    return compare_counts(
        (counted.user_counts, counted.item_counts),
        (np.concatenate(lengths), items),
        strategy=str(strategy),
        fraction=fraction,
        seed=seed,
    )


def _check_free(out: str, request: str) -> None:
    """Raise unless the output folder is empty or holds the same sub-sample, unfinished."""
    if not is_remote(out):
        remove_parts(Path(out))
    names, marker = list_names(out), None
    if _MARK in names:
        with suppress(ValueError):
            marker = json.loads(fetch_bytes(join(out, _MARK)))
    is_begun = isinstance(marker, dict) and marker.get("kind") == _KIND and not marker.get("done")
    if names and not (is_begun and marker is not None and marker.get("asked") == request):
        raise InvalidParameter(
            f"the sub-sample must be written to an empty or a new folder, but '{out}' holds "
            f"{names[0]!r}. Choose another one, or empty it."
        )
    if not is_remote(out):
        make_folder(Path(out), "the sub-sample")


def _check_written(out: str, counted: EventCounts) -> None:
    """Raise unless the files that the workers wrote are visible to the driver."""
    names = set(list_names(out))
    missing = [part for part in counted.parts if Path(partition_file("", "part", part)).name not in names]
    if missing:
        raise JobFailed(
            f"workers must write to '{out}' where the driver sees it, but {len(missing)} of "
            f"{len(counted.parts)} files are not there. Name a folder that all machines share, or a URL."
        )


def _mark(out: str, about: Mapping[str, Any]) -> None:
    """Write what the folder holds, and whether it is complete."""
    text = json.dumps({"kind": _KIND, **about}, indent=2)
    write_bytes(join(out, _MARK), text.encode(), what="the sub-sample")
