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
from truerank.core.digest import events_hash
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.data.catalogue import find_local, load
from truerank.data.clean import min_history
from truerank.data.demo import demo
from truerank.metrics.registry import make_metrics, values
from truerank.models.registry import MODELS
from truerank.papers import sachdeva2021, sachdeva2021_figures
from truerank.papers import sachdeva2021_protocol as setup
from truerank.papers.recipe import RECIPES, Settings, printed, run_recipe
from truerank.papers.store import PaperStore
from truerank.ranking.exact import exact_ranks
from truerank.split.base import make_split
from truerank.subsampling.subsample import subsample
from truerank.workflows.agreement.order import kendall
from truerank.workflows.agreement.result import Agreement

__all__ = ["truerank"]

FRACTIONS = (0.5, 0.1)
MODELS_OF = setup.PaperData.models
QUICK_ML = replace(setup.DATA[1], is_slow=False)
KEYWORDS = dict(setup.plan_of.__kwdefaults__ or {})
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
        patch.setattr(setup.PaperData, "models", lambda self, **_: CHEAP)
        patch.setattr(setup, "find_local", lambda name: Path(name) if name == "ml-100k" else None)
        for module in (setup, sachdeva2021):
            patch.setattr(module, "load", lambda name, **_: rated())
        patch.setattr(setup, "SEARCH", "none")
        patch.setattr(sachdeva2021, "DATA", (setup.DATA[0], QUICK_ML, *setup.DATA[2:]))
        patch.setattr(setup.plan_of, "__kwdefaults__", {**KEYWORDS, "fractions": FRACTIONS})
        yield


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> PaperStore:
    return PaperStore(tmp_path_factory.mktemp("kept"))


@pytest.fixture(scope="module")
def found(store: PaperStore) -> Agreement:
    return sachdeva2021.measure_agreement_on(one_seed(store), setup.DATA[1])


def one_seed(store: PaperStore | None, **given: Any) -> Settings:
    """Return settings of a run with one seed."""
    return Once(store=store or PaperStore(), **given)


class Once(Settings):
    """Settings with one repetition, which ``--repeats`` does not offer."""

    def repeated(self, usual: int, *, quick: int | None = None) -> int:
        """Return 1."""
        return 1


def literal_psi(strategy: str) -> float:
    """Draw, fit, judge and compare one by one."""
    taus: list[float] = []
    for name in ("explicit", "implicit", "sequential"):
        scenario = next(one for one in setup.PROTOCOLS["ours"].scenarios if one.key == name)
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
    cells = {(cell.row, cell.column): cell for cell in sachdeva2021.table1(one_seed(store)).cells}
    for row, strategy in (("interaction Random", "random"), ("user Head", "head-user")):
        assert cells[row, "ML-100k"].value == pytest.approx(literal_psi(strategy), abs=1e-12)


def test_table1_has_all_strategies_beside_print(store: PaperStore, found: Agreement) -> None:
    outcome = sachdeva2021.table1(one_seed(store))
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
    assert "Protocol ours" in notes
    assert "one seed" in notes
    assert "Goodreads Comics: data not at hand (goodreads-comics); it runs once it is" in outcome.without
    assert "Pearson's correlation of our sixteen Psi" in notes
    assert "pairs of models are certain on the full data; " in notes


def test_what_is_left_out_and_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert [data.name for data in setup.DATA if not data.is_slow] == ["Amazon Magazine"]
    monkeypatch.setattr(setup, "find_local", lambda name: Path(name))
    quick = {data.name: sachdeva2021._missing(data, Settings(quick=True)) for data in setup.DATA}
    assert quick["Amazon Magazine"] == ""
    assert quick["ML-100k"] == "left out of a quick run for the time it takes"
    plain = sachdeva2021._missing(setup.DATA[1], Settings(store=PaperStore(tmp_path)))
    assert plain == "no result by stacks of networks is stored; its 1,485 fits run one by one with --full"
    monkeypatch.setattr(setup, "find_local", lambda name: None)
    with pytest.raises(InvalidData, match=r"needs the data set 'amazon-magazine-svpcf'.*--full"):
        sachdeva2021.table1(Settings(quick=True))


def test_a_result_by_stacks_is_taken_where_it_is_stored(found: Agreement, tmp_path: Path) -> None:
    """Three seeds, so errors come from the spread over seeds and the full data have a floor of noise."""
    store = PaperStore(tmp_path)
    settings = Settings(store=store, protocol="published")
    plan = setup.plan_of(setup.DATA[1], "published")
    key = sachdeva2021.key_of(plan, setup.DATA[1], events_hash(rated()))
    draw = np.random.default_rng(0)
    boards = [
        replace(board, tau=draw.uniform(-1, 1, (16, len(FRACTIONS), 3)).tolist(), ceiling=0.25)
        for board in found.boards
    ]
    three = replace(found, boards=boards, seeds=[0, 1, 2])
    store.value(sachdeva2021.stacked(key), three.to_dict)
    assert sachdeva2021.measure_agreement_on(settings, setup.DATA[1]).boards == boards
    outcome = sachdeva2021.table1(settings)
    psi = np.mean([board.tau for board in boards], axis=(0, 2))
    cells = {cell.row: cell for cell in outcome.cells if cell.column == "ML-100k"}
    assert cells["user Head"].error == pytest.approx(np.sqrt(psi.var(axis=1, ddof=1).mean() * 4 / 3))
    assert cells["full data with themselves"].value == pytest.approx(0.25)
    assert "Protocol published" in outcome.notes[0]
    claims = {cell.row: cell for cell in sachdeva2021_figures.figure1(settings).cells}
    assert claims["enough data"].printed == 0.6


def test_sub_samples_under_one_seed_have_the_spread_of_the_full_data(found: Agreement) -> None:
    """The full data under three seeds: what is known of the error of a single run."""
    draw = np.random.default_rng(1)
    full = draw.random((3, 4))
    small = np.full((16, len(FRACTIONS), 3, 4), np.nan)
    small[:, :, 0] = draw.random((16, len(FRACTIONS), 4))
    board = replace(found.boards[0], models=list("abcd"), full=full.tolist(), small=small.tolist())
    board = replace(board, tau=kendall(full, small).tolist())
    single = replace(found, boards=[board], seeds=[0, 1, 2])
    assert sachdeva2021.n_seeds_of(single) == 1
    psi = [
        [np.mean([kendalltau(full[s], values).statistic for values in small[a, :, 0]]) for s in range(3)]
        for a in range(16)
    ]
    expected = np.sqrt(2 * np.var(psi, axis=1, ddof=1).mean())
    assert sachdeva2021._error(single, "random") == pytest.approx(expected)


def test_enough_data_ends_at_the_first_fraction_below_the_floor(found: Agreement) -> None:
    three = replace(found, boards=[replace(board, ceiling=0.5) for board in found.boards])
    for line, expected in (([0.6, 0.5], 0.1), ([0.6, 0.4], 0.5), ([0.4, 0.6], 1.0), ([0.6, np.nan], 0.5)):
        (cell, *_) = sachdeva2021_figures._claims("ML-100k", three, np.array(line))
        assert (cell.row, cell.value) == ("enough data", expected)


def test_protocols(tmp_path: Path) -> None:
    """What the published protocol is made of, and which recipes know it."""
    published, ours = (setup.plan_of(setup.DATA[0], name) for name in ("published", "ours"))
    assert (published.least_events, published.least_users, published.least_items) == (100, 0, 0)
    assert not ours.has_limits
    assert [scenario.selection for scenario in published.model_grids] == ["test"] * 3
    assert {scenario.selection for scenario in ours.model_grids} == {"validation"}
    assert [scenario.select_by for scenario in ours.model_grids] == ["mse", "auc", "recall(norm=min)@100"]
    assert list(published.strategies) == list(ours.strategies) == list(setup.STRATEGIES.values())
    assert str(published.strategies["random-walk"]) == "random-walk(exact=false, legacy=true)"
    assert [scenario.repeated for scenario in published.model_grids] == ["drop", "drop", "keep"]
    assert [scenario.repeated for scenario in ours.model_grids] == ["drop"] * 3
    assert set(setup.AS_CODED) == set(setup.STRATEGIES.values()) - {"random"}
    with pytest.raises(InvalidParameter, match="protocol must be ours or published, got 'theirs'"):
        setup.find_protocol("theirs")
    with pytest.raises(InvalidParameter, match=r"'s21.table2' has one protocol, got 'published'\. Leave"):
        run_recipe("s21.table2", Settings(protocol="published"))
    with pytest.raises(InvalidParameter, match=r"protocol of 's21.figure1' must be ours or published, got"):
        run_recipe("s21.figure1", Settings(protocol="theirs"))


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
    pieces = store.folder / "s21-ml-100k-ours"
    before = {path.name: path.stat().st_mtime_ns for path in pieces.glob("agreement-*")}
    assert len(before) > 16 * len(FRACTIONS) * 15
    (result,) = store.folder.glob("s21-agreement-ml-100k-*.json")
    result.unlink()
    lost = next(iter(sorted(pieces.glob("agreement-fit-*"))))
    lost.unlink()
    again = sachdeva2021.measure_agreement_on(one_seed(PaperStore(store.folder)), setup.DATA[1])
    after = {path.name: path.stat().st_mtime_ns for path in pieces.glob("agreement-*")}
    assert {name for name in after if after[name] != before[name]} == {lost.name}
    assert again.scores == found.scores

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a finished experiment must not be run again")

    monkeypatch.setattr(sachdeva2021, "AgreementExperiment", refuse)
    assert (
        sachdeva2021.measure_agreement_on(one_seed(PaperStore(store.folder)), setup.DATA[1]).scores
        == found.scores
    )
    with pytest.raises(AssertionError, match="must not be run again"):
        sachdeva2021.measure_agreement_on(one_seed(PaperStore(store.folder), seed=1), setup.DATA[1])


def test_strategies_that_have_no_tau_are_named(found: Agreement) -> None:
    nothing = replace(found.scores[0], psi=None, low=None, high=None)
    broken = replace(found, scores=[nothing, *found.scores[1:]])
    values = printed("s21", "table1")[0]["values"]
    assert sachdeva2021._psi_cells({"ML-100k": broken}, "interaction", "Random", values) == []
    notes = sachdeva2021._findings("ML-100k", broken, [])
    assert "ML-100k: no tau exists for interaction Random." in notes


def test_figures_hold_the_means_of_what_was_found(store: PaperStore, found: Agreement) -> None:
    settings = one_seed(store)
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
    both = [
        found.cell("temporal", 0.5, "ndcg@10", str(scenario)).tau
        for scenario in setup.PROTOCOLS["ours"].scenarios[1:]
    ]
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
    monkeypatch.setattr(sachdeva2021, "load", load)
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
        small, large = (setup.plan_of(data, full=full, quick=not full, seeds=1) for full in (False, True))
        assert len({str(strategy) for strategy in large.strategies.values()}) == 16
        assert (small.grid, large.grid) == ("none", data.grid)
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
