"""Write the decision figure of docs/which_method.md: ``python scripts/decision_figure.py``.

The picture has a card of its own, so that it can be read on light and on dark pages.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
WIDTH, HEIGHT = 960, 600
INK, PAPER, QUESTION, ANSWER, LINE = "#1b2a33", "#fbfaf7", "#dbe9f1", "#1f5673", "#6d7f8a"
ALT = (
    "Decision figure. Can you ask the model for scores? If yes and scores are cheap, rank all items. If they "
    "are slow, draw users until the precision is reached, or take adaptive samples where only samples can be "
    "ranked. If you only have sampled ranks that were drawn uniformly, estimate and look at the bounds; "
    "otherwise report them as they are."
)


@dataclass(frozen=True)
class Box:
    """A question or an answer, centred at (x, y)."""

    x: int
    y: int
    lines: tuple[str, ...]
    command: str = ""
    width: int = 250

    @property
    def height(self) -> int:
        """Of the box, from its lines."""
        return 26 + 21 * (len(self.lines) + bool(self.command))

    def render(self) -> str:
        """Return the box as SVG."""
        fill, ink = (ANSWER, "#ffffff") if self.command else (QUESTION, INK)
        left, top = self.x - self.width // 2, self.y - self.height // 2
        parts = [
            f'<rect x="{left}" y="{top}" width="{self.width}" height="{self.height}" rx="9" fill="{fill}"/>'
        ]
        written = [
            *((line, "600" if self.command and i == 0 else "400", "") for i, line in enumerate(self.lines))
        ]
        if self.command:
            written.append(
                (
                    self.command,
                    "400",
                    ' font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12.5"',
                )
            )
        for i, (line, weight, extra) in enumerate(written):
            parts.append(
                f'<text x="{self.x}" y="{top + 28 + 21 * i}" fill="{ink}" font-weight="{weight}"{extra}>'
                f"{escape(line)}</text>"
            )
        return "\n".join(parts)


def arrow(start: Box, end: Box, label: str) -> str:
    """Return a line from the bottom of one box to the top of another, with a word on it."""
    x1, y1, x2, y2 = start.x, start.y + start.height // 2, end.x, end.y - end.height // 2 - 7
    middle = (y1 + y2) // 2
    width = 8 * len(label) + 12
    at = (x1 + x2) // 2 if x1 != x2 else x1
    return (
        f'<path d="M{x1},{y1} C{x1},{middle} {x2},{middle} {x2},{y2}" fill="none" stroke="{LINE}" '
        f'stroke-width="2" marker-end="url(#tip)"/>\n'
        f'<rect x="{at - width // 2}" y="{middle - 11}" width="{width}" height="20" fill="{PAPER}"/>'
        f'<text x="{at}" y="{middle + 4}" fill="{INK}" font-size="13" font-style="italic">'
        f"{escape(label)}</text>"
    )


def figure() -> str:
    """Return the figure as SVG."""
    ask = Box(480, 52, ("Can you ask the model for scores?",), width=300)
    cheap = Box(300, 180, ("Are scores cheap?", "(factors, item weights, arrays)"))
    table = Box(765, 180, ("Were the negatives", "drawn uniformly?"), width=220)
    exact = Box(140, 340, ("Rank all items", "exact, with intervals over users"), "truerank evaluate")
    slow = Box(430, 340, ("Can whole rows be scored,", "for some users?"), width=230)
    estimate = Box(665, 340, ("Estimate", "and look at the bounds"), "truerank estimate", width=190)
    naive = Box(861, 340, ("Report as it is", "no word on all items"), "--estimator naive", width=176)
    precision = Box(
        300,
        500,
        ("Draw users until it is precise", "unbiased, stops by itself"),
        "evaluate --precision 0.01",
        width=280,
    )
    adaptive = Box(
        610,
        500,
        ("Adaptive samples", "then smooth or mle, and bounds"),
        "evaluate --sampler adaptive",
        width=280,
    )
    boxes = (ask, cheap, table, exact, slow, estimate, naive, precision, adaptive)
    arrows = (
        arrow(ask, cheap, "yes"),
        arrow(ask, table, "no, only sampled ranks"),
        arrow(cheap, exact, "yes"),
        arrow(cheap, slow, "no, slow to ask"),
        arrow(table, estimate, "yes"),
        arrow(table, naive, "no"),
        arrow(slow, precision, "yes"),
        arrow(slow, adaptive, "no"),
    )
    inside = "\n".join([*arrows, *(box.render() for box in boxes)])
    note = "Two models? truerank compare on ranks of the same users.   How much is enough? truerank plan."
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"
  aria-labelledby="title"
  font-family="system-ui, 'Segoe UI', Roboto, sans-serif" font-size="15" text-anchor="middle">
<title id="title">{ALT}</title>
<defs><marker id="tip" viewBox="0 0 8 8" refX="5" refY="4" markerWidth="6" markerHeight="6" orient="auto">
<path d="M0,0 L8,4 L0,8 Z" fill="{LINE}"/></marker></defs>
<rect width="{WIDTH}" height="{HEIGHT}" rx="14" fill="{PAPER}"/>
{inside}
<text x="{WIDTH // 2}" y="{HEIGHT - 18}" fill="{INK}" font-size="13">{note}</text>
</svg>
"""


if __name__ == "__main__":
    (PROJECT / "docs" / "pictures" / "which_method.svg").write_text(figure())
