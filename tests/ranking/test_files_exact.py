"""Files of ranks over one list of users."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from truerank.core.errors import InvalidData
from truerank.core.interactions import Vocabulary
from truerank.core.ranks import Ranks, SampledRanks
from truerank.ranking.files import ranks_table, read_rank_files, write_sampled
from truerank.workflows.compare.compare import compare


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_exact_and_sampled_files(tmp_path: Path) -> None:
    """Rows in any order; a count of negatives makes ranks sampled ones; files give their names."""
    exact = write(tmp_path / "mine.csv", "user_id,rank,n_items\nbob,1,50\nann,7,50\n")
    sampled = write(tmp_path / "old.tsv", "user\trank\tn_items\tm\nann\t3\t50\t9\nbob\t2\t50\t9\n")
    found = read_rank_files([exact, sampled])
    assert list(found) == ["mine", "old"]
    one, other = found["mine"], found["old"]
    assert isinstance(one, Ranks) and isinstance(other, SampledRanks)
    assert one.user.tolist() == other.user.tolist() == [0, 1]
    assert (one.n_above.tolist(), other.n_above.tolist()) == ([6, 0], [2, 1])
    assert one.n_pool.tolist() == [50, 50] and other.n_negatives.tolist() == [9, 9]


def test_users_are_told_apart_by_their_ids(tmp_path: Path) -> None:
    first = write(tmp_path / "a.csv", "user_id,item_id,rank,n_items\n10,5,1,50\n30,6,7,50\n")
    second = write(tmp_path / "b.csv", "user_id,item_id,rank,n_items\n20,6,2,50\n30,6,1,50\n")
    found = read_rank_files([first, second])
    assert found["a"].user.tolist() == [0, 2] and found["b"].user.tolist() == [1, 2]
    assert found["a"].item.tolist() == [0, 1] and found["b"].item.tolist() == [1, 1]
    with pytest.raises(InvalidData, match="share 1 of 2 and 2"):
        compare(found)
    texts = write(tmp_path / "c.csv", "user_id,rank,n_items\nx,1,50\n30,7,50\n")
    mixed = read_rank_files([first, texts])
    assert set(mixed["a"].user.tolist()) & set(mixed["c"].user.tolist()) == {1}


def test_tables_that_truerank_wrote(tmp_path: Path) -> None:
    """``evaluate --ranks-out`` and ``sample --out`` of several models, read back as they were."""
    users, items = Vocabulary.of(["u", "v", "w"]), Vocabulary.of([4, 7])
    exact = {
        "ease": Ranks.single([3, 0, 5], n_pool=9, n_tied=np.array([1, 0, 2])),
        "pop": Ranks.single([1, 1, 1], n_pool=9),
    }
    ranks_table(exact, users, items).write_parquet(tmp_path / "exact.parquet")
    found = read_rank_files([tmp_path / "exact.parquet"])
    assert list(found) == ["ease", "pop"]
    for name, one in exact.items():
        for column in ("user", "item", "n_above", "n_tied", "n_pool", "n_relevant"):
            assert getattr(found[name], column).tolist() == getattr(one, column).tolist()
    sampled = {name: SampledRanks.single([0, 2, 1], n_negatives=4, n_pool=9) for name in ("ease", "knn")}
    write_sampled(tmp_path / "drawn.csv", sampled, users, items)
    both = read_rank_files([tmp_path / "exact.parquet", tmp_path / "drawn.csv"])
    assert list(both) == ["ease", "pop", "drawn:ease", "knn"]
    assert isinstance(both["drawn:ease"], SampledRanks)
    assert both["drawn:ease"].user.tolist() == both["ease"].user.tolist()


def test_several_targets_per_user(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "user_id": ["a", "a", "b"],
            "item_id": [2, 1, 1],
            "rank": [4, 1, 2],
            "n_items": [9, 9, 9],
            "n_relevant_above": [1, 0, 0],
        }
    )
    frame.write_csv(tmp_path / "x.csv")
    ranks = read_rank_files([tmp_path / "x.csv"])["x"]
    assert ranks.n_relevant.tolist() == [2, 2, 1] and ranks.n_above.tolist() == [0, 3, 1]
    frame.drop("n_relevant_above").write_csv(tmp_path / "y.csv")
    with pytest.raises(InvalidData, match="how many of these score above each"):
        read_rank_files([tmp_path / "y.csv"])


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        ("user_id,rank\na,1\n", {}, "must say N, the items in the pool, in a column n_items"),
        ("user_id,rank\na,60\n", {"n_items": 50}, "n_above \\+ n_tied must be smaller than n_pool"),
        ("user_id,rank\na,0\n", {"n_items": 50}, "If the best rank is 0 in this file"),
        ("user_id,rank\n,1\n", {"n_items": 50}, "must have no gaps"),
        ("user_id,place\na,1\n", {"n_items": 50}, "must have known columns only, got 'place'"),
        ("user_id,rank\na,9\n", {"n_items": 50, "n_negatives": 5}, "at most n_negatives"),
    ],
)
def test_bad_files(tmp_path: Path, text: str, options: dict[str, int], sentence: str) -> None:
    with pytest.raises(InvalidData, match=sentence):
        read_rank_files([write(tmp_path / "x.csv", text)], **options)  # type: ignore[arg-type]


def test_names_must_differ(tmp_path: Path) -> None:
    text = "user_id,rank,n_items\na,1,50\n"
    paths = [tmp_path / folder / "x.csv" for folder in "pqr"]
    for path in paths:
        path.parent.mkdir()
        write(path, text)
    assert list(read_rank_files(paths[:2])) == ["x", "x.csv"]
    with pytest.raises(InvalidData, match="names of models must be unique, but 'x'"):
        read_rank_files(paths)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_gains_are_kept(tmp_path: Path, suffix: str) -> None:
    """Exact and sampled tables with grades are read back with them, and read without them from others."""
    users, items = Vocabulary.of(["u", "v"]), Vocabulary.of([4])
    exact = replace(Ranks.single([3, 0], n_pool=9), gain=np.array([2.0, 0.5]))
    sampled = replace(SampledRanks.single([3, 0], n_negatives=4, n_pool=9), gain=np.array([1.0, 4.0]))
    frame = ranks_table({"ease": exact}, users, items)
    frame.write_csv(tmp_path / "e.csv") if suffix == "csv" else frame.write_parquet(tmp_path / "e.parquet")
    write_sampled(tmp_path / f"s.{suffix}", sampled, users, items)
    found = read_rank_files([tmp_path / f"e.{suffix}", tmp_path / f"s.{suffix}"])
    assert [found[name].columns()["gain"].tolist() for name in ("ease", "s")] == [[2.0, 0.5], [1.0, 4.0]]


@pytest.mark.parametrize(
    ("gain", "sentence"), [("x", "gain of .* must be one number per row"), ("0", "must be above 0, but row")]
)
def test_a_table_with_impossible_gains(tmp_path: Path, gain: str, sentence: str) -> None:
    for name, more in (("exact", ""), ("sampled", ",9")):
        header = "user_id,rank,n_items,gain" + (",m" if more else "")
        path = write(tmp_path / f"{name}.csv", f"{header}\nann,1,50,{gain}{more}\nbob,2,50,1{more}\n")
        with pytest.raises(InvalidData, match=sentence):
            read_rank_files([path])
