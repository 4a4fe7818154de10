"""``truerank evaluate`` from file to result, and what bad input gets."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.cli.conftest import Truerank

# Leave-last-out by time: ann z, bob z, cid x are the targets; dan has one event and no target.
# Train popularity: x 3 (ann, bob, dan), y 2 (ann, cid), z 0. Seen removed: ann {z}, bob {y, z}, cid {x, z}.
# Ranks: ann 1 of 1, bob 2 of 2, cid 1 of 2.
RANKS = {"ann": (1, 1), "bob": (2, 2), "cid": (1, 2)}
POPULARITY = ("--model", "popularity", "--metrics", "recall@1,mrr", "--interval", "normal")


def test_table_on_stdout_and_talk_on_stderr(truerank: Truerank, tiny: Path) -> None:
    done = truerank("evaluate", tiny, *POPULARITY)
    assert done.code == 0
    assert done.out.splitlines()[0].split() == ["model", "recall@1", "mrr"]
    assert done.out.splitlines()[1].split()[:2] == ["popularity", "0.6667"]
    assert "4 users, 3 items, 5 train, 0 valid and 3 test events" in done.err
    assert "3 users have targets, 1 has none" in done.err
    assert "user=user_id, item=item_id" in done.err


def test_json_has_the_documented_fields(truerank: Truerank, tiny: Path) -> None:
    done = truerank("evaluate", tiny, *POPULARITY, "--format", "json")
    result = json.loads(done.out)
    assert {"command", "version", "data", "estimates"} <= set(result)
    first, second = result["estimates"]
    assert first["value"] == pytest.approx(2 / 3)
    assert second["value"] == pytest.approx((1 + 1 / 2 + 1) / 3)
    assert (first["model"], first["metric"], first["estimator"]) == ("popularity", "recall@1", "exact")
    assert (first["kind"], first["method"], first["n_users"]) == ("exact", "normal", 3)
    assert (first["level"], first["n_negatives"]) == (0.95, None)
    assert first["low"] <= first["value"] <= first["high"]
    assert result["data"]["users_without_targets"] == 1
    assert result["provenance"]["models"] == {"popularity": "popularity"}


def test_csv_and_markdown(truerank: Truerank, tiny: Path) -> None:
    lines = truerank("evaluate", tiny, *POPULARITY, "--format", "csv").out.splitlines()
    assert lines[0].startswith("model,metric,value,low,high,level,kind,method")
    assert lines[1].startswith("popularity,recall@1,0.666")
    lines = truerank("evaluate", tiny, *POPULARITY, "--format", "markdown").out.splitlines()
    assert lines[:2] == ["| model | recall@1 | mrr |", "| --- | --- | --- |"]
    assert lines[2].startswith("| popularity | 0.6667 [")


def test_files_ranks_and_report(truerank: Truerank, tiny: Path, tmp_path: Path) -> None:
    out, ranks, report = tmp_path / "r.json", tmp_path / "ranks.parquet", tmp_path / "r.html"
    done = truerank("evaluate", tiny, *POPULARITY, "--out", out, "--ranks-out", ranks, "--report", report)
    assert done.code == 0
    assert json.loads(out.read_text())["estimates"][0]["value"] == pytest.approx(2 / 3)
    table = pl.read_parquet(ranks)
    assert {row["user_id"]: (row["rank"], row["n_pool"]) for row in table.to_dicts()} == RANKS
    assert "popularity" in report.read_text()
    csv = tmp_path / "ranks.csv"
    truerank("evaluate", tiny, *POPULARITY, "--ranks-out", csv)
    assert pl.read_csv(csv).equals(table)


@pytest.mark.slow
def test_repeats_to_the_digit(truerank: Truerank, tmp_path: Path) -> None:
    arguments = (
        "evaluate",
        "demo",
        "--model",
        "ials(sweeps=2)",
        "--split",
        "leave-one-out",
        "--ties",
        "random",
    )
    first, second = (truerank(*arguments, "--seed", "3", "--format", "csv").out for _ in range(2))
    assert first == second
    assert truerank(*arguments, "--seed", "4", "--format", "csv").out != first


def test_seen_policies_change_the_pool(truerank: Truerank, tiny: Path, tmp_path: Path) -> None:
    pools = {}
    for seen in ("remove", "bottom", "keep"):
        ranks = tmp_path / "ranks.csv"
        truerank("evaluate", tiny, *POPULARITY, "--seen", seen, "--ranks-out", ranks)
        table = pl.read_csv(ranks)
        pools[seen] = list(zip(table["rank"], table["n_pool"], strict=True))
    assert pools == {
        "remove": [(1, 1), (2, 2), (1, 2)],
        "bottom": [(1, 3), (2, 3), (1, 3)],
        "keep": [(3, 3), (3, 3), (1, 3)],
    }


def test_a_test_file_of_its_own(truerank: Truerank, tiny: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.csv"
    test.write_text("user_id,item_id\nbob,y\ndan,z\n")
    done = truerank("evaluate", tiny, "--test", test, *POPULARITY, "--format", "json")
    assert json.loads(done.out)["data"]["n_test"] == 2
    assert json.loads(done.out)["data"]["split"] == "file(test.csv)"


def test_filters(truerank: Truerank, tiny: Path) -> None:
    done = truerank("evaluate", tiny, *POPULARITY, "--min-history", "2", "--format", "json")
    assert json.loads(done.out)["data"]["n_users"] == 3
    done = truerank("evaluate", tiny, *POPULARITY, "--min-rating", "2", "--core", "2", "--format", "json")
    # rated >= 2: ann x y z, bob x z, cid y; cid falls out, then y; left: ann x z, bob x z
    data = json.loads(done.out)["data"]
    assert (data["n_users"], data["n_items"], data["n_train"], data["n_test"]) == (2, 2, 2, 2)


def test_interruption_keeps_finished_models(
    truerank: Truerank, tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("truerank.models.ials.IALS.fit", stop)
    done = truerank("evaluate", tiny, *POPULARITY, "--model", "ials")
    assert done.code == 130
    assert "popularity" in done.out
    assert "1 of 2 models were evaluated" in done.err
    done = truerank("evaluate", tiny, "--model", "ials")
    assert (done.code, done.out) == (130, "")


def npz(path: Path, **arrays: np.ndarray) -> Path:
    np.savez(path, **arrays)  # type: ignore[arg-type]
    return path


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--model", "popularty"), "unknown model 'popularty'. Did you mean 'popularity'?"),
        (("--model", "ease(reg=-1)"), "reg must be greater than 0, got -1"),
        (("--model", "ease(rag=1)"), "has no parameter 'rag'. Did you mean 'reg'?"),
        (("--model", "ease", "--metrics", "ndgc@10"), "unknown metric 'ndgc'. Did you mean 'ndcg'?"),
        (("--model", "ease", "--metrics", "ndcg@0"), "cutoff must be an integer >= 1, got 0"),
        (("--model", "ease", "--metrics", "ndcg@-3"), "cutoff must be an integer >= 1, got -3"),
        (
            ("--model", "ease", "--metrics", "ndcg@100"),
            "must be at most the largest pool of 2 items, got 100",
        ),
        (("--model", "ease", "--metrics", ","), "at least one metric is needed"),
        (("--model", "ease", "--split", "leave-first-out"), "unknown split 'leave-first-out'"),
        (("--model", "ease", "--split", "column(name=part)"), "must have a column 'part'"),
        (
            ("--model", "ease", "--ties", "coin"),
            "ties must be one of expected, best, worst, random, got 'coin'",
        ),
        (("--model", "ease", "--seen", "hide"), "seen must be one of remove, bottom, keep, got 'hide'"),
        (("--model", "ease", "--level", "95"), "level must lie between 0 and 1, got 95"),
        (("--model", "ease", "--seed", "-1"), "seed must be an integer in"),
        (("--model", "ease", "--interval", "exact"), "unknown interval 'exact'"),
        (("--model", "ease", "--model", "ease"), "model 'ease' is given twice"),
        (("--model", "ease", "--columns", "user=nobody"), "must have a column 'nobody'"),
        (("--model", "ease", "--columns", "visitor=user_id"), "has no role 'visitor'"),
        (("--model", "ease", "--duplicates", "drop"), "duplicates must be one of"),
        (("--model", "ease", "--core", "5"), "none is left"),
        (("--model", "ease", "--threads", "0"), "--threads must be at least 1"),
        (("--model", "ease", "--out", "result.xlsx"), "--out must end in .json, .csv, .md, .tex or .txt"),
        (("--model", "ease", "--out", "no/such/result.json"), "--out needs an existing folder"),
        (("--model", "ease", "--ranks-out", "ranks.json"), "--ranks-out must end in .parquet or .csv"),
        (("--model", "ease", "--report", "."), "--report must be a file"),
        (("--model", "arrays(path=missing.npz)"), "missing.npz"),
    ],
)
def test_bad_options(
    truerank: Truerank, tiny: Path, arguments: tuple[str, ...], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tiny.parent)
    done = truerank("evaluate", tiny, *arguments)
    assert done.code == 2
    assert done.out == ""
    assert sentence in done.err.replace("\n", " ")
    assert "Traceback" not in done.err
    assert list(tiny.parent.iterdir()) == [tiny], "nothing is half-written"


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("missing.csv", None, "missing.csv"),
        ("empty.csv", b"", "empty"),
        ("header.csv", b"user,item\n", "must hold at least one"),
        ("columns.csv", b"a,b\n1,2\n", "must have a user column"),
        ("ambiguous.csv", b"user,user_id,item\n1,2,3\n", "'user' and 'user_id' both may be it"),
        ("nan.csv", b"user,item\n1,2\n,3\n", "user"),
        ("negative.csv", b"user,item\n1,2\n-5,3\n", "-5"),
        ("rating.csv", b"user,item,rating\n1,2,good\n", "good"),
        ("truncated.parquet", b"PAR1\x00\x01\x02", "truncated.parquet"),
        ("notime.csv", b"user,item\n1,2\n1,3\n", "needs a timestamp"),
    ],
)
def test_bad_files(
    truerank: Truerank, tmp_path: Path, name: str, content: bytes | None, sentence: str
) -> None:
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    done = truerank("evaluate", path, "--model", "popularity", "--out", tmp_path / "out.json")
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err.replace("\n", " ")
    assert "Traceback" not in done.err
    assert not (tmp_path / "out.json").exists()


def test_a_folder_is_no_file(truerank: Truerank, tmp_path: Path) -> None:
    done = truerank("evaluate", tmp_path, "--model", "popularity")
    assert done.code == 2
    assert "folder" in done.err


def test_an_unknown_name(truerank: Truerank) -> None:
    done = truerank("evaluate", "ml-1n", "--model", "popularity")
    assert done.code == 2
    assert "Did you mean 'ml-1m'?" in done.err


def test_unknown_item_in_the_test_file(truerank: Truerank, tiny: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.csv"
    test.write_text("user_id,item_id\nbob,y\nbob,neverseen\n")
    done = truerank("evaluate", tiny, "--test", test, *POPULARITY)
    assert done.code == 2
    assert "neverseen" in done.err


def test_train_and_test_file_share_a_pair(truerank: Truerank, tiny: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.csv"
    test.write_text("user_id,item_id\nbob,x\n")
    done = truerank("evaluate", tiny, "--test", test, *POPULARITY)
    assert done.code == 2
    assert "1 of 1 held-out events are of items that the user has train events with" in done.err


@pytest.mark.parametrize(
    ("arrays", "sentence"),
    [
        ({"user": np.full((4, 2), np.nan), "item": np.ones((3, 2))}, "NaN|finite"),
        ({"user": np.ones((4, 2)), "item": np.ones((9, 2))}, "3 items|9"),
    ],
)
def test_bad_scores(
    truerank: Truerank, tiny: Path, tmp_path: Path, arrays: dict[str, np.ndarray], sentence: str
) -> None:
    import re

    model = npz(tmp_path / "m.npz", **arrays)
    done = truerank("evaluate", tiny, "--model", f"arrays(path='{model}')", "--metrics", "mrr")
    assert done.code == 2
    assert re.search(sentence, done.err)


def test_a_model_is_needed(truerank: Truerank, tiny: Path) -> None:
    done = truerank("evaluate", tiny)
    assert done.code == 2
    assert "--model" in done.err


@pytest.mark.slow
def test_as_a_program(tiny: Path) -> None:
    """The installed command in a process of its own: exit code, streams, no traceback."""
    command = [str(Path(sys.executable).with_name("truerank")), "evaluate", str(tiny), "--model", "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("truerank: unknown model 'nothing'.")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.slow
def test_some_users_are_said(truerank: Truerank) -> None:
    done = truerank("evaluate", "demo", "--model", "popularity", "--metrics", "auc", "--users", "0.2")
    assert done.code == 0
    assert "500 of 2,500 test users were sampled." in done.err
    assert "Values are exact for the sampled test users; 95 % BCa bootstrap intervals for all" in done.err
    assert "for all test users (finite population correction)." in done.err


@pytest.mark.slow
def test_precision_says_what_it_chose(truerank: Truerank) -> None:
    flags = ("--metrics", "recall@10", "--precision", "0.02", "--format", "json")
    done = truerank("evaluate", "demo", "--model", "popularity", *flags)
    assert done.code == 0
    assert "popularity: all items were ranked for all users" in done.err
    result = json.loads(done.out)
    assert result["provenance"]["precision"] == 0.02
    assert result["estimates"][0]["low"] == result["estimates"][0]["value"]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--budget", "100"), "--budget needs --precision"),
        (("--precision", "0.1", "--negatives", "9"), "Leave out --negatives, or leave out --precision"),
        (("--precision", "0.1", "--users", "9", "--sampler", "full"), "Leave out --sampler, --users, or"),
        (("--precision", "0"), "must lie in (0, 0.5), got 0"),
        (("--precision", "0.1", "--budget", "0"), "budget must be a number of scores >= 1"),
    ],
)
def test_wrong_precision(truerank: Truerank, tiny: Path, flags: tuple[str, ...], sentence: str) -> None:
    done = truerank("evaluate", tiny, *POPULARITY, *flags)
    assert done.code == 2
    assert sentence in done.err.replace("\n", " ")


@pytest.mark.slow
def test_an_engine_gives_the_same_digits(truerank: Truerank, tmp_path: Path) -> None:
    flags = ("--model", "popularity", "--metrics", "ndcg@10,auc", "--format", "json")
    here = json.loads(truerank("evaluate", "demo", *flags).out)
    there = truerank("evaluate", "demo", *flags, "--engine", "local(threads=2)", "--work-dir", tmp_path)
    assert there.code == 0
    found = json.loads(there.out)
    assert found["estimates"] == here["estimates"]
    assert found["provenance"]["engine"] == "local(threads=2)"
    assert any(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--work-dir", "x"), "--work-dir needs --engine"),
        (("--engine", "abacus"), "unknown engine 'abacus'"),
        (("--engine", "dask", "--precision", "0.1"), "Leave out --engine, or leave out --precision"),
    ],
)
def test_wrong_engines(truerank: Truerank, tiny: Path, flags: tuple[str, ...], sentence: str) -> None:
    done = truerank("evaluate", tiny, *POPULARITY, *flags)
    assert done.code == 2
    assert sentence in done.err.replace("\n", " ")


def test_gains_of_ratings(truerank: Truerank, tmp_path: Path) -> None:
    """``--min-rating`` with ``--gain`` filters train events alone."""
    lines = ["user,item,rating,split"]
    lines += [f"{user},{item},{1 + (user + item) % 5},train" for user in range(9) for item in range(20)]
    lines += [f"{user},{20 + item},{item},test" for user in range(9) for item in range(4)]
    path = tmp_path / "events.csv"
    path.write_text("\n".join(lines) + "\n")
    asked = ["evaluate", str(path), "--model", "popularity", "--split", "column(name=split)"]
    asked += ["--metrics", "ndcg@3,err@3", "--gain", "rating", "--min-rating", "4", "--format", "json"]
    outcome = truerank(*asked)
    assert outcome.code == 0
    found = json.loads(outcome.out)
    assert found["provenance"]["gain"] == "rating"
    assert (found["data"]["n_train"], found["data"]["n_test"]) == (72, 27)
    assert found["data"]["train_events_filtered"] == 108
    assert "108 of 180 train and validation events are rated below 4 and left out" in outcome.err
    assert "gain: rating." in outcome.err
    given = ("--data", *asked[1:], "--model", "ials(factors=2)")
    compared = json.loads(truerank("compare", *given).out)
    assert compared["provenance"]["gain"] == "rating"
    values = {one["metric"]: one["value"] for one in compared["estimates"] if one["model"] == "popularity"}
    assert values == {one["metric"]: pytest.approx(one["value"]) for one in found["estimates"]}
    both = truerank(*asked[:-6], "--gain", "rating", "--precision", "0.1")
    assert both.code == 2 and "Leave out --gain, or leave out --precision" in both.err
    unknown = truerank(*asked[:-6], "--gain", "stars")
    assert unknown.code == 2 and "stars" in unknown.err and "rating" in unknown.err
