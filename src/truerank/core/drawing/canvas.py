"""A figure that is saved the same way every time and shows itself in a notebook."""

from __future__ import annotations

import io
from pathlib import PurePath
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

# Equal figures make equal files, and fonts in a PDF are what publishers ask for.
_SAVING: dict[Any, Any] = {
    "svg.hashsalt": "truerank",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "ps.fonttype": 42,
}
_DATES = {"svg": "Date", "svgz": "Date", "pdf": "CreationDate"}


class Canvas(Figure):
    """A matplotlib figure without a window.

    ``savefig`` writes equal bytes for equal figures: no date and no random names.
    """

    def savefig(self, fname: Any, **options: Any) -> None:
        """Save as matplotlib does: the ending of the name or ``format`` says how."""
        named = PurePath(fname).suffix[1:] if isinstance(fname, (str, PurePath)) else ""
        form = str(options.get("format") or named).lower()
        if form in _DATES:
            options["metadata"] = {_DATES[form]: None, **(options.get("metadata") or {})}
        with mpl.rc_context(_SAVING):
            super().savefig(fname, **options)

    def _repr_png_(self) -> tuple[bytes, dict[str, int]]:
        """Show in notebooks, sharp on screens with small pixels too."""
        target = io.BytesIO()
        self.savefig(target, format="png", dpi=200)
        return target.getvalue(), {"width": int(100 * self.get_figwidth())}


def make_canvas(wide: float, high: float) -> Canvas:
    """Return an empty white figure of so many inches."""
    return Canvas(figsize=(wide, high), layout="constrained", facecolor="white")
