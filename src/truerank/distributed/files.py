"""Files from which workers rank users: users with targets and vectors in Parquet, item vectors as arrays.

`Files` names them, `write_files` writes them from a split and a scorer, `read_block` reads a slice of users,
and `rows_per_task` chooses how many users a task gets. Files that a run has written are opened with their
digests; a scorer travels as a model file, and only one that is not made of arrays as a pickle
(`distributed.sealed`).
"""

from __future__ import annotations

import io
import itertools
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import polars as pl

from truerank.core.checkpoint import clear_place
from truerank.core.digest import content_digest
from truerank.core.errors import DataWarning, InvalidData, InvalidParameter
from truerank.core.interactions import Interactions, Lists, Vocabulary
from truerank.core.plugin import Plugin
from truerank.core.ranks import SeenPolicy
from truerank.core.scorer import HasFactors, Scorer, check_scorer
from truerank.core.split import Split
from truerank.core.types import AnyArray, FloatArray, IntArray
from truerank.distributed.engine import EngineTask
from truerank.distributed.sealed import SealedPickle, write_pickle
from truerank.distributed.storage import (
    UNREADABLE,
    array_bytes,
    checked,
    exists,
    fetch_bytes,
    for_polars,
    is_intact,
    is_remote,
    join,
    map_array,
    parquet_files,
    seal_of,
    unreadable_file,
    version_stamp,
    write_bytes,
)
from truerank.models.saved_scorer import load_scorer, pack_scorer, scorer_bytes
from truerank.ranking.exact import Queries, make_queries

#: What polars raises beside the errors of files.
_BROKEN = (*UNREADABLE, pl.exceptions.PolarsError)
COLUMNS = ("user", "targets", "seen", "vector", "id")


@dataclass(frozen=True)
class Files:
    """A model and its test users as files that all workers can read; they need not fit into one machine.

    Parameters
    ----------
    users : a Parquet file, a folder or a pattern of such files, or several. One row per user: ``user`` (an
        integer of its own, which determines its random samples), ``targets`` (list of item codes), and
        perhaps ``seen`` (list of item codes), ``vector`` (list of numbers, for models that are dot products)
        and ``id`` (name of the user in messages)
    items : .npy file of item vectors, (n_items, d); every worker maps it
    item_bias : .npy file of biases, (n_items,), or None
    item_counts : .npy file of train events per item, (n_items,); only popularity sampling needs it
    scorer : model file, as ``save_scorer`` writes it, for models that are no dot products
    is_thread_safe : whether that scorer may be called from several threads
    n_items : size of the catalogue, where there are no item vectors
    n_test_users : number of test users that these were sampled from; None when these are all
    name : name of the data in results
    digest : of the contents; None takes size and time of each file instead
    seals : digests of files by their names, without which these are not opened; of files that were written by
        ``write_files``
    pickled : in place of ``scorer``, for models that are not made of arrays; made by ``write_files`` only
    """

    users: str | tuple[str, ...]
    items: str | None = None
    item_bias: str | None = None
    item_counts: str | None = None
    scorer: str | None = None
    is_thread_safe: bool = False
    n_items: int | None = None
    n_test_users: int | None = None
    name: str = "data"
    digest: str | None = None
    seals: Mapping[str, str] = field(default_factory=dict, repr=False)
    pickled: SealedPickle | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if sum(one is not None for one in (self.items, self.scorer, self.pickled)) != 1:
            raise InvalidParameter(
                "a model must be given by item vectors or by a model file, one of the two. "
                "Name the .npy file of the vectors in items."
            )
        if self.items is None and self.n_items is None:
            raise InvalidParameter("n_items must be given with a scorer: the size of the catalogue.")

    def seal(self, path: str) -> str | None:
        """Return the digest that a file must have; None where it is not known."""
        return self.seals.get(path.replace("\\", "/").rpartition("/")[2])

    def for_job(self) -> Files:
        """Return what a job needs beside its tasks, which name their own files; it is sent with each task."""
        shared = [path for path in (self.items, self.item_bias, self.item_counts, self.scorer) if path]
        names = {path.replace("\\", "/").rpartition("/")[2] for path in shared}
        return replace(self, users=(), seals={name: self.seals[name] for name in names & set(self.seals)})

    def map(self, path: str) -> AnyArray:
        """Return one of the arrays."""
        return map_array(path, self.seal(path))

    def load_scorer(self) -> Scorer:
        """Return the scorer of a model that is no dot product."""
        if self.pickled is not None:
            scorer: Scorer = self.pickled.load()
            return scorer
        place = str(self.scorer)
        return load_scorer(Path(checked(place, self.seal(place)))).scorer

    @cached_property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """The Parquet files, with the number of rows of each."""
        paths_given = (self.users,) if isinstance(self.users, str) else self.users
        paths = [path for place in paths_given for path in parquet_files(place)]
        return tuple((path, _n_rows(path, self.seal(path))) for path in paths)

    @property
    def n_rows(self) -> int:
        """Number of users in all files."""
        return sum(rows for _, rows in self.parts)

    @cached_property
    def size(self) -> int:
        """Number of items in the catalogue."""
        return int(self.n_items) if self.items is None else len(self.map(self.items))  # type: ignore[arg-type]

    @property
    def key(self) -> str:
        """A digest of all files."""
        untold = ("name", "seals", "pickled")
        known = {name: value for name, value in asdict(self).items() if name not in untold}
        if self.digest is None:
            others = (self.items, self.item_bias, self.item_counts, self.scorer)
            paths = [path for path, _ in self.parts] + [one for one in others if one is not None]
            known["stamps"] = [[place, version_stamp(place)] for place in paths]
        else:
            known = {"digest": self.digest, "n_test_users": self.n_test_users}
        text = json.dumps(known, sort_keys=True)
        return content_digest([text])


@dataclass(frozen=True)
class RowSlice:
    """Rows start..start+n_rows-1 of one Parquet file, with the digest of the file where it is known."""

    path: str
    start: int
    n_rows: int
    seal: str | None = None


def slice_tasks(files: Files, rows: int) -> list[EngineTask]:
    """Return the tasks: slices of at most ``rows`` users, of nearly equal size within a file."""
    tasks = []
    for part, (path, n_rows) in enumerate(files.parts):
        n_slices = -(-n_rows // rows)
        bounds = [n_rows * index // max(1, n_slices) for index in range(n_slices + 1)]
        for start, stop in itertools.pairwise(bounds):
            name = f"{part:05d}-{start:09d}-{stop:09d}"  # the same for every task size
            piece = RowSlice(path, start, stop - start, files.seal(path))
            tasks.append(EngineTask(name, piece, stop - start))
    return tasks


@dataclass(frozen=True, eq=False)
class UserBlock:
    """A block of users: their codes in the whole data, their events under codes 0..n-1, and their vectors."""

    codes: IntArray
    split: Split
    vectors: FloatArray | None
    n_without_targets: int


@dataclass(frozen=True, eq=False)
class EventsWithItemCounts(Interactions):
    """Seen events of a few users, with the number of train events of all users per item."""

    counts: IntArray | None = None

    def item_counts(self) -> IntArray:
        """Return the number of train events per item."""
        if self.counts is None:
            raise InvalidData(
                "popularity sampling needs the number of train events per item, but there is none. "
                "Name a .npy file with them in item_counts."
            )
        return self.counts


def read_block(
    files: Files, piece: RowSlice, items: Vocabulary, counts: IntArray | None, *, n_dims: int | None
) -> UserBlock:
    """Read a slice of users.

    Parameters
    ----------
    files, piece : which rows of which file to read
    items : the catalogue
    counts : train events per item, if known
    n_dims : length of the item vectors; None reads no vectors
    """
    frame = _read(piece)
    _check_columns(frame, piece.path, n_dims)
    lengths = _lengths(frame, "targets")
    frame = frame.filter(pl.Series(lengths > 0))
    codes = frame["user"].to_numpy().astype(np.int64)
    users = Vocabulary((frame["id"] if "id" in frame.columns else frame["user"]).rename("id"))
    seen = _events(frame, "seen", users, items, counts)
    test = _events(frame, "targets", users, items, None)
    split = Split(seen, test, n_test_users=files.n_test_users)
    vectors = None if n_dims is None else _vectors(frame["vector"], n_dims, piece.path)
    return UserBlock(codes, split, vectors, int((lengths == 0).sum()))


def _read(piece: RowSlice) -> pl.DataFrame:
    try:
        scanned = pl.scan_parquet(for_polars(piece.path, piece.seal))
        names = [name for name in scanned.collect_schema().names() if name in COLUMNS]
        return scanned.slice(piece.start, piece.n_rows).select(names).collect()
    except _BROKEN as error:
        raise unreadable_file(piece.path, error) from None


def _n_rows(path: str, seal: str | None) -> int:
    try:
        return int(pl.scan_parquet(for_polars(path, seal)).select(pl.len()).collect().item())
    except _BROKEN as error:
        raise unreadable_file(path, error) from None


def _check_columns(frame: pl.DataFrame, path: str, n_dims: int | None) -> None:
    needed = ("user", "targets") if n_dims is None else ("user", "targets", "vector")
    missing = [name for name in needed if name not in frame.columns]
    if missing:
        raise InvalidData(f"'{path}' must have columns {', '.join(needed)}, it lacks {', '.join(missing)}.")
    if not frame["user"].dtype.is_integer() or frame["user"].null_count():
        raise InvalidData(
            f"user must be an integer in each row of '{path}', it is {frame['user'].dtype} with "
            f"{frame['user'].null_count()} empty. Number the users and keep their names in a column id."
        )


def _lengths(frame: pl.DataFrame, column: str) -> IntArray:
    return frame[column].list.len().fill_null(0).to_numpy().astype(np.int64)


def _events(
    frame: pl.DataFrame, column: str, users: Vocabulary, items: Vocabulary, counts: IntArray | None
) -> EventsWithItemCounts:
    lengths: IntArray = np.zeros(len(frame), np.int64)
    codes: IntArray = np.zeros(0, np.int32)
    if column in frame.columns:
        lengths = _lengths(frame, column)
        flat = frame[column].filter(pl.Series(lengths > 0)).explode()
        if flat.null_count():
            raise InvalidData(f"lists of {column} must not hold nulls. Drop them.")
        if len(flat):
            codes = flat.to_numpy()
    user = np.repeat(np.arange(len(frame), dtype=np.int32), lengths)
    return EventsWithItemCounts(user, codes, users, items, counts=counts)


def _vectors(column: pl.Series, n_dims: int, path: str) -> FloatArray:
    if isinstance(column.dtype, pl.List):
        widths = column.list.len()
        if column.null_count() or not (widths == n_dims).all():
            raise InvalidData(
                f"each vector in '{path}' must have {n_dims} numbers like those of the items, "
                f"they have {widths.unique().sort().to_list()[:5]}."
            )
        column = column.list.to_array(n_dims)
    array = column.to_numpy()
    if array.ndim != 2 or array.shape[1] != n_dims:
        raise InvalidData(f"vectors in '{path}' must have {n_dims} numbers, got {column.dtype}.")
    kept = array.dtype if array.dtype in (np.float32, np.float64) else np.float64
    vectors: FloatArray = np.ascontiguousarray(array, dtype=kept)
    return vectors


#: Users in one Parquet file, and in one of its row groups.
FILE_ROWS, GROUP_ROWS = 1 << 18, 1 << 12


#: In the folder of ``write_files``: written last, with the digests of all files.
MANIFEST = "complete.json"


def write_files(
    work_dir: str, scorer: Scorer, split: Split, seen: SeenPolicy, *, private: str | None = None
) -> Files:
    """Write what workers need to rank the test users of a split, and return the names of the files.

    The folder within ``work_dir`` is named by a digest of the contents. Files that are there and have the
    right contents are not written again; others, in a folder that was once complete, are written anew with a
    warning.

    Parameters
    ----------
    work_dir : a folder or URL that all workers can read
    scorer, split, seen : the model, and the users and items that it ranks
    private : a folder of this run only, from ``private_folder``, for a scorer that must be pickled; None
        refuses such a scorer

    Raises
    ------
    InvalidParameter
        When the scorer is not made of arrays, and cannot be pickled or has no private folder.
    """
    check_scorer(scorer, split)
    queries = make_queries(split, seen)
    factors = scorer.factors() if isinstance(scorer, HasFactors) else None
    vectors = None if factors is None else factors.user
    counts = split.train.item_counts()
    arrays: dict[str, AnyArray | None] = {"vectors": vectors, "counts": counts}
    contents: dict[str, Callable[[], bytes]] = {
        f"users-{part:05d}.parquet": partial(_user_bytes, queries, part, split, vectors)
        for part in range(_n_files(queries))
    }
    contents["item_counts.npy"] = partial(array_bytes, counts)
    pickled: SealedPickle | None = None
    kind = ""
    if factors is not None:
        arrays |= {"items": factors.item, "bias": factors.item_bias}
        contents["items.npy"] = partial(array_bytes, factors.item)
        if factors.item_bias is not None:
            contents["item_bias.npy"] = partial(array_bytes, factors.item_bias)
    elif is_made_of_arrays(scorer):
        kind, parts = pack_scorer(scorer)
        arrays |= parts
        contents["scorer.truerank"] = partial(scorer_bytes, scorer)
    else:
        pickled = _pickled(scorer, private)
        kind = seal_of(fetch_bytes(pickled.path))
    digest = _digest(queries, list(arrays.values()), kind.encode())
    folder = join(work_dir, f"truerank-{digest}")
    seals = _write_sealed(folder, contents, {"users": len(queries), "items": scorer.n_items})

    def path_of(name: str) -> str | None:
        return join(folder, name) if name in contents else None

    return Files(
        users=tuple(join(folder, name) for name in contents if name.startswith("users-")),
        items=path_of("items.npy"),
        item_bias=path_of("item_bias.npy"),
        item_counts=path_of("item_counts.npy"),
        scorer=path_of("scorer.truerank"),
        is_thread_safe=bool(getattr(scorer, "is_thread_safe", False)),
        n_items=scorer.n_items,
        n_test_users=split.n_test_users,
        name=split.train.name,
        digest=digest,
        seals=seals,
        pickled=pickled,
    )


def _write_sealed(
    folder: str, contents: Mapping[str, Callable[[], bytes]], counts: Mapping[str, int]
) -> dict[str, str]:
    """Write the files that are not there as they should be, and return the digests of all.

    What a file should hold is made anew here, so nothing in the folder is taken on trust.
    """
    manifest = join(folder, MANIFEST)
    was_complete = exists(manifest)
    seals: dict[str, str] = {}
    damaged: list[str] = []
    for name, make in contents.items():
        data = make()
        seals[name] = seal_of(data)
        if was_complete and is_intact(join(folder, name), seals[name]):
            continue
        damaged += [name] if was_complete else []
        _write_in_place(join(folder, name), data)
    told = json.dumps({**counts, "files": seals}).encode()
    if not (was_complete and is_intact(manifest, seal_of(told))):
        damaged += [MANIFEST] if was_complete and not damaged else []
        _write_in_place(manifest, told)
    if damaged:
        warnings.warn(
            f"the work folder '{folder}' was damaged or comes from other versions: {', '.join(damaged[:3])}"
            f"{' and more' if len(damaged) > 3 else ''} did not hold what belongs there and "
            f"{'was' if len(damaged) == 1 else 'were'} written anew.",
            DataWarning,
            stacklevel=3,
        )
    return seals


def _write_in_place(path: str, data: bytes) -> None:
    if not is_remote(path):
        clear_place(Path(path))
    write_bytes(path, data)


def is_made_of_arrays(scorer: Scorer) -> bool:
    """Whether a scorer can travel as a model file."""
    try:
        pack_scorer(scorer)
    except InvalidParameter:
        return False
    return True


def _n_files(queries: Queries) -> int:
    return max(1, -(-len(queries) // FILE_ROWS))


def _user_bytes(queries: Queries, part: int, split: Split, vectors: AnyArray | None) -> bytes:
    block = queries.block(part * FILE_ROWS, min((part + 1) * FILE_ROWS, len(queries)))
    frame = pl.DataFrame({"user": block.users.astype(np.int64)}).with_columns(
        _column("targets", block.targets, block.users), _column("seen", block.excluded, block.users)
    )
    ids = split.train.users.take(block.users)
    if not ids.dtype.is_integer() or (ids.to_numpy() != block.users).any():
        frame = frame.with_columns(ids.rename("id"))
    if vectors is not None:
        frame = frame.with_columns(pl.Series("vector", np.ascontiguousarray(vectors[block.users])))
    buffer = io.BytesIO()
    frame.write_parquet(buffer, row_group_size=GROUP_ROWS)
    return buffer.getvalue()


def _column(name: str, lists: Lists, users: IntArray) -> pl.Series:
    """Return lists of items as a column, empty ones included."""
    lengths = np.diff(lists.indptr)[: len(users)]
    row = np.repeat(np.arange(len(lengths)), lengths)
    flat = pl.DataFrame({"row": row, name: np.ascontiguousarray(lists.items, np.int32)})
    grouped = flat.group_by("row", maintain_order=True).agg(pl.col(name))
    every = pl.DataFrame({"row": np.arange(len(users))})
    return every.join(grouped, on="row", how="left", maintain_order="left")[name].fill_null([])


def _pickled(scorer: Scorer, private: str | None) -> SealedPickle:
    instead = "Use functions and classes defined at the top level of a module, or factors, or no engine."
    if private is None:
        raise InvalidParameter(
            f"a scorer of type {type(scorer).__name__} is not made of arrays, so only workers of the run "
            f"that pickles it can read it. {instead}"
        )
    return write_pickle(private, "scorer.pickle", scorer, what="a scorer", instead=instead)


def _digest(queries: Queries, arrays: list[AnyArray | None], pickled: bytes) -> str:
    """Return a digest of everything that is written."""
    content: list[str | bytes | AnyArray] = [pickled]
    lists = (queries.targets, queries.excluded)
    for array in (queries.users, *(part for one in lists for part in (one.indptr, one.items)), *arrays):
        content += ["none"] if array is None else [f"{array.dtype.str}{array.shape}", array]
    return content_digest(content, size=12)


#: Tasks of a small job: enough for a few slots to end at about the same time.
FEW_TASKS = 64
#: Scores of one exact task: some ten seconds of one core at 64 dimensions.
MOST_SCORES = 1 << 34
#: Every sampled task reads all item vectors once, so it has at least this many negatives per item.
NEGATIVES_PER_ITEM = 4
LEAST_ROWS, MOST_ROWS = 256, 1 << 20


def rows_per_task(n_users: int, n_items: int, n_negatives: int | None) -> int:
    """Return the number of users of a task: a 64th of all, unless that is too little or too much work.

    Results do not depend on it.

    Examples
    --------
    >>> [rows_per_task(*size, None) for size in ((200_000, 20_000), (10**8, 10**7))]
    [3125, 1717]
    """
    rows = -(-n_users // FEW_TASKS)
    if n_negatives is None:
        return max(LEAST_ROWS, min(rows, MOST_SCORES // max(1, n_items), MOST_ROWS))
    return min(MOST_ROWS, max(LEAST_ROWS, rows, NEGATIVES_PER_ITEM * n_items // max(1, n_negatives)))


def negatives_of(sampler: Plugin | None, n_items: int) -> int | None:
    """Return how many negatives a sampler takes at first; None where all items are ranked."""
    if sampler is None:
        return None
    return int(getattr(sampler, "m", getattr(sampler, "start", n_items)))
