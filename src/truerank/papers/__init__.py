"""Tables and figures of the papers, computed with the library and set beside the printed numbers."""

from truerank.papers.outcome import Cell, Outcome
from truerank.papers.recipe import RECIPES, Recipe, Settings, run_recipe

__all__ = ["RECIPES", "Cell", "Outcome", "Recipe", "Settings", "run_recipe"]
