"""Composer: whether models keep their order on smaller data."""

from truerank.agreement.experiment import Experiment, measure_agreement
from truerank.agreement.grid import GRIDS
from truerank.agreement.order import kendall, movement, psi
from truerank.agreement.plan import PAPER_FRACTIONS, Plan, make_plan
from truerank.agreement.registry import SCENARIOS
from truerank.agreement.result import Agreement, Board, Cell, Move, Score
from truerank.agreement.scenario import Scenario

__all__ = [
    "GRIDS",
    "PAPER_FRACTIONS",
    "SCENARIOS",
    "Agreement",
    "Board",
    "Cell",
    "Experiment",
    "Move",
    "Plan",
    "Scenario",
    "Score",
    "kendall",
    "make_plan",
    "measure_agreement",
    "movement",
    "psi",
]
