"""Recipes of Sachdeva et al. 2021 on small data: Psi from scratch, what is kept, and what is missing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kendalltau

from tests.cli.conftest import Truerank, truerank
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.data.catalogue import find_local, load
from truerank.data.clean import min_history
from truerank.data.demo import demo
from truerank.metrics.registry import make_metrics, values
from truerank.models.registry import MODELS
from truerank.papers import sachdeva2021, sachdeva2021_figures
from truerank.papers import sachdeva2021 as setup
from truerank.papers.recipe import RECIPES, Settings, printed, run_recipe
from truerank.papers.store import PaperStore
from truerank.ranking.exact import exact_ranks
from truerank.split.base import make_split
from truerank.subsampling.subsample import subsample
from truerank.workflows.agreement.result import Agreement
from truerank.workflows.agreement.scenarios import SCENARIOS

__all__ = ["truerank"]

FRACTIONS = (0.5, 0.1)
MODELS_OF = setup.PaperData.models
CHEAP = {
    "popularity": "popularity",
    "bias-only": "bias-only(epochs=3)",
    "mf": "mf(factors=2, epochs=3)",
    "neumf": "mf(factors=4, epochs=3)",
    "multi-vae": "item-knn",
    "svae": "ease",
    "sasrec": "ials(factors=4, sweeps=2)",
}


def rated() -> Interactions:
    events = demo(n_users=60, n_items=150)
    return replace(events, value=1.0 + (events.user + 2 * events.item) % 5)


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    """Let the demo data stand in for ML-100k, with models that are fitted in no time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup.PaperData, "models", lambda self, full: CHEAP)
        patch.setattr(setup, "PAPER_FRACTIONS", FRACTIONS)
        patch.setattr(setup, "find_local", lambda name: Path(name) if name == "ml-100k" else None)
        patch.setattr(setup, "load", lambda name, **_: rated())
        yield


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> PaperStore:
    return PaperStore(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def found(store: PaperStore) -> Agreement:
    return setup.measure_agreement_on(Settings(store=store), setup.DATA[1])


def literal_psi(strategy: str) -> float:
    """Draw, fit, judge and compare one by one."""
    taus: list[float] = []
    for name in ("explicit", "implicit", "sequential"):
        scenario = SCENARIOS.make(name)
        full = make_split(min_history(rated(), 3), scenario.split, seed=0)
        parts = [full.train] + [
            subsample(full.train, strategy, fraction, seed=0).train for fraction in FRACTIONS
        ]
        tables = []
        for train in parts:
            rows = []
            for model in scenario.models:
                fitted = scenario.adapt(MODELS.make(CHEAP[model]))
                scorer = fitted.fit(
                    train, validate=scenario.validator(scenario.fit_setup(full, train)), seed=0
                )
                if name == "explicit":
                    guess = np.array(
                        [
                            scorer.score(np.array([user]), np.array([item]))[0, 0]
                            for user, item in zip(full.test.user, full.test.item, strict=True)
                        ]
                    )
                    assert full.test.value is not None
                    rows.append([-float(np.mean((guess - full.test.value) ** 2))])
                else:
                    metrics = make_metrics("auc,recall(norm=min)@100,ndcg@10")
                    rows.append(values(metrics, exact_ranks(scorer, full)).mean(axis=0).tolist())
            tables.append(np.array(rows))
        taus += [
            float(kendalltau(tables[0][:, metric], table[:, metric]).statistic)
            for table in tables[1:]
            for metric in range(table.shape[1])
        ]
    assert len(taus) == 7 * len(FRACTIONS)
    return float(np.mean(taus))


def test_psi_is_that_of_a_literal_computation(store: PaperStore, found: Agreement) -> None:
    """The cell of one strategy from scratch: 7 metrics times the fractions, tau-b by scipy."""
    cells = {(cell.row, cell.column): cell for cell in sachdeva2021.table1(Settings(store=store)).cells}
    for row, strategy in (("interaction Random", "random"), ("user Head", "head-user")):
        assert cells[row, "ML-100k"].value == pytest.approx(literal_psi(strategy), abs=1e-12)


def test_table1_has_all_strategies_beside_print(store: PaperStore, found: Agreement) -> None:
    outcome = sachdeva2021.table1(Settings(store=store))
    *psi, mean = [cell for cell in outcome.cells if cell.column == "ML-100k"]
    assert [cell.printed for cell in psi] == [row["values"]["ML-100k"] for row in printed("s21", "table1")]
    ends = {cell.row: cell.value for cell in outcome.cells if cell.column == "ML-100k low"}
    tops = {cell.row: cell.value for cell in outcome.cells if cell.column == "ML-100k high"}
    assert all(ends[cell.row] <= cell.value <= tops[cell.row] for cell in psi)
    assert len(psi) == len(ends) == 16
    cell = psi[0]
    score = found.score("random")
    assert score.low is not None
    assert score.high is not None
    assert cell.error == pytest.approx((score.high - score.low) / (2 * 1.959964), rel=1e-6)
    assert mean.row == "mean over strategies"
    assert mean.printed == pytest.approx(np.mean([cell.printed for cell in psi]))
    assert mean.value == pytest.approx(np.mean([cell.value for cell in psi]))
    assert mean.error == pytest.approx(np.mean([cell.error for cell in psi]))
    assert outcome.joint is not None
    assert outcome.joint.degrees == 16  # means count for nothing of their own
    notes = " ".join(outcome.notes)
    assert "Search s21-reduced" in notes
    assert "one seed" in notes
    assert "Goodreads Comics: data not at hand (goodreads-comics); it runs once it is" in outcome.without
    assert "of 16 printed numbers lie in our intervals" in notes
    assert "pairs of models are certain on the full data; " in notes


def test_a_quick_run_has_the_small_data_set_alone(
    store: PaperStore, found: Agreement, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert [data.name for data in setup.DATA if not data.is_slow] == ["Amazon Magazine"]
    monkeypatch.setattr(setup, "DATA", (replace(setup.DATA[1], is_slow=False), setup.DATA[2]))
    monkeypatch.setattr(setup, "find_local", lambda name: Path(name))
    outcome = sachdeva2021.table1(Settings(store=store, quick=True))
    assert {cell.column.split()[0] for cell in outcome.cells} == {"ML-100k"}
    assert "Amazon Luxury: left out of a quick run for the time it takes" in outcome.without
    monkeypatch.setattr(setup, "find_local", lambda name: None)
    with pytest.raises(InvalidData, match="a quick run needs the data set 'ml-100k'"):
        sachdeva2021.table1(Settings(store=store, quick=True))


def test_average_is_that_of_the_data_at_hand(found: Agreement) -> None:
    values = printed("s21", "table1")[0]["values"]
    both = {"Amazon Magazine": found, "ML-100k": found}
    cells = {cell.column: cell for cell in sachdeva2021._psi_cells(both, "interaction", "Random", values)}
    assert cells["average"].printed == pytest.approx((0.428 + 0.551) / 2)
    assert cells["average"].value == pytest.approx(cells["ML-100k"].value)
    assert cells["average"].error == pytest.approx(cells["ML-100k"].error / np.sqrt(2))


def test_a_finished_experiment_is_read_and_an_unfinished_one_goes_on(
    store: PaperStore, found: Agreement, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store.folder is not None
    pieces = store.folder / "s21-ml-100k"
    before = {path.name: path.stat().st_mtime_ns for path in pieces.glob("agreement-*")}
    assert len(before) > 16 * len(FRACTIONS) * 15
    (result,) = store.folder.glob("s21-agreement-ml-100k-*.json")
    result.unlink()
    lost = next(iter(sorted(pieces.glob("agreement-fit-*"))))
    lost.unlink()
    again = setup.measure_agreement_on(Settings(store=PaperStore(store.folder)), setup.DATA[1])
    after = {path.name: path.stat().st_mtime_ns for path in pieces.glob("agreement-*")}
    assert {name for name in after if after[name] != before[name]} == {lost.name}
    assert again.scores == found.scores

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a finished experiment must not be run again")

    monkeypatch.setattr(setup, "AgreementExperiment", refuse)
    assert (
        setup.measure_agreement_on(Settings(store=PaperStore(store.folder)), setup.DATA[1]).scores
        == found.scores
    )
    with pytest.raises(AssertionError, match="must not be run again"):
        setup.measure_agreement_on(Settings(seed=1, store=PaperStore(store.folder)), setup.DATA[1])


def test_psi_without_some_models(found: Agreement) -> None:
    everyone = sachdeva2021.psi_without(found, ())
    assert everyone == pytest.approx([score.psi for score in found.scores])
    taus = []
    for board in found.boards:
        kept = [place for place, model in enumerate(board.models) if model not in ("svae", "sasrec")]
        for fraction in range(len(FRACTIONS)):
            full, small = np.array(board.full)[0, kept], np.array(board.small)[0, fraction, 0, kept]
            taus.append(kendalltau(full, small).statistic)
    fewer = sachdeva2021.psi_without(found, ("svae", "sasrec"))
    assert fewer[0] == pytest.approx(np.mean(taus))
    assert fewer[0] != everyone[0]


def test_strategies_that_have_no_tau_are_named(found: Agreement) -> None:
    nothing = replace(found.scores[0], psi=None, low=None, high=None)
    broken = replace(found, scores=[nothing, *found.scores[1:]])
    values = printed("s21", "table1")[0]["values"]
    assert sachdeva2021._psi_cells({"ML-100k": broken}, "interaction", "Random", values) == []
    notes = sachdeva2021._findings("ML-100k", broken, [])
    assert "ML-100k: no tau exists for interaction Random." in notes


def test_figures_hold_the_means_of_what_was_found(store: PaperStore, found: Agreement) -> None:
    settings = Settings(store=store)
    first = sachdeva2021_figures.figure1(settings)
    cells = {(cell.row, cell.column): cell.value for cell in first.cells}
    taus = [found.cell(strategy, 0.1).tau for strategy in found.strategies]
    assert cells["ML-100k", "10 %"] == pytest.approx(np.mean([tau for tau in taus if tau is not None]))
    assert any("from 50 to 10 %" in note for note in first.notes)
    second = sachdeva2021_figures.figure2(settings)
    moved = {(cell.row, cell.column): cell.value for cell in second.cells}
    assert len(moved) == (3 + 5 + 7) * len(FRACTIONS)
    for name, algorithms in (("explicit", 3), ("implicit", 5), ("sequential", 7)):
        one = [value for (row, column), value in moved.items() if row.startswith(name) and column == "10 %"]
        assert len(one) == algorithms
        assert np.mean(one) == pytest.approx(0.5)  # who moves up pushes others down
    third = sachdeva2021_figures.figure3(settings)
    by_metric = {(cell.row, cell.column): cell.value for cell in third.cells}
    both = [found.cell("temporal", 0.5, "ndcg@10", scenario).tau for scenario in ("implicit", "sequential")]
    assert by_metric["nDCG@k Temporal", "50 %"] == pytest.approx(np.mean([tau for tau in both if tau]))
    assert len(by_metric) == 3 * 8 * len(FRACTIONS)
    assert [list(one.figures) for one in (first, second, third)] == [
        ["s21.figure1"],
        ["s21.figure2"],
        ["s21.figure3"],
    ]


def test_table2_is_what_the_scenarios_have(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_recipe("s21.table2").count() == {"matches": 33}
    monkeypatch.setitem(setup.ALGORITHMS, "MF", "no such model")
    assert run_recipe("s21.table2").count() == {"matches": 30, "differs": 3}


@pytest.mark.data
@pytest.mark.skipif(
    find_local("ml-100k") is None or find_local("amazon-magazine-svpcf") is None,
    reason="ml-100k and amazon-magazine-svpcf do not lie in TRUERANK_DATA or ../shared/data",
)
def test_table3_counts_the_data_at_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "find_local", find_local)
    monkeypatch.setattr(setup, "load", load)
    outcome = run_recipe("s21.table3")
    assert outcome.count()["matches"] >= 8
    assert "differs" not in outcome.count()
    assert any("472 of its events repeat a pair" in note for note in outcome.notes)


def test_table4_is_arithmetic() -> None:
    outcome = run_recipe("s21.table4")
    values = [cell.value for cell in outcome.cells]
    assert values == pytest.approx([4.2336, 4 / 3, 10 * 4 / 3 * 1.58 * 0.954, 10 / 1.35 * 1.58 * 0.954])
    assert [cell.status for cell in outcome.cells] == ["matches", "explained", "matches", "differs"]
    assert "Models trained: 423,360" in outcome.notes[0]
    assert "needs 1.91" in outcome.notes[1]


def test_strategies_and_models_of_both_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup.PaperData, "models", MODELS_OF)
    assert [(row["group"], row["sampler"]) for row in printed("s21", "table1")] == list(setup.STRATEGIES)
    for data in setup.DATA:
        small, large = setup.plan_of(data), setup.plan_of(data, full=True)
        assert len({str(strategy) for strategy in large.strategies.values()}) == 16
        assert (small.grid, large.grid) == ("s21-reduced", data.grid)
        assert setup.n_fits(small) == (15, 15 * 16 * len(FRACTIONS))
        counts = {
            (scenario.key, one.name): len(one.configurations)
            for scenario, listed in large.model_grids.items()
            for one in listed
        }
        rates = 3 if data.grid == "paper" else 1
        assert counts["implicit", "popularity"] == 1
        assert counts["explicit", "bias-only"] == rates
        assert counts["sequential", "mf"] == counts["sequential", "sasrec"] == 15 * rates
        trained = next(iter(large.model_grids.values()))[1].configurations[0]
        assert f"epochs={data.epochs}" in str(trained)


def test_settings_and_options(truerank: Truerank) -> None:
    with pytest.raises(InvalidParameter, match="workers must be at least 1, got 0"):
        Settings(workers=0)
    refused = truerank("paper", "run", "s21.table4", "--fresh", "--workers", "0")
    assert refused.code == 2
    assert "workers must be at least 1" in refused.err
    shown = truerank("paper", "run", "s21.table4", "--fresh", "--full", "--format", "csv")
    assert shown.code == 0
    assert 's21.table4,"CO2e with SVP-CF, thousand lbs",Table 4,10.5,11.17' in shown.out
    assert {name for name in RECIPES if name.startswith("s21.")} == {
        *(f"s21.table{n}" for n in (1, 2, 3, 4)),
        *(f"s21.figure{n}" for n in (1, 2, 3)),
    }
