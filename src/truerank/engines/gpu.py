"""The GPU of this machine."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from truerank.core.engine import Engine, Job, Outcome, Task
from truerank.engines.local import Local


@dataclass(frozen=True)
class Gpu(Engine):
    """Models with factors are ranked on a GPU, all else on the CPU; ranks equal those of the CPU.

    Jobs that are not an evaluation run in this process one task after the other.

    Parameters
    ----------
    device : as torch names it

    Examples
    --------
    >>> str(Gpu()), str(Gpu("cuda:1"))
    ('gpu', 'gpu(device=cuda:1)')
    """

    device: str = "cuda"

    key: ClassVar[str] = "gpu"

    def outcomes(self, job: Job, tasks: Sequence[Task]) -> Generator[Outcome, None, None]:
        """Yield outcomes in the order of the tasks."""
        yield from Local(threads=1).outcomes(job, tasks)
