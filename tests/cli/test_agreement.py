"""``truerank agreement``: what it prints, keeps, says when interrupted, and refuses."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Truerank
from truerank.cli.agreement import parse_fractions
from truerank.data.demo import demo
from truerank.subsampling.subsample import write_events
from truerank.workflows.agreement.experiment import AgreementExperiment
from truerank.workflows.agreement.result import Agreement


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "small.csv"
    write_events(path, demo(n_users=60, n_items=150))
    return path


ASKED = (
    *("--strategies", "random,head-user", "--fractions", "0.5,20%", "--seeds", "2", "--resamples", "60"),
    *("--models", "popularity,item-knn(neighbours=5)", "--scenario", "implicit(metrics='ndcg@10,recall@20')"),
)


def test_tables_and_one_answer(truerank: Truerank, data: Path) -> None:
    done = truerank("agreement", data, *ASKED, "--by-metric")
    assert done.code == 0
    cells, metrics, scores, moves, answer = done.out.strip().split("\n\n")
    head, *rows = cells.splitlines()
    assert head.split()[:3] == ["strategy", "fraction", "tau"]
    assert [row.split()[:2] for row in rows] == [
        ["random", "0.5"],
        ["random", "0.2"],
        ["head-user", "0.5"],
        ["head-user", "0.2"],
    ]
    assert len(metrics.splitlines()) == 1 + 2 * 4
    assert [row.split()[0] for row in scores.splitlines()] == ["strategy", "random", "head-user"]
    assert "P_MLE at 0.5" in moves
    assert len(moves.splitlines()) == 3
    assert "\n" not in answer
    assert "the order" in answer


def test_json_csv_and_markdown(truerank: Truerank, data: Path, tmp_path: Path) -> None:
    kept = ("--keep", str(tmp_path / "kept"))
    done = truerank("agreement", data, *ASKED, *kept, "--format", "json")
    found = Agreement.from_json(done.out)
    assert found.strategies == ["random", "head-user"]
    assert found.fractions == [0.5, 0.2]
    again = truerank("agreement", data, *ASKED, *kept, "--format", "csv")
    assert "28 of 28 parts were finished by earlier runs." in again.err
    rows = list(csv.DictReader(io.StringIO(again.out)))
    assert len(rows) == len(found.cells) == 4 * (1 + 2)
    assert float(rows[0]["tau"]) == found.cell("random", 0.5).tau
    marked = truerank("agreement", data, *ASKED, *kept, "--format", "markdown")
    assert marked.out.startswith("| strategy | fraction | tau |")
    assert found.answer in marked.out


def test_an_engine_goes_on_with_what_is_kept(truerank: Truerank, data: Path, tmp_path: Path) -> None:
    kept = ("--keep", str(tmp_path / "kept"), "--format", "json")
    first = truerank("agreement", data, *ASKED, *kept, "--engine", "local(threads=2)")
    assert first.code == 0, first.err
    again = truerank("agreement", data, *ASKED, *kept)
    assert "28 of 28 parts were finished by earlier runs." in again.err
    assert again.out == first.out


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        (("--models", "mf"), "an order needs at least two models, got mf"),
        (("--models", "mf,popularty"), "Did you mean 'popularity'"),
        (("--strategies", "rndom"), "Did you mean 'random'"),
        (("--fractions", "0.5,1.5"), "fractions must lie strictly between 0 and 1, got 1.5"),
        (("--fractions", "half"), "--fractions must be numbers between 0 and 1"),
        (("--scenario", "explict"), "Did you mean 'explicit'"),
        (("--scenario", "explicit", "--models", "mf,bias-only"), "needs a rating for each event"),
        (("--grid", "huge"), "unknown grid 'huge'"),
        (("--seeds", "0"), "seeds must be at least 1"),
        (("--workers", "0"), "workers must be at least 1"),
        (("--engine", "dsk"), "Did you mean 'dask'"),
        (("--engine", "local", "--workers", "2"), "and an engine has its own, got"),
    ],
)
def test_bad_input_gets_a_sentence_and_code_2(
    truerank: Truerank, data: Path, changed: tuple[str, ...], sentence: str
) -> None:
    done = truerank("agreement", data, *ASKED, *changed)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err
    assert "Traceback" not in done.err


def test_data_without_times_are_refused_for_sequences(truerank: Truerank, tmp_path: Path) -> None:
    path = tmp_path / "plain.csv"
    path.write_text("user_id,item_id\n" + "".join(f"{u},{i}\n" for u in range(5) for i in range(4)))
    done = truerank("agreement", path, *ASKED, "--scenario", "sequential")
    assert done.code == 2
    assert "scenario 'sequential' needs a timestamp for each event, but 'plain' has none" in done.err


def test_the_folder_of_another_experiment_is_refused(truerank: Truerank, data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    assert truerank("agreement", data, *ASKED, "--keep", folder).code == 0
    other = tmp_path / "other.csv"
    write_events(other, demo(1, n_users=60, n_items=150))
    done = truerank("agreement", other, *ASKED, "--keep", folder)
    assert (done.code, done.out) == (2, "")
    assert "keeps an experiment on other data" in done.err


@pytest.mark.parametrize("keeps", [True, False])
def test_an_interrupt_says_how_to_go_on(
    truerank: Truerank, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keeps: bool
) -> None:
    def interrupted(self: AgreementExperiment, progress: object) -> Agreement:
        raise KeyboardInterrupt

    monkeypatch.setattr(AgreementExperiment, "run", interrupted)
    rest = ("--keep", str(tmp_path / "kept")) if keeps else ()
    done = truerank("agreement", data, *ASKED, *rest)
    assert (done.code, done.out) == (130, "")
    if keeps:
        assert "0 of 28 parts are finished and kept in" in done.err
        assert "run the same command again to continue" in done.err
    else:
        assert "Nothing was kept; with --keep FOLDER a later run continues" in done.err


def test_models_that_cannot_be_fitted_are_named(
    truerank: Truerank, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = AgreementExperiment.run

    def with_problem(self: AgreementExperiment, progress: object) -> Agreement:
        fields = json.loads(original(self).to_json())
        return Agreement.from_json(json.dumps({**fields, "problems": ["svae on random at 0.01: too few."]}))

    monkeypatch.setattr(AgreementExperiment, "run", with_problem)
    done = truerank("agreement", data, *ASKED)
    assert "note: not fitted: svae on random at 0.01: too few." in done.err


def test_small_subsamples_are_named(truerank: Truerank, data: Path) -> None:
    done = truerank("agreement", data, *ASKED, "--least-events", "100000", "--least-items", "2")
    assert done.code == 0
    assert "note: skipped: random at 0.5 (seed 0, implicit): " in done.err
    assert "train events, fewer than 100000" in done.err
    assert "sub-samples are too small (below 100000 train events or 2 items)" in done.out.replace("\n", " ")
    done = truerank("agreement", data, *ASKED, "--least-users", "-1")
    assert (done.code, done.out) == (2, "")
    assert "--least-users must be at least 0, got -1" in done.err


def test_fractions_are_read_as_numbers_or_percent() -> None:
    assert parse_fractions("80%,.5, 1e-2") == [0.8, 0.5, 0.01]
