"""The measured tables of docs/comparison.md, between comments that say where they begin and end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.rivals.entry import ENTRIES
from benchmarks.rivals.show import FLOOR, verdict

BUSY = 1.5
PAGE = Path(__file__).parents[2] / "docs" / "comparison.md"


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (heads, *rows)]
    return [lines[0], "|---" * len(heads) + "|", *lines[1:]]


def put(name: str, lines: Sequence[str]) -> None:
    """Replace what the page has between ``<!-- begin: name -->`` and ``<!-- end: name -->``."""
    text = PAGE.read_text()
    begin, end = f"<!-- begin: {name} -->\n", f"<!-- end: {name} -->\n"
    before, middle, after = re.split(
        f"({re.escape(begin)}.*?{re.escape(end)})", text, maxsplit=1, flags=re.DOTALL
    )
    assert middle, f"the page has no place for {name}"
    PAGE.write_text(before + begin + "\n".join(lines) + "\n" + end + after)


def write_page(result: dict[str, Any]) -> None:
    """Write all measured tables."""
    host, load = result["machine"], max(table["load"] for table in result["jobs"])
    put(
        "machine",
        [
            f"{host['cpu']}, {host['cores']} cores, Python {host['python']}. "
            f"Load average at the end of a job: at most {load:.0f}"
            + (", so look at CPU seconds." if load > BUSY * host["cores"] else "."),
        ],
    )
    for table in result["jobs"]:
        rows = {name: row for name, row in table["rows"].items() if "error" not in row}
        failed = {name: row["error"] for name, row in table["rows"].items() if "error" in row}
        missing = [f"\n{name}: {error}." for name, error in failed.items()]
        put(table["job"], (times(rows) if table["timed"] else values(rows)) + missing)
    put("versions", [versions(result)])


def times(rows: dict[str, Any]) -> list[str]:
    """Return the table of a timed job."""
    floor = rows[FLOOR]["best"]["wall_s"]
    cpu_floor = rows[FLOOR]["least_cpu_s"]
    heads = [
        "",
        "seconds",
        "times truerank's",
        "CPU seconds",
        "times truerank's",
        "metrics alone",
        "peak MB",
        "values",
    ]
    body = []
    for name, row in rows.items():
        best = row["best"]
        metric = f"{best['metric_wall_s']:.3f}" if "metric_wall_s" in best else ""
        body.append(
            [
                name,
                f"{best['wall_s']:.3f}",
                f"{best['wall_s'] / floor:.1f}",
                f"{row['least_cpu_s']:.3f}",
                f"{row['least_cpu_s'] / cpu_floor:.1f}",
                metric,
                f"{row['peak_mb']:.0f}",
                verdict(row["values"]),
            ]
        )
    return markdown(heads, body)


def values(rows: dict[str, Any]) -> list[str]:
    """Return the table of the job with ties: what is printed, and what the order of tied items can do."""
    body = []
    for name, row in rows.items():
        for metric in row["values"].values():
            if "spec" in metric:
                numbers = [f"{metric[key]:.4f}" for key in ("found", "expected", "worst", "best")]
                body.append([name, f"`{metric['spec']}`", *numbers])
    return markdown(["", "definition", "printed", "mean over all orders", "worst order", "best order"], body)


def versions(result: dict[str, Any]) -> str:
    """Return the versions that were measured."""
    rows = result["jobs"][0]["rows"]
    found = {entry.library: rows[entry.name].get("version") for entry in ENTRIES}
    return ", ".join(f"{library} {number}" for library, number in found.items() if number) + "."
