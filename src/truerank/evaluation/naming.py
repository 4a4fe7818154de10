"""Models and scorers by the names they have in a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from truerank.core.errors import InvalidParameter
from truerank.core.model import Model
from truerank.core.scorer import Scorer, as_scorer
from truerank.core.spec import parse_spec
from truerank.models import MODELS


def name_models(models: Any) -> dict[str, Model | Scorer]:
    """Return models and scorers by the name they have in the result: a spec as it was written."""
    if isinstance(models, Mapping):
        return {name: _model_or_scorer(model) for name, model in models.items()}
    listed = models if isinstance(models, list) else [models]
    named: dict[str, Model | Scorer] = {}
    for entry in listed:
        model = _model_or_scorer(entry)
        name = str(model) if isinstance(model, Model) else type(model).__name__
        if isinstance(entry, str):
            name = str(parse_spec(entry))
        if name in named:
            raise InvalidParameter(f"model {name!r} is given twice. Leave one out or name them in a mapping.")
        named[name] = model
    if not named:
        raise InvalidParameter("at least one model is needed, got none. Use for example popularity.")
    return named


def _model_or_scorer(given: Any) -> Model | Scorer:
    if isinstance(given, str):
        return MODELS.make(given)
    return given if isinstance(given, Model) else as_scorer(given)
