"""The model ``arrays``: scores or factors that are read from a NumPy file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from truerank.core.checkpoint import DAMAGED, check_input, read_archive
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.model import Model, Validate
from truerank.core.progress import SILENT, Progress, ProgressTask, tracked
from truerank.core.scorer import DenseScores, Factors, Scorer, SparseScores
from truerank.core.types import AnyArray, frozen

_CSR = {"format", "shape", "indptr", "indices", "data"}
_FACTORS = {"user", "item", "item_bias"}


@dataclass(frozen=True)
class Arrays(Model):
    """Scores that were computed elsewhere, read from a NumPy file.

    Rows are users and columns are items, both in the order of their sorted ids (the order of
    ``train.users`` and ``train.items``), all of them: also those without train events. Nothing is learnt.

    ==========  =================================================================================
    ``.npz``    ``user`` (n_users, d), ``item`` (n_items, d) and perhaps ``item_bias`` (n_items,)
    ``.npz``    a sparse (n_users, n_items) matrix as ``scipy.sparse.save_npz`` writes it, in CSR
    ``.npy``    a dense (n_users, n_items) array of scores, read where it lies (memory-mapped)
    ==========  =================================================================================

    Parameters
    ----------
    path : the file; a relative path starts from the working directory

    Raises
    ------
    InvalidData
        When the file is missing, damaged, of another form or shape, or holds NaN.

    Examples
    --------
    >>> str(Arrays("scores/model.npz"))
    'arrays(path=scores/model.npz)'
    """

    key: ClassVar[str] = "arrays"

    path: str = "model.npz"

    def __post_init__(self) -> None:
        if Path(self.path).suffix not in (".npz", ".npy"):
            raise InvalidParameter(f"path must end in .npz or .npy, got {self.path!r}.")

    def fit(
        self,
        train: Interactions,
        *,
        validate: Validate | None = None,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Scorer:
        """Read the file and check it against the vocabularies of train."""
        path, shape = Path(self.path), (train.n_users, train.n_items)
        check_input(path, "an archive of scores")
        try:
            is_there = path.exists()
        except OSError as error:
            raise self._unreadable(error) from None
        if not is_there:
            raise InvalidData(f"{self.path} does not exist. Check the path.")
        with tracked(progress, str(self)) as task:
            if path.suffix == ".npy":
                return self._dense(shape, task)
            arrays = self._load()
            return self._sparse(arrays, shape) if arrays.keys() >= _CSR else self._factors(arrays, shape)

    def _load(self) -> dict[str, AnyArray]:
        try:
            return read_archive(Path(self.path))
        except DAMAGED as error:
            raise self._unreadable(error) from None

    def _dense(self, shape: tuple[int, int], task: ProgressTask) -> DenseScores:
        try:
            scores = np.load(self.path, mmap_mode="r", allow_pickle=False)
        except DAMAGED as error:
            raise self._unreadable(error) from None
        if scores.dtype.kind not in "fiu":
            raise InvalidData(f"scores in {self.path} must be numbers, got {scores.dtype}.")
        self._check_shape("scores", scores, shape)
        step = max(1, 2**22 // max(shape[1], 1))
        for first in range(0, shape[0], step):
            self._check_no_nan("scores", scores[first : first + step])
            task.advance(len(scores[first : first + step]))
        return DenseScores(scores)

    def _sparse(self, arrays: Mapping[str, AnyArray], shape: tuple[int, int]) -> SparseScores:
        from scipy.sparse import csr_array

        written = arrays["format"].item()
        layout = written.decode() if isinstance(written, bytes) else written
        if layout != "csr":
            raise InvalidData(f"the sparse matrix in {self.path} must be in CSR form, got {layout!r}.")
        if tuple(arrays["shape"]) != shape:
            raise self._wrong_shape("scores", tuple(int(n) for n in arrays["shape"]), shape)
        self._check_no_nan("scores", arrays["data"])
        try:
            matrix = csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise self._unreadable(error) from None
        matrix.sum_duplicates()
        for array in (matrix.data, matrix.indices, matrix.indptr):
            array.flags.writeable = False
        return SparseScores(matrix)

    def _factors(self, arrays: Mapping[str, AnyArray], shape: tuple[int, int]) -> Factors:
        unknown, missing = sorted(arrays.keys() - _FACTORS), sorted({"user", "item"} - arrays.keys())
        if unknown or missing:
            names = ", ".join(sorted(arrays)) or "nothing"
            raise InvalidData(
                f"{self.path} must hold the arrays user and item and perhaps item_bias, or a CSR matrix "
                f"written by scipy.sparse.save_npz, got {names}."
            )
        width = arrays["item"].shape[-1] if arrays["item"].ndim else 0
        wanted = {"user": (shape[0], width), "item": (shape[1], width), "item_bias": (shape[1],)}
        read = {}
        for key, array in arrays.items():
            if array.dtype.kind not in "fiu":
                raise InvalidData(f"{key} in {self.path} must be numbers, got {array.dtype}.")
            self._check_shape(key, array, wanted[key])
            self._check_no_nan(key, array, finite=True)
            is_small = array.dtype in (np.float16, np.float32)
            read[key] = frozen(np.ascontiguousarray(array, np.float32 if is_small else np.float64))
        return Factors(read["user"], read["item"], read.get("item_bias"))

    def _check_shape(self, name: str, array: AnyArray, shape: tuple[int, ...]) -> None:
        if array.shape != shape:
            raise self._wrong_shape(name, array.shape, shape)

    def _wrong_shape(self, name: str, came: tuple[int, ...], wanted: tuple[int, ...]) -> InvalidData:
        return InvalidData(
            f"{name} in {self.path} must have shape {wanted}, got {came}. Write one row per user and one "
            "column or row per item of the data, in the order of their sorted ids."
        )

    def _check_no_nan(self, name: str, array: AnyArray, *, finite: bool = False) -> None:
        if array.dtype.kind == "f" and (not np.isfinite(array).all() if finite else np.isnan(array).any()):
            bad = "NaN or infinity" if finite else "NaN"
            raise InvalidData(f"{name} in {self.path} must not hold {bad}. Check the model that wrote it.")

    def _unreadable(self, error: Exception) -> InvalidData:
        return InvalidData(f"{self.path} cannot be read ({error}). Write it anew with numpy.")
