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
    (found,) = json.loads(done.out).values()
    assert found["n_users"] == 200
    assert found["needs"][0]["metric"] == "recall@20"
    assert found["divisions"][0]["budget"] == 5000
    assert found["costs"] is None
    words = done.err.replace("\n", " ")
    assert "for the bounds, whatever they are" in words
    assert "5,000 scores for recall@20 (test-users)" in words
    table = truerank("plan", "--pilot", pilot, *flags)
    assert table.out.splitlines()[0].split()[:3] == ["model", "metric", "about"]
    assert "exact gains instead" in table.out
    csv = truerank("plan", "--pilot", pilot, *flags, "--format", "csv")
    assert len(csv.out.splitlines()) == 2


def test_plan_takes_a_pilot_itself_and_measures(truerank: Truerank, data: Path) -> None:
    done = truerank(
        *("plan", data, "--model", "popularity", "--metrics", "recall@20", "--half-width", "0.05"),
        *("--sampler", "uniform(m=20)"),
        *("--target", "population", "--format", "json"),
    )
    assert done.code == 0, done.err
    found = json.loads(done.out)["popularity"]
    assert found["target"] == "population"
    assert found["costs"]["exact_user"] > 0
    assert "is cheaper" in done.err


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
        (("--half-width", "0"), "half_width must be greater than 0"),
        (("--target", "users"), "target must be one of"),
        (("--metrics", "recal"), "Did you mean 'recall'"),
        (("--budget", "1"), "budget must be at least 2"),
    ],
)
def test_bad_flags(truerank: Truerank, pilot: Path, flags: tuple[str, ...], sentence: str) -> None:
    done = truerank("plan", "--pilot", pilot, *flags)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.err.replace("\n", " ")
