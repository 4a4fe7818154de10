"""The intervals of estimates there are."""

from __future__ import annotations

from truerank.core.registry import Registry
from truerank.core.uncertainty import Uncertainty

UNCERTAINTIES: Registry[Uncertainty] = Registry(
    "uncertainty",
    {
        "auto": "truerank.uncertainty.auto:Auto",
        "bias-aware": "truerank.uncertainty.bias_aware:BiasAware",
        "bootstrap": "truerank.uncertainty.bootstrap:Bootstrap",
        "bounds": "truerank.uncertainty.identified:Identified",
        "delta": "truerank.uncertainty.delta:Delta",
    },
)
