"""Rows of the result as the file holds them: the metrics of one case in one row."""

from __future__ import annotations

from itertools import groupby
from typing import Any

_CASE = ("data", "model", "design", "estimator", "uncertainty", "repeats")
_EACH = ("metric", "exact", "coverage", "width", "bias")
_DIGITS = 6


def packed(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per case, with lists over metrics.

    Examples
    --------
    >>> case = dict.fromkeys(("data", "model", "design", "estimator", "uncertainty"), "a") | {"repeats": 5}
    >>> (row,) = packed([case | {"metric": "ap@1", "method": "x"}, case | {"metric": "ap@2", "method": "x"}])
    >>> row["metric"], row["method"]
    (['ap@1', 'ap@2'], ['x'])
    """
    found = []
    for case, group in groupby(rows, key=lambda row: tuple(row[name] for name in _CASE)):
        own = list(group)
        row: dict[str, Any] = dict(zip(_CASE, case, strict=True))
        row["method"] = sorted({one["method"] for one in own})
        for name in _EACH:
            if name in own[0]:
                row[name] = [_rounded(one[name]) for one in own]
        found.append(row)
    return found


def unpacked(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return one row per case and metric.

    Examples
    --------
    >>> unpacked([{"data": "a", "metric": ["ap@1", "ap@2"], "width": [0.1, 0.2], "method": ["x"]}])[1]
    {'data': 'a', 'method': ['x'], 'metric': 'ap@2', 'width': 0.2}
    """
    return [
        {name: value for name, value in row.items() if name not in _EACH}
        | {name: row[name][place] for name in _EACH if name in row}
        for row in rows
        for place in range(len(row["metric"]))
    ]


def _rounded(value: Any) -> Any:
    return round(value, _DIGITS) if isinstance(value, float) else value
