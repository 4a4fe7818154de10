"""Which column of a table plays which role."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from truerank.core.errors import InvalidData, InvalidParameter, suggestion

ROLES = ("user", "item", "rating", "timestamp")

#: Accepted names per role, in lower case and without ``_``, ``-``, ``.`` and blanks.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "user": (
        *("user", "userid", "uid", "reviewerid", "customerid", "visitorid", "memberid"),
        *("profileid", "profilename", "reviewprofilename"),
    ),
    "item": (
        *("item", "itemid", "iid", "movie", "movieid", "asin", "parentasin", "businessid", "isbn", "bookid"),
        *(
            "product",
            "productid",
            "songid",
            "trackid",
            "artistid",
            "articleid",
            "newsid",
            "videoid",
            "gameid",
        ),
        *("beerid", "beerbeerid", "locationid", "venueid", "poiid", "stockcode", "sku"),
    ),
    "rating": (
        *("rating", "ratings", "score", "stars", "overall", "bookrating", "reviewoverall"),
        *("weight", "count", "plays", "playcount", "quantity", "value"),
    ),
    "timestamp": (
        *("timestamp", "time", "ts", "datetime", "date", "eventtime", "createdat", "dateadded"),
        *("unixreviewtime", "invoicedate"),
    ),
}


@dataclass(frozen=True)
class ColumnChoice:
    """The column taken for each role; ``str()`` says it in the words of ``--columns``.

    Examples
    --------
    >>> print(choose(["userId", "movieId", "rating"]))
    user=userId, item=movieId, rating=rating
    """

    user: str
    item: str
    rating: str | None = None
    timestamp: str | None = None
    keep: tuple[str, ...] = ()

    def __str__(self) -> str:
        chosen = [(role, getattr(self, role)) for role in ROLES]
        said = [f"{role}={column}" for role, column in chosen if column is not None]
        return ", ".join([*said, *(f"kept {column}" for column in self.keep)])


def parse_columns(text: str) -> dict[str, str]:
    """Read ``user=a,item=b``; an empty name switches an optional role off.

    Examples
    --------
    >>> parse_columns("user=a, item=b, rating=")
    {'user': 'a', 'item': 'b', 'rating': ''}
    """
    asked: dict[str, str] = {}
    for part in text.split(","):
        role, equals, column = (piece.strip() for piece in part.partition("="))
        if not equals or role in asked:
            raise InvalidParameter(
                f"columns must be written once each as user=NAME,item=NAME,rating=NAME,timestamp=NAME, "
                f"got {text!r}."
            )
        asked[role] = column
    _check_roles(asked)
    return asked


def choose(
    found: Sequence[str],
    asked: Mapping[str, str] | None = None,
    *,
    keep: Sequence[str] = (),
    where: str = "the data",
    by_position: bool = False,
) -> ColumnChoice:
    """Choose one column per role from the names a table has.

    Parameters
    ----------
    found : the table's column names
    asked : role to column name, as given by the user; it wins over every alias
    keep : further columns to carry along
    where : how messages call the table
    by_position : the table has no header and follows the order user, item, rating, timestamp

    Raises
    ------
    InvalidData
        When a role has no column or more than one, or a named column is not there.
    """
    asked = dict(asked or {})
    _check_roles(asked)
    for column in [*(name for name in asked.values() if name), *keep]:
        if column not in found:
            raise InvalidData(
                f"{where} must have a column {column!r}, found {_listed(found)}. "
                f"{suggestion(column, tuple(found))}"
            )
    chosen: dict[str, str | None] = {role: asked[role] or None for role in asked}
    free = [name for name in found if name not in asked.values()]
    for position, role in enumerate(ROLES):
        if role not in chosen:
            if by_position and not asked:
                chosen[role] = found[position] if position < len(found) else None
            else:
                chosen[role] = _match(role, free, found, where)
    taken = [column for column in chosen.values() if column is not None]
    if len(set(taken)) < len(taken):
        raise InvalidData(f"each role must have its own column of {where}, got {asked}.")
    return ColumnChoice(
        user=_needed("user", chosen, found, where),
        item=_needed("item", chosen, found, where),
        rating=chosen["rating"],
        timestamp=chosen["timestamp"],
        keep=tuple(keep),
    )


def _check_roles(asked: Mapping[str, str]) -> None:
    for role in asked:
        if role not in ROLES:
            raise InvalidParameter(f"columns has no role {role!r}. {suggestion(role, ROLES)}")


def _match(role: str, free: Sequence[str], found: Sequence[str], where: str) -> str | None:
    matches = [name for name in free if re.sub(r"[-_.\s/]", "", name).lower() in ALIASES[role]]
    if len(matches) > 1:
        raise InvalidData(
            f"{where} must have one {role} column, but {' and '.join(map(repr, matches))} both may be it. "
            f"Choose with --columns {role}={matches[0]} (columns={{{role!r}: {matches[0]!r}}} in Python)."
        )
    return matches[0] if matches else None


def _needed(role: str, chosen: Mapping[str, str | None], found: Sequence[str], where: str) -> str:
    column = chosen[role]
    if column is None:
        article = "an" if role == "item" else "a"
        raise InvalidData(
            f"{where} must have {article} {role} column, but none of {_listed(found)} is known as one. "
            f"Name it with --columns user=NAME,item=NAME (without a header, columns are called 1, 2, ...)."
        )
    return column


def _listed(found: Sequence[str]) -> str:
    shown = ", ".join(map(repr, found[:12]))
    return f"{shown} and {len(found) - 12} more" if len(found) > 12 else shown or "no column"
