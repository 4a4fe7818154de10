"""Ranks as a table with the user's own ids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING

from truerank.core.ranks import Ranks
from truerank.core.vocabulary import Vocabulary

if TYPE_CHECKING:
    import polars as pl


def ranks_table(ranks: Mapping[str, Ranks], users: Vocabulary, items: Vocabulary) -> pl.DataFrame:
    """Return one row per model, user and target: ``model, user_id, item_id, rank, n_above, n_tied, ...``.

    ``rank`` is the rank when every tie is won (1 + n_above); the counts hold all that is known.
    """
    import polars as pl

    counts = [field.name for field in fields(Ranks) if field.name not in ("user", "item")]
    tables = [
        pl.DataFrame(
            {
                "model": pl.Series([model]).new_from_index(0, len(one)),
                "user_id": users.take(one.user),
                "item_id": items.take(one.item),
                "rank": one.best,
                **{name: getattr(one, name) for name in counts},
            }
        )
        for model, one in ranks.items()
    ]
    return pl.concat(tables)
