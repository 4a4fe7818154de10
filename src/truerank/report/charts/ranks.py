"""Chart: distribution of the ranks of targets on a logarithmic scale, two bins per doubling of the rank.

For exact ranks it is a histogram. For sampled ranks it shows the sample scaled to the catalogue, the
distribution that an estimator infers from it, and the exact ranks where they are known too.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from truerank.core.chart import Chart, ChartAxis, Series
from truerank.core.errors import CannotEstimate
from truerank.core.ranks import Ranks, SampledRanks, TiePolicy
from truerank.core.table import rounded, rounded_percent
from truerank.core.types import FloatArray, IntArray
from truerank.estimation.distribution.base import MixtureEstimator, kind_masses
from truerank.estimation.distribution.smooth import Smooth
from truerank.estimation.tally import Tally, tally

_NARROW = 2**0.25  # a last bin below half of the usual width joins the one before


def rank_edges(n_ranks: int) -> IntArray:
    """Return the first rank of each bin, then the rank after the last bin; two bins per doubling.

    Examples
    --------
    >>> rank_edges(20).tolist(), rank_edges(1).tolist()
    ([1, 2, 3, 4, 6, 8, 11, 16, 21], [1, 2])
    """
    halves = np.arange(2 * int(n_ranks).bit_length() + 1) / 2
    edges = np.unique(np.rint(2**halves).astype(np.int64))
    edges = edges[edges <= n_ranks]
    if len(edges) > 1 and (n_ranks + 1) / edges[-1] < _NARROW:
        edges = edges[:-1]
    return np.append(edges, n_ranks + 1)


def per_doubling(cumulative: FloatArray, edges: IntArray) -> FloatArray:
    """Return the density per doubling in each bin, from the cumulative fractions at the edges.

    Examples
    --------
    >>> per_doubling(np.array([0.0, 0.25, 1.0]), np.array([1, 2, 8])).tolist()
    [0.25, 0.375]
    """
    density: FloatArray = np.diff(cumulative) / np.diff(np.log2(edges))
    return density


def exact_below(ranks: Ranks, edges: IntArray, ties: TiePolicy = "expected") -> FloatArray:
    """Return the fraction of targets ranked before each edge; a tied target counts evenly over its block.

    Every target counts alike.

    Examples
    --------
    >>> exact_below(Ranks.single([0, 3], n_pool=10, n_tied=1), np.array([1, 2, 5, 11])).tolist()
    [0.0, 0.25, 0.75, 1.0]
    """
    first = ranks.worst if ties == "worst" else ranks.best
    last = ranks.best if ties == "best" else ranks.worst
    width = last - first + 1
    return np.array([float((np.clip(edge - first, 0, width) / width).mean()) for edge in edges.tolist()])


def sampled_below(counted: Tally, edges: IntArray) -> FloatArray:
    """Return the fraction of targets ranked before each edge if sampled ranks are scaled to the pool.

    With j of m negatives above it, a target is assigned to the (j + 1)-th of m + 1 equal parts of the
    candidates, uniformly on a logarithmic scale within it; other targets above it are added to the rank.

    Examples
    --------
    >>> from truerank.core.ranks import SampledRanks
    >>> from truerank.estimation.tally import tally
    >>> sample = SampledRanks.single([0, 1], n_negatives=1, n_pool=16)  # ranks 1 to 8, and 9 to 16
    >>> sampled_below(tally(sample), np.array([1, 3, 9, 17])).round(12).tolist()
    [0.0, 0.25, 0.5, 1.0]
    """
    cells = np.flatnonzero(counted.cell_weights)
    weight = counted.cell_weights[cells]
    of = np.searchsorted(counted.offsets, cells, side="right") - 1
    contexts = counted.contexts
    width = (contexts.n_candidates[of] + 1) / (contexts.n_negatives[of] + 1)
    first = 1 + contexts.n_relevant_above[of] + (cells - counted.offsets[of]) * width
    start, length = np.log(first), np.log1p(width / first)
    fractions = [weight @ np.clip((np.log(edge) - start) / length, 0, 1) for edge in edges.tolist()]
    return np.array(fractions) / counted.n_rows


def inferred_below(counted: Tally, edges: IntArray, estimator: MixtureEstimator) -> FloatArray:
    """Return the fraction of targets ranked before each edge under the distribution that an estimator fits.

    Raises
    ------
    CannotEstimate
        When the estimator cannot treat the sample.
    """
    if counted.is_fully_ranked:
        return sampled_below(counted, edges)  # the known ranks
    likelihood, fit = estimator.fit_tallies([counted])
    masses, kind = kind_masses(likelihood, fit.masses[0], 0, counted)
    contexts = counted.contexts
    weight = np.add.reduceat(counted.cell_weights, counted.offsets[:-1]) / counted.n_rows
    below = np.zeros(len(edges))
    for context in range(len(contexts)):
        above = edges - 1 - contexts.n_relevant_above[context]
        fraction = np.clip(above / (contexts.n_candidates[context] + 1), 0, 1)
        below += weight[context] * likelihood.grid.cdf(masses[kind[context]], fraction)
    return below


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
    largest = max(int(of_model.n_pool.max()) for of_model in ranks.values())
    edges = rank_edges(largest)
    below = {name: exact_below(of_model, edges, ties) for name, of_model in ranks.items()}
    summaries = [_summary(name, of_model, edges) for name, of_model in below.items()]
    return Chart(
        key="rank-distribution",
        title="Distribution of target ranks",
        words=f"Share of targets by rank. {' '.join(summaries)}",
        x=ChartAxis(_X, "log", "count", 1, largest + 1),
        y=ChartAxis(_Y, unit="share", low=0.0),
        series=tuple(_step(name, edges, of_model, model=name) for name, of_model in below.items()),
        notes=(_axis_note(edges), *_target_note(next(iter(ranks.values())))),
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
    """Return sampled ranks of one model, the distribution inferred from them, and exact ranks if known.

    Parameters
    ----------
    name : the model
    ranks : its sampled ranks
    exact : its exact ranks, where they are known too
    estimator : of the rank distribution; ``smooth`` by default
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
        f"Share of targets of {name} by rank. {rounded_percent(first)} of them have no sampled item above "
        f"them, which stands for ranks 1 to {rounded(width)}."
    ]
    notes = [
        _axis_note(edges),
        f"A sampled rank stands for a stretch of about {rounded(width)} ranks of the catalogue and is spread "
        "over it: within the first stretch the sample itself says nothing.",
    ]
    try:
        inferred = inferred_below(counted, edges, used)
        series.append(_step(f"inferred by {used}", edges, inferred, model=name, is_dashed=True))
        words.append(_summary(f"Inferred by {used}", inferred, edges))
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
        words.append(_summary("Exact ranks", known, edges))
    return Chart(
        key=key,
        title=f"Distribution of target ranks: {name}",
        words=" ".join(words),
        x=ChartAxis(_X, "log", "count", 1, largest + 1),
        y=ChartAxis(_Y, unit="share", low=0.0),
        series=tuple(series),
        notes=(*notes, *_target_note(ranks)),
    )


def _step(
    label: str, edges: IntArray, below: FloatArray, *, model: str = "", is_dashed: bool = False
) -> Series:
    density = np.append(np.maximum(per_doubling(below, edges), 0.0), 0.0)
    positions = tuple(map(float, edges.tolist()))
    return Series(label, positions, tuple(density.tolist()), kind="step", model=model, is_dashed=is_dashed)


def _summary(name: str, below: FloatArray, edges: IntArray) -> str:
    """Return the fraction of targets in the top 10 and the median rank, as a sentence."""
    top = min(_TOP, int(edges[-1]) - 1)
    within = float(np.interp(np.log(top + 1), np.log(edges), below))
    middle = float(np.exp(np.interp(0.5, below, np.log(edges))))
    return f"{name}: about {rounded_percent(within)} within the top {top}, half above rank {rounded(middle)}."


def _axis_note(edges: IntArray) -> str:
    return (
        "Two steps to a doubling of the rank; the height is the share of targets per doubling, so equal "
        f"areas are equal shares. The last step ends at rank {int(edges[-1]) - 1:,}."
    )


def _target_note(ranks: Ranks | SampledRanks) -> tuple[str, ...]:
    if len(ranks) == ranks.n_users:
        return ()
    return ("Every target counts alike, whatever the number of targets of its user.",)
