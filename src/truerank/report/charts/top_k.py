"""Chart: the fraction of targets that are ranked within the top K, for every K."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from truerank.core.chart import Chart, ChartAxis, Series
from truerank.core.ranks import Ranks
from truerank.core.table import percent
from truerank.core.types import FloatArray, IntArray
from truerank.report.axis import round_values

_POINTS = 200  # more cannot be told apart on a screen


def top_k_chart(ranks: Mapping[str, Ranks], models: Iterable[str]) -> Chart | None:
    """Return the fraction of targets within the top K by model, or None when there are no ranks.

    K runs over at most a few hundred whole numbers from 1 to the largest pool, evenly spaced on a
    logarithmic axis, the round ones among them.

    Parameters
    ----------
    ranks : exact ranks by model
    models : in the order of the legend; those without ranks are left out
    """
    known = [model for model in dict.fromkeys(models) if len(ranks.get(model, ()))]
    if not known:
        return None
    largest = max(int(ranks[model].n_pool.max()) for model in known)
    cutoffs = thinned_cutoffs(largest)
    fractions = {model: fraction_in_top(ranks[model], cutoffs) for model in known}
    by_chance = random_fraction_in_top(ranks[known[0]].n_pool, cutoffs)
    xs = tuple(cutoffs.tolist())
    return Chart(
        key="top-share",
        title="Share of targets ranked within the top K",
        words=_words(cutoffs, fractions),
        x=ChartAxis(f"K, up to {largest:,}", "log", "count"),
        y=ChartAxis("share of targets", unit="share", low=0.0, high=1.0),
        series=(
            Series("random order", xs, tuple(by_chance.tolist()), is_dashed=True),
            *(
                Series(model, xs, tuple(fraction.tolist()), model=model)
                for model, fraction in fractions.items()
            ),
        ),
        notes=(
            "Every target counts alike, so with several targets per user this is not the average of recall "
            "over users.",
            "Among tied items a target takes the middle rank: 1 + items above + half the items tied.",
        ),
    )


def thinned_cutoffs(largest: int) -> IntArray:
    """Return whole numbers from 1 to ``largest``, evenly spaced on a logarithmic axis.

    Examples
    --------
    >>> thinned_cutoffs(7).tolist(), len(thinned_cutoffs(1_000_000)) <= 400
    ([1, 2, 3, 4, 5, 6, 7], True)
    """
    spaced = np.rint(np.geomspace(1, largest, _POINTS)).astype(np.int64)
    return np.union1d(spaced, np.array(round_values(1, largest), dtype=np.int64))


def fraction_in_top(ranks: Ranks, cutoffs: IntArray) -> FloatArray:
    """Return the fraction of targets whose mid rank is at most each cut-off.

    Every target has the same weight, whatever the number of targets of its user. Among ties a target takes
    the middle rank ``1 + n_above + n_tied / 2``.

    Examples
    --------
    >>> fraction_in_top(Ranks.single([0, 3], n_pool=10, n_tied=2), np.array([1, 2, 4, 5])).tolist()
    [0.0, 0.5, 0.5, 1.0]
    """
    middle = np.sort(ranks.n_above + ranks.n_tied / 2 + 1)
    return np.searchsorted(middle, cutoffs, side="right") / len(ranks)


def random_fraction_in_top(n_pool: IntArray, cutoffs: IntArray) -> FloatArray:
    """Return the expected fraction when every pool is in random order.

    Examples
    --------
    >>> random_fraction_in_top(np.array([10, 2]), np.array([1, 5])).tolist()
    [0.3, 0.75]
    """
    pools, counts = np.unique(n_pool, return_counts=True)
    fractions = [np.average(np.minimum(cutoff / pools, 1), weights=counts) for cutoff in cutoffs]
    return np.array(fractions, dtype=np.float64)


def _words(cutoffs: IntArray, fractions: Mapping[str, FloatArray]) -> str:
    shown = min(10, int(cutoffs[-1]))
    at = int(np.searchsorted(cutoffs, shown))
    listed = "; ".join(
        f"{model} {percent(round(float(fraction[at]), 4))}" for model, fraction in fractions.items()
    )
    return f"Share of targets ranked within the top K, by model. Within the top {shown}: {listed}."
