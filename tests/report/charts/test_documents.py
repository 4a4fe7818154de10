"""Comparisons and agreements as documents."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from truerank.core.chart import Chart, HeatMap
from truerank.core.ranks import Ranks
from truerank.data.demo import demo
from truerank.ranking.simulate import simulate_sample
from truerank.report.charts.agreement import agreement_document, fraction_chart, movement_map
from truerank.report.charts.comparison import comparison_document, difference_map
from truerank.workflows.agreement.experiment import measure_agreement
from truerank.workflows.agreement.result import Agreement
from truerank.workflows.compare.compare import compare as run_compare

compare = partial(run_compare, estimator="bv(gamma=0.1)")  # differences per user: quicker than a fit

DRAW = np.random.default_rng(2)
RANKS = {
    name: Ranks.single(DRAW.integers(0, top, 80), n_pool=100)
    for name, top in {"b": 60, "a": 20, "d": 100, "c": 80}.items()
}


@pytest.fixture(scope="module")
def found() -> Agreement:
    return measure_agreement(
        demo(n_users=60, n_items=150),
        ["random", "head-user"],
        [0.5, 0.2],
        scenario="implicit(metrics='ndcg@10,recall@20')",
        models=["popularity", "item-knn(neighbours=5)"],
        seeds=2,
        resamples=60,
    )


def test_two_models_begin_with_the_verdict() -> None:
    two = {name: RANKS[name] for name in ("a", "b")}
    one = compare(two, metrics="recall@10")
    page = comparison_document(one)
    assert page.lead == one.differences[0].sentence
    assert page.title == "compare: a and b"
    verdicts, differences, values = page.sections
    assert one.differences[0].sentence in verdicts.notes
    assert [chart.key for chart in differences.charts] == ["forest-recall@10"]
    assert values.tables[0].column("recall@10") == tuple(f"{e.value:.4f}" for e in one.estimates)
    assert dict(page.facts)["correction"] == "max-t"
    several = comparison_document(compare(two, metrics="recall@10,auc"))
    assert several.lead.endswith("Of 2 comparisons 2 are decided.")


def test_samples_that_cannot_tell_say_so_first() -> None:
    drawn = {name: simulate_sample(RANKS[name], 20, label=name) for name in ("c", "d")}
    page = comparison_document(compare(drawn, metrics="recall@1"))
    assert page.lead.startswith("This sample cannot tell c from d in recall@1")
    chart = page.sections[1].charts[0]
    assert isinstance(chart, Chart)
    assert any(series.label == "identification bounds" for series in chart.series)


def test_many_models_have_a_map_best_first() -> None:
    comparison = compare(RANKS, metrics="recall@10")
    page = comparison_document(comparison)
    values = {e.model: e.value for e in comparison.estimates}
    best = max(values, key=lambda name: values[name])
    rivals = [
        one.second if one.first == best else one.first
        for one in comparison.differences
        if best in (one.first, one.second) and not one.verdict.is_decided
    ]
    equals = f"; {' and '.join(rivals)} {'is' if len(rivals) == 1 else 'are'} not distinguishable from it"
    start = (
        f"{best} has the highest recall@10, {values[best]:.4f}{equals if rivals else ''}. Of 6 comparisons"
    )
    assert page.lead.startswith(start)
    assert page.sections[0].tables[0].columns[:4] == ("A against B", "metric", "verdict", "A - B")
    again = compare({**RANKS, "z": RANKS[best]}, metrics="recall@10")  # the best one under another name
    assert "not distinguishable from it" in comparison_document(again).lead
    _, shown = page.sections[1].charts
    assert isinstance(shown, HeatMap)
    assert list(shown.rows) == sorted(values, key=lambda name: -values[name])
    for row, line in zip(shown.rows, shown.values, strict=True):
        for column, value in zip(shown.columns, line, strict=True):
            assert value is None if row == column else value == pytest.approx(values[row] - values[column])
    beside = comparison_document(compare(RANKS, metrics="recall@10", baseline="a"))
    assert len(beside.sections[1].charts) == 1


def test_equal_models_do_not_break_the_scale() -> None:
    same = dict.fromkeys("abcd", RANKS["a"])
    comparison = compare(same, metrics="recall@10")
    shown = difference_map("recall@10", comparison.models(), comparison.differences, key="k")
    assert (shown.low, shown.high) == (-1.0, 1.0)


def test_agreement_begins_with_the_answer(found: Agreement) -> None:
    page = agreement_document(found)
    assert page.title == "agreement: demo"
    assert page.lead == found.answer
    assert [section.title for section in page.sections] == [
        "Strategies",
        "Agreement",
        "Each metric",
        "Values on the full data",
    ]
    keys = [chart.key for chart in page.sections[1].charts]
    assert keys == [
        "certain-against-fraction",
        "certain-by-fraction",
        "tau-by-fraction",
        "tau-by-metric",
        "moves",
    ]
    assert len(page.sections[3].tables) == len(found.boards)
    board = found.boards[0]
    assert page.sections[3].tables[0].column("seed 0") == tuple(f"{value:.4f}" for value in board.full[0])
    facts = dict(page.facts)
    assert facts["strategies"] == "random, head-user"
    assert facts["threshold"] == "0.8"


def test_movement_is_shown_as_measured(found: Agreement) -> None:
    shown = movement_map(found)
    assert shown is not None
    assert shown.middle == 0.5
    for move in found.moves:
        at = shown.rows.index(move.model), shown.columns.index(f"{100 * move.fraction:.3g} %")
        assert shown.values[at[0]][at[1]] == move.probability


def test_agreement_falls_along_the_fraction(found: Agreement) -> None:
    chart = fraction_chart(found)
    threshold, *lines = chart.series
    assert threshold.y == (0.8, 0.8)
    for line in lines:
        cells = [found.cell(line.label, fraction) for fraction in line.x]
        assert line.y == tuple(cell.certain for cell in cells)
        assert list(line.x) == sorted(line.x)
    kept = {score.strategy: score.keeps_to is not None for score in found.scores}
    for strategy, keeps in kept.items():
        assert f"{strategy} {'keeps' if keeps else 'does not keep'} the order" in chart.words
