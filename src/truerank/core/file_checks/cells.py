"""Text tables with a carriage return at the end of a cell, which polars takes for the end of a line."""

from __future__ import annotations

import gzip
from pathlib import Path

_CHUNK = 1 << 22


def check_cells(path: str | Path, separator: str, quote: str | None = '"') -> None:
    """Raise where a carriage return stands before a separator, outside of quotes: polars would leave it out.

    Parameters
    ----------
    path : a text file, perhaps compressed with gzip
    separator : what separates cells
    quote : the mark around cells that may hold anything, None where there is none

    Raises
    ------
    ValueError
        When a cell ends with a carriage return.
    """
    wanted = b"\r" + separator.encode()
    n_quotes, rest = 0, b""
    with Path(path).open("rb") as raw:
        is_packed = raw.read(2) == b"\x1f\x8b"
    with gzip.open(path, "rb") if is_packed else Path(path).open("rb") as file:
        while chunk := file.read(_CHUNK):
            chunk, start = rest + chunk, 0
            while (at := chunk.find(wanted, start)) >= 0:
                n_quotes += chunk.count(quote.encode(), start, at) if quote else 0
                if n_quotes % 2 == 0:
                    raise ValueError("a cell ends with a carriage return, which is no end of a line")
                start = at + len(wanted)
            rest = b"\r" if chunk.endswith(b"\r") and start < len(chunk) else b""
            n_quotes += chunk.count(quote.encode(), start) if quote else 0
