"""Commands on the data of a shop: dates, missing customers, baskets, and products that are bought again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Truerank
from tests.retail import write_retail

POPULARITY = ("--model", "popularity", "--metrics", "recall@10", "--interval", "normal")


@pytest.fixture(scope="module")
def retail(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_retail(tmp_path_factory.mktemp("shop") / "retail.csv")


def test_missing_customers(truerank: Truerank, retail: Path) -> None:
    refused = truerank("evaluate", retail, *POPULARITY)
    assert refused.code == 2
    assert refused.err.endswith("first in row 44. Fill these rows, or leave them out with --drop-missing.\n")
    done = truerank("evaluate", retail, *POPULARITY, "--drop-missing", "--format", "json")
    counts = json.loads(done.out)["data"]
    assert (counts["rows_read"], counts["missing_rows"]) == (8173, 863)
    assert f"times of '{retail}': month/day/year, from 2010-12-01 to 2011-10-12" in done.err


def test_ambiguous_dates(truerank: Truerank, tmp_path: Path) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user,item,date\n1,2,01/02/2011 8:00\n1,3,03/04/2011 9:00\n")
    refused = truerank("evaluate", path, *POPULARITY)
    assert refused.code == 2
    assert (
        "'01/02/2011 8:00' may have the day or the month first, and no other value decides it. "
        in refused.err
    )
    assert (
        "Say how they are written, such as --time-format '%d/%m/%Y %H:%M' or --time-format %m/%d/%Y"
        in refused.err
    )
    given = ("--time-format", "%d/%m/%Y %H:%M", "--metrics", "recall@1")
    assert truerank("evaluate", path, *POPULARITY, *given).code == 0


@pytest.mark.parametrize("split", ["leave-one-out", "ratio(test=0.5, valid=0)"])
def test_times_that_the_split_does_not_need(truerank: Truerank, tmp_path: Path, split: str) -> None:
    path = tmp_path / "events.csv"
    path.write_text("user,item,date\n1,2,noon\n1,3,night\n2,2,noon\n2,3,noon\n")
    assert truerank("evaluate", path, *POPULARITY).code == 2
    done = truerank("evaluate", path, *POPULARITY, "--metrics", "recall@1", "--split", split)
    assert done.code == 0
    assert "in column 'date' cannot be read and are left out: nothing needs them here" in done.err


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "--data"), ("sample",), ("study",), ("plan",), ("fit",), ("subsample",), ("agreement",),
    ],
)  # fmt: skip
def test_every_command_can_be_told(truerank: Truerank, command: tuple[str, ...]) -> None:
    shown = truerank(command[0], "--help").out
    assert "--time-format" in shown and "--drop-missing" in shown
