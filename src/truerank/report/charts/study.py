"""A study of estimators as a page: which one to trust, its curves beside the exact ones, and all errors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from truerank.core.chart import Chart, ChartAxis, Document, HeatMap, Section, Series
from truerank.core.result import NAIVE
from truerank.core.table import Table, count_of, listed_in_words, rounded
from truerank.report.facts import flat_facts
from truerank.workflows.study import Study

_CHARTED = 3  # metrics with a chart each
_BANDS = 3  # estimators whose spread is drawn; more bands hide each other
_SPREAD = (0.05, 0.95)
_DEEPEST = 100.0  # percent; larger errors have the same colour


def study_document(study: Study, *, name: str = "") -> Document:
    """Return a page of a study: the verdict, errors by estimator, curves against K, and who is named best.

    Parameters
    ----------
    study : what was measured
    name : of the data
    """
    return Document(
        title=f"study: {name or listed_in_words(study.models)}",
        lead=study_verdict(study),
        sections=tuple(_sections(study)),
        facts=(("command", "truerank study"), *flat_facts(study.provenance)),
        metrics=tuple(f"{family}@{study.cutoffs[-1]}" for family in study.families),
    )


def study_verdict(study: Study) -> str:
    """Return which estimator comes closest to the exact metrics, and how often it names the best model.

    Examples
    --------
    >>> exact = np.full((1, 1, 1), 0.5)
    >>> runs = np.array([0.75, 0.55]).reshape(2, 1, 1, 1, 1)
    >>> study_verdict(Study(("a",), ("naive", "mle"), ("recall",), (10,), exact, runs, np.array([99.0])))
    'Closest to the exact metrics is mle, 10 % off on average; naive is 50 % off.'
    """
    errors = study.errors()[0].mean(axis=(1, 2))
    order = np.argsort(errors, kind="stable")
    best = int(order[0])
    off = f"{rounded(errors[best])} % off on average"
    sentence = f"Closest to the exact metrics is {study.estimators[best]}, {off}"
    if len(order) > 1:
        others = [f"{study.estimators[at]} is {rounded(errors[at])} % off" for at in order[1:].tolist()]
        sentence += f"; {listed_in_words(others)}"
    if len(study.models) > 1 and study.winner_cutoffs:
        counts = [
            int(study.winners(family, cutoff)[best])
            for family in study.families
            for cutoff in study.winner_cutoffs
        ]
        total = count_of(len(counts) * study.n_repeats, "ranking")
        sentence += f". It puts the best model first in {sum(counts):,} of {total}, one per sample and metric"
    return f"{sentence}."


def _sections(study: Study) -> Iterator[Section]:
    relative = (
        f"Relative errors in percent, averaged over K from {study.cutoffs[0]} to {study.cutoffs[-1]} and "
        f"over {count_of(study.n_repeats, 'sample')} of negatives."
    )
    yield Section("Errors", notes=(relative,), tables=(_overview(study),), charts=tuple(error_maps(study)))
    best = study.best(study.families[0], study.cutoffs[-1])
    charts = tuple(study_curve(study, family, best) for family in study.families[:_CHARTED])
    yield Section("Exact and estimated curves of the best model", charts=charts)
    if len(study.models) > 1 and study.winner_cutoffs:
        yield Section("Who is named best", tables=(_winners(study),))
    yield Section("All errors", tables=(_errors(study),), is_folded=True)


def error_maps(study: Study) -> Iterator[HeatMap]:
    """Yield the errors by estimator and model, a map for each metric; none where there is one model."""
    mean, _ = study.errors()
    for at, family in enumerate(study.families[:_CHARTED] if len(study.models) > 1 else ()):
        values = tuple(tuple(row) for row in mean[:, :, at].tolist())
        closest = study.estimators[int(mean[:, :, at].mean(axis=1).argmin())]
        yield HeatMap(
            key=f"errors-{at + 1}",
            title=f"Error in {family}",
            words=f"Relative error in {family} by estimator and model. On average {closest} is closest.",
            rows=study.estimators,
            columns=study.models,
            values=values,
            label="relative error in percent",
            low=0.0,
            high=min(max(float(mean[:, :, at].max()), 1e-9), _DEEPEST),
        )


def study_curve(study: Study, family: str, model: str) -> Chart:
    """Return a metric along K: the exact values, and the mean estimates with their spread over samples.

    Naive values are of another scale and are left out where there are others.

    Parameters
    ----------
    study : what was measured
    family : metric without its cut-off
    model : name of the model
    """
    row = study.models.index(model)
    column = study.families.index(family)
    cutoffs = tuple(map(float, study.cutoffs))
    runs = study.runs[:, row, :, column]
    low, high = np.quantile(runs, _SPREAD, axis=1)
    shown = [at for at, name in enumerate(study.estimators) if name != NAIVE] or [0]
    has_bands = len(shown) <= _BANDS
    exact = study.exact[row, column]
    lines = tuple(
        Series(
            study.estimators[at],
            cutoffs,
            tuple(runs[at].mean(axis=0).tolist()),
            tuple(low[at].tolist()) if has_bands else (),
            tuple(high[at].tolist()) if has_bands else (),
            model=study.estimators[at],
            is_dashed=True,
        )
        for at in shown
    )
    notes = ["Lines are means over the samples, bands hold nine in ten of them."] if has_bands else []
    if len(shown) < len(study.estimators):
        notes.append("Naive values, those of the sampled lists, are of another scale and not drawn.")
    ends = [f"{line.label} {line.y[-1]:.4f}" for line in lines]
    return Chart(
        key=f"study-{family}",
        title=f"{family}@K of {study.models[row]}",
        words=f"{family}@K of {study.models[row]}, exact and estimated. At K = {study.cutoffs[-1]}: exact "
        f"{exact[-1]:.4f}, {listed_in_words(ends)}.",
        x=ChartAxis("K", "log", "count"),
        y=ChartAxis(f"{family}@K", low=0.0),
        series=(Series("exact", cutoffs, tuple(exact.tolist())), *lines),
        notes=tuple(notes),
    )


def _overview(study: Study) -> Table:
    mean = study.errors()[0].mean(axis=1)
    order = np.argsort(mean.mean(axis=1), kind="stable").tolist()
    rows = tuple((study.estimators[at], *(f"{error:.1f}" for error in mean[at].tolist())) for at in order)
    strong = frozenset((order.index(int(at)), f + 1) for f, at in enumerate(mean.argmin(axis=0)))
    return Table(("estimator", *study.families), rows, "Mean over models, closest first", strong=strong)


def _errors(study: Study) -> Table:
    rows = tuple(
        (metric, model, estimator, f"{error:.2f}", f"{spread:.2f}")
        for metric, model, estimator, error, spread in study.to_polars().rows()
    )
    return Table(("metric", "model", "estimator", "error in percent", "standard deviation"), rows)


def _winners(study: Study) -> Table:
    rows = []
    for family in study.families:
        for cutoff in study.winner_cutoffs:
            counts = [f"{count} of {study.n_repeats}" for count in study.winners(family, cutoff).tolist()]
            if study.named is not None:
                found = study.posterior_winners(family, cutoff)
                counts.append(f"{found.right} of {study.n_repeats}, {found.wrong} wrong, {found.open} open")
            rows.append((f"{family}@{cutoff}", study.best(family, cutoff), *counts))
    posterior = () if study.named is None else ("posterior",)
    notes = ("The posterior names a model only where all its differences are decided.",) if posterior else ()
    return Table(("metric", "best model", *study.estimators, *posterior), tuple(rows), notes=notes)
