"""Who is ahead of whom, as a map."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from truerank.charts.wording import listed
from truerank.comparison import Difference
from truerank.core.chart import HeatMap


def winner_map(metric: str, models: Sequence[str], differences: Sequence[Difference], *, key: str) -> HeatMap:
    """Return the differences of all pairs in one metric as a map, row minus column.

    Parameters
    ----------
    metric : spec string
    models : in the order given; they are shown best first
    differences : of this metric, every pair
    key : of the map
    """
    values: dict[tuple[str, str], float] = {}
    for one in differences:
        values[one.first, one.second] = one.value
        values[one.second, one.first] = -one.value
    wins = {name: sum(values.get((name, other), 0.0) for other in models if other != name) for name in models}
    order = sorted(models, key=lambda name: -wins[name])
    widest = max((abs(value) for value in values.values()), default=0.0) or 1.0
    ahead = [f"{a} is ahead of {b} by {values[a, b]:.4f}" for a, b in pairwise(order)]
    return HeatMap(
        key=key,
        title=f"Who is ahead in {metric}: row minus column",
        words=f"Differences in {metric} between all models, best first. {listed(ahead)}.",
        rows=tuple(order),
        columns=tuple(order),
        values=tuple(tuple(values.get((a, b)) for b in order) for a in order),
        label=f"difference in {metric}",
        low=-widest,
        high=widest,
        middle=0.0,
        notes=("Colours show values alone; which of them can be told from 0 stands in the verdicts.",),
    )
