"""Adaptive samples behind ``engine="gpu"``: the digits of the CPU, with a GPU and without."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from typer.testing import CliRunner

import truerank
from truerank.cli.main import app
from truerank.core.errors import DataWarning
from truerank.core.split import Split
from truerank.data.demo import demo
from truerank.ranking.gpu import choice
from truerank.ranking.gpu.device import has_gpu
from truerank.split.base import SPLITS

SPECS = ["adaptive(start=10, max=60)", "adaptive(start=10, max=60, replace=true, while_rank=2)"]
OPTIONS: dict[str, Any] = {"estimators": "bv", "bounds": True}


@pytest.fixture(scope="module")
def small() -> Split:
    return SPLITS.make("leave-last-out").split(demo(n_users=60, n_items=80))


@pytest.mark.parametrize("sampler", SPECS)
def test_a_device_gives_the_digits_of_the_cpu(small: Split, sampler: str) -> None:
    here = truerank.evaluate("ials(sweeps=2)", small, "ndcg@10,auc", sampler=sampler, **OPTIONS)
    there = truerank.evaluate(
        "ials(sweeps=2)", small, "ndcg@10,auc", sampler=sampler, engine="gpu(device='cpu:0')", **OPTIONS
    )
    assert (there.estimates, there.bounds) == (here.estimates, here.bounds)


@pytest.mark.skipif(not has_gpu(), reason="needs a GPU")
@pytest.mark.parametrize("sampler", [*SPECS, "uniform(m=9)"])
def test_a_gpu_gives_the_digits_of_the_cpu(
    small: Split, sampler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choice, "start_seconds", lambda: 0.0)
    here = truerank.evaluate("ials(sweeps=2)", small, "ndcg@10,auc", sampler=sampler, **OPTIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        there = truerank.evaluate(
            "ials(sweeps=2)", small, "ndcg@10,auc", sampler=sampler, engine="gpu", **OPTIONS
        )
    assert (there.estimates, there.bounds) == (here.estimates, here.bounds)


@pytest.mark.skipif(has_gpu(), reason="there is a GPU")
def test_without_a_gpu_a_sentence_and_the_cpu(small: Split) -> None:
    with pytest.warns(DataWarning, match="torch sees no GPU, so 'cuda' is the CPU here"):
        found = truerank.evaluate("ials(sweeps=2)", small, "ndcg@10", sampler=SPECS[0], engine="gpu")
    assert (
        found.estimates == truerank.evaluate("ials(sweeps=2)", small, "ndcg@10", sampler=SPECS[0]).estimates
    )


def test_from_the_command_line() -> None:
    flags = ["evaluate", "demo", "--model", "ials(sweeps=1)", "--metrics", "ndcg@10", "--format", "csv"]
    flags += ["--sampler", "adaptive(start=10, max=40)"]
    plain, device = (
        CliRunner().invoke(app, [*flags, *more]) for more in ([], ["--engine", "gpu(device='cpu:0')"])
    )
    assert plain.exit_code == device.exit_code == 0, device.output
    assert device.stdout == plain.stdout
