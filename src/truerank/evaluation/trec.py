"""Metrics of a TREC run."""

from __future__ import annotations

from pathlib import Path

from truerank.core.result import Result
from truerank.evaluation.options import Options
from truerank.evaluation.summary import summarise
from truerank.metrics.trec import evaluate_run


def evaluate_trec(
    run: Path, qrels: Path, options: Options, *, relevance: int = 1, n_pool: int | None = None
) -> Result:
    """Return metrics of a TREC run against qrels; a query stands for a user.

    Parameters
    ----------
    run, qrels : files in TREC form
    options : metrics, ties and interval; ``seen`` and ``n_threads`` have no meaning here
    relevance, n_pool : see ``truerank.metrics.trec.ranks_from_run``
    """
    found = evaluate_run(
        run, qrels, options.metrics, ties=options.ties, seed=options.seed, relevance=relevance, n_pool=n_pool
    )
    return Result(
        command="trec",
        estimates=tuple(summarise(run.name, found.values, options)),
        data={"name": run.name, **found.counts},
        provenance={
            "run": str(run),
            "qrels": str(qrels),
            "relevance": relevance,
            "n_pool": n_pool,
            "ties": options.ties,
            "interval": str(options.interval),
            "seed": options.seed,
        },
    )
