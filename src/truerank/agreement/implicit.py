"""Items at random from each history are to be found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from truerank.agreement.ranked import Ranked
from truerank.core.source import Source


@dataclass(frozen=True)
class Implicit(Ranked):
    """Find a random tenth of each history; metrics of ranks among all items.

    Parameters
    ----------
    split, least_history, selection : as in every scenario
    metrics, stop, catalogue : as in every scenario in which items are ranked
    """

    key: ClassVar[str] = "implicit"
    source: ClassVar[Source | None] = Source("sachdeva2021", "Sec. 3.1")
    models: ClassVar[Mapping[str, str]] = {
        "popularity": "popularity",
        "bias-only": "s21-bias-only",
        "mf": "s21-mf",
        "neumf": "s21-neumf",
        "multi-vae": "s21-multi-vae",
    }

    split: str = "ratio"
