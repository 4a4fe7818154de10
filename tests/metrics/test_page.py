"""The page on metrics: its examples run and its table of presets is the registry's."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

from truerank.metrics.registry import METRICS, PRESETS

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_examples_run() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert result.attempted >= 7
    assert result.failed == 0


def test_table_of_presets_is_the_registry() -> None:
    text = PAGE.read_text(encoding="utf-8").partition("## Presets")[2].partition("\n\n##")[0]
    rows = [
        [cell.strip(" `") for cell in line.strip("|").split("|")] for line in text.splitlines() if "|" in line
    ]
    header, *libraries = [row for row in rows if not re.fullmatch("-+", row[0])]
    shown = {
        f"{row[0]}.{name}": spec
        for row in libraries
        for name, spec in zip(header[2:], row[2:], strict=True)
        if spec != "–"  # noqa: RUF001
    }
    assert shown == {name: spec for name, spec in PRESETS.items() if "." in name}


def test_every_metric_has_a_line() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert all(f"| `{name}@K` |" in text for name in METRICS.table)
