"""Sampled ranks collected batch by batch from the scores of a validation loop."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter, check_choice
from truerank.core.ranks import Design, SampledRanks
from truerank.core.types import AnyArray, BoolArray, IntArray

_COLUMNS = (
    *("user", "item", "n_above", "n_tied", "n_pool", "n_relevant", "n_relevant_above", "n_relevant_tied"),
    *("n_negatives", "n_candidates"),
)


class RankCollector:
    """Collects the ranks of targets among sampled negatives.

    Only counts are kept: a few integers per target, whatever the number of negatives. Tensors are compared on
    their device.

    Parameters
    ----------
    n_items : N, size of the catalogue
    replacement : whether the negatives of a user were sampled with replacement
    law : how negatives were sampled: ``uniform``, ``popularity`` or ``given``
    shared : whether several models are ranked among the same negatives

    Examples
    --------
    >>> collector = RankCollector(n_items=100)
    >>> collector.update(np.array([0.5, 0.1]), np.array([[0.9, 0.2, 0.5], [0.0, 0.0, 0.0]]))
    >>> ranks = collector.ranks()
    >>> ranks.n_above.tolist(), ranks.n_tied.tolist(), ranks.n_negatives.tolist()
    ([1, 0], [1, 0], [3, 3])
    """

    def __init__(
        self,
        n_items: int,
        *,
        replacement: bool = False,
        law: Literal["uniform", "popularity", "given"] = "uniform",
        shared: bool = False,
    ) -> None:
        given: object = n_items
        if not isinstance(given, int | np.integer) or given < 2:
            raise InvalidParameter(f"n_items must be an integer >= 2, got {n_items!r}.")
        check_choice("law", law, ("uniform", "popularity", "given"))
        self.n_items = int(n_items)
        self.design = Design(law, replacement=bool(replacement), shared=bool(shared))
        self._parts: list[dict[str, IntArray]] = []
        self._n_users = 0
        self._is_named: bool | None = None

    def __len__(self) -> int:
        """Return the number of targets collected so far."""
        return sum(len(part["user"]) for part in self._parts)

    def reset(self) -> None:
        """Drop everything collected, for the next epoch."""
        self._parts, self._n_users, self._is_named = [], 0, None

    def update(
        self,
        positive_scores: Any,
        negative_scores: Any,
        *,
        users: Any = None,
        items: Any = None,
        mask: Any = None,
        n_seen: Any = 0,
    ) -> None:
        """Add a batch: one row per user with the scores of its targets and of its negatives.

        Parameters
        ----------
        positive_scores : (n,), or (n, t) with t targets per user; tensor or array
        negative_scores : (n, m); the negatives of a row serve all its targets and hold none of them
        users : (n,) integers that tell users apart over all batches; None numbers rows as they come. Give all
            or none
        items : integers of the shape of ``positive_scores`` that tell the targets of a user apart; None
            numbers them
        mask : booleans of the shape of ``positive_scores``: which entries are targets; None means all
        n_seen : number of seen items that were excluded from the candidates, one number or (n,)

        Raises
        ------
        InvalidData
            When shapes do not fit, a score is NaN, or a row has no target or too few candidates.
        """
        positive, negative = _pair(positive_scores, negative_scores)
        if negative.ndim != 2 or positive.ndim not in (1, 2) or len(positive) != len(negative):
            raise InvalidData(
                "positive_scores must be (n,) or (n, t) and negative_scores (n, m) with the same n, got "
                f"{tuple(positive.shape)} and {tuple(negative.shape)}."
            )
        shape = tuple(positive.shape) if positive.ndim == 2 else (len(positive), 1)
        if negative.shape[1] == 0 or shape[1] == 0:
            raise InvalidData("a row must hold at least one target and one negative, got none. Sample some.")
        if len(positive) == 0:
            return
        positive = positive.reshape(shape)
        is_target = _integers("mask", mask, shape, default=True).astype(np.bool_)
        _check_numbers(positive, negative, is_target)
        named = users is not None
        if self._is_named not in (None, named):
            raise InvalidData("users must be given with every batch or with none. Give them always.")
        numbered = np.arange(shape[0]) + self._n_users
        user = _integers("users", users, shape[:1], default=numbered)
        item = _integers("items", items, shape, default=np.arange(shape[1]))
        seen = _integers("n_seen", n_seen, shape[:1], default=0)
        self._parts.append(self._count(positive, negative, is_target, user, item, seen))
        self._n_users, self._is_named = self._n_users + shape[0], named

    def merge(self, *others: RankCollector) -> Self:
        """Add what other collectors hold, for example those of other processes; returns itself.

        Collectors can be pickled. Users without ids are renumbered.

        Raises
        ------
        InvalidParameter
            When a collector differs in the catalogue or in how negatives were sampled.
        """
        for other in others:
            if (other.n_items, other.design) != (self.n_items, self.design):
                raise InvalidParameter(
                    "collectors must agree on n_items, replacement, law and shared to be merged, got "
                    f"{self.n_items}, {self.design} and {other.n_items}, {other.design}."
                )
            if other._is_named is None:
                continue
            if self._is_named not in (None, other._is_named):
                raise InvalidParameter("users must be given in all collectors or in none. Give them always.")
            shift = 0 if other._is_named else self._n_users
            self._parts += [{**part, "user": part["user"] + shift} for part in other._parts]
            self._n_users += other._n_users
            self._is_named = other._is_named
        return self

    def ranks(self) -> SampledRanks:
        """Return the sampled ranks of all batches, sorted by user.

        Raises
        ------
        InvalidData
            When nothing was collected, or a user occurs in two rows.
        """
        if not self._parts:
            raise InvalidData("there must be at least one batch before ranks are asked for. Call update.")
        columns = {name: np.concatenate([part[name] for part in self._parts]) for name in _COLUMNS}
        order = np.lexsort((columns["item"], columns["user"]))
        columns = {name: column[order] for name, column in columns.items()}
        user, item = columns["user"], columns["item"]
        _, index, counts = np.unique(user, return_inverse=True, return_counts=True)
        is_repeated = counts[index] != columns["n_relevant"]
        if is_repeated.any():
            raise InvalidData(
                f"all targets of a user must come in one row, but user {user[np.argmax(is_repeated)]} came "
                "several times. Put its targets side by side, or leave users out to rank each row on its own."
            )
        if ((np.diff(user) == 0) & (np.diff(item) == 0)).any():
            raise InvalidData("items must tell the targets of a user apart, but some are repeated.")
        return SampledRanks(**columns, design=self.design)

    def _count(
        self,
        positive: Any,
        negative: Any,
        is_target: BoolArray,
        user: IntArray,
        item: IntArray,
        seen: IntArray,
    ) -> dict[str, IntArray]:
        n_relevant = is_target.sum(axis=1)
        n_negatives = int(negative.shape[1])
        n_pool = self.n_items - seen
        n_candidates = n_pool - n_relevant
        enough = n_candidates >= (1 if self.design.replacement else n_negatives)
        for what, sound in (("a target", n_relevant > 0), ("enough candidates", enough)):
            if not sound.all():
                bad = int(np.argmin(sound))
                raise InvalidData(
                    f"every row must have {what}, but row {bad} of the batch has {n_relevant[bad]} targets, "
                    f"{n_negatives} negatives and {n_pool[bad]} items in its pool. Check n_items, n_seen and "
                    "mask."
                )
        above, tied = _stack(positive, negative)
        others_above, others_tied = _among_targets(positive, is_target)
        row, column = np.nonzero(is_target)
        return {
            "user": user[row],
            "item": item[row, column],
            "n_above": (above + others_above)[row, column],
            "n_tied": (tied + others_tied)[row, column],
            "n_pool": n_pool[row],
            "n_relevant": n_relevant[row],
            "n_relevant_above": others_above[row, column],
            "n_relevant_tied": others_tied[row, column],
            "n_negatives": np.full(len(row), n_negatives),
            "n_candidates": n_candidates[row],
        }


def _pair(positive: Any, negative: Any) -> tuple[Any, Any]:
    """Return both as tensors of one device, or both as arrays."""
    if hasattr(positive, "detach") and hasattr(negative, "detach") and positive.device == negative.device:
        return positive.detach(), negative.detach()
    return _array(positive), _array(negative)


def _array(values: Any) -> AnyArray:
    """Return scores as an array; bfloat16, which NumPy lacks, becomes float32."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        values = values.float() if str(values.dtype) == "torch.bfloat16" else values
        return np.asarray(values.numpy())
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise InvalidData(f"scores must be numbers, got {array.dtype}.")
    return array


def _check_numbers(positive: Any, negative: Any, is_target: BoolArray) -> None:
    for name, scores, counts in (("positive", positive, is_target), ("negative", negative, None)):
        nan = _array_of_truth(scores != scores)
        if (nan if counts is None else nan & counts).any():
            row = int(np.argmax(nan.any(axis=1)))
            raise InvalidData(
                f"{name}_scores must be numbers, but row {row} of the batch holds NaN. Check the model."
            )


def _stack(positive: Any, negative: Any) -> tuple[IntArray, IntArray]:
    """Return how many negatives score higher than, and the same as, each target; one target at a time."""
    above, tied = [], []
    for column in range(positive.shape[1]):
        target = positive[:, column : column + 1]
        above.append(_array_of_counts((negative > target).sum(1)))
        tied.append(_array_of_counts((negative == target).sum(1)))
    return np.stack(above, axis=1), np.stack(tied, axis=1)


def _among_targets(positive: Any, is_target: BoolArray) -> tuple[IntArray, IntArray]:
    """Return how many other targets of the row score higher than, and the same as, each."""
    scores = _array(positive)
    above, tied = np.zeros(scores.shape, np.int64), np.zeros(scores.shape, np.int64)
    if scores.shape[1] == 1:
        return above, tied
    for column in range(scores.shape[1]):
        target = scores[:, column : column + 1]
        above[:, column] = ((scores > target) & is_target).sum(axis=1)
        tied[:, column] = ((scores == target) & is_target).sum(axis=1) - 1
    return above, np.maximum(tied, 0)


def _integers(name: str, values: Any, shape: tuple[int, ...], *, default: Any) -> IntArray:
    """Return integers of a shape; the default where none are given."""
    if values is None:
        return np.broadcast_to(np.asarray(default), shape)
    array = np.asarray(values.detach().cpu().numpy() if hasattr(values, "detach") else values)
    if array.dtype.kind not in "iub":
        raise InvalidData(f"{name} must be integers, got {array.dtype}.")
    if array.ndim == 1 and shape[1:] == (1,) and array.shape == shape[:1]:
        array = array[:, None]
    if array.ndim and array.shape != shape:
        raise InvalidData(f"{name} must have shape {shape} like the scores, got {array.shape}.")
    return np.broadcast_to(array, shape)


def _array_of_truth(values: Any) -> BoolArray:
    return np.asarray(values.cpu().numpy() if hasattr(values, "cpu") else values)


def _array_of_counts(values: Any) -> IntArray:
    return np.asarray(values.cpu().numpy() if hasattr(values, "cpu") else values).astype(np.int64)
