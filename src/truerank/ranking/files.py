"""Files of exact and sampled ranks: reading and writing tables that any framework can exchange.

One row per (user, target): ``user_id[, item_id], rank`` or ``n_above, n_tied``; sampled ranks with
``n_negatives``, ``n_items`` and ``replacement`` as columns, or as arguments where they are the same for all
rows. Tables hold the original ids of users and items; `read_rank_files` gives equal ids in several files
equal codes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from truerank.core.checkpoint import replace_table
from truerank.core.errors import InvalidData, InvalidParameter, suggests_arguments
from truerank.core.interactions import Vocabulary
from truerank.core.provenance import file_metadata
from truerank.core.ranks import Design, Ranks, SampledRanks
from truerank.core.types import FloatArray, IntArray
from truerank.ranking.file_columns import (
    ALIASES,
    check_stopping,
    counts_above,
    format_stopping,
    integers,
    pick_columns,
    read_design,
    read_gain,
    read_rank_frame,
    with_constant,
)

if TYPE_CHECKING:
    import polars as pl


_TABLES = (".csv", ".tsv", ".parquet")
COUNTS = (
    *("n_above", "n_tied", "n_negatives", "n_pool", "n_relevant", "n_relevant_above"),
    *("n_relevant_tied", "n_candidates"),
)
OPTIONAL = (
    "model",
    "item",
    "rank",
    *COUNTS,
    "gain",
    "replacement",
    "law",
    "shared",
    "stopping",
    "n_test_users",
)


@dataclass(frozen=True, eq=False)
class SampledTable:
    """Sampled ranks read from a table, with the ids behind their codes.

    Parameters
    ----------
    models : sampled ranks by model; a table without a model column has one, called ''
    users, items : the ids behind the codes; items is None when the table has no item_id
    """

    models: Mapping[str, SampledRanks]
    users: Vocabulary
    items: Vocabulary | None


def sampled_frame(
    ranks: SampledRanks | Mapping[str, SampledRanks], users: Vocabulary, items: Vocabulary | None
) -> pl.DataFrame:
    """Return one row per (model,) user and target, with the original ids.

    ``rank`` is the rank when every tie is won (1 + n_above); the counts hold all that is known.

    Examples
    --------
    >>> ranks = SampledRanks.single([4], n_negatives=99, n_pool=3706)
    >>> frame = sampled_frame(ranks, Vocabulary.of(["ann"]), None)
    >>> frame.select("user_id", "rank", "n_negatives", "n_items", "replacement").rows()
    [('ann', 5, 99, 3706, False)]
    """
    import polars as pl

    tables = ranks if isinstance(ranks, Mapping) else {"": ranks}
    frames = []
    for model, model_ranks in tables.items():
        frame = pl.DataFrame(
            {
                "user_id": users.take(model_ranks.user),
                **({} if items is None else {"item_id": items.take(model_ranks.item)}),
                "rank": model_ranks.n_above + 1,
                **{ALIASES[name][0]: getattr(model_ranks, name) for name in COUNTS},
                **({} if model_ranks.gain is None else {"gain": model_ranks.gain}),
            }
        )
        constants: dict[str, bool | str | int | None] = {
            "replacement": model_ranks.design.replacement,
            "law": model_ranks.design.law,
            "shared": model_ranks.design.shared,
        }
        if any(table.design.stopping for table in tables.values()):
            constants["stopping"] = format_stopping(model_ranks.design.stopping)
        if any(table.design.n_test_users for table in tables.values()):
            constants["n_test_users"] = model_ranks.design.n_test_users
        frame = frame.with_columns(**{name: pl.lit(value) for name, value in constants.items()})
        if isinstance(ranks, Mapping):
            frame = frame.select(pl.lit(model).alias("model"), pl.all())
        frames.append(frame)
    return pl.concat(frames)


def write_sampled(
    path: str | Path,
    ranks: SampledRanks | Mapping[str, SampledRanks],
    users: Vocabulary,
    items: Vocabulary | None = None,
    *,
    provenance: Mapping[str, Any] | None = None,
) -> None:
    """Write sampled ranks, of one model or of several by name, to a .csv, .tsv or .parquet file.

    Parquet files hold the provenance, such as split, sampler, seed and data hash, as JSON in their metadata,
    under the key ``truerank``, with the versions of the software; the other forms have no place for it.

    Raises
    ------
    InvalidParameter
        When the suffix is another one or the file cannot be written; nothing is left half-written.
    """
    path = Path(path)
    if path.suffix.lower() not in _TABLES:
        raise InvalidParameter(
            f"sampled ranks must be written to a file that ends in {', '.join(_TABLES)}, got '{path.name}'."
        )
    frame = sampled_frame(ranks, users, items)
    metadata = file_metadata(**(provenance or {}))
    replace_table(path, frame, "the table of sampled ranks", metadata=metadata)


@suggests_arguments
def read_sampled_ranks(
    path: str | Path,
    *,
    n_items: int | None = None,
    n_negatives: int | None = None,
    replacement: bool | None = None,
    zero_based: bool = False,
) -> SampledRanks:
    """Return the sampled ranks of one model from a file; parameters as in ``read_sampled_table``."""
    table = read_sampled_table(
        path, n_items=n_items, n_negatives=n_negatives, replacement=replacement, zero_based=zero_based
    )
    if len(table.models) > 1:
        raise InvalidData(
            f"'{path}' must hold one model, but it holds {len(table.models)}: {', '.join(table.models)}. "
            "Choose one, or read all with read_sampled_models."
        )
    return next(iter(table.models.values()))


def read_sampled_models(
    path: str | Path,
    *,
    n_items: int | None = None,
    n_negatives: int | None = None,
    replacement: bool | None = None,
    zero_based: bool = False,
) -> dict[str, SampledRanks]:
    """Return the sampled ranks of every model in a file; parameters as in ``read_sampled_table``."""
    table = read_sampled_table(
        path, n_items=n_items, n_negatives=n_negatives, replacement=replacement, zero_based=zero_based
    )
    return dict(table.models)


def read_sampled_table(
    path: str | Path,
    *,
    n_items: int | None = None,
    n_negatives: int | None = None,
    replacement: bool | None = None,
    zero_based: bool = False,
) -> SampledTable:
    """Read a table of sampled ranks.

    Parameters
    ----------
    path : a .csv, .tsv or .parquet file with one row per (user, target)
    n_items : N, the size of the pool a target competes in, itself included, where no column says it
    n_negatives : m, the sampled items of each target, itself not counted, where no column says it
    replacement : whether items were sampled with replacement; without a column, False
    zero_based : whether the best rank is 0 in the file

    Raises
    ------
    InvalidData
        When the file cannot be read, a count is missing, not an integer or impossible, or the rows were
        sampled in different ways.
    """
    where = f"'{path}'"
    frame = pick_columns(read_rank_frame(Path(path)), ("user",), OPTIONAL, where=where)
    return tabulate(
        frame,
        where=where,
        n_items=n_items,
        n_negatives=n_negatives,
        replacement=replacement,
        zero_based=zero_based,
    )


def tabulate(
    frame: pl.DataFrame,
    *,
    where: str,
    n_items: int | None,
    n_negatives: int | None,
    replacement: bool | None,
    zero_based: bool,
) -> SampledTable:
    """Turn a table with known columns into sampled ranks."""
    import polars as pl

    frame = with_constant(frame, "n_pool", n_items, "N", "the items in the pool", where)
    frame = with_constant(frame, "n_negatives", n_negatives, "m", "the sampled negatives", where)
    design = read_design(frame, replacement, where)
    counts = {name: integers(frame, name, where) for name in ("rank", *COUNTS) if name in frame.columns}
    counts["n_above"] = counts_above(counts, zero_based, where)
    gain = read_gain(frame, where)
    users = Vocabulary.of(frame["user"])
    items = Vocabulary.of(frame["item"]) if "item" in frame.columns else None
    user = users.encode(frame["user"])
    item = np.zeros_like(user) if items is None else items.encode(frame["item"])
    model = frame["model"].cast(pl.String).to_numpy() if "model" in frame.columns else np.full(len(user), "")
    models = {}
    for name in dict.fromkeys(model.tolist()):
        rows = np.flatnonzero(model == name)
        rows = rows[np.lexsort((item[rows], user[rows]))]
        columns = {key: column[rows] for key, column in counts.items() if key != "rank"}
        of_rows = None if gain is None else gain[rows]
        models[name] = _ranks(
            user[rows], item[rows], columns, of_rows, design, where, has_items=items is not None
        )
    return SampledTable(models, users, items)


def _ranks(
    user: IntArray,
    item: IntArray,
    columns: dict[str, IntArray],
    gain: FloatArray | None,
    design: Design,
    where: str,
    *,
    has_items: bool,
) -> SampledRanks:
    """Return sampled ranks; columns that are missing follow from one target per user without ties."""
    per_user = np.bincount(user)[user]
    if "n_relevant_above" not in columns and per_user.max() > 1:
        raise InvalidData(
            f"{where} must say for users with several targets how many of these score above each, in columns "
            "n_relevant, n_relevant_above and n_relevant_tied. Add them, or give each row a user_id of its "
            "own to rank each target on its own."
        )
    if has_items and ((np.diff(user) == 0) & (np.diff(item) == 0)).any():
        raise InvalidData(
            f"{where} must have one row per user and item, but some are repeated. Remove those."
        )
    zeros = np.zeros_like(user)
    for name in ("n_tied", "n_relevant_above", "n_relevant_tied"):
        columns.setdefault(name, zeros)
    columns.setdefault("n_relevant", per_user)
    columns.setdefault("n_candidates", columns["n_pool"] - columns["n_relevant"])
    last = columns["n_negatives"] + 1 + columns["n_relevant_above"] + columns["n_relevant_tied"]
    worst = columns["n_above"] + columns["n_tied"] + 1
    if (worst > last).any():
        row = int(np.argmax(worst > last))
        raise InvalidData(
            f"ranks of {where} must be at most n_negatives + 1 = {last[row]}, got {worst[row]}. "
            "Check n_negatives: it does not count the target."
        )
    try:
        ranks = SampledRanks(user=user, item=item, design=design, gain=gain, **columns)
        check_stopping(ranks)
        return ranks
    except InvalidData as error:
        raise InvalidData(f"{where}, sorted by user, cannot be used: {error}") from None


_COUNTS = ("n_above", "n_tied", "n_pool", "n_relevant", "n_relevant_above", "n_relevant_tied")
_EXACT = (*_COUNTS, "gain")


def ranks_table(ranks: Mapping[str, Ranks], users: Vocabulary, items: Vocabulary) -> pl.DataFrame:
    """Return one row per model, user and target: ``model, user_id, item_id, rank, n_above, n_tied, ...``.

    ``rank`` is the rank when every tie is won (1 + n_above); the counts hold all that is known.
    """
    import polars as pl

    tables = [
        pl.DataFrame(
            {
                "model": pl.Series([model]).new_from_index(0, len(model_ranks)),
                "user_id": users.take(model_ranks.user),
                "item_id": items.take(model_ranks.item),
                "rank": model_ranks.best,
                **{name: part for name, part in model_ranks.columns().items() if name in _EXACT},
            }
        )
        for model, model_ranks in ranks.items()
    ]
    return pl.concat(tables)


@dataclass(frozen=True, eq=False)
class _Table:
    models: Mapping[str, Ranks | SampledRanks]
    users: Vocabulary
    items: Vocabulary | None


@dataclass(frozen=True, eq=False)
class RankTables:
    """Ranks read from files, users and items coded alike in all of them.

    Parameters
    ----------
    models : per file, the ranks of every model; a file without a column model has one, called ''
    users, items : the ids behind the codes; items is empty where no table has an item_id
    """

    models: list[dict[str, Ranks | SampledRanks]]
    users: Vocabulary
    items: Vocabulary

    def named(self, paths: Sequence[str | Path]) -> dict[str, Ranks | SampledRanks]:
        """Return all models by name; one without a name is named after its file.

        Raises
        ------
        InvalidData
            When two models have the same name.
        """
        models: dict[str, Ranks | SampledRanks] = {}
        for path, table in zip(paths, self.models, strict=True):
            for name, ranks in table.items():
                models[_free_name(name, Path(path), models)] = ranks
        return models


def read_rank_files(
    paths: Sequence[str | Path],
    *,
    n_items: int | None = None,
    n_negatives: int | None = None,
    replacement: bool | None = None,
    zero_based: bool = False,
) -> dict[str, Ranks | SampledRanks]:
    """Return the ranks of every model in some files, users and items coded alike in all of them.

    A file with a number of negatives holds sampled ranks, any other file exact ones. A file without a column
    model holds one model, named after the file.

    Parameters
    ----------
    paths : .csv, .tsv or .parquet files with one row per (model,) user and target
    n_items, n_negatives, replacement, zero_based : as in ``read_sampled_table``; with ``n_negatives``, files
        without that column hold sampled ranks too

    Raises
    ------
    InvalidData
        When a file cannot be read, or two models have the same name.
    """
    unique = list(dict.fromkeys(map(str, paths)))
    tables = read_rank_tables(
        unique, n_items=n_items, n_negatives=n_negatives, replacement=replacement, zero_based=zero_based
    )
    return tables.named(unique)


def read_rank_tables(
    paths: Sequence[str | Path],
    *,
    n_items: int | None = None,
    n_negatives: int | None = None,
    replacement: bool | None = None,
    zero_based: bool = False,
) -> RankTables:
    """Return the ranks of every model of each file, and the ids; parameters as in ``read_rank_files``."""
    tables = [
        _read(
            Path(path),
            n_items=n_items,
            n_negatives=n_negatives,
            replacement=replacement,
            zero_based=zero_based,
        )
        for path in paths
    ]
    users = _joined([table.users for table in tables])
    items = _joined([table.items for table in tables if table.items is not None])
    found: list[dict[str, Ranks | SampledRanks]] = []
    for table in tables:
        of_user = _codes(table.users, users)
        of_item = None if table.items is None else _codes(table.items, items)
        found.append(
            {
                name: replace(
                    ranks,
                    user=of_user[ranks.user],
                    item=ranks.item if of_item is None else of_item[ranks.item],
                )
                for name, ranks in table.models.items()
            }
        )
    return RankTables(found, users, items)


def _free_name(name: str, path: Path, taken: Mapping[str, object]) -> str:
    """Return the name of a model, with the name of the file before it where that is taken."""
    for model_name in (name or path.stem, f"{path.stem}:{name}" if name else path.name):
        if model_name not in taken:
            return model_name
    raise InvalidData(
        f"names of models must be unique, but {name or path.stem!r} of '{path}' occurs twice. "
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


def _codes(vocabulary: Vocabulary, joined: Vocabulary) -> IntArray:
    return joined.encode(vocabulary.ids.cast(joined.ids.dtype))


def _read(
    path: Path, *, n_items: int | None, n_negatives: int | None, replacement: bool | None, zero_based: bool
) -> _Table:
    where = f"'{path}'"
    frame = pick_columns(read_rank_frame(path), ("user",), OPTIONAL, where=where)
    if "n_negatives" in frame.columns or n_negatives is not None:
        table = tabulate(
            frame,
            where=where,
            n_items=n_items,
            n_negatives=n_negatives,
            replacement=replacement,
            zero_based=zero_based,
        )
        return _Table(table.models, table.users, table.items)
    return _exact(frame, where, n_items=n_items, zero_based=zero_based)


def _exact(frame: pl.DataFrame, where: str, *, n_items: int | None, zero_based: bool) -> _Table:
    """Return exact ranks; ``n_pool`` is the pool that was ranked."""
    import polars as pl

    frame = with_constant(frame, "n_pool", n_items, "N", "the items in the pool", where)
    counts = {name: integers(frame, name, where) for name in ("rank", *_COUNTS) if name in frame.columns}
    counts["n_above"] = counts_above(counts, zero_based, where)
    counts.pop("rank", None)
    gain = read_gain(frame, where)
    users = Vocabulary.of(frame["user"])
    items = Vocabulary.of(frame["item"]) if "item" in frame.columns else None
    user = users.encode(frame["user"])
    item = np.zeros_like(user) if items is None else items.encode(frame["item"])
    model = frame["model"].cast(pl.String).to_numpy() if "model" in frame.columns else np.full(len(user), "")
    models: dict[str, Ranks] = {}
    for name in dict.fromkeys(model.tolist()):
        rows = np.flatnonzero(model == name)
        rows = rows[np.lexsort((item[rows], user[rows]))]
        columns = {key: column[rows] for key, column in counts.items()}
        of_rows = None if gain is None else gain[rows]
        models[name] = _exact_ranks_of(user[rows], item[rows], columns, of_rows, where)
    return _Table(models, users, items)


def _exact_ranks_of(
    user: IntArray, item: IntArray, columns: dict[str, IntArray], gain: FloatArray | None, where: str
) -> Ranks:
    per_user = np.bincount(user)[user]
    if "n_relevant_above" not in columns and per_user.max() > 1:
        raise InvalidData(
            f"{where} must say for users with several targets how many of these score above each, in columns "
            "n_relevant, n_relevant_above and n_relevant_tied. Add them, or add a column model if the rows "
            "of a user belong to several models."
        )
    zeros = np.zeros_like(user)
    for name in ("n_tied", "n_relevant_above", "n_relevant_tied"):
        columns.setdefault(name, zeros)
    columns.setdefault("n_relevant", per_user)
    try:
        return Ranks(user=user, item=item, gain=gain, **columns)
    except InvalidData as error:
        raise InvalidData(f"{where}, sorted by user, cannot be used: {error}") from None
