"""Scorers from arrays of scores or factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter, suggests_arguments
from truerank.core.interactions import Interactions, check_interactions
from truerank.core.scorer import DenseScores, Factors, Scorer, SparseScores, as_scorer


@suggests_arguments
def scorer_from_arrays(scores: Any, train: Interactions | None = None) -> Scorer:
    """Return the scorer of arrays: rows are users and columns items, in the order of their sorted ids.

    Parameters
    ----------
    scores : a (n_users, n_items) array, memmap or sparse matrix of scores, or a tuple of factors
        ``(user, item)`` or ``(user, item, item_bias)``
    train : the train part, against which shapes are checked; None leaves that to the ranking

    Raises
    ------
    InvalidData
        When shapes do not fit the data or each other, or a factor is not finite.

    Examples
    --------
    >>> scorer_from_arrays((np.ones((2, 3)), np.ones((4, 3)))).n_items
    4
    """
    if isinstance(scores, tuple):
        scores = tuple(part if part is None else _numbers(part) for part in scores)
    elif not isinstance(scores, np.ndarray) and not hasattr(scores, "tocsr"):
        raise InvalidParameter(
            "scorer_from_arrays takes an array, a sparse matrix or a tuple of factors, "
            f"got {type(scores).__name__}. For a function or an object use from_callable."
        )
    scorer = as_scorer(scores)
    if isinstance(scorer, Factors):
        for name, part in (("user", scorer.user), ("item", scorer.item), ("item_bias", scorer.item_bias)):
            if part is not None and not np.isfinite(part).all():
                raise InvalidData(f"{name} factors must be finite, got NaN or infinity. Check the training.")
    if train is not None:
        check_interactions(train, "scorer_from_arrays")
        _check_shape(scorer, train)
    return scorer


def _numbers(part: Any) -> Any:
    """Return factors in float32 or float64, whatever numbers they come as."""
    array = np.asarray(part)
    if array.dtype.kind not in "fiu":
        raise InvalidData(f"factors must be numbers, got {array.dtype}.")
    small = array.dtype in (np.float16, np.float32)
    return array.astype(np.float32 if small else np.float64, copy=False)


def _check_shape(scorer: Scorer, train: Interactions) -> None:
    came: tuple[int, ...] = (train.n_users, scorer.n_items)
    if isinstance(scorer, Factors):
        came = (len(scorer.user), scorer.n_items)
    elif isinstance(scorer, DenseScores | SparseScores):
        came = tuple(scorer.scores.shape)
    if came != (train.n_users, train.n_items):
        raise InvalidData(
            f"scores must be of {train.n_users} users and {train.n_items} items like the data, got {came[0]} "
            f"and {came[1]}. Write one row per user and item of the data, in the order of their sorted ids."
        )
