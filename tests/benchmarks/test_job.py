"""Workers take stacks from a queue, narrow networks first, and train nothing that is known."""

from __future__ import annotations

import queue
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.svp_cf import fitting, job
from benchmarks.svp_cf.job import Job, StackName, read_results
from benchmarks.svp_cf.stack import Training

N_USERS, N_ITEMS = 9, 12
PROBLEM = ("tiny", "ours", "explicit")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write two strategies at one fraction, under two seeds; one sub-sample is too small."""
    monkeypatch.setitem(job.TRAINING, "tiny", Training(epochs=2, every=1, patience=2, batch=16))
    rng = np.random.default_rng(0)
    parts: dict[str, Any] = {}
    for part, n in (("train", 60), ("valid", 12), ("test", 12)):
        parts[f"{part}_user"] = np.sort(rng.integers(0, N_USERS, n))
        parts[f"{part}_item"] = rng.integers(0, N_ITEMS, n)
        parts[f"{part}_value"] = rng.integers(1, 6, n).astype(np.float32)
    masks = rng.random((2, 1, 2, 60)) < 0.5
    masks[1, 0, 0] = False
    masks[1, 0, 0, :5] = True
    unset = ("own_seen", "known_valid", "surviving", "as_coded")
    flags: dict[str, Any] = {"is_explicit": True, **dict.fromkeys(unset, False)}
    parts |= {"n_users": N_USERS, "n_items": N_ITEMS, "least_events": 6, "rows": np.packbits(masks, axis=-1)}
    axes: dict[str, Any] = {"strategies": ["random", "head-user"], "fractions": [0.5], "seeds": [0, 1]}
    np.savez(tmp_path / "tiny.ours.explicit.npz", **parts, **flags, **axes)
    return tmp_path


def worked(folder: Path, out: str, seeds: list[int], done: list[Path], until: float = 1e12) -> Path:
    """Let one worker do everything in this process; return its file."""
    (folder / out).mkdir()
    some = Job(folder, folder / out, {PROBLEM: seeds}, ["bias-only", "mf"], "cpu", until, done)
    waiting: queue.SimpleQueue[StackName | None] = queue.SimpleQueue()
    for name in (*some.names(), None):
        waiting.put(name)
    some.work(waiting, "worker")
    return folder / out / "worker.npz"


def test_narrow_networks_come_first(folder: Path) -> None:
    names = Job(folder, folder, {PROBLEM: [0]}, [], "cpu", 0.0, []).names()
    assert [(name.model, name.width) for name in names if name.fraction == 1] == [
        ("neumf", 8),
        ("mf", 8),
        ("bias-only", 0),
        ("neumf", 32),
        ("mf", 32),
    ]


def test_what_is_known_is_not_trained_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = worked(folder, "a", [0], [])
    found = read_results([first])
    test = found["tiny ours explicit mf 8 0.5/test"][..., 0]
    assert test.shape == (2, 2, 3)  # strategies, seeds, rates
    assert np.isfinite(test[0, 0]).all()
    assert np.isnan(test[1, 0]).all()  # five train events, fewer than six
    assert np.isnan(test[:, 1]).all()  # not asked for
    assert np.isfinite(found["tiny ours explicit mf 8 1/test"]).all()  # the full data under all seeds
    trained: list[list[int]] = []
    fit = fitting.fit

    def noted(*given: Any) -> Any:
        trained.append(given[2].seed)
        return fit(*given)

    monkeypatch.setattr(job, "fit", noted)
    both = read_results([worked(folder, "b", [0, 1], [first])])
    assert trained
    assert {seed for seeds in trained for seed in seeds} == {1}
    np.testing.assert_array_equal(both["tiny ours explicit mf 8 0.5/test"][:, 0, :, 0], test[:, 0])
    alone = read_results([worked(folder, "c", [1], [])])
    key = "tiny ours explicit mf 32 0.5/test"
    np.testing.assert_allclose(both[key][:, 1], alone[key][:, 1], rtol=1e-5)
    assert not worked(folder, "d", [0], [], until=0.0).exists()  # out of time before the first


@pytest.mark.slow
def test_results_that_are_not_there_are_named(folder: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.svp_cf", "run", str(folder), str(folder / "out"), "a.b.c"]
    told = subprocess.run([*command, "--done", "no.npz"], capture_output=True, text=True, check=False)
    assert told.returncode == 2
    assert "--done must name files with results, but there is no no.npz." in told.stderr
    assert not (folder / "out").exists()
