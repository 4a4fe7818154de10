"""Charts as matplotlib figures, for notebooks and papers.

Importing it loads no matplotlib, and drawing no pyplot: figures belong to no window and no global state.
"""

from truerank.core.drawing.leaderboard import draw_leaderboard
from truerank.core.drawing.panels import draw_panels
from truerank.core.drawing.picture import draw

__all__ = ["draw", "draw_leaderboard", "draw_panels"]
