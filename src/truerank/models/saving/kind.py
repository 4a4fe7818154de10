"""Kinds of scorers and the arrays they are made of."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Lists
from truerank.core.scorer import DenseScores, Factors, Scorer, SparseScores
from truerank.core.types import AnyArray
from truerank.models.history import DenseHistoryScorer, SparseHistoryScorer

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Arrays = Mapping[str, AnyArray]

#: scorers that say themselves which arrays they are (``arrays()``, ``from_arrays``), imported on use, each
#: with the name of an array that has one row per user
NAMED_ARRAYS: dict[str, tuple[str, str]] = {
    "towers": ("truerank.models.neural.tower:TowerScorer", "user_bias"),
}


@dataclass(frozen=True)
class Kind:
    """How one class of scorers is taken apart and put together.

    Parameters
    ----------
    cls : the class
    names, optional : its arrays
    pack, unpack : scorer to arrays and back
    n_users : how many users its arrays are of
    """

    cls: type
    names: tuple[str, ...]
    pack: Callable[[Any], dict[str, AnyArray]]
    unpack: Callable[[Arrays], Scorer]
    n_users: Callable[[Arrays], int]
    optional: tuple[str, ...] = ()


def pack(scorer: Scorer) -> tuple[str, dict[str, AnyArray]]:
    """Return the kind of a scorer and its arrays.

    Raises
    ------
    InvalidParameter
        When the scorer is more than arrays, such as a function or a model of another library.
    """
    for name, kind in KINDS.items():
        if type(scorer) is kind.cls:
            return name, kind.pack(scorer)
    home = f"{type(scorer).__module__}:{type(scorer).__qualname__}"
    for name, (where, _) in NAMED_ARRAYS.items():
        if where == home:
            arrays: Arrays = _type_of(name).arrays(scorer)
            return name, {key: np.asarray(array) for key, array in arrays.items()}
    raise InvalidParameter(
        f"a {type(scorer).__name__} cannot be saved: it is not made of arrays. Save its scores or factors "
        "(see from_arrays), or save the model with its own library."
    )


def unpack(name: str, arrays: Arrays) -> Scorer:
    """Return the scorer of a kind from its arrays.

    Raises
    ------
    InvalidData
        When the kind is unknown or the arrays are not those of the kind.
    """
    if name in NAMED_ARRAYS:
        scorer: Scorer = _type_of(name).from_arrays(arrays)
        return scorer
    if name not in KINDS:
        raise InvalidData(f"unknown kind of scorer {name!r} in the model file. Update truerank.")
    kind = KINDS[name]
    missing = [key for key in kind.names if key not in arrays]
    extra = [key for key in arrays if key not in (*kind.names, *kind.optional)]
    if missing or extra:
        raise InvalidData(
            f"a scorer of kind {name!r} is made of {', '.join(kind.names)}, but the file holds "
            f"{', '.join(arrays) or 'nothing'}. Save the model again."
        )
    return kind.unpack(arrays)


def count_users(name: str, arrays: Arrays) -> int:
    """Return how many users the arrays of a kind are of."""
    return len(arrays[NAMED_ARRAYS[name][1]]) if name in NAMED_ARRAYS else KINDS[name].n_users(arrays)


def _type_of(name: str) -> Any:
    """Import and return a class that names its arrays itself."""
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
    """Say whether these are the pointers and places of a sparse matrix with ``size`` columns."""
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

KINDS: dict[str, Kind] = {
    "factors": Kind(
        cls=Factors,
        names=("user", "item"),
        pack=_pack_factors,
        unpack=_unpack_factors,
        n_users=lambda arrays: len(arrays["user"]),
        optional=("item_bias",),
    ),
    "dense-scores": Kind(
        cls=DenseScores,
        names=("scores",),
        pack=lambda scorer: {"scores": np.asarray(scorer.scores)},
        unpack=lambda arrays: DenseScores(arrays["scores"]),
        n_users=lambda arrays: len(arrays["scores"]),
    ),
    "sparse-scores": Kind(
        cls=SparseScores,
        names=tuple(f"scores_{name}" for name in _CSR),
        pack=lambda scorer: _pack_csr(scorer.scores, "scores"),
        unpack=lambda arrays: SparseScores(_unpack_csr(arrays, "scores")),
        n_users=lambda arrays: len(arrays["scores_indptr"]) - 1,
    ),
    "dense-history": Kind(
        cls=DenseHistoryScorer,
        names=("indptr", "items", "weights"),
        pack=_pack_dense_history,
        unpack=_unpack_dense_history,
        n_users=lambda arrays: len(arrays["indptr"]) - 1,
    ),
    "sparse-history": Kind(
        cls=SparseHistoryScorer,
        names=tuple(f"{matrix}_{name}" for matrix in ("history", "weights") for name in _CSR),
        pack=_pack_sparse_history,
        unpack=_unpack_sparse_history,
        n_users=lambda arrays: len(arrays["history_indptr"]) - 1,
    ),
}
