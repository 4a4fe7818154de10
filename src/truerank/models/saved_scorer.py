"""Saving and loading fitted models, and using them with data whose users and items are in another order.

A fitted model is a scorer made of arrays; `ScorerFormat` says which arrays each class of scorers has.
``save_scorer`` writes them with the ids of users and items, ``load_scorer`` returns a `SavedScorer`, whose
``aligned`` finds the users and items of other data by their ids.
"""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from truerank.core.digest import events_hash
from truerank.core.errors import DataWarning, InvalidData, InvalidParameter, check_choice, suggests_arguments
from truerank.core.interactions import Interactions, Lists, Vocabulary
from truerank.core.model import InterruptedTraining, Model, interrupted_training
from truerank.core.provenance import versions
from truerank.core.scorer import DenseScores, Factors, HasSparseRows, Scorer, SparseScores
from truerank.core.types import AnyArray, FloatArray, IntArray
from truerank.models.adapters.alignment import UNKNOWN, Alignment, Unknown, align_ids
from truerank.models.item_item import DenseHistoryScorer, SparseHistoryScorer
from truerank.models.saving import archive_bytes, pack_ids, read_arrays, unpack_ids, write_arrays
from truerank.models.torch_training import EncodedFactors

if TYPE_CHECKING:
    from scipy.sparse import csr_array


Arrays = Mapping[str, AnyArray]

#: scorers that implement `truerank.models.training.HasArrays`, imported on use, each with the name of an
#: array that has one row per user
NAMED_ARRAYS: dict[str, tuple[str, str]] = {
    "towers": ("truerank.models.nets.towers:TowerScorer", "user_bias"),
}


@dataclass(frozen=True)
class ScorerFormat:
    """The arrays of one class of scorers.

    Parameters
    ----------
    cls : the class
    names, optional : its arrays
    pack, unpack : scorer to arrays and back
    n_users : number of users, from the arrays
    """

    cls: type
    names: tuple[str, ...]
    pack: Callable[[Any], dict[str, AnyArray]]
    unpack: Callable[[Arrays], Scorer]
    n_users: Callable[[Arrays], int]
    optional: tuple[str, ...] = ()


def pack_scorer(scorer: Scorer) -> tuple[str, dict[str, AnyArray]]:
    """Return the kind of a scorer and its arrays.

    Raises
    ------
    InvalidParameter
        When the scorer is not made of arrays, such as a function or a model of another library.
    """
    if isinstance(scorer, EncodedFactors):
        scorer = scorer.factors()
    for name, kind in SCORER_FORMATS.items():
        if type(scorer) is kind.cls:
            return name, kind.pack(scorer)
    class_path = f"{type(scorer).__module__}:{type(scorer).__qualname__}"
    for name, (path, _) in NAMED_ARRAYS.items():
        if path == class_path:
            arrays: Arrays = _type_of(name).arrays(scorer)
            return name, {key: np.asarray(array) for key, array in arrays.items()}
    raise InvalidParameter(
        f"a {type(scorer).__name__} cannot be saved: it is not made of arrays. Save its scores or factors "
        "(see scorer_from_arrays), or save the model with its own library."
    )


def unpack_scorer(name: str, arrays: Arrays) -> Scorer:
    """Return the scorer of a kind from its arrays.

    Raises
    ------
    InvalidData
        When the kind is unknown or the arrays are not those of the kind.
    """
    if name in NAMED_ARRAYS:
        scorer: Scorer = _type_of(name).from_arrays(arrays)
        return scorer
    if name not in SCORER_FORMATS:
        raise InvalidData(f"unknown kind of scorer {name!r} in the model file. Update truerank.")
    kind = SCORER_FORMATS[name]
    missing = [key for key in kind.names if key not in arrays]
    extra = [key for key in arrays if key not in (*kind.names, *kind.optional)]
    if missing or extra:
        raise InvalidData(
            f"a scorer of kind {name!r} is made of {', '.join(kind.names)}, but the file holds "
            f"{', '.join(arrays) or 'nothing'}. Save the model again."
        )
    return kind.unpack(arrays)


def count_users(name: str, arrays: Arrays) -> int:
    """Return the number of users of a scorer from its arrays."""
    return (
        len(arrays[NAMED_ARRAYS[name][1]]) if name in NAMED_ARRAYS else SCORER_FORMATS[name].n_users(arrays)
    )


def _type_of(name: str) -> Any:
    """Import and return a class of `NAMED_ARRAYS`."""
    module, _, attribute = NAMED_ARRAYS[name][0].partition(":")
    return getattr(importlib.import_module(module), attribute)


def _pack_factors(scorer: Factors) -> dict[str, AnyArray]:
    bias = {} if scorer.item_bias is None else {"item_bias": scorer.item_bias}
    return {"user": scorer.user, "item": scorer.item, **bias}


def _unpack_factors(arrays: Arrays) -> Factors:
    return Factors(arrays["user"], arrays["item"], arrays.get("item_bias"))


def _pack_dense_history(scorer: DenseHistoryScorer) -> dict[str, AnyArray]:
    return {"indptr": scorer.history.indptr, "items": scorer.history.items, "weights": scorer.weights}


def _unpack_dense_history(arrays: Arrays) -> DenseHistoryScorer:
    indptr, items, weights = arrays["indptr"], arrays["items"], arrays["weights"]
    square = weights.ndim == 2 and weights.shape[0] == weights.shape[1] and weights.dtype == np.float64
    if not square or not _is_index(indptr, items, len(weights)):
        raise InvalidData(
            "histories and weights of the model file do not fit together. Save the model again."
        )
    return DenseHistoryScorer(Lists(indptr, items), weights)


def _pack_csr(matrix: csr_array, prefix: str) -> dict[str, AnyArray]:
    shape = np.array(matrix.shape, np.int64)
    named = {"indptr": matrix.indptr, "indices": matrix.indices, "data": matrix.data, "shape": shape}
    return {f"{prefix}_{name}": array for name, array in named.items()}


def _unpack_csr(arrays: Arrays, prefix: str) -> csr_array:
    from scipy.sparse import csr_array

    parts = {name: arrays[f"{prefix}_{name}"] for name in _CSR}
    sound = parts["shape"].shape == (2,) and parts["data"].dtype.kind in "fiu"
    sound = sound and parts["data"].shape == parts["indices"].shape
    rows, columns = (int(size) for size in parts["shape"]) if sound else (0, 0)
    sound = sound and len(parts["indptr"]) == rows + 1
    if not sound or not _is_index(parts["indptr"], parts["indices"], columns):
        raise InvalidData(f"the sparse matrix {prefix!r} of the model file is broken. Save the model again.")
    matrix = csr_array((parts["data"], parts["indices"], parts["indptr"]), shape=(rows, columns), copy=False)
    for array in (matrix.data, matrix.indices, matrix.indptr):
        array.flags.writeable = False
    return matrix


def _is_index(indptr: AnyArray, indices: AnyArray, size: int) -> bool:
    """Return whether these are the pointers and column indices of a sparse matrix with ``size`` columns."""
    if indptr.ndim != 1 or indices.ndim != 1 or indptr.dtype.kind != "i" or indices.dtype.kind != "i":
        return False
    if len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
        return False
    return bool(len(indices) == 0 or (indices.min() >= 0 and indices.max() < size))


def _pack_sparse_history(scorer: SparseHistoryScorer) -> dict[str, AnyArray]:
    return {**_pack_csr(scorer.history, "history"), **_pack_csr(scorer.weights, "weights")}


def _unpack_sparse_history(arrays: Arrays) -> SparseHistoryScorer:
    history, weights = _unpack_csr(arrays, "history"), _unpack_csr(arrays, "weights")
    if history.shape[1] != weights.shape[0] or weights.shape[0] != weights.shape[1]:
        raise InvalidData(
            "histories and weights of the model file do not fit together. Save the model again."
        )
    return SparseHistoryScorer(history, weights)


_CSR = ("indptr", "indices", "data", "shape")

SCORER_FORMATS: dict[str, ScorerFormat] = {
    "factors": ScorerFormat(
        cls=Factors,
        names=("user", "item"),
        pack=_pack_factors,
        unpack=_unpack_factors,
        n_users=lambda arrays: len(arrays["user"]),
        optional=("item_bias",),
    ),
    "dense-scores": ScorerFormat(
        cls=DenseScores,
        names=("scores",),
        pack=lambda scorer: {"scores": np.asarray(scorer.scores)},
        unpack=lambda arrays: DenseScores(arrays["scores"]),
        n_users=lambda arrays: len(arrays["scores"]),
    ),
    "sparse-scores": ScorerFormat(
        cls=SparseScores,
        names=tuple(f"scores_{name}" for name in _CSR),
        pack=lambda scorer: _pack_csr(scorer.scores, "scores"),
        unpack=lambda arrays: SparseScores(_unpack_csr(arrays, "scores")),
        n_users=lambda arrays: len(arrays["scores_indptr"]) - 1,
    ),
    "dense-history": ScorerFormat(
        cls=DenseHistoryScorer,
        names=("indptr", "items", "weights"),
        pack=_pack_dense_history,
        unpack=_unpack_dense_history,
        n_users=lambda arrays: len(arrays["indptr"]) - 1,
    ),
    "sparse-history": ScorerFormat(
        cls=SparseHistoryScorer,
        names=tuple(f"{matrix}_{name}" for matrix in ("history", "weights") for name in _CSR),
        pack=_pack_sparse_history,
        unpack=_unpack_sparse_history,
        n_users=lambda arrays: len(arrays["history_indptr"]) - 1,
    ),
}


@dataclass(frozen=True, eq=False)
class RealignedScorer:
    """A scorer for data whose users and items have other codes than those it was fitted with.

    Items it does not know score minus infinity; for users it does not know all known items tie at 0.

    Parameters
    ----------
    scorer : scores by the codes it was fitted with
    alignment : that code of each user and item of the data
    """

    scorer: Any
    alignment: Alignment

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return self.alignment.n_items

    @property
    def is_thread_safe(self) -> bool:
        """Whether the fitted scorer is."""
        return bool(getattr(self.scorer, "is_thread_safe", False))

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        """Return scores in float64, (len(users), n)."""
        user, item = self.alignment.user[np.asarray(users)], self.alignment.item[np.asarray(items)]
        out = np.zeros((len(user), item.shape[-1]))
        known = user >= 0
        wanted = np.maximum(item, 0)
        if known.any() and self.scorer.n_items:
            out[known] = self.scorer.score(user[known], wanted if item.ndim == 1 else wanted[known])
        return np.where(item < 0, -np.inf, out)


@dataclass(frozen=True, eq=False)
class RealignedSparseScorer(RealignedScorer):
    """The same for a scorer with sparse rows that knows all items of the data."""

    def sparse_rows(self, users: IntArray) -> csr_array:
        """Return the (len(users), n_items) matrix of scores, columns ascending."""
        from scipy.sparse import csr_array

        user = self.alignment.user[np.asarray(users)]
        known = np.flatnonzero(user >= 0)
        rows = csr_array(self.scorer.sparse_rows(user[known]))[:, self.alignment.item]
        selector = csr_array(
            (np.ones(len(known)), (known, np.arange(len(known)))), shape=(len(user), len(known))
        )
        aligned: csr_array = (selector @ rows).tocsr()
        aligned.sort_indices()
        return aligned


_SIDES = ("user", "item")
_INTERRUPTED = ("epoch", "epochs", "kept")


@dataclass(frozen=True, eq=False)
class SavedScorer:
    """A fitted model that was read from a file.

    Parameters
    ----------
    scorer : scores by the codes it was fitted with
    model : the spec string of the model; '' when none was given
    n_users, n_items : size of the data it was fitted on
    users, items : the ids behind the codes; None when they were not saved
    version : the version of truerank that wrote it
    path : of the file
    interrupted : how far the training had come when it was interrupted; None where it was not. The scorer
        has it as an attribute too
    """

    scorer: Scorer
    model: str
    n_users: int
    n_items: int
    users: Vocabulary | None
    items: Vocabulary | None
    version: str
    path: Path
    interrupted: InterruptedTraining | None = None

    def aligned(self, data: Interactions, *, unknown: Unknown = "error") -> Scorer:
        """Return the scorer by the codes of a data set, for example one that was read later.

        Parameters
        ----------
        data : whose vocabularies give the order of users and items
        unknown : what to do with users and items that the model does not know: ``error`` refuses, ``bottom``
            ranks such items below all others and lets all known items tie for such users

        Raises
        ------
        InvalidData
            When ids are unknown, or the file has no ids and the data are of another size.
        """
        check_choice("unknown", unknown, UNKNOWN)
        if self.users is None or self.items is None:
            self._check_size(data)
            return self.scorer
        if self.users == data.users and self.items == data.items:
            return self.scorer
        alignment = align_ids(data, self.users.ids, self.items.ids, unknown=unknown)
        realigned = _realign(self.scorer, alignment)
        if self.interrupted is not None:
            self.interrupted.mark(realigned)
        return realigned

    def _check_size(self, data: Interactions) -> None:
        if (self.n_users, self.n_items) != (data.n_users, data.n_items):
            raise InvalidData(
                f"'{self.path}' holds a model of {self.n_users} users and {self.n_items} items without their "
                f"ids, but the data have {data.n_users} and {data.n_items}. Evaluate it on the data it was "
                "fitted on, or save it with its ids (data=...)."
            )


@suggests_arguments
def save_scorer(
    path: str | Path, scorer: Scorer, *, model: str | Model = "", data: Interactions | None = None
) -> None:
    """Write a fitted model to one file.

    The file is an uncompressed ``.npz`` archive of plain arrays with a JSON header; nothing in it is code.
    Equal models give equal bytes. The header says whether the training was interrupted. The file is written
    under another name first and renamed, so that no half-written one is ever left.

    Parameters
    ----------
    path : such as ``model.truerank``
    scorer : what ``fit`` returned, or any scorer made of arrays
    model : the model or its spec string, for the record
    data : the train part, whose ids are saved, so that the model can be used with data that are read later or
        filtered in another way; None saves no ids, and the model fits data of the same size only

    Raises
    ------
    InvalidParameter
        When the scorer is not made of arrays, or the path cannot be written.
    InvalidData
        When the scorer was fitted on another catalogue than that of ``data``.
    """
    write_arrays(Path(path), *_contents(scorer, model, data))


def scorer_bytes(scorer: Scorer) -> bytes:
    """Return the model file of a scorer, without ids.

    Raises
    ------
    InvalidParameter
        When the scorer is not made of arrays.
    """
    return archive_bytes(*_contents(scorer, "", None))


def _contents(
    scorer: Scorer, model: str | Model, data: Interactions | None
) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Return header fields and arrays of a model file."""
    kind, arrays = pack_scorer(scorer)
    named = {f"scorer/{name}": array for name, array in arrays.items()}
    n_users = count_users(kind, arrays)
    if data is not None:
        if (n_users, scorer.n_items) != (data.n_users, data.n_items):
            raise InvalidData(
                f"data must be what the model was fitted on ({n_users} users, {scorer.n_items} items), got "
                f"{data.n_users} users and {data.n_items} items. Give its train part."
            )
        for side, vocabulary in zip(_SIDES, (data.users, data.items), strict=True):
            named.update({f"ids/{name}": array for name, array in pack_ids(vocabulary, side).items()})
    interrupted = interrupted_training(scorer)
    fields = {
        "model": str(model),
        "kind": kind,
        "n_users": n_users,
        "n_items": scorer.n_items,
        "data_hash": None if data is None else events_hash(data),
        "interrupted": None if interrupted is None else _as_written(interrupted),
        "versions": versions(),
    }
    return fields, named


def _as_written(interrupted: InterruptedTraining) -> dict[str, int]:
    """Return what the header says of an interrupted training: all but the path, which the reader knows."""
    return {name: getattr(interrupted, name) for name in _INTERRUPTED}


def _interrupted(told: Any, path: Path) -> InterruptedTraining | None:
    """Return what the header says of an interrupted training; files of earlier versions say nothing."""
    if told is None:
        return None
    if not isinstance(told, dict) or [*map(type, map(told.get, _INTERRUPTED))] != [int, int, int]:
        raise InvalidData("its header does not say which epoch was interrupted. Save the model again.")
    return InterruptedTraining(told["epoch"], told["epochs"], told["kept"], str(path))


@suggests_arguments
def load_scorer(path: str | Path) -> SavedScorer:
    """Read what ``save_scorer`` wrote; a training that was interrupted is announced by a `DataWarning`.

    Raises
    ------
    InvalidData
        When the file is missing, foreign, damaged or of a later version.
    """
    path = Path(path)
    header, arrays = read_arrays(path)
    parts = {
        part: {name.removeprefix(part): array for name, array in arrays.items() if name.startswith(part)}
        for part in ("scorer/", "ids/")
    }
    try:
        kind = str(header.get("kind"))
        scorer = unpack_scorer(kind, parts["scorer/"])
        users, items = (unpack_ids(parts["ids/"], side) for side in _SIDES)
        n_users, n_items = count_users(kind, parts["scorer/"]), scorer.n_items
        if (header.get("n_users"), header.get("n_items")) != (n_users, n_items):
            raise InvalidData("the sizes in its header are not those of its arrays. Save the model again.")
        if any(ids is not None and len(ids) != size for ids, size in ((users, n_users), (items, n_items))):
            raise InvalidData("it has another number of ids than of users or items. Save the model again.")
        interrupted = _interrupted(header.get("interrupted"), path)
    except InvalidData as error:
        raise InvalidData(f"'{path}' cannot be used: {error}") from None
    except (ValueError, TypeError, LookupError, OverflowError) as error:  # arrays of another form
        raise InvalidData(
            f"'{path}' cannot be used: its arrays are not those of a scorer ({error}). Save the model again."
        ) from None
    if interrupted is not None:
        interrupted.mark(scorer)
        warnings.warn(f"'{path}' is not fully trained: {interrupted}.", DataWarning, stacklevel=3)
    return SavedScorer(
        scorer=scorer,
        model=str(header.get("model", "")),
        n_users=n_users,
        n_items=n_items,
        users=users,
        items=items,
        version=str(header.get("truerank", "")),
        path=path,
        interrupted=interrupted,
    )


def _realign(scorer: Scorer, alignment: Alignment) -> Scorer:
    """Return the scorer in another order of users and items, by the same interface it offers."""
    if isinstance(scorer, Factors):
        return alignment.factors(scorer.user, scorer.item, scorer.item_bias)
    if isinstance(scorer, HasSparseRows) and not (alignment.item < 0).any():
        return RealignedSparseScorer(scorer, alignment)
    return RealignedScorer(scorer, alignment)
