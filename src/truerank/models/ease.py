"""EASE: a linear auto-encoder in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.errors import check_above
from truerank.core.interactions import Interactions
from truerank.core.model import Model, Validate
from truerank.core.plugin import Source
from truerank.core.progress import SILENT, Progress, tracked
from truerank.models.checks import check_events, check_finite, check_memory
from truerank.models.item_item import (
    DenseHistoryScorer,
    cooccurrence_lower,
    dense_history_scorer,
    mirror_lower,
    negate_inverse_lower,
)


@dataclass(frozen=True)
class Ease(Model):
    r"""Item-item regression with a zero diagonal, in closed form.

    Strong on data with up to some ten thousand items; one parameter. The fit takes 8 n_items^2 bytes and
    about n_items^3 operations: seconds for 5,000 items, minutes for 30,000.

    .. math:: P = (X^\top X + \lambda I)^{-1}, \quad B_{ij} = -P_{ij} / P_{jj}, \; B_{jj} = 0, \quad
              \hat y_u = x_u B

    Parameters
    ----------
    reg : lambda > 0, in units of events; larger for denser data (500 suits MovieLens)

    Notes
    -----
    Implements Eq. (8) of [steck2019]_. X is binary: repeated events count once, values are not used. Users
    without train events score 0 everywhere; items without events score 0 for everybody.

    Examples
    --------
    >>> train = Interactions.from_codes([0, 0, 1, 1, 2], [0, 1, 0, 1, 0])
    >>> scores = Ease(reg=1.0).fit(train).score(np.array([2]), np.array([0, 1]))
    >>> [round(float(score), 6) for score in scores[0]]  # B_01 = 2 / (3 + 1)
    [0.0, 0.5]
    """

    key: ClassVar[str] = "ease"
    source: ClassVar[Source | None] = Source("steck2019", "Eq. 8")

    reg: float = 500.0

    def __post_init__(self) -> None:
        check_above("reg", self.reg, 0)
        check_finite("reg", self.reg)

    def fit(
        self,
        train: Interactions,
        *,
        validate: Validate | None = None,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> DenseHistoryScorer:
        """Invert the regularised co-occurrence matrix."""
        check_events(self.key, train)
        check_memory(
            self.key, 8 * train.n_items**2, "Filter rare items, or use item-knn(neighbours=100) or ials."
        )
        with tracked(progress, str(self), 2 * train.n_items) as task:
            matrix = cooccurrence_lower(train, task)
            matrix[np.diag_indices_from(matrix)] += self.reg
            negate_inverse_lower(matrix, task)
        mirror_lower(matrix)
        matrix /= -matrix.diagonal()
        np.fill_diagonal(matrix, 0.0)
        matrix += 0.0  # no negative zeros
        return dense_history_scorer(train, matrix)
