"""Optional libraries: imported on use, with a sentence when they are missing or the model is not theirs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter, MissingDependency
from truerank.core.types import FloatArray, IntArray


def require(function: str, module: str, *, extra: str = "models") -> Any:
    """Import a module of an optional library, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise MissingDependency(function, module.partition(".")[0], extra=extra) from None


def check_model(function: str, model: object, kinds: Any, wanted: str) -> None:
    """Raise unless the model is one of the library's."""
    if not isinstance(model, kinds):
        raise InvalidParameter(f"{function} takes {wanted}, got {type(model).__name__}. Pass such an object.")


def not_fitted(function: str, model: object, verb: str) -> InvalidData:
    """Return the error for a model that has learnt nothing yet."""
    return InvalidData(
        f"{function} needs a fitted model, but this {type(model).__name__} is not. Call its {verb} first."
    )


def probe(
    function: str, model: object, rows: Callable[[IntArray], FloatArray], verb: str, user: int = 0
) -> None:
    """Ask for one user's scores, so that a model that was never fitted is named at once."""
    try:
        rows(np.array([user]))
    except (AttributeError, RuntimeError, TypeError):
        raise not_fitted(function, model, verb) from None
