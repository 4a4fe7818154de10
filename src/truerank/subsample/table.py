"""A sub-sample as a table with the user's own ids."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from truerank.core.errors import InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.output import check_output, replace_file
from truerank.core.split import Split

if TYPE_CHECKING:
    import polars as pl


def events_frame(events: Interactions, part: str | None = None) -> pl.DataFrame:
    """Return ``user_id, item_id[, rating][, timestamp]`` and the further columns that were read.

    With a part, a column ``split`` holds it in every row.

    Examples
    --------
    >>> events_frame(Interactions.from_codes([0, 1], [1, 0]), "train").rows()
    [(0, 1, 'train'), (1, 0, 'train')]
    """
    import polars as pl

    columns = {"user_id": events.users.take(events.user), "item_id": events.items.take(events.item)}
    for name, array in {"rating": events.value, "timestamp": events.time, **events.labels}.items():
        if array is not None:
            columns[name] = pl.Series(name, array, strict=False)
    if part is not None:
        columns["split"] = pl.Series([part], dtype=pl.String).new_from_index(0, len(events))
    return pl.DataFrame(columns)


def write_events(path: str | Path, events: Interactions | Split) -> None:
    """Write events, or the parts of a split one after the other, so that truerank can read them again.

    Times that were read from dates are written as seconds. The file appears whole or not at all.

    Parameters
    ----------
    path : ends in .parquet, .csv or .tsv
    events : a split gets a column ``split`` (train, valid, test), which the split rule ``column`` reads

    Raises
    ------
    InvalidParameter
        When the ending is another one, or the place cannot be written to.
    """
    import polars as pl

    path = Path(path)
    write = check_path(path)
    if isinstance(events, Split):
        parts = {"train": events.train, "valid": events.valid, "test": events.test}
        frame = pl.concat([events_frame(part, name) for name, part in parts.items() if part is not None])
    else:
        frame = events_frame(events)
    replace_file(path, lambda part: write(frame, part), "the table of events")


def check_path(path: Path) -> Callable[[pl.DataFrame, Path], None]:
    """Return what writes such a file, or raise when events cannot be written there."""
    writers = {".parquet": _write_parquet, ".csv": _write_csv, ".tsv": _write_tsv}
    if path.suffix.lower() not in writers:
        raise InvalidParameter(
            f"the table of events must end in {', '.join(writers)}, got '{path.name}'. Choose one of them."
        )
    check_output(path, "the table of events")
    return writers[path.suffix.lower()]


def _write_parquet(frame: pl.DataFrame, path: Path) -> None:
    frame.write_parquet(path, compression="zstd")


def _write_csv(frame: pl.DataFrame, path: Path) -> None:
    frame.write_csv(path)


def _write_tsv(frame: pl.DataFrame, path: Path) -> None:
    frame.write_csv(path, separator="\t")
