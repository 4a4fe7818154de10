"""Tables and figures of the papers, computed with the library and set beside the printed numbers."""

from truerank.papers.catalogue import PAPERS, RECIPES, run_recipe
from truerank.papers.outcome import Cell, Outcome
from truerank.papers.recipe import Recipe, Settings
from truerank.papers.store import PaperStore

__all__ = ["PAPERS", "RECIPES", "Cell", "Outcome", "PaperStore", "Recipe", "Settings", "run_recipe"]
