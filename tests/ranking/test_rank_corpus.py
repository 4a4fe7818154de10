"""The files of exact ranks that `benchmarks.rank_corpus` makes."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import rank_corpus
from benchmarks.rank_corpus import SEEN, SOURCES, Candidate, Fit, Source, build, fits, main
from truerank.core.ranks import Ranks
from truerank.data.demo import demo
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks
from truerank.split.base import make_split, sample_users

TINY = Source("tiny", 60, 100, 0, ("leave-last-out", "leave-one-out"))


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> Fit:
    """A small data set with more than the most test users, and a model with ties."""
    monkeypatch.setattr(rank_corpus, "SOURCES", {"tiny": TINY})
    monkeypatch.setattr(rank_corpus, "MOST_USERS", 40)
    monkeypatch.setattr(rank_corpus, "load", lambda name: demo(n_users=60, n_items=100))
    return Fit("tiny", "leave-one-out", Candidate("item-knn(neighbours=2)"))


@pytest.mark.slow
def test_files_hold_exact_ranks(tiny: Fit, tmp_path: Path) -> None:
    build(tiny, tmp_path)
    split = sample_users(make_split(demo(n_users=60, n_items=100), "leave-one-out"), 40)
    scorer = MODELS.make(tiny.spec).fit(split.train)
    assert len(list(tmp_path.iterdir())) == 2
    for seen in SEEN:
        expected = exact_ranks(scorer, split, seen=seen)
        history = [int((split.train.user == user).sum()) for user in expected.user]
        with np.load(tmp_path / f"tiny__leave-one-out__item-knn_neighbours=2__{seen}.npz") as kept:
            assert json.loads(str(kept["meta"])) == {
                "data_set": "tiny",
                "split": "leave-one-out",
                "spec": "item-knn(neighbours=2)",
                "seen": seen,
                "n_items": 100,
            }
            columns = {name: kept[name] for name in kept.files if name != "meta"}
        assert {column.dtype for column in columns.values()} == {np.dtype(np.int32)}
        assert columns["n_above"].tolist() == expected.n_above.tolist()
        assert columns["n_tied"].tolist() == expected.n_tied.tolist()
        assert columns["n_pool"].tolist() == expected.n_pool.tolist()
        assert columns["n_history"].tolist() == history
        assert len(history) == 40
        assert columns["n_tied"].any()
        Ranks.single(columns["n_above"], n_pool=columns["n_pool"], n_tied=columns["n_tied"])


def test_what_is_there_stays(
    tiny: Fit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    there = tmp_path / tiny.file_name("remove")
    there.write_bytes(b"made before")
    dear = Candidate("popularity", items=99)
    monkeypatch.setattr(rank_corpus, "CLASSICAL", (tiny.candidate, dear))
    monkeypatch.setattr(rank_corpus, "NEURAL", ())
    monkeypatch.setattr(sys, "argv", ["rank_corpus", "--keep", str(tmp_path), "--only", "leave-one-out"])
    main()
    assert there.read_bytes() == b"made before"
    assert {path.name for path in tmp_path.iterdir()} == {tiny.file_name(seen) for seen in SEEN}
    assert "100 items, 40 users" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", [*sys.argv, "--list"])
    main()
    assert capsys.readouterr().out.splitlines() == [
        "1/2 tiny leave-one-out item-knn(neighbours=2): there",
        "2/2 tiny leave-one-out popularity: left out, too dear with more than 99 items",
    ]


def test_each_model_has_a_file_of_its_own() -> None:
    work = list(fits())
    assert len({fit.file_name("keep") for fit in work}) == len(work)
    for spec in {fit.spec for fit in work}:
        MODELS.make(spec)
    for data_set in SOURCES:
        built = {fit.spec for fit in work if fit.data_set == data_set and not fit.reason_against}
        assert len(built) >= 10, data_set


def test_why_models_are_left_out() -> None:
    candidate = Candidate("sasrec", events=10, cells=20, needs_time=True)
    assert candidate.reason_against(Source("untimed", 4, 5, 5)) == "needs times"
    many = [Source("events", 4, 5, 11, TINY.splits), Source("users", 5, 5, 10, TINY.splits)]
    assert [candidate.reason_against(source) for source in many] == [
        "too dear with more than 10 events",
        "too dear with more than 20 users times items",
    ]
    assert candidate.reason_against(Source("small", 4, 5, 10, TINY.splits)) == ""


def test_stand_ins_where_the_model_is_too_dear(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = Candidate("item-knn(neighbours=20)", stands_in="ease")
    monkeypatch.setattr(rank_corpus, "CLASSICAL", (Candidate("ease", items=10), stand_in))
    assert stand_in.reason_against(Source("small", 1, 10, 0)) == "too much like ease"
    assert stand_in.reason_against(Source("large", 1, 11, 0)) == ""
