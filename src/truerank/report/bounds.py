"""What sampled ranks allow: bounds as a table, and the words that go with them."""

from __future__ import annotations

from dataclasses import dataclass

from truerank.core.number import MISSING, decimals, fixed, percent
from truerank.core.result import Result


@dataclass(frozen=True)
class BoundTable:
    """The values that each metric may have, by model.

    Parameters
    ----------
    metrics : the columns
    rows : per model one text for each metric
    level : the confidence as shown
    """

    metrics: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]
    level: str


def bound_table(result: Result) -> BoundTable | None:
    """Return the bounds of a result; None where it has none.

    Examples
    --------
    >>> from truerank.core.estimate import Estimate
    >>> bound = Estimate("popularity", "ndcg@10", 0.15, 0.1, 0.2, 0.95, kind="bound", estimator="bounds")
    >>> bound_table(Result("estimate", (), bounds=(bound,))).rows
    (('popularity', ('0.1000 to 0.2000',)),)
    """
    if not result.bounds:
        return None
    metrics = tuple(dict.fromkeys(bound.metric for bound in result.bounds))
    ends = [end for bound in result.bounds for end in (bound.low, bound.high) if end is not None]
    places = decimals(ends)
    texts = {
        (bound.model, bound.metric): f"{fixed(bound.low, places)} to {fixed(bound.high, places)}"
        for bound in result.bounds
        if bound.low is not None and bound.high is not None
    }
    models = dict.fromkeys(bound.model for bound in result.bounds)
    rows = tuple(
        (model, tuple(texts.get((model, metric), MISSING) for metric in metrics)) for model in models
    )
    level = result.bounds[0].level
    return BoundTable(metrics, rows, "" if level is None else percent(level))
