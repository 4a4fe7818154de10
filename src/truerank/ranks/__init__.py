"""From scorers to ranks."""

from truerank.ranks.adaptive_cost import CostCurve, choose_ceiling, cost_curve, expected_size
from truerank.ranks.exact import exact_ranks
from truerank.ranks.registry import SAMPLERS
from truerank.ranks.sampled import Sampled, sample, sampled_ranks
from truerank.ranks.sampled_table import (
    SampledTable,
    read_sampled_models,
    read_sampled_ranks,
    read_sampled_table,
    sampled_frame,
    write_sampled,
)
from truerank.ranks.sampler import Sampler
from truerank.ranks.simulated import simulate_adaptive, simulate_sample, simulate_shared
from truerank.ranks.table import ranks_table

__all__ = [
    "SAMPLERS",
    "CostCurve",
    "Sampled",
    "SampledTable",
    "Sampler",
    "choose_ceiling",
    "cost_curve",
    "exact_ranks",
    "expected_size",
    "ranks_table",
    "read_sampled_models",
    "read_sampled_ranks",
    "read_sampled_table",
    "sample",
    "sampled_frame",
    "sampled_ranks",
    "simulate_adaptive",
    "simulate_sample",
    "simulate_shared",
    "write_sampled",
]
