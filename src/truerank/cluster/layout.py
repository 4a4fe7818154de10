"""Writing a split and a scorer as files for workers."""

from __future__ import annotations

import hashlib
import io
import json
import pickle

import numpy as np
import polars as pl

from truerank.cluster.files import Files
from truerank.cluster.place import exists, join, write_array, write_bytes
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Lists
from truerank.core.ranks import SeenPolicy
from truerank.core.scorer import HasFactors, Scorer
from truerank.core.split import Split
from truerank.core.types import AnyArray, IntArray
from truerank.ranks.exact import Queries, make_queries

#: Users in one Parquet file, and in one of its row groups.
FILE_ROWS, GROUP_ROWS = 1 << 18, 1 << 12


def write_files(work_dir: str, scorer: Scorer, split: Split, seen: SeenPolicy) -> Files:
    """Write what workers need to rank the test users of a split, and return where it lies.

    The folder within ``work_dir`` is named by the contents, so what is there already is not written again.
    """
    if scorer.n_items != split.train.n_items:
        raise InvalidData(
            f"the scorer must know the {split.train.n_items} items of the data, it knows {scorer.n_items}. "
            "Fit it on this split, or read the data with the vocabulary it was fitted on."
        )
    queries = make_queries(split, seen)
    factors = scorer.factors() if isinstance(scorer, HasFactors) else None
    if factors is not None and len(queries) and queries.users[-1] >= len(factors.user):
        raise InvalidData(
            f"there must be a vector for each user, but user {queries.users[-1]} has none "
            f"({len(factors.user)} vectors). Fit the model on this split."
        )
    vectors = None if factors is None else factors.user
    counts, pickled = split.train.item_counts(), b""
    arrays: list[AnyArray | None] = [vectors, counts]
    if factors is None:
        pickled = _pickled(scorer)
    else:
        arrays += [factors.item, factors.item_bias]
    digest = _digest(queries, arrays, pickled)
    folder = join(work_dir, f"truerank-{digest}")
    files = Files(
        users=tuple(join(folder, f"users-{part:05d}.parquet") for part in range(_n_files(queries))),
        items=None if factors is None else join(folder, "items.npy"),
        item_bias=None if factors is None or factors.item_bias is None else join(folder, "item_bias.npy"),
        item_counts=join(folder, "item_counts.npy"),
        scorer=join(folder, "scorer.pickle") if factors is None else None,
        is_thread_safe=bool(getattr(scorer, "is_thread_safe", False)),
        n_items=scorer.n_items,
        n_test_users=split.n_test_users,
        name=split.train.name,
        digest=digest,
    )
    mark = join(folder, "complete.json")
    if exists(mark):
        return files
    for part, place in enumerate(files.users):
        rows = slice(part * FILE_ROWS, (part + 1) * FILE_ROWS)
        _write_users(place, queries, rows, split, vectors)
    write_array(str(files.item_counts), counts)
    if factors is None:
        write_bytes(str(files.scorer), pickled)
    else:
        write_array(str(files.items), factors.item)
        if factors.item_bias is not None:
            write_array(str(files.item_bias), factors.item_bias)
    write_bytes(mark, json.dumps({"users": len(queries), "items": scorer.n_items}).encode())
    return files


def _n_files(queries: Queries) -> int:
    return max(1, -(-len(queries) // FILE_ROWS))


def _write_users(place: str, queries: Queries, rows: slice, split: Split, vectors: AnyArray | None) -> None:
    block = queries.block(rows.start, min(rows.stop, len(queries)))
    frame = pl.DataFrame({"user": block.users.astype(np.int64)}).with_columns(
        _column("targets", block.targets, block.users), _column("seen", block.excluded, block.users)
    )
    ids = split.train.users.take(block.users)
    if not ids.dtype.is_integer() or (ids.to_numpy() != block.users).any():
        frame = frame.with_columns(ids.rename("id"))
    if vectors is not None:
        frame = frame.with_columns(pl.Series("vector", np.ascontiguousarray(vectors[block.users])))
    held = io.BytesIO()
    frame.write_parquet(held, row_group_size=GROUP_ROWS)
    write_bytes(place, held.getvalue())


def _column(name: str, lists: Lists, users: IntArray) -> pl.Series:
    """Return lists of items as a column, empty ones included."""
    lengths = np.diff(lists.indptr)[: len(users)]
    row = np.repeat(np.arange(len(lengths)), lengths)
    flat = pl.DataFrame({"row": row, name: np.ascontiguousarray(lists.items, np.int32)})
    grouped = flat.group_by("row", maintain_order=True).agg(pl.col(name))
    every = pl.DataFrame({"row": np.arange(len(users))})
    return every.join(grouped, on="row", how="left", maintain_order="left")[name].fill_null([])


def _pickled(scorer: Scorer) -> bytes:
    try:
        return pickle.dumps(scorer)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidParameter(
            f"a scorer must be picklable for workers, but {type(scorer).__name__} is not ({error}). "
            "Use functions and classes that a module holds, or factors, or evaluate without an engine."
        ) from None


def _digest(queries: Queries, arrays: list[AnyArray | None], pickled: bytes) -> str:
    """Return a digest of all that is written."""
    digest = hashlib.blake2b(pickled, digest_size=12)
    lists = (queries.targets, queries.excluded)
    for array in (queries.users, *(part for one in lists for part in (one.indptr, one.items)), *arrays):
        if array is None:
            digest.update(b"none")
            continue
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
