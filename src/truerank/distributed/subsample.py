"""Sub-samples of data that no machine holds: partitioned Parquet in, partitioned Parquet out."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from truerank.core.checkpoint import Store
from truerank.core.digest import content_digest
from truerank.core.errors import InvalidParameter, JobFailed, check_at_least
from truerank.core.interactions import Interactions
from truerank.core.progress import SILENT, Progress
from truerank.core.random import check_seed
from truerank.core.types import BoolArray
from truerank.distributed.draw import (
    LAST,
    Cut,
    KeysJob,
    OfAll,
    OfEach,
    SelectionRule,
    Window,
    Worksheet,
    check_possible,
    find_cut,
    keys_of,
    make_drawing,
)
from truerank.distributed.engine import ENGINES, Engine, EngineTask, Job, started
from truerank.distributed.partitions import (
    Census,
    Partition,
    add_up,
    count,
    file_digest,
    find_partitions,
    gather_users,
    part_of,
    read_partition,
    write_frame,
)
from truerank.distributed.storage import (
    Partial,
    fetch_bytes,
    is_remote,
    join,
    names_in,
    work_folder,
    write_bytes,
)
from truerank.subsampling.base import Strategy, check_fraction
from truerank.subsampling.importance import make_strategy
from truerank.subsampling.selection import EventKeys, keep_largest_of_each
from truerank.subsampling.subsample import Loss, compare_counts, events_frame

_MARK = "_truerank.json"
_KIND = "truerank subsample"


@dataclass(frozen=True)
class SampledFiles:
    """A sub-sample in files.

    Parameters
    ----------
    out : the folder, with one file ``part-*.parquet`` per partition that had events
    n_files : how many
    loss : what was there and what is left
    """

    out: str
    n_files: int
    loss: Loss


@dataclass(frozen=True)
class KeepJob(Job):
    """Keep some events of each partition and write them.

    Parameters
    ----------
    sheet : what the driver has decided about users and items
    out : folder of the result
    stage, seed : of the random keys
    by : what decides within a user (see `OfEach`); None decides by the cut
    cut, item : the key from which on events are kept, all events or those of one item
    types : of ratings and times, the same in all files
    """

    sheet: Worksheet
    out: str
    stage: str
    seed: int
    by: str | None = None
    cut: Cut = Cut(LAST)  # noqa: RUF009 - frozen
    item: int | None = None
    types: tuple[str | None, str | None] = (None, None)

    @property
    def key(self) -> str:
        """Everything the result depends on."""
        return f"keep {self.sheet.folder} {self.sheet.digest} {self.out}"

    def open(self) -> SelectionRule:
        """Open what all partitions share."""
        return self.sheet.open()

    def run(self, state: SelectionRule, task: EngineTask) -> bytes:
        """Keep some events of one partition."""
        number, partition = task.payload
        mask, kept = self._kept(state, number, partition)
        types = zip(("value", "time"), self.types, strict=True)
        held = {name: getattr(kept, name).astype(dtype) for name, dtype in types if dtype is not None}
        write_frame(part_of(self.out, "part", number), events_frame(replace(kept, **held)))
        counts = kept.item_counts()
        listed = np.flatnonzero(counts)
        left = pl.DataFrame({"id": listed, "n": counts[listed]})
        write_frame(part_of(self.sheet.folder, f"left-{self.sheet.digest}", number), left)
        lengths, times = np.unique(kept.user_counts(), return_counts=True)
        return Partial({"lengths": lengths, "times": times}, {"n_events": int(mask.sum())}).pack()

    def _kept(
        self, sheet: SelectionRule, number: int, partition: Partition
    ) -> tuple[BoolArray, Interactions]:
        events, coded = self.sheet.read(sheet, number, partition)
        keys = EventKeys(coded, self.seed, self.stage)
        if self.by is not None:
            scores: Any = np.zeros(len(events))
            if self.by != "user":
                scores = events.time if self.by == "time" else keys.all()
            mask = keep_largest_of_each(events.user, self.sheet.quota(number), scores, keys)
        else:
            mask = sheet.whole[events.item]
            rows, words = keys_of(coded, self.seed, self.stage, self.item)
            mask[rows[words > np.uint64(self.cut.key)]] = True
            n_level = dict(self.cut.at).get(number, 0)
            mask[rows[words == np.uint64(self.cut.key)][:n_level]] = True
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

    Workers read and write one partition at a time. The driver sees counts, one per user and per item, and
    never an event.

    Parameters
    ----------
    source : a folder, a pattern or a URL of Parquet files; each file is a partition, and all events of a
        user must lie in one
    out : an empty or a new folder, or a URL
    strategy : ``random``, ``stratified``, ``temporal``, ``random-user``, ``head-user``, ``random-item`` or
        ``head-item``; the others need all events at once
    fraction : share of the events to keep, 0 to 1
    engine : where the work is done: ``local(threads=2)``, ``dask(address=tcp://host:8786)``, ...
    columns, duplicates : as in ``read_interactions``
    gather : write the events anew first, in so many partitions that hold whole users; for files that do not,
        and for files too large for a worker
    seed : of everything random
    work_dir : for counts, and for gathered events: a folder or URL that all workers can read and write.
        None takes a folder of this machine and removes it.
    progress : where files are reported
    tell : called with the choice of columns

    Raises
    ------
    InvalidData
        When users lie in several files, or a file cannot be read.
    InvalidParameter
        When the strategy needs all events at once, or there is something else at ``out``.
    """
    chosen, made = make_strategy(strategy), ENGINES.make(engine)
    check_fraction(fraction)
    check_seed(seed)
    check_possible(chosen)
    if gather is not None:
        check_at_least("gather", gather, 1)
    layout, partitions = find_partitions(str(source), columns, duplicates)
    if tell is not None:
        tell(f"columns of {len(partitions)} files at {source}: {layout.columns}")
    target = str(out) if is_remote(str(out)) else str(Path(out).resolve())
    asked = f"{chosen} {fraction!r} {seed}"
    _check_free(target, asked)
    with work_folder(work_dir) as folder, started(made) as running:
        digest = file_digest(layout, partitions)
        if gather is not None:
            digest = f"{digest}-{gather}"
        place = join(folder, f"truerank-{digest}")
        # counts are found again in a folder that stays
        kept = None if work_dir is None or is_remote(folder) else Store(Path(place) / "partials")
        if gather is not None:
            partitions = gather_users(
                running, layout, partitions, gather, place, progress=progress, store=kept
            )
        census = count(running, layout, partitions, place, digest, progress=progress, store=kept)
        drawn = content_digest([asked], size=6)
        sheet = Worksheet(layout, place, drawn)
        _mark(target, {"done": False, "asked": asked})
        loss = _keep(running, chosen, fraction, seed, census, sheet, partitions, target, progress)
        _check_written(target, census)
    _mark(target, {"done": True, "asked": asked, **loss.to_dict()})
    return SampledFiles(target, len(census.parts), loss)


def _keep(
    engine: Engine,
    strategy: Strategy,
    fraction: float,
    seed: int,
    census: Census,
    sheet: Worksheet,
    partitions: Sequence[Partition],
    out: str,
    progress: Progress,
) -> Loss:
    """Draw, write, and count what is left."""
    drawing = make_drawing(strategy, census, float(fraction), seed)
    sheet.write(census, drawing)
    tasks = [EngineTask(f"{number:06d}", (number, partitions[number])) for number in census.parts]
    job = KeepJob(sheet, out, drawing.stage, seed, types=(census.value, census.time))
    if isinstance(drawing, OfEach):
        job = replace(job, by=drawing.by)
    elif isinstance(drawing, OfAll):
        asking = KeysJob(sheet, drawing.stage, seed, drawing.item, Window())
        cut = find_cut(engine, asking, tasks, drawing.n_keep, drawing.n_events, progress=progress)
        job = replace(job, cut=cut, item=drawing.item)
    found = engine.map(job, tasks, label=f"writing on {engine.key}, files", progress=progress)
    partials = [Partial.unpack(partial) for partial in found.values()]
    lengths = [np.repeat(one.arrays["lengths"], one.arrays["times"]) for one in partials]
    left = add_up(
        read_partition(part_of(sheet.folder, f"left-{sheet.digest}", part)) for part in census.parts
    )
    items = np.zeros(census.items.height, np.int64)
    items[left["id"].to_numpy()] = left["n"].to_numpy()
    return compare_counts(
        (census.user_counts, census.item_counts),
        (np.concatenate(lengths), items),
        strategy=str(strategy),
        fraction=fraction,
        seed=seed,
    )


def _check_free(out: str, asked: str) -> None:
    """Raise when there is something at the place of the result; the same draw, unfinished, does not count."""
    names, held = names_in(out), None
    if _MARK in names:
        with suppress(ValueError):
            held = json.loads(fetch_bytes(join(out, _MARK)))
    is_begun = isinstance(held, dict) and held.get("kind") == _KIND and not held.get("done")
    if names and not (is_begun and held is not None and held.get("asked") == asked):
        raise InvalidParameter(
            f"the sub-sample must be written to an empty or a new folder, but '{out}' holds "
            f"{names[0]!r}. Choose another one, or empty it."
        )
    if not is_remote(out):
        try:
            Path(out).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidParameter(
                f"the sub-sample must be written to a folder, but '{out}' cannot be made one "
                f"({error.strerror}). Choose another place."
            ) from None


def _check_written(out: str, census: Census) -> None:
    """Raise unless the driver sees what the workers wrote."""
    names = set(names_in(out))
    missing = [part for part in census.parts if Path(part_of("", "part", part)).name not in names]
    if missing:
        raise JobFailed(
            f"workers must write to '{out}' where the driver sees it, but {len(missing)} of "
            f"{len(census.parts)} files are not there. Name a folder that all machines share, or a URL."
        )


def _mark(out: str, about: Mapping[str, Any]) -> None:
    """Write what the folder holds, and whether it is whole."""
    text = json.dumps({"kind": _KIND, **about}, indent=2)
    write_bytes(join(out, _MARK), text.encode(), what="the folder of the sub-sample")
