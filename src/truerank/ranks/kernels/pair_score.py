r"""The score of a pair, as a pure function of the pair.

Library matrix products change their bits with the shape of the batch and the order of the items. Ranks
and ties are decided by this sum instead: float64, coordinates in ascending order, one rounding per product
and one per addition, the bias last.

.. math:: s_{ui} = (\dots((0 + u_1 v_1) + u_2 v_2) + \dots + u_d v_d) + b_i

Products of float32 factors are exact in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from truerank.ranks.kernels.counts import Ints

Floats = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]


def pair_scores(users: Floats, items: Floats, item_bias: Floats | None, rows: Ints, codes: Ints) -> Doubles:
    """Return the scores of the pairs (rows[p], codes[p]).

    Parameters
    ----------
    users, items : (n_rows, d) and (n_items, d) factors, float32 or float64
    item_bias : (n_items,) or None
    rows, codes : (n_pairs,) which user row meets which item

    Returns
    -------
    (n_pairs,) float64, bit for bit the scores that ranks are decided by

    Examples
    --------
    >>> users, items = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [0.5, 0.0]])
    >>> pair_scores(users, items, None, np.array([0, 0]), np.array([0, 1])).tolist()
    [11.0, 0.5]
    """
    total = np.zeros(len(rows))
    for k in range(users.shape[1]):
        total += users[rows, k].astype(np.float64) * items[codes, k].astype(np.float64)
    if item_bias is not None:
        total += item_bias[codes]
    return total


def score_block(users: Floats, items: Floats, item_bias: Floats | None) -> Doubles:
    """Return all scores of a few rows, (n_rows, n_items) float64."""
    total = np.zeros((len(users), len(items)))
    product = np.empty_like(total)
    for k in range(users.shape[1]):
        left, right = users[:, k].astype(np.float64), items[:, k].astype(np.float64)
        total += np.multiply(left[:, None], right, out=product)
    if item_bias is not None:
        total += item_bias
    return total
