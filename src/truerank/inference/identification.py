"""What a sample can tell: bounds in numbers and in words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from truerank.core.check import check_above


@dataclass(frozen=True)
class Bound:
    """The smallest and the largest value that the sampled ranks allow.

    Parameters
    ----------
    metric : spec string
    low, high : the values
    level : probability, at least, that the value lies between them
    method : how the confidence region was made; ``exact`` when nothing is unknown

    Examples
    --------
    >>> print(Bound("recall@10", 0.0, 0.26, 0.95, "binomial"))
    recall@10 lies in [0.000, 0.260]
    """

    metric: str
    low: float
    high: float
    level: float
    method: str

    @property
    def half_width(self) -> float:
        """Half of the distance between the ends."""
        return (self.high - self.low) / 2

    def __str__(self) -> str:
        return f"{self.metric} lies in [{self.low:.3f}, {self.high:.3f}]"


@dataclass(frozen=True)
class Resolution:
    """Whether a sample tells a metric as closely as wanted, and what would.

    Parameters
    ----------
    bound : what the sample allows
    half_width : what was wanted
    cutoff : the metric's; None for the whole list
    first : the smallest cut-off that the sample does resolve; None when there is none or it was not sought
    n_negatives : about how many would resolve the metric; None when it is resolved or nothing but ranking all
        items would
    is_sought : whether the last two were sought

    Examples
    --------
    >>> print(Resolution(Bound("recall@10", 0.0, 0.26, 0.95, "binomial"), 0.05, 10, None, 1300))
    K = 10 is below what this sample can resolve: any recall@10 from 0.00 to 0.26 fits; about 1,300 ...
    """

    bound: Bound
    half_width: float
    cutoff: int | None
    first: int | None = None
    n_negatives: int | None = None
    is_sought: bool = True

    @property
    def is_resolved(self) -> bool:
        """Whether the bound is as narrow as wanted."""
        return self.bound.half_width <= self.half_width

    def __str__(self) -> str:
        bound, digits = self.bound, max(2, math.ceil(-math.log10(self.half_width)))
        span = f"{bound.metric} from {bound.low:.{digits}f} to {bound.high:.{digits}f}"
        if self.is_resolved:
            return f"{span}: this sample resolves it to +-{self.half_width:g}."
        if self.cutoff is None:
            start = f"This sample cannot resolve {bound.metric}"
        else:
            start = f"K = {self.cutoff} is below what this sample can resolve"
        found = f"{start}: any {span} fits"
        if not self.is_sought:
            return f"{found}."
        found += "; "
        if self.n_negatives is None:
            found += f"only ranking all items would resolve it to +-{self.half_width:g}."
        else:
            found += f"about {self.n_negatives:,} negatives would resolve it to +-{self.half_width:g}."
        if self.first is not None:
            found += f" The smallest K it resolves is about {self.first}."
        return found


def needed_size(half_width: Callable[[int], float], wanted: float, *, start: int, most: int) -> int | None:
    """Return about the smallest size with the wanted half-width, to two digits; None when ``most`` has not.

    Sizes are doubled until one does, then the last doubling is halved on a logarithmic scale.

    Parameters
    ----------
    half_width : of a size; falls with it
    wanted : greater than 0
    start, most : the first and the last size tried

    Examples
    --------
    >>> needed_size(lambda m: 1 / m, 0.003, start=10, most=1000)
    340
    >>> needed_size(lambda m: 1 / m, 0.003, start=10, most=300) is None
    True
    """
    check_above("half_width", wanted, 0)
    low, high = start, start
    while half_width(high) > wanted:
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high > 1.04 * low + 1:
        middle = round(math.sqrt(low * high))
        low, high = (middle, high) if half_width(middle) > wanted else (low, middle)
    unit = int(10 ** max(math.floor(math.log10(high)) - 1, 0))
    return min(-(-high // unit) * unit, most)
