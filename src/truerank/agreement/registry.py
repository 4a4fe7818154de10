"""The scenarios by name."""

from __future__ import annotations

from truerank.agreement.scenario import Scenario
from truerank.core.registry import Registry

SCENARIOS: Registry[Scenario] = Registry(
    "scenario",
    {
        "explicit": "truerank.agreement.explicit:Explicit",
        "implicit": "truerank.agreement.implicit:Implicit",
        "sequential": "truerank.agreement.sequential:Sequential",
    },
)
