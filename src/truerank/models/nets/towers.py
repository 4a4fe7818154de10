"""Scores of a fitted NeuMF from arrays: products of embeddings plus a perceptron."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.types import AnyArray, FloatArray, IntArray, frozen

_FLOATS = (
    "user_hidden",
    "item_hidden",
    "user_product",
    "item_product",
    "user_bias",
    "item_bias",
    "weights",
)


@dataclass(frozen=True, eq=False)
class TowerScorer:
    """score = product . product + perceptron(user_hidden + item_hidden) + user_bias + item_bias.

    The first layer of the perceptron is linear in user and item, so its two halves are computed once per user
    and per item; a pair costs the layers above it. A score is summed in a fixed order in float32: a function
    of the pair. ``score`` computes only the pairs that are asked for and releases the interpreter lock.

    Parameters
    ----------
    user_hidden, item_hidden : (n, sizes[0]) halves of the first layer before its ReLU; width 0 without one
    user_product, item_product : (n, d) factors
    user_bias, item_bias : (n,)
    weights : matrices (in, out) and biases of the further layers one after another, then the last layer's row
    sizes : widths of the perceptron's layers above its input; empty without one
    is_last_linear : whether the last of these layers has no ReLU
    """

    user_hidden: FloatArray
    item_hidden: FloatArray
    user_product: FloatArray
    item_product: FloatArray
    user_bias: FloatArray
    item_bias: FloatArray
    weights: FloatArray
    sizes: tuple[int, ...]
    is_last_linear: bool
    is_thread_safe: ClassVar[bool] = True

    def __post_init__(self) -> None:
        n_users, n_items = len(self.user_bias), len(self.item_bias)
        width = self.sizes[0] if self.sizes else 0
        d = self.user_product.shape[-1]
        wanted = {
            "user_hidden": (n_users, width),
            "item_hidden": (n_items, width),
            "user_product": (n_users, d),
            "item_product": (n_items, d),
            "user_bias": (n_users,),
            "item_bias": (n_items,),
            "weights": (sum((a + 1) * b for a, b in pairwise(self.sizes)) + sum(self.sizes[-1:]),),
        }
        for name, shape in wanted.items():
            array = getattr(self, name)
            if array.shape != shape or array.dtype != np.float32:
                raise InvalidData(
                    f"{name} must be float32 of shape {shape}, got {array.dtype} of shape {array.shape}."
                )

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.item_bias)

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        """Return scores in float64, (len(users), n)."""
        from truerank.models.kernels import score_tower_pairs

        users, items = np.ascontiguousarray(users, np.int64), np.ascontiguousarray(items, np.int64)
        out = np.empty((len(users), items.shape[-1]))
        score_tower_pairs(
            users,
            np.atleast_2d(items),
            self.user_hidden,
            self.item_hidden,
            self.user_product,
            self.item_product,
            self.user_bias,
            self.item_bias,
            self.weights,
            np.array(self.sizes, np.int64),
            self.is_last_linear,
            out,
        )
        return out

    def arrays(self) -> Mapping[str, AnyArray]:
        """Return everything by name."""
        floats = {name: getattr(self, name) for name in _FLOATS}
        return {
            **floats,
            "sizes": np.array(self.sizes, np.int64),
            "is_last_linear": np.array(self.is_last_linear),
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Self:
        """Build the scorer from such arrays."""
        names = (*_FLOATS, "sizes", "is_last_linear")
        missing = [name for name in names if name not in arrays]
        if missing:
            raise InvalidData(f"the arrays of a NeuMF scorer must include {', '.join(missing)}.")
        floats = {name: frozen(np.ascontiguousarray(arrays[name])) for name in _FLOATS}
        sizes = tuple(int(size) for size in arrays["sizes"])
        return cls(**floats, sizes=sizes, is_last_linear=bool(arrays["is_last_linear"]))
