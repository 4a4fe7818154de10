"""``truerank sample``, ``estimate`` and ``evaluate --negatives``."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from tests.cli.conftest import Truerank

TINY = "user_id,rank\na,1\nb,4\nc,1\nd,8\n"


@pytest.fixture
def ranks(tmp_path: Path) -> Path:
    path = tmp_path / "ranks.csv"
    path.write_text(TINY)
    return path


def test_estimate_from_a_table_of_ranks(truerank: Truerank, ranks: Path) -> None:
    done = truerank(
        *("estimate", ranks, "--n-items", "1000", "--negatives", "9", "--metrics", "recall@3,mrr"),
        *("--estimator", "naive", "--estimator", "rank-estimate", "--format", "json"),
    )
    assert done.code == 0
    found = {(e["metric"], e["estimator"]): e for e in json.loads(done.out)["estimates"]}
    assert found["recall@3", "naive"]["value"] == pytest.approx(1 / 2)
    # r = 4 of 9 negatives: rank floor(1 + 999 * 3 / 9) = 334; r = 8: floor(1 + 999 * 7 / 9) = 778
    assert found["mrr", "rank-estimate"]["value"] == pytest.approx((1 + 1 / 334 + 1 + 1 / 778) / 4)
    assert found["mrr", "naive"]["kind"] == "estimate"
    assert found["mrr", "naive"]["n_negatives"] == 9
    assert "4 users, 4 targets; pools of 1,000 to 1,000 items" in done.err.replace("\n", " ")


@pytest.mark.slow
def test_estimate_table_and_files(truerank: Truerank, ranks: Path, tmp_path: Path) -> None:
    out, report = tmp_path / "r.json", tmp_path / "r.html"
    flags = ("--n-items", "1000", "--negatives", "9", "--replacement", "true")
    done = truerank("estimate", ranks, *flags, "--out", out, "--report", report)
    assert done.code == 0
    assert done.out.splitlines()[0].split() == ["model", "estimator", "ndcg@10", "recall@10"]
    assert [line.split()[1] for line in done.out.splitlines()[1:]] == ["smooth", "bounds"]
    assert "the range of values that the sampled ranks allow, at 95 % confidence" in done.err
    assert "K = 10 is below what this sample can resolve: any recall@10 from" in done.err
    assert json.loads(out.read_text())["data"]["replacement"] is True
    assert "ranks.csv" in report.read_text()


@pytest.mark.slow
def test_posterior_intervals_are_explained_below_the_table(truerank: Truerank, tmp_path: Path) -> None:
    """What they hold, where the prior decides, why `naive` lies outside; JSON has the names."""
    path = tmp_path / "run.csv"
    path.write_text("user_id,rank\n" + "".join(f"u{i},{int(99 * (i / 200) ** 3) + 1}\n" for i in range(200)))
    flags = ("--n-items", "1000", "--negatives", "99", "--uncertainty", "posterior", "--no-bounds")
    names = ("--estimator", "naive", "--estimator", "smooth", "--metrics", "recall@10")
    done = truerank("estimate", path, *flags, *names)
    assert [line for line in done.err.splitlines() if "posterior" in line] == [
        "Estimates with 95 % intervals for all test users, by method: posterior (naive, smooth).",
        "A posterior interval holds the exact value for about 95 % of models like those its prior was learnt "
        "from. Below rank 10 the prior decides how targets are spread, not the sample. Values of naive lie "
        "outside: the interval is of the metric among all items, whatever the estimator.",
    ]
    methods = {
        e["method"]
        for e in json.loads(truerank("estimate", path, *flags, "--format", "json").out)["estimates"]
    }
    assert methods == {"posterior; below rank 10 the prior decides"}
    few = tmp_path / "few.csv"
    few.write_text("user_id,rank\n" + "".join(f"u{i},{i + 1}\n" for i in range(20)))
    said = truerank("estimate", few, *flags, *names).err
    reason = "identification bounds: there is no posterior with fewer than 50 users (naive, smooth)."
    assert f"by method: {reason}" in said


@pytest.mark.slow
def test_sample_then_estimate_equals_evaluate(truerank: Truerank, tmp_path: Path) -> None:
    """The two-step way through a file gives the digits of the one-step way."""
    table = tmp_path / "s.parquet"
    common = ("--model", "popularity", "--seed", "5")
    done = truerank("sample", "demo", *common, "--sampler", "uniform(m=50)", "--out", table)
    assert done.code == 0
    assert f"{2500 * 51:,} scores computed" in done.err.replace("\n", " ")
    assert pl.read_parquet(table)["n_negatives"].unique().to_list() == [50]
    metrics = ("--metrics", "ndcg@10,auc", "--estimator", "bv(gamma=0.01)", "--format", "json")
    first = json.loads(truerank("estimate", table, *metrics).out)["estimates"]
    second = json.loads(truerank("evaluate", "demo", *common, "--negatives", "50", *metrics).out)["estimates"]
    assert [e["value"] for e in first] == pytest.approx([e["value"] for e in second], abs=1e-15)


@pytest.mark.slow
def test_evaluate_with_check(truerank: Truerank) -> None:
    done = truerank(
        *("evaluate", "demo", "--model", "popularity", "--negatives", "99", "--estimator", "naive"),
        *("--check", "--metrics", "auc", "--format", "csv"),
    )
    lines = [line.split(",") for line in done.out.splitlines()[1:]]
    kinds = [next(cell for cell in line if cell in ("estimate", "exact", "bound")) for line in lines]
    assert kinds == ["estimate", "exact", "bound"]


@pytest.mark.slow
def test_no_bounds(truerank: Truerank, ranks: Path) -> None:
    flags = ("--n-items", "1000", "--negatives", "9", "--replacement", "true", "--no-bounds")
    done = truerank("estimate", ranks, *flags, "--format", "json")
    assert json.loads(done.out)["bounds"] == []
    assert "cannot resolve" not in done.err


@pytest.mark.slow
def test_a_table_of_all_items_has_exact_values(truerank: Truerank, ranks: Path) -> None:
    for n_items, is_exact in (("10", True), ("11", False)):
        flags = ("--n-items", n_items, "--negatives", "9", "--replacement", "false", "--metrics", "auc")
        done = truerank("estimate", ranks, *flags, "--format", "json")
        (found,) = json.loads(done.out)["estimates"]
        assert found["estimator"] == "smooth"
        assert (found["low"] == found["value"] == found["high"]) is (found["method"] == "exact") is is_exact


@pytest.mark.slow
def test_some_users(truerank: Truerank, tmp_path: Path) -> None:
    """A table of some users knows of how many they are, and intervals for all test users make use of it."""
    table = tmp_path / "s.csv"
    sampled = ("sample", "demo", "--model", "popularity", "--users", "0.1", "--out", table)
    assert truerank(*sampled).code == 0
    assert pl.read_csv(table)["n_test_users"].unique().to_list() == [2500]
    flags = ("--metrics", "auc", "--estimator", "naive", "--format", "json", "--no-bounds")
    found = {
        target: json.loads(truerank("estimate", table, *flags, "--target", target).out)["estimates"][0]
        for target in ("test-users", "population")
    }
    assert found["test-users"]["n_users"] == 250
    widths = {target: one["high"] - one["low"] for target, one in found.items()}
    assert 0 < widths["test-users"] < widths["population"]
    assert found["test-users"]["target"] == "test-users"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--users", "3000"), "users must be at most the 2,500 users that have targets, got 3,000"),
        (("--users", "0"), "users must be an integer >= 1 or a fraction between 0 and 1"),
        (("--target", "me"), "target must be one of test-users, population"),
        (("--uncertainty", "gut"), "unknown uncertainty 'gut'. Did you mean 'auto'?"),
    ],
)
def test_wrong_ways_to_be_certain(truerank: Truerank, flags: tuple[str, ...], sentence: str) -> None:
    done = truerank("evaluate", "demo", "--model", "popularity", "--negatives", "20", *flags)
    assert done.code == 2
    assert sentence in done.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("content", "flags", "sentence"),
    [
        (TINY, ("--negatives", "9"), "--n-items|n_items"),
        (TINY, ("--n-items", "100"), "--negatives|n_negatives"),
        (TINY, ("--n-items", "100", "--negatives", "5"), "at most n_negatives"),
        ("user_id,rank\na,0\n", ("--n-items", "100", "--negatives", "5"), "zero"),
        ("user_id,rank\na,1.5\n", ("--n-items", "100", "--negatives", "5"), "1.5|integer"),
        ("user_id,rank\na,\n", ("--n-items", "100", "--negatives", "5"), "rank"),
        ("", ("--n-items", "100", "--negatives", "5"), "empty"),
        ("who,place\na,1\n", ("--n-items", "100", "--negatives", "5"), "user"),
        (
            TINY,
            ("--n-items", "9", "--negatives", "9", "--replacement", "false"),
            "without replacement|candidates",
        ),
        (
            "user_id,rank,replacement\na,1,true\nb,1,false\n",
            ("--n-items", "100", "--negatives", "5"),
            "replacement",
        ),
        (TINY, ("--n-items", "100", "--negatives", "9", "--estimator", "bw"), "Did you mean 'bv'"),
        (
            TINY,
            ("--n-items", "100", "--negatives", "9", "--estimator", "bv(prior=file(path=nope.csv))"),
            "nope.csv",
        ),
        (TINY, ("--n-items", "100", "--negatives", "9", "--ties", "coin"), "ties must be one of"),
        (TINY, ("--n-items", "100", "--negatives", "9", "--metrics", "recall@500"), "500"),
    ],
)
def test_bad_tables(
    truerank: Truerank, tmp_path: Path, content: str, flags: tuple[str, ...], sentence: str
) -> None:
    import re

    path = tmp_path / "ranks.csv"
    path.write_text(content)
    done = truerank("estimate", path, *flags, "--out", tmp_path / "out.json")
    assert (done.code, done.out) == (2, ""), done.err
    assert re.search(sentence, done.err.replace("\n", " ")), done.err
    assert not (tmp_path / "out.json").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--negatives", "10", "--sampler", "uni100"), "either --negatives or --sampler"),
        (("--estimator", "bv"), "need sampled ranks"),
        (("--check",), "need sampled ranks"),
        (("--negatives", "100000"), "100000"),
        (("--negatives", "0"), "0"),
        (("--sampler", "unifrom"), "Did you mean 'uniform'"),
        (("--sampler", "popularity(m=9)", "--estimator", "bv"), "drawn uniformly"),
        (("--negatives", "10", "--ranks-out", "ranks.csv"), "--ranks-out writes exact ranks"),
    ],
)
def test_bad_sampling(truerank: Truerank, flags: tuple[str, ...], sentence: str) -> None:
    done = truerank("evaluate", "demo", "--model", "popularity", *flags)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err.replace("\n", " ")
