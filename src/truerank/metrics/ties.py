r"""Ties: targets with the same score as other items, resolved by a policy or averaged over all orders.

A tied block is a set of items with exactly the same score. Under the policy ``expected`` it is in uniformly
random order, and a metric is the exact mean over all orders: gains are averaged over the slots of the block
with closed sums of reciprocals and logarithmic discounts. The other policies fix one order.

Metrics of the first relevant item need its slot: of b tied items s are relevant, and the first relevant one
lies in slot J with

.. math:: P(J = j) = \binom{b - j}{s - 1} \Big/ \binom{b}{s}, \qquad
          P(J > q) = \binom{b - q}{s} \Big/ \binom{b}{s}.

Average precision over the retrieved relevant items (``norm=hits``) is not a sum over targets and has a mean
of its own, ``mean_over_retrieved``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from truerank.core.errors import InvalidData, InvalidParameter, check_choice
from truerank.core.random import pair_keys
from truerank.core.ranks import TIE_POLICIES, Ranks, SampledRanks, TiePolicy
from truerank.core.types import FloatArray, IntArray
from truerank.metrics.grades import GradedTargets, extreme_order


def block_weights(n_targets: int, n_tied: int) -> FloatArray:
    """Return P(k other targets and j negatives of the block before a target), (n_targets, n_tied + 1).

    Each k has probability 1/n_targets; along j the terms follow their ratios, summed as logarithms.

    Examples
    --------
    >>> block_weights(2, 1).tolist()  # of the six orders of target, target, negative, two have k = j = 0
    [[0.33..., 0.16...], [0.16..., 0.33...]]
    """
    k = np.arange(n_targets)[:, None]
    j = np.arange(n_tied)
    others = n_targets - 1 + n_tied
    ratio = (n_tied - j) * (k + j + 1.0) / ((j + 1.0) * (others - k - j))
    logs = np.concatenate([np.zeros((n_targets, 1)), np.cumsum(np.log(ratio), axis=1)], axis=1)
    terms = np.exp(logs - logs.max(axis=1, keepdims=True))
    weights: FloatArray = terms / (terms.sum(axis=1, keepdims=True) * n_targets)
    return weights


def block_order(sample: SampledRanks, ties: TiePolicy, seed: int) -> IntArray:
    """Return the number of targets before each row in its tied block, by gain and item or by a random key.

    Raises
    ------
    InvalidData
        When a tied target of the user has no row.
    """
    order = np.zeros(len(sample), dtype=np.int64)
    rows = np.flatnonzero(sample.n_relevant_tied)
    if len(rows) == 0:
        return order
    key = sample.item[rows]
    if ties == "random":
        key = pair_keys(seed, "ties/sampled/order", sample.user[rows], key)
    value = extreme_order(sample.gain, ties, rows)
    rows = rows[np.lexsort((key, value, sample.n_relevant_above[rows], sample.user[rows]))]
    order[rows] = order_in_blocks(
        rows, sample.user, sample.n_relevant_above, sample.n_relevant_tied, name="n_relevant_above"
    )
    return order


def order_in_blocks(
    rows: IntArray, user: IntArray, above: IntArray, n_relevant_tied: IntArray, *, name: str
) -> IntArray:
    """Return the position of each of ``rows`` in its tied block, from 0.

    Parameters
    ----------
    rows : rows with tied targets, sorted by user, by block, and within a block in the wanted order
    user, above, n_relevant_tied : columns of the table; rows of a user with equal ``above`` are a block
    name : of the column ``above``, for the message

    Raises
    ------
    InvalidData
        When a tied target of the user has no row.
    """
    users, blocks = user[rows], above[rows]
    is_first = np.ones(len(rows), dtype=np.bool_)
    is_first[1:] = (users[1:] != users[:-1]) | (blocks[1:] != blocks[:-1])
    starts = np.flatnonzero(is_first)
    counts = np.diff(starts, append=len(rows))
    wrong = counts != n_relevant_tied[rows[starts]] + 1
    if wrong.any():
        row = int(rows[starts[np.argmax(wrong)]])
        raise InvalidData(
            f"n_relevant_tied of row {row} (counted from 0) must count the other rows of its user with the "
            f"same {name}. Give all tied targets of a user or use ties 'expected'."
        )
    return np.arange(len(rows)) - np.repeat(starts, counts)


def random_split(
    sample: SampledRanks, seed: int, n_targets: IntArray, order: IntArray, n_tied: IntArray
) -> IntArray:
    """Return a random number of tied negatives before each row, given the targets before it."""
    keys = pair_keys(seed, "ties/sampled", sample.user, sample.item)
    uniform = (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53
    drawn = (uniform * (n_tied + 1)).astype(np.int64)  # one target: all positions are equally likely
    shared = np.flatnonzero((n_targets > 1) & (n_tied > 0))
    blocks = np.stack([n_targets[shared], n_tied[shared], order[shared]], axis=1)
    distinct, which = np.unique(blocks, axis=0, return_inverse=True)
    for number, (targets, negatives, before) in enumerate(distinct.tolist()):
        rows = shared[which.ravel() == number]
        steps = np.cumsum(block_weights(targets, negatives)[before]) * targets
        drawn[rows] = np.minimum(np.searchsorted(steps, uniform[rows], side="right"), negatives)
    return drawn


@dataclass(frozen=True, eq=False)
class TiedBlocks:
    """The tied block that each of some targets lies in.

    Under the expected policy a block of ``size`` items, ``n_tied_relevant`` of them relevant, is in uniformly
    random order: the target's slot is uniform on 1..size, and given slot j the number of relevant items
    before it in the block is hypergeometric (j - 1 drawn of size - 1, n_tied_relevant - 1 of them relevant).

    Parameters
    ----------
    n_above : (n,) items above the block
    size : (n,) items in the block, the target included
    n_tied_relevant : (n,) relevant items in the block, the target included
    n_relevant_above : (n,) relevant items above the block
    n_relevant, n_pool : (n,) of the target's user
    """

    n_above: IntArray
    size: IntArray
    n_tied_relevant: IntArray
    n_relevant_above: IntArray
    n_relevant: IntArray
    n_pool: IntArray

    def slots(self, cutoff: int | None) -> IntArray:
        """Return how many slots of each block lie within the cut-off."""
        if cutoff is None:
            return self.size
        return np.clip(cutoff - self.n_above, 0, self.size)


@dataclass(frozen=True, eq=False)
class ResolvedRanks:
    """Ranks with the tie policy applied, used by all metrics of one evaluation.

    Parameters
    ----------
    rank, n_relevant_above : (n,) the position of each target; not used for rows in ``tied``
    n_relevant, n_pool : (n,) of the target's user
    starts : (n_users,) first row of each user
    tied : rows whose gain is a mean over their block; empty unless the policy is ``expected``
    blocks : the blocks of the rows in ``tied``
    targets : their gains; None where targets are not graded
    """

    rank: IntArray
    n_relevant_above: IntArray
    n_relevant: IntArray
    n_pool: IntArray
    starts: IntArray
    tied: IntArray
    blocks: TiedBlocks
    targets: GradedTargets | None = None

    @classmethod
    def of(
        cls,
        ranks: Ranks,
        ties: TiePolicy,
        seed: int,
        *,
        unranked: tuple[IntArray, FloatArray] | None = None,
    ) -> ResolvedRanks:
        """Apply a tie policy to counts.

        ``best`` puts the relevant items of a block first, that of the highest gain before the others;
        ``worst`` puts them last, that of the lowest gain first. ``random`` samples the slots of a
        block's relevant items as a pure function of (seed, user, items of the block), each set of slots and
        each order being equally likely; the order of rows, batches and workers does not matter.
        ``unranked`` are users and gains of targets without a row.
        """
        check_choice("ties", ties, TIE_POLICIES)
        above = ranks.n_above.astype(np.int64)
        relevant_above = ranks.n_relevant_above.astype(np.int64)
        tied = np.flatnonzero(ranks.n_tied) if ties == "expected" else np.zeros(0, dtype=np.int64)
        slot: IntArray = np.ones(len(ranks), dtype=np.int64)
        if ties != "expected":
            slot, order = _slots(ranks, ties, seed)
            relevant_above = relevant_above + order
        n_tied = ranks.n_relevant_tied if ties == "expected" else np.zeros_like(relevant_above)
        targets = None if ranks.gain is None else GradedTargets.of(ranks, relevant_above, n_tied, unranked)
        return cls(
            rank=above + slot,
            n_relevant_above=relevant_above,
            n_relevant=ranks.n_relevant.astype(np.int64),
            n_pool=ranks.n_pool.astype(np.int64),
            starts=ranks.starts,
            tied=tied,
            blocks=TiedBlocks(
                n_above=above[tied],
                size=ranks.n_tied[tied].astype(np.int64) + 1,
                n_tied_relevant=ranks.n_relevant_tied[tied].astype(np.int64) + 1,
                n_relevant_above=relevant_above[tied],
                n_relevant=ranks.n_relevant[tied].astype(np.int64),
                n_pool=ranks.n_pool[tied].astype(np.int64),
            ),
            targets=targets,
        )

    def per_user(self, gains: FloatArray) -> FloatArray:
        """Return the sum of the gains of each user."""
        if len(self.starts) == 0:
            return np.zeros(0)
        return np.add.reduceat(gains, self.starts)


def _slots(ranks: Ranks, ties: TiePolicy, seed: int) -> tuple[IntArray, IntArray]:
    """Return each target's slot (from 1) in its block and how many relevant items of the block precede it."""
    size = ranks.n_tied.astype(np.int64) + 1
    relevant = ranks.n_relevant_tied.astype(np.int64) + 1
    order = np.zeros(len(ranks), dtype=np.int64)
    uniform = np.zeros(len(ranks))
    if ties == "random":
        keys = pair_keys(seed, "ties", ranks.user, ranks.item)
        uniform = (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53
    shared = np.flatnonzero(relevant > 1)
    if len(shared):
        key = ranks.item[shared]
        if ties == "random":
            key = pair_keys(seed, "ties/order", ranks.user[shared], key)
        value = extreme_order(ranks.gain, ties, shared)
        shared = shared[np.lexsort((key, value, ranks.n_above[shared], ranks.user[shared]))]
        order[shared] = order_in_blocks(
            shared, ranks.user, ranks.n_above, ranks.n_relevant_tied, name="n_above"
        )
    if ties == "best":
        return 1 + order, order
    if ties == "worst":
        return size - relevant + 1 + order, order
    slot = 1 + (uniform * size).astype(np.int64)
    for count in np.unique(relevant[shared]):
        rows = shared[relevant[shared] == count].reshape(-1, count)
        slot[rows] = 1 + _random_subset(uniform[rows], size[rows[:, 0]])
    return slot, order


def _random_subset(uniform: FloatArray, size: IntArray) -> IntArray:
    """Return distinct slots of 0..size-1, ascending, as many as uniforms, all sets being equally likely.

    Floyd's algorithm, one column at a time: O(count**2) comparisons per block, no memory beyond the result.
    """
    count = uniform.shape[1]
    chosen = np.zeros(uniform.shape, dtype=np.int64)
    for column in range(count):
        last = size - count + column
        drawn = (uniform[:, column] * (last + 1)).astype(np.int64)
        is_taken = (chosen[:, :column] == drawn[:, None]).any(axis=1)
        chosen[:, column] = np.where(is_taken, last, drawn)
    chosen.sort(axis=1)
    return chosen


Discount: TypeAlias = Literal["log2", "clip"]
#: the gain of a target by its rank and the number of relevant items above it
Gain: TypeAlias = Callable[[IntArray, IntArray], FloatArray]

_SMALL = 32
_HARMONIC = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, _SMALL + 1))])
# Coefficients of psi(m + 1/2) - log(m) in powers of m**-2.
_SERIES = (1 / 24, -7 / 960, 31 / 8064, -127 / 30720)


def reciprocal_sum(start: IntArray, count: IntArray) -> FloatArray:
    r"""Return the sum of 1/(start + j) over j = 1..count to full relative precision.

    Differences of a table of harmonic numbers would lose the digits that a run deep in the list needs.
    Time O(1) per entry, no table: the first 32 reciprocals are added, the others follow from the asymptotic
    series of the digamma function at half-integers.

    .. math:: \sum_{j=1}^{q} \frac{1}{A + j} = \psi(A + q + 1) - \psi(A + 1)

    Examples
    --------
    >>> float(reciprocal_sum(np.array(1), np.array(2)) - (1 / 2 + 1 / 3))
    0.0
    """
    start, count = np.asarray(start, dtype=np.int64), np.asarray(count, dtype=np.int64)
    head = _HARMONIC[np.minimum(start + count, _SMALL)] - _HARMONIC[np.minimum(start, _SMALL)]
    low = np.maximum(start, _SMALL) + 0.5
    high = np.maximum(start + count, _SMALL) + 0.5
    tail = np.log1p((high - low) / low)
    below, above = low**-2, high**-2
    for power, coefficient in enumerate(_SERIES, start=1):
        tail = tail + coefficient * (above**power - below**power)
    total: FloatArray = head + tail
    return total


MOST_DISCOUNTS = 2**26 - 1  # discounts in a table of sums


def log_discount(rank: IntArray, kind: Discount) -> FloatArray:
    """Return 1/log2(rank + 1), or 1/log2(max(rank, 2)) for ``clip``.

    Examples
    --------
    >>> log_discount(np.array([1, 3]), "log2").tolist(), log_discount(np.array([1, 2, 4]), "clip").tolist()
    ([1.0, 0.5], [1.0, 1.0, 0.5])
    """
    shifted = np.asarray(rank) + 1.0 if kind == "log2" else np.maximum(rank, 2.0)
    return 1 / np.log2(shifted)


def discount_sums(depth: int, kind: Discount) -> NDArray[np.longdouble]:
    """Return the table whose entry r is the sum of the discounts of ranks 1..r, for r at least to depth.

    Extended precision where the platform has it, so that differences of entries keep full precision.

    Raises
    ------
    InvalidParameter
        When the table would take more than a gigabyte.
    """
    if depth > MOST_DISCOUNTS:
        raise InvalidParameter(
            f"items must not be tied down to rank {depth:,}: sums of discounts go to rank "
            f"{MOST_DISCOUNTS:,}. "
            "Give the metric a cut-off, such as ndcg@10, or use ties best, worst or random."
        )
    return _discount_table(max(10, int(depth).bit_length()), kind)


@lru_cache(maxsize=4)
def _discount_table(bits: int, kind: Discount) -> NDArray[np.longdouble]:
    discounts = log_discount(np.arange(1, 2**bits), kind)
    table = np.concatenate([[0.0], discounts]).astype(np.longdouble).cumsum()
    table.flags.writeable = False
    return table


_DIRECT = 64  # terms worth adding one by one
_TAIL = 45  # exp(-45) is far below the last bit of any sum here
_GROWTH = 7  # exp(7) times the rounding error is still negligible


def miss_probability(size: IntArray, relevant: IntArray, slots: IntArray) -> FloatArray:
    """Return P(J > slots): no relevant item in the first slots of the block.

    A product of min(relevant, slots) factors.

    Examples
    --------
    >>> float(miss_probability(np.array(4), np.array(2), np.array(1)))
    0.5
    """
    size, few, many = np.broadcast_arrays(size, np.minimum(relevant, slots), np.maximum(relevant, slots))
    product = np.ones(size.shape)
    for i in range(int(few.max(initial=0))):
        factor = np.maximum(size - many - i, 0) / np.maximum(size - i, 1)
        product = np.where(i < few, product * factor, product)
    return product


def mean_reciprocal(n_above: IntArray, size: IntArray, relevant: IntArray, slots: IntArray) -> FloatArray:
    """Return the mean of 1/(n_above + J), taken as 0 where J > slots.

    Arrays of equal length. Time O(1) per block with one relevant item. Otherwise min(slots, 64) terms, or a
    three-term recurrence over the number of relevant items, forward or backward, whichever is stable: at most
    of the order of sqrt(size) steps, whatever the block.

    Examples
    --------
    >>> block = (np.array([0]), np.array([3]), np.array([2]), np.array([3]))
    >>> mean_reciprocal(*block).round(6).tolist()  # 2/3 * 1 + 1/3 * 1/2
    [0.833333]
    """
    result = reciprocal_sum(n_above, slots) / size
    several = np.flatnonzero(relevant > 1)
    if len(several):
        columns = [column[several] for column in (n_above, size, relevant, slots)]
        first, inverse = _distinct(columns)
        result[several] = _of_distinct(*(column[first] for column in columns))[inverse]
    return result


def _distinct(columns: list[IntArray]) -> tuple[IntArray, IntArray]:
    """Return the first row of each distinct block, and which of them each row is."""
    codes = columns[0]
    for column in columns[1:]:  # codes stay below the number of rows, so the product cannot overflow
        keys = codes * (int(column.max()) + 1) + column
        _, first, codes = np.unique(keys, return_index=True, return_inverse=True)
    return first, codes


def _of_distinct(n_above: IntArray, size: IntArray, relevant: IntArray, slots: IntArray) -> FloatArray:
    slots = np.minimum(slots, size - relevant + 1)  # the first relevant item lies no deeper
    result = np.zeros(len(size))
    short = slots <= _DIRECT
    result[short] = _direct(n_above[short], size[short], relevant[short], slots[short])
    deep = ~short
    if deep.any():
        result[deep] = _whole(n_above[deep], size[deep], relevant[deep])
    cut = deep & (size - slots >= relevant)
    if cut.any():  # what lies below the cut-off is a smaller block of the same kind
        above, block, s, q = n_above[cut], size[cut], relevant[cut], slots[cut]
        result[cut] -= miss_probability(block, s, q) * _whole(above + q, block - q, s)
    return result


def _whole(n_above: IntArray, size: IntArray, relevant: IntArray) -> FloatArray:
    """Return the mean of 1/(n_above + J) over the whole block by the cheapest stable way."""
    # paper: none; A items above, b in the block, s relevant, M(s) the mean sought
    terms = np.minimum(size - relevant + 1, np.ceil(_TAIL * size / relevant).astype(np.int64))
    drift = np.log1p(n_above / size)
    with np.errstate(divide="ignore"):
        needed = np.minimum(np.ceil(_TAIL / drift), size)
    back = np.minimum(size - relevant, needed.astype(np.int64))
    is_direct = terms <= np.minimum(_DIRECT, back)
    is_forward = ~is_direct & (relevant * drift <= _GROWTH) & (2 * relevant <= size)
    is_backward = ~is_direct & ~is_forward & (back <= terms)
    is_direct = ~is_forward & ~is_backward
    result = np.zeros(len(size))
    for chosen, last, method in (
        (is_direct, terms, _direct),
        (is_forward, relevant, _forward),
        (is_backward, relevant + back, _backward),
    ):
        if chosen.any():
            result[chosen] = method(n_above[chosen], size[chosen], relevant[chosen], last[chosen])
    return result


def _direct(A: IntArray, b: IntArray, s: IntArray, terms: IntArray) -> FloatArray:
    """Add P(J = j)/(A + j) for j = 1..terms; P(J = j + 1) = P(J = j) (b - s - j + 1)/(b - j)."""
    total = np.zeros(len(b))
    probability = s / b
    for j in range(1, int(terms.max(initial=0)) + 1):
        total += np.where(j <= terms, probability / (A + j), 0.0)
        probability = probability * np.maximum(b - s - j + 1, 0) / np.maximum(b - j, 1)
    return total


def _forward(A: IntArray, b: IntArray, s: IntArray, last: IntArray) -> FloatArray:
    """Recur upwards from one relevant item, M(t) = t ((A + b - t + 2) M(t - 1) - 1)/((t - 1)(b - t + 1))."""
    mean = reciprocal_sum(A, b) / b
    for t in range(2, int(last.max()) + 1):
        step = t * ((A + b - t + 2) * mean - 1) / ((t - 1) * np.maximum(b - t + 1, 1))
        mean = np.where(t <= s, step, mean)
    return mean


def _backward(A: IntArray, b: IntArray, s: IntArray, last: IntArray) -> FloatArray:
    """Recur downwards from many relevant items; an error at the start shrinks by b/(A + b) per step."""
    mean = 1 / (A + (b + 1) / (last + 1))  # exact where last = b, else a guess whose error vanishes
    for k in range(int((last - s).max())):
        t = np.maximum(last - k, s)
        step = (mean * (t - 1) * (b - t + 1) / t + 1) / (A + b - t + 2)
        mean = np.where(t > s, step, mean)
    return mean


def mean_over_retrieved(ranks: ResolvedRanks, precision: FloatArray, cutoff: int | None) -> FloatArray:
    """Return per user the (expected) mean of the precision at the relevant items within the cut-off.

    Only one tied block of a user can lie across the cut-off. The number x of its relevant items above the
    cut-off is hypergeometric and independent of the other blocks, so the mean is a sum over x of at most
    min(K, relevant items) + 1 terms per user.

    Parameters
    ----------
    ranks : with the tie policy applied
    precision : (n,) the (expected) precision at each target, 0 beyond the cut-off
    cutoff : K; None for the whole list
    """
    across = np.zeros(len(ranks.rank), dtype=np.bool_)
    retrieved = np.ones(len(across)) if cutoff is None else (ranks.rank <= cutoff).astype(np.float64)
    if cutoff is not None and len(ranks.tied):
        blocks = ranks.blocks
        end = blocks.n_above + blocks.size
        across[ranks.tied] = (blocks.n_above < cutoff) & (end > cutoff)
        retrieved[ranks.tied] = end <= cutoff
    total = ranks.per_user(np.where(across, 0.0, precision))
    count = ranks.per_user(retrieved)
    values = total / np.maximum(count, 1)
    if across.any() and cutoff is not None:
        user = np.searchsorted(ranks.starts, np.flatnonzero(across), side="right") - 1
        chosen, first = np.unique(user, return_index=True)
        block = np.flatnonzero(across[ranks.tied])[first]
        values[chosen] = _across(ranks, block, cutoff=cutoff, total=total[chosen])
    return values


def _across(ranks: ResolvedRanks, block: IntArray, *, cutoff: int, total: FloatArray) -> FloatArray:
    """Return the values of users one of whose blocks lies across the cut-off."""
    blocks = ranks.blocks
    above, size, relevant = blocks.n_above[block], blocks.size[block], blocks.n_tied_relevant[block]
    slots = cutoff - above
    least = np.maximum(slots - (size - relevant), 0)
    counts = np.minimum(slots, relevant) - least + 1
    starts = np.cumsum(counts) - counts
    row = np.repeat(np.arange(len(block)), counts)
    x = np.arange(len(row)) - starts[row] + least[row]
    probability = _hypergeometric(x, starts, size=size[row], relevant=relevant[row], slots=slots[row])
    # Given x, they fill a random x-subset of the slots: as in any block, with the slots as the block.
    reciprocals = reciprocal_sum(above, slots)
    later = (slots - (above + 1) * reciprocals) / np.maximum(slots - 1, 1)
    earlier = blocks.n_relevant_above[block]
    precision = x / slots[row] * ((earlier + 1) * reciprocals)[row] + x * (x - 1) / slots[row] * later[row]
    value = (total[row] + precision) / np.maximum(earlier[row] + x, 1)
    return np.add.reduceat(probability * value, starts)


def _hypergeometric(
    x: IntArray, starts: IntArray, *, size: IntArray, relevant: IntArray, slots: IntArray
) -> FloatArray:
    """Return P(x relevant items in the slots); x rises by 1 from its least value at each of ``starts``."""
    # P(x) / P(x - 1) = (relevant - x + 1)(slots - x + 1) / (x (size - relevant - slots + x))
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.log((relevant - x + 1) * (slots - x + 1) / (x * (size - relevant - slots + x)))
    step[starts] = 0.0
    step[starts[1:]] = -np.add.reduceat(step, starts)[
        :-1
    ]  # restart at each block, so that rounding errors do not add up
    climb = np.cumsum(step)
    counts = np.diff(starts, append=len(x))
    climb -= np.repeat(np.maximum.reduceat(climb, starts), counts)
    weight = np.exp(climb)
    probability: FloatArray = weight / np.repeat(np.add.reduceat(weight, starts), counts)
    return probability


_MOST_CELLS = 1 << 20  # slots times relevant items computed at once


def mean_over_slots(gain: Gain, blocks: TiedBlocks, cutoff: int | None) -> FloatArray:
    """Return the exact mean of any gain over all orders of each tied block; beyond the cut-off it is 0.

    Where the target is the only relevant item of its block, a table of sums of gains serves all blocks. Other
    blocks take the sum over slots and over the number of relevant items before the target; equal blocks are
    computed once.

    Parameters
    ----------
    gain : of a target at a rank with so many relevant items above it; arguments broadcast
    blocks : the blocks
    cutoff : K; None for the whole list
    """
    slots = blocks.slots(cutoff)
    total = np.zeros(len(slots))
    is_alone = blocks.n_tied_relevant == 1
    for above in np.unique(blocks.n_relevant_above[is_alone & (slots > 0)]):
        rows = np.flatnonzero(is_alone & (slots > 0) & (blocks.n_relevant_above == above))
        start, end = blocks.n_above[rows], blocks.n_above[rows] + slots[rows]
        gains = gain(np.arange(1, int(end.max()) + 1), np.asarray(above))
        sums = np.concatenate([[0.0], gains]).astype(np.longdouble).cumsum()
        total[rows] = (sums[end] - sums[start]).astype(np.float64)
    several = np.flatnonzero(~is_alone & (slots > 0))
    if len(several):
        columns = [blocks.n_above, blocks.size, blocks.n_tied_relevant, blocks.n_relevant_above, slots]
        columns = [column[several] for column in columns]
        first, inverse = _distinct(columns)
        rows = np.stack([column[first] for column in columns], axis=1).tolist()
        total[several] = np.array([_sum_over_slots(gain, *row) for row in rows])[inverse]
    return total / blocks.size


def _sum_over_slots(gain: Gain, n_above: int, size: int, relevant: int, earlier: int, slots: int) -> float:
    """Return the sum over the first slots of a block of the mean gain there, given that slot."""
    return sum(
        float(probability @ gain(n_above + before + 1, earlier + x))
        for before, x, probability in _orders_by_slot(size, relevant, slots)
    )


def _orders_by_slot(size: int, relevant: int, slots: int) -> Iterator[tuple[IntArray, IntArray, FloatArray]]:
    """Yield items before a target in its block, relevant ones among them, and P(these | those)."""
    step = max(1, _MOST_CELLS // relevant)
    for begin in range(0, slots, step):
        before = np.arange(begin, min(begin + step, slots))  # items of the block before the target
        least = np.maximum(before - (size - relevant), 0)
        counts = np.minimum(before, relevant - 1) - least + 1
        starts = np.cumsum(counts) - counts
        row = np.repeat(np.arange(len(before)), counts)
        x = np.arange(len(row)) - starts[row] + least[row]
        ones = np.ones_like(row)
        probability = _hypergeometric(
            x, starts, size=ones * (size - 1), relevant=ones * (relevant - 1), slots=before[row]
        )
        yield before[row], x, probability


def means_by_order(
    gain: Callable[[IntArray], FloatArray], blocks: TiedBlocks, cutoff: int | None
) -> tuple[IntArray, IntArray, FloatArray]:
    """Return (block, k, mean gain of a target if k relevant items of its block come before it, else 0).

    One entry for each k = 0..n_tied_relevant - 1 of each block; blocks below the cut-off have none. The sum
    over k is the mean gain over all orders.

    Parameters
    ----------
    gain : of a target at a rank
    blocks : the blocks
    cutoff : K; None for the whole list
    """
    slots = blocks.slots(cutoff)
    alone = np.flatnonzero((blocks.n_tied_relevant == 1) & (slots > 0))
    end = blocks.n_above[alone] + slots[alone]
    table = gain(np.arange(1, int(end.max(initial=0)) + 1))
    sums = np.concatenate([[0.0], table]).astype(np.longdouble).cumsum()
    mean = (sums[end] - sums[blocks.n_above[alone]]).astype(np.float64) / blocks.size[alone]
    parts = [(alone, np.zeros_like(alone), mean)]
    several = np.flatnonzero((blocks.n_tied_relevant > 1) & (slots > 0))
    if len(several):
        columns = [column[several] for column in (blocks.n_above, blocks.size, blocks.n_tied_relevant, slots)]
        first, inverse = _distinct(columns)
        for number, one in enumerate(first):
            above, size, relevant, within = (int(column[one]) for column in columns)
            means = np.zeros(relevant)
            for before, x, probability in _orders_by_slot(size, relevant, within):
                means += np.bincount(x, probability * gain(above + before + 1), relevant)
            rows = several[inverse == number]
            k = np.arange(relevant)
            parts.append((np.repeat(rows, relevant), np.tile(k, len(rows)), np.tile(means / size, len(rows))))
    block, order, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    return block, order, values
