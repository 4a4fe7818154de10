"""The stopping rule travels with the table, and rows that contradict it get their sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ranking.test_sampled import assert_equal, random_factors, random_split
from truerank.core.errors import InvalidData
from truerank.core.ranks import Design, SampledRanks, Stopping
from truerank.core.scorer import as_scorer
from truerank.ranking.file_columns import format_stopping, parse_stopping
from truerank.ranking.files import read_sampled_models, read_sampled_ranks, sampled_frame, write_sampled
from truerank.ranking.sampled import sampled_ranks

FLAGS: dict[str, Any] = {"n_items": 500}
RULE = "while rank <= 1: 9 19 39"


@given(sizes=st.sets(st.integers(1, 2**31), min_size=1, max_size=9), rank=st.integers(1, 10**6))
def test_text_round_trip(sizes: set[int], rank: int) -> None:
    stopping = Stopping(tuple(sorted(sizes)), rank)
    assert parse_stopping(format_stopping(stopping), "here") == stopping
    assert parse_stopping(f"  {format_stopping(stopping)} ".replace(" ", "  "), "here") == stopping


def test_no_rule() -> None:
    assert parse_stopping(None, "here") is parse_stopping(" ", "here") is None


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
@pytest.mark.parametrize("replace", ["true", "false"])
def test_round_trip(suffix: str, replace: str, tmp_path: Path) -> None:
    """Some samples end by their rank in each round, some with the last candidate."""
    split, path = random_split(), tmp_path / f"ranks.{suffix}"
    spec = f"adaptive(start=20, max=600, while_rank=2, replace={replace})"
    ranks = sampled_ranks(as_scorer(random_factors(split, 3)), split, spec)
    assert len(set(ranks.n_negatives.tolist())) == 6
    write_sampled(path, ranks, split.train.users, split.train.items)
    back = read_sampled_ranks(path)
    assert back.design == ranks.design and back.design.stopping == Stopping((19, 39, 79, 159, 319, 599), 2)
    for name in ("user", "n_above", "n_tied", "n_negatives", "n_pool", "n_relevant_above", "n_candidates"):
        assert np.array_equal(getattr(back, name), getattr(ranks, name)), name


def test_fixed_samples_have_no_such_column() -> None:
    split = random_split()
    ranks = sampled_ranks(as_scorer(random_factors(split)), split, "uniform(m=9)")
    assert "stopping" not in sampled_frame(ranks, split.train.users, None).columns


def test_an_empty_column_is_a_fixed_size(tmp_path: Path) -> None:
    for cell in ("", '""', "  "):
        path = written(tmp_path, f"user_id,rank,m,stopping\n1,1,9,{cell}\n2,1,9,{cell}\n")
        assert read_sampled_ranks(path, **FLAGS).design == Design()
    frame = pl.DataFrame({"user_id": [1], "rank": [1], "m": [9], "stopping": [None]})
    frame.write_parquet(tmp_path / "ranks.parquet")
    assert read_sampled_ranks(tmp_path / "ranks.parquet", **FLAGS).design.stopping is None


def test_several_models(tmp_path: Path) -> None:
    split, path = random_split(), tmp_path / "ranks.parquet"
    user, item = random_factors(split, 3)
    scorers = {"a": as_scorer((user, item)), "b": as_scorer((user, item[::-1].copy()))}
    found = {
        name: sampled_ranks(scorer, split, "adaptive(start=20, max=80)") for name, scorer in scorers.items()
    }
    write_sampled(path, found, split.train.users)
    back = read_sampled_models(path)
    assert list(back) == ["a", "b"] and back["b"].design == found["b"].design
    assert np.array_equal(back["b"].n_negatives, found["b"].n_negatives)
    found["b"] = sampled_ranks(scorers["b"], split, "uniform(m=19)")
    write_sampled(path, found, split.train.users)
    with pytest.raises(InvalidData, match="one way, but stopping is both empty and while rank"):
        read_sampled_models(path)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "ranks.csv"
    path.write_text(text)
    return path


def test_rows_that_obey_are_read(tmp_path: Path) -> None:
    """Ended in each round, at the last size with rank 1, and with all 14 candidates of a small pool."""
    rows = ["1,10,9,500", "2,2,19,500", "3,11,19,500", "4,1,39,500", "5,21,39,500", "6,1,14,15"]
    text = "user_id,rank,m,n_items,stopping\n" + "".join(f"{row},{RULE}\n" for row in rows)
    ranks = read_sampled_ranks(written(tmp_path, text))
    assert ranks.n_negatives.tolist() == [9, 19, 19, 39, 39, 14]
    assert ranks.design.stopping == Stopping((9, 19, 39))


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "1,2,10,50",
            r"by the rule 'while rank <= 1: 9 19 39' n_negatives must be the size of a round, but row 0",
        ),
        ("1,2,79,500", r"must be the size of a round, but row 0 .* has rank 2 among 79 negatives"),
        ("1,1,9,50", r"a sample with rank <= 1 must go on to the last size, but row 0 .* rank 1 among 9 neg"),
        ("1,1,19,50", r"must go on to the last size, .* among 19 negatives\. Correct the table or rule"),
        ("1,12,19,50", r"must end with the round in which its rank exceeds .* rank 12 among 19 negatives"),
        ("1,1,13,15", r"must be the size of a round"),
    ],
)
def test_rows_that_contradict_the_rule(row: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, f"user_id,rank,m,n_items,stopping\n{row},{RULE}\n")
    with pytest.raises(InvalidData, match=message) as caught:
        read_sampled_ranks(path)
    assert "\n" not in str(caught.value)


def test_all_candidates_are_no_end_with_replacement(tmp_path: Path) -> None:
    text = f"user_id,rank,m,n_items,replacement,stopping\n1,1,14,15,true,{RULE}\n"
    with pytest.raises(InvalidData, match="must be the size of a round"):
        read_sampled_ranks(written(tmp_path, text))


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("sometimes", r"must read like 'while rank <= 1: 99 199 399'.*got 'sometimes': that is not how"),
        ("7", "got '7': that is not how a rule is written. Correct it"),
        ("while rank <= 1: 9 19 19", r"got 'while rank <= 1: 9 19 19': sizes must be numbers of negatives"),
        ("while rank <= 0: 9 19", "rank must be an integer >= 1, got 0. Correct it"),
        ("while rank <= 1:", "that is not how a rule is written"),
    ],
)
def test_unreadable_rules(cell: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=message):
        read_sampled_ranks(written(tmp_path, f"user_id,rank,m,stopping\n1,2,9,{cell}\n"), **FLAGS)


def test_two_rules(tmp_path: Path) -> None:
    text = f"user_id,rank,m,stopping\n1,2,9,{RULE}\n2,2,9,while rank <= 2: 9 19\n"
    with pytest.raises(InvalidData, match=r"sampled in one way, but stopping is both while.*Split the file"):
        read_sampled_ranks(written(tmp_path, text), **FLAGS)


def test_equal_tables_are_equal() -> None:
    """The comparison used above tells designs with and without a rule apart."""
    fixed = SampledRanks.single([3], n_negatives=9, n_pool=50)
    ruled = SampledRanks.single([3], n_negatives=9, n_pool=50, design=Design(stopping=Stopping((9, 19))))
    with pytest.raises(AssertionError):
        assert_equal(fixed, ruled)
