"""Groups from a column of a file of users or items, such as the country of a user or the genre of an item."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import polars as pl

from truerank.core.errors import InvalidData, InvalidParameter, check_choice, suggestion
from truerank.core.interactions import Vocabulary
from truerank.core.split import GroupLabels, Split
from truerank.core.table import listed_in_words
from truerank.core.types import IntArray
from truerank.data.encode import Reader, encode_with
from truerank.data.table import ALIASES, OpenTable, scan
from truerank.workflows.segments.grouping import MOST_GROUPS, Cuts, Grouping, cut, cut_names, parse_cuts

#: The group of users or items that the file has no value for.
NO_VALUE = "no value"
_ROLES: dict[str, Literal["users", "items"]] = {"user": "users", "item": "items"}


@dataclass(frozen=True)
class FileColumn(Grouping):
    """Users or items by a column of a file, such as column(path=users.csv, name=country).

    The file has one row per user or item. Those that it does not have, or has no value for, are the group
    ``no value``; ids that the data do not have are left out.

    Parameters
    ----------
    path : a file in one of the forms that events come in: csv, tsv, Parquet, JSON lines, .dat, Excel
    name : the column with the groups; without a header columns are 1, 2, ...
    of : whether its rows are ``users`` or ``items``; by default the name of its column of ids decides
    id : the column of ids; by default the one with a usual name, such as ``user_id`` or ``item_id``
    cuts : for a column of numbers, the numbers at which a group begins, such as ``18:30:50``
    """

    key: ClassVar[str] = "column"
    needs_train: ClassVar[bool] = False

    path: str = ""
    name: str | int = ""
    of: str = "auto"
    id: str | int = ""
    cuts: Cuts = None

    def __post_init__(self) -> None:
        check_choice("of", self.of, ("auto", "users", "items"))
        if self.cuts is not None:
            parse_cuts(self.cuts, self.key)

    def labels(self, split: Split) -> GroupLabels:
        """Read the file, and look every user or item of the split up in it."""
        if self.path == "" or self.name == "":
            raise InvalidParameter(
                f"grouping {str(self)!r} needs a file and a column of it, such as "
                "column(path=users.csv, name=country)."
            )
        table = scan(Path(self.path))
        name, (identifier, of) = self._column(table, str(self.name)), self._ids(table)
        reader = Reader(table)
        reader.check_lines()
        vocabulary = split.train.users if of == "users" else split.train.items
        ids = reader.ids(identifier)
        codes = encode_with(ids, vocabulary, unknown="drop", what=of[:-1])
        if not (codes >= 0).any():
            raise InvalidData(
                f"column {identifier!r} of {table.where} must hold ids of {of} of the data, but none of its "
                f"{len(ids):,} is one. Name the column of ids with id=NAME, and of=users or of=items."
            )
        texts = pl.Series(reader.labels(name)).cast(pl.String).str.strip_chars()
        texts = texts.set(texts == "", None).filter(codes >= 0)
        codes = codes[codes >= 0]
        value, is_known = self._groups(texts, table.where, name)
        names, label = _of_vocabulary(vocabulary, codes, value, is_known, table.where, identifier)
        described = f"{of.capitalize()} by the column {name!r} of {table.where}"
        if of == "items":
            described = f"Targets by the item's value in the column {name!r} of {table.where}"
        return GroupLabels(str(self), of, names, label, f"{described}.")

    def _column(self, table: OpenTable, name: str) -> str:
        if name not in table.names:
            raise InvalidData(
                f"{table.where} must have a column {name!r}, found {listed_in_words(table.names)}. "
                f"{suggestion(name, tuple(table.names))}"
            )
        return name

    def _ids(self, table: OpenTable) -> tuple[str, Literal["users", "items"]]:
        """Return the column of ids, and whether these are of users or of items."""
        usual = {
            role: [name for name in table.names if re.sub(r"[-_.\s/]", "", name).lower() in ALIASES[role]]
            for role in _ROLES
        }
        roles = [role for role, of in _ROLES.items() if self.of in ("auto", of)]
        if self.id != "":
            identifier = self._column(table, str(self.id))
            named = [role for role in roles if identifier in usual[role]] or roles
            if len(named) == 1:
                return identifier, _ROLES[named[0]]
            raise InvalidParameter(
                f"grouping {str(self)!r} must say whether {identifier!r} holds ids of users or of items. Add "
                "of=users or of=items."
            )
        found = [(name, role) for role in roles for name in usual[role] if name != str(self.name)]
        if len(found) == 1:
            return found[0][0], _ROLES[found[0][1]]
        if found:
            came = f"{listed_in_words([repr(name) for name, _ in found])} may all be it"
        else:
            came = f"none of {listed_in_words([repr(name) for name in table.names])} is known as one"
        raise InvalidData(
            f"{table.where} must have one column of ids of users or items, but {came}. Name it with id=NAME, "
            "and of=users or of=items."
        )

    def _groups(
        self, texts: pl.Series, where: str, name: str
    ) -> tuple[tuple[tuple[str, ...], IntArray], pl.Series]:
        """Return the names of the groups and the group of each row, and which rows have one."""
        is_known = texts.is_not_null()
        if self.cuts is not None:
            numbers = texts.cast(pl.Float64, strict=False)
            bad = numbers.is_null() & is_known
            if bad.any():
                raise InvalidData(
                    f"column {name!r} of {where} must hold numbers to be cut at {self.cuts}, got "
                    f"{texts.filter(bad)[0]!r}. Leave cuts out."
                )
            points = parse_cuts(self.cuts, self.key)
            filled = numbers.fill_null(0.0).to_numpy()
            is_whole = bool((filled == np.floor(filled)).all())
            return (cut_names(points, is_whole=is_whole), cut(filled, points)), is_known
        distinct = texts.drop_nulls().unique()
        if len(distinct) > MOST_GROUPS:
            raise InvalidData(
                f"column {name!r} of {where} must have at most {MOST_GROUPS} values, got {len(distinct):,}. "
                "Cut a column of numbers, such as cuts=18:30:50, or take a column with fewer values."
            )
        numbers = distinct.cast(pl.Float64, strict=False)
        order = numbers.arg_sort() if numbers.null_count() == 0 else distinct.arg_sort()
        names = distinct.gather(order)
        if NO_VALUE in names:
            is_known &= texts != NO_VALUE
            names = names.filter(names != NO_VALUE)
        codes = texts.cast(pl.Enum(names), strict=False).to_physical().fill_null(0).to_numpy()
        return (tuple(names.to_list()), codes.astype(np.int64)), is_known


def _of_vocabulary(
    vocabulary: Vocabulary,
    codes: IntArray,
    value: tuple[tuple[str, ...], IntArray],
    is_known: pl.Series,
    where: str,
    identifier: str,
) -> tuple[tuple[str, ...], IntArray]:
    """Return the names of the groups and the group of every id of a vocabulary."""
    names, group = value
    kept = is_known.fill_null(False).to_numpy()
    label = np.full(len(vocabulary), -1, dtype=np.int64)
    label[codes[kept]] = group[kept]
    is_other = label[codes[kept]] != group[kept]
    if is_other.any():
        which = vocabulary.decode(codes[kept][is_other][:1])[0]
        raise InvalidData(
            f"{where} must have one row for each {identifier}, but {which!r} has rows with different values. "
            "Keep one of them."
        )
    if (label < 0).any():
        names, label = (*names, NO_VALUE), np.where(label < 0, len(names), label)
    return names, label
