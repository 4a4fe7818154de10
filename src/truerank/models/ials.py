"""Implicit alternating least squares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.errors import check_above, check_at_least
from truerank.core.interactions import Interactions, Lists
from truerank.core.model import Model, Validate
from truerank.core.parallel import balanced_blocks, even_blocks, run_row_blocks, single_threaded_blas
from truerank.core.plugin import Source
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.random import stream
from truerank.core.scorer import Factors
from truerank.core.types import FloatArray, frozen
from truerank.models.checks import check_count, check_events, check_finite
from truerank.models.item_item import by_item

_ENTRIES = 20_000  # events per block of rows
_GRAM_ROWS = 4096  # rows per partial sum of V^T V


@dataclass(frozen=True)
class IALS(Model):
    r"""Matrix factorisation by alternating least squares over all user-item pairs.

    Small and fast to rank with; takes n_events d^2 + (n_users + n_items) d^3 / 6 operations per sweep.

    .. math:: L = \sum_{(u,i) \in H} (v_u^\top v_i - 1)^2 + \alpha \sum_{u,i} (v_u^\top v_i)^2
                  + \sum_{x} \lambda_x \lVert v_x \rVert^2

    with :math:`\lambda_u = \lambda (|H_u| + \alpha |I|)^\nu` and likewise for items. A sweep solves for all
    users, then for all items:

    .. math:: v_u = \Bigl(\sum_{i \in H_u} v_i v_i^\top + \alpha V^\top V + \lambda_u I\Bigr)^{-1}
                    \sum_{i \in H_u} v_i

    Parameters
    ----------
    factors : d >= 1, width of the vectors
    reg : lambda > 0
    alpha : weight of unobserved pairs, >= 0
    sweeps : how often users and items are solved for, >= 1
    init_scale : item vectors start as N(0, init_scale / sqrt(d)) draws
    reg_exponent : nu, how much stronger frequent users and items are regularised; 0 (all alike) is the loss
        of [krichene2020]_, 1 scales fully by frequency as in [rendle2022]_ and wants a far smaller ``reg``

    Notes
    -----
    The loss is recommender X of [krichene2020]_, Sec. 9; the method is [hu2008]_. The paper leaves the
    number of sweeps and the start open. Solved in float64 by Cholesky factors; the sums run over sorted
    histories and in fixed blocks, so the result depends on the seed alone, not on threads or the order of
    events. The vectors are returned in float32. Users and items without train events get zero vectors and
    score 0.

    Examples
    --------
    >>> train = Interactions.from_codes([0, 0, 1], [0, 1, 0])
    >>> fitted = IALS(factors=2, reg=0.1).fit(train)
    >>> fitted.user.shape, fitted.item.shape
    ((2, 2), (2, 2))
    """

    key: ClassVar[str] = "ials"
    source: ClassVar[Source | None] = Source("hu2008", "Eq. 4-5")

    factors: int = 16
    reg: float = 10.0
    alpha: float = 0.2
    sweeps: int = 16
    init_scale: float = 0.1
    reg_exponent: float = 0.0

    def __post_init__(self) -> None:
        check_count("factors", self.factors, 1)
        check_count("sweeps", self.sweeps, 1)
        check_above("reg", self.reg, 0)
        check_at_least("alpha", self.alpha, 0)
        check_above("init_scale", self.init_scale, 0)
        check_at_least("reg_exponent", self.reg_exponent, 0)
        for name in ("reg", "alpha", "init_scale", "reg_exponent"):
            check_finite(name, getattr(self, name))

    def fit(
        self,
        train: Interactions,
        *,
        validate: Validate | None = None,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Factors:
        """Alternate; the progress advances once per sweep."""
        check_events(self.key, train)
        rows, columns = train.by_user(), by_item(train)
        draws = stream(seed, "ials").standard_normal((train.n_items, self.factors))
        item = draws * (self.init_scale / np.sqrt(self.factors))
        user = np.zeros((train.n_users, self.factors))
        with tracked(progress, str(self), self.sweeps) as task, single_threaded_blas():
            for _ in range(self.sweeps):
                self._solve(rows, item, user)
                self._solve(columns, user, item)
                task.advance()
        return Factors(frozen(user.astype(np.float32)), frozen(item.astype(np.float32)))

    def _solve(self, lists: Lists, fixed: FloatArray, out: FloatArray) -> None:
        """Write the minimiser over one side, with the other fixed, into ``out``."""
        from truerank.models.kernels import solve_rows

        base = self.alpha * _gram(fixed)
        reg = self.reg * (lists.lengths() + self.alpha * len(fixed)) ** self.reg_exponent

        def solve(first: int, last: int) -> None:
            solve_rows(lists.indptr, lists.items, fixed, base, reg, first, last, out)

        run_row_blocks(solve, balanced_blocks(lists.indptr, _ENTRIES))


def _gram(vectors: FloatArray) -> FloatArray:
    """Return V^T V, (d, d), in partial sums over fixed blocks: the sum of a block has one shape only."""
    total = np.zeros((vectors.shape[1], vectors.shape[1]))
    for first, last in even_blocks(len(vectors), _GRAM_ROWS):
        block = vectors[first:last]
        total += block.T @ block
    return total
