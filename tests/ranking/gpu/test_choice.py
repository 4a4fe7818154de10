"""Which device ranks: checked without torch, the CPU where a GPU would take longer to start."""

from __future__ import annotations

import sys
import types
import warnings
from typing import Any

import numpy as np
import pytest

import truerank
from tests.ranking.gpu.test_exact import factors_of, split_of
from truerank.core.errors import DataWarning, InvalidParameter
from truerank.core.scorer import as_scorer
from truerank.ranking.gpu import choice
from truerank.ranking.gpu.choice import cpu_seconds, gpu_count, paying_device, start_seconds, usable_device


def test_names_are_checked_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert usable_device("cpu") == "cpu"
    for name in ("gpu", "cuda:x", "mps"):
        with pytest.raises(InvalidParameter, match=f"device must be cuda, cuda:1 .* or cpu, got {name!r}"):
            usable_device(name)
    monkeypatch.setattr(choice, "gpu_count", lambda: 2)
    assert usable_device("cuda") == "cuda"
    assert usable_device("cuda:1") == "cuda:1"
    with pytest.raises(InvalidParameter, match="one this machine has, cuda:0 to cuda:1, got 'cuda:2'"):
        usable_device("cuda:2")
    monkeypatch.setattr(choice, "gpu_count", lambda: 0)
    with pytest.warns(DataWarning, match="torch sees no GPU, so 'cuda:1' is the CPU here"):
        assert usable_device("cuda:1") == "cpu"
    monkeypatch.setattr(choice, "find_spec", lambda name: None)
    with pytest.warns(DataWarning, match="torch is not installed, so ranks are computed on the CPU"):
        assert usable_device("cuda") == "cpu"


def test_counting_gpus_needs_no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    choice._driver_count.cache_clear()
    assert gpu_count() >= 0
    assert "torch" not in sys.modules
    fake: Any = types.SimpleNamespace(
        cuda=types.SimpleNamespace(device_count=lambda: 3, is_initialized=lambda: True)
    )
    monkeypatch.setitem(sys.modules, "torch", fake)
    assert gpu_count() == 3
    assert start_seconds() == choice.AGAIN_SECONDS


def test_small_data_stay_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    split, factors = split_of(), factors_of()
    monkeypatch.setattr(choice, "start_seconds", lambda: 4.0)
    chosen: dict[str, Any] = {"name": "mine", "n_negatives": None, "n_threads": 1}
    with pytest.warns(
        DataWarning, match="mine: ranked on the CPU, which takes about .* s; the GPU takes 4 s"
    ):
        assert paying_device("cuda", factors, split, **chosen) == "cpu"
    monkeypatch.setattr(choice, "start_seconds", lambda: 1e-9)
    assert paying_device("cuda", factors, split, **chosen) == "cuda"
    assert paying_device("cpu", factors, split, **chosen) == "cpu"
    dense = as_scorer(np.zeros((60, 200)))
    with pytest.warns(DataWarning, match="needs factors or an item-item matrix and this model has none"):
        assert paying_device("cuda", dense, split, **chosen) == "cpu"
    with pytest.warns(DataWarning, match="a GPU needs factors and this model has none"):
        assert paying_device("cuda", dense, split, **{**chosen, "n_negatives": 9}) == "cpu"


def test_more_work_takes_longer() -> None:
    split, factors = split_of(), factors_of()
    exact, sampled = cpu_seconds(factors, split, None, 1), cpu_seconds(factors, split, 99, 1)
    assert exact is not None
    assert sampled is not None
    assert cpu_seconds(factors, split, None, 2) == exact / 2
    assert cpu_seconds(factors, split, 198, 1) == 2 * sampled


def test_devices_are_checked_before_fitting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with a device is said before a model is fitted; on the CPU values are the same."""
    from truerank.models.popularity import Popularity

    split = split_of()

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("fitted")

    monkeypatch.setattr(Popularity, "fit", fail)
    with pytest.raises(InvalidParameter, match="device must be cuda, cuda:1"):
        truerank.evaluate("popularity", split, "recall@5", engine="gpu(device=tpu)")
    monkeypatch.undo()
    monkeypatch.setattr(choice, "gpu_count", lambda: 1)
    monkeypatch.setattr(choice, "start_seconds", lambda: 4.0)
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        found = truerank.evaluate(
            ["popularity", "ials(factors=4)"], split, "recall@5", engine="gpu(memory=67108864)"
        )
    assert found.value("recall@5", "popularity") == truerank.evaluate("popularity", split, "recall@5").value(
        "recall@5"
    )
    assert any("ials(factors=4): ranked on the CPU, which takes about" in str(note.message) for note in notes)
    with pytest.raises(InvalidParameter, match="memory must be at least 1048576, got 9"):
        truerank.evaluate("popularity", split, "recall@5", engine="gpu(memory=9)")
