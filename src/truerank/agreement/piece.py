"""The pieces an experiment is made of, and everything each of them depends on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from typing import TypeAlias

import numpy as np

from truerank.agreement.scenario import Scenario
from truerank.core.interactions import Interactions
from truerank.core.model import Model
from truerank.core.split import Split
from truerank.core.strategy import ProxyStrategy, Strategy


@dataclass(frozen=True)
class Weigh:
    """The importance of the train events by a proxy."""

    scenario: Scenario
    strategy: ProxyStrategy
    seed: int

    @property
    def cost(self) -> int:
        """About how much work it is, in percent of a fit to all events."""
        return 50

    def key(self, digest: str) -> str:
        """Return everything the importance depends on; not how it is used."""
        names = [field.name for field in fields(ProxyStrategy)]
        asked = " ".join(f"{name}={getattr(self.strategy, name)}" for name in names)
        return f"agreement importance {asked} seed={self.seed} data={digest}"


@dataclass(frozen=True)
class Draw:
    """A sub-sample of the train events."""

    scenario: Scenario
    strategy: Strategy
    fraction: float
    seed: int

    @property
    def cost(self) -> int:
        """About how much work it is, in percent of a fit to all events."""
        return 1

    @property
    def weigh(self) -> Weigh | None:
        """The importance it needs."""
        if isinstance(self.strategy, ProxyStrategy):
            return Weigh(self.scenario, self.strategy, self.seed)
        return None

    def key(self, digest: str) -> str:
        """Return everything the sub-sample depends on."""
        return f"agreement draw {self.strategy} {self.fraction!r} seed={self.seed} data={digest}"


@dataclass(frozen=True)
class Fit:
    """A model fitted to a sub-sample, or to all train events where there is none, and judged."""

    scenario: Scenario
    model: Model
    seed: int
    draw: Draw | None = None

    @property
    def cost(self) -> int:
        """About how much work it is, in percent of a fit to all events."""
        return 100 if self.draw is None else max(1, round(100 * self.draw.fraction))

    def key(self, digest: str) -> str:
        """Return everything the values depend on; the part for selection is no such thing."""
        scenario = replace(self.scenario, selection="validation")
        drawn = "full" if self.draw is None else f"{self.draw.strategy} {self.draw.fraction!r}"
        return f"agreement fit {self.model} {drawn} seed={self.seed} {scenario} data={digest}"


Piece: TypeAlias = Weigh | Draw | Fit


def digest_of(*parts: Interactions | None) -> str:
    """Return a digest of users, items, times and values in their order.

    Examples
    --------
    >>> a = Interactions.from_codes([0, 1], [1, 0], value=np.array([4.0, 5.0]))
    >>> digest_of(a) == digest_of(a.take(np.array([0, 1]))), digest_of(a) == digest_of(a, None)
    (True, False)
    """
    digest = hashlib.blake2b(digest_size=12)
    for part in parts:
        if part is None:
            digest.update(b"none")
            continue
        digest.update(f"{part.n_users} {part.n_items} {len(part)}".encode())
        for name in ("user", "item", "time", "value"):
            column = getattr(part, name)
            if column is not None:
                plain = np.float64 if column.dtype.kind == "f" else np.int64
                digest.update(name.encode())
                digest.update(np.ascontiguousarray(column.astype(plain)).tobytes())
    return digest.hexdigest()


def digest_of_split(split: Split) -> str:
    """Return a digest of all parts."""
    return digest_of(split.train, split.test, split.valid)
