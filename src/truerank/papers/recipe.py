"""The catalogue of recipes: every table and figure of five papers, how to run one, and the printed numbers.

A recipe names the function that computes it as text, so that listing the catalogue imports none of the
papers.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import Any, cast

from truerank.core.errors import MOST_REPEATS, InvalidData, InvalidParameter, UnknownName, check_at_least
from truerank.core.progress import SILENT, Progress
from truerank.data.catalogue import find_local
from truerank.papers.outcome import RecipeOutcome
from truerank.papers.store import PaperStore


@dataclass(frozen=True)
class Settings:
    """How to run a recipe.

    Parameters
    ----------
    repeats : repetitions of random experiments; None takes the paper's number
    seed : of everything random
    progress : where long jobs report
    store : where data, exact ranks and finished parts are kept, so that a run can be resumed
    workers : processes for recipes that can use several; more than one needs a script that is guarded by
        ``if __name__ == "__main__"``
    full : the paper's whole search where a recipe has a reduced one
    quick : fewer repetitions, and without what takes long to fit
    without : models that are left out, by the paper's names; ``dataset:model`` leaves it out there alone
    protocol : how an experiment is made, for recipes that know several ways; empty takes the recipe's own

    Examples
    --------
    >>> Settings().repeated(100, quick=10), Settings(quick=True).repeated(100, quick=10)
    (100, 10)
    >>> Settings(repeats=7, quick=True).repeated(100, quick=10)
    7
    """

    repeats: int | None = None
    seed: int = 0
    progress: Progress = SILENT
    store: PaperStore = field(default_factory=PaperStore)
    workers: int = 1
    full: bool = False
    quick: bool = False
    without: tuple[str, ...] = ()
    protocol: str = ""

    def __post_init__(self) -> None:
        check_at_least("workers", self.workers, 1)
        if self.repeats is not None:
            check_at_least("repeats", self.repeats, 2, MOST_REPEATS)
        if self.full and self.quick:
            raise InvalidParameter("a run is either quick or full, not both.")

    def repeated(self, usual: int, *, quick: int | None = None) -> int:
        """Return the repetitions: ``repeats`` if given, else those of a quick run or the usual ones."""
        if self.repeats is not None:
            return self.repeats
        return quick if self.quick and quick is not None else usual


@dataclass(frozen=True)
class Recipe:
    """One table or figure of a paper.

    Parameters
    ----------
    name : ``paper.table`` as on the command line
    title : what it shows
    function : ``module:function`` that takes ``Settings`` and returns a ``RecipeOutcome``; empty where
        nothing can be computed
    data : the data set it needs; empty for none
    slow : why a quick run leaves it out; empty where it does not
    is_ours : whether it is an experiment of this library rather than a table or figure of the paper
    protocols : the ways in which its experiment can be made
    """

    name: str
    title: str
    function: str = ""
    data: str = ""
    slow: str = ""
    is_ours: bool = False
    protocols: tuple[str, ...] = ()

    @property
    def paper(self) -> str:
        """Key of the paper, such as ``kr20``."""
        return self.name.partition(".")[0]

    @property
    def needed(self) -> int:
        """Repetitions that a run needs to be evidence that numbers agree; 0 where nothing is random."""
        return _NEEDED.get(self.name, 0)

    @property
    def is_ready(self) -> bool:
        """Whether its data set lies on this machine."""
        return not self.data or find_local(self.data) is not None


def printed(paper: str, table: str) -> list[dict[str, Any]]:
    """Return the rows of a printed table."""
    text = resources.files("truerank.papers").joinpath("printed", f"{paper}.json").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = json.loads(text)[table]["rows"]
    return rows


#: key to authors, year and title
PAPERS = {
    "r19": "Rendle 2019, Evaluation Metrics for Item Recommendation under Sampling",
    "kr20": "Krichene and Rendle 2020, On Sampled Metrics for Item Recommendation",
    "l20": "Li et al. 2020, On Sampling Top-K Recommendation Evaluation",
    "l23": "Li et al. 2023, Towards Reliable Item Sampling for Recommendation Evaluation",
    "s21": "Sachdeva et al. 2021, SVP-CF: Selection via Proxy for Collaborative Filtering Data",
}

_SIZES = "truerank.papers.sizes"
_TOY = "truerank.papers.rendle2019"
_KR20 = "truerank.papers.krichene2020"
_KR20_FIGURES = "truerank.papers.krichene2020_figures"
_L20 = "truerank.papers.li2020"
_L20_FIGURES = "truerank.papers.li2020_figures"
_L23 = "truerank.papers.li2023"
_L23_FIGURES = "truerank.papers.li2023"
_S21 = "truerank.papers.sachdeva2021"
_S21_FIGURES = "truerank.papers.sachdeva2021_figures"
_PROTOCOLS = ("ours", "published")
RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        Recipe("r19.table1", "Toy example, exact metrics (Section 3.2)", f"{_TOY}:exact_table"),
        Recipe("r19.table2", "Toy example, sampled metrics (Section 4.3)", f"{_TOY}:sampled_table"),
        Recipe("r19.figure1", "Metrics against the rank", f"{_TOY}:figure1"),
        Recipe("r19.figure2", "Expected sampled metrics against the sample size", f"{_TOY}:figure2"),
        Recipe("r19.figure3", "Expected sampled metrics against the true rank", f"{_TOY}:figure3"),
        Recipe("kr20.table1", "Toy example, exact metrics (as r19.table1)", f"{_TOY}:exact_table"),
        Recipe("kr20.table2", "Toy example, sampled metrics (as r19.table2)", f"{_TOY}:sampled_table"),
        Recipe("kr20.table3", "Exact, sampled and corrected metrics of X, Y, Z", f"{_KR20}:table3", "ml-1m"),
        Recipe("kr20.table4", "How often pairs of X, Y, Z are ordered correctly", f"{_KR20}:table4", "ml-1m"),
        Recipe("kr20.figure1", "Metrics against the rank (as r19.figure1)", f"{_TOY}:figure1"),
        Recipe(
            "kr20.figure2",
            "Expected sampled metrics against the sample size (as r19.figure2)",
            f"{_TOY}:figure2",
        ),
        Recipe(
            "kr20.figure3",
            "Expected sampled metrics against the true rank (as r19.figure3)",
            f"{_TOY}:figure3",
        ),
        Recipe("kr20.figure4", "Corrected AP, and what it measures", f"{_KR20_FIGURES}:figure4"),
        Recipe("kr20.figure5", "Distribution of the ranks of X, Y, Z", f"{_KR20_FIGURES}:figure5", "ml-1m"),
        Recipe(
            "kr20.figure6", "Expected Recall@10 against the sample size", f"{_KR20_FIGURES}:figure6", "ml-1m"
        ),
        Recipe(
            "kr20.laws",
            "Readings of the experiment behind Table 3, compared with print",
            f"{_KR20}:laws",
            "ml-1m",
            is_ours=True,
        ),
        Recipe(
            "kr20.fit-x",
            "Sweeps and start of X that fit its printed row best",
            f"{_KR20}:fit_x",
            "ml-1m",
            slow="it fits X 120 times, some minutes",
            is_ours=True,
        ),
        Recipe("l20.table1", "Notation"),
        Recipe("l20.table2", "Exponent of Beta ranks", f"{_L20}:table2", "ml-1m"),
        Recipe("l20.table3", "Who wins, sampled and globally", f"{_L20}:table3", "ml-1m"),
        Recipe(
            "l20.citeulike",
            "Table 3 of citeulike under several protocols",
            f"{_L20}:citeulike",
            "citeulike-a",
            slow="it fits four models to two splits, some minutes",
            is_ours=True,
        ),
        Recipe("l20.table4", "Sizes of the data sets", f"{_SIZES}:l20_table4", "ml-1m"),
        Recipe("l20.table5", "Three sampling schemes, n = 100", f"{_L20}:table5", "ml-1m"),
        Recipe("l20.table6", "Three sampling schemes, n = 1000", f"{_L20}:table6", "ml-1m"),
        Recipe("l20.table7", "Errors of the mapping functions", f"{_L20}:table7", "ml-1m"),
        Recipe("l20.figure1", "Global and sampled hit ratios", f"{_L20_FIGURES}:figure1", "ml-1m"),
        Recipe("l20.figure2", "How a sampled hit ratio comes about", f"{_L20_FIGURES}:figure2", "ml-1m"),
        Recipe("l20.figure3", "Ranks and Beta densities", f"{_L20_FIGURES}:figure3", "ml-1m"),
        Recipe("l20.figure4", "Beta locations relative to a = 1", f"{_L20_FIGURES}:figure4"),
        Recipe("l20.figure5", "Beta locations around a = 0.3", f"{_L20_FIGURES}:figure5"),
        Recipe("l20.figure6", "Why sampling favours the winner", f"{_L20_FIGURES}:figure6"),
        Recipe("l20.figure7", "Two views of the alignment", f"{_L20_FIGURES}:figure7", "ml-1m"),
        Recipe("l20.figure8", "Sample sizes on book-X", f"{_L20_FIGURES}:figure8", "book-crossing"),
        Recipe("l23.table1", "Recall errors of the estimators, n = 100", f"{_L23}:table1", "pinterest-20"),
        Recipe("l23.table2", "NDCG errors, fixed and adaptive samples", f"{_L23}:table2", "pinterest-20"),
        Recipe("l23.table3", "How often the best model is named", f"{_L23}:table3", "pinterest-20"),
        Recipe("l23.table4", "Notation"),
        Recipe("l23.table5", "Sizes of the data sets", f"{_SIZES}:l23_table5", "pinterest-20"),
        Recipe(
            "l23.table6", "Recall errors, n = 100 (table1, all data sets)", f"{_L23}:table6", "pinterest-20"
        ),
        Recipe(
            "l23.table7", "NDCG errors, fixed and adaptive (table2, all)", f"{_L23}:table7", "pinterest-20"
        ),
        Recipe(
            "l23.table8", "How often the best model is named (table3, all)", f"{_L23}:table8", "pinterest-20"
        ),
        Recipe("l23.table9", "AP errors of the estimators, n = 100", f"{_L23}:table9", "pinterest-20"),
        Recipe("l23.table10", "NDCG errors of the estimators, n = 500", f"{_L23}:table10", "pinterest-20"),
        Recipe("l23.table11", "Recall errors, fixed and adaptive samples", f"{_L23}:table11", "pinterest-20"),
        Recipe(
            "l23.figure1", "Sampled ranks, and the error of MLE against K", f"{_L23_FIGURES}:figure1", "ml-1m"
        ),
        Recipe("l23.figure2", "What a settled target costs", f"{_L23_FIGURES}:figure2", "pinterest-20"),
        Recipe(
            "l23.models",
            "Validation Recall@10 of the models, as the authors' code prints it",
            "truerank.papers.li2023_models:models",
            "pinterest-20",
            is_ours=True,
        ),
        Recipe(
            "l23.eta",
            "Errors of MES by the weight of its entropy",
            f"{_L23}:etas",
            "pinterest-20",
            is_ours=True,
        ),
        Recipe(
            "l23.estimators",
            "Every estimator on the data at hand, priors per run and averaged",
            f"{_L23_FIGURES}:estimators",
            "ml-1m",
            slow="seven models on three data sets with every estimator take hours",
            is_ours=True,
        ),
        Recipe(
            "s21.table1",
            "Psi of the sixteen strategies",
            f"{_S21}:table1",
            "amazon-magazine-svpcf",
            protocols=_PROTOCOLS,
        ),
        Recipe("s21.table2", "Algorithms and metrics of the scenarios", f"{_S21}:table2"),
        Recipe("s21.table3", "Sizes of the data sets", f"{_S21}:table3", "ml-100k"),
        Recipe("s21.table4", "CO2 of a development cycle, and the models trained", f"{_S21}:table4"),
        Recipe(
            "s21.figure1",
            "Kendall's tau against the fraction kept",
            f"{_S21_FIGURES}:figure1",
            "amazon-magazine-svpcf",
            protocols=_PROTOCOLS,
        ),
        Recipe(
            "s21.figure2",
            "Which models move up on sub-samples",
            f"{_S21_FIGURES}:figure2",
            "amazon-magazine-svpcf",
            protocols=_PROTOCOLS,
        ),
        Recipe(
            "s21.figure3",
            "Kendall's tau by strategy and metric",
            f"{_S21_FIGURES}:figure3",
            "amazon-magazine-svpcf",
            protocols=_PROTOCOLS,
        ),
    )
}


#: repetitions of the papers, or as many as make their spread known where they drew once
_NEEDED = {
    **dict.fromkeys(("r19.table2", "kr20.table2"), 1000),
    **dict.fromkeys(
        (
            f"l20.{part}"
            for part in ("table2", "table3", "citeulike", "table5", "table6", "table7", "figure8")
        ),
        20,
    ),
    **dict.fromkeys((f"l23.table{number}" for number in (1, 2, 3, 6, 7, 8, 9, 10, 11)), 100),
    "l23.eta": 100,
    "s21.table1": 3,
}


def run_recipe(name: str, settings: Settings | None = None) -> RecipeOutcome:
    """Run one recipe.

    Raises
    ------
    UnknownName
        When there is no such recipe.
    InvalidData
        When its data set does not lie on this machine.
    InvalidParameter
        When there is nothing to compute, or when a quick run leaves it out.
    """
    if name not in RECIPES:
        raise UnknownName("recipe", name, RECIPES)
    recipe = RECIPES[name]
    settings = settings or Settings()
    if not recipe.function:
        raise InvalidParameter(f"'{name}' holds no numbers ({recipe.title.lower()}). Choose another recipe.")
    if settings.protocol and settings.protocol not in recipe.protocols:
        known = " or ".join(recipe.protocols)
        raise InvalidParameter(
            f"protocol of '{name}' must be {known}, got {settings.protocol!r}."
            if known
            else f"'{name}' has one protocol, got {settings.protocol!r}. Leave --protocol out."
        )
    if settings.quick and recipe.slow:
        raise InvalidParameter(f"'{name}' is no part of a quick run: {recipe.slow}. Run it without --quick.")
    if not recipe.is_ready:
        raise InvalidData(
            f"recipe {name!r} needs the data set {recipe.data!r}, which is not at hand. "
            f"Get it with: truerank data fetch {recipe.data}"
        )
    module, _, function = recipe.function.partition(":")
    run = cast(Callable[[Settings], RecipeOutcome], getattr(importlib.import_module(module), function))
    outcome = run(settings)
    if outcome.repeats is not None and outcome.repeats < recipe.needed and not outcome.short:
        return replace(outcome, short=f"{outcome.repeats} of {recipe.needed} repeats")
    return outcome
