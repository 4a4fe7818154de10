"""Scores on the disk: found again, of one split and one version, whole or refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import numpy as np
import pytest

from tests.models.slow.world import N_ITEMS, N_USERS, all_pairs, make_split, score_pairs, table
from truerank.core.errors import DataWarning, InvalidData, InvalidParameter
from truerank.models.slow.score_file import KeptScores, ScoreFile
from truerank.models.slow.slow_scorer import SlowScorer, slow_scorer

SPLIT = make_split()


def asked(path: Path, version: str = "1", n: int | None = None, concurrency: int = 1) -> SlowScorer:
    """Ask for the first n pairs, with a file."""
    scorer = slow_scorer(
        score_pairs, SPLIT.train, batch=5, concurrency=concurrency, name="net", version=version
    )
    users, items = all_pairs()
    with ScoreFile(path, SPLIT) as file:
        scorer.keep_in(file, "other")
        np.testing.assert_array_equal(scorer.score_pairs(users[:n], items[:n]), table().ravel()[:n])
    return scorer


def test_a_second_run_asks_for_nothing(tmp_path: Path) -> None:
    path = tmp_path / "scores.db"
    assert asked(path, n=20).n_asked == 20
    assert asked(path, concurrency=3).n_asked == N_USERS * N_ITEMS - 20
    assert asked(path).n_asked == 0
    assert [one.name for one in tmp_path.iterdir()] == ["scores.db"]


def test_versions_and_names_are_kept_apart(tmp_path: Path) -> None:
    path = tmp_path / "scores.db"
    asked(path, n=30)
    assert asked(path, version="2", n=30).n_asked == 30
    with ScoreFile(path, SPLIT) as file:
        assert file.versions("net") == ["1", "2"]
        assert len(file.scores("other", "1", N_ITEMS)) == 0
        assert file.versions("other") == []


def test_scores_come_back_to_the_bit(tmp_path: Path) -> None:
    scores = np.array([0.1 + 0.2, -0.0, 5e-324, 1.7e308, float("inf"), -float("inf"), 3.0])
    users, items = np.arange(7), np.zeros(7, np.int64)
    with ScoreFile(tmp_path / "s.db", SPLIT) as file:
        file.scores("net", "1", N_ITEMS).add(users, items, scores)
    with ScoreFile(tmp_path / "s.db", SPLIT) as file:
        found = file.scores("net", "1", N_ITEMS).find(users, items)
    np.testing.assert_array_equal(found.view(np.int64), (scores + 0.0).view(np.int64))


def test_the_first_answer_is_the_score(tmp_path: Path) -> None:
    pair = np.array([1]), np.array([2])
    with ScoreFile(tmp_path / "s.db", SPLIT) as file:
        kept = file.scores("net", "1", N_ITEMS)
        kept.add(*pair, np.array([0.25]))
        kept.add(*pair, np.array([0.75]))
        assert kept.find(*pair).tolist() == [0.25]
    with ScoreFile(tmp_path / "s.db", SPLIT) as file:
        assert file.scores("net", "1", N_ITEMS).find(*pair).tolist() == [0.25]


def test_nothing_is_known_in_the_beginning() -> None:
    kept = KeptScores(5)
    assert len(kept) == 0
    assert np.isnan(kept.find(np.array([0, 1]), np.array([4, 0]))).all()


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (make_split(shift=1), "this split of 'small', but it holds those for another one"),
        (make_split(prefix="v"), "this split of 'small', but it holds those for another one"),
    ],
)
def test_other_data_are_refused(tmp_path: Path, other: object, told: str) -> None:
    asked(tmp_path / "s.db", n=5)
    with pytest.raises(InvalidData, match=rf"{told} \(7 users, 11 items, toy\)\. Name another file"):
        ScoreFile(tmp_path / "s.db", other)  # type: ignore[arg-type]


def test_a_model_without_a_version_is_refused(tmp_path: Path) -> None:
    scorer = slow_scorer(score_pairs, SPLIT.train)
    with (
        ScoreFile(tmp_path / "s.db", SPLIT) as file,
        pytest.raises(InvalidParameter, match="need a version of the model 'mine', so that"),
    ):
        scorer.keep_in(file, "mine")


def test_a_file_in_use_is_refused(tmp_path: Path) -> None:
    with (
        ScoreFile(tmp_path / "s.db", SPLIT),
        pytest.raises(InvalidParameter, match=r"scores must be a file that no other run uses, but .* in use"),
    ):
        ScoreFile(tmp_path / "s.db", SPLIT)


def foreign(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE scores (user, item, score)")
    connection.commit()
    connection.close()


@pytest.mark.parametrize("damage", ["text", "foreign", "cut", "overwritten", "no about", "view"])
def test_files_that_are_none_are_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "s.db"
    if damage == "foreign":
        foreign(path)
    elif damage == "text":
        path.write_text("user,item,score\n" * 100)
    else:
        asked(path)
        if damage == "cut":
            path.write_bytes(path.read_bytes()[:-4096])
        elif damage == "overwritten":
            path.write_bytes(path.read_bytes()[:4096] + bytes(range(256)) * (path.stat().st_size // 256 - 16))
        else:
            connection = sqlite3.connect(path)
            connection.execute(
                "DELETE FROM about" if damage == "no about" else "CREATE VIEW more AS SELECT 1 AS x"
            )
            connection.commit()
            connection.close()
    before = path.read_bytes()
    with pytest.raises(
        InvalidData, match=r"must be a (whole )?file of scores that truerank wrote, but it is"
    ):
        ScoreFile(path, SPLIT)
    assert path.read_bytes() == before or damage in ("no about", "view")


def test_a_changed_score_is_asked_for_again(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    asked(path, n=30)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE scores SET score = score + 1 WHERE user = 0 AND item IN (3, 4)")
    connection.commit()
    connection.close()
    with pytest.warns(DataWarning, match=r"2 scores in .* are not as written, and asked for again"):
        assert asked(path, n=30).n_asked == 2
    assert asked(path, n=30).n_asked == 0


def test_a_score_that_is_text_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    asked(path, n=30)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE scores SET score = 'high' WHERE user = 0 AND item = 3")
    connection.commit()
    connection.close()
    with pytest.raises(InvalidData, match="a score is no number"):
        asked(path)


def test_places_that_take_no_file(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"scores must be a file, but .* is a folder"):
        ScoreFile(tmp_path, SPLIT)
    with pytest.raises(InvalidParameter, match="needs an existing folder"):
        ScoreFile(tmp_path / "none" / "s.db", SPLIT)
    (tmp_path / "empty.db").touch()
    assert asked(tmp_path / "empty.db").n_asked == N_USERS * N_ITEMS


def test_a_disk_that_is_full_keeps_what_it_holds(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource", reason="limits of file sizes are those of Unix")
    path = tmp_path / "s.db"
    asked(path, n=20)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, hard))
    try:
        with pytest.raises(InvalidParameter, match=r"scores must be written to .*, but that failed \(.*\)\."):
            asked(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert 0 < asked(path).n_asked < N_USERS * N_ITEMS - 20


@pytest.mark.filterwarnings("ignore:.* not as written, and asked for again")
def test_no_damage_changes_a_score(tmp_path: Path) -> None:
    """Flipped bits, cut files, bytes of elsewhere: refused with a sentence, or the scores that are left."""
    path, damaged = tmp_path / "s.db", tmp_path / "damaged.db"
    asked(path)
    whole, rng = path.read_bytes(), np.random.default_rng(7)
    outcomes = set()
    for turn in range(90):
        there = bytearray(whole)
        at, other = (int(place) for place in rng.integers(0, len(whole) - 300, 2))
        if turn % 3 == 0:
            there[at] ^= 1 << (turn % 8)
        elif turn % 3 == 1:
            there = there[:at]
        else:
            there[at : at + 300] = there[other : other + 300]
        damaged.write_bytes(there)
        try:
            with ScoreFile(damaged, SPLIT) as file:
                found = file.scores("net", "1", N_ITEMS).find(*all_pairs())
            assert (np.isnan(found) | (found == table().ravel())).all()
            outcomes.add("some" if np.isnan(found).any() else "all")
        except InvalidData:
            outcomes.add("refused")
        for beside in tmp_path.glob("damaged.db-*"):
            beside.unlink()
    assert outcomes == {"all", "some", "refused"}
