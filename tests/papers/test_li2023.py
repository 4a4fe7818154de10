"""Recipes of Li et al. 2023 on small data: the protocol, the cells, and what is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from truerank.estimation.corrections.priors import averaged_prior
from truerank.estimation.registry import ESTIMATORS as REGISTRY
from truerank.estimation.tally import tally
from truerank.metrics.registry import make_metrics, values
from truerank.papers import li2023, recipe
from truerank.papers import li2023 as li2023_figures
from truerank.papers import li2023 as li2023_setup
from truerank.papers import store as fitted
from truerank.papers.recipe import RECIPES, Settings, printed, run_recipe
from truerank.papers.store import DatasetSetup, PaperStore
from truerank.ranking.exact import exact_ranks
from truerank.ranking.sampled import sampled_ranks

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
    monkeypatch.setitem(li2023_setup.SETUPS, "pinterest-20", SMALL)


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
        assert cells["pinterest-20 ALS", column].value == pytest.approx(np.mean(errors), rel=1e-8)
    assert cells["pinterest-20 ALS", "MLE"].printed == printed("l23", "table1")[4]["values"]["MLE"]["mean"]


def test_data_that_are_not_at_hand_are_named(store: PaperStore) -> None:
    without = li2023.table6(settings(store)).without
    assert "yelp: data not at hand; its 5 rows run once it is" in without
    assert "ml-20m: data not at hand; its 5 rows run once it is" in without


def test_a_quick_run_has_fewer_repeats_and_models(store: PaperStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(li2023_setup.SETUPS, "pinterest-20", replace(SMALL, slow=("ALS",)))
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
    own = [note for note in found.notes if ", posterior, in %: n = 500: " in note]
    assert len(own) == 6 and all("; adaptive: " in note and note.endswith(" open.") for note in own)


def test_every_estimator_on_the_data_at_hand(store: PaperStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(li2023_figures, "ALL", ("pinterest-20", "yelp"))
    found = li2023_figures.estimators(settings(store))
    columns = {cell.column for cell in found.cells}
    assert {"mle", "smooth", "naive", "bv(prior=mes, gamma=0.01), averaged prior", "items"} <= columns
    assert "yelp: data not at hand" in found.without
    assert any("smooth beats mle in" in note for note in found.notes)


def test_figures_are_drawn(store: PaperStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(li2023_figures, "FIGURE1", "pinterest-20")
    first = li2023_figures.figure1(settings(store))
    second = li2023_figures.figure2(settings(store))
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
    names = {f"l23.table{n}" for n in (1, 2, 3, 6, 7, 8, 9, 10, 11)} | {"l23.figure1", "l23.figure2"}
    assert names <= set(RECIPES)


def test_recipes_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_recipe("l23.table9", Settings(repeats=2, store=PaperStore(tmp_path)))
    from truerank.models.popularity import Popularity

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("fitted again")

    monkeypatch.setattr(Popularity, "fit", refuse)
    again = run_recipe("l23.table9", Settings(repeats=2, store=PaperStore(tmp_path)))
    assert [cell.value for cell in again.cells] == [cell.value for cell in first.cells]
