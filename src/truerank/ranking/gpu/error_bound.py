"""Error bound of GPU scores: factors as sums of two float16 numbers, and their distance from float64 scores.

A matrix unit multiplies float16 numbers exactly and adds the products in float32. Let x be a row scaled by a
power of two so that its largest magnitude lies in [2^14, 2^15), or [2^12, 2^13) for users: x = h + l + r,
where h is x rounded to float16, l is x - h rounded to float16 and r what is left, about 2^-23 of x where
float16 is normal. The differences are exact in float64, so the norm of r is measured instead of estimated.

Let x = h + l + r (user) and y likewise (item) be rows as ``ScaledRows`` splits them, with d coordinates, and
n the next multiple of 16. The kernel sums l_x h_y and h_x l_y, then adds h_x h_y and last the bias, which is
one more coordinate of x and y. Products of float16 numbers are exact in float32.

* leaving out:  x y - (the three products) = l_x l_y + (h_x + l_x) r_y + r_x y
* summing:      a matrix unit adds products in blocks of b >= 4, Hopper's of b >= 16. What is assumed of
                it: each of the b + 1 addends of a block loses less than 2^-23 of the largest of them, and
                their sum less than 2^-23 of itself, as alignment by truncation without any guard bit would.
                Sums that round, as on a CPU, lose less. With S a bound of all partial sums of magnitudes, m
                products lose at most (b + 2) / b m 2^-23 S: 1.5 m 2^-23 S, on Hopper 1.125 m 2^-23 S; two
                more account for the other additions
* reference:    the float64 sum is off by at most (d + 2) 2^-52 |x| |y|, and by d 2^-1074 where products
                underflow
* Cauchy:       sum |h_x h_y| <= |x| |y|, sum |l_x h_y| <= |l_x| |y|, and so on

With c = (b + 2) / b (n + 2) 2^-23 + (d + 3) 2^-52 the error is a sum of three products of what is known per
row and what is known per item:

    |float16 - float64| <= |x| (c |y| + |r_y| + 3 c |l_y|) + (|r_x| + 3 c |l_x|) |y| + |l_x| |l_y| + slack

The slack holds the rounding of the target's score to float32 and its use in ``triton_count`` (2^-20 of it in
all) and what underflows. ``LIFT`` covers the float32 arithmetic on the bounds themselves.

**Centre.** The ranks of a user do not change when a vector m is subtracted from all items and x m from the
target's score. Where items lie around a common vector, that shortens them and with them the band: y is then
y - m in all of the above. Rounding y - m is covered by c (d + 3 instead of d + 2); the float64 score of an
item and x m are off by (d + 2) 2^-52 |x| |m| each, which the slack holds.

**Multiples.** Let all items be multiples of one power of two and a row multiples of another, both without
low halves, p their product, not below the least float64, and |x| |y| < 2^22 p for the longest item. Products
and partial sums are then multiples of p below 2^22 p, which have at most 22 bits: a matrix unit that drops
what lies below 2^-23 of the largest addend drops nothing, and float64 rounds nothing. Scores of such rows are
exact in float32 and decide ties too (small integers, for instance, of which a tenth of all pairs may tie).

**Copies** of one item score the same for everybody: where there are many, one of them is counted with its
number as the weight.

Cauchy also says that an item with |x| |y| < |t| lies below the target if t > 0 and above it if t < 0. Items
are sorted by norm, so a row needs only the first tiles of them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from truerank.ranking.gpu.device import has_float8
from truerank.ranking.gpu.halves import (
    CHUNK,
    ROW_TOP,
    SCALE_LIFT,
    TOP,
    ScaledRows,
    exponents,
    multiples,
    power_of_two,
    scaled,
)

if TYPE_CHECKING:
    import torch
    from torch import Tensor


# Both sides are filled up to a multiple of this many rows.
FILL = 128


LIFT = 1 + 2.0**-10
# Items of which one has so many copies, or of which so many are copies, are counted with weights.
MANY_COPIES = 16
SHARE_OF_COPIES = 0.1
# Items are centred when at least this share of their squared norms is that of their mean.
CENTRED_SHARE = 0.5


@dataclass(frozen=True, eq=False)
class ItemSide:
    """Items in descending order of their norms; those whose score is always zero are left out.

    All arrays over items are filled up to a multiple of ``FILL`` with items that do not count.

    Parameters
    ----------
    high, low : (n, width) float16
    bias : (n,) float32, scaled like the items; or None
    norms : (3, n) float64, of items, low halves and rests
    bounds : (3, n) float32, the factors of the error that belong to an item
    tile_norm : (n / FILL,) float64, descending: bounds the norms of a tile's items and of all after it
    code : (n,) int64, where an item stands in ``exact``
    weight : (n,) int32, how many items an item stands for; None when each stands for itself
    n_items : how many there are
    n_zero : items left out because every user gives them the score 0
    exponent : what the items were scaled by
    multiple : the power of two of which all of all items are multiples; 0 where there is none
    centre, bias_centre : (d,) float64 and a number, taken off all items; None and 0 when nothing was
    exact, exact_bias : the factors as given
    """

    high: Tensor
    low: Tensor
    bias: Tensor | None
    norms: Tensor
    bounds: Tensor
    tile_norm: Tensor
    code: Tensor
    weight: Tensor | None
    n_items: int
    n_zero: int
    exponent: int
    multiple: float
    centre: Tensor | None
    bias_centre: float
    exact: Tensor
    exact_bias: Tensor | None

    @property
    def n_tied_with_zeros(self) -> int:
        """Items that a user of zeros ties with, beside those of zeros."""
        return len(self.exact) - self.n_zero if self.bias is None else 0

    @cached_property
    def _kept(self) -> dict[str, Any]:
        return {}

    def cached(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what was made for these items under a name; made on first use."""
        if name not in self._kept:
            self._kept[name] = make()
        return self._kept[name]

    @classmethod
    def prepare(
        cls,
        exact: Tensor,
        bias: Tensor | None,
        largest: float,
        rows: type[ScaledRows] = ScaledRows,
    ) -> ItemSide:
        """Find copies, centre, sort and split; ``largest`` is the largest magnitude of factors and bias.

        ``rows`` does the splitting.
        """
        import torch

        d = exact.shape[1]
        chosen = _plain_items(exact, bias, largest, rows)
        if chosen is None:
            chosen = _chosen_items(exact, bias, largest, rows)
        centre, bias_centre, exponent = chosen.centre, chosen.bias_centre, chosen.exponent
        n_items, order = len(chosen.code), filled(chosen.code, FILL)
        raised = torch.full((len(order),), exponent, device=exact.device)
        extra = None if bias is None else scaled(bias[order] - bias_centre, raised)
        halves = rows(exact, order, raised, centre, extra).split(padded_width(d))
        c = rounding(d, sum_block(exact.device))
        bounds = torch.stack(
            [
                c * halves.norm + halves.rest_norm + 3 * c * halves.low_norm,
                halves.norm,
                halves.low_norm,
            ]
        )
        can_be_exact = bias is None and centre is None and n_items > 0
        return cls(
            halves.high,
            halves.low,
            None if extra is None else extra.float(),
            torch.stack([halves.norm, halves.low_norm, halves.rest_norm]),
            (bounds * LIFT).float(),
            _tile_norms(halves.norm),
            order,
            None if chosen.weight is None else filled(chosen.weight, FILL).int(),
            n_items,
            chosen.n_zero,
            exponent,
            float(halves.multiple.amin()) if can_be_exact else 0.0,
            centre,
            bias_centre,
            exact,
            bias,
        )


@dataclass(frozen=True, eq=False)
class _Chosen:
    """Which items are counted, in descending order of their norms.

    Parameters
    ----------
    code : (n,) int64, the items
    weight : (n,) int64, how many items each stands for; None when each stands for itself
    n_zero, exponent, centre, bias_centre : as in ``ItemSide``
    """

    code: Tensor
    weight: Tensor | None
    n_zero: int
    exponent: int
    centre: Tensor | None
    bias_centre: float


def _plain_items(
    exact: Tensor, bias: Tensor | None, largest: float, rows: type[ScaledRows]
) -> _Chosen | None:
    """Return all items; None where some may be alike or zero, or where they lie around a common vector.

    Copies have equal norms, so that items of different norms need no closer look.
    """
    import torch

    n_items, exponent = len(exact), _exponent(largest)
    if n_items == 0:
        return None
    raised = torch.full((n_items,), exponent, device=exact.device)
    extra = None if bias is None else scaled(bias, raised)
    number = torch.arange(n_items, device=exact.device)
    norms, order = torch.sort(rows(exact, number, raised, None, extra).norms(), descending=True, stable=True)
    length = torch.linalg.vector_norm
    # Means of means take no memory on the way; a few items at the end do not matter here.
    n_parts = min(FILL, n_items)
    means = exact[: n_items // n_parts * n_parts].view(n_parts, -1, exact.shape[1]).mean(1)
    lengths = [norms[-1], length(norms), length(means.mean(0)).double()]
    if bias is not None:
        lengths.append(bias.mean())
    n_alike = (norms[1:] == norms[:-1]).sum(dtype=torch.float64)
    has_copies, least, root, *of_means = torch.stack([n_alike, *lengths]).tolist()
    of_mean = math.ldexp(math.hypot(*of_means), exponent) * math.sqrt(n_items)
    if has_copies or least == 0 or not of_mean**2 <= CENTRED_SHARE * root**2:
        return None
    return _Chosen(order, None, 0, exponent, None, 0.0)


def _chosen_items(exact: Tensor, bias: Tensor | None, largest: float, rows: type[ScaledRows]) -> _Chosen:
    """Find copies, items of zeros and a common vector, and sort."""
    import torch

    code, weight = distinct_items(exact, bias, rows)
    n_zero = 0
    if bias is None:
        kept = torch.nonzero(_is_any(exact, code))[:, 0]
        if len(kept) < len(code):
            code, weight = code[kept], None if weight is None else weight[kept]
            n_zero = len(exact) - (len(code) if weight is None else int(weight.sum()))
            if weight is not None and len(code) == len(exact) - n_zero:
                weight = None  # the zeros were all that was alike
    centre, bias_centre = find_centre(exact, bias, code)
    if centre is not None and bias is None and _are_multiples(exact, code, largest):
        centre = None
    if centre is not None:
        largest = _largest_from(exact, bias, centre, bias_centre)
    exponent = _exponent(largest)
    raised = torch.full((len(code),), exponent, device=exact.device)
    extra = None if bias is None else scaled(bias[code] - bias_centre, raised)
    norms = rows(exact, code, raised, centre, extra).norms()
    order = torch.argsort(norms, descending=True, stable=True)
    weight = None if weight is None else weight[order]
    return _Chosen(code[order], weight, n_zero, exponent, centre, bias_centre)


def _exponent(largest: float) -> int:
    """Return what items of a largest magnitude are scaled by, as an exponent of 2."""
    return TOP - math.frexp(largest)[1] if largest else 0


def distinct_items(
    exact: Tensor, bias: Tensor | None, rows: type[ScaledRows] = ScaledRows
) -> tuple[Tensor, Tensor | None]:
    """Return which items to count and how many items each stands for; None when all stand for themselves.

    Items are compared by a hash first, which ``rows`` computes, and then coordinate by coordinate.

    Examples
    --------
    >>> import torch
    >>> code, weight = distinct_items(torch.tensor([[1.0], [2.0], [1.0], [0.0], [-0.0]]), None)
    >>> sorted(zip(code.tolist(), weight.tolist()))
    [(0, 2), (1, 1), (3, 2)]
    """
    import torch

    n = len(exact)
    number = torch.arange(n, device=exact.device)
    if n < 2:
        return number, None
    key, order = torch.sort(rows.hashes(exact, bias), stable=True)
    same = torch.nonzero(key[1:] == key[:-1])[:, 0]
    if not len(same):
        return number, None
    is_copy = torch.zeros(n, dtype=torch.bool, device=exact.device)
    step = max(1, min(CHUNK, n // 8))
    for start in range(0, len(same), step):
        part = same[start : start + step]
        left, right = order[part], order[part + 1]
        equal = (exact[left] == exact[right]).all(1)
        if bias is not None:
            equal &= bias[left] == bias[right]
        is_copy[part + 1] = equal
    starts = torch.nonzero(~is_copy)[:, 0]
    weight = torch.diff(starts, append=torch.tensor([n], device=exact.device))
    if len(starts) > (1 - SHARE_OF_COPIES) * n and int(weight.amax()) < MANY_COPIES:
        return number, None
    return order[starts], weight


def _is_any(exact: Tensor, code: Tensor) -> Tensor:
    """Return which items have a coordinate other than 0."""
    import torch

    low, high = torch.aminmax(exact, dim=1)
    return ((low != 0) | (high != 0))[code]


def _are_multiples(exact: Tensor, code: Tensor, largest: float) -> bool:
    """Whether all items are multiples of one power of two and fit 11 bits."""
    import torch

    raised = torch.full((len(code),), _exponent(largest), device=exact.device)
    return all(bool(multiples(x).all()) for _, x in ScaledRows(exact, code, raised).chunks())


def find_centre(exact: Tensor, bias: Tensor | None, code: Tensor) -> tuple[Tensor | None, float]:
    """Return the mean of the items and of their bias; None and 0 unless items are much shorter without it.

    Examples
    --------
    >>> import torch
    >>> find_centre(torch.tensor([[9.0, 1.0], [9.0, -1.0]]), None, torch.arange(2))[0].tolist()
    [9.0, 0.0]
    >>> find_centre(torch.tensor([[9.0, 1.0], [-9.0, 1.0]]), None, torch.arange(2))
    (None, 0.0)
    """
    import torch

    n_items = max(1, len(code))
    # Items of zeros add nothing, and copies may be counted as often as they are: any centre is a right one.
    sums = [part.sum(0, dtype=torch.float64) for part in _parts(exact)]
    mean = (torch.stack(sums).sum(0) / n_items).float().double()
    square = float(sum(part.double().square().sum() for part in _parts(exact)))
    bias_mean = 0.0
    if bias is not None:
        bias_mean = float((bias.sum() / n_items).float())
        square += float(torch.linalg.vector_norm(bias)) ** 2
    of_mean = n_items * (float((mean * mean).sum()) + bias_mean**2)
    if not CENTRED_SHARE * square < of_mean < float("inf"):
        return None, 0.0
    return mean, bias_mean


def _parts(exact: Tensor) -> tuple[Tensor, ...]:
    """Return rows in parts that are small enough to be copied, as sums in another precision do."""
    import torch

    return torch.split(exact, max(1, min(CHUNK, -(-len(exact) // 8))))


def _largest_from(exact: Tensor, bias: Tensor | None, centre: Tensor, bias_centre: float) -> float:
    """Return the largest magnitude of centred items."""
    import torch

    low, high = torch.aminmax(exact, dim=0)
    largest = float(torch.maximum(centre - low, high - centre).amax())
    if bias is None:
        return largest
    low, high = torch.aminmax(bias)
    return max(largest, bias_centre - float(low), float(high) - bias_centre)


def _tile_norms(norms: Tensor) -> Tensor:
    """Return the largest norm from each tile of ``FILL`` items on; items nearly descend by norm."""
    if not len(norms):
        return norms
    return norms.view(-1, FILL).amax(1).flip(0).cummax(0)[0].flip(0)


def filled(order: Tensor, multiple: int) -> Tensor:
    """Return an order with the last entry repeated up to a multiple of a number.

    Examples
    --------
    >>> import torch
    >>> filled(torch.tensor([3, 5]), 4).tolist()
    [3, 5, 5, 5]
    """
    import torch

    missing = -len(order) % multiple
    return torch.cat([order, order[-1:].expand(missing)]) if missing and len(order) else order


@dataclass(frozen=True, eq=False)
class RowSide:
    """Rows to count for, one per (user, target), in ascending order of the target's score over the norm.

    They are filled up to a multiple of ``FILL`` with rows that count nothing.

    Parameters
    ----------
    high, low : (n, width) float16
    scale : (n,) float32, what the bias is multiplied with
    target, slack : (n,) float32, the target's score and the absolute part of the error; a row of zeros, which
        ties with every item, has an infinite target and counts none
    norms : (3, n) float64, of rows, low halves and rests
    bounds : (n, 4) float32, the factors of the error that belong to a row, and 0
    is_exact : (n,) int8, rows of multiples, whose scores have no error: ``bounds`` are 0 and ``slack`` is a
        quarter of what two scores differ by at least; None when there are none
    n_needed : (n,) int64, how many items must be scored
    user, pair : (n,) int64, the row of ``exact`` and the target a row belongs to
    target_score : (n_pairs,) float64, in the order of the pairs
    exact : the factors as given
    """

    high: Tensor
    low: Tensor
    scale: Tensor
    target: Tensor
    slack: Tensor
    norms: Tensor
    bounds: Tensor
    is_exact: Tensor | None
    n_needed: Tensor
    user: Tensor
    pair: Tensor
    target_score: Tensor
    exact: Tensor

    def __len__(self) -> int:
        return len(self.user)

    @classmethod
    def prepare(
        cls,
        exact: Tensor,
        user: Tensor,
        target_score: Tensor,
        item: ItemSide,
        order: Tensor | None = None,
    ) -> RowSide:
        """Split, measure and sort; pair p is of row ``user[p]``, its target scores ``target_score[p]``.

        ``order`` is the ``pair`` of the same rows, prepared for other items: nearly the right one, and any is
        right for the counts, because blocks of rows score what one of them needs.
        """
        import torch

        d = exact.shape[1]
        low, high = torch.aminmax(exact, dim=1)
        largest = torch.maximum(-low, high).double()
        one = None
        if item.bias is not None:
            largest = largest.clamp(min=1.0)
            one = torch.ones_like(largest)
        exponent = exponents(largest, ROW_TOP)
        extra = None if one is None else scaled(one, exponent)
        number = torch.arange(len(exact), device=exact.device)
        norm = ScaledRows(exact, number, exponent, None, extra).norms()
        shift = exponent[user] + item.exponent
        middle = scaled(target_score - along_centre(exact, item)[user], shift)
        # Rows with similar ratios of target score and norm lie together, rows of zeros last.
        n_rows = len(user)
        if order is None:
            ratio = (middle.abs() / norm[user]).nan_to_num(torch.inf)
            order = filled(torch.argsort(ratio, stable=True), FILL)
        owner, middle, shift = user[order], middle[order], shift[order]
        own = None if extra is None else extra[owner]
        halves = ScaledRows(exact, owner, exponent[owner], None, own).split(item.high.shape[1])
        lost = 2 * d * power_of_two((shift - 1074).clamp(-1000, 1000))
        lost += (d + 4) * 2.0**-51 * halves.norm * centre_norm(item)
        c = rounding(d, sum_block(exact.device))
        left = halves.rest_norm + 3 * c * halves.low_norm
        bounds = torch.stack([halves.norm, left, halves.low_norm, torch.zeros_like(left)], 1)
        bounds = (bounds * LIFT).float()
        slack = ((2.0**-20 * middle.abs() + d * 2.0**-60 + lost) * LIFT).float()
        needed = n_needed(middle, lost, halves.norm, item.tile_norm) * FILL
        needed.clamp_(max=item.n_items)
        is_idle = largest[owner] == 0
        is_idle[n_rows:] = True
        needed[is_idle] = 0
        is_exact = None
        if item.multiple:
            unit = halves.multiple * item.multiple
            are_exact = (halves.norm * item.tile_norm[0] < 2.0**22 * unit) & (lost < unit)
            if bool(are_exact.any()):
                slack = torch.where(are_exact, (unit / 4).float(), slack)
                bounds *= ~are_exact[:, None]
                is_exact = are_exact.to(torch.int8)
        return cls(
            halves.high,
            halves.low,
            (torch.zeros_like(middle) if own is None else own).float(),
            torch.where(is_idle, torch.inf, middle).float(),
            slack,
            torch.stack([halves.norm, halves.low_norm, halves.rest_norm]),
            bounds,
            is_exact,
            needed,
            owner,
            order,
            target_score,
            exact,
        )


def along_centre(exact: Tensor, item: ItemSide) -> Tensor:
    """Return the score that each user gives to what was taken off all items, (n_users,) float64."""
    import torch

    if item.centre is None:
        return torch.zeros(len(exact), dtype=torch.float64, device=exact.device)
    parts = [part.double() @ item.centre for part in _parts(exact)]
    return torch.cat(parts) + item.bias_centre


def centre_norm(item: ItemSide) -> float:
    """Return the norm of what was taken off all items, scaled as they are."""
    if item.centre is None:
        return 0.0
    square = float((item.centre * item.centre).sum()) + item.bias_centre**2
    return math.ldexp(math.sqrt(square), item.exponent) * SCALE_LIFT


def n_needed(middle: Tensor, lost: Tensor, norm: Tensor, item_norm: Tensor) -> Tensor:
    """Return how many items (or tiles), by descending norm, can reach a magnitude; 0 for rows of zeros."""
    import torch

    least = (middle.abs() * (1 - 2.0**-19) - lost) / norm
    found = torch.searchsorted(-item_norm, -least.nan_to_num(0.0), right=True)
    return torch.where(norm == 0, 0, found)


def rounding(d: int, block: int) -> float:
    """Return the constant c for sums of products in blocks of at least so many.

    Examples
    --------
    >>> [round(rounding(64, block) * 2**23, 3) for block in (4, 16)]
    [99.0, 74.25]
    """
    return (block + 2) / block * (-(-d // 16) * 16 + 2) * 2.0**-23 + (d + 3) * 2.0**-52


def sum_block(device: torch.device) -> int:
    """Return how many products the matrix units of a device are assumed to add at once, at least."""
    return 16 if has_float8(device) else 4


def padded_width(d: int) -> int:
    """Return how many columns the kernels get: a power of two up to 128, beyond that a multiple of 64.

    Examples
    --------
    >>> [padded_width(d) for d in (3, 20, 64, 130)]
    [16, 32, 64, 192]
    """
    if d <= 128:
        return int(max(16, 1 << (d - 1).bit_length())) if d else 16
    return -(-d // 64) * 64
