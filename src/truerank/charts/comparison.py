"""A comparison as a document: verdicts first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from truerank.charts.facts import facts_of
from truerank.charts.winner_map import winner_map
from truerank.charts.wording import listed
from truerank.comparison import Comparison
from truerank.comparison.forest import compared, forest
from truerank.core.chart import Picture
from truerank.core.document import Document, Section
from truerank.core.table import Table

_MAPPED = 4  # models from which on a map helps


def comparison_document(comparison: Comparison) -> Document:
    """Return a page of a comparison: verdicts in words, differences as charts, and the values behind them.

    Examples
    --------
    >>> from truerank.comparison import compare
    >>> from truerank.core.ranks import Ranks
    >>> ranks = {"A": Ranks.single([0, 3, 0], n_pool=9), "B": Ranks.single([0, 3, 5], n_pool=9)}
    >>> page = comparison_document(compare(ranks, metrics="recall@1"))
    >>> page.title, [section.title for section in page.sections]
    ('compare: A and B', ['Verdicts', 'Differences', 'Values'])
    """
    models = comparison.models()
    return Document(
        title=f"compare: {listed(models)}",
        lead=_lead(comparison),
        sections=(
            Section(
                "Verdicts",
                notes=tuple(
                    _capital(sentence, models)
                    for sentence in (*(one.sentence for one in comparison.differences), *comparison.notes)
                ),
                tables=(replace(comparison.to_table(), title="Differences and verdicts"),),
            ),
            Section("Differences", charts=tuple(_charts(comparison))),
            Section("Values", tables=(_values(comparison),)),
        ),
        facts=(("command", "truerank compare"), *facts_of(comparison.provenance)),
        version=comparison.version,
    )


def _lead(comparison: Comparison) -> str:
    """Return the verdict of two models in the first metric; of more models, who leads and what is decided."""
    found = comparison.differences
    metric = found[0].metric
    if len(comparison.models()) == 2:
        start = _capital(found[0].sentence, comparison.models())
    else:
        best = max((one for one in comparison.estimates if one.metric == metric), key=lambda one: one.value)
        start = f"{best.model} has the highest {metric}, {best.value:.4f}."
    if len(found) == 1:
        return start
    decided = sum(one.verdict.is_decided for one in found)
    return f"{start} Of {len(found)} comparisons {decided} {'is' if decided == 1 else 'are'} decided."


def _charts(comparison: Comparison) -> Iterator[Picture]:
    models = comparison.models()
    for position, metric in enumerate(compared(comparison), start=1):
        yield forest(comparison, metric)
        own = [one for one in comparison.differences if one.metric == metric]
        if len(models) >= _MAPPED and len(own) == len(models) * (len(models) - 1) // 2:
            yield winner_map(metric, models, own, key=f"ahead-{position}")


def _values(comparison: Comparison) -> Table:
    metrics = list(dict.fromkeys(one.metric for one in comparison.estimates))
    ways = {one.model: one.estimator for one in comparison.estimates}
    value = {(one.model, one.metric): one.value for one in comparison.estimates}
    rows = tuple(
        (model, ways[model], *(f"{value[model, metric]:.4f}" for metric in metrics))
        for model in comparison.models()
    )
    return Table(("model", "by", *metrics), rows, "Values of each model")


def _capital(sentence: str, models: Sequence[str]) -> str:
    """Return a sentence that begins with a capital letter, unless it begins with the name of a model."""
    if any(sentence.startswith(model) for model in models):
        return sentence
    return sentence[:1].upper() + sentence[1:]
