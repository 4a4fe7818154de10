"""Rendle (2019), Evaluation Metrics for Item Recommendation under Sampling: the toy example.

Tables 1 and 2 and Figures 1 to 3 of Krichene and Rendle (2020) are the same.
"""

from __future__ import annotations

import numpy as np

from truerank.core.progress import tracked
from truerank.core.ranks import Ranks
from truerank.estimation.expectation import corrected_values, expected_values
from truerank.estimation.law import Binomial
from truerank.estimation.registry import ESTIMATORS
from truerank.metrics.registry import make_metrics, values
from truerank.papers.expected_metrics import expected_recall, order_flips
from truerank.papers.figure import make_axes, plot_lines
from truerank.papers.outcome import PaperNumber, RecipeOutcome
from truerank.papers.recipe import Settings, printed
from truerank.ranking.simulate import simulate_sample

N_ITEMS = 10_000
N_NEGATIVES = 99
REPEATS = 1000
#: name in print to metric
METRICS = {"AUC": "auc", "AP": "ap", "NDCG": "ndcg", "Recall@10": "recall@10"}
SIZES = np.unique(np.geomspace(1, N_ITEMS - 1, 160).astype(np.int64))


def recommenders() -> dict[str, list[int]]:
    """Return the ranks of A, B and C."""
    return {row["recommender"]: row["ranks"] for row in printed("r19", "table1")}


def exact_table(settings: Settings) -> RecipeOutcome:
    """Compute the four exact metrics of A, B and C (Section 3.2)."""
    metrics = make_metrics(list(METRICS.values()))
    cells = []
    for row in printed("r19", "table1"):
        ranks = Ranks.single(np.array(row["ranks"]) - 1, n_pool=N_ITEMS)
        results = values(metrics, ranks).mean(axis=0)
        for name, value in zip(METRICS, results, strict=True):
            cells.append(PaperNumber(row["recommender"], name, row["values"][name], float(value), digits=3))
    return RecipeOutcome(tuple(cells))


def sampled_table(settings: Settings) -> RecipeOutcome:
    """Compute mean and standard deviation of the sampled metrics over repetitions, m = 99 (Section 4.3)."""
    metrics = make_metrics(list(METRICS.values()))
    law, naive = Binomial(N_ITEMS - 1, N_NEGATIVES), ESTIMATORS.make("naive")
    tables = [corrected_values(naive, metric, law) for metric in metrics]
    repeats = settings.repeated(REPEATS)
    rows = printed("r19", "table2")
    cells = []
    with tracked(settings.progress, "repetitions", repeats * len(rows)) as task:
        for row in rows:
            name, ranks = row["recommender"], Ranks.single(np.array(row["ranks"]) - 1, n_pool=N_ITEMS)

            def compute(ranks: Ranks = ranks, name: str = name) -> dict[str, np.ndarray]:
                runs = np.empty((repeats, len(metrics)))
                for repeat in range(repeats):
                    sample = simulate_sample(
                        ranks, N_NEGATIVES, replacement=True, seed=settings.seed, repeat=repeat, label=name
                    )
                    runs[repeat] = [table[sample.n_above].mean() for table in tables]
                    task.advance()
                return {"runs": runs}

            key = (
                f"r19 runs {name} {row['ranks']} x{repeats} m={N_NEGATIVES} of {N_ITEMS} seed={settings.seed}"
            )
            kept = settings.store.arrays(f"{key} {' '.join(METRICS.values())}", compute)
            cells.extend(_mean_and_sd(name, row["values"], kept["runs"]))
    return RecipeOutcome(tuple(cells), notes=_expectations(), repeats=repeats)


def _mean_and_sd(name: str, shown: dict[str, dict[str, float]], runs: np.ndarray) -> list[PaperNumber]:
    cells = []
    for metric, run in zip(METRICS, runs.T, strict=True):
        mean, sd = float(run.mean()), float(run.std())
        theirs = shown[metric]
        error = float(np.hypot(sd / np.sqrt(len(run)), theirs["sd"] / np.sqrt(REPEATS)))
        cells.append(PaperNumber(name, metric, theirs["mean"], mean, error, digits=3))
        # The sd of a sample of n has a standard error of about sd sqrt((kurtosis - 1)/(4 n)).
        kurtosis = float(np.mean((run - mean) ** 4) / sd**4) if sd else 3.0
        spread = np.sqrt(max(kurtosis - 1, 1) / 4)
        error = float(np.hypot(sd * spread / np.sqrt(len(run)), theirs["sd"] * spread / np.sqrt(REPEATS)))
        cells.append(PaperNumber(name, f"{metric} sd", theirs["sd"], sd, error, digits=3))
    return cells


def _expectations() -> tuple[str, ...]:
    law = Binomial(N_ITEMS - 1, N_NEGATIVES)
    notes = []
    for name, ranks in recommenders().items():
        above = np.array(ranks) - 1
        shown = []
        for label, metric in zip(METRICS, make_metrics(list(METRICS.values())), strict=True):
            mean, variance = expected_values(metric, law, above)
            shown.append(f"{label} {mean.mean():.4f} +- {np.sqrt(variance.sum()) / len(above):.4f}")
        notes.append(f"expected, {name}: {', '.join(shown)}")
    return tuple(notes)


def figure1(settings: Settings) -> RecipeOutcome:
    """Plot metrics against the rank: all ranks, and the first hundred."""
    metrics = make_metrics(list(METRICS.values()))
    rank = np.arange(1, N_ITEMS + 1)
    ones = np.ones_like(rank)
    gains = {
        name: metric.gain(rank, 0 * ones, ones, N_ITEMS * ones)
        for name, metric in zip(METRICS, metrics, strict=True)
    }
    figure, (whole, zoom) = make_axes(1, 2)
    plot_lines(whole, rank, gains, title="all ranks", labels=("rank", "metric"))
    plot_lines(
        zoom, rank[:100], {name: y[:100] for name, y in gains.items()}, title="first 100", labels=("rank", "")
    )
    cells = (
        PaperNumber("AP", "rank 2 / rank 1", 0.5, float(gains["AP"][1] / gains["AP"][0]), digits=1),
        PaperNumber("NDCG", "rank 1 / rank 2", 1.58, float(gains["NDCG"][0] / gains["NDCG"][1])),
    )
    return RecipeOutcome(cells, {"r19.figure1": figure})


def figure2(settings: Settings) -> RecipeOutcome:
    """Plot expected sampled metrics of A, B and C against the number of samples."""
    figure, panels = make_axes(1, 4, width=3.6)
    notes = []
    for axes, (name, metric) in zip(panels, METRICS.items(), strict=True):
        flips = order_flips(recommenders(), make_metrics(metric)[0], n_pool=N_ITEMS, n_negatives=SIZES)
        lines = dict(zip(flips.names, flips.expected.T, strict=True))
        plot_lines(axes, flips.n_negatives, lines, title=name, labels=("samples m", "expected"), log=True)
        for color, value in zip(("#0b57b0", "#c4500c", "#1b8a6b"), flips.exact, strict=True):
            axes.axhline(value, color=color, linewidth=0.7, alpha=0.5)
        stretches = "; ".join(f"m {first}-{last}: {order}" for first, last, order in flips.runs())
        notes.append(f"{name}: exact {flips.exact_order}; {stretches}")
    return RecipeOutcome((*_claimed_orders(), *_settled_recall()), {"r19.figure2": figure}, tuple(notes))


def _claimed_orders() -> list[PaperNumber]:
    """Return whether AP orders A, B and C as the text says, at every sample size that it names."""
    claims = {"A > C > B": range(1, 50), "A > B > C": range(200, 201), "C > A > B": range(500, 501)}
    cells = []
    for order, sizes in claims.items():
        found = order_flips(recommenders(), make_metrics("ap")[0], n_pool=N_ITEMS, n_negatives=list(sizes))
        orders = {each for _, _, each in found.runs()}
        column = f"{order} at m = {sizes[0]}" if len(sizes) == 1 else f"{order} below m = {sizes.stop}"
        cells.append(PaperNumber("AP", f"{column} (1 = yes)", 1, float(orders == {order}), digits=0))
    return cells


def _settled_recall() -> list[PaperNumber]:
    """Return the sample sizes from which expected recall names the best and has three digits right."""
    above = {name: np.array(ranks) - 1 for name, ranks in recommenders().items()}
    exact = {name: float((each < 10).mean()) for name, each in above.items()}
    expected = np.array(
        [
            [expected_recall(Binomial(N_ITEMS - 1, m), each, 10).mean() for each in above.values()]
            for m in range(1, N_ITEMS)
        ]
    )
    off = np.abs(expected - np.array(list(exact.values()))).max(axis=1) > 0.0005
    best = list(exact).index(max(exact, key=exact.__getitem__))
    wrong = expected[:, best] <= np.delete(expected, best, axis=1).max(axis=1)
    ordered, settled = (int(np.flatnonzero(each).max(initial=-1)) + 2 for each in (wrong, off))
    note = ""
    if ordered <= 5_000 <= settled:
        note = (
            f"the right recommender is the best from {ordered:,} samples on and three digits are right from "
            f"{settled:,} on; the text does not say which it means"
        )
    return [
        PaperNumber("Recall@10", "samples for reliable results", 5_000, float(ordered), digits=0, note=note),
        PaperNumber("Recall@10", "samples for three digits", None, float(settled), digits=0),
    ]


def figure3(settings: Settings) -> RecipeOutcome:
    """Plot expected sampled metrics against the true rank, for several numbers of samples."""
    figure, panels = make_axes(1, 4, width=3.6)
    above = np.arange(1000)
    for axes, (name, written) in zip(panels, METRICS.items(), strict=True):
        (metric,) = make_metrics(written)
        lines = {
            f"m = {size}": expected_values(metric, Binomial(N_ITEMS - 1, size), above)[0]
            for size in (1, 10, 100, 1000)
        }
        ones = np.ones_like(above)
        lines["exact"] = metric.gain(above + 1, 0 * ones, ones, N_ITEMS * ones)
        plot_lines(
            axes, above + 1, lines, title=name, labels=("true rank", "expected"), legend=axes is panels[0]
        )
    return RecipeOutcome((), {"r19.figure3": figure})
