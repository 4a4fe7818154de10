"""The mapping functions there are."""

from __future__ import annotations

from truerank.core.registry import Registry
from truerank.estimators.mapping.function import MappingFunction

MAPPINGS: Registry[MappingFunction] = Registry(
    "mapping",
    {
        "beta": "truerank.estimators.mapping.beta:Beta",
        "beta-p": "truerank.estimators.mapping.fitted:FittedBeta",
        "bound": "truerank.estimators.mapping.bound:Bound",
        "linear": "truerank.estimators.mapping.linear:Linear",
    },
)
