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
