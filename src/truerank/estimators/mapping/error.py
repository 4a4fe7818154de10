"""How far a mapped curve lies from the sampled one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truerank.core.check import check_above, check_at_least
from truerank.core.errors import InvalidData
from truerank.core.types import FloatArray


@dataclass(frozen=True)
class MappingError:
    """Mean errors of HR@f(k) against SHR@k.

    Parameters
    ----------
    abs, rel : over k = 1..n
    abs_at_1, rel_at_1 : at k = 1
    abs_to_10, rel_to_10 : over k = 2..10
    n_undefined : cut-offs with SHR@k = 0, which have no relative error and are left out of its means
    """

    abs: float
    rel: float
    abs_at_1: float
    rel_at_1: float
    abs_to_10: float
    rel_to_10: float
    n_undefined: int = 0


def mapping_error(hit_ratios: FloatArray, shr: FloatArray) -> MappingError:
    """Return the error measures of Table 7 of [li2020]_.

    Parameters
    ----------
    hit_ratios : (n,) HR@f(1) ... HR@f(n)
    shr : (n,) SHR@1 ... SHR@n

    Raises
    ------
    InvalidData
        When the two do not have the same length n >= 2.

    Examples
    --------
    >>> error = mapping_error(np.array([0.1, 0.5, 1.0]), np.array([0.2, 0.4, 1.0]))
    >>> round(error.abs, 4), round(error.rel, 4), error.rel_at_1, round(error.rel_to_10, 4)
    (0.0667, 0.25, 0.5, 0.125)
    """
    if hit_ratios.shape != shr.shape or shr.ndim != 1 or len(shr) < 2:
        raise InvalidData(
            f"both curves must have one value per k = 1..n, n >= 2, got shapes {hit_ratios.shape} and "
            f"{shr.shape}."
        )
    gap = np.abs(hit_ratios - shr)
    relative = np.divide(gap, shr, out=np.full(len(shr), np.nan), where=shr > 0)
    first, next_ten = slice(0, 1), slice(1, 10)
    return MappingError(
        float(gap.mean()),
        _mean(relative),
        float(gap[0]),
        _mean(relative[first]),
        float(gap[next_ten].mean()),
        _mean(relative[next_ten]),
        int(np.isnan(relative).sum()),
    )


def _mean(values: FloatArray) -> float:
    """Return the mean of those that are defined; NaN for none."""
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def hoeffding_bound(n_users: int, distance: float) -> float:
    """Return the most that P(SHR@k is at least ``distance`` away from its expectation) can be.

    Examples
    --------
    >>> round(hoeffding_bound(30_000, 0.01), 5)
    0.00496
    """
    check_at_least("n_users", n_users, 1)
    check_above("distance", distance, 0)
    return float(min(1.0, 2 * np.exp(-2 * n_users * distance**2)))
