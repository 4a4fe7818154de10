"""Scorers from functions of users and items."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter, suggests_arguments
from truerank.core.scorer import Scorer
from truerank.core.types import FloatArray, IntArray
from truerank.models.checks import check_count


@dataclass(frozen=True, eq=False)
class FunctionScorer:
    """A function of users and items; what it returns is checked."""

    function: Callable[[IntArray, IntArray], Any]
    n_items: int

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        """Call the function."""
        scores = np.asarray(self.function(users, items))
        wanted = (len(users), np.shape(items)[-1])
        if scores.shape != wanted or scores.dtype.kind not in "fiu":
            raise InvalidData(
                f"the scoring function must return numbers of shape {wanted}, got {scores.dtype} of shape "
                f"{scores.shape}. Return one row per user and one column per candidate."
            )
        return scores


@suggests_arguments
def from_callable(function: Callable[[IntArray, IntArray], Any], n_items: int) -> Scorer:
    """Return the scorer of a function ``score(users, items)``.

    Parameters
    ----------
    function : takes codes of users (n,) and of items, either (k,) for all users or (n, k) with one row of
        candidates per user, and returns scores (n, k); higher is better
    n_items : size of the catalogue

    Examples
    --------
    >>> scorer = from_callable(lambda users, items: users[:, None] + items, n_items=9)
    >>> scorer.score(np.array([10, 20]), np.array([1, 2])).tolist()
    [[11, 12], [21, 22]]
    """
    if not callable(function):
        raise InvalidParameter(
            f"from_callable takes a function of users and items, got {type(function).__name__}."
        )
    check_count("n_items", n_items, 1)
    return FunctionScorer(function, n_items)
