"""The samplers by name."""

from __future__ import annotations

from truerank.core.plugin import Registry
from truerank.ranking.negatives import Sampler

SAMPLERS: Registry[Sampler] = Registry(
    "sampler",
    {
        "adaptive": "truerank.ranking.samplers.adaptive:Adaptive",
        "full": "truerank.ranking.samplers.full:Full",
        "given": "truerank.ranking.samplers.given:Given",
        "popularity": "truerank.ranking.samplers.popularity:PopularitySampler",
        "uniform": "truerank.ranking.samplers.uniform:UniformSampler",
    },
    presets={"uni100": "uniform(m=100)"},
    base=Sampler,
)
