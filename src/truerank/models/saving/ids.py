"""Vocabularies as arrays: numbers as they are, text as UTF-8 bytes with the ends of the ids."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.types import AnyArray
from truerank.core.vocabulary import Vocabulary


def pack_ids(vocabulary: Vocabulary, prefix: str) -> dict[str, AnyArray]:
    """Return the arrays of a vocabulary.

    Examples
    --------
    >>> {name: array.tolist() for name, array in pack_ids(Vocabulary.of(["a", "bc"]), "user").items()}
    {'user_text': [97, 98, 99], 'user_ends': [1, 3]}
    """
    import polars as pl

    if vocabulary.ids.dtype != pl.String:
        return {f"{prefix}_ids": vocabulary.ids.to_numpy()}
    encoded = [text.encode() for text in vocabulary.ids.to_list()]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return {
        f"{prefix}_text": np.frombuffer(b"".join(encoded), np.uint8),
        f"{prefix}_ends": ends,
    }


def unpack_ids(arrays: Mapping[str, AnyArray], prefix: str) -> Vocabulary | None:
    """Return the vocabulary, None when there is none.

    Raises
    ------
    InvalidData
        When the ids are damaged, repeated or not sorted.
    """
    import polars as pl

    names = {name.removeprefix(f"{prefix}_") for name in arrays if name.startswith(f"{prefix}_")}
    if not names:
        return None
    if names == {"ids"} and arrays[f"{prefix}_ids"].dtype.kind in "iu" and arrays[f"{prefix}_ids"].ndim == 1:
        ids = pl.Series("id", np.array(arrays[f"{prefix}_ids"]))
    elif names == {"text", "ends"}:
        text, ends = arrays[f"{prefix}_text"].tobytes(), arrays[f"{prefix}_ends"].tolist()
        try:
            ids = pl.Series(
                "id",
                [text[start:end].decode() for start, end in zip([0, *ends], ends, strict=False)],
                dtype=pl.String,
            )
        except UnicodeDecodeError:
            raise _broken(prefix) from None
        if ends and ends[-1] != len(text):
            raise _broken(prefix)
    else:
        raise _broken(prefix)
    if ids.n_unique() != len(ids) or not ids.is_sorted():
        raise _broken(prefix)
    return Vocabulary(ids)


def _broken(prefix: str) -> InvalidData:
    return InvalidData(f"the {prefix} ids of the model file are broken. Save the model again.")
