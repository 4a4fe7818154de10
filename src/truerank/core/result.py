"""A result: estimates and all that is needed to repeat them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from truerank.core.chart import Picture
from truerank.core.errors import InvalidData
from truerank.core.estimate import Estimate
from truerank.core.ranks import Ranks
from truerank.version import __version__


@dataclass(frozen=True)
class Result:
    """Estimates with provenance; the JSON form is what ``--format json`` prints.

    Parameters
    ----------
    command : the stage that made it, such as ``evaluate``
    estimates : one per model and metric
    data : counts of the data and the split
    provenance : options, seed, data hash, versions, seconds and scores computed
    version : of truerank
    bounds : per model and metric all values that its sampled ranks allow, where that was asked; the value of
        such an entry is the middle of its ends
    notes : what a person should be told in words, such as that a sample cannot resolve a metric
    ranks : the ranks behind the estimates by model; not part of the JSON form
    charts : pictures of what is behind the estimates, where they were asked for; not part of the JSON form

    Examples
    --------
    >>> result = Result("evaluate", (Estimate("popularity", "auc", 0.8),))
    >>> Result.from_json(result.to_json()) == result
    True
    """

    command: str
    estimates: tuple[Estimate, ...]
    data: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    version: str = __version__
    bounds: tuple[Estimate, ...] = ()
    notes: tuple[str, ...] = ()
    ranks: Mapping[str, Ranks] = field(default_factory=dict, compare=False, repr=False)
    charts: tuple[Picture, ...] = field(default=(), compare=False, repr=False)

    def value(self, metric: str, model: str | None = None, estimator: str | None = None) -> float:
        """Return one value by metric, model and estimator; what there is only one of may be left out."""
        return self.estimate(metric, model, estimator).value

    def estimate(self, metric: str, model: str | None = None, estimator: str | None = None) -> Estimate:
        """Return one estimate by the names of metric, model and estimator."""
        found = [
            e
            for e in self.estimates
            if e.metric == metric and model in (None, e.model) and estimator in (None, e.estimator)
        ]
        if len(found) != 1:
            known = sorted({f"{e.metric} of {e.model} ({e.estimator})" for e in self.estimates})
            raise InvalidData(
                f"there must be exactly one estimate of {metric!r}{f' of {model!r}' if model else ''}, "
                f"found {len(found)}. There are: {'; '.join(known)}."
            )
        return found[0]

    def models(self) -> list[str]:
        """Return model names in the order they were evaluated."""
        return list(dict.fromkeys(e.model for e in self.estimates))

    def metrics(self) -> list[str]:
        """Return metric names in the order they were asked for."""
        return list(dict.fromkeys(e.metric for e in self.estimates))

    def to_dict(self) -> dict[str, Any]:
        """Return a plain dictionary for JSON."""
        return {
            "command": self.command,
            "version": self.version,
            "data": dict(self.data),
            "estimates": [estimate.to_dict() for estimate in self.estimates],
            "provenance": dict(self.provenance),
            "bounds": [bound.to_dict() for bound in self.bounds],
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """Return the JSON text."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Result:
        """Read what ``to_json`` wrote."""
        try:
            fields = json.loads(text)
            return cls(
                command=fields["command"],
                estimates=tuple(Estimate.from_dict(entry) for entry in fields["estimates"]),
                data=fields["data"],
                provenance=fields["provenance"],
                version=fields["version"],
                bounds=tuple(Estimate.from_dict(entry) for entry in fields.get("bounds", ())),
                notes=tuple(fields.get("notes", ())),
            )
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise InvalidData(f"a result must be the JSON that truerank wrote ({error!r}).") from None
