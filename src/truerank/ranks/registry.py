"""The samplers by name."""

from __future__ import annotations

from truerank.core.registry import Registry
from truerank.ranks.sampler import Sampler

SAMPLERS: Registry[Sampler] = Registry(
    "sampler",
    {
        "adaptive": "truerank.ranks.adaptive:Adaptive",
        "full": "truerank.ranks.full:Full",
        "given": "truerank.ranks.given:Given",
        "popularity": "truerank.ranks.popularity:Popularity",
        "uniform": "truerank.ranks.uniform:Uniform",
    },
    presets={"uni100": "uniform(m=100)"},
)
