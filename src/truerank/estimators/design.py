"""Which designs an estimator can treat."""

from __future__ import annotations

from truerank.core.errors import CannotEstimate
from truerank.core.estimator import Estimator
from truerank.core.stopping import Stopping
from truerank.core.tally import Tally


def stopping_of(tally: Tally) -> Stopping | None:
    """Return the rule by which samples grew, or None where they did not: one size is a fixed sample."""
    stopping = tally.design.stopping
    return stopping if stopping is not None and len(stopping.sizes) > 1 else None


def check_fixed(estimator: Estimator, tally: Tally, reason: str) -> None:
    """Raise for adaptive samples, where the size of a sample tells about the rank."""
    if stopping_of(tally) is not None:
        raise CannotEstimate(
            f"'{estimator}' cannot treat adaptive samples, because {reason}. Use estimator 'mle' or 'bv'."
        )
