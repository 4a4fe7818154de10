"""The last item of each history is to be found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from truerank.agreement.ranked import Ranked
from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions
from truerank.core.source import Source


@dataclass(frozen=True)
class Sequential(Ranked):
    """Find each user's last item, after learning from all but the last two; metrics among all items.

    Parameters
    ----------
    split, least_history, selection : as in every scenario
    metrics, stop, catalogue : as in every scenario in which items are ranked

    Notes
    -----
    All models learn from the train part alone: at the test, those that read histories do not know the
    validation item, which [sachdeva2022]_'s code appends for some models and not for others.
    """

    key: ClassVar[str] = "sequential"
    source: ClassVar[Source | None] = Source("sachdeva2021", "Sec. 3.1")
    models: ClassVar[Mapping[str, str]] = {
        "popularity": "popularity",
        "bias-only": "s21-bias-only",
        "mf": "s21-mf",
        "neumf": "s21-neumf",
        "multi-vae": "s21-multi-vae",
        "svae": "s21-svae",
        "sasrec": "s21-sasrec",
    }

    split: str = "leave-last-out(valid=true)"

    def check(self, events: Interactions) -> None:
        """Ask for times."""
        if events.time is None:
            raise InvalidData(
                f"scenario 'sequential' needs a timestamp for each event, but {events.name!r} has none. Name "
                "the column with --columns timestamp=NAME or use scenario 'implicit'."
            )
