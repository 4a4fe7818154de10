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


def test_what_was_merged_and_shared_is_said(truerank: Truerank, retail: Path) -> None:
    done = truerank("evaluate", retail, *POPULARITY, "--drop-missing", "--format", "json")
    result = json.loads(done.out)
    assert result["data"]["duplicate_rows"] == 2435
    assert "863 of 8,173 rows have a missing value and were dropped.\n" in done.err
    assert (
        "2,435 of 8,173 rows repeat a pair of user and item and were merged into one event per pair.\n"
        in done.err
    )
    n_test, shared = result["data"]["n_test"], result["data"]["targets_at_train_times"]
    assert shared > 0.8 * n_test
    assert (
        f"{shared:,} of {n_test:,} held-out events ({100 * shared / n_test:.0f} %) have the time of"
        in done.err
    )
    assert "To evaluate buying again, use --duplicates keep and --seen keep.\n" in done.err
    for start in ("863 of", "2,435 of", f"{shared:,} of {n_test:,}"):
        assert done.err.count(start) == 1
        assert sum(note.startswith(start) for note in result["notes"]) == 1


@pytest.mark.parametrize(
    "rule", ["last-basket", "last-basket(session=InvoiceNo)", "last-basket(unit=day)", "last-days(test=30)"]
)
def test_whole_baskets(truerank: Truerank, retail: Path, rule: str) -> None:
    done = truerank("evaluate", retail, *POPULARITY, "--drop-missing", "--split", rule, "--format", "json")
    assert json.loads(done.out)["data"]["targets_at_train_times"] == 0
    assert "same basket" not in done.err


def test_buying_again(truerank: Truerank, retail: Path) -> None:
    keep = ("--drop-missing", "--split", "last-basket", "--duplicates", "keep")
    refused = truerank("evaluate", retail, *POPULARITY, *keep)
    assert refused.code == 2
    assert "To evaluate buying again, use --seen keep; else leave them out, or merge repeated" in refused.err
    done = truerank("evaluate", retail, *POPULARITY, *keep, "--seen", "keep", "--format", "json")
    counts = json.loads(done.out)["data"]
    assert counts["targets_in_train"] > 100
    assert f"{counts['targets_in_train']:,} of {counts['n_test']:,} held-out events" in done.err
    assert "buying again is evaluated." in done.err


def test_a_test_file_with_known_pairs(truerank: Truerank, tiny: Path, tmp_path: Path) -> None:
    test = tmp_path / "test.csv"
    test.write_text("user_id,item_id\nann,x\nann,x\nbob,y\n")
    refused = truerank("evaluate", tiny, "--test", test, *POPULARITY, "--metrics", "mrr")
    assert (
        refused.code == 2
        and "1 of 2 held-out events are of items that the user has train events" in refused.err
    )
    done = truerank(
        "evaluate",
        tiny,
        "--test",
        test,
        *POPULARITY,
        "--metrics",
        "mrr",
        "--seen",
        "keep",
        "--format",
        "json",
    )
    counts = json.loads(done.out)["data"]
    assert (counts["targets_in_train"], counts["test_duplicate_rows"]) == (1, 1)
    assert f"{test}: 1 of 3 rows repeat a pair" in done.err


def test_other_commands_say_it_too(truerank: Truerank, retail: Path, tmp_path: Path) -> None:
    """Once each; a comparison keeps the sentences in its notes."""
    merged = "2,435 of 8,173 rows repeat a pair of user and item and were merged into one event per pair."
    compared = truerank(
        "compare", "--data", retail, "--drop-missing", "--model", "popularity", "--model", "item-knn",
        "--metrics", "recall@10", "--resamples", "1000", "--format", "json",
    )  # fmt: skip
    assert compared.code == 0 and compared.err.count(merged) == 1
    assert merged in json.loads(compared.out)["notes"]
    small = truerank(
        "subsample",
        retail,
        "--drop-missing",
        "--strategy",
        "random",
        "--fraction",
        "0.5",
        "--out",
        tmp_path / "s.csv",
    )
    assert small.code == 0 and small.err.count(merged) == 1
