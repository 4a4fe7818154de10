"""How to compare; checked once, before any work starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from truerank.bounds.problem import Shape
from truerank.core.check import check_at_least, check_choice, check_level
from truerank.core.errors import InvalidParameter, UnknownName
from truerank.core.estimator import Estimator
from truerank.core.metric import Metric
from truerank.core.ranks import TIE_POLICIES, TiePolicy
from truerank.core.stream import check_seed
from truerank.core.uncertainty import TARGETS, Target

Correction: TypeAlias = Literal["max-t", "holm", "none"]
CORRECTIONS: tuple[str, ...] = get_args(Correction)


@dataclass(frozen=True)
class Options:
    """What is compared, and by which rules.

    Parameters
    ----------
    metrics : in the order of the result
    estimator : what to make of sampled ranks; exact ones need none
    target : what intervals and verdicts are about: these test users, or all users like them
    level : of all intervals together, and of all bounds together
    correction : for many comparisons: ``max-t``, ``holm`` (with Bonferroni intervals) or ``none``
    baseline : compare every other model with this one; None compares all pairs
    tie_margin : differences up to this much count as none; None where every difference matters
    bounds : whether a verdict from sampled ranks must hold for every rank distribution they allow
    shape : what such a distribution is known to be, see ``truerank.bounds.identified``
    common_users : whether to leave out users that not all models have
    ties, seed : as in ``evaluate``
    resamples : of users; at least 10 must be expected beyond the level
    """

    metrics: tuple[Metric, ...]
    estimator: Estimator
    target: Target = "test-users"
    level: float = 0.95
    correction: Correction = "max-t"
    baseline: str | None = None
    tie_margin: float | None = None
    bounds: bool = True
    shape: Shape | None = None
    common_users: bool = False
    ties: TiePolicy = "expected"
    seed: int = 0
    resamples: int = 2000

    def __post_init__(self) -> None:
        check_choice("target", self.target, TARGETS)
        check_level(self.level)
        check_choice("correction", self.correction, CORRECTIONS)
        check_choice("shape", self.shape or "decreasing", ("decreasing",))
        check_choice("ties", self.ties, TIE_POLICIES)
        check_seed(self.seed)
        check_at_least("resamples", self.resamples, round(10 / (1 - self.level)))
        if self.tie_margin is not None and not 0 < self.tie_margin < 1:
            raise InvalidParameter(
                f"tie_margin must lie between 0 and 1, got {self.tie_margin!r}. Leave it out for none."
            )
        if self.shape is not None and not self.bounds:
            raise InvalidParameter("a shape is what bounds assume. Leave it out, or let bounds be computed.")

    def pairs(self, names: Sequence[str]) -> list[tuple[int, int]]:
        """Return which models are compared: all pairs as given, or every other one minus the baseline."""
        if len(names) < 2:
            raise InvalidParameter(f"a comparison needs at least two models, got {len(names)}. Add one.")
        if self.baseline is None:
            return [(a, b) for a in range(len(names)) for b in range(a + 1, len(names))]
        if self.baseline not in names:
            raise UnknownName("baseline", self.baseline, names)
        base = list(names).index(self.baseline)
        return [(a, base) for a in range(len(names)) if a != base]
