"""``truerank list``, ``data``, ``trec``, ``--version`` and completion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Truerank
from truerank import __version__
from truerank.cli.completion import data_names, plugin_names


def test_version(truerank: Truerank) -> None:
    assert truerank("--version").out == f"truerank {__version__}\n"


@pytest.mark.parametrize(
    ("kind", "name"), [("metrics", "ndcg"), ("models", "ease"), ("splits", "ratio"), ("intervals", "bca")]
)
def test_list(truerank: Truerank, kind: str, name: str) -> None:
    assert name in truerank("list", kind).out
    entries = json.loads(truerank("list", kind, "--format", "json").out)
    assert name in [entry["name"] for entry in entries]
    assert truerank("list", kind, "--format", "csv").out.startswith("name,parameters,summary,source\n")
    assert truerank("list", kind, "--format", "markdown").out.startswith("| name | parameters |")


def test_list_unknown_kind(truerank: Truerank) -> None:
    done = truerank("list", "metric")
    assert (done.code, done.out) == (2, "")
    assert "unknown kind 'metric'. Did you mean 'metrics'?" in done.err


def test_data_list_and_describe(truerank: Truerank) -> None:
    wanted = {
        "ml-100k",
        "ml-1m",
        "ml-20m",
        "citeulike-a",
        "pinterest-20",
        "yelp",
        "book-crossing",
        "gowalla",
        "beeradvocate",
    }
    entries = json.loads(truerank("data", "list", "--format", "json").out)
    assert wanted <= {entry["name"] for entry in entries}
    assert "ml-20m" in truerank("data", "list").out
    assert json.loads(truerank("data", "describe", "ml-1m", "--format", "json").out)["items"] == 3706
    assert "GroupLens" in truerank("data", "describe", "ml-1m").out


def test_data_unknown(truerank: Truerank) -> None:
    done = truerank("data", "describe", "ml-2m")
    assert done.code == 2
    assert "Did you mean" in done.err


def test_data_fetch_finds_what_lies_here(
    truerank: Truerank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "gowalla.csv"
    file.write_text("user,item\n1,2\n")
    monkeypatch.setenv("TRUERANK_DATA", str(tmp_path))
    done = truerank("data", "fetch", "gowalla")
    assert done.out.strip() == str(file)


def test_data_fetch_by_hand(truerank: Truerank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRUERANK_DATA", str(tmp_path))
    done = truerank("data", "fetch", "yelp")
    assert (done.code, done.out) == (2, "")
    assert "accept the terms" in done.err.replace("\n", " ")


def test_trec(truerank: Truerank, tmp_path: Path) -> None:
    """q1: relevant documents at ranks 1 and 3 of 3; q2: nothing relevant retrieved."""
    run, qrels = tmp_path / "a.run", tmp_path / "a.qrels"
    run.write_text("q1 Q0 a 1 9 t\nq1 Q0 b 2 8 t\nq1 Q0 c 3 7 t\nq2 Q0 a 1 1 t\n")
    qrels.write_text("q1 0 a 1\nq1 0 c 1\nq2 0 z 1\n")
    done = truerank(
        "trec", run, qrels, "--metrics", "ap(norm=rel),mrr,recall(norm=rel)@1", "--format", "json"
    )
    assert done.code == 0
    result = json.loads(done.out)
    found = {entry["metric"]: entry["value"] for entry in result["estimates"]}
    assert found == {
        "ap(norm=rel)": pytest.approx((1 + 2 / 3) / 2 / 2),
        "mrr": pytest.approx(1 / 2),
        "recall@1": pytest.approx(1 / 2 / 2),
    }
    assert result["command"] == "trec"
    assert result["data"]["relevant_not_retrieved"] == 1
    assert "a.run" in truerank("trec", run, qrels, "--metrics", "mrr").out


def test_trec_bad_line(truerank: Truerank, tmp_path: Path) -> None:
    run, qrels = tmp_path / "a.run", tmp_path / "a.qrels"
    run.write_text("q1 Q0 a 1 high t\n")
    qrels.write_text("q1 0 a 1\n")
    done = truerank("trec", run, qrels)
    assert (done.code, done.out) == (2, "")
    assert "line 1" in done.err


def test_completion_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plugin_names("metrics")("nd") == ["ndcg"]
    assert plugin_names("metrics")("auc,nd") == ["auc,ndcg"]
    assert "ml-1m" in data_names("ml-")
    (tmp_path / "events.csv").write_text("")
    monkeypatch.chdir(tmp_path)
    assert data_names("ev") == ["events.csv"]


@pytest.mark.slow
def test_completion_in_the_shell() -> None:
    """What bash would ask for after ``truerank evaluate demo --model ea<TAB>``."""
    asked = {
        "_TRUERANK_COMPLETE": "complete_bash",
        "COMP_WORDS": "truerank evaluate demo --model ea",
        "COMP_CWORD": "4",
    }
    program = str(Path(sys.executable).with_name("truerank"))
    done = subprocess.run([program], env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["ease"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("truerank su", ["subsample"]),
        ("truerank data fe", ["fetch"]),
        ("truerank paper run r19.table1", ["r19.table1"]),
        ("truerank compare --correc", ["--correction"]),
    ],
)
def test_completion_of_commands_and_options(words: str, completed: list[str]) -> None:
    """Names of commands come from the group, all others from the command that is loaded for them."""
    asked = {
        "_TRUERANK_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    program = str(Path(sys.executable).with_name("truerank"))
    done = subprocess.run([program], env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert done.stdout.split() == completed
