"""Models as users name them, fitted to the train part and validated on the validation part of a split."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.model import Model, Validate
from truerank.core.plugin import parse_spec
from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import SeenPolicy
from truerank.core.scorer import Scorer, as_scorer
from truerank.core.split import Split
from truerank.metrics.registry import make_metrics, values
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks


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


def fit_scorer(
    model: Model | Scorer,
    split: Split,
    *,
    validate: Validate | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Scorer:
    """Return the scorer: a model is fitted on the train part, a scorer is taken as it is."""
    if isinstance(model, Model):
        return model.fit(split.train, validate=validate, seed=seed, progress=progress)
    return model


def unknown_of(model: Model | Scorer) -> dict[str, int]:
    """Return how many users and items of the data the model behind a scorer does not know, if any."""
    unknown = {} if isinstance(model, Model) else getattr(model, "unknown", {})
    return dict(unknown) if isinstance(unknown, Mapping) else {}


def described(model: Model | Scorer) -> str:
    """Return how a result names what was evaluated: the spec of a model, the type of a scorer."""
    return str(model) if isinstance(model, Model) else f"scores ({type(model).__name__})"


def check_targets(split: Split) -> None:
    """Raise unless the test part holds a target."""
    if len(split.test) == 0:
        raise InvalidData(
            f"the test part must hold at least one target, but split {split.method!r} left none. "
            "Choose another split or check the data."
        )


def make_validate(
    split: Split,
    metric: str | None = None,
    *,
    seen: SeenPolicy = "remove",
    n_threads: int | None = None,
) -> Validate | None:
    """Return what early stopping watches: a metric over all items on the validation part.

    The test part is not looked at, and its items stay in the pool. None when there is no validation part.
    The metric is NDCG@10 unless another one is named (over all items where pools are smaller).

    Examples
    --------
    >>> import numpy as np
    >>> from truerank.core.interactions import Interactions
    >>> from truerank.core.scorer import as_scorer
    >>> train, valid, test = (Interactions.from_codes([0], [item], n_items=4) for item in (0, 1, 2))
    >>> validate = make_validate(Split(train, test, valid), "recall@1")
    >>> validate(as_scorer(np.array([[9.0, 3.0, 1.0, 2.0]])))
    1.0
    """
    if split.valid is None or len(split.valid) == 0:
        return None
    held_out = Split(split.train, split.valid, method=split.method, repeats=split.repeats)
    return partial(_mean, split=held_out, metric=metric, seen=seen, n_threads=n_threads)


def _mean(scorer: Scorer, split: Split, metric: str | None, seen: SeenPolicy, n_threads: int | None) -> float:
    ranks = exact_ranks(scorer, split, seen=seen, n_threads=n_threads)
    chosen = make_metrics(metric or f"ndcg@{min(10, int(ranks.n_pool.max()))}")
    return float(values(chosen, ranks).mean())
