"""Composer: how much to sample, what it costs, and when to stop."""

from truerank.planning.cost import Costs, measure
from truerank.planning.division import Division, divide
from truerank.planning.people import People
from truerank.planning.pilot_users import PilotUsers
from truerank.planning.population import Population
from truerank.planning.precision import evaluate_to_precision
from truerank.planning.sample_size import Need, Plan, plan
from truerank.planning.spread import Spread

__all__ = [
    "Costs",
    "Division",
    "Need",
    "People",
    "PilotUsers",
    "Plan",
    "Population",
    "Spread",
    "divide",
    "evaluate_to_precision",
    "measure",
    "plan",
]
