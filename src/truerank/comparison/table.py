"""Differences as a table."""

from __future__ import annotations

from truerank.comparison.difference import Comparison, Difference
from truerank.comparison.wording import headline
from truerank.core.table import Table

COLUMNS = ("A", "B", "metric", "A - B", "P(A > B)", "adjusted p", "verdict")


def difference_table(found: Comparison) -> Table:
    """Return one row per pair and metric, the verdict last."""
    return Table(COLUMNS, tuple(_row(one) for one in found.differences))


def _row(one: Difference) -> tuple[str, ...]:
    interval = "" if one.low is None or one.high is None else f" [{one.low:+.4f}, {one.high:+.4f}]"
    probability = "" if one.probability is None else f"{one.probability:.3f}"
    p_value = "" if one.p_adjusted is None else f"{one.p_adjusted:.2g}"
    value = f"{one.value:+.4f}{interval}"
    return one.first, one.second, one.metric, value, probability, p_value, headline(one)
