"""Figures 4 to 6 of Krichene and Rendle (2020), and what the text says about them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import numpy as np
from scipy.stats import hypergeom

from truerank.core.ranks import Ranks
from truerank.core.types import FloatArray
from truerank.estimation.expectation import corrected_values, expected_values
from truerank.estimation.law import Binomial
from truerank.estimation.registry import ESTIMATORS
from truerank.metrics.registry import make_metrics, values
from truerank.papers.expected_metrics import sampled_rank_chances
from truerank.papers.figure import make_axes, plot_lines
from truerank.papers.krichene2020 import (
    LIKELY,
    N_NEGATIVES,
    X_STARTS,
    mean_pool,
    ranks_of_starts,
    recommender_ranks,
)
from truerank.papers.outcome import PaperNumber, RecipeOutcome
from truerank.papers.recipe import Settings

#: panels of Figure 6
SHOWN = {"uncorrected": "naive", "BV 0.1": "bv(gamma=0.1)"}


def figure4(settings: Settings) -> RecipeOutcome:
    """Plot corrected AP for m = 100 and N = 10,000: per sampled rank, and what it measures in expectation."""
    law = Binomial(9_999, N_NEGATIVES)
    (metric,) = make_metrics("ap")
    shown = {"CLS": LIKELY.cls, **{f"BV {gamma}": f"bv(gamma={gamma})" for gamma in (1, 0.1, 0.01, 0.001)}}
    corrected = {name: corrected_values(ESTIMATORS.make(spec), metric, law) for name, spec in shown.items()}
    above = np.arange(1000)
    expected = {
        name: expected_values(metric, law, above, estimator=ESTIMATORS.make(spec))[0]
        for name, spec in shown.items()
    }
    expected["exact"] = 1 / (above + 1)
    figure, (left, right) = make_axes(1, 2)
    first = 15
    plot_lines(
        left,
        np.arange(1, first + 1),
        {name: x[:first] for name, x in corrected.items()},
        title="corrected AP",
        labels=("sampled rank", "value"),
    )
    plot_lines(right, above + 1, expected, title="its expectation", labels=("true rank", "value"), log=True)
    right.set_ylim(-0.02, 0.25)
    return RecipeOutcome((), {"kr20.figure4": figure})


def figure5(settings: Settings) -> RecipeOutcome:
    """Plot the ranks of X, Y and Z in bins of 100; a tied user counts evenly over its block of ties."""
    edges = np.arange(0, 3_801, 100)
    figure, panels = make_axes(1, 3, width=3.6)
    counts = {}
    for axes, (name, ranks) in zip(panels, recommender_ranks(settings.store).items(), strict=True):
        counts[name] = spread_counts(ranks, edges)
        axes.bar(edges[:-1] + 50, counts[name], width=92, color="#0b57b0")
        axes.set_title(f"recommender {name}", fontsize=10, fontweight="bold", loc="left")
        axes.set_xlabel("rank", fontsize=9)
        axes.set_ylabel("users", fontsize=9)
        axes.tick_params(labelsize=8)
    x, z = recommender_ranks()["X"], recommender_ranks()["Z"]
    spread = float(
        np.std(
            [(each.best <= 100).sum() for each in ranks_of_starts(settings.progress, settings.store)], ddof=1
        )
    )
    low = float((x.best > x.n_pool / 2).sum())
    cells = (
        PaperNumber("X", "in the top 100", 2310, float(counts["X"][0]), spread, digits=0),
        PaperNumber("X", "in the bottom half", None, low, digits=0),
        PaperNumber("X", "fewer than 300 there (1 = yes)", 1, float(low < 300), digits=0),
        _worst_bucket(z),
        PaperNumber("Z", "tied with other items", None, float((z.n_tied > 0).sum()), digits=0),
    )
    return RecipeOutcome(cells, {"kr20.figure5": figure})


def _worst_bucket(ranks: Ranks) -> PaperNumber:
    """Return the users of Z in the last bucket of 100 if all ties are lost; the text says over 1,600."""
    claimed, lost = 1_600, np.sort(ranks.worst)[::-1]
    highest = int(np.ceil(lost[0] / 100)) * 100
    width = highest - int(lost[claimed]) + 1  # of the smallest bucket at the end that holds more than claimed
    at_random = float(spread_counts(ranks, np.array([highest - width, highest]))[0])
    note = ""
    if at_random < claimed and width <= 200:
        auc = 100 * float(values(make_metrics("auc"), ranks, ties="worst").mean())
        note = (
            f"a last bucket holds over {claimed:,} users only if ties are lost and it has {width} ranks or "
            f"more; with ties at random it holds {at_random:.0f}. The paper gives no width, and with ties "
            f"lost the AUC of Z would be {auc:.2f}, not the printed one: figure and table broke ties "
            "differently"
        )
    held = float((lost > highest - 100).sum())
    return PaperNumber("Z", "in the worst bucket, ties lost", claimed, held, digits=0, note=note)


def spread_counts(ranks: Ranks, edges: np.ndarray) -> FloatArray:
    """Return the users in each bin (edge, next edge]; a tied user counts evenly over its block of ties."""
    first, last = ranks.best - 1, ranks.worst
    inside = np.clip(edges[None, :], first[:, None], last[:, None]) - first[:, None]
    fractions: FloatArray = np.diff(inside, axis=1) / (last - first)[:, None]
    return np.asarray(fractions.sum(axis=0))


def figure6(settings: Settings) -> RecipeOutcome:
    """Plot expected Recall@10 against the sample size, uncorrected and corrected by BV with gamma 0.1."""
    ranks = {name: _untied(each) for name, each in recommender_ranks(settings.store).items()}
    starts = [_untied(each) for each in ranks_of_starts(settings.progress, settings.store)]
    largest = int(ranks["Y"].n_pool.min()) - 1
    sizes = np.unique(np.geomspace(10, largest, 30).astype(np.int64)).tolist()
    figure, panels = make_axes(1, 2)
    needed, spread = {}, {}
    for axes, (title, spec) in zip(panels, SHOWN.items(), strict=True):
        lines = {name: [recall_of(each, m, spec) for m in sizes] for name, each in ranks.items()}
        plot_lines(axes, sizes, lines, title=title, labels=("samples m", "expected Recall@10"), log=True)
        of_y = cache(partial(recall_of, ranks["Y"], spec=spec))
        needed[title] = samples_to_order(partial(recall_of, ranks["X"], spec=spec), of_y, largest)
        found = [samples_to_order(partial(recall_of, each, spec=spec), of_y, largest) for each in starts]
        spread[title] = float(np.std(found, ddof=1))
    column, (plain, corrected) = "samples that order X and Y", SHOWN
    cells = (
        PaperNumber(plain, column, 1000, needed[plain], spread[plain], digits=0),
        PaperNumber(corrected, column, None, needed[corrected], spread[corrected], digits=0),
        PaperNumber(corrected, "fewer than 60 (1 = yes)", 1, float(needed[corrected] < 60), digits=0),
    )
    notes = (
        f"samples without replacement, so at most {largest:,}, the smallest pool; corrected for n = "
        f"{mean_pool():,}; errors are standard deviations over {X_STARTS} starts of X; tied targets are "
        "spread evenly over their blocks",
    )
    return RecipeOutcome(cells, {"kr20.figure6": figure}, notes)


def _untied(ranks: Ranks) -> Ranks:
    """Return ranks in one order of ties, in which tied targets fill their blocks evenly."""
    golden = (np.sqrt(5) - 1) / 2  # its multiples are the most even sequence in the unit interval
    place = np.floor((np.arange(len(ranks)) * golden % 1) * (ranks.n_tied + 1)).astype(np.int64)
    return Ranks.single(ranks.n_above + place, n_pool=ranks.n_pool)


def recall_of(ranks: Ranks, n_negatives: int, spec: str) -> float:
    """Return expected Recall@10 over samples without replacement, for ranks without ties."""
    if spec == "naive":
        return float(np.mean(hypergeom.cdf(9, ranks.n_pool - 1, ranks.n_above, n_negatives)))
    (metric,) = make_metrics("recall@10")
    x = corrected_values(ESTIMATORS.make(spec), metric, Binomial(mean_pool() - 1, n_negatives))
    return float(sampled_rank_chances(ranks, n_negatives, replacement=False).mean(axis=0) @ x)


def samples_to_order(worse: Callable[[int], float], better: Callable[[int], float], largest: int) -> float:
    """Return the number of samples from which the better recommender has the larger expected metric.

    By bisection, as the order changes once; ``largest`` where more samples would be needed.

    Examples
    --------
    >>> samples_to_order(lambda m: 100.0, lambda m: float(m), 1000)
    101.0
    """
    low, high = 9, largest
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if better(middle) > worse(middle) else (middle, high)
    return float(high)
