"""A real process, ended by Ctrl-C, then by kill -9, that finishes with the digits of an undisturbed one."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
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


#: Starts the command line, which waits in the place of the task after so many, for a signal.
HELD = """
import signal, sys, time
from truerank.workflows.agreement.runner import TaskRunner
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts jobs in the background without
run, left = TaskRunner.run, [int(sys.argv.pop(1))]
def held(self, task):
    if left[0] == 0:
        print("held", file=sys.stderr, flush=True)
        time.sleep(600)
    left[0] -= 1
    run(self, task)
TaskRunner.run = held
from truerank.__main__ import main
main()
"""


def start(data: Path, folder: Path, n_tasks: int) -> subprocess.Popen[str]:
    call = [sys.executable, "-c", HELD, str(n_tasks), "agreement", str(data), *ASKED]
    rest = ["--models", MODELS, "--scenario", SCENARIO, "--keep", str(folder), "--format", "json"]
    return subprocess.Popen([*call, *rest], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_until_held(process: subprocess.Popen[str]) -> None:
    """Read messages until the process waits: however slow the machine is, its work is not finished then."""
    assert process.stderr is not None
    for line in process.stderr:
        if line == "held\n":
            return
    raise AssertionError(f"the process ended with {process.wait()}")


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

    interrupted = start(data, folder, 6)
    wait_until_held(interrupted)
    interrupted.send_signal(signal.SIGINT)
    out, err = interrupted.communicate(timeout=300)
    assert (interrupted.returncode, out) == (130, "")
    assert len(list(folder.glob("agreement-*.npz"))) == 6
    assert err == (
        f"truerank: interrupted. 6 of {N_TASKS} parts are finished and kept in '{folder}'; "
        "run the same command again to continue.\n"
    )

    killed = start(data, folder, 3)
    wait_until_held(killed)
    killed.kill()
    killed.communicate(timeout=300)
    assert killed.returncode == -signal.SIGKILL
    assert len(list(folder.glob("agreement-*.npz"))) == 9

    last = start(data, folder, N_TASKS)
    out, err = last.communicate(timeout=300)
    assert last.returncode == 0, err
    assert f"9 of {N_TASKS} parts were finished by earlier runs; continuing" in err

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
