"""``make fuzz``: run every attack, print the table, keep the inputs of bad cases."""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.fuzz.attacks import ATTACKS
from tests.fuzz.harness import BAD, LIMIT, MEMORY, Attack, Finding, Verdict, judge, table

SILENCE = 3 * LIMIT  # seconds without a verdict after which the worker is ended


def main() -> int:
    """Run the attacks that were asked for, each in a process that is started again when it dies."""
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="attacks whose name holds this text")
    parser.add_argument("--case", type=int, help="run this case alone, in this process")
    parser.add_argument("--share", type=float, default=1.0, help="run so much of the cases")
    parser.add_argument("--part", default="1/1", help="of these run one part, such as 2/5")
    parser.add_argument("--keep", type=Path, default=Path("fuzz"), help="where inputs of bad cases are kept")
    parser.add_argument("--worker", nargs=3, metavar=("FROM", "TO", "FOLDER"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    chosen = [attack for attack in ATTACKS if asked.only == attack.name] or [
        attack for attack in ATTACKS if asked.only in attack.name
    ]
    if asked.worker or asked.case is not None:
        (attack,) = chosen
        if asked.worker:
            start, end, folder = asked.worker
            return _work(attack, asked.seed, range(int(start), int(end)), Path(folder), asked.keep)
        with tempfile.TemporaryDirectory() as folder:
            found = judge(attack(Path(folder)), asked.seed, asked.case)
        print(found.verdict, f"{found.seconds:.2f} s", found.told, sep="\n")
        return int(found.verdict in BAD)
    which, parts = map(int, asked.part.split("/"))
    counts: dict[str, Counter[Verdict]] = {}
    seconds: dict[str, float] = {}
    for attack in chosen:
        started = time.perf_counter()
        cases = int(attack.cases * asked.share)
        part = range(cases * (which - 1) // parts, cases * which // parts)
        counts[attack.name] = _run(attack, asked.seed, part, asked.keep)
        seconds[attack.name] = time.perf_counter() - started
        print(f"{attack.name}: {dict(counts[attack.name])}", file=sys.stderr, flush=True)
    print(f"seed {asked.seed}\n{table(counts, seconds)}")
    bad = sum(found[one] for found in counts.values() for one in BAD)
    if bad:
        print(f"{bad} bad cases; their inputs and what came of them are in {asked.keep}/.")
    return int(bad > 0)


def _work(attack: type[Attack], seed: int, cases: range, folder: Path, keep: Path) -> int:
    """Run cases, print one line of JSON for each, and keep the files of bad ones before the next begins."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    made = attack(folder)
    lines = os.fdopen(os.dup(1), "w")
    lines.write("ready\n")
    lines.flush()
    for number in cases:
        found = judge(made, seed, number)
        if found.verdict in BAD:
            _keep(found, seed, folder, keep)
        lines.write(json.dumps([number, found.verdict, found.seconds, found.told]) + "\n")
        lines.flush()
    return 0


def _run(attack: type[Attack], seed: int, cases: range, keep: Path) -> Counter[Verdict]:
    counts: Counter[Verdict] = Counter()
    while cases:
        with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
            cases = _supervise(attack, seed, cases, Path(folder), keep, counts)
    return counts


def _supervise(
    attack: type[Attack], seed: int, cases: range, folder: Path, keep: Path, counts: Counter[Verdict]
) -> range:
    """Run a worker; return the cases that are left where it ended early."""
    command = [sys.executable, "-m", "tests.fuzz", "--seed", str(seed), "--only", attack.name]
    command += ["--keep", str(keep), "--worker", str(cases.start), str(cases.stop), str(folder / "files")]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path[1:]]),
        **surroundings(folder),
    }
    with (
        (folder / "err").open("w+") as err,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=err, env=environment, text=True) as worker,
    ):
        stream = worker.stdout
        assert stream is not None
        if stream.readline() != "ready\n":
            err.seek(0)
            raise RuntimeError(f"{attack.name} cannot be prepared: {err.read()[-5_000:]}")
        for number in cases:
            ready, _, _ = select.select([stream], [], [], SILENCE)
            line = stream.readline() if ready else ""
            if not line:
                worker.kill()
                err.seek(0)
                verdict = Verdict.traceback if ready else Verdict.slow
                found = Finding(attack.name, number, verdict, 0, f"the process ended\n{err.read()[-5_000:]}")
            else:
                _, word, seconds, told = json.loads(line)
                found = Finding(attack.name, number, Verdict(word), seconds, told)
            counts[found.verdict] += 1
            if not line:
                _keep(found, seed, folder / "files", keep)
                return range(number + 1, cases.stop)
    return range(0)


def surroundings(folder: Path) -> dict[str, str]:
    """Return variables that keep cases away from this machine's caches, data and network."""
    nowhere = "http://127.0.0.1:9"
    return {
        **dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), nowhere),
        "TRUERANK_CACHE": str(folder / "cache"),
        "TRUERANK_DATA": str(folder / "data"),
        "COLUMNS": "80",
        "TMPDIR": str(folder),
        "OMP_NUM_THREADS": "1",
        "POLARS_MAX_THREADS": "1",
    }


def _keep(found: Finding, seed: int, files: Path, keep: Path) -> None:
    """Keep the text of a finding, and the files as the case left them where they are small."""
    name = "".join(letter if letter.isalnum() else "-" for letter in found.attack)
    place = keep / f"{name}-{seed}-{found.number}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    again = f"python -m tests.fuzz --seed {seed} --only '{found.attack}' --case {found.number}"
    (place / "finding.txt").write_text(
        f"{found.verdict}\n{again}\n\n{found.told}\n", errors="backslashreplace"
    )
    for path in sorted(files.rglob("*")):
        if path.is_file() and path.stat().st_size < 1 << 20:
            (place / "files" / path.relative_to(files)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place / "files" / path.relative_to(files))


if __name__ == "__main__":
    sys.exit(main())
