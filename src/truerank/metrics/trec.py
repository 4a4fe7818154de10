"""Metrics of TREC run and qrels files: ranks from scores and judgements, one value per query."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np

from truerank.core.checkpoint import check_input
from truerank.core.errors import MOST_ITEMS, DataWarning, InvalidData, InvalidParameter, check_at_least
from truerank.core.interactions import tell_of_blanks
from truerank.core.ranks import Ranks, TiePolicy
from truerank.core.types import FloatArray, IntArray
from truerank.metrics.base import GradedMetric, Metric, RankMetric
from truerank.metrics.grades import GAINS, Gain
from truerank.metrics.registry import make_metrics
from truerank.metrics.ties import ResolvedRanks

ValueT = TypeVar("ValueT", int, float)

#: Columns and numbers as other programs read them: Python's own are wider (1_000, digits of other scripts).
_COLUMN = re.compile(r"[^ \t\n\r\v\f]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")

#: query to document to score
Run: TypeAlias = Mapping[str, Mapping[str, float]]
#: query to document to grade
Qrels: TypeAlias = Mapping[str, Mapping[str, int]]


def read_run(path: str | Path) -> Run:
    """Read lines ``query Q0 document rank score tag``.

    Documents are ordered by score; the rank column is not used, as in trec_eval.

    Raises
    ------
    InvalidData
        When the file cannot be read, a line is malformed, or a document is retrieved twice for a query.
    """
    run: dict[str, dict[str, float]] = {}
    for line, (query, _, document, _, text, _) in _lines(path, "run", "query Q0 document rank score tag"):
        score = _number(text)
        if not math.isfinite(score):
            raise InvalidData(f"score in line {line} of {path} must be a finite number, got {text!r}.")
        _add(run.setdefault(query, {}), document, score, where=f"query {query!r} in line {line} of {path}")
    _tell_of_blanks(run, path)
    return run


def read_qrels(path: str | Path) -> Qrels:
    """Read lines ``query 0 document grade``.

    Raises
    ------
    InvalidData
        When the file cannot be read, a line is malformed, or a document is judged twice for a query.
    """
    qrels: dict[str, dict[str, int]] = {}
    for line, (query, _, document, text) in _lines(path, "qrels", "query 0 document grade"):
        if not _INTEGER.fullmatch(text):
            raise InvalidData(f"grade in line {line} of {path} must be an integer, got {text!r}.")
        grade = int(text)
        _add(qrels.setdefault(query, {}), document, grade, where=f"query {query!r} in line {line} of {path}")
    _tell_of_blanks(qrels, path)
    return qrels


def _lines(path: str | Path, kind: str, form: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the columns of each line that is not blank."""
    check_input(path, f"a {kind} file", pipes=True)
    width, has_lines = len(form.split()), False
    try:
        with Path(path).open(encoding="utf-8-sig") as file:  # a mark of the encoding is no part of an id
            for number, text in enumerate(file, start=1):
                columns = _COLUMN.findall(text)
                if not columns:
                    continue
                if len(columns) != width:
                    raise InvalidData(
                        f"line {number} of {path} must have {width} columns '{form}', got {len(columns)}."
                    )
                has_lines = True
                yield number, columns
    except InvalidData:
        raise
    except UnicodeDecodeError:
        raise InvalidData(f"{kind} file {path} must be UTF-8 text. Unpack or convert it first.") from None
    except (OSError, ValueError) as error:  # a ValueError where the system has no letter for the name
        raise InvalidData(f"cannot read {kind} file {path}: {getattr(error, 'strerror', error)}.") from None
    if not has_lines:
        raise InvalidData(f"{kind} file {path} is empty. Give lines of the form '{form}'.")


def _tell_of_blanks(read: Run | Qrels, path: str | Path) -> None:
    """Say which ids have a letter around them that cannot be seen and separates no columns."""
    import polars as pl

    names = {*read, *(document for documents in read.values() for document in documents)}
    tell_of_blanks(pl.Series(list(names), dtype=pl.String), f"'{path}'")


def _number(text: str) -> float:
    return float(text) if _NUMBER.fullmatch(text) else math.nan


def _add(documents: dict[str, ValueT], document: str, value: ValueT, *, where: str) -> None:
    if document in documents:
        raise InvalidData(f"document {document!r} appears twice for {where}. Keep one of the lines.")
    documents[document] = value


__all__ = ["RunRanks", "RunValues", "evaluate_run", "ranks_from_run", "read_qrels", "read_run", "run_values"]


@dataclass(frozen=True, eq=False)
class RunRanks:
    """Ranks of the relevant documents of a run.

    Parameters
    ----------
    ranks : user codes are positions in ``queries``. Without a pool size there are rows for retrieved
        documents only, while ``n_relevant`` counts all relevant ones; with it, rows for all of them.
    queries : judged queries with at least one relevant document, sorted
    depth : (n_queries,) documents retrieved
    has_pool : whether the size of the pool was given
    counts : of queries and documents that were left out or are missing
    unranked : queries and gains of relevant documents without a row; None where these are not graded
    """

    ranks: Ranks
    queries: tuple[str, ...]
    depth: IntArray
    has_pool: bool
    counts: Mapping[str, int]
    unranked: tuple[IntArray, FloatArray] | None = None


@dataclass(frozen=True, eq=False)
class RunValues:
    """Metrics of a run.

    Parameters
    ----------
    queries : the queries that were evaluated
    metrics : the metrics in the order of the columns
    values : (n_queries, n_metrics)
    counts : of queries and documents that were left out or are missing
    """

    queries: tuple[str, ...]
    metrics: tuple[Metric, ...]
    values: FloatArray
    counts: Mapping[str, int]

    def means(self) -> dict[str, float]:
        """Return the mean over queries of each metric."""
        return {str(m): float(v) for m, v in zip(self.metrics, self.values.mean(axis=0), strict=True)}


def ranks_from_run(
    run: Run,
    qrels: Qrels,
    *,
    relevance: int = 1,
    n_pool: int | None = None,
    gain: str | Gain | None = None,
) -> RunRanks:
    """Rank the relevant documents of each query among the retrieved ones.

    Parameters
    ----------
    run, qrels : scores and grades
    relevance : documents of at least this grade are relevant; unjudged ones are not
    n_pool : documents in the collection. None: documents that were not retrieved have no rank and no
        gain, as in trec_eval. Given: they are tied with each other below all retrieved ones.
    gain : how much a relevant document is worth, by its grade: ``grade`` or ``grade(form=exp2)``; None
        counts all alike

    Examples
    --------
    >>> run = ranks_from_run({"q": {"a": 3.0, "b": 2.0}}, {"q": {"b": 1, "c": 1}})
    >>> run.ranks.best.tolist(), run.ranks.n_relevant.tolist(), run.counts["relevant_not_retrieved"]
    ([2], [2], 1)
    """
    if n_pool is not None:
        check_at_least("n_pool", n_pool, 1, MOST_ITEMS)
    relevant = {
        query: {document for document, grade in judged.items() if grade >= relevance}
        for query, judged in qrels.items()
    }
    queries = tuple(sorted(query for query, documents in relevant.items() if documents))
    if not any(query in run for query in queries):
        raise InvalidData(
            "run and qrels must have a query with relevant documents in common. Check the query ids."
        )
    names = {document for query in queries for document in relevant[query]}
    codes = {document: code for code, document in enumerate(sorted(names))}
    parts = [
        _rows_of_query(code, run.get(query, {}), sorted(relevant[query]), codes=codes, n_pool=n_pool)
        for code, query in enumerate(queries)
    ]
    columns = np.concatenate(parts, axis=1)
    gains, unranked = None, None
    if gain is not None:
        grades = {query: {name: qrels[query][name] for name in relevant[query]} for query in queries}
        gains, unranked = _gains(GAINS.make(gain), grades, columns, codes)
    return RunRanks(
        ranks=replace(Ranks(*columns), gain=gains),
        unranked=unranked,
        queries=queries,
        depth=np.array([len(run.get(query, {})) for query in queries]),
        has_pool=n_pool is not None,
        counts={
            "queries": len(queries),
            "queries_not_in_run": sum(query not in run for query in queries),
            "queries_without_judgement": sum(query not in qrels for query in run),
            "queries_without_relevant": len(qrels) - len(queries),
            "relevant": sum(len(relevant[query]) for query in queries),
            "relevant_not_retrieved": sum(
                len(relevant[query] - run.get(query, {}).keys()) for query in queries
            ),
        },
    )


def _gains(
    gain: Gain, grades: Qrels, columns: IntArray, codes: Mapping[str, int]
) -> tuple[FloatArray | None, tuple[IntArray, FloatArray] | None]:
    """Return the gain of each row, and queries and gains of relevant documents without one.

    Both are None where all grades are 1.
    """
    named = {
        (query, codes[document]): grade
        for query, documents in enumerate(grades.values())
        for document, grade in documents.items()
    }
    listed = np.array(list(named.values()), dtype=np.float64)
    if (listed == 1).all():
        return None, None
    if not (listed > 0).all():
        raise InvalidParameter(
            f"grades of relevant documents must be above 0 to be gains, got {listed.min():g}. Raise "
            "relevance to 1, or count all alike with gain None (none)."
        )
    of_pair = dict(zip(named, gain.of_ratings(listed).tolist(), strict=True))
    ranked = np.array([of_pair.pop((user, item)) for user, item in columns[:2].T.tolist()])
    missing = np.array([query for query, _ in of_pair], dtype=np.int64)
    return ranked, (missing, np.array(list(of_pair.values())))


def _rows_of_query(
    code: int,
    scored: Mapping[str, float],
    relevant: list[str],
    *,
    codes: Mapping[str, int],
    n_pool: int | None,
) -> IntArray:
    """Return the columns of ``Ranks`` for one query, (8, n_rows)."""
    retrieved = [document for document in relevant if document in scored]
    missing = [document for document in relevant if document not in scored]
    depth = len(scored)
    if n_pool is not None and n_pool < depth + len(missing):
        raise InvalidParameter(
            f"n_pool must be at least the {depth + len(missing)} documents that are retrieved or relevant "
            f"for a query, got {n_pool}."
        )
    every = np.sort(-np.fromiter(scored.values(), dtype=np.float64, count=depth))
    mine = -np.array([scored[document] for document in retrieved], dtype=np.float64)
    others = np.sort(mine)
    above, relevant_above = np.searchsorted(every, mine), np.searchsorted(others, mine)
    tied = np.searchsorted(every, mine, side="right") - above - 1
    relevant_tied = np.searchsorted(others, mine, side="right") - relevant_above - 1
    documents = retrieved
    if n_pool is not None:
        documents = retrieved + missing
        same = np.ones(len(missing), dtype=np.int64)
        above = np.concatenate([above, depth * same])
        tied = np.concatenate([tied, (n_pool - depth - 1) * same])
        relevant_above = np.concatenate([relevant_above, len(retrieved) * same])
        relevant_tied = np.concatenate([relevant_tied, (len(missing) - 1) * same])
    item = np.array([codes[document] for document in documents], dtype=np.int64)
    fixed = np.ones(len(documents), dtype=np.int64)
    pool = depth + len(missing) if n_pool is None else n_pool
    return np.stack(
        [
            *(code * fixed, item, above, tied),
            *(pool * fixed, len(relevant) * fixed, relevant_above, relevant_tied),
        ]
    )


def run_values(
    run_ranks: RunRanks,
    metrics: str | Metric | Sequence[str | Metric],
    *,
    ties: TiePolicy = "expected",
    seed: int = 0,
) -> RunValues:
    """Return the metrics of each query; a query with no relevant document retrieved has the value 0.

    Raises
    ------
    InvalidParameter
        When a metric depends on the size of the pool and that is unknown.
    """
    chosen = make_metrics(metrics)
    placement = ResolvedRanks.of(run_ranks.ranks, ties, seed, unranked=run_ranks.unranked)
    present = run_ranks.ranks.user[run_ranks.ranks.starts]
    result = np.zeros((len(run_ranks.queries), len(chosen)))
    for column, metric in enumerate(chosen):
        if not isinstance(metric, RankMetric):
            raise InvalidParameter(f"metric '{metric}' cannot be computed from a run. Leave it out.")
        if run_ranks.has_pool:
            metric.check_pool(run_ranks.ranks)
        elif metric.needs_pool:
            raise InvalidParameter(
                f"metric '{metric}' of a run needs the number of documents in the collection. Give n_pool."
            )
        result[present, column] = metric.totals(placement)
    _warn_of_short_lists(run_ranks, chosen)
    return RunValues(run_ranks.queries, chosen, result, run_ranks.counts)


def evaluate_run(
    run: str | Path,
    qrels: str | Path,
    metrics: str | Metric | Sequence[str | Metric],
    *,
    ties: TiePolicy = "expected",
    seed: int = 0,
    relevance: int = 1,
    n_pool: int | None = None,
    gain: str | Gain | None = "grade",
) -> RunValues:
    """Return the metrics of a run file judged by a qrels file, one value per query.

    Scores decide the order and the tie policy the order of equal scores; trec_eval instead puts the document
    with the greater id first. Queries the run lacks count as 0, as with ``trec_eval -c``. Queries with no
    relevant document are left out and counted. Documents below the grade ``relevance`` are irrelevant; the
    grades of the others are gains to ``ndcg`` and ``err``, as in trec_eval.

    Parameters
    ----------
    run, qrels : paths of files in TREC form
    metrics : spec strings, a comma-separated text or a list
    ties, seed : tie policy and the seed of ``random``
    relevance : documents of at least this grade are relevant
    n_pool : documents in the collection, see ``ranks_from_run``; ``auc`` needs it
    gain : how much a document of a grade is worth: ``grade``, ``grade(form=exp2)`` for 2^grade - 1, or None
        to count all relevant documents alike
    """
    chosen = make_metrics(metrics)
    judged = read_qrels(qrels)
    is_graded = any(isinstance(metric, GradedMetric) for metric in chosen)
    run_ranks = ranks_from_run(
        read_run(run), judged, relevance=relevance, n_pool=n_pool, gain=gain if is_graded else None
    )
    return run_values(run_ranks, chosen, ties=ties, seed=seed)


def _warn_of_short_lists(run_ranks: RunRanks, metrics: tuple[Metric, ...]) -> None:
    deepest = max((metric.cutoff or 0 for metric in metrics), default=0)
    short = np.flatnonzero((run_ranks.depth > 0) & (run_ranks.depth < deepest))
    if len(short) and not run_ranks.has_pool:
        examples = ", ".join(repr(run_ranks.queries[code]) for code in short[:3])
        warnings.warn(
            f"{len(short)} of {len(run_ranks.queries)} queries have fewer than {deepest} retrieved "
            f"documents, such as {examples}; the missing documents count as irrelevant.",
            DataWarning,
            stacklevel=3,
        )
