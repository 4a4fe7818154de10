"""A real process, ended by Ctrl-C, then by kill -9, that finishes with the digits of an undisturbed one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from truerank.data.demo import demo
from truerank.data.read import read_interactions
from truerank.subsampling.subsample import write_events
from truerank.workflows.agreement.experiment import measure_agreement

ASKED = ("--strategies", "random,head-user", "--fractions", "0.5,0.2", "--seeds", "1", "--resamples", "60")
SCENARIO = "implicit(metrics='ndcg@10,recall@20')"
MODELS = "popularity,bias-only(epochs=20, patience=20),mf(factors=16, epochs=60, patience=60)"
N_TASKS = 4 + 3 * (1 + 4)


def start(data: Path, folder: Path) -> subprocess.Popen[str]:
    call = [sys.executable, "-c", "from truerank.cli.main import run; run()", "agreement", str(data), *ASKED]
    rest = ["--models", MODELS, "--scenario", SCENARIO, "--keep", str(folder), "--format", "json"]
    return subprocess.Popen(
        [*call, *rest],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_hear_interrupts,
    )


def _hear_interrupts() -> None:
    """Undo what a shell does to jobs in the background: they, and whatever they start, ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def wait_for(folder: Path, n_fits: int, process: subprocess.Popen[str]) -> int:
    """Wait until so many fits are finished, and return how many are."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        found = len(list(folder.glob("agreement-fit-*.npz"))) if folder.is_dir() else 0
        if found >= n_fits:
            return found
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    raise AssertionError("no fit was finished in two minutes")


def plain(fields: dict[str, Any]) -> dict[str, Any]:
    """Leave out what clocks say, and which optional libraries a process has loaded."""
    fields["provenance"].pop("versions")
    for cell in fields["cells"]:
        for name in ("seconds", "speedup", "speedup_validated"):
            cell.pop(name)
    fields.pop("answer")
    return fields


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")
def test_killed_and_restarted_it_ends_with_the_same_digits(tmp_path: Path) -> None:
    data, folder = tmp_path / "demo.csv", tmp_path / "kept"
    write_events(data, demo(n_users=150, n_items=200))

    interrupted = start(data, folder)
    before = wait_for(folder, 2, interrupted)
    interrupted.send_signal(signal.SIGINT)
    out, err = interrupted.communicate(timeout=60)
    assert (interrupted.returncode, out) == (130, "")
    n_kept = len(list(folder.glob("agreement-*.npz")))
    assert before <= n_kept < N_TASKS
    assert f"{n_kept} of {N_TASKS} parts are finished and kept in" in err
    assert "run the same command again to continue" in err

    killed = start(data, folder)
    wait_for(folder, n_kept - 4 + 3, killed)  # four sub-samples come first
    killed.kill()
    killed.communicate(timeout=60)
    assert killed.returncode == -signal.SIGKILL
    assert n_kept < len(list(folder.glob("agreement-*.npz"))) < N_TASKS

    last = start(data, folder)
    out, err = last.communicate(timeout=120)
    assert last.returncode == 0, err
    assert f"of {N_TASKS} parts were finished by earlier runs; continuing" in err

    undisturbed = measure_agreement(
        read_interactions(data),
        "random,head-user",
        [0.5, 0.2],
        scenario=SCENARIO,
        models=MODELS,
        seeds=1,
        resamples=60,
    )
    assert plain(json.loads(out)) == plain(json.loads(undisturbed.to_json()))
