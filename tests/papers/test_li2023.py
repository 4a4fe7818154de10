"""Recipes of Li et al. 2023 on small data: the protocol, the cells, and what is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from truerank.core.interactions import Interactions
from truerank.data.demo import demo
from truerank.estimation.corrections.priors import averaged_prior
from truerank.estimation.registry import ESTIMATORS as REGISTRY
from truerank.estimation.tally import tally
from truerank.metrics.registry import make_metrics, values
from truerank.models.registry import MODELS
from truerank.papers import li2023, li2023_models, recipe
from truerank.papers import store as fitted
from truerank.papers.recipe import RECIPES, Settings, printed, run_recipe
from truerank.papers.store import DatasetSetup, PaperStore
from truerank.ranking.exact import exact_ranks
from truerank.ranking.sampled import sampled_ranks
from truerank.workflows.study import Study

SMALL = DatasetSetup(
    "demo",
    "leave-last-out",
    {
        "EASE": "item-knn",
        "MultiVAE": "ials(factors=4, sweeps=2)",
        "NeuMF": "popularity",
        "itemKNN": "item-knn(neighbours=20)",
        "ALS": "ials(factors=8, sweeps=2)",
    },
)
SETTINGS_REPEATS = 3


@pytest.fixture(scope="module")
def store() -> PaperStore:
    return PaperStore()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the demo data stand in for pinterest-20; the other data sets are not at hand."""
    monkeypatch.setattr(fitted, "find_local", lambda name: Path("demo") if name == "demo" else None)
    monkeypatch.setattr(recipe, "find_local", lambda name: Path("demo"))
    monkeypatch.setitem(li2023_models.SETUPS, "pinterest-20", SMALL)


def settings(store: PaperStore) -> Settings:
    return Settings(repeats=SETTINGS_REPEATS, store=store)


def test_a_cell_follows_the_protocol(store: PaperStore) -> None:
    """The cell of one model from scratch: seen items kept, draws with replacement, error over K = 1..50."""
    found = li2023.table1(settings(store))
    cells = {(cell.row, cell.column): cell for cell in found.cells}
    parts = store.split("demo", "leave-last-out")
    scorer = store.scorer("demo", "leave-last-out", SMALL.models["ALS"])
    metrics = make_metrics([f"recall@{k}" for k in range(1, 51)])
    exact = values(metrics, exact_ranks(scorer, parts, seen="keep")).mean(axis=0)
    tallies = [
        tally(sampled_ranks(scorer, parts, "uniform(m=99, replace=true)", seen="keep", repeat=repeat))
        for repeat in range(SETTINGS_REPEATS)
    ]
    prior = averaged_prior("mle", tallies)
    from truerank.estimation.corrections.multinomial import Multinomial

    for column, estimator in (("MLE", REGISTRY.make("mle")), ("MN_MLE", Multinomial(prior=prior))):
        errors = [
            100 * np.mean(np.abs(estimator.estimate(one, metrics).value - exact) / exact) for one in tallies
        ]
        measured = cells["pinterest-20 ALS", f"{column}, users at hand"]
        assert measured.value == pytest.approx(np.mean(errors), rel=1e-8)
        assert measured.printed is None
    assert cells["pinterest-20 ALS", "MLE"].printed == printed("l23", "table1")[4]["values"]["MLE"]["mean"]


@pytest.mark.slow
def test_users_that_are_missing_are_made_up_for(store: PaperStore) -> None:
    """From the estimates of the repeats: their spread is that of 55,187 users, their mean stays."""
    asked = settings(store)
    found = li2023.table1(asked)
    cells = {(cell.row, cell.column): cell for cell in found.cells}
    raw = li2023.run_study(asked, "pinterest-20", li2023.paper_sampler(100), ["mle"])
    ours, exact = raw.runs[0, raw.models.index("ALS"), :, 0], raw.exact[raw.models.index("ALS"), 0]
    n_users = store.split("demo", "leave-last-out").test.n_users
    moved = ours.mean(axis=0) + np.sqrt(n_users / 55_187) * (ours - ours.mean(axis=0))
    wanted = 100 * np.mean(np.abs(moved - exact) / exact)
    assert cells["pinterest-20 ALS", "MLE"].value == pytest.approx(wanted, rel=1e-10)
    assert any(f"{n_users:,} of 55,187 users are at hand" in note for note in found.notes)


def test_noise_falls_with_users_and_bias_does_not() -> None:
    """Normal estimates without bias: the error falls as the root; without noise it stays."""
    noise = np.random.default_rng(1).normal(0, 0.01, (1, 1, 4000, 1, 1))
    found = Study(("a",), ("mle",), ("recall",), (10,), np.full((1, 1, 1), 0.2), 0.2 + noise, np.ones(1))
    fewer = li2023.with_more_users(found, 0.25)
    # of 4,000 repeats the mean is off by 1.6e-4, which moves the mean error by less than 1e-4 of it
    assert fewer.errors()[0].item() == pytest.approx(found.errors()[0].item() / 2, rel=2e-3)
    biased = replace(found, runs=np.full_like(noise, 0.25))
    assert li2023.with_more_users(biased, 0.25).errors()[0].item() == pytest.approx(25.0)
    both = li2023.with_more_users(replace(found, runs=0.25 + noise), 0.25).errors()[0].item()
    assert both == pytest.approx(25.0, rel=2e-2)


@pytest.mark.slow
def test_all_users_at_hand_change_nothing(store: PaperStore, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"dataset": "pinterest-20", "values": {"Users": 1}}]
    monkeypatch.setattr(li2023_models, "printed", lambda paper, table: rows)
    found = li2023.table9(settings(store))
    assert not any("at hand" in cell.column for cell in found.cells)
    assert not any("at hand" in note for note in found.notes)


def with_validation() -> Interactions:
    """The demo data with the last event of each user as test, and the one before as validation."""
    data = demo()
    assert data.time is not None
    order = np.lexsort((data.time, data.user))
    place = np.empty(len(data), dtype=np.int64)
    place[order] = np.arange(len(data)) - np.repeat(
        np.cumsum(data.user_counts()) - data.user_counts(), data.user_counts()
    )
    left = data.user_counts()[data.user] - place
    return replace(data, labels={"ncf_test": left == 1, "dli_valid": left == 2})


@pytest.mark.slow
def test_quality_of_the_models(store: PaperStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recall@10 among 499 negatives of a validation item, from its rank by the binomial law."""
    monkeypatch.setattr(li2023_models, "load", lambda *_, **__: with_validation())
    found = li2023_models.models(settings(store))
    cells = {cell.row: cell for cell in found.cells}
    assert {name: cell.printed for name, cell in cells.items()} == {
        "EASE": 0.570, "itemKNN": 0.567, "ALS": 0.534, "MultiVAE": None, "NeuMF": None
    }  # fmt: skip
    parts = li2023_models.validation_split()
    assert not set(zip(parts.train.user, parts.train.item, strict=True)) & set(
        zip(parts.test.user, parts.test.item, strict=True)
    )
    assert len(parts.train) + 2 * len(parts.test) == len(with_validation())
    ranks = exact_ranks(MODELS.make(SMALL.models["ALS"]).fit(parts.train), parts, seen="keep")
    theta = (ranks.n_above + ranks.n_tied / 2) / (parts.train.n_items - 1)
    hits = np.asarray(binom.cdf(9, 499, theta))
    assert cells["ALS"].value == pytest.approx(hits.mean(), rel=1e-9)
    part = hits.var() * (1 / len(hits) - 1 / 55_187) + np.mean(hits * (1 - hits)) / 55_187
    assert cells["ALS"].error == pytest.approx(np.sqrt(part))


@pytest.mark.slow
def test_errors_of_mes_by_eta(store: PaperStore) -> None:
    found = li2023.etas(settings(store))
    cells = {(cell.row, cell.column): cell for cell in found.cells}
    assert cells["mes(eta=0.01)", "recall"].printed == 5.86
    assert cells["mes(eta=0.01)", "ap"].printed == 17.45
    table = {(cell.row, cell.column): cell for cell in li2023.table1(settings(store)).cells}
    assert cells["mes(eta=0.01)", "recall"].value == table["pinterest-20 EASE", "MES"].value
    assert len({cell.value for (_, column), cell in cells.items() if column == "recall"}) == 7
    squares = {
        name: sum((cells[name, column].z or 0) ** 2 for column in ("recall", "ap")) for name in li2023.ETAS
    }
    nearest = min(squares, key=squares.__getitem__)
    assert f"the nearest first: {nearest} {squares[nearest]:.1f}, " in found.notes[1]


def test_data_that_are_not_at_hand_are_named(store: PaperStore) -> None:
    without = li2023.table6(settings(store)).without
    assert "yelp: data not at hand; its 5 rows run once it is" in without
    assert "ml-20m: data not at hand; its 5 rows run once it is" in without


def test_a_quick_run_has_fewer_repeats_and_models(store: PaperStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(li2023_models.SETUPS, "pinterest-20", replace(SMALL, slow=("ALS",)))
    monkeypatch.setattr(li2023, "FEW", SETTINGS_REPEATS)  # for the time they take
    found = li2023.table1(Settings(store=store, quick=True))
    assert found.repeats == SETTINGS_REPEATS
    assert "pinterest-20 ALS" not in {cell.row for cell in found.cells}
    assert "pinterest-20 ALS: left out of a quick run for the time it takes" in found.without


def test_adaptive_samples_have_their_size_beside_the_error(store: PaperStore) -> None:
    found = li2023.table7(settings(store))
    sizes = [cell for cell in found.cells if cell.column == "average_size"]
    assert len(sizes) == 5
    assert all(100 < cell.value < 3200 for cell in sizes)
    assert any(
        "adaptive samples beat the best fixed estimator at n = 500 for" in note for note in found.notes
    )


def test_winners_are_counted_in_percent(store: PaperStore) -> None:
    found = li2023.table3(settings(store))
    assert {cell.row for cell in found.cells} == {
        f"pinterest-20 {metric}@{k}" for metric in ("RECALL", "NDCG", "AP") for k in (10, 20)
    }
    counts = {round(cell.value * SETTINGS_REPEATS / 100, 6) for cell in found.cells}
    assert counts <= {0.0, 1.0, 2.0, 3.0}
    cells = {(cell.row, cell.column): cell.value for cell in found.cells}
    for row in {cell.row for cell in found.cells}:
        assert (row, "BV_MLE, users at hand") in cells
        for design in ("", "adaptive "):
            shares = [cells[row, f"{design}posterior, {what}"] for what in ("right", "wrong", "open")]
            assert sum(shares) == pytest.approx(100)


def test_every_estimator_on_the_data_at_hand(store: PaperStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(li2023, "ALL", ("pinterest-20", "yelp"))
    found = li2023.estimators(replace(settings(store), without=("MF",)))
    columns = {cell.column for cell in found.cells}
    assert {"mle", "smooth", "naive", "bv(prior=mes, gamma=0.01), averaged prior", "items"} <= columns
    assert found.without == ("pinterest-20 MF: left out by --without", "yelp: data not at hand")
    assert not any(" MF " in cell.row for cell in found.cells)
    assert any("smooth beats mle in" in note for note in found.notes)


def test_figures_are_drawn(store: PaperStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(li2023, "FIGURE1", "pinterest-20")
    first = li2023.figure1(settings(store))
    second = li2023.figure2(settings(store))
    assert list(first.figures) == ["l23.figure1"]
    assert "% of the users have r = 1" in first.notes[0]
    assert "The knee is at" in second.notes[0]
    assert "yelp is not at hand" in second.without[0]


def test_a_model_without_torch_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitted, "find_spec", lambda name: None)
    assert DatasetSetup("demo", "leave-last-out", {"NeuMF": "neumf"}).missing("NeuMF") == (
        "model NeuMF needs torch: pip install 'truerank[torch]'"
    )
    assert DatasetSetup("demo", "leave-last-out", {"MF": "ials"}).missing("MF") == ""
    assert (
        DatasetSetup("yelp", "leave-one-out", {"MF": "ials"}).missing("MF") == "data set yelp is not at hand"
    )


def test_every_table_and_figure_has_a_recipe() -> None:
    names = {f"l23.table{n}" for n in (1, 2, 3, 6, 7, 8, 9, 10, 11)}
    names |= {f"l23.{name}" for name in ("figure1", "figure2", "models", "eta", "estimators")}
    assert names <= set(RECIPES)


def test_recipes_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_recipe("l23.table9", Settings(repeats=2, store=PaperStore(tmp_path)))
    from truerank.models.popularity import Popularity

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("fitted again")

    monkeypatch.setattr(Popularity, "fit", refuse)
    again = run_recipe("l23.table9", Settings(repeats=2, store=PaperStore(tmp_path)))
    assert [cell.value for cell in again.cells] == [cell.value for cell in first.cells]
