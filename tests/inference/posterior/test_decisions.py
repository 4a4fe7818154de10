"""What `benchmarks.decisions` counts, and what it learns from exact ranks."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import decisions
from benchmarks.decisions import Measured, RankedModels, Tried, cautious_sharing, family_sharing
from truerank.inference.posterior.interval import MetricPosterior


def case(data: str, n_models: int) -> RankedModels:
    return RankedModels(data, "leave-last-out", "remove", tuple(map(str, range(n_models))), ())


def normal_posterior() -> MetricPosterior:
    draws = np.random.default_rng(0).normal(size=(2, 20_000))
    return MetricPosterior(draws, np.full(20_000, 1 / 20_000), np.zeros(2), 1, 1.0)


def test_sharing_is_the_correlation_of_scores() -> None:
    """True values that are normal with correlation 0.5 between the models of a data set, and with 0."""
    draw, posterior = np.random.default_rng(1), normal_posterior()
    measured = []
    for number in range(400):
        for data, rho in (("same", 0.5), ("apart", 0.0)):
            common = draw.normal(size=(1, 2))
            exact = np.sqrt(rho) * common + np.sqrt(1 - rho) * draw.normal(size=(5, 2))
            measured.append(Measured(case(data, 5), "m = 99", number, exact, [posterior] * 5))
    found = family_sharing(measured)
    # the standard error of the correlation of 800 groups of five is at most 0.025
    assert found["same"] == pytest.approx(0.5, abs=0.1)
    assert found["apart"] == pytest.approx(0.0, abs=0.1)


def test_what_is_counted_on_is_the_least_of_the_other_data_sets() -> None:
    families = {"a": 0.304, "b": 0.1, "c": -0.2}
    assert cautious_sharing(families) == 0.0
    assert cautious_sharing(families, without="c") == 0.1
    assert cautious_sharing({"a": 0.304}) == 0.3
    assert cautious_sharing({"a": 0.304}, without="a") == 0.0


def test_decisions_are_counted_by_data_set() -> None:
    """Of four pairs one is equal; of the others two are decided, one of them wrongly."""
    tried = Tried()
    tried.add("a", np.array([1.0, -1.0, 0.0, 1.0]), np.array([1.0, 1.0, -1.0, 0.0]))
    tried.add("b", np.array([1.0, np.nan]), np.array([1.0, 1.0]))
    assert tried.line() == ["4", "75.0", "33.33", "50.0 a"]
    assert Tried().line() == ["0", "", "", ""]


@pytest.mark.slow
def test_the_command_prints_every_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two data sets of three models with 80 users each: the models are far apart, so nothing is wrong."""
    draw = np.random.default_rng(0)
    for data in ("one", "two"):
        for model, shape in (("good", 0.1), ("fair", 0.6), ("bad", 3.0)):
            above = (draw.beta(shape, 1.5, 80) * 700).astype(np.int64)
            path = tmp_path / f"{data}__leave-last-out__{model}__remove.npz"
            np.savez(path, n_above=above, n_tied=np.zeros(80, np.int64), n_pool=np.full(80, 800))
    keep = tmp_path / "keep"
    monkeypatch.setattr(decisions, "DESIGNS", {"m = 99": 99, "adaptive": "adaptive(start=50, max=200)"})
    monkeypatch.setattr(sys, "argv", ["decisions", str(tmp_path), "--keep", str(keep), "--bounds", "2"])
    decisions.main()
    first = capsys.readouterr()
    assert "no prior without one: the shipped one is taken" in first.err
    assert "12 of 12 samples" in first.err
    lines = [line.split(" | ") for line in first.out.splitlines() if line.startswith("| m = 99, remove")]
    assert [line[1] for line in lines] == list(decisions.RULES.values())
    by_rule = {line[1]: line[2:] for line in lines}
    assert by_rule["posterior"][0] == "12"  # three pairs of two data sets in two metrics
    assert by_rule["posterior"][2] == "0.00" and float(by_rule["posterior"][1]) > 50
    assert by_rule["bounds"][0] == "4" and by_rule["naive, always"][1] == "100.0"
    decisions.main()  # from what was kept
    assert capsys.readouterr().out == first.out
