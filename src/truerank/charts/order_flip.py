"""Chart: the order of models against the size of the sample."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from truerank.charts.expected import Situations, expected_metric, list_sizes
from truerank.charts.wording import about, each, listed
from truerank.core.chart import Chart, ChartAxis, Series
from truerank.core.metric import Metric
from truerank.core.ranks import Ranks, SampledRanks, TiePolicy
from truerank.core.types import FloatArray, IntArray

_EQUAL = 1e-9  # relative difference below which two values count as equal


@dataclass(frozen=True)
class Crossing:
    """Two models that change places.

    Parameters
    ----------
    small, large : who is better below and above the size
    size : about where
    """

    small: str
    large: str
    size: float


def order_flip_chart(
    ranks: Mapping[str, Ranks] | Mapping[str, SampledRanks],
    metric: Metric,
    *,
    ties: TiePolicy = "expected",
    seed: int = 0,
) -> Chart:
    """Return the expected metric among m sampled items, as it is printed without correction, against m.

    From exact ranks m goes up to the catalogue; from sampled ones up to what was drawn, because drawing fewer
    of those drawn is a sample too.

    Parameters
    ----------
    ranks : exact or sampled ranks by model, at least one
    metric : with a cut-off
    ties, seed : how equal scores count

    Raises
    ------
    CannotEstimate
        When the metric is no sum over targets, or samples grew by a rule.
    """
    found = {name: Situations.of(one, ties=ties, seed=seed) for name, one in ranks.items()}
    most = max(int(one.n_listed.max()) for one in found.values())
    n_terms = sum(map(len, found.values())) * int(metric.cutoff or 1)
    sizes = list_sizes(most, n_terms)
    lines = {name: expected_metric(one, metric, sizes) for name, one in found.items()}
    is_exact = all(isinstance(one, Ranks) for one in ranks.values())
    turns = [crossings(*pair, lines, sizes) for pair in combinations(lines, 2)]
    flips = (_flips(turns),) if len(lines) > 1 else ()
    x = tuple(map(float, sizes.tolist()))
    return Chart(
        key="order-flip",
        title=f"{metric} among m sampled items, uncorrected",
        words=" ".join([_words(metric, lines, sizes, is_exact=is_exact), *flips]),
        x=ChartAxis("m, sampled items per target", "log", "count"),
        y=ChartAxis(f"{metric} as a sample prints it", low=0.0),
        series=tuple(Series(name, x, tuple(line.tolist()), model=name) for name, line in lines.items()),
        notes=(
            *flips,
            "Expected values over all samples of each size, in closed form: nothing was drawn for this. "
            + (
                "At the right end all items are ranked and the values are exact."
                if is_exact
                else "They reach as far as this sample; beyond it lines may cross again."
            ),
        ),
    )


def crossings(first: str, second: str, lines: Mapping[str, FloatArray], sizes: IntArray) -> list[Crossing]:
    """Return where two lines cross, between sizes on a logarithmic scale.

    Examples
    --------
    >>> lines = {"A": np.array([0.3, 0.2, 0.1]), "B": np.array([0.1, 0.0, 0.2])}
    >>> crossings("A", "B", lines, np.array([1, 10, 100]))
    [Crossing(small='A', large='B', size=46.4...)]
    """
    left, right = lines[first], lines[second]
    gap = left - right
    gap = np.where(np.abs(gap) <= _EQUAL * np.maximum(np.abs(left), np.abs(right)), 0.0, gap)
    places = np.flatnonzero(gap)
    found = []
    for a, b in pairwise(places):
        if gap[a] * gap[b] < 0:
            at = gap[a] / (gap[a] - gap[b])
            size = float(np.exp(np.log(sizes[a]) + at * np.log(sizes[b] / sizes[a])))
            better = (first, second) if gap[a] > 0 else (second, first)
            found.append(Crossing(*better, size))
    return found


def _words(metric: Metric, lines: Mapping[str, FloatArray], sizes: IntArray, *, is_exact: bool) -> str:
    end = "with all items" if is_exact else f"with {sizes[-1]:,} items"
    order = sorted(lines, key=lambda name: -lines[name][-1])
    return (
        f"Expected {metric} among m sampled items, for m from 1 to {sizes[-1]:,}. "
        f"Best first {end}: {listed([f'{name} {lines[name][-1]:.4f}' for name in order])}."
    )


def _flips(turns: Sequence[Sequence[Crossing]]) -> str:
    """Return which pairs change places and where, those that do so latest first."""
    crossing = sorted((pair for pair in turns if pair), key=lambda pair: -pair[-1].size)
    if not crossing:
        return "No pair of models changes its order with m."
    said = []
    for pair in crossing:
        last, size = pair[-1], about(pair[-1].size)
        if len(pair) == 1:
            said.append(f"{last.small} is ahead of {last.large} up to about m = {size}, behind it beyond")
        else:
            said.append(
                f"{last.small} and {last.large} change places {len(pair)} times, and {last.large} is ahead "
                f"beyond about m = {size}"
            )
    return f"Order that depends on m: {each(said, most=6)}."
