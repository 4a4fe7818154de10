"""Ctrl-C and SIGTERM in real processes: the exit code, one sentence, and nothing passed off as whole."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from truerank.core.errors import DataWarning
from truerank.data.demo import demo
from truerank.models.saved_scorer import load_scorer
from truerank.subsampling.subsample import write_events

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX"),
]

#: Starts the command line with another function in some place; the moments do not depend on time.
HARNESS = """
import importlib, os, signal, sys, time, traceback
SENT = getattr(signal, sys.argv.pop(1))
signal.signal(signal.SIGINT, signal.default_int_handler)  # whatever the tests were started with

def send():
    os.kill(os.getpid(), SENT)
    time.sleep(0)

class Dropped:
    def __del__(self):
        send()

def swallow():
    try:
        send()
    except BaseException:
        pass

def generated():
    exec("send()", globals())

def replace():
    try:
        send()
    except KeyboardInterrupt:
        raise ImportError("half of a module") from None

def second_call(of, do):
    module, name = importlib.import_module(of[0]), of[1]
    inner, calls = getattr(module, name), []
    def changed(*arguments, **options):
        calls.append(1)
        if len(calls) == 2:
            do()
        return inner(*arguments, **options)
    setattr(module, name, changed)
"""
END = "\nfrom truerank.__main__ import main\nmain()\n"
MODEL = "mf(factors=4, epochs=1000000, patience=1000000)"
#: within the training, at the end of its second epoch
EPOCH = 'second_call(("truerank.models.training", "note"), {})'


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "demo.csv"
    write_events(path, demo(n_users=60, n_items=80))
    return path


def truerank_in_process(
    setup: str, *arguments: str | Path, sent: str = "SIGINT"
) -> subprocess.CompletedProcess[str]:
    with TemporaryDirectory() as folder:
        Path(folder, "harness.py").write_text(HARNESS + setup + END)
        call = [sys.executable, "-m", "harness", sent, *map(str, arguments)]
        done = subprocess.run(call, capture_output=True, text=True, timeout=300, check=False, cwd=folder)
    assert "Traceback" not in done.stderr
    assert "ignored" not in done.stderr
    return done


@pytest.mark.parametrize(
    ("how", "sent"),
    [("send", "SIGTERM"), ("Dropped", "SIGINT"), ("swallow", "SIGINT")],
)
def test_fit_keeps_the_best_epoch_and_says_so(data: Path, tmp_path: Path, how: str, sent: str) -> None:
    """An interrupt that a destructor drops, or a library swallows, is raised again."""
    out = tmp_path / "mf.truerank"
    done = truerank_in_process(EPOCH.format(how), "fit", data, "--model", MODEL, "--out", out, sent=sent)
    assert done.returncode == 128 + getattr(signal, sent)
    assert done.stderr.endswith(f"truerank: interrupted. Wrote {out}.\n")
    with pytest.warns(DataWarning, match="is not fully trained: training was interrupted in epoch"):
        found = load_scorer(out)
    assert found.interrupted is not None
    assert 1 <= found.interrupted.kept <= found.interrupted.epoch < found.interrupted.epochs


def test_evaluate_marks_a_training_and_begins_no_other(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    models = ("--model", "popularity", "--model", MODEL, "--model", "ease")
    done = truerank_in_process(
        EPOCH.format("send"), "evaluate", data, *models, "--format", "json", "--out", out
    )
    assert done.returncode == 130
    assert done.stderr.endswith(f"truerank: interrupted. Wrote {out}.\n")
    assert done.stderr.count("training was interrupted in epoch 2") == 1
    told = json.loads(done.stdout)
    assert told == json.loads(out.read_text())
    assert {entry["model"] for entry in told["estimates"]} == {"popularity", MODEL}
    assert told["provenance"]["interrupted"][MODEL] == {"epoch": 2, "epochs": 1000000, "kept": 2, "path": ""}
    assert told["provenance"]["unfinished"] == ["ease"]
    assert told["notes"][0] == "interrupted: 2 of 3 models were evaluated."


@pytest.mark.parametrize(
    ("how", "arguments"),
    [
        ("replace", ("sample", "{data}", "--model", MODEL, "--out", "{out}")),
        ("send", ("study", "{data}", "--model", MODEL, "--cutoffs", "1-5", "--keep", "{kept}")),
    ],
    ids=("sample", "study"),
)
def test_others_take_no_half_training(
    data: Path, tmp_path: Path, how: str, arguments: tuple[str, ...]
) -> None:
    """Also where a library turns the interrupt into another exception; no file is left behind."""
    out, kept = tmp_path / "out.csv", tmp_path / "kept"
    given = [one.format(data=data, out=out, kept=kept) for one in arguments]
    done = truerank_in_process(EPOCH.format(how), *given)
    assert (done.returncode, done.stdout) == (130, "")
    told = f"0 finished parts are kept in '{kept}'; run the same command again to continue."
    assert done.stderr.endswith(
        f"truerank: interrupted. {told if arguments[0] == 'study' else 'Nothing was kept.'}\n"
    )
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("how", ["swallow", "generated"])
def test_one_that_python_or_a_library_would_lose(how: str) -> None:
    """A swallowed one is no success; after one within an exec of text Python itself would die of SIGINT."""
    setup = "import truerank.cli.plugins as p; inner = p.registries\n"
    setup += f"p.registries = lambda: ({how}(), inner())[1]"
    done = truerank_in_process(setup, "list", "models", sent="SIGTERM")
    assert done.returncode == 143
    assert done.stderr.endswith("truerank: interrupted. Nothing was kept.\n")


def test_while_the_command_loads() -> None:
    setup = (
        "import typer.main as t; inner = t.get_command\nt.get_command = lambda app: (send(), inner(app))[1]"
    )
    done = truerank_in_process(setup, "list", "models", sent="SIGTERM")
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "truerank: interrupted.\n")


def test_after_the_work_is_done() -> None:
    """What Python takes apart in the end is no longer interrupted: the work is whole, and so is the code."""
    setup = "class Late:\n    def __del__(self, kill=os.kill, pid=os.getpid()):\n        kill(pid, SENT)\n"
    done = truerank_in_process(f"{setup}sys.late = Late()\n", "--version", sent="SIGTERM")
    assert done.returncode == 0
    assert done.stdout.startswith("truerank ")


def test_a_job_in_the_background_stays_there() -> None:
    """A shell starts such jobs with Ctrl-C ignored, and so they stay."""
    setup = "signal.signal(signal.SIGINT, signal.SIG_IGN)\nimport typer.main as t; inner = t.get_command\n"
    setup += "t.get_command = lambda app: (send(), inner(app))[1]"
    assert truerank_in_process(setup, "list", "models").returncode == 0


def test_processes_of_an_agreement_say_nothing(data: Path, tmp_path: Path) -> None:
    """Ctrl-C at a terminal reaches all processes, those too that have just been started."""
    setup = """
import concurrent.futures.process as pool
inner = pool.ProcessPoolExecutor._spawn_process
def spawn(self):
    inner(self)
    os.killpg(0, SENT)
pool.ProcessPoolExecutor._spawn_process = spawn
"""
    models = ("--models", "popularity,ease", "--strategies", "random", "--fractions", "0.5", "--seeds", "1")
    kept = tmp_path / "kept"
    call = [sys.executable, "-c", HARNESS + setup + END, "SIGINT", "agreement", str(data), *models]
    done = subprocess.run(
        [*call, "--workers", "2", "--keep", str(kept)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        start_new_session=True,
    )
    assert (done.returncode, done.stdout) == (130, "")
    sentence = rf"truerank: interrupted\. \d of 5 parts are finished and kept in '{kept}'; run the same .*\n"
    assert re.fullmatch(rf"columns of .*\n{sentence}", done.stderr)
