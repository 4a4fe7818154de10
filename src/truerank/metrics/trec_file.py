"""Run and qrels files in the form of TREC."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias, TypeVar

from truerank.core.errors import InvalidData

ValueT = TypeVar("ValueT", int, float)

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
        try:
            grade = int(text)
        except ValueError:
            raise InvalidData(f"grade in line {line} of {path} must be an integer, got {text!r}.") from None
        _add(qrels.setdefault(query, {}), document, grade, where=f"query {query!r} in line {line} of {path}")
    return qrels


def _lines(path: str | Path, kind: str, form: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the columns of each line that is not blank."""
    width, found = len(form.split()), False
    try:
        with Path(path).open(encoding="utf-8") as file:
            for number, text in enumerate(file, start=1):
                columns = text.split()
                if not columns:
                    continue
                if len(columns) != width:
                    raise InvalidData(
                        f"line {number} of {path} must have {width} columns '{form}', got {len(columns)}."
                    )
                found = True
                yield number, columns
    except OSError as error:
        reason = "it is a folder" if isinstance(error, IsADirectoryError) else error.strerror
        raise InvalidData(f"cannot read {kind} file {path}: {reason}.") from None
    except UnicodeDecodeError:
        raise InvalidData(f"{kind} file {path} must be UTF-8 text. Unpack or convert it first.") from None
    if not found:
        raise InvalidData(f"{kind} file {path} is empty. Give lines of the form '{form}'.")


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _add(documents: dict[str, ValueT], document: str, value: ValueT, *, where: str) -> None:
    if document in documents:
        raise InvalidData(f"document {document!r} appears twice for {where}. Keep one of the lines.")
    documents[document] = value
