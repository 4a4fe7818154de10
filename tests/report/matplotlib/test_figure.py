"""Charts as figures: what is drawn is what the chart holds."""

from __future__ import annotations

import io
import math
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.text import Text

from tests.core.test_chart import luminance
from tests.report.matplotlib.pictures import CUTOFFS, LONG, ODD, PICTURES, chart, heat_map, line
from truerank.core.chart import LIGHT, Chart, ChartAxis, HeatMap, Scale, Series, SeriesKind, Span, model_mark
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.table import MISSING
from truerank.report.axis import padded_range
from truerank.report.layout import text_colour
from truerank.report.matplotlib.axes import figure_ticks
from truerank.report.matplotlib.figure import cell_colour, plot


def saved(drawn: Figure, form: str) -> bytes:
    target = io.BytesIO()
    drawn.savefig(target, format=form)
    return target.getvalue()


def laid_out(drawn: Figure) -> Any:
    """Decide where everything is, as saving does."""
    canvas: Any = FigureCanvasAgg(drawn)
    canvas.draw()
    return canvas.get_renderer()


@pytest.mark.parametrize("name", PICTURES)
def test_every_text_can_be_read(name: str) -> None:
    """None is small, cut off or taken for a formula, and ticks do not touch each other."""
    drawn = plot(PICTURES[name])
    renderer = laid_out(drawn)
    found: list[Any] = drawn.findobj(Text)
    texts = [text for text in found if text.get_visible() and text.get_text()]
    assert min(text.get_fontsize() for text in texts) >= 7.5
    assert not [text.get_text() for text in texts if "$" in text.get_text() and text.get_parse_math()]
    for text in texts:
        box = text.get_window_extent(renderer)
        assert box.x0 >= -1, text
        assert box.x1 <= drawn.bbox.width + 1, text
        assert box.y0 >= -1, text
        assert box.y1 <= drawn.bbox.height + 1, text
    axes = drawn.axes[0]
    across = [label for label in axes.get_xticklabels() if label.get_rotation() == 0]
    for side, labels in (("x", across), ("y", axes.get_yticklabels())):
        boxes = [label.get_window_extent(renderer) for label in labels]
        places = sorted((getattr(box, side + "0"), getattr(box, side + "1")) for box in boxes)
        assert all(first[1] <= second[0] for first, second in pairwise(places))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["svg", "pdf", "png"])
def test_equal_charts_give_equal_files(form: str) -> None:
    before = dict(mpl.rcParams)
    first, again, other = (saved(plot(PICTURES[name]), form) for name in ("all", "all", "dots"))
    assert first == again
    assert first != other
    assert b"date>" not in first.lower()
    assert dict(mpl.rcParams) == before


def test_plain_matplotlib_files_differ() -> None:
    """The negative control: without our canvas two equal figures are not equal files."""
    drawn = plot(PICTURES["all"])
    files = []
    for _ in range(2):
        target = io.BytesIO()
        Figure.savefig(drawn, target, format="svg", metadata={"Date": None})
        files.append(target.getvalue())
    assert files[0] != files[1]


def test_a_notebook_shows_it() -> None:
    data, size = plot(PICTURES["lines"])._repr_png_()  # type: ignore[attr-defined]
    assert data.startswith(b"\x89PNG")
    assert size == {"width": 340}


def test_lines_bands_and_legend() -> None:
    """Points are where the chart says, models keep colour and marker, all names are in the legend."""
    drawn = plot(PICTURES["lines"], models=["other", *ODD])
    axes = drawn.axes[0]
    for at, (series, drawn_line) in enumerate(zip(PICTURES["lines"].series, axes.lines, strict=True)):  # type: ignore[union-attr]
        np.testing.assert_array_equal(drawn_line.get_xdata(), series.x)
        np.testing.assert_array_equal(drawn_line.get_ydata(), series.y)
        assert drawn_line.get_color() == LIGHT[model_mark(at + 1).colour]
        assert drawn_line.get_marker() == model_mark(at + 1).code
        edges = axes.collections[at].get_paths()[0].get_extents()
        assert (edges.y0, edges.y1) == pytest.approx((min(series.low), max(series.high)))
    names = [text.get_text() for text in drawn.legends[0].get_texts()]
    assert [names[0], names[1], names[3]] == [ODD[0], ODD[1], ODD[3]]
    assert names[2].startswith(LONG[:20])


def test_later_series_lie_on_top() -> None:
    axes = plot(PICTURES["all"]).axes[0]
    depths = [artist.get_zorder() for artist in (axes.collections[0], axes.collections[1], axes.lines[-1])]
    assert depths == sorted(depths)
    assert axes.lines[0].get_drawstyle() == "steps-post"
    assert axes.lines[-1].get_linestyle() == "--"


def test_bars_share_their_slots() -> None:
    """Two series side by side fill each slot, edges half way between neighbours on the scale of the axis."""
    axes = plot(PICTURES["bars"]).axes[0]
    series = PICTURES["bars"].series  # type: ignore[union-attr]
    bars = [(bar.get_x(), bar.get_x() + bar.get_width(), bar.get_height()) for bar in axes.patches]  # type: ignore[attr-defined]
    exact, sampled = bars[: len(CUTOFFS)], bars[len(CUTOFFS) :]
    assert [height for *_, height in exact] == pytest.approx(series[0].y)
    assert [height for *_, height in sampled] == pytest.approx(series[1].y)
    for (begin, middle, _), (again, end, _), x in zip(exact, sampled, CUTOFFS, strict=True):
        assert middle == pytest.approx(again)
        assert begin < x < end
        assert math.log(middle / begin) == pytest.approx(math.log(end / middle))
    assert sampled[1][1] == pytest.approx(math.sqrt(2 * 5))
    assert axes.get_ylim()[0] == 0


def test_bars_on_a_logarithmic_axis_end_at_their_value() -> None:
    axes = plot(PICTURES["log bars"]).axes[0]
    tops = [bar.get_y() + bar.get_height() for bar in axes.patches]  # type: ignore[attr-defined]
    assert tops == pytest.approx([10.0**power for power in (3, 4, 5, 6)])


def test_dots_have_whiskers() -> None:
    axes = plot(PICTURES["dots"]).axes[0]
    series = PICTURES["dots"].series[0]  # type: ignore[union-attr]
    ends_drawn = [segment[:, 1].tolist() for segment in axes.collections[0].get_segments()]  # type: ignore[attr-defined]
    assert ends_drawn == [[low, high] for low, high in zip(series.low, series.high, strict=True)]


def test_unknown_ends_have_no_whisker() -> None:
    dots = Series("a", (1, 2), (0.5, 0.6), (0.4, math.nan), (0.6, math.nan), kind="dots", model="a")
    assert len(plot(chart("dots", dots)).axes[0].collections[0].get_segments()) == 1  # type: ignore[attr-defined]


def test_missing_values_are_gaps_and_missing_series_are_not_named() -> None:
    drawn = plot(PICTURES["gaps"])
    assert np.isnan(drawn.axes[0].lines[0].get_ydata()).tolist() == [False, True, False, False]
    assert not drawn.legends
    assert [text.get_text() for text in plot(PICTURES["empty"]).axes[0].texts] == ["no values"]


def test_spans_are_shaded_and_named() -> None:
    one = chart("span", line("a"), spans=(Span(0, math.inf, "everything"),))
    drawn = plot(one)
    box = drawn.axes[0].patches[0].get_extents().transformed(drawn.axes[0].transData.inverted())
    assert (box.x0, box.x1) == pytest.approx(drawn.axes[0].get_xlim())
    assert [text.get_text() for text in drawn.legends[0].get_texts()] == ["a", "everything"]


@pytest.mark.parametrize("name", ["lines", "heat"])
def test_into_axes_that_are_given(name: str) -> None:
    figure = Figure(figsize=(8, 3))
    left, right = figure.subplots(1, 2)
    assert plot(PICTURES[name], axes=right, title=False) is figure
    assert not left.has_data()
    assert right.get_title(loc="left") == ""
    assert right.patches or right.lines
    right.remove()
    with pytest.raises(InvalidParameter, match="axes must belong to a figure"):
        plot(PICTURES[name], axes=right)


@pytest.mark.parametrize(("x", "y"), [((0, 1), (1, 1)), ((1, 2), (1, 0))])
def test_logarithms_need_values_above_zero(x: tuple[float, ...], y: tuple[float, ...]) -> None:
    log = ChartAxis("a", "log")
    with pytest.raises(InvalidData, match=r"values above 0, but 'ease' of the chart 'bad' has [xy] = 0\."):
        plot(chart("bad", Series("ease", x, y), x=log, y=log))
    plot(chart("good", Series("ease", x, y), x=ChartAxis("a"), y=ChartAxis("b")))


NUMBERS = st.floats(-1e9, 1e9).filter(lambda value: value == 0 or abs(value) > 1e-9)


@settings(max_examples=60)
@given(
    st.lists(NUMBERS, min_size=1, max_size=5),
    st.sampled_from(["linear", "log"]),
    st.sampled_from(["number", "count", "share"]),
)
@example([0.01], "linear", "number")
def test_ticks_lie_on_the_axis_and_differ(values: list[float], scale: str, unit: str) -> None:
    axis = ChartAxis("a", scale, unit)  # type: ignore[arg-type]
    values = [abs(value) or 1.0 for value in values] if scale == "log" else values
    low, high = padded_range(axis, values)
    assert low < min(values)
    assert max(values) < high
    found = figure_ticks(low, high, axis)
    assert len(found) <= 6
    slack = 1e-9 * (high - low)  # an end may be a round number up to rounding
    assert all(low - slack <= value <= high + slack for value, _ in found)
    assert len({label for _, label in found}) == len(found)


@pytest.mark.parametrize(
    ("low", "high", "scale", "unit", "labels"),
    [
        (0, 1, "linear", "number", ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        (-0.1, 0.1, "linear", "number", ["-0.10", "-0.05", "0.00", "0.05", "0.10"]),
        (0, 3, "linear", "count", ["0", "1", "2", "3"]),
        (0, 4e6, "linear", "count", ["0", "1M", "2M", "3M", "4M"]),
        (0.001, 1, "log", "number", ["0.001", "0.01", "0.1", "1"]),
        (1, 1e6, "log", "count", ["1", "100", "10,000", "1M"]),
        (1e5, 3e6, "log", "count", ["0.1M", "0.2M", "0.5M", "1M", "2M"]),
        (0.01, 1, "log", "share", ["1 %", "10 %", "100 %"]),
    ],
)
def test_ticks_are_written_in_full(low: float, high: float, scale: str, unit: str, labels: list[str]) -> None:
    found = figure_ticks(low, high, ChartAxis("a", scale, unit))  # type: ignore[arg-type]
    assert [label.replace("\N{NO-BREAK SPACE}", " ") for _, label in found] == [
        label.replace("-", "\N{MINUS SIGN}") for label in labels
    ]


@st.composite
def any_charts(draw_from: st.DrawFn) -> Chart:
    """Charts with points anywhere, gaps, unknown ends, and axes that may be too short."""
    looks: list[SeriesKind] = ["line", "step", "bars", "dots", "band"]
    both: list[Scale] = ["linear", "log"]
    scales = {side: draw_from(st.sampled_from(both)) for side in "xy"}
    values = {
        side: st.floats(1e-6, 1e9) if scale == "log" else NUMBERS | st.just(math.nan)
        for side, scale in scales.items()
    }
    series = []
    for position in range(draw_from(st.integers(0, 3))):
        n = draw_from(st.integers(0, 4))
        x = sorted(draw_from(st.lists(st.floats(1e-6, 1e9), min_size=n, max_size=n)))
        y, low, high = (draw_from(st.lists(values["y"], min_size=n, max_size=n)) for _ in range(3))
        look = draw_from(st.sampled_from(looks))
        has_ends = look == "band" or draw_from(st.booleans())
        series.append(
            Series(
                label=draw_from(st.sampled_from(["", "_", "$", LONG])),
                x=tuple(x),
                y=tuple(y),
                low=tuple(low) if has_ends else (),
                high=tuple(high) if has_ends else (),
                kind=look,
                model=draw_from(st.sampled_from(["", "a", f"b{position}"])),
                is_dashed=draw_from(st.booleans()),
            )
        )
    axes = [
        ChartAxis(
            "axis",
            scales[side],
            low=draw_from(st.sampled_from([None, 0, 1])),
            high=draw_from(st.sampled_from([None, 1])),
        )
        for side in "xy"
    ]
    return chart("any", *series, x=axes[0], y=axes[1])


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(any_charts())
def test_any_chart_can_be_drawn(given_chart: Chart) -> None:
    """Without a warning, as warnings are errors; what has no values says so."""
    drawn = plot(given_chart)
    laid_out(drawn)
    named = [
        one for one in given_chart.series if any(map(math.isfinite, one.low if one.kind == "band" else one.y))
    ]
    assert len(drawn.axes[0].texts) == (not named)
    assert bool(drawn.legends) is (len(named) > 1)


def test_heat_map_cells() -> None:
    drawn = plot(heat_map())
    axes = drawn.axes[0]
    numbers = [text.get_text().replace("\N{MINUS SIGN}", "-") for text in axes.texts]
    assert numbers == ["0.98", "0.50", "-0.20", "1.00", MISSING, "0.00", "-1.00", MISSING, "0.30"]
    assert [bool(box.get_hatch()) for box in axes.patches] == [number == MISSING for number in numbers]
    for at, colour in ((3, LIGHT[0]), (5, "white"), (6, LIGHT[1])):
        assert axes.patches[at].get_facecolor() == pytest.approx(to_rgba(colour))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["50 %", "20 %", "10 %"]


@given(st.floats(-2, 2), st.booleans())
def test_numbers_stand_out_from_their_cell(value: float, two_sided: bool) -> None:
    """WCAG asks for a contrast of 4.5 between small text and what is behind it."""
    chosen: HeatMap = heat_map() if two_sided else heat_map(low=0.0, middle=None)
    colour = cell_colour(chosen, value)
    assert all(0 <= channel <= 255 for channel in colour)
    behind = luminance("#" + "".join(f"{round(channel):02x}" for channel in colour))
    dark, light = sorted((behind, luminance({"#000": "#000000", "#fff": "#ffffff"}[text_colour(colour)])))
    assert (light + 0.05) / (dark + 0.05) >= 4.5
