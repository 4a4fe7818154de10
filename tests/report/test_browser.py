"""The pages in a real browser: nothing on the console, nothing cut off on a phone, no label on another."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.report.markup import HOSTILE
from tests.report.pictures import make_document, make_pictures
from tests.report.results import make_result
from truerank.core.chart import Chart, ChartAxis, Document, HeatMap, Section, Series
from truerank.core.table import Table
from truerank.report.page import render_document, render_report

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None
)
PHONE, DESKTOP = 390, 1100

# Asks every frame how wide it is and where labels lie, and writes the answers into the page.
PROBE = """
addEventListener("load", () => {
  const boxes = (root, what) => [...root.querySelectorAll(what)].map(e => e.getBoundingClientRect());
  const cross = (a, b, start, end) => a[start] < b[end] - 1 && b[start] < a[end] - 1;
  const touch = (a, b) => cross(a, b, "left", "right") && cross(a, b, "top", "bottom");
  const told = [...document.querySelectorAll("iframe")].map(frame => {
    const page = frame.contentDocument, root = page.documentElement;
    const charts = [...page.querySelectorAll("svg[role=img]")];
    const pairs = charts.map(chart => {
      const labels = boxes(chart, "text.tick");
      return labels.filter((a, i) => labels.some((b, j) => i < j && touch(a, b))).length;
    });
    const outside = boxes(page, "svg[role=img] text").filter(
      box => box.left < 0 || box.right > root.clientWidth
    );
    return {
      name: frame.title, width: root.clientWidth, needed: root.scrollWidth, charts: charts.length,
      overlaps: pairs.reduce((a, b) => a + b, 0), outside: outside.length,
      cut: [...page.querySelectorAll(".scroll")].filter(
        e => !e.closest("details:not([open])") && e.scrollWidth > e.clientWidth + 1
      ).map(e => e.getAttribute("aria-label")),
      small: [...page.querySelectorAll("svg[role=img] text")].filter(
        text => parseFloat(frame.contentWindow.getComputedStyle(text).fontSize) < 11
      ).length,
    };
  });
  document.getElementById("answers").textContent = JSON.stringify(told);
});
"""


@dataclass(frozen=True)
class Visit:
    """What a browser found: the lines of its console and the answers of the probe by name of the page."""

    console: list[str]
    answers: dict[str, dict[str, Any]]


def visit(pages: dict[str, tuple[str, int]], folder: Path) -> Visit:
    """Open all pages, each in a frame of its width, in one run of the browser."""
    assert BROWSER is not None
    frames = "".join(
        f'<iframe title="{html.escape(name)}" width="{width}" height="900" frameborder="0" '
        f'srcdoc="{html.escape(text)}"></iframe>'
        for name, (text, width) in pages.items()
    )
    file = folder / "frames.html"
    file.write_text(
        f'<!doctype html><meta charset="utf-8">{frames}<pre id="answers"></pre><script>{PROBE}</script>',
        "utf-8",
    )
    quiet = "no-first-run disable-background-networking disable-component-update disable-sync disable-gpu"
    done = subprocess.run(
        [
            BROWSER,
            *("--headless", "--no-sandbox", "--enable-logging=stderr", "--v=0", "--window-size=1400,1000"),
            *(f"--{flag}" for flag in quiet.split()),
            f"--user-data-dir={folder / 'profile'}",
            "--dump-dom",
            file.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r'<pre id="answers">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, "the browser did not show the page"
    answers = json.loads(html.unescape(found[1]))
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return Visit(console, {answer["name"]: answer for answer in answers})


def long_document() -> Document:
    """Names of 200 letters and of letters that do not break, in every place that shows one."""
    names = ("x" * 200, "推薦" * 60, HOSTILE)
    series = tuple(
        Series(name, (1, 1e6), (1e-7, n + 1.0), kind="dots", model=name) for n, name in enumerate(names)
    )
    axes = ChartAxis("x" * 200, "log", "count"), ChartAxis("y" * 200, "log")
    chart = Chart("long", "t" * 200, "w" * 200, *axes, series, notes=("n" * 200,))
    heat = HeatMap("heat", "h" * 200, "w", names, names * 3, ((0.5,) * 9,) * 3, "l" * 200, 0, 1)
    table = Table(names, (names,), "t" * 200, ("n" * 200,))
    sections = (Section("s" * 200, ("n" * 200,), (table,), (chart, heat)),)
    return Document("d" * 200, "l" * 200, sections, (("f" * 200, "v" * 200),))


@pytest.mark.slow
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium or Chrome on the path")
def test_pages_in_a_browser(tmp_path: Path) -> None:
    """At the width of a phone and of a desk: silent, no wider than the window, labels apart and inside.

    No table is wider than its place, so that nothing is hidden until a reader scrolls sideways. Negative
    controls in the same run: a script that the policy of our pages forbids, a page and a table that are too
    wide, and two labels in one place must all be found.
    """
    many = make_result(tuple(f"model-{n}(factors=64, reg=0.01)" for n in range(9)), n_items=100_000)
    result = render_report(replace(many, charts=make_pictures()))
    texts = {"result": result, "document": render_document(make_document())}
    texts["long names"] = render_document(long_document())
    texts["unfolded"] = result.replace("<details", "<details open")
    pages = {f"{name} {width}": (text, width) for name, text in texts.items() for width in (PHONE, DESKTOP)}
    label = '<svg role="img"><text class="tick" y="20">100</text></svg>'
    broken = label.replace("</svg>", '<text class="tick" y="20" x="5" font-size="8">100</text></svg>')
    controls = {
        "script": (result.replace("<main>", "<script>1</script><main>"), PHONE),
        "wide": ("<!doctype html><div style='width: 500px'>wide</div>", PHONE),
        "overlap": (f"<!doctype html>{broken}", PHONE),
        "cut": (result.replace('class="board stack', 'class="board'), PHONE),
    }
    seen = visit(pages | controls, tmp_path)

    assert len(seen.console) == 1, seen.console
    assert "Content Security Policy" in seen.console[0]
    assert seen.answers["wide"]["needed"] > PHONE
    assert seen.answers["cut"]["cut"] == ["Leaderboard"]
    assert (seen.answers["overlap"]["overlaps"], seen.answers["overlap"]["small"]) == (1, 1)

    for name, (_, width) in pages.items():
        answer = seen.answers[name]
        assert answer["width"] in range(width - 20, width + 1), answer
        assert answer["needed"] <= answer["width"], answer
        assert (answer["overlaps"], answer["outside"], answer["small"]) == (0, 0, 0), answer
        is_roomy = name == f"unfolded {DESKTOP}"  # data of a dozen models, which a reader has unfolded
        assert answer["cut"] == [] or is_roomy, answer
    assert seen.answers[f"result {PHONE}"]["charts"] == 3 + 5 + 1
