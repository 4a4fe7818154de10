r"""Types, scores and rounding bounds that all CPU kernels of exact ranks share.

`Pools` holds the targets and seen items of every row; `Counts` is what every kernel returns: items above and
tied, per (row, target). `Side` is a factor matrix prepared for the float32 kernel: checked, and scaled by a
power of two where its magnitude requires it.

**The score of a pair** is a pure function of the pair. Library matrix products change their bits with the
shape of the batch and the order of the items. Ranks and ties are decided by this sum instead: float64,
coordinates in ascending order, one rounding per product and one per addition, the bias last.

.. math:: s_{ui} = (\dots((0 + u_1 v_1) + u_2 v_2) + \dots + u_d v_d) + b_i

Products of float32 factors are exact in float64.

**The rounding bound** says how far a float32 score can be from that sum, so that only closer comparisons are
decided in float64.

Let x = 2^a u and y = 2^b v be the factors after scaling by powers of two (exact, and without effect on
ranks), X and Y what float32 keeps of them, n the coordinates (one more for a bias: x_n = 2^a, y_n = 2^b
bias), r = 2^-24 the rounding unit of float32 and f = 2^-126 its smallest normal number; |x|, |y| <= 2^20.

* storing:    X = x (1 + e) + g with |e| <= r, |g| <= f, even where the host flushes subnormals to zero
* products:   where multiplications are not fused with additions, their roundings add r sum|XY| + n f
* summing:    every addition rounds a partial sum: the chain of them is off by at most
              (r sum_k |p_k| + n f) / (1 - n r), with p_k the exact sum of the first k products
* reference:  the float64 sum is off by at most (n + 1) 2^-53 sum|xy| (first order), and by n 2^-1074 where
              products of float64 factors underflow, that is n 2^(a + b - 1074) after scaling
* Cauchy:     sum|xy| <= |x| |y|, and |p_k| is at most the product of the norms of the first k coordinates.
              The sum of these products is at most W(X) W(Y) with W(X)^2 = sum_k (n + 1 - k) X_k^2, because
              X_k is in the partial sums k..n

A coordinate is rounded as often as it is in a partial sum, so that late ones count less: where all have a
like part in the norm, W(X) W(Y) is half of n |X| |Y|. For n <= 4097 all relative parts are less than
1.01 r (W(X) W(Y) + 4 |X| |Y|), and that is at most 1.01 r C(X) C(Y) with C(X)^2 = W(X)^2 + 4 |X|^2, by Cauchy
once more. C is the ``chain`` of a row. The absolute parts, with 2 f 2^20 per coordinate for storing, are less
than n 2^-104:

    |float32 - float64| <= 1.01 2^-24 C(X) C(Y) + n 2^-104 + n 2^(a + b - 1074)

The tile compares with low - spread weight and high + spread weight: ``spread`` is the factor before C(Y) of
the row, ``weight`` the largest C(Y) in a group of items, low and high enclose the target's score t and the
absolute part. Three float32 roundings there (product, sum and t) are covered by 1.02 instead of 1.01 and
by another 2^-22 |t|. Bounds beyond float32 become infinite and send every item to float64. Where scores are
exact (``exact_unit``), the bracket holds the target's score alone, and what is in it ties.

Before that, 16-bit words are compared: w(s) is the whole part of a s + c, saturated, with a >= 0 and c of the
row. Each of its roundings is monotone, hence w is: w(s) > w(h) says that s > h, w(s) < w(l) that s < l. Words
of the bracket for the heaviest of some thousand items decide nearly all pairs; the tile decides the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from truerank.core.errors import InvalidData
from truerank.core.types import frozen

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Counts:
    """Counts over the pool of a row, the target itself left out.

    Parameters
    ----------
    n_above, n_tied : (n_pairs,) pool items that score higher than, or exactly as, the target; other targets
        of the row included
    n_relevant_above, n_relevant_tied : (n_pairs,) the same among the other targets of the row only
    n_recomputed : (row, item) comparisons that float32 could not decide and float64 did
    """

    n_above: Ints
    n_tied: Ints
    n_relevant_above: Ints
    n_relevant_tied: Ints
    n_recomputed: int = 0


def order_within_rows(indptr: Ints, scores: NDArray[np.floating]) -> Ints:
    """Return the order that sorts the pairs of each row by score; rows stay where they are.

    Examples
    --------
    >>> order_within_rows(np.array([0, 3, 4]), np.array([2.0, 0.0, 1.0, -1.0])).tolist()
    [1, 2, 0, 3]
    """
    if len(indptr) - 1 == len(scores):
        return np.arange(len(scores))
    rows = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    return np.lexsort((scores, rows))


def count_among_targets(
    indptr: Ints, scores: NDArray[np.floating], order: Ints | None = None
) -> tuple[Ints, Ints]:
    """Return, per pair, how many other targets of its row score higher, and how many the same.

    ``order`` is that of ``order_within_rows``, where it is known already.

    Examples
    --------
    >>> above, tied = count_among_targets(np.array([0, 3]), np.array([2.0, 1.0, 2.0]))
    >>> above.tolist(), tied.tolist()
    ([0, 2, 0], [1, 0, 1])
    """
    n_pairs = len(scores)
    if len(indptr) - 1 == n_pairs:
        return np.zeros(n_pairs, np.int64), np.zeros(n_pairs, np.int64)
    order = order_within_rows(indptr, scores) if order is None else order
    is_first = np.zeros(n_pairs, np.bool_)
    is_first[indptr[:-1]] = True
    ascending = scores[order]
    is_first[1:] |= ascending[1:] != ascending[:-1]
    starts = np.flatnonzero(is_first)
    sizes = np.diff(starts, append=n_pairs)
    row_ends = np.repeat(indptr[1:], np.diff(indptr))[starts]
    above, tied = np.empty(n_pairs, np.int64), np.empty(n_pairs, np.int64)
    above[order] = np.repeat(row_ends - starts - sizes, sizes)
    tied[order] = np.repeat(sizes - 1, sizes)
    return above, tied


class ScoreIsNaN(InvalidData):
    """A score row that holds a NaN; the caller names the user of ``row``."""

    def __init__(self, row: int) -> None:
        super().__init__(f"scores must be numbers, row {row} holds a NaN. Check the scorer for that user.")
        self.row = row


@dataclass(frozen=True, eq=False)
class Pools:
    """Targets and seen items of every row, as two lists of lists in CSR form.

    Parameters
    ----------
    target_indptr, target_items : the targets of row r are the entries target_indptr[r] to
        target_indptr[r + 1] of target_items, at least one and each only once
    seen_indptr, seen_items : the same for the items that do not compete; ascending, never a target
    n_items : size of the catalogue

    Raises
    ------
    InvalidData
        When the lists do not fit together or the targets are outside the catalogue.
    """

    target_indptr: Ints
    target_items: Ints
    seen_indptr: Ints
    seen_items: Ints
    n_items: int

    @classmethod
    def of(
        cls,
        target_indptr: ArrayLike,
        target_items: ArrayLike,
        seen_indptr: ArrayLike,
        seen_items: ArrayLike,
        n_items: int,
    ) -> Pools:
        """Build pools from any lists of integers."""
        return cls(
            as_integers("target_indptr", target_indptr),
            as_integers("target_items", target_items),
            as_integers("seen_indptr", seen_indptr),
            as_integers("seen_items", seen_items),
            n_items,
        )

    def __post_init__(self) -> None:
        _check_lists("target", self.target_indptr, self.target_items)
        _check_lists("seen", self.seen_indptr, self.seen_items)
        if len(self.seen_indptr) != len(self.target_indptr):
            raise InvalidData(
                "seen_indptr and target_indptr must describe the same rows, "
                f"got {len(self.seen_indptr) - 1} and {len(self.target_indptr) - 1}."
            )
        starts, ends = self.target_indptr[:-1], self.target_indptr[1:]
        if not (starts < ends).all():
            empty = int(np.argmin(starts < ends))
            raise InvalidData(f"every row must have a target, row {empty} has none. Leave such rows out.")
        items = self.target_items
        if len(items) and not (items.min() >= 0 and items.max() < self.n_items):
            item = items[np.argmax((items < 0) | (items >= self.n_items))]
            raise InvalidData(f"target_items must lie in 0..{self.n_items - 1}, got {item}.")

    @property
    def n_rows(self) -> int:
        """Rows to count for."""
        return len(self.target_indptr) - 1

    @property
    def n_targets(self) -> Ints:
        """Targets per row."""
        return np.diff(self.target_indptr)

    @property
    def is_single(self) -> bool:
        """Whether every row has exactly one target."""
        return len(self.target_items) == self.n_rows

    def targets(self, row: int) -> Ints:
        """Return the targets of a row."""
        return self.target_items[self.target_indptr[row] : self.target_indptr[row + 1]]

    def seen(self, row: int) -> Ints:
        """Return the seen items of a row."""
        return self.seen_items[self.seen_indptr[row] : self.seen_indptr[row + 1]]

    def check_seen(self) -> None:
        """Raise unless the seen items of every row ascend and lie in the catalogue."""
        items, starts = self.seen_items, self.seen_indptr[:-1]
        inside = (items >= 0) & (items < self.n_items)
        ascends = np.diff(items, prepend=-1) > 0
        ascends[starts[starts < len(items)]] = True
        holds = inside & ascends
        if not holds.all():
            row = int(np.searchsorted(self.seen_indptr, np.argmin(holds), side="right")) - 1
            raise InvalidData(
                f"seen_items must ascend within 0..{self.n_items - 1} in every row, row {row} does not. "
                "Sort them and remove duplicates."
            )


def as_integers(name: str, values: ArrayLike) -> Ints:
    """Return a contiguous, read-only int64 array, so that kernels are compiled for one type only."""
    array: NDArray[Any] = np.asarray(values)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise InvalidData(f"{name} must be a list of integers, got {array.dtype} of shape {array.shape}.")
    return frozen(np.ascontiguousarray(array, dtype=np.int64))


def _check_lists(name: str, indptr: Ints, items: Ints) -> None:
    if len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != len(items) or (indptr[1:] < indptr[:-1]).any():
        raise InvalidData(
            f"{name}_indptr must rise from 0 to the {len(items)} entries of {name}_items. "
            "Build both from one CSR matrix."
        )


Floats = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]


def pair_scores(users: Floats, items: Floats, item_bias: Floats | None, rows: Ints, codes: Ints) -> Doubles:
    """Return the scores of the pairs (rows[p], codes[p]).

    Parameters
    ----------
    users, items : (n_rows, d) and (n_items, d) factors, float32 or float64
    item_bias : (n_items,) or None
    rows, codes : (n_pairs,) which user row meets which item

    Returns
    -------
    (n_pairs,) float64, bit for bit the scores that ranks are decided by

    Examples
    --------
    >>> users, items = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [0.5, 0.0]])
    >>> pair_scores(users, items, None, np.array([0, 0]), np.array([0, 1])).tolist()
    [11.0, 0.5]
    """
    total = np.zeros(len(rows))
    for k in range(users.shape[1]):
        total += users[rows, k].astype(np.float64) * items[codes, k].astype(np.float64)
    if item_bias is not None:
        total += item_bias[codes]
    return total


def score_block(users: Floats, items: Floats, item_bias: Floats | None) -> Doubles:
    """Return all scores of a few rows, (n_rows, n_items) float64."""
    total = np.zeros((len(users), len(items)))
    product = np.empty_like(total)
    for k in range(users.shape[1]):
        left, right = users[:, k].astype(np.float64), items[:, k].astype(np.float64)
        total += np.multiply(left[:, None], right, out=product)
    if item_bias is not None:
        total += item_bias
    return total


Singles = NDArray[np.float32]

CHUNK = 1 << 14


@dataclass(frozen=True, eq=False)
class Side:
    """One factor matrix, prepared for the register tile of the float32 kernel.

    Parameters
    ----------
    exact : the factors as given, contiguous float32 or float64
    fast : float32 factors times 2^exponent, with the extra column; ``exact`` itself when that is all it is
    exponent : a power of two
    square_norms : (n,) squared norms of the rows of ``fast``, up to rounding; 0 only for rows of zeros
    square_chains : (n,) squares of what bounds their rounding, up to rounding
    """

    exact: Floats
    fast: Singles
    exponent: int
    square_norms: Singles
    square_chains: Singles

    @classmethod
    def prepare(cls, name: str, factors: Floats, extra: Doubles | None) -> Side:
        """Check and scale a factor matrix; costs one pass, and a float32 copy unless it is one already."""
        if factors.dtype == np.float32 and extra is None:
            norms, chains = _square_sums(factors)
            top = norms.max(initial=0.0)
            if 2.0**-40 <= top <= 2.0**40:
                return cls(factors, factors, 0, _without_false_zeros(norms, factors), chains)
        exponent = exponent_of(name, factors, extra)
        fast = _scaled(factors, extra, exponent)
        norms, chains = _square_sums(fast)
        norms = _without_false_zeros(norms, factors)
        if extra is not None:
            norms = _without_false_zeros(norms, extra[:, None])
        return cls(factors, fast, exponent, norms, chains)


def _square_sums(factors: Singles) -> tuple[Singles, Singles]:
    from truerank.ranking.cpu.exact_compiled import square_sums

    norms, chains = (np.empty(len(factors), np.float32) for _ in range(2))
    square_sums(factors, norms, chains)
    return norms, chains


def _without_false_zeros(norms: Singles, factors: Floats) -> Singles:
    """Lift norms that only underflow made zero."""
    zero = np.flatnonzero(norms == 0)
    norms[zero[factors[zero].any(axis=1)]] = np.finfo(np.float32).tiny
    return norms


def exponent_of(name: str, factors: Floats, extra: Doubles | None) -> int:
    """Return the exponent that scales the largest magnitude into [1/2, 1); raise unless all are finite."""
    return -int(np.frexp(_largest(name, factors, extra))[1])


def _largest(name: str, factors: Floats, extra: Doubles | None) -> float:
    """Return the largest magnitude; raise when one is not finite."""
    largest = 0.0 if extra is None else _largest(f"{name} bias", extra[:, None], None)
    for start in range(0, len(factors), CHUNK):
        part = np.abs(factors[start : start + CHUNK])
        top = float(part.max(initial=0.0))
        if not np.isfinite(top):
            row = start + int(np.argmin(np.isfinite(part).all(axis=1)))
            raise InvalidData(
                f"{name} factors must be finite, row {row} holds {part[row - start].max()}. "
                "Check how the model was trained, or leave that row out."
            )
        largest = max(largest, top)
    return largest


def _scaled(factors: Floats, extra: Doubles | None, exponent: int) -> Singles:
    width = factors.shape[1]
    out = np.empty((len(factors), width + (extra is not None)), np.float32)
    for start in range(0, len(factors), CHUNK):
        rows = slice(start, start + CHUNK)
        out[rows, :width] = np.ldexp(factors[rows].astype(np.float64), exponent)
        if extra is not None:
            out[rows, width] = np.ldexp(extra[rows], exponent)
    return frozen(out)


def check_magnitudes(user_exponent: int, item_exponent: int) -> None:
    """Raise when float64 scores of factors up to 2^-exponent could overflow."""
    if user_exponent + item_exponent < -900:
        raise InvalidData(
            "factors must give scores far below the largest float64, got factors of magnitude "
            f"2^{-user_exponent} (user) and 2^{-item_exponent} (item). Divide them by a constant."
        )


MOST_COORDINATES = 4096


def brackets(user: Side, item: Side, target_scores: Doubles) -> tuple[Singles, Singles]:
    """Return, per pair, the float32 scores between which an item of weight 0 could tie with the target."""
    from truerank.ranking.cpu.exact_compiled import enclose

    n, shift = user.fast.shape[1], user.exponent + item.exponent
    middle = np.ldexp(target_scores, shift) if shift else target_scores
    low, high = (np.empty(len(middle), np.float32) for _ in range(2))
    enclose(middle, n * 2.0**-104 + float(np.ldexp(float(n), shift - 1074)), low, high)
    return low, high


def spreads(user: Side) -> Singles:
    """Return, per row, how much the bracket widens with the chain of an item."""
    return _rounded(1.02 * 2.0**-24 * _upper_chain(user.square_chains, user.fast.shape[1]), np.inf)


def norms(side: Side) -> Singles:
    """Return, per row, an upper bound of the norm."""
    return _rounded(_upper_norm(side.square_norms, side.fast.shape[1]), np.inf)


def weights(item: Side, group: int) -> Singles:
    """Return the largest chain in each group of consecutive items."""
    starts = np.arange(0, len(item.square_chains), group)
    largest = np.maximum.reduceat(item.square_chains, starts)
    return _rounded(_upper_chain(largest, item.fast.shape[1]), np.inf)


def exact_unit(user: Side, item: Side) -> float:
    """Return what scores differ by at least, after scaling, where float32 scores are exact; 0 where not.

    That is so when all factors of a side are multiples of a power of two and the largest score is below 2^22
    times the product of both: float32 then rounds nothing, nor does float64.
    """
    from truerank.ranking.cpu.exact_compiled import lowest_exponent

    if not (user.square_norms.any() and item.square_norms.any()):
        return 0.0
    norms = [_upper_norm(side.square_norms.max(initial=0.0), side.fast.shape[1]) for side in (user, item)]
    lowest = []
    for side, norm in zip((user, item), norms, strict=True):
        least = int(np.frexp(float(norm))[1]) - 22 - side.exponent
        found = lowest_exponent(side.exact, least)
        if found < least:
            return 0.0
        lowest.append(found)
    unit = float(np.ldexp(1.0, sum(lowest) + user.exponent + item.exponent))
    is_exact = norms[0] * norms[1] < 2.0**22 * unit and sum(lowest) > -1000
    return unit if is_exact else 0.0


def _upper_norm(square_norm: Singles, n: int) -> Doubles:
    """Return an upper bound of a norm whose square was summed in float32 in any order."""
    norm: Doubles = np.sqrt(square_norm.astype(np.float64) * (1 + (n + 2) * 2.0**-22) + n * 2.0**-125)
    return norm


def _upper_chain(square_chain: Singles, n: int) -> Doubles:
    """Return an upper bound of a chain whose square was summed in float32 in any order; above the norm."""
    chain: Doubles = np.sqrt(
        square_chain.astype(np.float64) * (1 + (n + 4) * 2.0**-22) + n * (n + 4) * 2.0**-125
    )
    return chain


def _rounded(values: Any, towards: float) -> Singles:
    return np.nextafter(np.asarray(values).astype(np.float32), np.float32(towards))
