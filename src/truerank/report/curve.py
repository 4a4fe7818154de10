"""Share of targets ranked within the top K, for every K."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from truerank.core.number import percent
from truerank.core.palette import Mark
from truerank.core.ranks import Ranks
from truerank.core.types import FloatArray, IntArray
from truerank.report.axis import Tick, log_ticks, round_numbers
from truerank.report.board import Board

_POINTS = 200  # more cannot be told apart on a screen
_SIDE = 1000  # length of both axes in the drawing's own unit


@dataclass(frozen=True)
class Line:
    """One model.

    Parameters
    ----------
    label, mark : its name and look
    shares : (n_cutoffs,) share of targets within each cut-off
    points : the line as SVG points
    places : where markers lie, in percent of width and height from the upper left corner
    """

    label: str
    mark: Mark
    shares: FloatArray
    points: str
    places: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Curve:
    """The chart; ``chance`` is the line of a random order."""

    cutoffs: IntArray
    lines: tuple[Line, ...]
    chance: str
    ticks: tuple[Tick, ...]
    levels: tuple[Tick, ...]
    words: str


def top_share_curve(ranks: Mapping[str, Ranks], board: Board) -> Curve | None:
    """Return the share of targets within the top K by model, or None when there are no ranks.

    K runs over at most a few hundred whole numbers from 1 to the largest pool, evenly spaced on a
    logarithmic axis, the round ones among them.
    """
    models = [row.model for row in board.rows if len(ranks.get(row.model, ()))]
    models = list(dict.fromkeys(models))
    if not models:
        return None
    largest = max(int(ranks[model].n_pool.max()) for model in models)
    cutoffs = thinned_cutoffs(largest)
    shares = {model: top_share(ranks[model], cutoffs) for model in models}
    lines = tuple(
        Line(
            label=model,
            mark=board.mark_of(model),
            shares=shares[model],
            points=_points(cutoffs, shares[model]),
            places=_marker_places(cutoffs, shares[model], turn=(index + 0.5) / len(models)),
        )
        for index, model in enumerate(models)
    )
    return Curve(
        cutoffs=cutoffs,
        lines=lines,
        chance=_points(cutoffs, chance_share(ranks[models[0]].n_pool, cutoffs)),
        ticks=log_ticks(largest),
        levels=tuple(Tick(100.0 - 25 * step, percent(step / 4)) for step in range(5)),
        words=_words(cutoffs, shares),
    )


def thinned_cutoffs(largest: int) -> IntArray:
    """Return whole numbers from 1 to ``largest``, evenly spaced on a logarithmic axis.

    Examples
    --------
    >>> thinned_cutoffs(7).tolist(), len(thinned_cutoffs(1_000_000)) <= 400
    ([1, 2, 3, 4, 5, 6, 7], True)
    """
    spaced = np.rint(np.geomspace(1, largest, _POINTS)).astype(np.int64)
    return np.union1d(spaced, round_numbers(largest))


def top_share(ranks: Ranks, cutoffs: IntArray) -> FloatArray:
    """Return the share of targets whose mid rank is at most each cut-off.

    Targets count alike, whatever the number of targets of their user. Among ties a target takes the middle
    rank ``1 + n_above + n_tied / 2``.

    Examples
    --------
    >>> top_share(Ranks.single([0, 3], n_pool=10, n_tied=2), np.array([1, 2, 4, 5])).tolist()
    [0.0, 0.5, 0.5, 1.0]
    """
    middle = np.sort(ranks.n_above + ranks.n_tied / 2 + 1)
    return np.searchsorted(middle, cutoffs, side="right") / len(ranks)


def chance_share(n_pool: IntArray, cutoffs: IntArray) -> FloatArray:
    """Return the expected share when every pool is in random order.

    Examples
    --------
    >>> chance_share(np.array([10, 2]), np.array([1, 5])).tolist()
    [0.3, 0.75]
    """
    pools, counts = np.unique(n_pool, return_counts=True)
    shares = [np.average(np.minimum(cutoff / pools, 1), weights=counts) for cutoff in cutoffs]
    return np.array(shares, dtype=np.float64)


def _across(cutoffs: IntArray) -> FloatArray:
    return np.log(cutoffs) / math.log(max(int(cutoffs[-1]), 2))


def _points(cutoffs: IntArray, shares: FloatArray) -> str:
    places = zip(_SIDE * _across(cutoffs), _SIDE * (1 - shares), strict=True)
    return " ".join(f"{round(x, 1):g},{round(y, 1):g}" for x, y in places)


def _marker_places(cutoffs: IntArray, shares: FloatArray, *, turn: float) -> tuple[tuple[float, float], ...]:
    """Five places along the line; ``turn`` in [0, 1) shifts them so that models do not hide each other."""
    across = _across(cutoffs)
    at = np.unique(np.searchsorted(across, (np.arange(5) + turn) / 5).clip(max=len(across) - 1))
    return tuple((round(100 * float(across[i]), 2), round(100 * float(1 - shares[i]), 2)) for i in at)


def _words(cutoffs: IntArray, shares: Mapping[str, FloatArray]) -> str:
    shown = min(10, int(cutoffs[-1]))
    at = int(np.searchsorted(cutoffs, shown))
    listed = "; ".join(f"{model} {percent(round(float(share[at]), 4))}" for model, share in shares.items())
    return f"Share of targets ranked within the top K, by model. Within the top {shown}: {listed}."
