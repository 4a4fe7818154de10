"""Composer: how much to sample, what it costs, and when to stop."""

from truerank.planning.cost import Costs, measure
from truerank.planning.division import Division, divide
from truerank.planning.precision import evaluate_to_precision
from truerank.planning.sample_size import Need, Plan, plan
from truerank.planning.spread import Population, Spread

__all__ = [
    "Costs",
    "Division",
    "Need",
    "Plan",
    "Population",
    "Spread",
    "divide",
    "evaluate_to_precision",
    "measure",
    "plan",
]
