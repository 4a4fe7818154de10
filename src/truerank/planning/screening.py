"""How deep to look at all users before rows of some of them are scored to their end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from truerank.core.types import FloatArray, IntArray
from truerank.planning.betting import running_variance


@dataclass(frozen=True)
class Forecast:
    """What reaching the wanted half-width is expected to take.

    Parameters
    ----------
    depth : items of every row that are looked at first; 0 for none
    n_rows : rows scored until they are decided, after that
    n_scores : scores of both
    """

    depth: int
    n_rows: int
    n_scores: float


def needed_information(half_width: float, level: float) -> float:
    """Return the sum over draws of squared weight / variance that bets need, see ``Draws``."""
    return float(2 * np.log(2 / (1 - level)) / half_width**2)


def needed_rows(n_open: int, variance: float, missing: float, n_users: int | None) -> int:
    r"""Return about how many of the open users must be drawn.

    .. math:: \sum_{j = R - k + 1}^{R} \frac{(N/j)^2}{\sigma^2} \approx
              \frac{N^2}{\sigma^2} \Big(\frac{1}{R - k} - \frac{1}{R}\Big) = \text{missing}

    Examples
    --------
    >>> needed_rows(1000, 0.25, 4000.0, 1000)  # as many again as are drawn: half of them
    500
    >>> needed_rows(1000, 0.25, 4000.0, None)
    1000
    """
    if missing <= 0 or n_open == 0:
        return 0
    if n_users is None:
        return min(int(np.ceil(missing * variance)), n_open)
    return min(int(np.ceil(n_open - 1 / (1 / n_open + missing * variance / n_users**2))), n_open)


def forecast(
    depth: IntArray,
    value: FloatArray,
    missing: FloatArray,
    *,
    n_users: int | None,
    n_left: int,
    depths: Sequence[int],
) -> list[Forecast]:
    """Return what each depth of a first look at all users left is expected to take.

    Users drawn so far show at which depth rows are decided, and how the values of those that are not vary.

    Parameters
    ----------
    depth : (n,) items after which the rows of users drawn so far were decided
    value : (n, n_metrics) their values
    missing : (n_metrics,) information still needed
    n_users, n_left : all users (None: a population, where only depth 0 has a meaning) and those not drawn
    depths : to be compared, beside 0
    """
    found = []
    for size in (0, *depths) if n_users is not None else (0,):
        is_open = depth > size
        n_open = round(n_left * float(is_open.mean()))
        rest = float((depth - size)[is_open].mean()) if is_open.any() else 0.0
        n_rows = max(
            needed_rows(n_open, _variance(value[is_open, column]), float(need), n_users)
            for column, need in enumerate(missing)
        )
        n_scores = n_left * float(np.minimum(depth, size).mean()) + n_rows * rest
        found.append(Forecast(size, n_rows, n_scores))
    return found


def _variance(value: FloatArray) -> float:
    """Return the guess of the next draw's variance."""
    return float(running_variance(np.zeros(1), value)[0])
