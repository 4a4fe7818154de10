"""How much of the package a reader must hold in the head: modules, lines, folders, and what one command runs.

A module counts as run when one of its functions was called; importing it is not enough. Package files without
code of their own (``__init__``) do not count.

    python -m benchmarks.tree
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path

import truerank

ROOT = Path(truerank.__file__).parent
WALKS = {
    "exact": ["evaluate", "demo", "--model", "ease"],
    "sampled": ["evaluate", "demo", "--model", "ials", "--negatives", "100"],
}
TRACED = """
import json, sys, threading
called = set()
def trace(frame, event, argument):
    if event == "call" and frame.f_code.co_flags & 1:  # CO_OPTIMIZED: a function, not a module or class body
        called.add(frame.f_code.co_filename)
threading.setprofile(trace)
sys.setprofile(trace)
from truerank.cli.main import run
try:
    run()
except SystemExit:
    pass
finally:
    sys.setprofile(None)
    print(json.dumps(sorted(called)), file=sys.stderr)
"""


def modules_run(arguments: list[str]) -> list[str]:
    """Return the modules with at least one function that the command calls."""
    run = subprocess.run(
        [sys.executable, "-c", TRACED, *arguments], capture_output=True, text=True, check=True
    )
    called = [Path(name) for name in json.loads(run.stderr.splitlines()[-1])]
    inside = [path.relative_to(ROOT) for path in called if path.is_relative_to(ROOT)]
    return sorted(str(path) for path in inside if path.name != "__init__.py")


def processor_seconds(arguments: list[str]) -> float:
    """Return the least processor seconds of five runs of the command."""
    code = "from truerank.cli.main import run; run()"
    seconds = []
    for _ in range(5):
        before = os.times()
        subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, check=True)
        after = os.times()
        seconds.append(
            after.children_user + after.children_system - before.children_user - before.children_system
        )
    return min(seconds)


def main() -> None:
    """Print the table."""
    sizes = {path.relative_to(ROOT): len(path.read_text().splitlines()) for path in ROOT.rglob("*.py")}
    modules = {path: size for path, size in sizes.items() if path.name != "__init__.py"}
    largest = max(modules, key=lambda path: modules[path])
    print(f"modules {len(modules)} ({len(sizes)} files), lines {sum(sizes.values()):,}")
    print(
        f"median {statistics.median(modules.values()):.0f} lines, largest {largest} with {modules[largest]}"
    )
    flat = Counter(str(path.parent) for path in modules)
    print("largest folders:", ", ".join(f"{name} {size}" for name, size in flat.most_common(6)))
    for name, arguments in WALKS.items():
        run = modules_run(arguments)
        folders = {path.split("/")[0] for path in run if "/" in path}
        print(f"{name}: {len(run)} modules in {len(folders)} folders run by 'truerank {' '.join(arguments)}'")
    for option in ("--version", "--help"):
        print(f"truerank {option}: {processor_seconds([option]):.2f} s of processor time")


if __name__ == "__main__":
    main()
