"""Where a method comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A key of ``docs/references.bib`` and the place in that work.

    Examples
    --------
    >>> str(Source("krichene2020", "Sec. 9"))
    'krichene2020, Sec. 9'
    """

    key: str
    place: str = ""

    def __str__(self) -> str:
        return f"{self.key}, {self.place}" if self.place else self.key
