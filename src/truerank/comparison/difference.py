"""The result of a comparison: differences, and all that is needed to repeat them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from truerank.comparison.verdict import Strength, Verdict
from truerank.core.errors import InvalidData
from truerank.core.estimate import Estimate
from truerank.core.table import Table
from truerank.version import __version__

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Difference:
    """One metric of two models: first minus second.

    Parameters
    ----------
    first, second, metric : A, B and what is compared
    value : A - B
    low, high, level, target : the interval for the target; no width where the difference is known, None where
        there is none. All intervals of a comparison hold at once, unless no correction was made
    probability : that A beats B, as far as noise goes; 0, 1/2 or 1 where the difference is known
    population_low, population_high : the interval for all users like these
    p_value, p_adjusted : of no difference among all users like these, alone and among all comparisons
    p_randomised : the same alone, by flipping signs of users' differences; None where users are not paired
    bound_low, bound_high : what all rank distributions allow for these users; None where it was not found
    method : how the interval was made
    pairing : whether users and negatives are the same
    verdict, strength : what can be said, and what that rests on
    by_interval : what the interval alone says, whatever the bounds
    n_users : users behind it
    needed_negatives : about how many would let the bounds part; None where not sought or where only ranking
        all items would
    sentence : the verdict in words
    """

    first: str
    second: str
    metric: str
    value: float
    low: float | None
    high: float | None
    level: float
    target: str
    probability: float | None
    population_low: float | None
    population_high: float | None
    p_value: float | None
    p_adjusted: float | None
    p_randomised: float | None
    bound_low: float | None
    bound_high: float | None
    method: str
    pairing: str
    verdict: Verdict
    strength: Strength
    by_interval: Verdict
    n_users: int
    needed_negatives: int | None = None
    sentence: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {
            name: value.value if isinstance(value, (Verdict, Strength)) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> Difference:
        """Build from what ``to_dict`` returned."""
        kinds = {"verdict": Verdict, "strength": Strength, "by_interval": Verdict}
        try:
            read: dict[str, Any] = {**entries, **{name: kind(entries[name]) for name, kind in kinds.items()}}
            return cls(**read)
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidData(
                f"a difference in the comparison file is damaged ({error}). Write it anew."
            ) from None


@dataclass(frozen=True)
class Comparison:
    """Values of all models, their differences, and how they were found.

    Parameters
    ----------
    estimates : value of each model and metric, without intervals of their own
    differences : one per pair and metric
    notes : what a reader must know, in sentences
    provenance : options, seed and what was compared
    version : of truerank
    """

    estimates: tuple[Estimate, ...]
    differences: tuple[Difference, ...]
    notes: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict)
    version: str = __version__

    def models(self) -> list[str]:
        """Return model names in the order they were given."""
        return list(dict.fromkeys(estimate.model for estimate in self.estimates))

    def difference(self, first: str, second: str, metric: str) -> Difference:
        """Return one difference by the names of both models and the metric.

        Raises
        ------
        InvalidData
            When it was not compared this way round.
        """
        for one in self.differences:
            if (one.first, one.second, one.metric) == (first, second, metric):
                return one
        known = "; ".join(f"{one.first} - {one.second} in {one.metric}" for one in self.differences)
        raise InvalidData(f"there is no difference {first} - {second} in {metric}. There are: {known}.")

    def to_table(self) -> Table:
        """Return one row per pair and metric: the difference with its interval, and the verdict."""
        from truerank.comparison.table import difference_table

        return difference_table(self)

    def plot(self, metric: str | None = None, *, width: float | None = None) -> Figure:
        """Return the differences with their intervals as a matplotlib figure, the bounds in grey behind them.

        Parameters
        ----------
        metric : one of those compared; a panel for each by default
        width : inches; one column of a paper by default, more where panels need it

        Raises
        ------
        InvalidData
            When the metric was not compared.
        """
        from truerank.comparison.forest import draw_forests

        return draw_forests(self, metric, width=width)

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {
            "command": "compare",
            "version": self.version,
            "estimates": [estimate.to_dict() for estimate in self.estimates],
            "differences": [one.to_dict() for one in self.differences],
            "notes": list(self.notes),
            "provenance": dict(self.provenance),
        }

    def to_json(self) -> str:
        """Return the JSON text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> Comparison:
        """Build from what ``to_dict`` returned."""
        try:
            return cls(
                estimates=tuple(Estimate.from_dict(entry) for entry in entries["estimates"]),
                differences=tuple(Difference.from_dict(entry) for entry in entries["differences"]),
                notes=tuple(entries["notes"]),
                provenance=entries["provenance"],
                version=entries["version"],
            )
        except (KeyError, TypeError) as error:
            raise InvalidData(f"a comparison must be the JSON that truerank wrote ({error!r}).") from None

    @classmethod
    def from_json(cls, text: str) -> Comparison:
        """Read what ``to_json`` wrote."""
        try:
            return cls.from_dict(json.loads(text))
        except json.JSONDecodeError as error:
            raise InvalidData(f"a comparison must be the JSON that truerank wrote ({error!r}).") from None


#: Columns of a table of differences.
COLUMNS = tuple(entry.name for entry in fields(Difference))
