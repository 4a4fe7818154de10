"""Scorers from torch modules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter, check_choice, suggests_arguments
from truerank.core.scorer import Scorer
from truerank.core.types import FloatArray, IntArray
from truerank.models.adapters.alignment import check_model, device_of, evaluating, require, tensor_to_array
from truerank.models.checks import check_count

NAME = "from_torch"
_PAIRS = 1 << 16


@dataclass(frozen=True, eq=False)
class ModuleScorer:
    """A torch module under a scoring function, see ``from_torch``."""

    module: Any
    function: Callable[..., Any]
    n_items: int
    layout: Literal["pairs", "rows"]
    batch: int
    device: Any

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        """Return scores, (len(users), n)."""
        users = np.asarray(users, np.int64)
        items = np.asarray(items, np.int64)
        with evaluating(self.module):
            return self._pairs(users, items) if self.layout == "pairs" else self._rows(users, items)

    def _pairs(self, users: IntArray, items: IntArray) -> FloatArray:
        shape = (len(users), items.shape[-1])
        user = np.repeat(users, shape[1])
        item = np.ravel(np.broadcast_to(items, shape))
        scores = np.empty(user.size, np.float64)
        for start in range(0, user.size, self.batch):
            block = slice(start, start + self.batch)
            scores[block] = self._ask((user[block].size,), user[block], item[block])
        return scores.reshape(shape)

    def _rows(self, users: IntArray, items: IntArray) -> FloatArray:
        scores = np.empty((len(users), items.shape[-1]))
        step = max(1, self.batch // self.n_items)
        for start in range(0, len(users), step):
            block = slice(start, start + step)
            rows = self._ask((len(users[block]), self.n_items), users[block])
            scores[block] = (
                rows[:, items] if items.ndim == 1 else np.take_along_axis(rows, items[block], axis=1)
            )
        return scores

    def _ask(self, shape: tuple[int, ...], *codes: IntArray) -> FloatArray:
        import torch

        tensors = [torch.tensor(code, device=self.device) for code in codes]
        scores = tensor_to_array(self.function(*tensors))
        if scores.shape != shape and scores.size == np.prod(shape) and scores.shape[: len(shape)] == shape:
            scores = scores.reshape(shape)  # a trailing axis of one, as linear layers leave it
        if scores.shape != shape:
            unit = "pair" if self.layout == "pairs" else "user and item"
            raise InvalidData(
                f"the scoring function must return shape {shape} with layout={self.layout!r}, got "
                f"{scores.shape}. Return one score per {unit}."
            )
        return scores


@suggests_arguments
def from_torch(
    module: Any,
    *,
    n_items: int,
    score: Callable[..., Any] | None = None,
    layout: Literal["pairs", "rows"] = "pairs",
    batch: int = _PAIRS,
    device: Any = None,
) -> Scorer:
    """Return the scorer of a torch module.

    The module is called in eval mode and without gradients, and is in its former mode afterwards, so that the
    scorer can be used between epochs of training. It is not copied: it scores as the module is at that
    moment.

    Parameters
    ----------
    module : a ``torch.nn.Module``
    n_items : size of the catalogue; codes of users and items are those of the data
    score : with ``layout='pairs'`` a function of two equally long tensors of user and item codes that returns
        one score per pair, with ``layout='rows'`` a function of user codes that returns a row of scores over
        all items; None calls the module itself
    batch : scores per call at most
    device : to which the module and the codes are moved; None leaves the module where it is

    Raises
    ------
    InvalidData
        When the function returns another shape.
    """
    torch = require(NAME, "torch", extra="torch")
    check_model(NAME, module, torch.nn.Module, "a torch.nn.Module")
    check_choice("layout", layout, ("pairs", "rows"))
    check_count("n_items", n_items, 1)
    check_count("batch", batch, 1)
    if score is not None and not callable(score):
        raise InvalidParameter(f"score must be a function, got {type(score).__name__}.")
    if device is not None:
        module.to(device)
    return ModuleScorer(
        module,
        score or module,
        n_items,
        layout,
        batch,
        device_of(module) if device is None else device,
    )
