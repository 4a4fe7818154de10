"""Item-based nearest neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, cast

import numpy as np

from truerank.core.errors import check_above, check_at_least, check_choice
from truerank.core.interactions import Interactions
from truerank.core.model import Model, Validate
from truerank.core.plugin import Source
from truerank.core.progress import SILENT, Progress, ProgressTask, tracked
from truerank.core.scorer import Scorer
from truerank.core.types import FloatArray
from truerank.models.checks import check_count, check_events, check_finite, check_memory
from truerank.models.item_item import (
    cooccurrence_lower,
    dense_history_scorer,
    mirror_lower,
    nearest_items,
    sparse_history_scorer,
)


@dataclass(frozen=True)
class ItemKNN(Model):
    r"""Sum of cosine similarities between a candidate and the items of the user's history.

    Cheap to fit, strong on sparse data, easy to explain. With ``neighbours`` the fit takes about
    sum over users of |H_u|^2 steps and 12 n_items neighbours bytes; without, 8 n_items^2 bytes.

    .. math:: s_{ij} = \Bigl(\frac{|U_i \cap U_j|}{\sqrt{|U_i||U_j|} + h}\Bigr)^q, \quad
              \hat y_{ui} = \sum_{j \in H_u} \frac{s_{ij}\, m_{ij}}{\lVert s_{i\cdot}\, m_{i\cdot} \rVert}

    where U_i are the users of item i and m is the neighbour mask. The row i of s is the candidate, the
    column j an item of the history.

    Parameters
    ----------
    power : q > 0; a larger one gives near items more weight
    neighbours : how many similarities are kept per row or column; none keeps all
    keep : ``row`` keeps for each candidate its nearest history items, ``column`` for each history item its
        nearest candidates, which leaves more candidates tied at zero
    norm : ``l1``, ``l2`` or none: what each candidate's kept similarities are divided by
    include_self : whether s_ii = 1 takes part in the mask, the norm and the sum, or is 0
    shrink : h >= 0; a larger one lowers similarities that rest on few users

    Notes
    -----
    Follows [krichene2020]_, Sec. 9, without the denominator of its Eq. 30: with it the norm of
    Eq. 29 cancels, and the published figures do not come out. The presets ``kr20-y`` and ``kr20-z`` are
    its recommenders Y and Z. [li2023]_ writes scores as X W and keeps the nearest of each row of W, which is
    ``keep=column`` here (preset ``l23-knn``); the noise it adds against ties is left out.

    Among equal similarities the item with the lower code (the smaller id) is kept. Cosines are square roots
    of correctly rounded ratios of integers, so equal ones are equal bit for bit. Histories are sets:
    repeated events count once. Users without train events score 0 everywhere, items without events score 0
    for everybody.

    Examples
    --------
    >>> train = Interactions.from_codes([0, 0, 1, 2], [0, 1, 0, 1])
    >>> scores = ItemKNN().fit(train).score(np.array([1]), np.array([1]))
    >>> round(float(scores[0, 0]), 6)  # one common user of two and two
    0.5
    """

    key: ClassVar[str] = "item-knn"
    source: ClassVar[Source | None] = Source("krichene2020", "Sec. 9, Eq. 29-30")

    power: float = 1.0
    neighbours: int | None = 100
    keep: Literal["row", "column"] = "row"
    norm: Literal["l1", "l2"] | None = None
    include_self: bool = False
    shrink: float = 0.0

    def __post_init__(self) -> None:
        check_above("power", self.power, 0)
        check_finite("power", self.power)
        if self.neighbours is not None:
            check_count("neighbours", self.neighbours, 1)
        check_choice("keep", self.keep, ("row", "column"))
        if self.norm is not None:
            check_choice("norm", self.norm, ("l1", "l2"))
        check_at_least("shrink", self.shrink, 0)
        check_finite("shrink", self.shrink)

    def fit(
        self,
        train: Interactions,
        *,
        validate: Validate | None = None,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Scorer:
        """Compute the similarities; the scorer is sparse when few of them are kept."""
        check_events(self.key, train)
        with tracked(progress, str(self), train.n_items) as task:
            if self.neighbours is None:
                return self._fit_full(train, task)
            return self._fit_nearest(train, self.neighbours, task)

    def _fit_full(self, train: Interactions, task: ProgressTask) -> Scorer:
        check_memory(str(self), 8 * train.n_items**2, "Keep fewer similarities: item-knn(neighbours=100).")
        matrix = cooccurrence_lower(train, task)
        counts = matrix.diagonal().copy()
        for row, similarity in enumerate(matrix):  # in place, row by row
            product = np.maximum(counts[row] * counts[: row + 1], 1.0)
            both = similarity[: row + 1]
            both[:] = (
                both / (np.sqrt(product) + self.shrink) if self.shrink else np.sqrt(both * both / product)
            )
        mirror_lower(matrix)
        if not self.include_self:
            np.fill_diagonal(matrix, 0.0)
        if self.power != 1:
            np.power(matrix, self.power, out=matrix)
        if self.norm is not None:
            matrix /= _norms(matrix, self.norm)
        return dense_history_scorer(train, matrix)

    def _fit_nearest(self, train: Interactions, neighbours: int, task: ProgressTask) -> Scorer:
        from scipy.sparse import csr_array

        check_memory(
            str(self),
            12 * train.n_items * min(neighbours, train.n_items),
            "Use fewer neighbours.",
        )
        indptr, indices, data = nearest_items(
            train, neighbours, shrink=self.shrink, include_self=self.include_self, task=task
        )
        if self.power != 1:
            data = np.power(data, self.power)
        weights = csr_array((data, indices, indptr), shape=(train.n_items, train.n_items))
        if self.keep == "row":  # each candidate chose its history items: turn rows into columns
            weights = weights.T.tocsr()
            weights.sort_indices()
        if self.norm is not None:
            entries = cast(FloatArray, weights.data)
            size = entries if self.norm == "l1" else entries**2
            norms = np.bincount(weights.indices, size, minlength=train.n_items)
            entries /= (norms if self.norm == "l1" else np.sqrt(norms))[weights.indices]
        if 4 * neighbours >= train.n_items:
            return dense_history_scorer(train, np.asarray(weights.toarray(), np.float64))
        return sparse_history_scorer(train, weights)


def _norms(matrix: FloatArray, norm: Literal["l1", "l2"]) -> FloatArray:
    """Return the norm of each column, 1 where it is zero, adding rows in order."""
    total = np.zeros(len(matrix))
    for row in matrix:
        total += row if norm == "l1" else row * row
    if norm == "l2":
        np.sqrt(total, out=total)
    return np.where(total > 0, total, 1.0)
