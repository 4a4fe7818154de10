"""Simulated sampled ranks: random counts given exact ranks, without computing scores."""

from __future__ import annotations

import numpy as np

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.random import stream
from truerank.core.ranks import Design, Ranks, SampledRanks, Stopping
from truerank.core.types import IntArray
from truerank.ranking.samplers.adaptive import Adaptive
from truerank.ranking.samplers.registry import SAMPLERS


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
    ranks : exact ranks; candidates are the items of the pool that are not relevant
    n_negatives : m, the same for all targets
    replacement : whether to sample with replacement
    seed, repeat, label : equal ones give equal samples; use ``repeat`` for repetitions and ``label`` for
        independent samples of several models

    Raises
    ------
    InvalidData
        When a pool holds fewer than m irrelevant items and sampling is without replacement.

    Examples
    --------
    >>> exact = Ranks.single([0, 9], n_pool=10)
    >>> simulate_sample(exact, 4).n_above.tolist()  # no item above the first, all above the second
    [0, 4]
    """
    candidates = ranks.n_pool - ranks.n_relevant
    if not replacement and (candidates < n_negatives).any():
        row = int(np.argmax(candidates < n_negatives))
        raise InvalidData(
            f"without replacement at most {candidates[row]} negatives can be sampled for user "
            f"{ranks.user[row]}, got {n_negatives}. Sample fewer, or with replacement."
        )
    _check_any(candidates)
    above, tied = _irrelevant(ranks)
    generator = stream(seed, f"simulate/{label}/{repeat}")
    first, second = _sample_counts(generator, above, tied, candidates, n_negatives, replacement)
    sizes = np.full(len(ranks), n_negatives)
    return _sampled(ranks, first, second, sizes, Design(replacement=replacement))


def simulate_shared(
    ranks: Ranks, n_negatives: int | IntArray, *, seed: int = 0, repeat: int = 0
) -> SampledRanks:
    r"""Return what ranking all targets of a user against the same sampled items would give.

    Items are sampled uniformly and without replacement. From the best target to the worst, with
    :math:`J_1 \le J_2 \le \dots` of L items above, the sample of m has

    .. math:: j_t - j_{t-1} \sim \text{Hypergeometric}(J_t - J_{t-1}; L - J_t; m - j_{t-1}).

    O(rows), in as many steps as a user has targets.

    Parameters
    ----------
    ranks : exact ranks without ties
    n_negatives : m, one for all or one per row; the same for all targets of a user
    seed, repeat : equal ones give equal samples

    Raises
    ------
    InvalidData
        When there are ties, or a pool holds fewer than m irrelevant items.

    Examples
    --------
    >>> simulate_shared(Ranks.single([0, 9], n_pool=10), 4).n_above.tolist()
    [0, 4]
    """
    sizes = np.broadcast_to(np.asarray(n_negatives, dtype=np.int64), len(ranks)).copy()
    candidates = ranks.n_pool - ranks.n_relevant
    if ranks.n_tied.any():
        raise InvalidData("shared samples are simulated for ranks without ties. Break them first.")
    _check_any(candidates)
    if (candidates < sizes).any():
        raise InvalidData("without replacement at most all irrelevant items can be sampled. Sample fewer.")
    above, _ = _irrelevant(ranks)
    generator = stream(seed, f"simulate/shared/{repeat}")
    user = np.repeat(np.arange(ranks.n_users), np.diff(np.append(ranks.starts, len(ranks))))
    order = np.lexsort((above, user))
    position = np.arange(len(order)) - ranks.starts[user]  # among the targets of the user, best first
    sampled_above = np.zeros(len(ranks), np.int64)
    passed, drawn = np.zeros((2, ranks.n_users), np.int64)
    for step in range(int(position.max(initial=-1)) + 1):
        rows = order[position == step]
        row_users = user[rows]
        drawn[row_users] += generator.hypergeometric(
            above[rows] - passed[row_users], candidates[rows] - above[rows], sizes[rows] - drawn[row_users]
        )
        passed[row_users] = above[rows]
        sampled_above[rows] = drawn[row_users]
    return _sampled(ranks, sampled_above, np.zeros_like(sampled_above), sizes, Design(replacement=False))


def simulate_adaptive(
    ranks: Ranks,
    sampler: str | Adaptive | Stopping = "adaptive",
    *,
    replacement: bool | None = None,
    seed: int = 0,
    repeat: int = 0,
    label: str = "",
) -> SampledRanks:
    """Return what adaptive sampling of each target's pool would give, without scoring anything.

    Each target has a sample of its own, grown by the stopping rule; the first round is ``simulate_sample``
    with the same seed, repeat and label. Negatives that several models or targets share cannot be simulated
    from ranks alone: use ``sampled_ranks``. O(rows) per round, for the rows that continue.

    Parameters
    ----------
    ranks : exact ranks; candidates are the items of the pool that are not relevant
    sampler : an adaptive sampler, its spec string, or the stopping rule itself
    replacement : whether to sample with replacement; None takes that of the sampler, False for a rule.
        Without replacement a sample ends with the last candidate
    seed, repeat, label : as in ``simulate_sample``

    Examples
    --------
    >>> exact = Ranks.single([0, 9], n_pool=50)
    >>> simulate_adaptive(exact, "adaptive(start=11, max=44)").n_negatives.tolist()
    [43, 10]
    """
    stopping, replacement = _rule(sampler, replacement)
    candidates = ranks.n_pool - ranks.n_relevant
    _check_any(candidates)
    above, tied = _irrelevant(ranks)
    generator = stream(seed, f"simulate/{label}/{repeat}")
    found_above, found_tied, drawn = np.zeros((3, len(ranks)), np.int64)
    row: IntArray = np.arange(len(ranks))
    for size in stopping.sizes:
        after = np.full(len(row), size) if replacement else np.minimum(size, candidates[row])
        more = after - drawn[row]
        taken = (0, 0, 0) if replacement else (found_above[row], found_tied[row], drawn[row])
        first, second = _sample_counts(
            generator,
            above[row] - taken[0],
            tied[row] - taken[1],
            candidates[row] - taken[2],
            more,
            replacement,
        )
        found_above[row] += first
        found_tied[row] += second
        drawn[row] = after
        row = row[found_above[row] < stopping.rank]
    design = Design(replacement=replacement, stopping=stopping)
    return _sampled(ranks, found_above, found_tied, drawn, design)


def _rule(sampler: str | Adaptive | Stopping, replacement: bool | None) -> tuple[Stopping, bool]:
    """Return the stopping rule, and whether to sample with replacement."""
    if isinstance(sampler, Stopping):
        return sampler, bool(replacement)
    made = SAMPLERS.make(sampler)
    if not isinstance(made, Adaptive):
        raise InvalidParameter(
            f"sampler must be adaptive or a stopping rule, got {made}. Use simulate_sample."
        )
    if replacement not in (None, made.replace):
        raise InvalidParameter(
            f"replacement must be {made.replace} as {made} says, got {replacement}. Leave it out."
        )
    return made.stopping, made.replace


def _check_any(candidates: IntArray) -> None:
    if (candidates < 1).any():
        raise InvalidData(
            "every pool must hold at least one irrelevant item to sample. Leave out the other targets."
        )


def _irrelevant(ranks: Ranks) -> tuple[IntArray, IntArray]:
    """Return how many irrelevant items score above each target, and how many tie with it."""
    return ranks.n_above - ranks.n_relevant_above, ranks.n_tied - ranks.n_relevant_tied


def _sampled(
    ranks: Ranks, above: IntArray, tied: IntArray, n_negatives: IntArray, design: Design
) -> SampledRanks:
    """Return ranks among sampled items; the counts among targets are those of the exact ranks."""
    return SampledRanks(
        user=ranks.user,
        item=ranks.item,
        n_above=above + ranks.n_relevant_above,
        n_tied=tied + ranks.n_relevant_tied,
        n_pool=ranks.n_pool,
        n_relevant=ranks.n_relevant,
        n_relevant_above=ranks.n_relevant_above,
        n_relevant_tied=ranks.n_relevant_tied,
        n_negatives=n_negatives,
        n_candidates=ranks.n_pool - ranks.n_relevant,
        design=design,
        gain=ranks.gain,
    )


def _sample_counts(
    generator: np.random.Generator,
    above: IntArray,
    tied: IntArray,
    candidates: IntArray,
    n: int | IntArray,
    replacement: bool,
) -> tuple[IntArray, IntArray]:
    """Return how many of n sampled candidates score above the target, and how many tie with it."""
    first = _sample_good(generator, above, candidates - above, n, replacement)
    return first, _sample_good(generator, tied, candidates - above - tied, n - first, replacement)


def _sample_good(
    generator: np.random.Generator, good: IntArray, bad: IntArray, n: int | IntArray, replacement: bool
) -> IntArray:
    """Return how many of n sampled items are good: hypergeometric, or binomial with replacement."""
    if not replacement:
        return generator.hypergeometric(good, bad, n)
    probability = np.divide(good, good + bad, out=np.zeros(len(good)), where=good + bad > 0)
    return generator.binomial(n, probability)
