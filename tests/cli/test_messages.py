"""Messages of commands name options, not the arguments of the Python functions behind them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Truerank
from truerank.cli.main import COMMANDS, whole_command
from truerank.cli.messages import PARAMETERS, name_options, option_names

EVALUATE = ("evaluate", "demo", "--model", "popularity")
COMPARE = ("compare", "--data", "demo", "--model", "popularity", "--model", "ease")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((*EVALUATE, "--precision", "0.7"), "--precision "),
        ((*EVALUATE, "--precision", "0.01", "--budget", "1"), "--budget must allow a first round"),
        ((*EVALUATE, "--threads", "0"), "--threads must be at least 1, got 0."),
        ((*EVALUATE, "--users", "0"), "--users must be an integer >= 1"),
        ((*EVALUATE, "--ties", "even"), "--ties must be one of expected, best, worst, random, got 'even'."),
        ((*EVALUATE, "--estimator", "mle"), "--estimator, --bounds and --check "),
        ((*EVALUATE, "--negatives", "9", "--estimator", "mn(users=0)"), "mn(users=0): users must be"),
        ((*COMPARE, "--margin", "3"), "--margin must lie between 0 and 1, got 3.0."),
        ((*COMPARE, "--no-bounds", "--shape", "decreasing"), "got --shape decreasing with --no-bounds."),
        (("plan", "demo", "--model", "popularity", "--level", "2"), "--level must lie between 0 and 1"),
        (("agreement", "demo", "--threshold", "2"), "--threshold must be"),
        (("subsample", "demo", "--strategy", "random", "--fraction", "2", "--out", "a.csv"), "--fraction "),
        (("paper", "run", "r19.table1", "--repeats", "0", "--fresh"), "--repeats must be"),
    ],
)
def test_messages_name_options(truerank: Truerank, arguments: tuple[str, ...], message: str) -> None:
    done = truerank(*arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err


@pytest.mark.slow
def test_a_study_names_its_own_option(truerank: Truerank) -> None:
    """In Python the argument is ``families``; of the command it is ``--metrics``."""
    study = ("study", "demo", "--model", "popularity", "--estimator", "naive")
    assert "truerank: --metrics must be" in truerank(*study, "--metrics", "ndcg@10").err
    assert "truerank: --cutoffs must" in truerank(*study, "--cutoffs", "100000").err


def test_a_run_without_a_pool(truerank: Truerank, tmp_path: Path) -> None:
    run, qrels = tmp_path / "a.run", tmp_path / "a.qrels"
    run.write_text("q1 Q0 a 1 9 t\n")
    qrels.write_text("q1 0 a 1\n")
    assert "Give --n-pool." in truerank("trec", run, qrels, "--metrics", "auc").err


def test_messages_about_data_name_options(truerank: Truerank, tmp_path: Path) -> None:
    ranks, events = tmp_path / "ranks.csv", tmp_path / "events.csv"
    ranks.write_text("user_id,rank\n1,0\n")
    events.write_text("user,user_id,item\n1,2,3\n")
    assert "Or give --n-items N." in truerank("estimate", ranks, "--negatives", "9").err
    assert "set --zero-based." in truerank("estimate", ranks, "--negatives", "9", "--n-items", "20").err
    done = truerank("evaluate", events, "--model", "popularity")
    assert "Choose with --columns user=user." in done.err


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("users and n_threads must be positive.", "--users and --threads must be positive."),
        ("Leave out users, or leave seen out.", "Leave out --users, or leave --seen out."),
        (
            "Name it with columns={'user': 'my id', 'item': ID}.",
            "Name it with --columns user='my id',item=ID.",
        ),
        (
            "a user has no item (see users). Use seen=keep.",
            "a user has no item (see users). Use --seen keep.",
        ),
        ("the users must differ, got 'n_threads'.", "the users must differ, got 'n_threads'."),
        ("mn(users=3) needs users.", "mn(users=3) needs users."),
    ],
)
def test_ordinary_words_stay(message: str, named: str) -> None:
    options = {name: f"--{name}" for name in ("users", "seen", "columns")} | {"n_threads": "--threads"}
    assert name_options(message, options) == named


def test_columns_of_a_table_are_no_options() -> None:
    options = {"n_items": "--n-items", "seen": "--seen"}
    said = "n_items must be a column. Use seen='keep', or leave n_items out."
    named = "n_items must be a column. Use --seen keep, or leave --n-items out."
    assert name_options(said, options, is_argument=False) == named


def test_renamed_arguments_belong_to_a_command() -> None:
    """No line of the table has lost its option."""
    commands = [command for name, command in whole_command().commands.items() if name in COMMANDS]
    known = {name for command in commands for name in option_names(command.params)}
    assert set(PARAMETERS) <= known
