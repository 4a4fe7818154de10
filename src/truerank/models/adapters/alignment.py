"""Where another table keeps the users and items of the data."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from truerank.core.check import check_choice
from truerank.core.errors import DataWarning, InvalidData
from truerank.core.interactions import Interactions
from truerank.core.types import FloatArray, IntArray, frozen
from truerank.core.vocabulary import Vocabulary

if TYPE_CHECKING:
    from truerank.core.scorer import Factors

#: What happens to users and items of the data that the model has never met.
Unknown: TypeAlias = Literal["error", "bottom"]
UNKNOWN: tuple[Unknown, ...] = ("error", "bottom")


@dataclass(frozen=True, eq=False)
class Alignment:
    """The row of each user and item of the data in the tables of a model.

    Parameters
    ----------
    user : (n_users,) rows; -1 where the model has none
    item : (n_items,) rows or columns; -1 where the model has none
    """

    user: IntArray
    item: IntArray

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.item)

    def factors(self, user: FloatArray, item: FloatArray, item_bias: FloatArray | None = None) -> Factors:
        """Return the vectors in the order of the data.

        Unknown users get zero vectors, so that only item biases speak. Unknown items get zero vectors and a
        bias below every possible score of a known one.
        """
        from truerank.core.scorer import Factors

        for name, array in (("user", user), ("item", item), ("item bias", item_bias)):
            if array is not None and not np.isfinite(array).all():
                raise InvalidData(
                    f"{name} factors of the model must be finite, got NaN or infinity. Check its training."
                )
        small = all(array is None or array.dtype == np.float32 for array in (user, item, item_bias))
        dtype = np.float32 if small else np.float64
        users, items = _taken(user, self.user, dtype), _taken(item, self.item, dtype)
        bias = None if item_bias is None else _taken(item_bias, self.item, dtype)
        unknown = self.item < 0
        if unknown.any():
            bias = np.zeros(self.n_items, dtype) if bias is None else bias
            longest = [float(np.linalg.norm(side, axis=1).max(initial=0.0)) for side in (users, items)]
            bias[unknown] = -(2 * (longest[0] * longest[1] + np.abs(bias).max(initial=0.0)) + 1)
        return Factors(frozen(users), frozen(items), None if bias is None else frozen(bias))


def align_rows(train: Interactions, shape: tuple[int, int]) -> Alignment:
    """Take the rows of the model as codes of the data, which they are when it was fitted on its matrix.

    Raises
    ------
    InvalidData
        When the model has another number of users or items than the data.
    """
    if shape != (train.n_users, train.n_items):
        raise InvalidData(
            f"the model must have {train.n_users} users and {train.n_items} items like the data, but it has "
            f"{shape[0]} and {shape[1]}. Fit it on train.matrix(), or give user_ids and item_ids: the ids of "
            "its rows in order."
        )
    return Alignment(np.arange(shape[0]), np.arange(shape[1]))


def align_ids(
    train: Interactions,
    user_ids: Any,
    item_ids: Any,
    *,
    unknown: Unknown = "error",
    first: int = 0,
) -> Alignment:
    """Find the users and items of the data by their ids.

    Parameters
    ----------
    train : whose vocabularies are the order that is wanted
    user_ids, item_ids : ids of the model's rows, in order
    unknown : ``error`` refuses users and items that the model does not know, ``bottom`` ranks such items
        below all others and lets all known items tie for such users
    first : number of the model's first row with an id

    Raises
    ------
    InvalidData
        When ids are missing, repeated or of another kind than those of the data.
    """
    check_choice("unknown", unknown, UNKNOWN)
    user = _places("user", train.users, user_ids, unknown)
    item = _places("item", train.items, item_ids, unknown)
    return Alignment(np.where(user < 0, -1, user + first), np.where(item < 0, -1, item + first))


def align(
    train: Interactions,
    shape: tuple[int, int],
    user_ids: Any,
    item_ids: Any,
    unknown: Unknown,
) -> Alignment:
    """Align by ids where they are given, for users and items each, else by row."""
    check_choice("unknown", unknown, UNKNOWN)
    if user_ids is None and item_ids is None:
        return align_rows(train, shape)
    sides: list[IntArray] = []
    for what, vocabulary, ids, size in (
        ("user", train.users, user_ids, shape[0]),
        ("item", train.items, item_ids, shape[1]),
    ):
        if ids is None:
            if size != len(vocabulary):
                raise InvalidData(
                    f"the model must have {len(vocabulary)} {what}s like the data, but it has {size}. Give "
                    f"{what}_ids: the ids of its rows in order."
                )
            sides.append(np.arange(size))
            continue
        if len(ids) != size:
            raise InvalidData(
                f"{what}_ids must name the {size} {what}s of the model in the order of its rows, "
                f"got {len(ids)}."
            )
        sides.append(_places(what, vocabulary, ids, unknown))
    return Alignment(*sides)


def _places(what: str, vocabulary: Vocabulary, ids: Any, unknown: Unknown) -> IntArray:
    """Return the row of each id of the vocabulary, -1 where there is none."""
    from polars.exceptions import PolarsError

    listed = list(ids)
    try:
        codes = vocabulary.encode(listed)
    except (PolarsError, TypeError):
        raise InvalidData(
            f"{what} ids of the model must be numbers or text like those of the data, got "
            f"{listed[0]!r}. Give {what}_ids of that kind."
        ) from None
    rows = np.flatnonzero(codes >= 0)
    if len(rows) == 0 and len(vocabulary):
        shown = f"{listed[0]!r}" if listed else "none"
        raise InvalidData(
            f"the model must be of the {what}s of the data, but no id agrees: it has {shown} and the data "
            f"{vocabulary.decode(np.array([0]))[0]!r}. Fit it on this data."
        )
    counts = np.bincount(codes[rows], minlength=len(vocabulary))
    if (counts > 1).any():
        repeated = vocabulary.decode(np.array([int(np.argmax(counts > 1))]))[0]
        raise InvalidData(f"{what} ids of the model must differ, but {repeated!r} stands for several rows.")
    if len(rows) < len(listed):
        extra = [listed[row] for row in np.flatnonzero(codes < 0)[:3]]
        warnings.warn(
            f"{len(listed) - len(rows)} {what}s of the model are not in the data, such as "
            f"{', '.join(map(repr, extra))}: they are not ranked.",
            DataWarning,
            stacklevel=5,
        )
    places = np.full(len(vocabulary), -1, dtype=np.int64)
    places[codes[rows]] = rows
    missing = np.flatnonzero(places < 0)
    if len(missing) and unknown == "error":
        raise InvalidData(
            f"the model must know every {what} of the data, but it does not know {len(missing)}, such as "
            f"{vocabulary.decode(missing[:1])[0]!r}. Fit it on this train part, or say what to do with them: "
            "unknown='bottom'."
        )
    return places


def _taken(table: FloatArray, rows: IntArray, dtype: type[np.floating[Any]]) -> FloatArray:
    """Return the rows of a table as a new array, zeros where there is no row."""
    taken = np.zeros((len(rows), *table.shape[1:]), dtype)
    taken[rows >= 0] = table[rows[rows >= 0]]
    return taken
