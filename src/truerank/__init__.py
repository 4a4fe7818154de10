"""What a recommender's top-K metrics really are: exact where affordable, honest where not."""

from truerank.version import __version__

__all__ = ["__version__"]
