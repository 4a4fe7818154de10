"""From what is to be evaluated to what gives scores."""

from __future__ import annotations

from truerank.core.errors import InvalidData
from truerank.core.model import Model, Validate
from truerank.core.progress import SILENT, Progress
from truerank.core.scorer import Scorer
from truerank.core.split import Split


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
