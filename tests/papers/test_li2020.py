"""Recipes of Li et al. (2020), with ranks from a known law, and with EASE on MovieLens-1M."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import resources
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from truerank.core.progress import SILENT, Progress
from truerank.core.random import stream
from truerank.core.ranks import Ranks, SeenPolicy
from truerank.data.catalogue import find_local
from truerank.estimation.mapping.functions import BetaMapping
from truerank.papers import li2020, li2020_figures
from truerank.papers.outcome import PaperNumber, RecipeOutcome
from truerank.papers.recipe import Settings, run_recipe
from truerank.papers.store import QUICK, DatasetSetup, PaperStore

HAS_ML_1M = find_local("ml-1m") is not None
HAS_BOOKS = find_local("book-crossing") is not None
N_ITEMS = {"ml-1m": 3706, "pinterest-20": 9916, "citeulike-a": 16_980, "yelp": 25_815}
#: exponents of the drawn ranks: EASE is the best recommender by far, so samples name it
EXPONENTS = {"ease": 0.2, "multi": 0.3, "neumf": 0.35, "ngcf": 0.4, "ials": 0.45, "l23-knn": 0.6}


class DrawnStore(PaperStore):
    """Ranks of 1,500 users from Beta(a, 1) instead of data and models."""

    def split(self, dataset: str, split: str) -> Any:
        """Return what the recipes ask of a split."""
        return SimpleNamespace(train=SimpleNamespace(n_items=N_ITEMS[dataset]))

    def ranks(
        self,
        dataset: str,
        split: str,
        model: str,
        *,
        seen: SeenPolicy = "remove",
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Ranks:
        """Return ranks R = 1 + floor(N x^(1/a)) with uniform x."""
        a = next(value for name, value in EXPONENTS.items() if model.startswith(name))
        pool = N_ITEMS[dataset] - (200 if seen == "remove" else 0)
        share = stream(seed, f"drawn/{dataset}/{model}").random(1500) ** (1 / a)
        return Ranks.single(np.minimum((share * pool).astype(int), pool - 1), n_pool=pool)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Every data set at hand and every model there, all ranks drawn."""
    monkeypatch.setattr(DatasetSetup, "is_available", property(lambda self: True))
    monkeypatch.setattr("truerank.papers.recipe.find_local", lambda name: name)
    for module in (li2020, li2020_figures):
        monkeypatch.setattr(module, "why_missing", lambda setup, model, settings: "")
    return Settings(repeats=3, store=DrawnStore())


def cells_of(outcome: RecipeOutcome) -> dict[tuple[str, str], PaperNumber]:
    return {(cell.row, cell.column): cell for cell in outcome.cells}


def test_exponents(drawn: Settings) -> None:
    """The likelihood finds the exponents that were drawn, Eq. 19 larger ones; all 16 cells are there."""
    found = cells_of(run_recipe("l20.table2", drawn))
    assert len(found) == 2 * 16
    for model, a in (("EASE", 0.2), ("MultiVAE", 0.3), ("itemKNN", 0.6)):
        for dataset in ("ml-1m", "yelp", "pinterest-20", "citeulike"):
            likely = found[model, f"{dataset} (likelihood)"]
            assert likely.value == pytest.approx(a, abs=0.045)
            assert likely.printed is None
            assert found[model, dataset].value > likely.value + 0.02
    assert found["NeuMF", "ml-1m"].printed == 0.3685


def test_winners(drawn: Settings) -> None:
    """Four data sets, four models, six k, three numbers; EASE wins every sample at small k."""
    outcome = run_recipe("l20.table3", drawn)
    found = cells_of(outcome)
    assert len(found) == 4 * 4 * 6 * 3 + 4 * 2 * 6
    for dataset in ("ml-1m", "yelp", "pinterest-20", "citeulike"):
        for k in (1, 2):
            assert found[f"{dataset} winner", f"SHR@{k} = Beta@0.5"].value == 100
    assert found["ml-1m EASE k=10", "Beta@0.5"].printed == 0.7374
    assert sum("names the winner of HR@f in all samples" in note for note in outcome.notes) == 4


def test_protocols_of_citeulike(drawn: Settings) -> None:
    """Where seen items are sampled but not ranked, HR is that of the one protocol and SHR of the other."""
    outcome = run_recipe("l20.citeulike", drawn)
    found = cells_of(outcome)
    assert len(found) == 4 * 4 * (6 * 3 + 1)
    assert found["seen items in both: EASE k=1", "SHR"].printed == 0.4648
    ratio = found["seen items sampled: EASE k=1", "SHR / Beta@0.5"]
    parts = [found["seen items sampled: EASE k=1", name] for name in ("SHR", "Beta@0.5")]
    assert ratio.value == pytest.approx(parts[0].value / parts[1].value)
    assert ratio.printed == pytest.approx(0.4648 / 0.5779)
    for model in ("EASE", "ALS", "NeuMF", "MultiVAE"):
        for k in (1, 5, 50):
            mixed, neither, both = (
                {name: found[f"seen items {how}: {model} k={k}", name].value for name in ("SHR", "Bound")}
                for how in ("sampled", "in neither", "in both")
            )
            assert mixed == {"SHR": both["SHR"], "Bound": neither["Bound"]}
    assert found["seen items in both: ALS k=5", "Bound"].value != pytest.approx(
        found["seen items in neither: ALS k=5", "Bound"].value, abs=1e-4
    )
    same = [found[f"seen items in neither: ALS k={k}", "Beta@0.5"].value for k in (1, 2)]
    table = cells_of(run_recipe("l20.table3", drawn))
    assert same == [table[f"citeulike ALS k={k}", "Beta@0.5"].value for k in (1, 2)]
    gaps = [
        abs(cell.value - cell.printed)
        for (row, column), cell in found.items()
        if row.startswith("two events left out") and cell.printed is not None and "/" not in column
    ]
    assert f"two events left out: mean distance from print {np.mean(gaps):.4f}" in outcome.notes


@pytest.mark.parametrize(("name", "n"), [("l20.table5", 100), ("l20.table6", 1000)])
def test_schemes(drawn: Settings, name: str, n: int) -> None:
    outcome = run_recipe(name, drawn)
    found = cells_of(outcome)
    assert len(found) == 2 * 6 * (5 + 5 + 6)
    k = n // 10
    own = found[f"EASE actual k={k}", "Beta@0.5 (own pool)"].value
    assert abs(own - found[f"EASE actual k={k}", "SHR"].value) < 0.02
    assert found[f"EASE actual k={k}", "Beta@0.5"].value > own
    assert found[f"MultiVAE binom k={k}", "SHR"].printed == (0.62 if n == 100 else 0.6293)
    assert found[f"EASE binom k={k}", "SHR"].status == "new"
    assert any(note.startswith(f"EASE actual, HR@f(k) - SHR@k for k = {k} to") for note in outcome.notes)


def test_errors_of_the_functions(drawn: Settings) -> None:
    """Ranks of MultiVAE follow Beta(0.3, 1) here: the fitted mapping is best, linear worst."""
    found = cells_of(run_recipe("l20.table7", drawn))
    assert len(found) == 4 * 7 * 6
    gaps = {name: found[f"MultiVAE:ml-1m {name}", "abs"].value for name in (*li2020.FUNCTIONS, "Beta@P")}
    assert max(gaps, key=lambda name: gaps[name]) == "Linear"
    assert found["MultiVAE:ml-1m Beta@P (likelihood)", "abs"].value < 0.9 * gaps["Beta@1"]
    assert found["NeuMF:yelp Bound", "rel@1"].printed == 0.2571


@pytest.mark.parametrize("name", [f"l20.figure{number}" for number in (1, 2, 3, 7)])
def test_figures_of_drawn_ranks(drawn: Settings, name: str) -> None:
    outcome = run_recipe(name, drawn)
    assert name in outcome.figures
    assert all(cell.status == "new" for cell in outcome.cells)
    if name == "l20.figure7":
        assert list(outcome.figures) == ["l20.figure7", "l20.figure7-ease"]


def test_closed_form_figures() -> None:
    """Drawings have no printed numbers; the values are those of the recurrence, computed apart."""
    fourth, fifth = (run_recipe(f"l20.figure{number}") for number in (4, 5))
    assert (fourth.count(), fifth.count()) == ({"new": 4}, {"new": 5})
    assert [cell.value for cell in fourth.cells] == pytest.approx([-0.336, -0.250, -0.165, -0.082], abs=5e-4)
    assert [cell.value for cell in fifth.cells] == pytest.approx(
        [-1.062, -0.707, -0.353, 0.353, 0.705], abs=5e-4
    )
    assert "below 1; -1.062 at a = 0.24" in fifth.notes[0]
    assert "f(1; 0.3) = 26.92 < f(1; 1.0) = 38.05" in run_recipe("l20.figure6").notes[0]


def test_sizes_on_books(drawn: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """First locations of all sample sizes by hand; samples of Beta(0.5) ranks lie on the curve."""
    share = stream(0, "drawn/books").random(1500) ** 2
    books = Ranks.single((share * 139_331).astype(int), n_pool=139_331)
    monkeypatch.setattr(li2020_figures, "book_ranks", lambda settings, name: books)
    found = cells_of(run_recipe("l20.figure8", drawn))
    for n, at in ((50, 2788), (100, 1394), (200, 698), (500, 280), (1000, 140)):
        cell = found[f"ALS n={n}", "f(1), beta(a=1)"]
        assert cell.printed is None
        assert abs(cell.value - at) < 1
        assert found[f"ALS n={n}", "mean |HR@f(k) - SHR@k|, beta(a=0.5)"].value < 0.01
        read = found[f"NeuMF n={n}", li2020_figures.READ_OFF]
        assert read.printed is not None
        assert read.error >= li2020_figures.READING


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DatasetSetup, "is_available", property(lambda self: self.dataset == "ml-1m"))
    monkeypatch.setattr("truerank.papers.recipe.find_local", lambda name: name)
    missing = li2020.why_missing
    monkeypatch.setattr(
        li2020, "why_missing", lambda setup, model, settings: "" if model == "EASE" else "why"
    )
    outcome = run_recipe("l20.table2", Settings(repeats=2, store=DrawnStore()))
    monkeypatch.setattr(li2020, "why_missing", missing)
    assert {cell.row for cell in outcome.cells} == {"EASE"}
    assert "ml-1m NeuMF: why" in outcome.without
    assert "yelp: data not at hand; NeuMF, MultiVAE, EASE, itemKNN run once it is" in outcome.without
    absent = DatasetSetup("ml-1m", "", {"a": "nosuchmodel(x=1)", "b": "ease"})
    assert li2020.why_missing(absent, "a", Settings()) == "model nosuchmodel is not there yet"
    assert li2020.why_missing(absent, "b", Settings()) == ""
    assert li2020.why_missing(li2020.SETUPS["ml-1m"], "NeuMF", Settings(quick=True)) == QUICK


def test_errors_of_hit_ratios_are_derived(drawn: Settings) -> None:
    """Binomial for one fit; wider by the spread between fits; a hit ratio that is off by 0.05 differs."""
    found = cells_of(run_recipe("l20.table3", drawn))
    once = found["citeulike EASE k=1", "Beta@0.5"]
    assert once.error == pytest.approx(np.sqrt(once.value * (1 - once.value) / 1500))
    several = found["ml-1m ALS k=1", "Beta@0.5"]
    assert several.error > np.sqrt(several.value * (1 - several.value) / 1500)
    off = replace(once, printed=once.value + 0.05)
    assert off.status == "beyond 2 standard errors"
    assert {cell.note for cell in found.values()} == {""}


def test_a_quick_run_fits_once_and_is_no_evidence(drawn: Settings) -> None:
    assert [fit.seed for fit in li2020.settings_of_fits(drawn, "ml-1m", "MultiVAE")] == [0, 1, 2]
    assert len(li2020.settings_of_fits(drawn, "ml-1m", "EASE")) == 1
    quick = replace(drawn, quick=True)
    assert len(li2020.settings_of_fits(quick, "ml-1m", "MultiVAE")) == 1
    for name in ("l20.table2", "l20.table3", "l20.table5", "l20.table6", "l20.table7"):
        assert run_recipe(name, quick).short == "one fit per model"
        assert run_recipe(name, drawn).short == "3 of 20 repeats"


def test_cells_of_one_model_are_correlated(drawn: Settings) -> None:
    """Hits at growing cut-offs: 90 cells of one model count as a few."""
    found = run_recipe("l20.table5", drawn).independent
    assert found is not None
    assert found.n_cells == 90
    assert 1 < found.chi_square < 20
    assert 1 <= found.signs < 20
    assert li2020.correlation([np.arange(3.0), np.ones(3)]).tolist() == [[1, 0], [0, 1]]


def test_the_paper_truncates_the_readme() -> None:
    """Table 3 is the README cut to three digits, but for two misprints."""
    text = resources.files("truerank.papers").joinpath("printed", "l20.json").read_text(encoding="utf-8")
    held = json.loads(text)
    exact = {(row["dataset"], row["k"]): row for row in held["readme-table3"]["rows"]}
    wrong = []
    for row in held["table3"]["rows"]:
        for model in ("NeuMF", "MultiVAE", "EASE"):
            for short, long in (("SHR", "SHR"), ("bound", "Bound"), ("beta0.5", "Beta@0.5")):
                there, here = row[model][short], exact[row["dataset"], row["k"]][model][long]
                if abs(np.floor(here * 1000 + 1e-6) / 1000 - there) > 1e-9:
                    wrong.append((row["dataset"], model, row["k"], short))
    assert wrong == [("pinterest-20", "MultiVAE", 1, "SHR"), ("pinterest-20", "EASE", 2, "bound")]


def test_rounding_agrees_with_print() -> None:
    """Beta@1 and Beta@0.5 at n = 1000 and k = 100 lie at 371.5 and 370.7 and have one printed hit ratio."""
    assert BetaMapping(0.5).rounded_locations([100], 1000, 3706).tolist() == [371]
    assert BetaMapping(1.0).locations([100], 1000, 3706).tolist() == pytest.approx([371.5])
    text = resources.files("truerank.papers").joinpath("printed", "l20.json").read_text(encoding="utf-8")
    row = next(row for row in json.loads(text)["table6"]["rows"] if row["k"] == 100)
    assert row["binom"]["beta@1"] == row["binom"]["beta@0.5"] == 0.6316


@pytest.mark.data
@pytest.mark.skipif(not HAS_ML_1M, reason="ml-1m does not lie in TRUERANK_DATA or ../shared/data")
def test_errors_of_ease(monkeypatch: pytest.MonkeyPatch) -> None:
    """The 36 printed errors of EASE on ml-1m are those of one sample of ours: no z-score is beyond 4."""
    monkeypatch.setattr(
        li2020, "why_missing", lambda setup, model, settings: "" if model == "EASE" else "not run here"
    )
    monkeypatch.setitem(li2020.SETUPS, "yelp", DatasetSetup("yelp", "", {}))
    outcome = run_recipe("l20.table7", Settings(repeats=20))
    shown = [cell for cell in outcome.cells if cell.printed is not None]
    assert len(shown) == 36
    assert max(abs(cell.z or 0.0) for cell in shown) < 4


@pytest.mark.data
@pytest.mark.skipif(not HAS_BOOKS, reason="book-crossing does not lie in TRUERANK_DATA or ../shared/data")
@pytest.mark.filterwarnings("ignore:blanks or other letters:truerank.core.errors.DataWarning")
def test_book_x_is_the_papers() -> None:
    split = li2020.book_split()
    assert len(split.train) + len(split.test) == 786_690
    assert (split.train.n_users, split.train.n_items) == (11_325, 139_331)
