"""Composer: results in, charts and documents out."""

from truerank.charts.agreement import agreement_document
from truerank.charts.comparison import comparison_document
from truerank.charts.gallery import result_charts

__all__ = ["agreement_document", "comparison_document", "result_charts"]
