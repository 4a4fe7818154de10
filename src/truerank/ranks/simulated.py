"""Sampled ranks drawn from exact ones, without scoring anything."""

from __future__ import annotations

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.ranks import Design, Ranks, SampledRanks
from truerank.core.stream import stream
from truerank.core.types import IntArray


def simulate_sample(
    ranks: Ranks,
    n_negatives: int,
    *,
    replacement: bool = False,
    seed: int = 0,
    repeat: int = 0,
    label: str = "",
) -> SampledRanks:
    r"""Return what ranking each target against uniformly sampled items of its pool would give.

    Given the exact counts, the sampled ones follow a known law, so an experiment with many repetitions needs
    no scores: with a items above and t tied of L irrelevant ones, the sample of m has
    :math:`(\text{above}, \text{tied}) \sim \text{Multinomial}(m; a/L, t/L)` with replacement and
    multivariate hypergeometric without. Each target has a sample of its own. O(rows).

    Parameters
    ----------
    ranks : exact ranks; the rest of the pool is what negatives are drawn from
    n_negatives : m, the same for all targets
    replacement : whether an item can be drawn twice
    seed, repeat, label : equal ones give equal draws; use ``repeat`` for repetitions and ``label`` to draw
        independently for several models

    Raises
    ------
    InvalidData
        When a pool holds fewer than m irrelevant items and nothing can be drawn twice.

    Examples
    --------
    >>> exact = Ranks.single([0, 9], n_pool=10)
    >>> simulate_sample(exact, 4).n_above.tolist()  # nobody above the first, everybody above the second
    [0, 4]
    """
    candidates = ranks.n_pool - ranks.n_relevant
    if not replacement and (candidates < n_negatives).any():
        row = int(np.argmax(candidates < n_negatives))
        raise InvalidData(
            f"without replacement at most {candidates[row]} negatives can be drawn for user "
            f"{ranks.user[row]}, got {n_negatives}. Draw fewer, or draw with replacement."
        )
    if (candidates < 1).any():
        raise InvalidData("every pool must hold an irrelevant item to be sampled. Leave out the others.")
    above = ranks.n_above - ranks.n_relevant_above
    tied = ranks.n_tied - ranks.n_relevant_tied
    draw = stream(seed, f"simulate/{label}/{repeat}")
    first = _draw(draw, above, candidates - above, n_negatives, replacement)
    second = _draw(draw, tied, candidates - above - tied, n_negatives - first, replacement)
    return SampledRanks(
        user=ranks.user,
        item=ranks.item,
        n_above=first + ranks.n_relevant_above,
        n_tied=second + ranks.n_relevant_tied,
        n_pool=ranks.n_pool,
        n_relevant=ranks.n_relevant,
        n_relevant_above=ranks.n_relevant_above,
        n_relevant_tied=ranks.n_relevant_tied,
        n_negatives=np.full(len(ranks), n_negatives),
        n_candidates=candidates,
        design=Design(replacement=replacement),
    )


def _draw(
    draw: np.random.Generator, good: IntArray, bad: IntArray, n: int | IntArray, replacement: bool
) -> IntArray:
    """Return how many of n draws are good."""
    if not replacement:
        return draw.hypergeometric(good, bad, n)
    share = np.divide(good, good + bad, out=np.zeros(len(good)), where=good + bad > 0)
    return draw.binomial(n, share)
