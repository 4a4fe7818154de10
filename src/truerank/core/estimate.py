"""A number and what it does not know."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from truerank.core.errors import InvalidData


@dataclass(frozen=True)
class Estimate:
    """One metric of one model with its interval.

    Parameters
    ----------
    model, metric, estimator : spec strings; the estimator of an exact value is ``exact``
    value : the number
    low, high, level : the interval and its confidence level; None where there is none
    target : what the interval is for: the value of all test users (``test-users``) or that of all users like
        them (``population``); empty where there is no interval
    kind : ``exact`` (all items ranked), ``estimate`` (from a sample) or ``bound``
    method : how the interval was made, such as ``bca`` or ``normal``
    n_users : users averaged over
    n_negatives : sampled items per target; None for exact values

    Examples
    --------
    >>> a = Estimate(model="popularity", metric="ndcg@10", value=0.05, low=0.04, high=0.06, level=0.95)
    >>> Estimate.from_dict(a.to_dict()) == a
    True
    """

    model: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    level: float | None = None
    kind: Literal["exact", "estimate", "bound"] = "exact"
    method: str = ""
    estimator: str = "exact"
    n_users: int = 0
    n_negatives: int | None = None
    target: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Estimate:
        """Build from what ``to_dict`` returned."""
        try:
            return cls(**fields)
        except TypeError as error:
            raise InvalidData(
                f"an estimate in the result file is damaged ({error}). Write it anew."
            ) from None
