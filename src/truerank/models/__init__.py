"""Models: recommenders that learn from train events and return scorers."""

from truerank.models.arrays import Arrays
from truerank.models.ease import Ease
from truerank.models.ials import IALS
from truerank.models.item_knn import ItemKNN
from truerank.models.popularity import Popularity
from truerank.models.registry import MODELS

__all__ = ["IALS", "MODELS", "Arrays", "Ease", "ItemKNN", "Popularity"]
