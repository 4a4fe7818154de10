"""Chart: the expected uncorrected metric against the number of sampled items, and where models change order.

The expectation of a metric over all samples of a size is computed in closed form from exact ranks, or from
the ranks of a larger sample: the number of sampled items above a target is hypergeometric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np

from truerank.core.chart import Chart, ChartAxis, Series
from truerank.core.errors import CannotEstimate
from truerank.core.ranks import Design, Ranks, SampledRanks, TiePolicy
from truerank.core.table import joined_clauses, listed_in_words, rounded
from truerank.core.types import BoolArray, FloatArray, IntArray
from truerank.metrics.base import GradedMetric, Metric
from truerank.metrics.ties import block_order, random_split

_SIZES = 40  # lengths on the axis
_FEWEST = 8
_TERMS = 100_000_000  # probabilities that may be computed, some 10 s
_FEW = 16  # ties up to so many are written out, which rounds less


@dataclass(frozen=True, eq=False)
class GainContexts:
    """Distinct contexts of targets: the counts that their gain depends on, with their weight in the mean.

    Parameters
    ----------
    n_listed : (n,) irrelevant items that were ranked: all candidates, or the negatives of a sample
    n_above, n_tied : (n,) of them above the target and tied with it; tied ones are in random order
    n_relevant_above, n_relevant : (n,) other targets above, and targets of the user
    weight : (n,) targets / users
    """

    n_listed: IntArray
    n_above: IntArray
    n_tied: IntArray
    n_relevant_above: IntArray
    n_relevant: IntArray
    weight: FloatArray

    def __len__(self) -> int:
        return len(self.n_listed)

    @classmethod
    def of(cls, ranks: Ranks | SampledRanks, *, ties: TiePolicy = "expected", seed: int = 0) -> GainContexts:
        """Return the contexts of all targets and how often each occurs.

        Ties between targets of one user are broken once, at random under ``expected`` and ``random``.

        Raises
        ------
        CannotEstimate
            When the sample is adaptive: which negatives came first is not known.
        """
        if isinstance(ranks, SampledRanks):
            if ranks.design.stopping is not None:
                raise CannotEstimate("an adaptive sample does not say what fewer negatives would have given.")
            listed = ranks.n_negatives.astype(np.int64)
        else:
            listed = (ranks.n_pool - ranks.n_relevant).astype(np.int64)
        above = (ranks.n_above - ranks.n_relevant_above).astype(np.int64)
        tied = (ranks.n_tied - ranks.n_relevant_tied).astype(np.int64)
        others = ranks.n_relevant_above.astype(np.int64)
        is_settled = np.full(len(ranks), ties == "random") | (ranks.n_relevant_tied > 0)
        rows = np.flatnonzero(is_settled & (ranks.n_tied > 0))
        if len(rows):
            order, before = _broken_ties(ranks, rows, ties, seed)
            others[rows] += order
            above[rows] += before
            tied[rows] = 0
        if ties == "worst":
            above += tied
        if ties in ("best", "worst"):
            tied[:] = 0
        columns = np.stack([listed, above, tied, others, ranks.n_relevant])
        distinct, counts = np.unique(columns, axis=1, return_counts=True)
        listed, above, tied, others, relevant = distinct
        weight = counts / ranks.n_users
        return cls(listed, above, tied, others, relevant, weight)._with_few_ties_written_out()

    def _with_few_ties_written_out(self) -> GainContexts:
        times = np.where(self.n_tied <= _FEW, self.n_tied + 1, 1)
        row = np.repeat(np.arange(len(self)), times)
        step = np.arange(len(row)) - np.repeat(np.cumsum(times) - times, times)
        return GainContexts(
            self.n_listed[row],
            self.n_above[row] + step,
            np.where(self.n_tied <= _FEW, 0, self.n_tied)[row],
            self.n_relevant_above[row],
            self.n_relevant[row],
            (self.weight / times)[row],
        )


def list_sizes(most: int, n_terms: int) -> IntArray:
    """Return sizes from 1 to ``most``, evenly spaced on a logarithmic axis.

    Parameters
    ----------
    most : the last of them
    n_terms : probabilities to compute for each size; where they are very many there are fewer sizes

    Examples
    --------
    >>> list_sizes(5, 10).tolist(), len(list_sizes(10_000, 10_000_000))
    ([1, 2, 3, 4, 5], 10)
    """
    number = min(_SIZES, max(_TERMS // max(n_terms, 1), _FEWEST))
    return np.unique(np.rint(np.geomspace(1, most, number)).astype(np.int64))


def expected_metric(contexts: GainContexts, metric: Metric, sizes: IntArray) -> FloatArray:
    r"""Return the mean over users of a metric when each target is compared with fewer items, (n_sizes,).

    Of the M items that a target was compared with, s are sampled without replacement. If J of the M are above
    it, the probability that j of the s are is hypergeometric:

    .. math:: P(j \mid J) = \binom{J}{j} \binom{M - J}{s - j} \Big/ \binom{M}{s}.

    That holds for M items drawn with replacement too: any s of the M draws have the same distribution. A
    target with fewer than s items keeps them all. The list holds the sampled items and the user's targets.

    Parameters
    ----------
    contexts : of the targets
    metric : with a cut-off
    sizes : s

    Raises
    ------
    CannotEstimate
        When the metric has no cut-off or is no sum over targets.

    Notes
    -----
    With t tied items J is uniform on a..a+t. If s + 1 of M + 1 positions are sampled, the (j + 1)-th of them
    is position J + 1 with probability P(j | J) (s + 1)/(M + 1). So sums over J are differences of two
    probabilities: that at least j + 1 of the sampled positions are among the first a + t + 1, and among the
    first a.
    """
    if metric.cutoff is None:
        raise CannotEstimate(f"'{metric}' has no cut-off. Use for example 'recall@10'.")
    table = _log_factorials(int(contexts.n_listed.max(initial=0)) + 1)
    return np.array([_at_size(contexts, metric, size, table) for size in sizes.tolist()])


def _at_size(contexts: GainContexts, metric: Metric, size: int, table: FloatArray) -> float:
    cutoff = metric.cutoff or 0
    n_sampled = np.minimum(size, contexts.n_listed)
    above, relevant, length = contexts.n_relevant_above, contexts.n_relevant, n_sampled + contexts.n_relevant
    beyond = np.broadcast_to(
        metric.gain(np.full(len(contexts), cutoff + 1), above, relevant, length), (len(contexts),)
    )
    total = beyond.astype(np.float64)
    is_tied = contexts.n_tied > 0
    below = np.zeros(
        (2, len(contexts))
    )  # probabilities of at most j among the first a, and the first a + t + 1
    for j in range(cutoff):
        probability = np.zeros(len(contexts))
        plain = ~is_tied & (j + above < cutoff)
        probability[plain] = _probabilities(table, contexts.n_listed, contexts.n_above, n_sampled, j, plain)
        if is_tied.any():
            for side, first in enumerate((contexts.n_above, contexts.n_above + contexts.n_tied + 1)):
                below[side, is_tied] += _probabilities(
                    table, contexts.n_listed + 1, first, n_sampled + 1, j, is_tied
                )
            factor = (contexts.n_listed + 1) / ((n_sampled + 1) * (contexts.n_tied + 1))
            probability[is_tied] = (factor * (below[0] - below[1]))[is_tied]
        rows = np.flatnonzero((probability > 0) & (j + above < cutoff))
        gain = metric.gain(j + 1 + above[rows], above[rows], relevant[rows], length[rows])
        total[rows] += probability[rows] * (gain - beyond[rows])
    return float(contexts.weight @ total)


def _broken_ties(
    ranks: Ranks | SampledRanks, rows: IntArray, ties: TiePolicy, seed: int
) -> tuple[IntArray, IntArray]:
    """Return how many tied targets and tied irrelevant items precede each row in one order of the ties."""
    irrelevant = ranks.n_pool[rows] - ranks.n_relevant[rows]
    part = SampledRanks(
        user=ranks.user[rows],
        item=ranks.item[rows],
        n_above=ranks.n_above[rows],
        n_tied=ranks.n_tied[rows],
        n_pool=ranks.n_pool[rows],
        n_relevant=ranks.n_relevant[rows],
        n_relevant_above=ranks.n_relevant_above[rows],
        n_relevant_tied=ranks.n_relevant_tied[rows],
        n_negatives=ranks.n_negatives[rows] if isinstance(ranks, SampledRanks) else irrelevant,
        n_candidates=ranks.n_candidates[rows] if isinstance(ranks, SampledRanks) else irrelevant,
        design=ranks.design if isinstance(ranks, SampledRanks) else Design(),
    )
    tied = (part.n_tied - part.n_relevant_tied).astype(np.int64)
    is_random = ties in ("expected", "random")
    order = block_order(part, "random" if is_random else ties, seed)
    if not is_random:
        return order, tied if ties == "worst" else np.zeros_like(tied)
    return order, random_split(part, seed, part.n_relevant_tied.astype(np.int64) + 1, order, tied)


def _log_factorials(most: int) -> FloatArray:
    from scipy.special import gammaln

    table: FloatArray = gammaln(np.arange(1, most + 2, dtype=np.float64))
    return table


def _probabilities(
    table: FloatArray, size: IntArray, above: IntArray, n_sampled: IntArray, j: int, is_selected: BoolArray
) -> FloatArray:
    """Return, for the selected rows, the probability that j of the sampled items are above the target."""
    size, above, n_sampled = size[is_selected], above[is_selected], n_sampled[is_selected]
    below, n_below = size - above, n_sampled - j
    is_possible = (j <= above) & (n_below >= 0) & (n_below <= below)
    probability = np.zeros(len(size))
    size, above, n_sampled = size[is_possible], above[is_possible], n_sampled[is_possible]
    below, n_below = below[is_possible], n_below[is_possible]
    probability[is_possible] = np.exp(
        (table[above] - table[j] - table[above - j])
        + (table[below] - table[n_below] - table[below - n_below])
        - (table[size] - table[n_sampled] - table[size - n_sampled])
    )
    return probability


_EQUAL = 1e-9  # relative difference below which two values count as equal


@dataclass(frozen=True)
class Crossing:
    """Two models whose order flips.

    Parameters
    ----------
    small, large : the better model below and above the size
    size : sampled items at the crossing, interpolated
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
    """Return the expected uncorrected metric among m sampled items, against m.

    From exact ranks m goes up to the size of the catalogue. From sampled ranks it goes up to the size of the
    sample, because part of a sample is a smaller sample.

    Parameters
    ----------
    ranks : exact or sampled ranks by model, at least one
    metric : with a cut-off
    ties, seed : treatment of equal scores

    Raises
    ------
    CannotEstimate
        When the metric is no sum over targets or uses gains, or when samples are adaptive.
    """
    if isinstance(metric, GradedMetric) and any(of_model.gain is not None for of_model in ranks.values()):
        raise CannotEstimate(f"'{metric}' of graded targets is not drawn against the size of the sample.")
    contexts = {name: GainContexts.of(of_model, ties=ties, seed=seed) for name, of_model in ranks.items()}
    most = max(int(of_model.n_listed.max()) for of_model in contexts.values())
    n_terms = sum(map(len, contexts.values())) * int(metric.cutoff or 1)
    sizes = list_sizes(most, n_terms)
    lines = {name: expected_metric(of_model, metric, sizes) for name, of_model in contexts.items()}
    is_exact = all(isinstance(of_model, Ranks) for of_model in ranks.values())
    turns = [crossings(*pair, lines, sizes) for pair in combinations(lines, 2)]
    flips = (_flips(turns),) if len(lines) > 1 else ()
    x = tuple(map(float, sizes.tolist()))
    return Chart(
        key="order-flip",
        title=f"{metric} among m sampled items, uncorrected",
        words=" ".join([_words(metric, lines, sizes, is_exact=is_exact), *flips]),
        x=ChartAxis("m, sampled items per target", "log", "count"),
        y=ChartAxis(f"expected {metric}, uncorrected", low=0.0),
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
    """Return where two lines cross, interpolated on a logarithmic scale.

    Examples
    --------
    >>> lines = {"A": np.array([0.3, 0.2, 0.1]), "B": np.array([0.1, 0.0, 0.2])}
    >>> crossings("A", "B", lines, np.array([1, 10, 100]))
    [Crossing(small='A', large='B', size=46.4...)]
    """
    left, right = lines[first], lines[second]
    gap = left - right
    gap = np.where(np.abs(gap) <= _EQUAL * np.maximum(np.abs(left), np.abs(right)), 0.0, gap)
    nonzero = np.flatnonzero(gap)
    changes = []
    for a, b in pairwise(nonzero):
        if gap[a] * gap[b] < 0:
            at = gap[a] / (gap[a] - gap[b])
            size = float(np.exp(np.log(sizes[a]) + at * np.log(sizes[b] / sizes[a])))
            better = (first, second) if gap[a] > 0 else (second, first)
            changes.append(Crossing(*better, size))
    return changes


def _words(metric: Metric, lines: Mapping[str, FloatArray], sizes: IntArray, *, is_exact: bool) -> str:
    end = "with all items" if is_exact else f"with {sizes[-1]:,} items"
    order = sorted(lines, key=lambda name: -lines[name][-1])
    return (
        f"Expected {metric} among m sampled items, for m from 1 to {sizes[-1]:,}. "
        f"Best first {end}: {listed_in_words([f'{name} {lines[name][-1]:.4f}' for name in order])}."
    )


def _flips(turns: Sequence[Sequence[Crossing]]) -> str:
    """Return which pairs of models flip and at which m, largest m first."""
    crossing = sorted((pair for pair in turns if pair), key=lambda pair: -pair[-1].size)
    if not crossing:
        return "No pair of models changes its order with m."
    clauses = []
    for pair in crossing:
        last, size = pair[-1], rounded(pair[-1].size)
        if len(pair) == 1:
            clauses.append(f"{last.small} is ahead of {last.large} up to about m = {size}, behind it beyond")
        else:
            clauses.append(
                f"{last.small} and {last.large} change places {len(pair)} times, and {last.large} is ahead "
                f"beyond about m = {size}"
            )
    return f"Order that depends on m: {joined_clauses(clauses, most=6)}."
