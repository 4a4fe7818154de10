"""An id is the text as written, whichever reader it comes through; what is rarely meant is told."""

from __future__ import annotations

import csv
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from truerank.core.errors import DataWarning, InvalidData
from truerank.core.interactions import Interactions, Vocabulary
from truerank.core.split import Split
from truerank.data.read import from_arrays, from_frame, read_interactions
from truerank.metrics.trec import read_qrels, read_run
from truerank.ranking.files import read_rank_tables
from truerank.ranking.samplers.given import Given
from truerank.workflows.segments.grouping import GROUPINGS

Read = Callable[[Path, list[str]], list[Any]]


def delimited(suffix: str, separator: str, head: str = "user,item") -> Read:
    def read(folder: Path, ids: list[str]) -> list[Any]:
        path = folder / f"events{suffix}"
        with path.open("w", newline="", encoding="utf-8") as file:
            rows = [head.split(",")] if head else []
            cells = [*rows, *([one, str(at)] for at, one in enumerate(ids))]
            if suffix == ".csv":
                csv.writer(file, lineterminator="\r\n").writerows(cells)
            else:
                file.writelines(separator.join(row) + "\r\n" for row in cells)
        return read_interactions(path).users.ids.to_list()

    return read


def last_field(folder: Path, ids: list[str]) -> list[Any]:
    path = folder / "events.dat"
    path.write_text("".join(f"{at}::{one}\r\n" for at, one in enumerate(ids)), newline="", encoding="utf-8")
    return read_interactions(path).items.ids.to_list()


def lines(folder: Path, ids: list[str], form: str) -> list[Any]:
    path = folder / f"events.{form}"
    write: Callable[[Any], str] = json.dumps if form == "jsonl" else repr
    path.write_text("".join(write({"user": one, "item": f"i{at}"}) + "\n" for at, one in enumerate(ids)))
    format = None if form == "jsonl" else form
    return read_interactions(path, format=format).users.ids.to_list()


def parquet(folder: Path, ids: list[str]) -> list[Any]:
    path = folder / "events.parquet"
    pl.DataFrame({"user": ids, "item": range(len(ids))}).write_parquet(path)
    return read_interactions(path).users.ids.to_list()


def frame(folder: Path, ids: list[str]) -> list[Any]:
    del folder
    kinds = (pl.String, pl.Categorical, pl.Enum(sorted(set(ids))))
    frames = [pl.DataFrame({"user": pl.Series(ids, dtype=kind), "item": range(len(ids))}) for kind in kinds]
    found = [from_frame(one).users.ids.to_list() for one in frames]
    found.append(from_arrays(ids, range(len(ids))).users.ids.to_list())
    assert all(one == found[0] for one in found)
    return found[0]


def ranks(folder: Path, ids: list[str], suffix: str) -> list[Any]:
    path, n = folder / f"ranks{suffix}", len(ids)
    table = pl.DataFrame({"user_id": ids, "rank": [1] * n, "n_items": [100] * n})
    if suffix == ".parquet":
        table.write_parquet(path)
    else:
        table.write_csv(path, separator="," if suffix == ".csv" else "\t")
    return read_rank_tables([path]).users.ids.to_list()


def candidates(folder: Path, ids: list[str]) -> list[Any]:
    path = folder / "candidates.csv"
    pl.DataFrame({"user_id": ids, "item_id": ["x"] * len(ids)}).write_csv(path)
    return Given(str(path)).frame()["user"].unique().sort().to_list()


READERS: dict[str, Read] = {
    "csv": delimited(".csv", ","),
    "tsv": delimited(".tsv", "\t"),
    "inter": delimited(".inter", "\t", "user:token,item:token"),
    "dat": delimited(".dat", "::", ""),
    "data": delimited(".data", "|", ""),
    "last field": last_field,
    "json": lambda folder, ids: lines(folder, ids, "jsonl"),
    "dicts": lambda folder, ids: lines(folder, ids, "dicts"),
    "parquet": parquet,
    "frame": frame,
    "ranks csv": lambda folder, ids: ranks(folder, ids, ".csv"),
    "ranks tsv": lambda folder, ids: ranks(folder, ids, ".tsv"),
    "ranks parquet": lambda folder, ids: ranks(folder, ids, ".parquet"),
    "candidates": candidates,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "ids",
    [
        *(["a", " a", "b"], ["1", "2", " 2"], ["1", "2 ", "3"], ["1.0", "2.0", " 2.0"], [" 1", " 2"]),
        *(["5", "\x1f5"], ["5", "\xa05"], ["5", "5\x0b"], ["5", "\u200b5"], ["5", "5\u3000"], ["5", "5\x7f"]),
    ],
    ids=ascii,
)
def test_nothing_is_taken_away(reader: str, ids: list[str], tmp_path: Path) -> None:
    odd = next(one for one in ids if one.strip("\x7f\u200b").strip() != one)
    with pytest.warns(DataWarning, match="blanks or other letters .* stand around") as told:
        assert READERS[reader](tmp_path, ids) == sorted(ids)
    assert all(f"such as {odd!r}" in str(one.message) for one in told)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("ids", [["a b", "b"], ["a\u200bb", "b"], ["x", "😀", "é"], ["007", "7"]], ids=ascii)
def test_nothing_is_told_of_what_can_be_seen(reader: str, ids: list[str], tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert READERS[reader](tmp_path, ids) == sorted(ids)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("nothing", ["", " ", "  ", "\xa0"], ids=ascii)
def test_an_id_of_blanks_is_missing(reader: str, nothing: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"must not be missing, but 1 of 3|must have no gaps"):
        READERS[reader](tmp_path, ["a", "b", nothing])


def test_ids_of_blanks_are_dropped_as_missing(tmp_path: Path) -> None:
    table = pl.DataFrame({"user": ["a", " ", "b", None], "item": ["x", "y", "", "z"]})
    table.write_csv(tmp_path / "a.csv")
    table.write_parquet(tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        read = read_interactions(tmp_path / name, drop_missing=True)
        assert (read.users.ids.to_list(), read.origin["missing_rows"]) == (["a"], 3)
    read = from_frame(table.cast(pl.Categorical), drop_missing=True)
    assert (read.users.ids.to_list(), read.origin["missing_rows"]) == (["a"], 3)


@pytest.mark.parametrize("ids", [[".0", "0"], ["-.0", "0"], ["5", "99999999999999999999"]])
def test_whole_numbers_in_another_form_are_text(ids: list[str], tmp_path: Path) -> None:
    """Numbers that are written otherwise, or are too large, do not become others."""
    for reader in ("csv", "dat", "ranks csv", "candidates"):
        assert READERS[reader](tmp_path, ids) == sorted(ids)


def test_texts_are_numbers_only_in_plain_form() -> None:
    texts = ["5", "05", "+5", " 5", "5 ", "5.0", "5\n", "-0", "\u0665", "", None]
    assert Vocabulary.of([0, 5]).encode(texts).tolist() == [1] + [-1] * 10
    assert Vocabulary.of(["5", " 5"]).encode([5]).tolist() == [1]


def test_groups_of_a_file_are_not_given_to_ids_with_blanks(tmp_path: Path) -> None:
    train = Interactions.from_codes([0, 1], [0, 1])
    split = Split(train, Interactions.from_codes([0, 1], [1, 0]))
    (tmp_path / "users.csv").write_text("user,country\n0,de\n 1,fr\n")
    with pytest.warns(DataWarning, match=r"1 id in column 'user' of .* such as ' 1'.* is not '1'"):
        labels = GROUPINGS.make(f"column(path={tmp_path / 'users.csv'}, name=country)").labels(split)
    assert np.array(labels.names)[labels.label].tolist() == ["de", "no value"]


def test_columns_of_trec_files_are_separated_by_blanks(tmp_path: Path) -> None:
    (tmp_path / "run").write_bytes("\ufeffq1  Q0\td1  1  2.5 t \r\n".encode())
    assert read_run(tmp_path / "run") == {"q1": {"d1": 2.5}}
    (tmp_path / "qrels").write_bytes("q1 0 \x1fd1 1\n\xa0q1 0 d1 1\n".encode())
    with pytest.warns(DataWarning, match="around 2 ids"):
        assert read_qrels(tmp_path / "qrels") == {"q1": {"\x1fd1": 1}, "\xa0q1": {"d1": 1}}
