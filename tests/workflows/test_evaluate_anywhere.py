"""One call, wherever the work is done."""

from __future__ import annotations

from typing import Any

import pytest

import truerank
from truerank.core.errors import DataWarning, InvalidParameter
from truerank.core.split import Split
from truerank.data.demo import demo
from truerank.ranking.gpu import choice
from truerank.ranking.gpu.device import has_gpu
from truerank.split.base import SPLITS


@pytest.fixture(scope="module")
def small() -> Split:
    return SPLITS.make("leave-last-out").split(demo(n_users=60, n_items=80))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"sampler": "uniform(m=9)", "estimators": "bv", "bounds": True}])
def test_engines_agree_to_the_digit(small: Split, options: dict[str, Any]) -> None:
    here = truerank.evaluate("ials(sweeps=2)", small, "ndcg@10,auc", **options)
    there = truerank.evaluate("ials(sweeps=2)", small, "ndcg@10,auc", engine="local(threads=2)", **options)
    assert there.estimates == here.estimates
    assert there.bounds == here.bounds
    assert there.provenance["engine"] == "local(threads=2)"


@pytest.mark.skipif(has_gpu(), reason="there is a GPU")
@pytest.mark.parametrize("options", [{}, {"sampler": "uniform(m=9)", "estimators": "bv"}])
def test_without_a_gpu_the_cpu_counts(small: Split, options: dict[str, Any]) -> None:
    with pytest.warns(DataWarning, match="torch sees no GPU, so 'cuda' is the CPU here"):
        found = truerank.evaluate("ials(sweeps=2)", small, "ndcg@10", engine="gpu", **options)
    assert found.estimates == truerank.evaluate("ials(sweeps=2)", small, "ndcg@10", **options).estimates
    assert found.provenance["engine"] == "gpu"


@pytest.mark.parametrize("options", [{}, {"sampler": "uniform(m=9)", "estimators": "bv"}])
def test_the_steps_of_the_gpu_run_in_torch_on_a_cpu(small: Split, options: dict[str, Any]) -> None:
    found = truerank.evaluate("ials(sweeps=2)", small, "ndcg@10", engine="gpu(device='cpu:0')", **options)
    assert found.estimates == truerank.evaluate("ials(sweeps=2)", small, "ndcg@10", **options).estimates


def test_models_that_a_gpu_cannot_rank(small: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "gpu_count", lambda: 1)
    with pytest.warns(DataWarning, match="ease: ranked on the CPU, because a GPU needs factors and this"):
        truerank.evaluate("ease", small, "ndcg@10", engine="gpu", sampler="uniform(m=9)")
    with pytest.warns(DataWarning, match="ease: ranked on the CPU, which takes about"):
        found = truerank.evaluate("ease", small, "ndcg@10", engine="gpu")
    assert found.estimates == truerank.evaluate("ease", small, "ndcg@10").estimates


@pytest.mark.parametrize("engine", [None, "gpu"])
def test_a_work_dir_is_for_workers(small: Split, engine: str | None, tmp_path: Any) -> None:
    with pytest.raises(InvalidParameter, match="work_dir is for engines with workers"):
        truerank.evaluate("popularity", small, engine=engine, work_dir=tmp_path)
