"""A driver to be killed, in a process of its own: ``python -m tests.distributed.driver ENGINE RUNS KEPT``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.distributed.jobs import Square, squares
from truerank.core.checkpoint import Store
from truerank.core.errors import TruerankError
from truerank.distributed.engine import ENGINES, started
from truerank.distributed.storage import work_folder

#: Tasks of the job; a second each, so that it outlasts whatever happens to it.
N_TASKS = 600


def main(engine: str, folder: str, kept: str) -> int:
    """Run a long job on an engine, as commands do, and return the exit code."""
    try:
        with work_folder(None) as work, started(ENGINES.make(engine)) as running:
            (Path(work) / "items.npy").write_bytes(b"something to leave behind")
            running.map(Square(folder, seconds=1.0), squares(N_TASKS), store=Store(kept))
    except TruerankError as error:
        sys.stderr.write(f"truerank: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
