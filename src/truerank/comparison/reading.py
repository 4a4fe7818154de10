"""Files of ranks in, ranks of all models over one list of users out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.ranks import Ranks, SampledRanks
from truerank.core.types import IntArray
from truerank.core.vocabulary import Vocabulary
from truerank.ranks import read_sampled_table
from truerank.ranks.frame import pick_columns, read_frame
from truerank.ranks.sampled_columns import counts_above, integers, with_constant
from truerank.ranks.sampled_table import OPTIONAL

if TYPE_CHECKING:
    import polars as pl

_COUNTS = ("n_above", "n_tied", "n_pool", "n_relevant", "n_relevant_above", "n_relevant_tied")


@dataclass(frozen=True, eq=False)
class _Table:
    models: Mapping[str, Ranks | SampledRanks]
    users: Vocabulary
    items: Vocabulary | None


def read_rank_files(
    paths: Sequence[str | Path],
    *,
    n_items: int | None = None,
    n_negatives: int | None = None,
    replacement: bool | None = None,
    zero_based: bool = False,
) -> dict[str, Ranks | SampledRanks]:
    """Return the ranks of every model in some files, users and items coded alike in all of them.

    A file that says how many negatives were drawn holds sampled ranks, any other exact ones. A file without
    a column model holds one, called as the file.

    Parameters
    ----------
    paths : .csv, .tsv or .parquet files with one row per (model,) user and target
    n_items, n_negatives, replacement, zero_based : as in ``read_sampled_table``; ``n_negatives`` makes ranks
        of files that do not say it sampled ones

    Raises
    ------
    InvalidData
        When a file cannot be read, or two models have the same name.
    """
    tables = {
        str(path): _read(
            Path(path),
            n_items=n_items,
            n_negatives=n_negatives,
            replacement=replacement,
            zero_based=zero_based,
        )
        for path in paths
    }
    users = _joined([table.users for table in tables.values()])
    items = _joined([table.items for table in tables.values() if table.items is not None])
    found: dict[str, Ranks | SampledRanks] = {}
    for path, table in tables.items():
        of_user = _codes(table.users, users)
        of_item = None if table.items is None else _codes(table.items, items)
        for name, ranks in table.models.items():
            called = _free_name(name, Path(path), found)
            item = ranks.item if of_item is None else of_item[ranks.item]
            found[called] = replace(ranks, user=of_user[ranks.user], item=item)
    return found


def _free_name(name: str, path: Path, taken: Mapping[str, object]) -> str:
    """Return what a model is called: its name, or with the file's name before it where that is taken."""
    for called in (name or path.stem, f"{path.stem}:{name}" if name else path.name):
        if called not in taken:
            return called
    raise InvalidData(
        f"models must have names of their own, but {name or path.stem!r} of '{path}' is there already. "
        "Rename it in the file, or rename the file."
    )


def _joined(vocabularies: Sequence[Vocabulary]) -> Vocabulary:
    """Return all ids in one list; numbers and texts are joined as texts."""
    import polars as pl

    if not vocabularies:
        return Vocabulary.range(0)
    columns = [vocabulary.ids for vocabulary in vocabularies]
    kind: type[pl.DataType] = pl.Int64 if all(column.dtype.is_integer() for column in columns) else pl.String
    return Vocabulary.of(pl.concat([column.cast(kind) for column in columns]))


def _codes(own: Vocabulary, joined: Vocabulary) -> IntArray:
    return joined.encode(own.ids.cast(joined.ids.dtype))


def _read(
    path: Path, *, n_items: int | None, n_negatives: int | None, replacement: bool | None, zero_based: bool
) -> _Table:
    where = f"'{path}'"
    frame = pick_columns(read_frame(path), ("user",), OPTIONAL, where=where)
    if "n_negatives" in frame.columns or n_negatives is not None:
        table = read_sampled_table(
            path, n_items=n_items, n_negatives=n_negatives, replacement=replacement, zero_based=zero_based
        )
        return _Table(table.models, table.users, table.items)
    return _exact(frame, where, n_items=n_items, zero_based=zero_based)


def _exact(frame: pl.DataFrame, where: str, *, n_items: int | None, zero_based: bool) -> _Table:
    """Return exact ranks; ``n_pool`` is the pool that was ranked."""
    import polars as pl

    for name in ("user", "item", "model"):
        if name in frame.columns and frame[name].null_count():
            raise InvalidData(f"{name} of {where} must have no gaps. Fill them or remove the rows.")
    frame = with_constant(frame, "n_pool", n_items, "N, the items in the pool,", "--n-items", where)
    counts = {name: integers(frame, name, where) for name in ("rank", *_COUNTS) if name in frame.columns}
    counts["n_above"] = counts_above(counts, zero_based, where)
    counts.pop("rank", None)
    users = Vocabulary.of(frame["user"])
    items = Vocabulary.of(frame["item"]) if "item" in frame.columns else None
    user = users.encode(frame["user"])
    item = np.zeros_like(user) if items is None else items.encode(frame["item"])
    model = frame["model"].cast(pl.String).to_numpy() if "model" in frame.columns else np.full(len(user), "")
    models: dict[str, Ranks] = {}
    for name in dict.fromkeys(model.tolist()):
        rows = np.flatnonzero(model == name)
        rows = rows[np.lexsort((item[rows], user[rows]))]
        own = {key: column[rows] for key, column in counts.items()}
        models[name] = _ranks(user[rows], item[rows], own, where)
    return _Table(models, users, items)


def _ranks(user: IntArray, item: IntArray, columns: dict[str, IntArray], where: str) -> Ranks:
    per_user = np.bincount(user)[user]
    if "n_relevant_above" not in columns and per_user.max() > 1:
        raise InvalidData(
            f"{where} must say for users with several targets how many of these stand above each, in columns "
            "n_relevant, n_relevant_above and n_relevant_tied. Add them, or add a column model if the rows "
            "of a user belong to several models."
        )
    zeros = np.zeros_like(user)
    for name in ("n_tied", "n_relevant_above", "n_relevant_tied"):
        columns.setdefault(name, zeros)
    columns.setdefault("n_relevant", per_user)
    try:
        return Ranks(user=user, item=item, **columns)
    except InvalidData as error:
        raise InvalidData(f"{where}, sorted by user, cannot be used: {error}") from None
