"""From scorers to ranks."""

from truerank.ranks.exact import exact_ranks
from truerank.ranks.table import ranks_table

__all__ = ["exact_ranks", "ranks_table"]
