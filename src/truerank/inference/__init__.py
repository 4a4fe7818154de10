"""From values per user to intervals."""

from truerank.inference.registry import INTERVALS

__all__ = ["INTERVALS"]
