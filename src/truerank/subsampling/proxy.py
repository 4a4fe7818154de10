"""Proxies: the small models that say which events are hard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from truerank.core.errors import InvalidParameter
from truerank.core.model import EpochModel
from truerank.core.spec import Spec, parse_spec
from truerank.core.strategy import Feedback, ProxyStrategy, Strategy
from truerank.models import MODELS
from truerank.subsample import STRATEGIES

#: The proxies of the paper, and the loss that fits each kind of feedback.
PROXIES = {"mf": "s21-mf", "bias": "s21-bias-only"}
LOSSES = {"explicit": "mse", "implicit": "bpr"}


def make_strategy(written: str | Strategy) -> Strategy:
    """Build a strategy and look at its proxy, so that a wrong name is said before data are read."""
    strategy = STRATEGIES.make(written)
    if isinstance(strategy, ProxyStrategy):
        make_proxy(strategy.proxy, strategy.feedback)
    return strategy


def make_proxy(
    proxy: str | Spec | EpochModel, feedback: Feedback = "implicit", *, epochs: int | None = None
) -> EpochModel:
    """Build the model behind the name of a proxy.

    ``mf`` and ``bias`` are the presets ``s21-mf`` and ``s21-bias-only`` with the loss that fits the feedback;
    their parameters may be given. Every other name is one of ``truerank list models``.

    Examples
    --------
    >>> make_proxy("bias", "explicit").loss, make_proxy("mf(epochs=7)").epochs
    ('mse', 7)
    """
    model: Any = proxy
    if isinstance(proxy, str | Spec):
        spec = parse_spec(proxy) if isinstance(proxy, str) else proxy
        if spec.name in PROXIES:
            params = {"loss": LOSSES[feedback], **dict(spec.params)}
            spec = Spec(PROXIES[spec.name], tuple(params.items()), spec.cutoff)
        model = MODELS.make(spec)
    if not isinstance(model, EpochModel):
        raise InvalidParameter(
            f"a proxy must be a model that trains in epochs, got {str(model)!r}. Use mf or bias."
        )
    if feedback == "explicit" and getattr(model, "loss", None) != "mse":
        raise InvalidParameter(
            f"the proxy must predict ratings for explicit feedback, but {str(model)!r} does not. Use mf, "
            "bias or a model with loss=mse."
        )
    return model if epochs is None else cast(EpochModel, replace(cast(Any, model), epochs=epochs))
