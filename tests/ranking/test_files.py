"""The table of sampled ranks: it comes back as it was written, and every bad table gets its sentence."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions, Vocabulary
from truerank.core.ranks import Design, SampledRanks
from truerank.core.scorer import as_scorer
from truerank.core.split import Split
from truerank.ranking.files import read_sampled_models, read_sampled_ranks, read_sampled_table, write_sampled
from truerank.ranking.sampled import sampled_ranks

USERS, ITEMS = Vocabulary.of(["ann", "bob", "eve"]), Vocabulary.of([10 * i for i in range(30)])


def some_ranks(spec: str = "uniform(m=9)") -> SampledRanks:
    """Two targets for ann and bob, one for eve."""
    draw = np.random.default_rng(0)
    train = Interactions.from_codes([0, 1, 2, 2], [0, 1, 2, 3], n_users=3, n_items=30)
    test = Interactions.from_codes([0, 0, 1, 1, 2], [5, 9, 5, 2, 29], n_users=3, n_items=30)
    return sampled_ranks(as_scorer(draw.integers(0, 9, (3, 30)).astype(float)), Split(train, test), spec)


def assert_equal(first: SampledRanks, second: SampledRanks, *, but: tuple[str, ...] = ()) -> None:
    for field in fields(SampledRanks):
        if field.name not in but:
            assert np.array_equal(getattr(first, field.name), getattr(second, field.name)), field.name


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
@pytest.mark.parametrize("spec", ["uniform(m=9)", "uniform(m=40, replace=true, shared=false)", "full"])
def test_round_trip(suffix: str, spec: str, tmp_path: Path) -> None:
    ranks, path = some_ranks(spec), tmp_path / f"ranks.{suffix}"
    write_sampled(path, ranks, USERS, ITEMS)
    table = read_sampled_table(path)
    back = table.models[""]
    assert back.design == ranks.design
    assert_equal(back, ranks, but=("item", "design"))
    assert table.users == USERS and table.items is not None
    assert table.items.decode(back.item) == ITEMS.decode(ranks.item)
    assert_equal(read_sampled_ranks(path), back, but=("design",))
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_round_trip_of_several_models(tmp_path: Path) -> None:
    path = tmp_path / "ranks.parquet"
    ranks = {"a": some_ranks(), "b": some_ranks("uniform(m=3)")}
    write_sampled(path, ranks, USERS, ITEMS)
    back = read_sampled_models(path)
    assert list(back) == ["a", "b"]
    for name, one in ranks.items():
        assert_equal(back[name], one, but=("item", "design"))
    with pytest.raises(
        InvalidData, match=r"must hold one model, but it holds 2: a, b\..*read_sampled_models"
    ):
        read_sampled_ranks(path)


def test_popularity_stays_popularity(tmp_path: Path) -> None:
    """What estimators refuse must still be known after a round trip."""
    ranks = SampledRanks.single([1], n_negatives=2, n_pool=9, design=Design("popularity"))
    write_sampled(tmp_path / "ranks.csv", ranks, USERS)
    assert read_sampled_ranks(tmp_path / "ranks.csv").design.law == "popularity"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_the_number_of_test_users_is_kept(tmp_path: Path, suffix: str) -> None:
    ranks = SampledRanks.single([1, 0], n_negatives=2, n_pool=9, design=Design(n_test_users=7))
    path = tmp_path / f"ranks.{suffix}"
    write_sampled(path, ranks, Vocabulary.of(["a", "b"]))
    assert read_sampled_ranks(path).design == ranks.design


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("0", "n_test_users of .* must be an integer >= 1, got"),
        ("few", "n_test_users of .* must be an integer >= 1, got 'few'"),
        ("1", "must be at most the 1 test users they were sampled from, got 2"),
    ],
)
def test_a_wrong_number_of_test_users(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "ranks.csv"
    path.write_text(f"user_id,rank,n_negatives,n_items,n_test_users\na,1,2,9,{text}\nb,2,2,9,{text}\n")
    with pytest.raises(InvalidData, match=sentence):
        read_sampled_ranks(path)


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "ranks.csv"
    path.write_text(text)
    return path


def test_the_smallest_table(tmp_path: Path) -> None:
    """A rank per user and three flags are enough; users may come in any order."""
    path = written(tmp_path, "user,rank\n7,3\n2,100\n5,1\n")
    ranks = read_sampled_ranks(path, n_items=3706, n_negatives=99, replacement=True)
    assert ranks.n_above.tolist() == [99, 0, 2]
    assert ranks.n_pool.tolist() == [3706] * 3 and ranks.n_candidates.tolist() == [3705] * 3
    assert ranks.design == Design("uniform", replacement=True, shared=False)
    zero = read_sampled_ranks(
        written(tmp_path, "user,rank\n7,2\n2,99\n5,0\n"), n_items=3706, n_negatives=99, zero_based=True
    )
    assert zero.n_above.tolist() == [99, 0, 2] and not zero.design.replacement


def test_aliases_and_whole_floats(tmp_path: Path) -> None:
    path = written(tmp_path, "userId,itemId,n_above,ties,m,Pool Size,replace\n1,4,2.0,1,9,50,no\n")
    ranks = read_sampled_ranks(path)
    assert (ranks.n_above[0], ranks.n_tied[0], ranks.n_negatives[0], ranks.n_pool[0]) == (2, 1, 9, 50)
    assert not ranks.design.replacement


def test_several_targets(tmp_path: Path) -> None:
    """rank counts the other target, as n_above does; rank 11 of 9 negatives is fine with one target above."""
    text = "user_id,item_id,rank,n_relevant,n_relevant_above\n1,4,1,2,0\n1,5,11,2,1\n"
    ranks = read_sampled_ranks(written(tmp_path, text), **FLAGS)
    assert ranks.n_above.tolist() == [0, 10] and ranks.n_candidates.tolist() == [48, 48]


FLAGS: dict[str, Any] = {"n_items": 50, "n_negatives": 9}


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        ("user_id,rank\n1,11\n", FLAGS, r"must be at most n_negatives \+ 1 = 10, got 11\. Check n_negatives"),
        ("user_id,rank,n_tied\n1,8,3\n", FLAGS, r"must be at most n_negatives \+ 1 = 10, got 11"),
        ("user_id,rank\n1,0\n2,4\n", FLAGS, r"rank of .* must be at least 1, got 0\..*zero_based=True"),
        ("user_id,rank\n1,-1\n2,4\n", FLAGS, r"rank of .* must be at least 1, got -1\. Correct"),
        ("user_id,n_above\n1,-1\n", FLAGS, "n_above of .* must be at least 0, got -1"),
        ("user_id,n_above,n_tied\n1,1,-1\n", FLAGS, "n_tied must be >= 0"),
        ("user_id,rank\n1,2\n2,1.5\n", FLAGS, r"rank of .* must be integers, but row 1 .* holds 1.5"),
        ("user_id,rank\n1,2\n2,\n", FLAGS, r"rank of .* must be integers, but row 1 .* holds None"),
        ("user_id,rank\n1,2\n2,NaN\n", FLAGS, r"rank of .* must be integers, but row 1 .* holds nan"),
        ("user_id,rank\n1,2\n2,first\n", FLAGS, r"rank of .* must be integers, but row 1 .* holds 'first'"),
        ("user_id,rank\n1,2\n,3\n", FLAGS, "user_id of .* must have no gaps"),
        ("user_id,rank\n1,2\n", {"n_negatives": 9}, r"must say N.*column n_items\. Or give n_items=N\."),
        ("user_id,rank\n1,2\n", {"n_items": 9}, r"must say m.*column n_negatives\. Or give n_negatives=m\."),
        ("user_id,rank,m\n1,2,9\n2,2,8\n", FLAGS, r"n_negatives of .* must be 9 as given.*got 8"),
        ("user_id,rank\n1,2\n", {**FLAGS, "n_items": 9}, r"n_negatives must be at most the candidates"),
        (
            "user_id,rank,replacement\n1,2,true\n2,3,false\n",
            FLAGS,
            "must have been sampled in one way, but replacement is both false and true. Split the file",
        ),
        ("user_id,rank,law\n1,2,uniform\n2,3,popularity\n", FLAGS, "law is both popularity and uniform"),
        (
            "user_id,rank,law\n1,2,zipf\n",
            FLAGS,
            "law of .* must be uniform, popularity, weighted or given, got 'zipf'",
        ),
        (
            "user_id,rank,replacement\n1,2,maybe\n",
            FLAGS,
            "replacement of .* must be true or false, got 'maybe'",
        ),
        (
            "user_id,rank,replacement\n1,2,true\n",
            {**FLAGS, "replacement": False},
            "replacement of .* must be false as given, got true. Leave replacement out.",
        ),
        ("user_id,rank,n_above\n1,2,2\n", FLAGS, r"rank of .* must be n_above \+ 1, but row 0"),
        ("user_id,n_tied\n1,2\n", FLAGS, "must have a column rank or n_above"),
        ("rank\n1\n", FLAGS, "must have a column user_id, found rank"),
        ("user_id,rank,colour\n1,2,red\n", FLAGS, "known columns only, got 'colour'.*Rename or remove it"),
        ("user_id,uid,rank\n1,1,2\n", FLAGS, "'user_id' and 'uid' both are user_id. Remove one"),
        ("user_id,rank\n1,2\n1,3\n", FLAGS, "users with several targets how many of these score above"),
        (
            "user_id,item_id,rank,n_relevant,n_relevant_above\n1,4,2,2,0\n1,4,3,2,1\n",
            FLAGS,
            "one row per user and item, but some are repeated",
        ),
        ("user_id,rank\n", FLAGS, "must have at least one row, but it is empty"),
        ("", FLAGS, "must be a complete table"),
    ],
)
def test_bad_tables(text: str, flags: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=message):
        read_sampled_ranks(written(tmp_path, text), **flags)


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match="must be a file, but it is a folder"):
        read_sampled_ranks(tmp_path)
    with pytest.raises(InvalidData, match="must be an existing file, but there is none"):
        read_sampled_ranks(tmp_path / "no.csv")
    (tmp_path / "ranks.xlsx").write_bytes(b"PK")
    with pytest.raises(InvalidData, match=r"must end in \.csv, \.tsv, \.parquet, got '\.xlsx'"):
        read_sampled_ranks(tmp_path / "ranks.xlsx")


def test_truncated_parquet(tmp_path: Path) -> None:
    path = tmp_path / "ranks.parquet"
    pl.DataFrame({"user_id": [1, 2], "rank": [1, 2]}).write_parquet(path)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(
        InvalidData, match=r"must be a complete table, but it cannot be read .*\. Write or download it again"
    ) as caught:
        read_sampled_ranks(path, **FLAGS)
    assert "\n" not in str(caught.value)


def test_bad_output(tmp_path: Path) -> None:
    with pytest.raises(InvalidParameter, match=r"must be written to a file that ends in .csv.*got 'a.txt'"):
        write_sampled(tmp_path / "a.txt", some_ranks(), USERS, ITEMS)
    with pytest.raises(InvalidParameter, match="needs an existing folder"):
        write_sampled(tmp_path / "no" / "a.csv", some_ranks(), USERS, ITEMS)
    assert list(tmp_path.iterdir()) == []
