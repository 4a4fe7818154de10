"""Charts of all kinds made by hand, for the tests of the report."""

from __future__ import annotations

import math

from tests.report.results import MODELS
from truerank.core.chart import Chart, ChartAxis, Document, HeatMap, Picture, Section, Series, Span
from truerank.core.table import Table

CUTOFFS = (1, 2, 3, 5, 10, 20, 50, 100, 200, 500)


def make_lines() -> Chart:
    """Metric against K with intervals, bounds, a reference and two shaded stretches."""
    lines = [
        Series(
            f"{model} estimate",
            CUTOFFS,
            tuple(_recall(at, k) for k in CUTOFFS),
            tuple(0.9 * _recall(at, k) for k in CUTOFFS),
            tuple(1.1 * _recall(at, k) for k in CUTOFFS),
            model=model,
        )
        for at, model in enumerate(MODELS)
    ]
    bounds = Series(
        f"{MODELS[2]} bounds",
        CUTOFFS,
        tuple(_recall(2, k) for k in CUTOFFS),
        tuple(0.5 * _recall(2, k) for k in CUTOFFS),
        tuple(1.2 * _recall(2, k) for k in CUTOFFS),
        kind="band",
        model=MODELS[2],
    )
    return Chart(
        "metric-by-cutoff",
        "recall@K against K",
        "recall@K grows with K for all three models.",
        ChartAxis("K", "log", "count"),
        ChartAxis("recall@K"),
        (bounds, *lines, Series("wanted", (1, 500), (0.3, 0.3), is_dashed=True)),
        (Span(1, 7, "K that this sample cannot resolve"), Span(300, math.inf, "beyond the sample")),
        ("Bands are 95 % intervals.",),
    )


def make_bars() -> Chart:
    """A histogram on a logarithmic axis with the inferred distribution over it."""
    ranks = tuple(round(1.4**power, 3) for power in range(24))
    shares = tuple(math.exp(-((power - 12) ** 2) / 30) / 10 for power in range(24))
    return Chart(
        "rank-distribution",
        "Rank distribution",
        "Most targets lie between rank 20 and rank 200.",
        ChartAxis("rank", "log", "count"),
        ChartAxis("share of targets", unit="share"),
        (
            Series("ease(reg=500) sampled", ranks, shares, kind="bars", model=MODELS[2]),
            Series(
                "ease(reg=500) inferred", ranks, shares[::-1], kind="step", model=MODELS[2], is_dashed=True
            ),
        ),
    )


def make_dots() -> Chart:
    """Differences of pairs, numbered, with their intervals and the bounds in grey."""
    dots = [
        Series(
            f"{a} - {b}", (n,), (0.02 - 0.01 * n,), (0.01 - 0.01 * n,), (0.03 - 0.01 * n,), "dots", f"{a}-{b}"
        )
        for n, (a, b) in enumerate((("ease", "ials"), ("ease", "pop"), ("ials", "pop")), start=1)
    ]
    grey = Series("identification bounds", (1, 2, 3), (0, 0, 0), (-0.1,) * 3, (0.1,) * 3, "dots")
    zero = Series("no difference", (1, 3), (0, 0), is_dashed=True)
    axes = ChartAxis("pair"), ChartAxis("difference of ndcg@10")
    return Chart("forest", "Differences", "The first pair differs.", *axes, (*dots, grey, zero))


def make_groups() -> Chart:
    """Several models side by side as bars, on a logarithmic upright axis."""
    series = [
        Series(model, (1, 2, 3), tuple(10.0 ** (at + n) for n in range(3)), kind="bars", model=model)
        for at, model in enumerate(MODELS)
    ]
    axes = ChartAxis("size", unit="count"), ChartAxis("seconds", "log")
    return Chart("cost", "Cost by size", "It grows tenfold.", *axes, tuple(series))


def make_many() -> Chart:
    """Twelve models over many points."""
    xs = tuple(range(1, 301))
    series = [
        Series(f"model-{n}(factors={2**n})", xs, tuple(_recall(n / 3, k) for k in xs), model=f"model-{n}")
        for n in range(12)
    ]
    return Chart("many", "Twelve models", "They cross.", ChartAxis("K"), ChartAxis("recall"), tuple(series))


def make_heat_map(*, middle: float | None = 0.0) -> HeatMap:
    """Strategies by shares kept, with a hole."""
    rows = ("random", "user-rw(steps=10)", "svp-cf-prop(proxy=bias, unit=user)")
    columns = tuple(f"{percent} %" for percent in (1, 5, 10, 20, 40, 60, 80))
    values = tuple(
        tuple(None if (i, j) == (1, 0) else round(0.3 * i + 0.1 * j - 0.4, 3) for j in range(7))
        for i in range(3)
    )
    return HeatMap(
        "tau-by-fraction",
        "Tau by share kept",
        "It grows to the right.",
        rows,
        columns,
        values,
        "tau",
        -1,
        1,
        middle,
    )


def make_pictures() -> tuple[Picture, ...]:
    """One picture of every kind."""
    return make_lines(), make_bars(), make_dots(), make_groups(), make_many(), make_heat_map()


def make_document() -> Document:
    """A document with all that one may hold."""
    table = Table(
        ("pair", "difference", "verdict"),
        (("ease - ials", "0.0123", "ease is better whatever the ranks are that nobody has seen"),),
        "Differences",
        ("Positive means that the first is better.",),
        strong=frozenset({(0, 1)}),
    )
    lines, *rest = make_pictures()
    return Document(
        "compare: ease against ials",
        "ease is better than ials.",
        (
            Section("Verdicts", ("One pair.",), (table,), (lines,)),
            Section("Charts", charts=tuple(rest)),
            Section("Rank distribution", charts=(make_bars(),)),
        ),
        (("command", "truerank compare a.csv b.csv"), ("seed", "12345")),
    )


def _recall(at: float, cutoff: float) -> float:
    return 0.9 * (1 - math.exp(-(cutoff**0.6) * (0.06 + 0.03 * at)))
