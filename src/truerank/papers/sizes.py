"""Tables of data-set sizes in Li et al. (2020, 2023): events, users, items and sparsity."""

from __future__ import annotations

from collections.abc import Mapping

from truerank.core.interactions import Interactions
from truerank.data.catalogue import find_local, load
from truerank.papers.li2020 import BOOKS, book_events
from truerank.papers.outcome import PaperNumber, RecipeOutcome
from truerank.papers.recipe import Settings, printed

#: name in print to what ``load`` takes
DATASETS: Mapping[str, str] = {
    "ml-1m": "ml-1m",
    "pinterest-20": "pinterest-20",
    "citeulike": "citeulike-a",
    "yelp": "yelp",
    "book-X": BOOKS.dataset,
    "ml-20m": "ml-20m",
}
#: data sets of which only a part is available
PARTIAL = {"pinterest-20": "of pinterest-20 the first 37,501 of 55,187 users are at hand"}


def l20_table4(settings: Settings) -> RecipeOutcome:
    """Count the data sets of Li et al. (2020)."""
    return _sizes("l20", "table4", settings)


def l23_table5(settings: Settings) -> RecipeOutcome:
    """Count the data sets of Li et al. (2023)."""
    return _sizes("l23", "table5", settings)


def _sizes(paper: str, table: str, settings: Settings) -> RecipeOutcome:
    cells, without = [], []
    for row in printed(paper, table):
        name, shown = row["dataset"], row["values"]
        if find_local(DATASETS[name]) is None:
            without.append(f"{name}: data not at hand")
            continue
        events = _events(name, settings)
        counts = {"Interactions": len(events), "Users": events.n_users, "Items": events.n_items}
        sparsity = 100 * (1 - len(events) / (events.n_users * events.n_items))
        note = PARTIAL.get(name, "") if counts["Users"] < shown["Users"] else ""
        cells += [
            PaperNumber(name, column, shown[column], count, digits=0, note=note)
            for column, count in counts.items()
        ]
        cells.append(PaperNumber(name, "Sparsity", shown["Sparsity"], sparsity, note=note))
    return RecipeOutcome(tuple(cells), without=tuple(without))


def _events(name: str, settings: Settings) -> Interactions:
    return book_events() if name == "book-X" else load(DATASETS[name], progress=settings.progress)
