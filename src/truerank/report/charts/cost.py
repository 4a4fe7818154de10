"""Chart: what ranking took."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from truerank.core.chart import Chart, ChartAxis, Series
from truerank.core.result import Result
from truerank.core.table import rounded
from truerank.report.charts.wording import joined_clauses


@dataclass(frozen=True)
class RankingCost:
    """Scores and seconds of ranking one model in one way."""

    model: str
    way: str
    n_scores: int
    seconds: float


def ranking_costs(result: Result) -> list[RankingCost]:
    """Return what ranking took, per model and way; empty where the result does not say.

    Where a model was ranked both ways its scores are told apart: all items for all users, and the rest.
    """
    return list(_iterate_costs(result))


def cost_chart(result: Result) -> Chart | None:
    """Return scores against seconds by model, beside those of exact ranking; None if they are not known."""
    found = ranking_costs(result)
    if not found:
        return None
    full = _exact_scores(result)
    seconds = [one.seconds for one in found]
    ends = min(seconds) / 2, max(seconds) * 2
    scores = [one.n_scores for one in found] + ([full] if full else [])
    reference = (
        (Series("all items for all users", ends, (full, full), is_dashed=True),) if full is not None else ()
    )
    return Chart(
        key="cost",
        title="What ranking took",
        words=f"Scores computed against seconds of ranking. {_summary(found, full)}",
        x=ChartAxis("seconds of ranking", "log", "number", *ends),
        y=ChartAxis("scores computed", "log", "count", min(scores) / 2, max(scores) * 2),
        series=(
            *reference,
            *(
                Series(
                    one.model if one.way == "exact" else f"{one.model}, {one.way}",
                    (one.seconds,),
                    (float(one.n_scores),),
                    kind="dots",
                    model=one.model,
                    is_dashed=one.way != "exact",
                )
                for one in found
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
            own = int(n_scores) - (full or 0) if is_both else int(n_scores)
            if own > 0:
                yield RankingCost(model, "sampled", own, float(took["sample"]))
        if took.get("rank", 0) > 0:
            n_exact = full if is_both and full else int(n_scores)
            yield RankingCost(model, "exact" if n_exact == full else "part", n_exact, float(took["rank"]))


def _exact_scores(result: Result) -> int | None:
    users, items = (result.data.get(name) for name in ("users_with_targets", "n_items"))
    return int(users) * int(items) if users and items else None


def _summary(found: list[RankingCost], full: int | None) -> str:
    said = [
        f"{one.model} ({one.way}): {one.n_scores:,} scores in {rounded(one.seconds)} s"
        + (f", {one.n_scores / full:.2g} of all" if full and one.n_scores != full else "")
        for one in found
    ]
    return f"{joined_clauses(said)}."
