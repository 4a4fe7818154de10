"""How series look: colour, marker and dashes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from truerank.core.chart import Chart, Picture, Series
from truerank.core.palette import Mark, mark

# Names of the dash patterns in the style sheet; further series of one model take the next pattern.
_SOLID = ("d0", "d3", "d4")
_DASHED = ("d1", "d2", "d5")


@dataclass(frozen=True)
class Look:
    """How one series is drawn.

    Parameters
    ----------
    colour : class of its colour
    outline : path of its marker; empty for none
    dash : class of its dash pattern
    is_hollow : whether its marks are empty inside, for what was not measured
    """

    colour: str
    outline: str
    dash: str
    is_hollow: bool

    @property
    def css(self) -> str:
        """Classes of a mark."""
        return f"{self.colour} hollow" if self.is_hollow else self.colour


@dataclass(frozen=True)
class Looks:
    """The models of a page; each has one colour and one marker in all its charts.

    Examples
    --------
    >>> looks = Looks(("ease", "ials"))
    >>> looks.mark_of("ials").shape, looks.mark_of("") is None
    ('square', True)
    """

    models: tuple[str, ...]

    @classmethod
    def of(cls, models: Iterable[str], pictures: Iterable[Picture]) -> Looks:
        """Return the looks of known models, then of those that charts add, in the order of appearance."""
        charts = [picture for picture in pictures if isinstance(picture, Chart)]
        added = [series.model for chart in charts for series in chart.series if series.model]
        return cls(tuple(dict.fromkeys([*models, *added])))

    def mark_of(self, model: str) -> Mark | None:
        """Return the mark of a model, None for a reference that is no model."""
        return mark(self.models.index(model)) if model else None

    def of_series(self, series: Sequence[Series]) -> list[Look]:
        """Return the look of each series of a chart; those of one model differ by dashes."""
        found, seen = list[Look](), dict[tuple[str, bool, bool], int]()
        n_bars = sum(one.look == "bars" for one in series)
        for one in series:
            kind = (one.model, one.look in ("line", "step"), one.is_dashed)
            turn = seen.get(kind, 0)
            seen[kind] = turn + 1
            patterns = _DASHED if one.is_dashed else _SOLID
            model = self.mark_of(one.model)
            shape = _reference_outline(one, turn) if model is None else model.outline
            found.append(
                Look(
                    colour="ref" if model is None else f"c{model.colour}",
                    outline="" if one.look == "band" or (one.look == "bars" and n_bars == 1) else shape,
                    dash=patterns[turn % len(patterns)],
                    is_hollow=one.is_dashed,
                )
            )
        return found


def _reference_outline(series: Series, turn: int) -> str:
    """Return a shape for grey dots; a grey line speaks for itself."""
    return mark(turn).outline if series.look == "dots" else ""
