"""Chart: where targets stand, on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from truerank.charts.rank_mass import (
    exact_below,
    inferred_below,
    per_doubling,
    rank_edges,
    sampled_below,
)
from truerank.charts.wording import about, share
from truerank.core.chart import Chart, ChartAxis, Series
from truerank.core.errors import CannotEstimate
from truerank.core.ranks import Ranks, SampledRanks, TiePolicy
from truerank.core.tally import tally
from truerank.core.types import FloatArray, IntArray
from truerank.estimators.mixture import MixtureEstimator
from truerank.estimators.smooth import Smooth

_X = "rank"
_Y = "share of targets per doubling of the rank"
_TOP = 10


def exact_rank_chart(ranks: Mapping[str, Ranks], ties: TiePolicy = "expected") -> Chart:
    """Return the distribution of exact ranks of all models.

    Parameters
    ----------
    ranks : by model, at least one
    ties : ``best`` and ``worst`` put targets first and last among equal scores, others spread them
    """
    largest = max(int(one.n_pool.max()) for one in ranks.values())
    edges = rank_edges(largest)
    below = {name: exact_below(one, edges, ties) for name, one in ranks.items()}
    said = [_said(name, one, edges) for name, one in below.items()]
    return Chart(
        key="rank-distribution",
        title="Where targets stand",
        words=f"Share of targets by rank. {' '.join(said)}",
        x=ChartAxis(_X, "log", "count", 1, largest + 1),
        y=ChartAxis(_Y, unit="share", low=0.0),
        series=tuple(_step(name, edges, one, model=name) for name, one in below.items()),
        notes=(_how(edges), *_several(next(iter(ranks.values())))),
    )


def sampled_rank_chart(
    name: str,
    ranks: SampledRanks,
    exact: Ranks | None = None,
    *,
    estimator: MixtureEstimator | None = None,
    ties: TiePolicy = "expected",
    seed: int = 0,
    key: str = "rank-distribution",
) -> Chart:
    """Return the sampled ranks of one model, what an estimator infers from them, and the truth if known.

    Parameters
    ----------
    name : the model
    ranks : its sampled ranks
    exact : its exact ranks, where they are known too
    estimator : what fits a distribution of ranks; ``smooth`` unless given
    ties, seed : as in ``estimate``
    key : of the chart
    """
    used = estimator or Smooth()
    largest = int(ranks.n_pool.max())
    edges = rank_edges(largest)
    counted = tally(ranks, ties=ties, seed=seed)
    seen = sampled_below(counted, edges)
    width = float(np.median((ranks.n_candidates + 1) / (ranks.n_negatives + 1)))
    series = [_step("sampled ranks, scaled to the catalogue", edges, seen)]
    first = float(((ranks.n_above - ranks.n_relevant_above) == 0).mean())
    words = [
        f"Share of targets of {name} by rank. {share(first)} of them have no sampled item above them, which "
        f"stands for ranks 1 to {about(width)}."
    ]
    notes = [
        _how(edges),
        f"A sampled rank stands for a stretch of about {about(width)} ranks of the catalogue and is spread "
        "over it: within the first stretch the sample itself says nothing.",
    ]
    try:
        inferred = inferred_below(counted, edges, used)
        series.append(_step(f"inferred by {used}", edges, inferred, model=name, is_dashed=True))
        words.append(_said(f"Inferred by {used}", inferred, edges))
        if estimator is None:
            notes.append(
                "The estimator of the table corrects metrics and gives no distribution of ranks; the one "
                f"shown was fitted by {used}."
            )
    except CannotEstimate as error:
        notes.append(f"No distribution could be inferred: {error}")
    if exact is not None:
        known = exact_below(exact, edges, ties)
        series.append(_step("exact ranks", edges, known, model=name))
        words.append(_said("Exact ranks", known, edges))
    return Chart(
        key=key,
        title=f"Where targets stand: {name}",
        words=" ".join(words),
        x=ChartAxis(_X, "log", "count", 1, largest + 1),
        y=ChartAxis(_Y, unit="share", low=0.0),
        series=tuple(series),
        notes=(*notes, *_several(ranks)),
    )


def _step(
    label: str, edges: IntArray, below: FloatArray, *, model: str = "", is_dashed: bool = False
) -> Series:
    density = np.append(np.maximum(per_doubling(below, edges), 0.0), 0.0)
    places = tuple(map(float, edges.tolist()))
    return Series(label, places, tuple(density.tolist()), look="step", model=model, is_dashed=is_dashed)


def _said(name: str, below: FloatArray, edges: IntArray) -> str:
    """Return what a reader would look for: how many stand at the top, and where the middle is."""
    top = min(_TOP, int(edges[-1]) - 1)
    within = float(np.interp(np.log(top + 1), np.log(edges), below))
    middle = float(np.exp(np.interp(0.5, below, np.log(edges))))
    return f"{name}: about {share(within)} within the top {top}, half above rank {about(middle)}."


def _how(edges: IntArray) -> str:
    return (
        "Two steps to a doubling of the rank; the height is the share of targets per doubling, so equal "
        f"areas are equal shares. The last step ends at rank {int(edges[-1]) - 1:,}."
    )


def _several(ranks: Ranks | SampledRanks) -> tuple[str, ...]:
    if len(ranks) == ranks.n_users:
        return ()
    return ("Every target counts alike, whatever the number of targets of its user.",)
