"""Chart: scores computed and seconds spent on ranking, by model and by exact or sampled ranking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from truerank.core.chart import Chart, ChartAxis, Series
from truerank.core.result import Result
from truerank.core.table import joined_clauses, rounded


@dataclass(frozen=True)
class RankingCost:
    """Scores and seconds of ranking one model in one way."""

    model: str
    way: str
    n_scores: int
    seconds: float


def ranking_costs(result: Result) -> list[RankingCost]:
    """Return scores and seconds of ranking by model, exact and sampled; empty where the result lacks them.

    Of a model that was ranked both ways, all items of all users count as exact, the other scores as sampled.
    """
    return list(_iterate_costs(result))


def cost_chart(result: Result) -> Chart | None:
    """Return scores against seconds by model, with the scores of exact ranking.

    None where they are not known, and where all models took the same number of scores: then the points would
    lie on one line, and the table of costs says all.
    """
    costs = ranking_costs(result)
    if len({cost.n_scores for cost in costs}) < 2:
        return None
    full = _exact_scores(result)
    seconds = [cost.seconds for cost in costs]
    limits = min(seconds) / 2, max(seconds) * 2
    scores = [cost.n_scores for cost in costs] + ([full] if full else [])
    reference = (
        (Series("all items for all users", limits, (full, full), is_dashed=True),) if full is not None else ()
    )
    return Chart(
        key="cost",
        title="Cost of ranking",
        words=f"Scores computed against seconds of ranking. {_summary(costs, full)}",
        x=ChartAxis("seconds of ranking", "log", "number", *limits),
        y=ChartAxis("scores computed", "log", "count", min(scores) / 2, max(scores) * 2),
        series=(
            *reference,
            *(
                Series(
                    cost.model if cost.way == "exact" else f"{cost.model}, {cost.way}",
                    (cost.seconds,),
                    (float(cost.n_scores),),
                    kind="dots",
                    model=cost.model,
                    is_dashed=cost.way != "exact",
                )
                for cost in costs
            ),
        ),
        notes=(
            "Seconds depend on the machine and on what else it did; scores do not. Fitting is not counted. A "
            "score of a dot product costs next to nothing, one of a deep network may cost milliseconds: "
            "sampling saves scores, not always seconds.",
        ),
    )


def _iterate_costs(result: Result) -> Iterator[RankingCost]:
    seconds, scores = (result.provenance.get(name) for name in ("seconds", "scores_computed"))
    if not isinstance(seconds, dict) or not isinstance(scores, dict):
        return
    full = _exact_scores(result)
    for model in result.models():
        took, n_scores = seconds.get(model), scores.get(model)
        if not isinstance(took, dict) or not n_scores:
            continue
        is_both = "sample" in took and "rank" in took
        if "sample" in took and took["sample"] > 0:
            n_sampled = int(n_scores) - (full or 0) if is_both else int(n_scores)
            if n_sampled > 0:
                yield RankingCost(model, "sampled", n_sampled, float(took["sample"]))
        if took.get("rank", 0) > 0:
            n_exact = full if is_both and full else int(n_scores)
            yield RankingCost(model, "exact" if n_exact == full else "part", n_exact, float(took["rank"]))


def _exact_scores(result: Result) -> int | None:
    users, items = (result.data.get(name) for name in ("users_with_targets", "n_items"))
    return int(users) * int(items) if users and items else None


def _summary(costs: list[RankingCost], full: int | None) -> str:
    clauses = [
        f"{cost.model} ({cost.way}): {cost.n_scores:,} scores in {rounded(cost.seconds)} s"
        + (f", {cost.n_scores / full:.2g} of all" if full and cost.n_scores != full else "")
        for cost in costs
    ]
    return f"{joined_clauses(clauses)}."
