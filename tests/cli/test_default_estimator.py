"""One default estimator, and one way to write one or several, for all functions and commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import truerank
from tests.cli.conftest import Truerank
from truerank.core.errors import InvalidParameter
from truerank.core.ranks import SampledRanks
from truerank.workflows.options import DEFAULT_ESTIMATOR, make_options, single_estimator
from truerank.workflows.precision.precision import evaluate_to_precision

RANKS = SampledRanks.single([0, 1, 4, 7], n_negatives=9, n_pool=100)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "estimators of estimate": truerank.estimate,
    "estimators of RankAccumulator": truerank.RankAccumulator.compute,
    "estimators of study": truerank.study,
    "estimator of compare": truerank.compare,
    "estimator of plan": truerank.plan,
    "estimator of evaluate_to_precision": evaluate_to_precision,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_has_the_same_default(name: str) -> None:
    parameter = inspect.signature(FUNCTIONS[name]).parameters[name.split()[0]]
    assert parameter.default == DEFAULT_ESTIMATOR


def test_the_default_of_evaluate_is_the_same() -> None:
    for sampler in ("uniform(m=9)", "full"):
        assert list(map(str, make_options(sampler=sampler).estimators)) == [DEFAULT_ESTIMATOR]


@pytest.mark.parametrize("command", ["evaluate", "estimate", "compare", "plan", "study"])
def test_help_names_the_default(truerank: Truerank, command: str) -> None:
    words = " ".join(truerank(command, "--help").out.replace("│", " ").split())
    assert "How metrics are estimated from sampled ranks" in words
    assert f"{DEFAULT_ESTIMATOR} by default" in words


@pytest.mark.parametrize(
    "written", ["naive,bv(gamma=0.1)", ["naive", "bv(gamma=0.1)"], ["naive,bv(gamma=0.1)"]]
)
def test_several_are_written_with_commas_or_as_a_list(written: str | list[str]) -> None:
    found = truerank.estimate(RANKS, "auc", written)
    assert [e.estimator for e in found.estimates] == ["naive", "bv"]
    options = make_options("auc", sampler="uniform(m=9)", estimators=written)
    assert list(map(str, options.estimators)) == ["naive", "bv"]


def test_where_one_is_used_several_get_a_sentence() -> None:
    assert str(single_estimator(["naive"], "plan")) == "naive"
    assert str(single_estimator("naive,naive", "plan")) == "naive"
    for call in (
        lambda: truerank.compare({"a": RANKS, "b": RANKS}, metrics="auc", estimator="naive,bv"),
        lambda: truerank.plan(RANKS, "auc", estimator=["naive", "bv"]),
    ):
        with pytest.raises(InvalidParameter, match=r"uses one, got 2: naive, bv\. Name one of them\."):
            call()


@pytest.mark.parametrize(
    "flags", [("--estimator", "naive,bv"), ("--estimator", "naive", "--estimator", "bv")]
)
def test_commands_take_several_or_say_that_they_use_one(
    truerank: Truerank, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    table = tmp_path / "ranks.csv"
    table.write_text("user_id,rank\na,1\nb,3\nc,1\nd,8\n")
    sizes = ("--n-items", "100", "--negatives", "9")
    done = truerank("estimate", table, *sizes, "--metrics", "auc", "--no-bounds", *flags)
    assert done.code == 0
    assert [line.split()[1] for line in done.out.splitlines()[1:]] == ["naive", "bv"]
    for command in (("compare", table, table, *sizes), ("plan", "--pilot", table, *sizes)):
        done = truerank(*command, *flags)
        assert done.code == 2
        words = " ".join(done.err.split())
        assert f"--estimator must be a single one, because {command[0]} uses one, got 2: naive, bv." in words
