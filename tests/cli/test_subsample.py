"""``truerank subsample``."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.cli.conftest import Truerank
from truerank.subsampling.base import STRATEGIES


def test_table_and_file(truerank: Truerank, tiny: Path, tmp_path: Path) -> None:
    """Half of tiny's eight events by head-user: ann's three, and one of bob's or cid's two."""
    out = tmp_path / "small.csv"
    done = truerank("subsample", tiny, "--strategy", "head-user", "--fraction", "0.5", "--out", out)
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0] == ["before", "after"]
    assert lines[1] == ["events", "8", "4"]
    assert lines[2][-2:] == ["4", "2"]
    said = done.err.replace("\n", " ")
    assert "4 of 8 events kept by head-user; 2 users and 0 items lost all their events" in said
    full, small = pl.read_csv(tiny), pl.read_csv(out)
    assert small.columns == ["user_id", "item_id", "rating", "timestamp"]
    assert set(small.rows()) < set(full.rows())
    assert small["user_id"].to_list()[:3] == ["ann"] * 3


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """40 users with 3 to 22 of 30 items each."""
    lines = [f"u{u},i{(7 * u + k * k) % 30},{100 * u + k}" for u in range(40) for k in range(3 + u // 2)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["user_id,item_id,timestamp", *lines]) + "\n")
    return path


@pytest.mark.parametrize("name", STRATEGIES.names())
def test_every_strategy_of_a_split(truerank: Truerank, log: Path, tmp_path: Path, name: str) -> None:
    """Only train is sampled; test and validation are those of the split, and the file can be evaluated."""
    out = tmp_path / "small.parquet"
    common = ("--split", "leave-last-out(valid=true)", "--seed", "3", "--format", "json")
    done = truerank("subsample", log, "--strategy", name, "--fraction", "0.1", "--out", out, *common)
    assert done.code == 0, done.err
    found = json.loads(done.out)
    assert (found["strategy"], found["fraction"], found["seed"]) == (str(STRATEGIES.make(name)), 0.1, 3)
    assert found["after"]["events"] == found["split"]["n_train"] == round(0.1 * found["before"]["events"])
    frame = pl.read_parquet(out)
    assert dict(frame.group_by("split").len().rows()) == {
        "train": found["after"]["events"],
        "valid": 40,
        "test": 40,
    }
    assert "validation and test are unchanged" in done.err


def test_the_file_is_evaluated_on_the_same_targets(truerank: Truerank, log: Path, tmp_path: Path) -> None:
    out = tmp_path / "all.parquet"
    split = ("--split", "leave-last-out")
    truerank("subsample", log, "--strategy", "random", "--fraction", "1", "--out", out, *split)
    metrics = ("--model", "popularity", "--metrics", "ndcg@10,auc", "--format", "json")
    whole = json.loads(truerank("evaluate", log, *split, *metrics).out)["estimates"]
    again = json.loads(truerank("evaluate", out, "--split", "column", *metrics).out)["estimates"]
    assert [e["value"] for e in again] == [e["value"] for e in whole]


def test_seeds_and_columns(truerank: Truerank, tmp_path: Path) -> None:
    data = tmp_path / "log.tsv"
    data.write_text("who\twhat\n" + "".join(f"u{k % 7}\ti{k}\n" for k in range(70)))
    found = []
    for seed in ("1", "1", "2"):
        out = tmp_path / "small.tsv"
        done = truerank(
            *("subsample", data, "--columns", "user=who,item=what", "--strategy", "random-walk"),
            *("--fraction", "0.2", "--seed", seed, "--out", out),
        )
        assert done.code == 0, done.err
        found.append(out.read_text())
    assert found[0] == found[1] != found[2]
    assert found[0].splitlines()[0] == "user_id\titem_id"
    assert len(found[0].splitlines()) == 15


def test_repeated_pairs(truerank: Truerank, tmp_path: Path) -> None:
    data, out = tmp_path / "log.csv", tmp_path / "small.csv"
    data.write_text("user_id,item_id,timestamp\n" + "".join(f"a,x,{k}\n" for k in range(10)))
    flags = ("--strategy", "temporal", "--fraction", "0.3", "--out", out)
    assert truerank("subsample", data, *flags, "--duplicates", "keep").code == 0
    assert pl.read_csv(out)["timestamp"].to_list() == [7, 8, 9]
    assert truerank("subsample", data, *flags).code == 0
    assert pl.read_csv(out).height == 0  # one event is left after merging, of which 0.3 rounds to none


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--fraction", "1.5"), "fraction must be a number from 0 to 1, got 1.5"),
        (("--fraction", "nan"), "fraction must be a number from 0 to 1, got nan"),
        (("--strategy", "forestfire"), "Did you mean 'forest-fire'?"),
        (("--strategy", "forest-fire(burn=2)"), "burn must be greater than 0 and at most 1, got 2"),
        (("--strategy", "svp-cf(proxy=mff)"), "unknown model 'mff'. Did you mean 'mf'?"),
        (("--strategy", "svp-cf(proxy=ease)"), "a proxy must be a model that trains in epochs, got 'ease'"),
        (("--strategy", "svp-cf(proxy=mf(loss=bpr), feedback=explicit)"), "proxy must predict ratings"),
        (("--strategy", "svp-cf(feedback=explicit)", "--columns", "rating="), "compares ratings"),
        (("--strategy", "svp-cf(proxy=mf(learning_rate=1e30))"), "Lower learning_rate"),
        (("--split", "leave-last"), "Did you mean 'leave-last-out'?"),
        (("--columns", "user=nobody"), "must have a column 'nobody'"),
        (("--columns", "timestamp=", "--strategy", "temporal"), "needs a timestamp for each event"),
        (("--seed", "-1"), "seed must be an integer"),
        (("--duplicates", "maybe"), "duplicates must be one of"),
    ],
)
def test_bad_input(
    truerank: Truerank, tiny: Path, tmp_path: Path, flags: tuple[str, ...], sentence: str
) -> None:
    out = tmp_path / "small.csv"
    out.write_text("as it was")
    common = ("--strategy", "random", "--fraction", "0.5", "--out", out)
    done = truerank("subsample", tiny, *common, *flags)
    assert (done.code, done.out) == (2, ""), done.err
    assert sentence in done.err.replace("\n", " ")
    assert out.read_text() == "as it was"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["small.csv", "tiny.csv"]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [("small.xls", "must end in .parquet, .csv, .tsv, got 'small.xls'"), ("no/small.csv", "existing folder")],
)
def test_bad_out(truerank: Truerank, tiny: Path, tmp_path: Path, name: str, sentence: str) -> None:
    flags = ("--strategy", "random", "--fraction", "0.5", "--out", tmp_path / name)
    done = truerank("subsample", tiny, *flags)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err.replace("\n", " ")
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.csv"]


def test_explicit_feedback(truerank: Truerank, tiny: Path, tmp_path: Path) -> None:
    """The ratings 5, 5, 1 and 1 of item x are hardest for one bias per user and item."""
    out = tmp_path / "small.csv"
    strategy = ("--strategy", "svp-cf(proxy=bias, feedback=explicit)", "--fraction", "0.5")
    done = truerank("subsample", tiny, *strategy, "--out", out)
    assert done.code == 0, done.err
    assert "4 of 8 events kept by svp-cf(proxy=bias, feedback=explicit)" in done.err.replace("\n", " ")
    assert pl.read_csv(out)["rating"].to_list() == [5, 2, 1, 1]


def test_list(truerank: Truerank) -> None:
    done = truerank("list", "strategies", "--format", "json")
    names = [entry["name"] for entry in json.loads(done.out)]
    assert names == [*sorted(STRATEGIES.table), *sorted(STRATEGIES.presets)]
    assert "s21-svp-cf-prop-bias-user" in names


@pytest.fixture
def folder(log: Path, tmp_path: Path) -> Path:
    """The log in three files of whole users."""
    frame = pl.read_csv(log)
    made = tmp_path / "lake"
    made.mkdir()
    for part in range(3):
        frame.filter(pl.col("user_id").str.tail(1).str.to_integer() % 3 == part).write_parquet(
            made / f"f{part}.parquet"
        )
    return made


def test_a_folder_gives_a_folder(truerank: Truerank, log: Path, folder: Path, tmp_path: Path) -> None:
    """The events and the table are those of the data in one file."""
    flags = ("--strategy", "stratified", "--fraction", "0.3", "--seed", "4")
    one, many = tmp_path / "small.parquet", tmp_path / "small"
    known = truerank("subsample", log, *flags, "--out", one)
    done = truerank("subsample", folder, *flags, "--out", many, "--engine", "local(threads=2)")
    assert done.code == 0, done.err
    assert done.out == known.out
    said = done.err.replace("\n", " ")
    assert "columns of 3 files at" in said
    assert "wrote 3 files to" in said
    kept = pl.read_parquet(many / "*.parquet")
    assert sorted(kept.rows()) == sorted(pl.read_parquet(one).rows())
    again = truerank(
        *("subsample", folder / "f*.parquet", *flags, "--gather", "2", "--format", "json"),
        *("--out", tmp_path / "again", "--work-dir", tmp_path / "work"),
    )
    assert again.code == 0, again.err
    found = json.loads(again.out)
    assert (found["after"]["events"], found["files"]) == (kept.height, 2)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (
            ("--strategy", "random-walk"),
            "needs the graph of all users and items, and a worker has one partition",
        ),
        (
            ("--strategy", "svp-cf"),
            "fits its proxy model to all events, and a worker has one partition. Use random",
        ),
        (("--split", "leave-last-out"), "--split needs one file, but DATA is a folder."),
        (("--out", "small.csv"), "--out must name a folder where DATA is a folder, got 'small.csv'."),
        (("--engine", "dsk"), "Did you mean 'dask'"),
        (("--columns", "user=nobody"), "must have a column 'nobody'"),
    ],
)
def test_a_folder_and_bad_input(
    truerank: Truerank, folder: Path, tmp_path: Path, flags: tuple[str, ...], sentence: str
) -> None:
    out = tmp_path / "small"
    common = ("--strategy", "random", "--fraction", "0.5", "--out", out)
    done = truerank("subsample", folder, *common, *flags)
    assert (done.code, done.out) == (2, ""), done.err
    assert sentence in done.err.replace("\n", " ")
    assert not out.exists()


def test_a_folder_without_parquet(truerank: Truerank, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    flags = ("--strategy", "random", "--fraction", "0.5", "--out", tmp_path / "small.csv")
    done = truerank("subsample", tmp_path / "empty", *flags)
    assert done.code == 2
    assert "is a folder" in done.err.replace("\n", " ")
