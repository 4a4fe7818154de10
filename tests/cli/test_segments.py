"""``--by`` shows metrics by groups, in every format, or says in one sentence why it cannot."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from tests.cli.conftest import Truerank

EVALUATE = ("evaluate", "demo", "--model", "popularity", "--metrics", "recall@10")


@pytest.mark.slow
def test_tables_follow_the_one_of_all_users(truerank: Truerank, tmp_path: Path) -> None:
    users = tmp_path / "users.csv"
    users.write_text("user_id,country\n" + "".join(f"{n},{'de' if n % 2 else 'fr'}\n" for n in range(2000)))
    column = f"column(path={users}, name=country)"
    run = truerank(*EVALUATE, "--by", "popularity", "--by", column, "--out", tmp_path / "out.json")
    assert run.code == 0
    whole, popularity, country = run.out.split("\n\nBy ")
    assert whole.splitlines()[0].split() == ["model", "recall@10"]
    assert popularity.startswith("popularity. Targets by the train events of the item")
    assert country.startswith(column)
    assert [line.split("  ")[0] for line in country.splitlines()[3:6]] == ["de", "fr", "no value"]
    entries = json.loads((tmp_path / "out.json").read_text())["segments"]
    assert [entry["by"] for entry in entries] == ["popularity", column]
    assert [group["n_users"] for group in entries[1]["groups"]] == [1000, 1000, 500]


@pytest.mark.slow
def test_csv_has_groups_in_columns(truerank: Truerank) -> None:
    run = truerank(*EVALUATE, "--by", "new-items", "--interval", "normal", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(run.out)))
    assert [(row["by"], row["group"], row["n_users"]) for row in rows] == [
        ("", "", "2500"),
        ("new-items", "known", "2494"),
        ("new-items", "new", "6"),
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--by", "histroy"), "unknown grouping 'histroy'. Did you mean 'history'?"),
        (("--by", "column(path=nix.csv, name=a)"), "there is no file 'nix.csv'."),
        (("--by", "history", "--precision", "0.1"), "Leave out --by, or leave out --precision."),
    ],
)
def test_bad_groupings(truerank: Truerank, arguments: tuple[str, ...], message: str) -> None:
    run = truerank(*EVALUATE, *arguments)
    assert (run.code, run.out) == (2, "")
    assert message in " ".join(run.err.split())


def ranks_file(path: Path, shift: int) -> Path:
    rows = "".join(f"{n},{1 + (n * shift) % 40},99,1000\n" for n in range(200))
    path.write_text(f"user_id,rank,n_negatives,n_items\n{rows}")
    return path


def test_tables_of_ranks_by_a_file(truerank: Truerank, tmp_path: Path) -> None:
    """Sampled ranks of another framework know who their users are, and a file says where these live."""
    users = tmp_path / "users.csv"
    users.write_text("user_id,country\n" + "".join(f"{n},{'de' if n % 2 else 'fr'}\n" for n in range(199)))
    column = f"column(path={users}, name=country)"
    a, b = ranks_file(tmp_path / "a.csv", 7), ranks_file(tmp_path / "b.csv", 11)
    shared = ("--metrics", "recall@10", "--estimator", "bv", "--no-bounds", "--by", column)
    estimated = truerank("estimate", a, *shared, "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(estimated.out)))
    assert [(row["group"], row["n_users"]) for row in rows] == [
        ("", "200"),
        ("de", "99"),
        ("fr", "100"),
        ("no value", "1"),
    ]
    compared = truerank("compare", a, b, *shared, "--no-posterior", "--resamples", "400", "--format", "csv")
    assert [row["group"] for row in csv.DictReader(io.StringIO(compared.out))] == ["", "de", "fr", "no value"]
    shown = truerank("compare", a, b, *shared, "--no-posterior", "--resamples", "400")
    assert f"By {column}. Users by the column 'country'" in shown.out
    assert "Fewer than 50 users, so that intervals are not reliable: no value (1)." in shown.out


def test_tables_of_ranks_have_no_train_events(truerank: Truerank, tmp_path: Path) -> None:
    a = ranks_file(tmp_path / "a.csv", 7)
    for command in (("estimate", a), ("compare", a, ranks_file(tmp_path / "b.csv", 11))):
        run = truerank(*command, "--by", "history")
        assert (run.code, run.out) == (2, "")
        assert "--by needs train events for history, and a table of ranks has none." in " ".join(
            run.err.split()
        )


def test_results_bring_their_groups(truerank: Truerank) -> None:
    run = truerank("compare", "old.json", "new.json", "--by", "history")
    assert (run.code, run.out) == (2, "")
    assert "--by has no meaning with results" in " ".join(run.err.split())


@pytest.mark.slow
def test_changes_within_groups(truerank: Truerank, tmp_path: Path) -> None:
    for seed, name in enumerate(("old.json", "new.json")):
        run = truerank(
            *EVALUATE,
            "--by",
            "history(cuts=20:60)",
            "--users",
            "900",
            "--seed",
            str(seed),
            "--out",
            tmp_path / name,
        )
        assert run.code == 0
    run = truerank("compare", tmp_path / "old.json", tmp_path / "new.json")
    assert run.code == 0
    assert "\n\nBy history(cuts='20:60'). Users by" in run.out
    assert [line.split("  ")[0] for line in run.out.splitlines()[-3:]] == [
        "below 20",
        "20 to 59",
        "60 and more",
    ]
