"""Charts of every kind, for the tests of the drawing."""

from __future__ import annotations

import math
from typing import Any

from truerank.core.chart import Chart, ChartAxis, HeatMap, Picture, Series, Span

LONG = "item-knn(power=3, norm=l2, neighbours=200, shrink=10)"
ODD = ("_popularity", "ease(reg=500)", LONG, "a$_$b <i>&\\")
CUTOFFS = (1.0, 2.0, 5.0, 10.0, 50.0, 100.0, 1000.0)
K = ChartAxis("K", "log", "count")


def line(name: str, height: float = 0.1, **options: Any) -> Series:
    y = tuple(min(1.0, height * k**0.3) for k in CUTOFFS)
    low, high = tuple(0.8 * value for value in y), tuple(1.1 * value for value in y)
    return Series(name, CUTOFFS, y, low, high, **{"model": name, **options})


def chart(key: str, *series: Series, x: ChartAxis = K, y: ChartAxis | None = None, **options: Any) -> Chart:
    title = f"Chart of {key}, and words that go on and on to see where the title of a chart WRAPS"
    return Chart(key, title, "", x, y or ChartAxis("value"), series, **options)


def heat_map(**options: Any) -> HeatMap:
    values = ((0.98, 0.5, -0.2), (1.0, None, 0.0), (-1.0, math.nan, 0.3))
    fields: dict[str, Any] = {"rows": ("random", LONG, "a$_$b"), "columns": ("50 %", "20 %", "10 %")}
    fields |= {"values": values, "label": "Kendall's tau", "low": -1.0, "high": 1.0, "middle": 0.0}
    title = "A heat map that has a long title with some CAPITALS in it"
    return HeatMap("heat", title, "", **{**fields, **options})


PICTURES: dict[str, Picture] = {
    "lines": chart("lines", *(line(name, 0.05 * at) for at, name in enumerate(ODD, start=1))),
    "all": chart(
        "all",
        line("bounds of ease", 0.06, kind="band", model=ODD[1]),
        line(ODD[1], 0.05, kind="step"),
        Series("chance", (1, 1000), (0.001, 1.0), is_dashed=True),
        y=ChartAxis("recall@K", unit="share", low=0, high=1),
        spans=(Span(1, 8, "K that 99 negatives cannot resolve"),),
    ),
    "bars": chart("bars", line("exact", kind="bars"), line("sampled", 0.2, kind="bars")),
    "log bars": chart(
        "log bars",
        *(Series(name, (at,), (10.0 ** (3 + at),), kind="bars", model=name) for at, name in enumerate(ODD)),
        x=ChartAxis("model", unit="count"),
        y=ChartAxis("scores", "log", "count"),
    ),
    "dots": chart("dots", line("a", kind="dots"), line("reference", kind="dots", model="")),
    "one": chart("one", Series("ease", (10,), (0.3,), model="ease"), x=ChartAxis("K")),
    "gaps": chart(
        "gaps",
        Series("gap", (1, 2, 3, 4), (0.3, math.nan, 0.4, 0.5), model="gap"),
        Series("nothing", (1, 2), (math.nan, math.nan), model="nothing"),
    ),
    "empty": chart("empty", x=ChartAxis("x")),
    "twelve": chart("twelve", *(line(f"model number {at}", 0.02 * at) for at in range(1, 13))),
    "small": chart("small", Series("a", (1, 2), (1e-6, 3e-6), model="a"), x=ChartAxis("x")),
    "large": chart("large", Series("a", (1, 1e8), (1e6, 9e6), model="a"), y=ChartAxis("n", unit="count")),
    "heat": heat_map(),
    "wide heat": heat_map(
        columns=tuple(f"implicit: ndcg@{at}" for at in range(12)),
        values=tuple(tuple(float(at) for at in range(12)) for _ in range(3)),
        low=0.0,
        high=11.0,
        middle=None,
    ),
}
