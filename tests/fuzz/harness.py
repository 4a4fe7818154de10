"""Fuzzing: hostile input against truerank, one verdict per case, and cases that repeat from a seed.

An attack is a class of inputs. Case ``number`` of it is drawn from a generator that is seeded by the seed of
the run, the name of the attack and that number, so that any case can be run alone. Its verdict is

* ok: the input was taken, and the attack found nothing changed in what came of it;
* refused: one sentence and exit code 2 (a `TruerankError` in Python), nothing printed and nothing written;
* traceback: any other exception, or the end of the process;
* slow: no answer within `LIMIT` seconds;
* wrong: an answer that differs from what the whole input, or an independent reading of it, gives; and
  a refusal that is no sentence, or left something behind.
"""

from __future__ import annotations

import io
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, ClassVar

from truerank.cli.main import run
from truerank.core.errors import DataWarning, TruerankError

LIMIT = 20  # seconds of a case
MEMORY = 6 << 30  # bytes of address space of a process


class Verdict(StrEnum):
    """What came of a case."""

    ok = "ok"
    refused = "refused"
    traceback = "traceback"
    slow = "slow"
    wrong = "wrong"


BAD = (Verdict.traceback, Verdict.slow, Verdict.wrong)


class WrongAnswer(Exception):  # noqa: N818 - a finding, not an error of the program
    """A silent change, with what was expected and what came."""


class TooSlow(BaseException):
    """The time of a case is over."""


@dataclass(frozen=True)
class Answer:
    """What a call of the command line gave."""

    code: int
    out: str
    err: str


class Attack(ABC):
    """One class of hostile inputs.

    Parameters
    ----------
    folder : where the files of the attack lie; it is the working directory of every case
    """

    name: ClassVar[str]
    #: cases of ``make fuzz``
    cases: ClassVar[int]
    #: cases of ``make test``
    few: ClassVar[int] = 40

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        with _working_in(folder):
            self.prepare()

    def prepare(self) -> None:  # noqa: B027 - some attacks need no files
        """Write the whole files that cases change, and remember what they give."""

    @abstractmethod
    def attempt(self, draw: random.Random) -> Verdict:
        """Run one case in the folder; `TruerankError` counts as refused."""


@dataclass(frozen=True)
class Finding:
    """The verdict of a case, and what to look at where it is bad."""

    attack: str
    number: int
    verdict: Verdict
    seconds: float
    told: str = ""


def judge(attack: Attack, seed: int, number: int) -> Finding:
    """Run one case of an attack."""
    draw = random.Random(f"{seed} {attack.name} {number}")
    started, told = time.perf_counter(), ""
    with _working_in(attack.folder):
        try:
            with _limited_time():
                verdict = attack.attempt(draw)
        except TooSlow:
            verdict, told = Verdict.slow, "".join(traceback.format_exc())
        except WrongAnswer as error:
            verdict, told = Verdict.wrong, str(error)
        except TruerankError as error:
            told = str(error)
            verdict = Verdict.refused if is_sentence(told) else Verdict.wrong
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            verdict, told = Verdict.traceback, "".join(traceback.format_exc())
    seconds = time.perf_counter() - started
    if seconds > LIMIT and verdict not in BAD:
        verdict, told = Verdict.slow, f"{seconds:.1f} s"
    return Finding(attack.name, number, verdict, seconds, told if verdict in BAD else "")


def is_sentence(text: str) -> bool:
    """Whether a message can be read at a glance: not a few letters, not pages, no traceback, with an end."""
    ends = text.rstrip().endswith((".", "?", ")")) or "Install it with: pip install" in text
    return 10 < len(text) < 2_000 and ends and "Traceback" not in text


@contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    before = Path.cwd()
    os.chdir(folder)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DataWarning)
            yield
    finally:
        os.chdir(before)


def _ring(*_: Any) -> None:
    raise TooSlow


@contextmanager
def _limited_time() -> Iterator[None]:
    before = signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def call(*arguments: str | Path) -> Answer:
    """Run the command line in this process; exceptions come out as they are."""
    out, err = io.StringIO(), io.StringIO()
    before, shown = sys.argv, warnings.showwarning
    sys.argv = ["truerank", *map(str, arguments)]
    code = 0
    try:
        with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
            try:
                run()
            except SystemExit as stopped:
                code = stopped.code if isinstance(stopped.code, int) else int(stopped.code is not None)
    finally:
        sys.argv, warnings.showwarning = before, shown
    return Answer(code, out.getvalue(), err.getvalue())


def call_process(*arguments: str | Path) -> Answer:
    """Run the command line as a user does, with little memory and time."""
    texts = [str(one).replace("\x00", "").encode("utf-8", "replace").decode() for one in arguments]
    command = [sys.executable, "-m", "truerank", *texts]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    try:
        done = subprocess.run(command, capture_output=True, timeout=LIMIT, check=False, preexec_fn=limit)
    except subprocess.TimeoutExpired:
        raise TooSlow from None
    return Answer(
        done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
    )


def judge_call(answer: Answer, folder: Path, before: set[str], *, ends: Sequence[int] = (0,)) -> Verdict:
    """Return the verdict of a call; ``before`` is what lay in the folder."""
    if "Traceback (most recent call last)" in answer.err or "panicked at" in answer.err:
        raise AssertionError(answer.err[-4_000:])
    if answer.code in ends:
        return Verdict.ok
    if answer.code != 2:
        raise WrongAnswer(f"exit code {answer.code}: {answer.err[-1_000:]}")
    said = [line for line in answer.err.splitlines() if not line.startswith("note: ")]
    sentences = [at for at, line in enumerate(said) if line.startswith(("truerank: ", "Error: "))]
    if not sentences or answer.out:
        raise WrongAnswer(f"refused without a sentence, or beside an answer: {answer.err!r} {answer.out!r}")
    sentence = "\n".join(said[sentences[-1] :])
    if not is_sentence(sentence):
        raise WrongAnswer(f"refused by what is no sentence: {sentence!r}")
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", answer.err):
        raise WrongAnswer(f"control characters were sent to the terminal: {answer.err!r}")
    left = {name for name in listing(folder) - before if not _is_empty(folder / name)}
    if left:
        raise WrongAnswer(f"refused, and left {sorted(left)[:5]}: {sentence}")
    return Verdict.refused


def _is_empty(path: Path) -> bool:
    """Whether a path is a folder that was made for results and holds none, nor any folder in it."""
    return path.is_dir() and all(inner.is_dir() for inner in path.rglob("*"))


def listing(folder: Path) -> set[str]:
    """Return every path below a folder."""
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


def discard(folder: Path, before: set[str]) -> None:
    """Remove what a case has written."""
    for name in sorted(listing(folder) - before):
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def tally(findings: Sequence[Finding]) -> dict[str, Counter[Verdict]]:
    """Return how often each verdict came, by attack."""
    counts: dict[str, Counter[Verdict]] = {}
    for one in findings:
        counts.setdefault(one.attack, Counter())[one.verdict] += 1
    return counts


def table(counts: dict[str, Counter[Verdict]], seconds: dict[str, float]) -> str:
    """Return the table per attack, with the sum below."""
    rows = [("attack", "cases", *(one.value for one in Verdict), "seconds")]
    total: Counter[Verdict] = Counter()
    for name, found in counts.items():
        total += found
        rows.append((name, *_row(found), f"{seconds.get(name, 0):,.0f}"))
    rows.append(("all", *_row(total), f"{sum(seconds.values()):,.0f}"))
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if at == 0 else cell.rjust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    )


def _row(found: Counter[Verdict]) -> tuple[str, ...]:
    return (f"{sum(found.values()):,}", *(f"{found[one]:,}" for one in Verdict))
