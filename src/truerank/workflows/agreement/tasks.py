"""Units of work of an agreement experiment: importance scores, sub-samples and fits, each with its key.

The key of a task holds everything that its result depends on, so that results are kept in a folder under
their keys and read again by any later experiment that needs the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TypeAlias

from truerank.core.model import Model
from truerank.subsampling.base import ProxyStrategy, Strategy
from truerank.workflows.agreement.scenarios import Scenario


@dataclass(frozen=True)
class ImportanceTask:
    """Compute the importance of the train events by a proxy model."""

    scenario: Scenario
    strategy: ProxyStrategy
    seed: int

    @property
    def cost(self) -> int:
        """Approximate work, in percent of a fit to all train events."""
        return 50

    def key(self, digest: str) -> str:
        """Return the key: the parameters of the proxy, not how its importance is used."""
        names = [field.name for field in fields(ProxyStrategy)]
        parameters = " ".join(f"{name}={getattr(self.strategy, name)}" for name in names)
        return f"agreement importance {parameters} seed={self.seed} data={digest}"


@dataclass(frozen=True)
class SubsampleTask:
    """Sample a fraction of the train events."""

    scenario: Scenario
    strategy: Strategy
    fraction: float
    seed: int

    @property
    def cost(self) -> int:
        """Approximate work, in percent of a fit to all train events."""
        return 1

    @property
    def importance_task(self) -> ImportanceTask | None:
        """The importance it is sampled by; None for strategies without a proxy."""
        if isinstance(self.strategy, ProxyStrategy):
            return ImportanceTask(self.scenario, self.strategy, self.seed)
        return None

    def key(self, digest: str) -> str:
        """Return the key."""
        return f"agreement draw {self.strategy} {self.fraction!r} seed={self.seed} data={digest}"


@dataclass(frozen=True)
class FitTask:
    """Fit a model to a sub-sample, or to all train events where there is none, and evaluate it."""

    scenario: Scenario
    model: Model
    seed: int
    subsample: SubsampleTask | None = None

    @property
    def cost(self) -> int:
        """Approximate work, in percent of a fit to all train events."""
        return 100 if self.subsample is None else max(1, round(100 * self.subsample.fraction))

    def key(self, digest: str) -> str:
        """Return the key; how hyper-parameters are selected does not change the values."""
        scenario = replace(self.scenario, selection="validation", select_by="")
        train = "full" if self.subsample is None else f"{self.subsample.strategy} {self.subsample.fraction!r}"
        revision = f" revision={self.model.revision}" if self.model.revision > 1 else ""
        return f"agreement fit {self.model}{revision} {train} seed={self.seed} {scenario} data={digest}"


AgreementTask: TypeAlias = ImportanceTask | SubsampleTask | FitTask
