"""``truerank paper``: the list with the last runs, quick runs, files and reports."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path

import pytest

from tests.cli.conftest import Truerank
from truerank.cli.paper import _chosen
from truerank.papers.recipe import RECIPES


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the runs of a test to itself."""
    monkeypatch.setenv("TRUERANK_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.mark.slow
def test_files(truerank: Truerank, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    done = truerank("paper", "run", "r19.table1", "r19.figure1", "--out", out)
    assert done.code == 0
    assert "12 matches" in done.err
    assert sorted(path.name for path in out.iterdir()) == [
        "r19.figure1.csv",
        "r19.figure1.png",
        "r19.figure1.svg",
        "r19.table1.csv",
    ]


def listed(truerank: Truerank, *options: str | Path) -> dict[str, dict[str, object]]:
    found = truerank("paper", "list", "--format", "json", *options)
    assert found.code == 0
    return {line["name"]: line for line in json.loads(found.out)}


def test_the_list_shows_the_reference_until_a_recipe_is_run(truerank: Truerank, tmp_path: Path) -> None:
    before = listed(truerank)
    assert list(before) == list(RECIPES)
    assert before["r19.table2"]["reference"] is True
    assert truerank("paper", "run", "r19.table2", "--repeats", "20").code == 0
    after = listed(truerank)["r19.table2"]
    assert (after["reference"], after["quick"], after["repeats"]) == (False, False, 20)
    assert after["status"] == "20 of 1000 repeats, no evidence"
    joint = after["joint"]
    assert isinstance(joint, dict)
    assert joint["n_cells"] == 22  # two of the printed deviations are zero, and so are ours
    elsewhere = tmp_path / "elsewhere"
    assert truerank("paper", "run", "r19.table1", "--keep", elsewhere, "--quick").code == 0
    assert listed(truerank)["r19.table1"]["reference"] is True
    kept = listed(truerank, "--keep", elsewhere)["r19.table1"]
    assert (kept["reference"], kept["quick"], kept["cells"]) == (False, True, {"matches": 12})


def test_fresh_runs_are_not_kept(truerank: Truerank, cache: Path) -> None:
    assert truerank("paper", "run", "r19.table1", "--fresh").code == 0
    assert not cache.exists()


def test_other_formats_of_the_list(truerank: Truerank) -> None:
    rows = list(csv.reader(StringIO(truerank("paper", "list", "--format", "csv").out)))
    assert rows[0] == ["name", "last run", "cpu s", "data", "title", "status"]
    assert [row[0] for row in rows[1:]] == list(RECIPES)
    assert truerank("paper", "list", "--format", "markdown").out.startswith("| name | last run |")
    assert "holds no numbers" in truerank("paper", "list").out


@pytest.mark.slow
def test_a_quick_run_of_all_says_what_it_left_out(
    truerank: Truerank, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only recipes without data and of the toy example, for the time the others take."""
    kept = {
        name: RECIPES[name]
        for name in ("r19.table1", "r19.figure1", "kr20.table3", "kr20.fit-x", "l20.table1", "s21.table4")
    }
    monkeypatch.setattr("truerank.papers.recipe.RECIPES", kept)
    monkeypatch.setattr("truerank.papers.recipe.find_local", lambda name: None)
    page = tmp_path / "page.html"
    done = truerank("paper", "run", "all", "--quick", "--report", page)
    assert done.code == 0
    assert "kr20.table3: not run, data set ml-1m is not at hand." in done.err
    assert "l20.table1: not run, it holds no numbers (notation)." in done.err
    summary = done.err[done.err.index("recipe ") :]
    assert [line.split()[0] for line in summary.splitlines()[1:4]] == [
        "r19.table1",
        "r19.figure1",
        "s21.table4",
    ]
    monkeypatch.setattr("truerank.papers.recipe.find_local", lambda name: Path(name))
    monkeypatch.delitem(kept, "kr20.table3")
    again = truerank("paper", "run", "all", "--quick")
    assert "kr20.fit-x: left out of a quick run, it fits X 120 times, some minutes." in again.err
    text = page.read_text(encoding="utf-8")
    assert "Toy example, exact metrics" in text
    assert "differs because the last number needs a speed-up of 1.91" in text


def test_one_recipe_that_cannot_run_does_not_stop_all(
    truerank: Truerank, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "truerank.papers.recipe.RECIPES", {n: RECIPES[n] for n in ("s21.figure1", "r19.table1")}
    )
    monkeypatch.setattr("truerank.papers.recipe.find_local", lambda name: Path(name))
    monkeypatch.setattr("truerank.papers.sachdeva2021_protocol.find_local", lambda name: None)
    done = truerank("paper", "run", "all", "--quick", "--format", "json")
    assert done.code == 0
    assert list(json.loads(done.out)["recipes"]) == ["r19.table1"]
    assert (
        "s21.figure1: not run, a run that is not full needs the data set 'amazon-magazine-svpcf'" in done.err
    )
    alone = truerank("paper", "run", "s21.figure1", "--quick")
    assert alone.code == 2
    assert "Run it with --full" in alone.err


def test_bad_options_end_with_one_sentence(truerank: Truerank, tmp_path: Path) -> None:
    for options, sentence in (
        (("r19.table1", "--quick", "--full"), "either quick or full, not both"),
        (("l23.table4",), "holds no numbers"),
        (("kr20.fit-x", "--quick"), "Run it without --quick"),
        (("r19.table1", "--protocol", "published"), "'r19.table1' has one protocol, got 'published'. Leave"),
        (("r19.table1", "--report", tmp_path), "--report must be a file"),
        (("r19.table1", "--report", tmp_path / "page.txt"), "--report must end in .html or .htm"),
        (("r19.table1", "--out", tmp_path / "none"), "--out must be an existing folder"),
        (("r19.table1", "r19.tabel2"), "unknown paper or recipe 'r19.tabel2'. Did you mean 'r19.table2'?"),
        (("kr21",), "unknown paper or recipe 'kr21'. Did you mean 'kr20'?"),
        (("zzz",), "unknown paper or recipe 'zzz'. Known: all, kr20, l20, l23, r19, s21."),
        (
            ("l20.table2", "--without", "NeuMFF"),
            "unknown model 'NeuMFF'. Known: ALS, EASE, MF, MultiVAE, NGCF, NeuMF, itemKNN, popularity.",
        ),
    ):
        done = truerank("paper", "run", *options)
        assert done.code == 2
        assert sentence in done.err
        assert done.err.count("\n") <= 2
        assert done.out == ""


def test_a_whole_paper_by_its_name(truerank: Truerank, monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """The tables and figures of the paper, each once, and a sentence for what is no part of it."""
    names = ("r19.table1", "kr20.table1", "kr20.table3", "kr20.figure1", "kr20.fit-x")
    monkeypatch.setattr("truerank.papers.recipe.RECIPES", {name: RECIPES[name] for name in names})
    monkeypatch.setattr("truerank.papers.recipe.find_local", lambda name: None)
    done = truerank("paper", "run", "kr20", "kr20.table1", "--format", "json")
    assert done.code == 0
    assert list(json.loads(done.out)["recipes"]) == ["kr20.figure1", "kr20.table1"]
    assert "kr20.table3: not run, data set ml-1m is not at hand." in done.err
    assert "kr20.fit-x: not run, data set ml-1m is not at hand." in done.err
    chosen, left_out = _chosen(["r19", "kr20.fit-x"], False)
    assert (chosen, left_out) == (["r19.table1", "kr20.fit-x"], [])


def test_runs_lie_where_the_command_says(truerank: Truerank, cache: Path, tmp_path: Path) -> None:
    done = truerank("paper", "run", "r19.table1")
    said = done.err[done.err.index("kept 1 run in ") :].removeprefix("kept 1 run in ").replace("\n", "")
    assert Path(said) == cache / "papers" / "runs"
    assert [path.name for path in Path(said).iterdir()] == ["r19.table1.json"]
    out = tmp_path / "out"
    out.mkdir()
    told = truerank("paper", "run", "r19.table1", "--out", out, "--report", out / "page.html", "--fresh")
    assert "kept" not in told.err
    wrote = {line.split("wrote ", 1)[1] for line in told.err.splitlines() if "wrote " in line}
    assert (
        wrote
        == {str(path) for path in out.iterdir()}
        == {str(out / "r19.table1.csv"), str(out / "page.html")}
    )
