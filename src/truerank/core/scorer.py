"""Scorers: anything that can say how much a user likes an item.

A scorer is used through the cheapest of three interfaces it offers, tried in this order:

=====================  =============================================================================
``HasFactors``         dot products of two matrices, counted by a fused kernel that stores no score
``HasSparseRows``      a few non-zero scores per user, all others zero
``Scorer``             ``score(users, items)``, called in user blocks of bounded size
=====================  =============================================================================

A GPU also ranks scorers that add up rows of an item-item matrix (`HasItemWeights`). Lists of items are asked
of a scorer that takes pairs (`ScoresPairs`) as they are; for others they are padded to rows.

A scorer that computes each user from a history (`ReadsHistories`) can be given other histories than those it
was trained on. Arrays are scorers too: see ``as_scorer``. A scorer whose methods may be called from several
threads at once says so by an attribute ``is_thread_safe = True``; others are called from one thread. A scorer
around a model that does not know all users and items of the data says how many by an attribute ``unknown``,
one whose training was interrupted by an attribute ``interrupted`` (see ``truerank.core.model``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from truerank.core.display import Displayed
from truerank.core.errors import InvalidData, InvalidParameter, suggests_arguments
from truerank.core.types import FloatArray, IntArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from truerank.core.interactions import Interactions, Lists
    from truerank.core.split import Split


@runtime_checkable
class Scorer(Protocol):
    """What every fitted model offers."""

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        """Return scores of shape (len(users), n).

        ``items`` is (n,) when all users share the candidates, or (len(users), n) with one row of
        candidates per user. Higher is better. A score must depend on the pair alone.
        """


@runtime_checkable
class HasFactors(Protocol):
    """A scorer that is a dot product."""

    def factors(self) -> Factors:
        """Return the two matrices."""


@runtime_checkable
class HasSparseRows(Protocol):
    """A scorer with few non-zero scores per user."""

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""

    def sparse_rows(self, users: IntArray) -> csr_array:
        """Return the (len(users), n_items) matrix of scores; entries that are not stored are zero."""


@runtime_checkable
class HasItemWeights(Protocol):
    """A scorer that adds up rows of an item-item matrix, so that a GPU can do it."""

    def item_weights(self) -> ItemWeights:
        """Return the matrix and the histories."""


@runtime_checkable
class ScoresPairs(Protocol):
    """A scorer that can be asked for single pairs, so that no score is asked for in vain."""

    def score_pairs(self, users: IntArray, items: IntArray) -> FloatArray:
        """Return one score per pair of ``users[i]`` and ``items[i]``."""


@dataclass(frozen=True, eq=False)
class ItemWeights:
    """An item-item matrix and the users' histories: a score is the sum over the history, in ascending order.

    Parameters
    ----------
    history : items of each user
    weights : (n_items, n_items) float64, full or a ``csr_array``; row j is what a history item j adds
    """

    history: Lists
    weights: FloatArray | csr_array

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return int(self.weights.shape[1])

    @property
    def n_sums(self) -> int:
        """Additions for the scores of all users, and one per score where the matrix is sparse."""
        if isinstance(self.weights, np.ndarray):
            return len(self.history.items) * self.n_items
        lengths = np.diff(np.asarray(self.weights.indptr))
        return int(lengths[self.history.items].sum()) + (len(self.history.indptr) - 1) * self.n_items

    @property
    def n_bytes(self) -> int:
        """Bytes of the matrix and the histories."""
        return sum(int(array.nbytes) for array in (*self.arrays(), self.history.items))

    def arrays(self) -> tuple[NDArray[Any], ...]:
        """Return a full matrix, or where the rows of a sparse one begin, its columns and its values."""
        if isinstance(self.weights, np.ndarray):
            return (self.weights,)
        indptr, indices = (np.asarray(part, np.int64) for part in (self.weights.indptr, self.weights.indices))
        return indptr, indices, np.asarray(self.weights.data)


@runtime_checkable
class ReadsHistories(Protocol):
    """A fitted model that computes each user's scores from a history, not from what it learnt of that user.

    So it can be asked what it recommends after events that it was not trained on: those of a validation part,
    of the time since training, or of users it has never met.
    """

    def with_histories(self, events: Interactions) -> Scorer:
        """Return the same model with the events as the histories of their users; nothing is trained.

        Parameters
        ----------
        events : over the items that the model was fitted to; the users may be others
        """


@dataclass(frozen=True, eq=False)
class Factors:
    """User and item vectors, and perhaps a bias per item: score = user . item + bias.

    Parameters
    ----------
    user : (n_users, d) float32 or float64
    item : (n_items, d) float32 or float64
    item_bias : (n_items,) or None; a bias per user would not change any rank
    unknown : how many ``users`` and ``items`` the model behind does not know, where there are any
    """

    user: FloatArray
    item: FloatArray
    item_bias: FloatArray | None = None
    unknown: Mapping[str, int] = field(default_factory=dict, kw_only=True)

    def __post_init__(self) -> None:
        for name, array, ndim in (
            ("user", self.user, 2),
            ("item", self.item, 2),
            ("item_bias", self.item_bias, 1),
        ):
            if array is None:
                continue
            if array.ndim != ndim or array.dtype not in (np.float32, np.float64):
                raise InvalidData(
                    f"{name} factors must be float32 or float64 with {ndim} dimensions, "
                    f"got {array.dtype} with {array.ndim}."
                )
        if self.user.shape[1] != self.item.shape[1]:
            raise InvalidData(
                "user and item factors must have equal width, "
                f"got {self.user.shape[1]} and {self.item.shape[1]}."
            )
        if self.item_bias is not None and len(self.item_bias) != len(self.item):
            raise InvalidData(f"item_bias must have {len(self.item)} entries, got {len(self.item_bias)}.")

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return len(self.item)

    def factors(self) -> Factors:
        """Return itself."""
        return self

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        """Return scores in float64."""
        left = self.user[users].astype(np.float64)
        right = self.item[items].astype(np.float64)
        rule = "ud,id->ui" if np.ndim(items) == 1 else "ud,uid->ui"
        scores: FloatArray = np.einsum(rule, left, right)
        if self.item_bias is not None:
            scores += self.item_bias[items]
        return scores


@dataclass(frozen=True, eq=False)
class DenseScores:
    """A (n_users, n_items) array or memmap of scores."""

    scores: FloatArray

    def __post_init__(self) -> None:
        if self.scores.ndim != 2 or self.scores.dtype.kind not in "fiu":
            raise InvalidData(
                f"scores must be a users x items array of numbers, got {self.scores.dtype} "
                f"of shape {self.scores.shape}."
            )

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return int(self.scores.shape[1])

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        """Look the scores up."""
        if np.ndim(items) == 1:
            rows = self.scores[users]
            return rows if _is_all(items, self.n_items) else rows[:, items]
        return self.scores[np.asarray(users)[:, None], items]


@dataclass(frozen=True, eq=False)
class SparseScores:
    """A (n_users, n_items) CSR matrix of scores; what is not stored is zero."""

    scores: csr_array

    @property
    def n_items(self) -> int:
        """Size of the catalogue."""
        return int(self.scores.shape[1])

    def sparse_rows(self, users: IntArray) -> csr_array:
        """Return the rows of the users."""
        return self.scores[users]

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        """Look the scores up."""
        if np.ndim(items) == 1:
            return np.asarray(self.scores[users][:, items].toarray())
        rows = np.repeat(users, np.shape(items)[1])
        return np.asarray(self.scores[rows, np.ravel(items)]).reshape(np.shape(items))


@dataclass(frozen=True, eq=False)
class CallableScores:
    """A function ``score(users, items)`` as in ``Scorer``."""

    function: Callable[[IntArray, IntArray], FloatArray]
    n_items: int

    def score(self, users: IntArray, items: IntArray) -> FloatArray:
        """Call the function."""
        return np.asarray(self.function(users, items))


@suggests_arguments
def as_scorer(scores: Any, *, n_items: int | None = None) -> Scorer:
    """Return the scorer for what a user has at hand.

    An array or memmap of scores, a sparse matrix, ``(user, item)`` or ``(user, item, item_bias)`` factor
    matrices, a function or an object with ``score(users, items)``; the last two need ``n_items``.

    Examples
    --------
    >>> as_scorer(np.zeros((2, 3))).n_items
    3
    >>> as_scorer((np.zeros((2, 4)), np.zeros((5, 4)))).n_items
    5
    """
    if _library(type(scores)) in _ADAPTERS:
        raise _needs_adapter(scores)
    if isinstance(scores, np.ndarray):
        return DenseScores(scores)
    if isinstance(scores, tuple) and len(scores) in (2, 3):
        user, item, *bias = (None if part is None else np.asarray(part) for part in scores)
        return Factors(cast(FloatArray, user), cast(FloatArray, item), bias[0] if bias else None)
    if hasattr(scores, "tocsr"):
        from scipy.sparse import csr_array

        return SparseScores(csr_array(scores))
    if callable(getattr(scores, "score", None)) and hasattr(scores, "n_items"):
        scorer: Scorer = scores
        return scorer
    if any(_library(base) in _ADAPTERS for base in type(scores).__mro__):
        raise _needs_adapter(scores)
    if callable(getattr(scores, "score", None)) and n_items is not None:
        return CallableScores(scores.score, n_items)
    if callable(scores) and n_items is not None:
        return CallableScores(scores, n_items)
    raise InvalidParameter(
        "scores must be an array, a sparse matrix, a pair of factor matrices or an object with "
        f"score(users, items) and n_items, got {type(scores).__name__}. {_scoring_advice(scores)}"
    )


def ready_scorer(given: Any) -> Scorer:
    """Return a scorer as it is, and anything else as `as_scorer` does."""
    is_scorer = isinstance(given, Scorer | HasSparseRows | Factors) or (
        isinstance(given, HasFactors) and hasattr(given, "n_items")
    )
    return cast(Scorer, given) if is_scorer else as_scorer(given)


#: Libraries whose models have an adapter, and how it is called.
_ADAPTERS = {
    "cornac": "from_cornac(model, split.train)",
    "implicit": "from_implicit(model, split.train)",
    "irspack": "from_irspack(model, split.train)",
    "lenskit": "from_lenskit(model, split.train)",
    "recbole": "from_recbole(model, dataset, split.train)",
    "torch": "from_torch(module, n_items=n_items, score=score)",
}


def _library(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _needs_adapter(given: Any) -> InvalidParameter:
    library = next(_library(base) for base in type(given).__mro__ if _library(base) in _ADAPTERS)
    name = type(given).__name__
    if hasattr(given, "numpy"):
        return InvalidParameter(f"scores must be arrays, got a {name} of {library}. Give scores.numpy().")
    return InvalidParameter(
        f"a model of {library} must be made a scorer first, got {name}. Use truerank.{_ADAPTERS[library]}."
    )


def _scoring_advice(given: Any) -> str:
    """Return the sentence that says how a scorer is made of an object."""
    if isinstance(given, Displayed):
        return "Models come first and data second; ranks are compared with truerank.compare(ranks)."
    if hasattr(type(given), "columns"):
        return (
            "Of scores give the numbers alone, one row per user and one column per item; events come second, "
            "behind the models."
        )
    if callable(getattr(given, "predict", None)) or callable(getattr(given, "fit", None)):
        return (
            "Give its factors as (user, item), or use truerank.from_callable(function, n_items), where "
            "function(users, items) returns what the model says of each pair."
        )
    if callable(given) or callable(getattr(given, "score", None)):
        return "Use truerank.from_callable(function, n_items)."
    return "Wrap it in one of these."


def check_histories(events: Interactions, n_items: int) -> None:
    """Raise unless histories are made of as many items as a model knows."""
    if events.n_items != n_items:
        raise InvalidData(
            f"histories must be events over the {n_items} items that the model was fitted to, but those of "
            f"{events.name!r} are over {events.n_items}. Read them with the vocabulary of the train events."
        )


def check_scorer(scorer: Scorer | Factors, split: Split) -> None:
    """Raise unless the scorer has the items of a split and, with factors, a vector for each test user.

    Examples
    --------
    >>> from truerank.core.interactions import Interactions
    >>> from truerank.core.split import Split
    >>> split = Split(Interactions.from_codes([0], [1]), Interactions.from_codes([0], [0], n_items=2))
    >>> check_scorer(as_scorer(np.zeros((1, 2))), split)
    """
    n_items = split.train.n_items
    if scorer.n_items != n_items:
        raise InvalidData(
            f"the scorer must know the {n_items} items of the data, it knows {scorer.n_items}. "
            "Fit it on this split, or read the data with the vocabulary it was fitted on."
        )
    if isinstance(scorer, HasFactors) and len(split.test):
        n_vectors, last = len(scorer.factors().user), int(split.test.user.max())
        if last >= n_vectors:
            raise InvalidData(
                f"there must be a vector for each user, but user {last} has none "
                f"({n_vectors} vectors). Fit the model on this split."
            )


def checked_scores(scorer: Scorer, users: IntArray, items: IntArray) -> FloatArray:
    """Return ``scorer.score(users, items)``; raise unless it has one row per user and one column per item."""
    scores = np.asarray(scorer.score(users, items))
    shape = (len(users), items.shape[-1])
    if scores.shape != shape:
        raise InvalidData(
            f"score(users, items) must return shape {shape}, got {scores.shape}. "
            "See the scorer protocol in the documentation."
        )
    return scores


def nan_score(user: Any) -> InvalidData:
    """Return the error to raise when a user, named by its own id, gets a score that is NaN."""
    return InvalidData(f"scores must be numbers, but user {user!r} gets NaN. Check how it was trained.")


def _is_all(items: IntArray, n_items: int) -> bool:
    return len(items) == n_items and bool((items == np.arange(n_items)).all())
