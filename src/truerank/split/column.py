"""Split by the labels in a column of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions
from truerank.core.types import AnyArray, BoolArray
from truerank.split.base import DROPPED, TEST, TRAIN, VALID, Parts, Splitter

Label = str | int | bool


@dataclass(frozen=True)
class Column(Splitter):
    """Assigns events to parts by the labels in a column.

    Events with any other label are left out and counted in ``events_dropped``. Labels may be texts,
    numbers or true and false.

    Parameters
    ----------
    name : the column
    train, test, valid : its labels for the three parts; a validation label need not occur

    Examples
    --------
    >>> from dataclasses import replace
    >>> events = Interactions.from_codes([0, 0, 1], [0, 1, 2])
    >>> events = replace(events, labels={"part": np.array(["train", "test", "train"])})
    >>> Column(name="part").split(events).test.item.tolist()
    [1]
    >>> str(Column(name="part"))
    'column(name=part)'
    """

    key: ClassVar[str] = "column"
    needs_time: ClassVar[bool] = False
    name: str = "split"
    train: str | int | bool = "train"
    test: str | int | bool = "test"
    valid: str | int | bool = "valid"

    @property
    def columns(self) -> tuple[str, ...]:
        """The column to keep."""
        return (self.name,)

    def assign(self, interactions: Interactions, seed: int) -> Parts:
        """Compare each label with those of the three parts."""
        if self.name not in interactions.labels:
            raise InvalidData(
                f"split {str(self)!r} needs the column {self.name!r}, but {interactions.name!r} was read "
                f"without it. Read it with keep=[{self.name!r}]."
            )
        labels = np.asarray(interactions.labels[self.name])
        parts = np.full(len(labels), DROPPED, dtype=np.uint8)
        for label, part in ((self.valid, VALID), (self.test, TEST), (self.train, TRAIN)):
            parts[_equal(labels, label)] = part
        for role, part in (("train", TRAIN), ("test", TEST)):
            if not (parts == part).any():
                found = ", ".join(repr(label) for label in sorted(map(str, set(labels.tolist())))[:8])
                raise InvalidData(
                    f"column {self.name!r} of {interactions.name!r} must hold the {role} label "
                    f"{getattr(self, role)!r}, found {found}. Name the labels as "
                    f"column(name={self.name}, train=..., test=...)."
                )
        return parts


def _equal(labels: AnyArray, label: Label) -> BoolArray:
    """Compare like with like: texts with texts, true and false as such, numbers as numbers."""
    if labels.dtype.kind in "OUST":
        label = str(label)
    elif isinstance(label, str) or (labels.dtype.kind == "b") != isinstance(label, bool):
        return np.zeros(len(labels), dtype=np.bool_)
    return np.asarray(labels == label, dtype=np.bool_)
