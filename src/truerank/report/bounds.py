"""What sampled ranks allow: bounds as a table, and the words that go with them."""

from __future__ import annotations

from truerank.core.number import MISSING, decimals, fixed, percent
from truerank.core.result import Result
from truerank.core.table import Table


def bound_table(result: Result) -> Table | None:
    """Return the bounds of a result; None where it has none.

    Examples
    --------
    >>> from truerank.core.estimate import Estimate
    >>> bound = Estimate("popularity", "ndcg@10", 0.15, 0.1, 0.2, 0.95, kind="bound", estimator="bounds")
    >>> bound_table(Result("estimate", (), bounds=(bound,))).rows
    (('popularity', '0.1000 to 0.2000'),)
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
    rows = tuple((model, *(texts.get((model, metric), MISSING) for metric in metrics)) for model in models)
    return Table(("Model", *metrics), rows)


def bound_words(result: Result) -> str:
    """Return the sentence that says what the bounds are.

    Examples
    --------
    >>> bound_words(Result("estimate", ()))
    ''
    """
    if not result.bounds:
        return ""
    level = result.bounds[0].level
    sure = "" if level is None else f" at {percent(level)} confidence"
    return (
        f"Every value between these ends fits the sampled ranks{sure}, whatever the ranks are; "
        "no estimator enters."
    )
