"""The intervals there are."""

from __future__ import annotations

from truerank.core.interval import Interval
from truerank.core.registry import Registry

INTERVALS: Registry[Interval] = Registry(
    "interval",
    {
        "auto": "truerank.inference.auto:Auto",
        "bca": "truerank.inference.bca:BCa",
        "normal": "truerank.inference.normal:Normal",
    },
)
