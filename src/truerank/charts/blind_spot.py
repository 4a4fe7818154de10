"""Chart: which cut-offs a sample can resolve."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from truerank.charts.cutoff import family_name
from truerank.charts.limits import Limits
from truerank.charts.wording import about, listed
from truerank.core.chart import Chart, ChartAxis, Series, Span
from truerank.estimation import RESOLVED


def blind_spot_chart(
    limits: Mapping[str, Limits], *, n_negatives: str, wanted: float = RESOLVED, key: str = "blind-spot"
) -> Chart | None:
    """Return half the width of the bounds along K by model; None where there are no bounds.

    Parameters
    ----------
    limits : bounds of one metric by model
    n_negatives : the size of the sample in words, such as ``99 negatives``
    wanted : half-width up to which a metric counts as resolved
    key : of the chart
    """
    known = {name: one for name, one in limits.items() if one.bounds}
    if not known:
        return None
    kind = family_name(next(iter(known.values())).metric)
    lines = {name: half_widths(one) for name, one in known.items()}
    places = sorted({k for line in lines.values() for k in line})
    blind = {name: unresolved(line, wanted) for name, line in lines.items()}
    said = [_said(name, blind[name], lines[name], kind, wanted) for name in lines]
    missing = [f"{name}: {one.why}" for name, one in limits.items() if not one.bounds]
    return Chart(
        key=key,
        title=f"Blind spot: which {kind} this sample resolves",
        words=f"Half the width of what {n_negatives} allow, against K. {' '.join(said)}",
        x=ChartAxis("K", "log", "count"),
        y=ChartAxis(f"{kind} is known to within \N{PLUS-MINUS SIGN}", low=0.0),
        series=(
            Series(f"wanted: {wanted:g}", (places[0], places[-1]), (wanted, wanted), is_dashed=True),
            *(
                Series(name, tuple(map(float, line)), tuple(line.values()), model=name)
                for name, line in lines.items()
            ),
        ),
        spans=tuple(
            Span(low, high, f"not resolved to \N{PLUS-MINUS SIGN}{wanted:g}: K from {_cutoffs(low, high)}")
            for low, high in joined([span for spans in blind.values() for span in spans])
        ),
        notes=(
            "Shaded: K at which the bounds of at least one model are wider than wanted. More negatives, not "
            "a better estimator, make them narrower. A small value can be resolved because it is small.",
            *missing,
        ),
    )


def half_widths(limits: Limits) -> dict[int, float]:
    """Return half the width of each bound by cut-off."""
    return {k: bound.half_width for k, bound in limits.bounds.items()}


def unresolved(line: Mapping[int, float], wanted: float) -> list[tuple[float, float]]:
    """Return the stretches of K whose half-width exceeds what is wanted; between cut-offs lines are straight.

    Examples
    --------
    >>> unresolved({1: 0.01, 100: 0.09, 200: 0.10}, 0.05)
    [(10.0, 200.0)]
    >>> unresolved({1: 0.01, 100: 0.02}, 0.05)
    []
    """
    points = list(line.items())
    found: list[tuple[float, float]] = []
    if len(points) == 1 and points[0][1] > wanted:
        return [(float(points[0][0]), float(points[0][0]))]
    for (left, a), (right, b) in pairwise(points):
        if max(a, b) <= wanted:
            continue
        low, high = float(left), float(right)
        if min(a, b) <= wanted:
            at = (wanted - a) / (b - a)
            crossing = round(math.exp(math.log(left) + at * math.log(right / left)), 6)
            low, high = (crossing, high) if b > wanted else (low, crossing)
        found.append((low, high))
    return joined(found)


def joined(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return stretches that do not overlap and cover the same.

    Examples
    --------
    >>> joined([(5, 9), (1, 3), (3, 4), (6, 7)])
    [(1, 4), (5, 9)]
    """
    found: list[tuple[float, float]] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1]:
            found[-1] = (found[-1][0], max(high, found[-1][1]))
        else:
            found.append((low, high))
    return found


def _said(
    name: str, blind: Sequence[tuple[float, float]], line: Mapping[int, float], kind: str, wanted: float
) -> str:
    if not blind:
        return f"{name}: {kind} is resolved to {wanted:g} at every K shown."
    worst = max(line, key=lambda k: line[k])
    spans = listed([_cutoffs(low, high) for low, high in blind])
    return (
        f"{name}: {kind} is not resolved to {wanted:g} for K from {spans}; at K = {worst} it is known to "
        f"within {line[worst]:.2f} only."
    )


def _cutoffs(low: float, high: float) -> str:
    """Return a stretch in whole cut-offs."""
    return f"{about(math.ceil(low))} to {about(math.floor(high))}"
