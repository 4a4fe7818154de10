"""Composer: ranks of several models in, their differences and a verdict out."""

from truerank.comparison.contest import compare
from truerank.comparison.difference import Comparison, Difference
from truerank.comparison.reading import read_rank_files
from truerank.comparison.verdict import Strength, Verdict
from truerank.comparison.wording import headline

__all__ = ["Comparison", "Difference", "Strength", "Verdict", "compare", "headline", "read_rank_files"]
