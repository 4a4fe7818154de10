"""The sub-sampling strategies by name."""

from __future__ import annotations

from truerank.core.registry import Registry
from truerank.core.strategy import Strategy

STRATEGIES: Registry[Strategy] = Registry(
    "strategy",
    {
        "centrality": "truerank.subsample.centrality:Centrality",
        "forest-fire": "truerank.subsample.walk:ForestFire",
        "head-item": "truerank.subsample.unit:HeadItem",
        "head-user": "truerank.subsample.unit:HeadUser",
        "random": "truerank.subsample.interaction:Random",
        "random-item": "truerank.subsample.unit:RandomItem",
        "random-user": "truerank.subsample.unit:RandomUser",
        "random-walk": "truerank.subsample.walk:RandomWalk",
        "stratified": "truerank.subsample.history:Stratified",
        "temporal": "truerank.subsample.history:Temporal",
    },
)
