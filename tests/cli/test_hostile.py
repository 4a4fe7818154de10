"""Hostile input on the command line: one sentence and exit code 2, or the right answer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from tests.cli.conftest import Truerank

POPULARITY = ("--model", "popularity", "--metrics", "mrr")
LONG = "x" * 300


@pytest.mark.parametrize(
    "arguments",
    [
        ("evaluate", LONG + ".csv", *POPULARITY),
        ("evaluate", "TINY", "--test", LONG + ".csv", *POPULARITY),
        ("evaluate", "TINY", "--model", f"saved(path={LONG})"),
        ("evaluate", "TINY", "--model", f"scores(path={LONG}.npz)"),
        ("estimate", LONG + ".csv"),
        ("compare", LONG + ".json", LONG + ".json"),
        ("subsample", LONG, "--strategy", "random-item", "--fraction", "0.5", "--out", "OUT"),
        ("evaluate", "", *POPULARITY),
        ("evaluate", "TINY", "--test", "", *POPULARITY),
        ("subsample", "", "--strategy", "random-item", "--fraction", "0.5", "--out", "OUT"),
    ],
)
def test_long_and_empty_names(
    truerank: Truerank,
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:
    """The working directory holds events, which an empty name must not mean."""
    monkeypatch.chdir(tmp_path)
    pl.read_csv(tiny).write_parquet(tmp_path / "events.parquet")
    places = {"TINY": str(tiny), "OUT": str(tmp_path / "out.csv")}
    done = truerank("-q", *(places.get(one, one) for one in arguments))
    assert done.code == 2 and done.err.startswith("truerank: ") and "Traceback" not in done.err
    assert not (tmp_path / "out.csv").exists()


def test_split_beside_test(truerank: Truerank, tiny: Path) -> None:
    done = truerank("evaluate", tiny, "--test", tiny, "--split", "ratio", *POPULARITY)
    assert done.code == 2 and "--test names the held-out events, and --split makes them" in done.err


@pytest.mark.parametrize(
    ("filters", "kept"),
    [(("--min-rating", "3"), 1), (("--min-history", "2"), 2), (("--core", "2"), 2), ((), 4)],
)
def test_filters_hold_for_test(
    truerank: Truerank, tiny: Path, tmp_path: Path, filters: tuple[str, ...], kept: int
) -> None:
    """Of the users, dan has one event, rated 1; of the rest only the targets of bob and cid are new."""
    test = tmp_path / "test.csv"
    test.write_text("user_id,item_id,rating\nbob,y,5\ndan,y,2\ndan,z,5\ncid,z,2\n")
    done = truerank("evaluate", tiny, "--test", test, *POPULARITY, *filters, "--format", "json")
    assert done.code == 0
    data = json.loads(done.out)["data"]
    assert data["n_test"] == kept and data.get("test_events_filtered", 0) == 4 - kept
    assert (f"filters removed {4 - kept} of 4 events" in done.err) == (kept < 4)


def test_test_without_what_filters_need(truerank: Truerank, tiny: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.csv"
    test.write_text("user_id,item_id\nbob,y\n")
    done = truerank("evaluate", tiny, "--test", test, *POPULARITY, "--min-rating", "3")
    assert done.code == 2 and "must have ratings to be filtered by --min-rating" in done.err
    test.write_text("user_id,item_id,rating\nbob,y,1\n")
    done = truerank("evaluate", tiny, "--test", test, *POPULARITY, "--min-rating", "3")
    assert done.code == 2 and "must have events that pass the filters, but none is left" in done.err


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="names of files are not bytes there")
def test_names_beyond_ascii_without_a_language(tiny: Path, tmp_path: Path) -> None:
    """Polars takes names as UTF-8, also where Python was told that the system speaks ASCII."""
    told = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    events, ranks = tmp_path / "événements.csv", tmp_path / "ränge.csv"
    events.write_bytes(tiny.read_bytes())
    ranks.write_text("user_id,rank,n_items,n_negatives\n1,1,100,20\n2,3,100,20\n")
    out = tmp_path / "größe.parquet"
    for arguments in (
        ("estimate", ranks, "--metrics", "mrr"),
        ("evaluate", events, *POPULARITY, "--ranks-out", out),
    ):
        command = [sys.executable, "-c", "from truerank.cli.main import run; run()", *map(str, arguments)]
        done = subprocess.run(command, env={**os.environ, **told}, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
    assert out.is_file()
