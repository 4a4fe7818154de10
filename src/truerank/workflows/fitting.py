"""Data and models as users name them: events are split, models are fitted to the train part and validated."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from truerank.core.checkpoint import whole_or_nothing
from truerank.core.errors import DataWarning, InvalidData, InvalidParameter
from truerank.core.interactions import Interactions, reading_advice
from truerank.core.model import Model, Validate, interrupted_training
from truerank.core.plugin import Spec, parse_spec
from truerank.core.progress import SILENT, Progress
from truerank.core.ranks import SeenPolicy
from truerank.core.scorer import Scorer, as_scorer
from truerank.core.split import Split
from truerank.core.table import listed_in_words
from truerank.data.catalogue import open_data
from truerank.data.read import from_csr, from_frame
from truerank.metrics.registry import make_metrics, values
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks
from truerank.split.base import SPLITS

_MODEL_FILE = ".truerank"


def name_models(models: Any) -> dict[str, Model | Scorer]:
    """Return models and scorers by the name they have in the result: a spec as it was written.

    A slow model that was given a name has that, and its version too where the name alone is taken.
    """
    if isinstance(models, Mapping):
        return {name: model_or_scorer(model) for name, model in models.items()}
    listed = models if isinstance(models, list) else [models]
    named: dict[str, Model | Scorer] = {}
    for entry in listed:
        model = model_or_scorer(entry)
        name = str(model) if isinstance(model, Model) else type(model).__name__
        if isinstance(entry, str) and not entry.endswith(_MODEL_FILE):
            name = str(parse_spec(entry))
        if is_slow(model):
            own = getattr(model, "name", "")
            name = (f"{own} {getattr(model, 'version', '')}" if own in named else own) or name
        if name in named:
            raise InvalidParameter(f"model {name!r} is given twice. Leave one out or name them in a mapping.")
        named[name] = model
    if not named:
        raise InvalidParameter("at least one model is needed, got none. Use for example popularity.")
    return named


def is_slow(model: Model | Scorer) -> bool:
    """Whether each score of a model takes time or money, so that scores are kept and counted."""
    return bool(getattr(model, "is_slow", False))


def warn_of_all_scores(models: Mapping[str, Model | Scorer], split: Split, instead: str) -> None:
    """Say how many scores slow models are asked for, and what takes fewer, where all items are ranked."""
    slow = [name for name, model in models.items() if is_slow(model)]
    if slow:
        n_scores = int(split.summary()["users_with_targets"]) * split.train.n_items
        warnings.warn(
            f"each of {n_scores:,} scores of {listed_in_words(slow)} is asked for. {instead}",
            DataWarning,
            stacklevel=_outside(),
        )


def model_or_scorer(given: Any) -> Model | Scorer:
    """Return the model that a spec, a file or a class stands for, and scores of any kind as a scorer."""
    if isinstance(given, Path) or (isinstance(given, str) and given.endswith(_MODEL_FILE)):
        return MODELS.make(Spec("saved", (("path", str(given)),)))
    if isinstance(given, str):
        return MODELS.make(given)
    if isinstance(given, type) and issubclass(given, Model):
        return given()
    return given if isinstance(given, Model) else as_scorer(given)


def as_split(given: Any, *, seed: int = 0, progress: Progress = SILENT) -> Split:
    """Return a split, or make one of events by a default rule and say so with a `DataWarning`.

    The rule is leave-last-out where events have times, else leave-one-out.

    Parameters
    ----------
    given : a split; interactions; a pandas, polars or pyarrow table; a sparse matrix; or the path of a file
        or the name of a data set
    seed : of leave-one-out
    progress : where reading is reported

    Raises
    ------
    InvalidParameter
        When it is none of these.
    """
    if isinstance(given, Split):
        return given
    events = _events(given, progress)
    rule = "leave-one-out" if events.time is None else "leave-last-out"
    warnings.warn(
        f"{events.name!r} was split by {rule}, because no split was given. Choose a rule with "
        f"truerank.make_split(data, {rule!r}).",
        DataWarning,
        stacklevel=_outside(),
    )
    return SPLITS.make(rule).split(events, seed=seed)


def _events(given: Any, progress: Progress) -> Interactions:
    if isinstance(given, Interactions):
        return given
    if isinstance(given, str | Path):
        return open_data(given, progress=progress)
    if hasattr(given, "tocsr"):
        return from_csr(given)
    if hasattr(type(given), "columns"):
        return from_frame(given)
    raise InvalidParameter(
        "data must be a split, interactions, a data frame, a sparse matrix, a file or the name of a data "
        f"set, got {type(given).__name__}. Models come first and data second. {reading_advice(given)}"
    )


def _outside() -> int:
    """Return the level of the stack, seen from the caller, at which code that is not truerank's calls."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("truerank."):
        frame, level = frame.f_back, level + 1
    return level


def fit_scorer(
    model: Model | Scorer,
    split: Split,
    *,
    validate: Validate | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
    keeps_part: bool = False,
) -> Scorer:
    """Return the scorer: a model is fitted on the train part, a scorer is taken as it is.

    Parameters
    ----------
    model, split : what is fitted to what
    validate, seed, progress : as in ``Model.fit``
    keeps_part : whether Ctrl-C ends a training with its best epoch, marked as such; it is raised otherwise
    """
    if not isinstance(model, Model):
        return model
    with nullcontext() if keeps_part else whole_or_nothing():
        return model.fit(split.train, validate=validate, seed=seed, progress=progress)


def unknown_of(model: Model | Scorer) -> dict[str, int]:
    """Return how many users and items of the data the model behind a scorer does not know, if any."""
    unknown = {} if isinstance(model, Model) else getattr(model, "unknown", {})
    return dict(unknown) if isinstance(unknown, Mapping) else {}


def was_interrupted(scorer: Scorer) -> bool:
    """Whether Ctrl-C has ended the training of this scorer in this run, and not before it was saved."""
    interrupted = interrupted_training(scorer)
    return interrupted is not None and not interrupted.path


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
