"""From scorers to ranks."""

from truerank.ranks.exact import exact_ranks

__all__ = ["exact_ranks"]
