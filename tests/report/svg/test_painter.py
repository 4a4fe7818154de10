"""Charts ready to be written as SVG."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.report.pictures import make_bars, make_dots, make_groups, make_lines, make_many, make_pictures
from truerank.core.chart import Chart, ChartAxis, Scale, Series, SeriesKind, Span, Unit
from truerank.report.layout import ModelStyles
from truerank.report.svg.painter import PaintedChart, paint_chart


def painted_chart(chart: Chart) -> PaintedChart:
    return paint_chart(chart, ModelStyles.of((), (chart,)))


def one(*series: Series, x: ChartAxis = ChartAxis("x"), y: ChartAxis = ChartAxis("y")) -> PaintedChart:  # noqa: B008
    return painted_chart(Chart("k", "title", "words", x, y, series))


def test_lines_lie_above_bands() -> None:
    """Areas come first, whatever the order of the series."""
    tags = [shape.css.split()[0] for shape in painted_chart(make_lines()).shapes]
    assert tags == ["bound", *["band"] * 3, *["line"] * 4]


def test_legend_names_series_and_stretches() -> None:
    """Models first, then references, then shaded stretches with their letters."""
    legend = painted_chart(make_lines()).legend
    assert [line.entry.kind for line in legend] == ["band", "line", "line", "line", "line", "span", "span"]
    assert [line.name for line in legend][-3:] == [
        "wanted",
        "K that this sample cannot resolve",
        "beyond the sample",
    ]
    assert [line.letter for line in legend][-2:] == ["A", "B"]


def test_long_names_are_shortened_in_the_legend_alone() -> None:
    """The table of the data has the whole name."""
    name = "model(" + "x" * 200 + ")"
    painted = one(Series(name, (1,), (1,), model=name))
    assert len(painted.legend[0].name) == 60
    assert painted.legend[0].entry.label == name
    assert painted.data.table.columns[1] == name


def test_shaded_stretches_are_clipped() -> None:
    """A stretch that goes on for ever ends with the axis; one beyond the axis is not drawn."""
    series = Series("a", (1, 100), (0, 1))
    spans = (Span(0, 10, "low"), Span(10, math.inf, "high"), Span(200, 300, "beyond"))
    chart = Chart("k", "", "", ChartAxis("x", "log"), ChartAxis("y"), (series,), spans)
    assert [(shade.left, shade.width, shade.letter) for shade in painted_chart(chart).shades] == [
        (0, 50, "A"),
        (50, 50, "B"),
    ]


def test_dots_at_one_place_stand_side_by_side() -> None:
    """Dots of two models at one x are moved apart by as much to either side; a reference stays there."""
    painted = painted_chart(make_dots())
    markers = [marker for marker in painted.markers if "pair 1" in marker.words]
    assert [marker.shift for marker in markers] == [0, 0]
    models = [Series(model, (1, at), (1, 1), kind="dots", model=model) for at, model in enumerate("ab", 2)]
    both = [
        marker for marker in one(*models, replace(models[0], model="")).markers if ", x 1:" in marker.words
    ]
    assert [marker.shift for marker in both] == [-5.5, 5.5, 0]
    assert len({marker.x for marker in both}) == 1
    assert all(
        marker.whisker and marker.whisker[0] < marker.y < marker.whisker[1] for marker in painted.markers
    )
    assert markers[0].words == "ease - ials, pair 1: 0.01 (0 to 0.02)"
    assert [tick.label for tick in painted.x.ticks] == ["1", "2", "3"]


def test_bars_fit_between_the_axes() -> None:
    """No bar is cut, and on a logarithmic axis even the lowest can be seen."""
    for chart in (make_bars(), make_groups()):
        painted = painted_chart(chart)
        bars = [shape for shape in painted.shapes if shape.css.startswith("bar")]
        assert len(bars) == sum(len(series.x) for series in chart.series if series.kind == "bars")
        for bar in bars:
            points = [tuple(map(float, point.split(","))) for point in bar.points.split()]
            assert all(-1 <= x <= 1001 and 0 <= y <= 1000 for x, y in points)
            assert points[0][1] > points[1][1]


def test_long_lines_have_few_markers_at_different_places() -> None:
    """Five on each of twelve lines, so that no two lines have them at the same x."""
    markers = painted_chart(make_many()).markers
    assert len(markers) == 5 * 12
    assert len({marker.x for marker in markers}) == 5 * 12
    assert len(painted_chart(make_lines()).markers) == 3 * 10


def test_what_cannot_be_drawn_is_said() -> None:
    """Points beyond the axes, at 0 on a logarithmic axis, or none at all."""
    line = Series("a", (1, 2, 3), (0.5, 2.0, 0.0), kind="dots")
    beyond = one(line, y=ChartAxis("y", low=0, high=1))
    assert beyond.notes == ("1 point lies beyond the axes and can be found in the data.",)
    assert beyond.is_cut
    assert len(beyond.markers) == 2
    below = one(line, y=ChartAxis("y", "log"))
    assert "1 point at 0 or below cannot be shown on a logarithmic axis" in below.notes[0]
    assert one().notes == ("This chart is empty: no series has a point.",)
    assert not one(line).notes


def test_points_without_a_value_are_named_in_the_data() -> None:
    """The table says how many points it leaves out."""
    painted = one(Series("a", (1, 2, 3), (0.5, math.nan, 0.1)), Series("b", (2,), (0.2,), (math.inf,), (1,)))
    assert painted.data.note == "2 points without a finite value left out."
    assert [row[0] for row in painted.data.table.rows] == ["1", "3"]


def test_alternative_text_falls_back_on_the_title() -> None:
    assert (
        replace(painted_chart(make_lines()), chart=replace(make_lines(), words="")).words
        == "recall@K against K"
    )


values = st.one_of(
    st.floats(-1e30, 1e30).filter(lambda value: abs(value) > 1e-30),
    st.integers(-5, 10**7),
    st.sampled_from([math.nan, math.inf, -math.inf]),
)
looks: st.SearchStrategy[SeriesKind] = st.sampled_from(["line", "step", "bars", "dots", "band"])
scales: st.SearchStrategy[Scale] = st.sampled_from(["linear", "log"])
units: st.SearchStrategy[Unit] = st.sampled_from(["number", "count", "share"])


@st.composite
def charts(draw: st.DrawFn) -> Chart:
    """Anything that the types allow."""
    series = []
    for _ in range(draw(st.integers(0, 3))):
        look = draw(looks)
        size = draw(st.integers(0, 15))
        numbers = st.tuples(*[values] * size)
        ends = (draw(numbers), draw(numbers)) if draw(st.booleans()) else ((), ())
        model = draw(st.sampled_from(["", "a", "b"]))
        series.append(
            Series("s", draw(numbers), draw(numbers), *ends, look, model, is_dashed=draw(st.booleans()))
        )
    axes = [ChartAxis("x", draw(scales), draw(units)) for _ in range(2)]
    spans = [Span(draw(values), draw(values), "span") for _ in range(draw(st.integers(0, 2)))]
    return Chart("k", "t", "w", axes[0], axes[1], tuple(series), tuple(spans))


@settings(max_examples=60, deadline=None)
@given(charts())
def test_anything_can_be_painted_chart(chart: Chart) -> None:
    """Whatever numbers a chart holds, all places are finite and the marks lie inside."""
    painted = painted_chart(chart)
    numbers = [float(n) for shape in painted.shapes for n in shape.points.replace(",", " ").split()]
    assert all(math.isfinite(number) for number in numbers)
    for marker in painted.markers:
        assert -0.1 <= marker.x <= 100.1
        assert -0.1 <= marker.y <= 100.1
    for shade in painted.shades:
        assert 0 <= shade.left < shade.left + shade.width <= 100.01


@pytest.mark.parametrize("picture", [p for p in make_pictures() if isinstance(p, Chart)], ids=lambda p: p.key)
def test_every_kind_has_words_marks_and_data(picture: Chart) -> None:
    painted = painted_chart(picture)
    assert painted.words == picture.words
    assert painted.shapes or painted.markers
    assert 0 < len(painted.data.table.rows) <= 60
