"""``truerank plan``."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Truerank


@pytest.fixture
def pilot(tmp_path: Path) -> Path:
    table = tmp_path / "ranks.csv"
    ranks = np.minimum(np.random.default_rng(1).geometric(0.2, 200), 31)
    rows = "".join(f"u{user},{rank},30,201\n" for user, rank in enumerate(ranks))
    table.write_text("user_id,rank,n_negatives,n_items\n" + rows)
    return table


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "events.csv"
    rng = np.random.default_rng(2)
    pairs = [(user, item) for user in range(80) for item in rng.permutation(60)[:6]]
    rows = "".join(f"{user},{item},{time}\n" for time, (user, item) in enumerate(pairs))
    path.write_text("user_id,item_id,timestamp\n" + rows)
    return path


def test_plan_from_a_table(truerank: Truerank, pilot: Path) -> None:
    flags = ("--metrics", "recall@20", "--half-width", "0.05", "--budget", "5000")
    done = truerank("plan", "--pilot", pilot, *flags, "--format", "json")
    assert done.code == 0, done.err
    (found,) = json.loads(done.out)["plans"].values()
    assert found["n_users"] == 200
    assert found["needs"][0]["metric"] == "recall@20"
    assert found["divisions"][0]["budget"] == 5000
    assert found["costs"] is None
    assert found["recommendation"].startswith("Rank all items for ")
    words = done.err.replace("\n", " ")
    assert words.startswith(f"ranks.csv: {found['recommendation']}")
    assert "The smallest difference between two models that 200 users" in words
    assert "With 5,000 scores for recall@20" in words
    table = truerank("plan", "--pilot", pilot, *flags)
    assert table.out.splitlines()[0].split() == ["metric", "way", "scores", "gives"]
    assert "only users" in table.out
    assert max(map(len, table.out.splitlines())) <= 80
    csv = truerank("plan", "--pilot", pilot, *flags, "--format", "csv")
    assert len(csv.out.splitlines()) == 2


def test_plan_takes_a_pilot_itself_and_measures(truerank: Truerank, data: Path) -> None:
    done = truerank(
        *("plan", data, "--model", "popularity", "--metrics", "recall@20", "--half-width", "0.05"),
        *("--sampler", "uniform(m=20)"),
        *("--target", "population", "--format", "json", "--seen", "keep"),
    )
    assert done.code == 0, done.err
    found = json.loads(done.out)["plans"]["popularity"]
    assert found["target"] == "population"
    assert found["costs"]["exact_user"] > 0
    assert "popularity: Rank all items for all 80 users" in done.err
    assert f"  truerank evaluate {data} --model popularity --metrics recall@20 --seen keep\n" in done.err


def test_two_models_are_told_apart(truerank: Truerank, pilot: Path) -> None:
    """How many users tell A from B, and a difference that was asked for."""
    first, second = pilot.with_name("a.csv"), pilot.read_text().splitlines()
    worse = [line.replace(",1,30,", ",31,30,") for line in second[1:]]
    first.write_text(
        "\n".join(
            ["model," + second[0], *(f"a,{line}" for line in second[1:]), *(f"b,{line}" for line in worse)]
        )
    )
    flags = ("--metrics", "recall@20", "--half-width", "0.05", "--difference", "0.1", "--estimator", "bv")
    done = truerank("plan", "--pilot", first, *flags, "--format", "json")
    assert done.code == 0, done.err
    (pair,) = json.loads(done.out)["pairs"]
    assert (pair["first"], pair["second"]) == ("a", "b") and pair["difference"] > 0 and pair["users"] > 0
    words = done.err.replace("\n", " ")
    assert pair["sentence"] in words
    assert "A difference of 0.1 takes about" in words


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ((), "a plan needs a pilot"),
        (("demo",), "a plan needs a pilot"),
        (("demo", "--model", "popularity", "--pilot", "x.csv"), "either --pilot or DATA"),
        (("demo", "--model", "popularty"), "Did you mean 'popularity'"),
        (("--pilot", "nowhere.csv"), "nowhere.csv"),
    ],
)
def test_bad_plans(truerank: Truerank, flags: tuple[str, ...], sentence: str) -> None:
    done = truerank("plan", *flags)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err.replace("\n", " ")


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--half-width", "0"), "--half-width must be greater than 0"),
        (("--target", "users"), "target must be one of"),
        (("--metrics", "recal"), "Did you mean 'recall'"),
        (("--budget", "1"), "budget must be at least 2"),
        (("--difference", "0"), "--difference must be greater than 0"),
    ],
)
def test_bad_flags(truerank: Truerank, pilot: Path, flags: tuple[str, ...], sentence: str) -> None:
    done = truerank("plan", "--pilot", pilot, *flags)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err.replace("\n", " ")


def test_scale_needs_no_pilot(truerank: Truerank) -> None:
    done = truerank("plan", "--scale", "1e8x1e7x64", "--workers", "100", "--format", "json")
    assert done.code == 0, done.err
    exact, few, many = json.loads(done.out)["costs"]
    assert (exact["users"], exact["items"], exact["negatives"]) == (10**8, 10**7, None)
    assert (few["negatives"], many["negatives"]) == (99, 999)
    assert exact["seconds"] > 100 * many["seconds"] > 100 * few["seconds"] > 0
    alone = json.loads(truerank("plan", "--scale", "1e8x1e7x64", "--format", "json").out)["costs"][0]
    assert 90 < alone["seconds"] / exact["seconds"] <= 100
    table = truerank("plan", "--scale", "1e8x1e7", "--workers", "100").out.splitlines()
    assert table[0].split()[:2] == ["ranks", "workers"] and table[1].split()[0] == "exact"


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--scale", "many"), "--scale must be USERSxITEMS or USERSxITEMSxDIMENSIONS, got 'many'"),
        (("--scale", "10x0"), "--scale must be USERSxITEMS"),
        (("--scale", "10x10", "--workers", "0"), "workers must be at least 1"),
        (("demo", "--scale", "10x10"), "--scale takes no pilot"),
    ],
)
def test_wrong_scales(truerank: Truerank, flags: tuple[str, ...], sentence: str) -> None:
    done = truerank("plan", *flags)
    assert done.code == 2
    assert sentence in done.err.replace("\n", " ")
