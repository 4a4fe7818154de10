"""Figures of Li et al. (2023), and every estimator on every data set at hand."""

from __future__ import annotations

import numpy as np

from truerank.core.tally import tally
from truerank.core.types import FloatArray
from truerank.estimators import ESTIMATORS as REGISTRY
from truerank.papers.draw import draw_lines, make_axes
from truerank.papers.li2023 import ADAPTIVE, ESTIMATORS, OURS, REPEATS, run_study, uniform
from truerank.papers.li2023_setup import SETUPS
from truerank.papers.outcome import Cell, Outcome
from truerank.papers.recipe import Settings
from truerank.ranks import sample
from truerank.ranks.adaptive_cost import choose_ceiling, cost_curve
from truerank.studies import AVERAGED, Study

#: data sets that stand in for those of the paper's figures, which are not at hand
FIGURE1, FIGURE2 = "ml-1m", "pinterest-20"
ALL = ("ml-1m", "citeulike-a", "pinterest-20")
#: models beside the paper's five
MORE = {"popularity": "popularity", "MF": "mf"}


def figure1(settings: Settings) -> Outcome:
    """Draw the sampled ranks of EASE at n = 100, and the error of MLE against K."""
    setup, store = SETUPS[FIGURE1], settings.store
    model = setup.fitted(store, settings.seed)["EASE"]
    parts = store.split(setup.dataset, setup.split)
    scorer = model.fit(parts.train)
    drawn = sample(scorer, parts, uniform(100), seen="keep", seed=settings.seed).ranks
    counts = tally(drawn).counts(0)
    found = run_study(settings, FIGURE1, uniform(100), ["mle"])
    place = found.models.index("EASE")
    recall = found.families.index("recall")
    exact, runs = found.exact[place, recall], found.runs[0, place, :, recall]
    error = 100 * np.abs(runs / np.where(exact > 0, exact, np.nan) - 1)
    figure, (left, right) = make_axes(1, 2)
    draw_lines(
        left,
        np.arange(1, 101),
        {"users": counts},
        title="Sampled ranks, n = 100",
        labels=("sampled rank r", "users"),
        legend=False,
    )
    left.set_yscale("log")
    left.plot([1], [counts[0]], "o", color="#c4500c")
    draw_lines(
        right,
        np.array(found.cutoffs),
        {"mean": np.nanmean(error, axis=0), "90 % of samples": np.nanquantile(error, 0.9, axis=0)},
        title="Error of mle for Recall@K, percent",
        labels=("K", "relative error in percent"),
    )
    mean = np.nanmean(error, axis=0)
    return Outcome(
        figures={"l23.figure1": figure},
        without=("drawn for ml-1m: the paper's ml-20m is not at hand",),
        repeats=found.n_repeats,
        notes=(
            f"{counts[0] / counts.sum():.0%} of the users have r = 1; the error is {mean[0]:.0f} % at K = 1, "
            f"{mean[9]:.0f} % at 10 and {mean[-1]:.0f} % at 50 (in the paper it grows as K falls to 1).",
        ),
    )


def figure2(settings: Settings) -> Outcome:
    """Draw what a settled target costs against the size of adaptive samples."""
    setup, store = SETUPS[FIGURE2], settings.store
    model = setup.fitted(store, settings.seed)["EASE"]
    parts = store.split(setup.dataset, setup.split)
    n_items = parts.train.n_items
    largest = 100 * 2 ** int(np.log2(n_items / 100))
    sampler = f"adaptive(start=100, max={largest}, replace=true)"
    curve = cost_curve(
        sample(
            model.fit(parts.train),
            parts,
            sampler,
            seen="keep",
            seed=settings.seed,
            progress=settings.progress,
        ).ranks
    )
    ceiling = choose_ceiling(curve)
    share = curve.sizes / n_items
    figure, (axes,) = make_axes(1, 1, width=5.2)
    draw_lines(
        axes,
        100 * share[:-1],
        {"C": curve.cost[:-1]},
        title="Scores per settled target",
        labels=("size in percent of the items", "C"),
        legend=False,
    )
    axes.plot(100 * share[:-1], curve.cost[:-1], "o", color="#0b57b0")
    axes.axvline(100 * ceiling / n_items, color="#c4500c", linestyle="--", linewidth=1)
    return Outcome(
        figures={"l23.figure2": figure},
        without=("drawn for a part of pinterest-20: the paper's yelp is not at hand",),
        notes=(
            f"The knee is at {ceiling} of {n_items:,} items, {ceiling / n_items:.1%} (12.4 % in the paper).",
        ),
    )


def estimators(settings: Settings) -> Outcome:
    """Every estimator on the data at hand: n = 100, 500 and adaptive; priors per run and averaged."""
    cells: list[Cell] = []
    notes: list[str] = []
    without: list[str] = []
    fixed = [*(spec for spec, _ in ESTIMATORS.values()), *OURS]
    adaptive = ["mle(iterations=50)", "mle", "bv(gamma=0.01)", "mn(prior=mle(iterations=50))", "smooth"]
    for dataset in ALL:
        if not SETUPS[dataset].is_at_hand:
            without.append(f"{dataset}: data not at hand")
            continue
        studies = {
            "n=100": run_study(settings, dataset, uniform(100), fixed, MORE),
            "n=500": run_study(settings, dataset, uniform(500), fixed, MORE),
            "adaptive": run_study(settings, dataset, ADAPTIVE, adaptive, MORE),
        }
        for name, found in studies.items():
            cells += _cells(dataset, name, found)
        notes += _comparisons(dataset, studies)
    repeats = settings.repeated(REPEATS)
    return Outcome(tuple(cells), notes=tuple(notes), without=tuple(without), repeats=repeats)


def _cells(dataset: str, design: str, found: Study) -> list[Cell]:
    mean, spread = found.errors()
    cells = []
    for m, model in enumerate(found.models):
        for f, family in enumerate(found.families):
            row = f"{dataset} {model} {family} {design}"
            cells += [
                Cell(row, name, None, float(mean[e, m, f]), float(spread[e, m, f]) / np.sqrt(found.n_repeats))
                for e, name in enumerate(found.estimators)
            ]
        cells.append(
            Cell(f"{dataset} {model} {design}", "items", None, float(found.items_per_user[m]), digits=1)
        )
    return cells


def _comparisons(dataset: str, studies: dict[str, Study]) -> list[str]:
    """Return sentences on adaptive against fixed samples, and on smooth against EM."""
    adaptive, large = studies["adaptive"], studies["n=500"]
    budget = f"at {adaptive.items_per_user.mean():.0f} items per user"
    published = [str(REGISTRY.make(spec)) for spec, _ in ESTIMATORS.values()]
    pairs = (
        ("mle(iterations=50)", "the best of the paper's seven", published),
        ("smooth", "the best of all, smooth among them,", list(large.estimators)),
    )
    notes = []
    for name, rivals, allowed in pairs:
        own = adaptive.errors()[0][adaptive.estimators.index(name)]
        best = _best(large, allowed)
        notes.append(
            f"{dataset}: adaptive {name} beats {rivals} at n = 500 (priors per run) in "
            f"{int((own < best).sum())} of {own.size} rows, {budget}; mean error {own.mean():.2f} against "
            f"{best.mean():.2f} %."
        )
    for design in ("n=100", "n=500", "adaptive"):
        found = studies[design]
        mean, _ = found.errors()
        smooth, em = (mean[found.estimators.index(spec)] for spec in ("smooth", "mle"))
        notes.append(
            f"{dataset} {design}: smooth beats mle in {int((smooth < em).sum())} of {em.size} rows; mean "
            f"error {smooth.mean():.2f} against {em.mean():.2f} %."
        )
    return notes


def _best(found: Study, allowed: list[str]) -> FloatArray:
    """Return the smallest error over some estimators whose prior is fixed or comes from the sample itself."""
    kept = [e for e, name in enumerate(found.estimators) if name in allowed and not name.endswith(AVERAGED)]
    best: FloatArray = found.errors()[0][kept].min(axis=0)
    return best
