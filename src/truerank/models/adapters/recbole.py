"""Scorers from models of RecBole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from truerank.core.errors import InvalidParameter, suggests_arguments
from truerank.core.interactions import Interactions
from truerank.core.scorer import Scorer
from truerank.core.types import FloatArray, IntArray
from truerank.models.adapters.alignment import (
    RowScorer,
    Unknown,
    align_ids,
    check_model,
    device_of,
    evaluating,
    require,
    tensor_to_array,
)

NAME = "from_recbole"
_FIRST = 1  # RecBole's codes start with a padding entry for users and items


@suggests_arguments
def from_recbole(
    model: Any,
    dataset: Any,
    train: Interactions,
    *,
    interaction: Callable[[Any], Any] | None = None,
    unknown: Unknown = "cold",
) -> Scorer:
    """Return the scorer of a trained model of RecBole.

    Users and items are found by their tokens. Scores come from ``model.full_sort_predict`` in batches of
    users; the padding item is never ranked.

    Parameters
    ----------
    model : trained, for example from ``recbole.quick_start.load_data_and_model``
    dataset : the RecBole dataset it was trained on
    train : the train part; says the order of users and items
    interaction : a function from a tensor of RecBole's user codes to the ``Interaction`` the model wants, one
        row per user; None gives the user codes joined with user features, which suits general models.
        Sequential models need their sequences: build them here
    unknown : what to do with users and items of the data that the model does not know: ``cold`` ranks those
        without train events last and refuses the others, ``error`` refuses all, ``bottom`` ranks all last

    Raises
    ------
    InvalidParameter
        When the model cannot score all items at once, or RecBole is needed and not installed.
    InvalidData
        When its tokens are not the ids of the data.
    """
    torch = require(NAME, "torch", extra="torch")
    check_model(NAME, model, torch.nn.Module, "a model of RecBole (a torch.nn.Module)")
    if not callable(getattr(model, "full_sort_predict", None)):
        raise InvalidParameter(
            f"{NAME} takes a model with full_sort_predict, which this {type(model).__name__} lacks. "
            "Use from_torch with a scoring function."
        )
    for name in ("field2id_token", "uid_field", "iid_field"):
        if not hasattr(dataset, name):
            raise InvalidParameter(
                f"{NAME} takes the RecBole dataset as its second argument, got {type(dataset).__name__} "
                f"without {name}."
            )
    tokens = [list(dataset.field2id_token[field]) for field in (dataset.uid_field, dataset.iid_field)]
    alignment = align_ids(train, tokens[0][_FIRST:], tokens[1][_FIRST:], unknown=unknown, first=_FIRST)
    make = interaction or _joined(dataset)
    n_columns = len(tokens[1])

    def rows(users: IntArray) -> FloatArray:
        device = device_of(model)
        with evaluating(model):
            batch = make(torch.tensor(users, dtype=torch.int64))
            batch = batch.to(device) if hasattr(batch, "to") else batch
            try:
                scores = model.full_sort_predict(batch)
            except NotImplementedError:
                raise InvalidParameter(
                    f"{NAME} takes a model with full_sort_predict, which this {type(model).__name__} does "
                    "not implement. Use from_torch with a scoring function."
                ) from None
        return tensor_to_array(scores).reshape(-1, n_columns)

    return RowScorer(rows, alignment, n_columns)


def _joined(dataset: Any) -> Callable[[Any], Any]:
    """Return the function that wraps user codes as RecBole wants them."""
    try:
        from recbole.data.interaction import Interaction
    except ImportError:
        raise InvalidParameter(
            f"{NAME} needs RecBole to wrap user codes. Install recbole, or give a function interaction=... "
            "that does it."
        ) from None
    return lambda users: dataset.join(Interaction({dataset.uid_field: users}))
