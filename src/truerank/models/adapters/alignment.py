"""Users and items of a library's model in the order of the data, and scorers around such models.

`Alignment` holds the row of each user and item of the data in the model's tables, found by ids or taken row
by row. `RowScorer` scores through the library's own call, which returns whole rows of its catalogue;
``is_dot_product`` finds out whether factors give the same scores and can be used instead;
``item_item_scorer`` wraps sparse similarity matrices. The remaining functions import optional libraries, name
models that are not fitted, and call torch modules in eval mode without gradients.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from truerank.core.errors import DataWarning, InvalidData, InvalidParameter, MissingDependency, check_choice
from truerank.core.interactions import Interactions, check_interactions
from truerank.core.types import FloatArray, IntArray, frozen
from truerank.models.item_item import SparseHistoryScorer

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from truerank.core.scorer import Factors


#: What happens to users and items of the data that the model does not know: those without train events
#: are ranked last and others refused, all are refused, or all are ranked last.
Unknown: TypeAlias = Literal["cold", "error", "bottom"]
UNKNOWN: tuple[Unknown, ...] = ("cold", "error", "bottom")


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

    @property
    def unknown(self) -> dict[str, int]:
        """How many users and items of the data the model does not know; empty if it knows all."""
        counts = {"users": int((self.user < 0).sum()), "items": int((self.item < 0).sum())}
        return {what: count for what, count in counts.items() if count}

    def factors(self, user: FloatArray, item: FloatArray, item_bias: FloatArray | None = None) -> Factors:
        """Return the vectors in the order of the data.

        Unknown users get zero vectors, so that the item biases alone decide. Unknown items get zero vectors
        and a bias below every possible score of a known one.
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
        bias = None if bias is None else frozen(bias)
        return Factors(frozen(users), frozen(items), bias, unknown=self.unknown)


def align_rows(train: Interactions, shape: tuple[int, int]) -> Alignment:
    """Align row by row, for a model that was fitted on ``train.matrix()``.

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
    unknown: Unknown = "cold",
    first: int = 0,
) -> Alignment:
    """Find the users and items of the data by their ids.

    Parameters
    ----------
    train : whose vocabularies give the order of users and items
    user_ids, item_ids : ids of the model's rows, in order
    unknown : what to do with users and items that the model does not know. ``bottom`` ranks such items below
        all others and lets all known items tie for such users, ``error`` refuses them. ``cold`` ranks those
        without train events so, which no model fitted on the train part can know, and refuses the others
    first : number of the model's first row with an id

    Raises
    ------
    InvalidData
        When ids are missing, repeated or of another kind than those of the data.
    """
    check_interactions(train, "an adapter")
    check_choice("unknown", unknown, UNKNOWN)
    user = _rows_by_id("user", train, user_ids, unknown)
    item = _rows_by_id("item", train, item_ids, unknown)
    return Alignment(np.where(user < 0, -1, user + first), np.where(item < 0, -1, item + first))


def make_alignment(
    train: Interactions,
    shape: tuple[int, int],
    user_ids: Any,
    item_ids: Any,
    unknown: Unknown,
) -> Alignment:
    """Align by ids where they are given, for users and items each, else by row."""
    check_interactions(train, "an adapter")
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
        sides.append(_rows_by_id(what, train, ids, unknown))
    return Alignment(*sides)


def _rows_by_id(what: str, train: Interactions, ids: Any, unknown: Unknown) -> IntArray:
    """Return the row of each user or item of the data, -1 where there is none."""
    from polars.exceptions import PolarsError

    vocabulary = train.users if what == "user" else train.items
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
            f"the model must know {what}s of the data, but no id is the same: it has {shown} and the data "
            f"{vocabulary.decode(np.array([0]))[0]!r}. Fit it on this data."
        )
    counts = np.bincount(codes[rows], minlength=len(vocabulary))
    if (counts > 1).any():
        repeated = vocabulary.decode(np.array([int(np.argmax(counts > 1))]))[0]
        raise InvalidData(f"{what} ids of the model must differ, but several rows have the id {repeated!r}.")
    if len(rows) < len(listed):
        extra = [listed[row] for row in np.flatnonzero(codes < 0)[:3]]
        warnings.warn(
            f"{len(listed) - len(rows)} {what}s of the model are not in the data, such as "
            f"{', '.join(map(repr, extra))}: they are not ranked.",
            DataWarning,
            stacklevel=5,
        )
    rows_of = np.full(len(vocabulary), -1, dtype=np.int64)
    rows_of[codes[rows]] = rows
    is_missing = rows_of < 0
    if unknown == "cold":
        is_missing &= (train.user_counts() if what == "user" else train.item_counts()) > 0
    missing = np.flatnonzero(is_missing)
    if len(missing) and unknown != "bottom":
        which = f"every {what} of the data" if unknown == "error" else f"every {what} with train events"
        raise InvalidData(
            f"the model must know {which}, but it does not know {len(missing)}, such as "
            f"{vocabulary.decode(missing[:1])[0]!r}. Fit it on this train part, or say what to do with them: "
            "unknown='bottom'."
        )
    return rows_of


def _taken(table: FloatArray, rows: IntArray, dtype: type[np.floating[Any]]) -> FloatArray:
    """Return the rows of a table as a new array, zeros where there is no row."""
    taken = np.zeros((len(rows), *table.shape[1:]), dtype)
    taken[rows >= 0] = table[rows[rows >= 0]]
    return taken


def require(function: str, module: str, *, extra: str = "models") -> Any:
    """Import a module of an optional library, or raise an error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingDependency(function, module.partition(".")[0], extra=extra) from None


def check_model(function: str, model: object, kinds: Any, wanted: str) -> None:
    """Raise unless the model is one of the library's."""
    if not isinstance(model, kinds):
        raise InvalidParameter(f"{function} takes {wanted}, got {type(model).__name__}. Pass such an object.")


def not_fitted(function: str, model: object, verb: str) -> InvalidData:
    """Return the error for a model that is not fitted."""
    return InvalidData(
        f"{function} needs a fitted model, but this {type(model).__name__} is not. Call its {verb} first."
    )


def probe(
    function: str, model: object, rows: Callable[[IntArray], FloatArray], verb: str, user: int = 0
) -> None:
    """Compute one user's scores, so that a model that is not fitted is reported at once."""
    try:
        rows(np.array([user]))
    except (AttributeError, RuntimeError, TypeError):
        raise not_fitted(function, model, verb) from None


_CELLS = 1 << 22  # scores computed at a time: 32 MB
_CHECKED = 5  # users whose scores are compared with dot products
_AGREEMENT = 1e-5  # relative to the largest score of the user; float32 products differ by about 1e-6


@dataclass(frozen=True, eq=False)
class RowScorer:
    """A model that scores all items of a user at once.

    Every user is scored once per call, in batches. Items the model does not know score minus infinity; for
    users it does not know all known items tie at 0.

    Parameters
    ----------
    rows : (n,) rows of users to (n, n_columns) scores
    alignment : where the model keeps the users and items of the data
    n_columns : items of the model
    batch : users per call at most
    """

    rows: Callable[[IntArray], FloatArray]
    alignment: Alignment
    n_columns: int
    batch: int = 256

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.alignment.n_items

    @property
    def unknown(self) -> dict[str, int]:
        """How many users and items of the data the model does not know."""
        return self.alignment.unknown

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        """Return scores in float64, (len(users), n)."""
        users, columns = np.asarray(users), self.alignment.item[np.asarray(items)]
        out = np.empty((len(users), columns.shape[-1]))
        step = max(1, min(self.batch, _CELLS // max(self.n_columns, 1)))
        for start in range(0, len(users), step):
            block = slice(start, start + step)
            distinct, back = np.unique(self.alignment.user[users[block]], return_inverse=True)
            scores = self._scores_of(distinct)
            wanted = columns if columns.ndim == 1 else columns[block]
            picked = scores[:, wanted][back] if columns.ndim == 1 else scores[back[:, None], wanted]
            out[block] = np.where(wanted < 0, -np.inf, picked)
        return out

    def _scores_of(self, users: IntArray) -> FloatArray:
        scores = np.zeros((len(users), self.n_columns))
        known = users >= 0
        if known.any():
            answer = np.asarray(self.rows(users[known]))
            if answer.shape != (int(known.sum()), self.n_columns):
                raise InvalidData(
                    f"the model must score {self.n_columns} items for each of {int(known.sum())} users, "
                    f"it returned shape {answer.shape}. Check what its scoring call returns."
                )
            scores[known] = answer
        return scores


def is_dot_product(
    rows: Callable[[IntArray], FloatArray],
    user: FloatArray,
    item: FloatArray,
    item_bias: FloatArray | None = None,
) -> bool:
    """Return whether the model's scores are these dot products, up to a constant per user.

    This is checked on five users from the first to the last, because the vectors that a library offers need
    not be those it ranks by.
    """
    if user.ndim != 2 or item.ndim != 2 or user.shape[1] != item.shape[1] or len(user) == 0:
        return False
    users = np.unique(np.linspace(0, len(user) - 1, _CHECKED).astype(np.int64))
    dots = user[users].astype(np.float64) @ item.astype(np.float64).T
    if item_bias is not None:
        dots += item_bias
    scores = np.asarray(rows(users), dtype=np.float64)
    if scores.shape != dots.shape or not (np.isfinite(scores).all() and np.isfinite(dots).all()):
        return False
    largest = np.maximum(np.abs(scores).max(axis=1, initial=0.0), np.abs(dots).max(axis=1, initial=0.0))
    return bool((np.ptp(scores - dots, axis=1) <= _AGREEMENT * largest).all())


def item_item_scorer(history: csr_array, weights: csr_array, alignment: Alignment) -> SparseHistoryScorer:
    """Return the scorer of a similarity matrix, in the order of the data.

    Items the model does not know have no similarities: they score 0 like any item that no history leads to.

    Parameters
    ----------
    history : (n_users, n_items) weights of each user's items, in the order of the data
    weights : (n_columns, n_columns) in the order of the model; row j holds what a history item j adds to each
        candidate
    alignment : where the model keeps the users and items of the data
    """
    history = history.astype(np.float64)
    weights = selected(weights, alignment.item, alignment.item).astype(np.float64)
    for matrix in (history, weights):
        for array in (matrix.data, matrix.indices, matrix.indptr):
            array.flags.writeable = False
    return SparseHistoryScorer(history, weights, alignment.unknown)


def selected(matrix: csr_array, rows: IntArray, columns: IntArray) -> csr_array:
    """Return rows and columns of a sparse matrix in the given order, empty where there is none (-1)."""
    left, right = _picker(rows, matrix.shape[0]), _picker(columns, matrix.shape[1])
    picked: csr_array = (left @ matrix @ right.T).tocsr()
    picked.sort_indices()
    return picked


def _picker(rows: IntArray, size: int) -> csr_array:
    """Return the (len(rows), size) matrix with a one in column ``rows[n]`` of row n; -1 leaves it empty."""
    from scipy.sparse import csr_array

    known = np.flatnonzero(rows >= 0)
    return csr_array((np.ones(len(known)), (known, rows[known])), shape=(len(rows), size))


@contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Put a module into eval mode without gradients; afterwards every part is in its former mode."""
    import torch

    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, mode in modes:
            part.training = mode


def device_of(module: Any) -> Any:
    """Return where the module's parameters or buffers lie, the CPU when it has none."""
    import torch

    for tensors in (module.parameters(), module.buffers()):
        for tensor in tensors:
            return tensor.device
    return torch.device("cpu")


def tensor_to_array(scores: Any) -> FloatArray:
    """Return a tensor as an array; half precisions, which NumPy may lack, become float32."""
    import torch

    if not isinstance(scores, torch.Tensor):
        return np.asarray(scores)
    scores = scores.detach()
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    array: FloatArray = scores.cpu().numpy()
    return array
