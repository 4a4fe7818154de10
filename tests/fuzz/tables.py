"""Attacks on tables of ranks and on TREC files: what is read is what an independent reading gives."""

from __future__ import annotations

import csv
import io
import random
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import polars as pl

from tests.fuzz.harness import Attack, Verdict, WrongAnswer
from tests.fuzz.hostile import NUMBERS, WORDS, mutated
from tests.fuzz.readers import IDS
from truerank.metrics.trec import evaluate_run, read_qrels, read_run
from truerank.ranking.files import read_rank_files

SAMPLED = ("user_id", "item_id", "rank", "n_items", "n_negatives")
EXACT = ("user_id", "item_id", "rank", "n_items", "n_relevant")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


def groups(users: Any, ranks: Any) -> Counter[tuple[int, ...]]:
    """Return how often each list of ranks of one user comes."""
    lists: dict[Any, list[int]] = {}
    for user, rank in zip(users, ranks, strict=True):
        lists.setdefault(user, []).append(int(rank))
    return Counter(tuple(sorted(one)) for one in lists.values())


def check_ranks(path: Path, rows: list[dict[str, Any]]) -> None:
    """Raise unless a table of ranks is read with these rows."""
    read = read_rank_files([path])
    if len(read) != 1 or "model" in rows[0]:
        return
    (ranks,) = read.values()
    try:
        expected = groups([str(row["user_id"]) for row in rows], [float(row["rank"]) for row in rows])
    except (KeyError, ValueError, TypeError):
        return  # a column of another name: n_above, position
    found = groups(ranks.user.tolist(), (ranks.n_above + 1).tolist())
    if found != expected:
        raise WrongAnswer(f"ranks by user {expected - found} were read as {found - expected}")


class RankTables(Attack):
    """Tables of exact and sampled ranks with changed bytes and odd cells."""

    name: ClassVar[str] = "rank tables"
    cases: ClassVar[int] = 3_000

    def prepare(self) -> None:
        self.tables = {
            "sampled": (SAMPLED, [(n, n % 7, 1 + n % 9, 100, 20) for n in range(40)]),
            "exact": (EXACT, [(n, n % 7, 1 + n % 9, 100, 1) for n in range(40)]),
        }

    def attempt(self, draw: random.Random) -> Verdict:
        cells: list[list[Any]]
        head, rows = self.tables[draw.choice(sorted(self.tables))]
        suffix = draw.choice([".csv", ".tsv", ".parquet"])
        path = self.folder / f"ranks{suffix}"
        cells = [list(row) for row in rows]
        is_structured = draw.random() < 0.5
        if is_structured:
            cells = [[str(cell) for cell in row] for row in cells[: draw.choice([1, 3, 40])]]
            for _ in range(draw.choice([1, 1, 3])):
                row, column = draw.choice(cells), draw.randrange(len(head))
                row[column] = draw.choice(IDS) if column < 2 else draw.choice([*NUMBERS, *WORDS[:20]])
        if suffix == ".parquet":
            cells = [[cell if cell != "\ud800" else "x" for cell in row] for row in cells]
            pl.DataFrame(cells, schema=list(head), orient="row").write_parquet(path)
        else:
            separator = "," if suffix == ".csv" else "\t"
            stream = io.StringIO()
            csv.writer(stream, delimiter=separator, lineterminator="\n").writerows([head, *cells])
            path.write_bytes(stream.getvalue().encode("utf-8", "surrogatepass"))
        if not is_structured:
            path.write_bytes(mutated(path.read_bytes(), draw))
        check_ranks(path, self.independent(path, suffix))
        return Verdict.ok

    def independent(self, path: Path, suffix: str) -> list[dict[str, Any]]:
        """Return the rows by the standard library or pyarrow; one row without columns where these cannot."""
        unknown: list[dict[str, Any]] = [{"model": ""}]
        try:
            if suffix == ".parquet":
                import pyarrow.parquet as pq

                return pq.ParquetFile(path).read().to_pylist() or unknown
            text = path.read_bytes().decode("utf-8").removeprefix("\ufeff")
            lines = (f"{line}\n" for line in text.split("\n"))  # no line ends at a lone carriage return
            separator = "," if suffix == ".csv" else "\t"
            return list(csv.DictReader(lines, delimiter=separator, strict=True)) or unknown
        except Exception:  # whatever the other reader does not take
            return unknown


class TrecFiles(Attack):
    """Runs and qrels with changed bytes and fields."""

    name: ClassVar[str] = "TREC runs and qrels"
    cases: ClassVar[int] = 3_000

    def prepare(self) -> None:
        self.lines = {
            "run": [f"q{q} Q0 d{k} {k} {10 - k / 2} t" for q in range(6) for k in range(8)],
            "qrels": [f"q{q} 0 d{k} {int(k == q % 7)}" for q in range(6) for k in range(8)],
        }

    def attempt(self, draw: random.Random) -> Verdict:
        changed = draw.choice(["run", "qrels", "both"])
        for kind, lines in self.lines.items():
            data = "".join(f"{line}\n" for line in lines).encode()
            if changed in (kind, "both"):
                data = mutated(data, draw) if draw.random() < 0.5 else self.odd(lines, draw)
            (self.folder / kind).write_bytes(data)
        run, qrels = read_run("run"), read_qrels("qrels")
        self.check("run", run, value=4, width=6)
        self.check("qrels", qrels, value=3, width=4)
        relevance = draw.choice([1, 1, 1, 2, 0])
        read = evaluate_run("run", "qrels", "mrr", ties="worst", relevance=relevance)
        for query, (found,) in zip(read.queries, read.values.tolist(), strict=True):
            expected = reciprocal_rank(run.get(query, {}), qrels[query], relevance)
            if found != expected:
                raise WrongAnswer(f"mrr of {query!r} must be {expected}, got {found}")
        return Verdict.ok

    def odd(self, lines: list[str], draw: random.Random) -> bytes:
        rows = [line.split() for line in lines]
        for _ in range(draw.choice([1, 1, 3])):
            row = draw.choice(rows)
            row[draw.randrange(len(row))] = draw.choice([*NUMBERS, *WORDS])
        text = "".join(draw.choice([" ", "\t"]).join(row) + "\n" for row in rows)
        return text.encode("utf-8", "surrogatepass")

    def check(self, kind: str, read: Mapping[str, Mapping[str, float]], *, value: int, width: int) -> None:
        """Raise unless a file was read as lines of blanks and plain numbers."""
        expected: dict[str, dict[str, float]] = {}
        for line in re.split(r"[\r\n]+", (self.folder / kind).read_bytes().decode("utf-8-sig")):
            cells = re.findall(r"[^ \t\v\f]+", line)
            if len(cells) == width:
                if not NUMBER.fullmatch(cells[value]):
                    raise WrongAnswer(f"{kind}: {cells[value]!r} was read as a number")
                number = float(cells[value]) if kind == "run" else int(cells[value])
                expected.setdefault(cells[0], {})[cells[2]] = number
        if expected != read:
            raise WrongAnswer(f"{kind}: {sorted(expected)[:9]} was read as {sorted(read)[:9]}")


def reciprocal_rank(scores: Mapping[str, float], grades: Mapping[str, float], relevance: int) -> float:
    """Return 1 / rank of the first relevant document, those of equal score that are irrelevant before it."""
    relevant = {document for document, grade in grades.items() if grade >= relevance}
    best = max((score for document, score in scores.items() if document in relevant), default=None)
    if best is None:
        return 0.0
    before = [document for document, score in scores.items() if score >= best and document not in relevant]
    return 1 / (1 + len(before))


ATTACKS: tuple[type[Attack], ...] = (RankTables, TrecFiles)
