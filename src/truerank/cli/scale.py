"""What a job of a given size costs on many machines: ``truerank plan --scale``."""

from __future__ import annotations

import json
from dataclasses import asdict

from truerank.cli.output import Format, emit, say, table_text
from truerank.core.errors import InvalidParameter

COLUMNS = ("ranks", "workers", "wall time", "core hours", "a worker", "of it shared", "driver", "tasks")
GPU_COLUMNS = ("ranks", "GPUs", "wall time", "a GPU", "hosts together")


def show_scale(size: str, workers: int, negatives: tuple[int, ...], style: Format) -> None:
    """Print what ranking USERSxITEMSxDIMENSIONS takes, exact and sampled."""
    from truerank.cluster.cost import Work, predict
    from truerank.cluster.evaluation import MOST_RANKS

    users, items, dims = parse_size(size)
    wanted = (None, *negatives)
    works = [Work(users, items, dims, negatives=m, workers=workers) for m in wanted if m is None or m < items]
    costs = [predict(work, keep_ranks=work.negatives is not None or users <= MOST_RANKS) for work in works]
    say(
        f"{users:,} users x {items:,} items x {dims} dimensions on {workers:,} cores like those of an AMD "
        "EPYC server (Zen 4): a model fitted to runs, off by up to about 30 % on runs it was not fitted to."
    )
    if style is Format.json:
        found = [{**asdict(work), **asdict(cost)} for work, cost in zip(works, costs, strict=True)]
        emit(json.dumps(found, indent=2))
        return
    rows = [
        (
            "exact" if work.negatives is None else f"{work.negatives} sampled",
            str(workers),
            duration(cost.seconds),
            f"{cost.core_seconds / 3600:.3g}",
            size_text(cost.worker_bytes),
            size_text(cost.shared_bytes),
            size_text(cost.driver_bytes),
            str(cost.tasks),
        )
        for work, cost in zip(works, costs, strict=True)
    ]
    emit(table_text(COLUMNS, rows, style))


def show_scale_on_gpus(size: str, gpus: int, negatives: tuple[int, ...], style: Format) -> None:
    """Print what ranking USERSxITEMSxDIMENSIONS takes on GPUs, exact and sampled."""
    from truerank.cluster.cost import Work
    from truerank.cluster.gpu_cost import predict_gpu

    users, items, dims = parse_size(size)
    works = [Work(users, items, dims, negatives=m) for m in (None, *negatives) if m is None or m < items]
    costs = [predict_gpu(work, gpus) for work in works]
    say(
        f"{users:,} users x {items:,} items x {dims} dimensions on {gpus:,} GPUs like an H200, from the "
        "memory of their hosts: a model fitted to runs, off by up to about 30 % on runs it was not fitted to."
    )
    if style is Format.json:
        rows = [{**asdict(work), **asdict(cost)} for work, cost in zip(works, costs, strict=True)]
        emit(json.dumps([{**row, "workers": 0, "gpus": gpus} for row in rows], indent=2))
        return
    cells = [
        (
            "exact" if work.negatives is None else f"{work.negatives} sampled",
            str(gpus),
            duration(cost.seconds),
            size_text(cost.gpu_bytes),
            size_text(cost.host_bytes),
        )
        for work, cost in zip(works, costs, strict=True)
    ]
    emit(table_text(GPU_COLUMNS, cells, style))


def parse_size(text: str) -> tuple[int, int, int]:
    """Return users, items and dimensions.

    Examples
    --------
    >>> parse_size("1000000x20000x64"), parse_size("5e6x1e5")
    ((1000000, 20000, 64), (5000000, 100000, 64))
    """
    parts = text.lower().split("x")
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        numbers = []
    if len(numbers) not in (2, 3) or any(not 1 <= n < 1e15 or n != int(n) for n in numbers):
        raise InvalidParameter(f"--scale must be USERSxITEMS or USERSxITEMSxDIMENSIONS, got {text!r}.")
    users, items, dims = (int(n) for n in [*numbers, 64][:3])
    return users, items, dims


def duration(seconds: float) -> str:
    """Return seconds as people say them.

    Examples
    --------
    >>> duration(4.2), duration(600), duration(16_500)
    ('4.2 s', '10 min', '4.58 h')
    """
    if seconds < 100:
        return f"{seconds:.2g} s"
    return f"{seconds / 60:.3g} min" if seconds < 6000 else f"{seconds / 3600:.3g} h"


def size_text(n_bytes: float) -> str:
    """Return bytes as people say them.

    Examples
    --------
    >>> size_text(2.5e9), size_text(3e8)
    ('2.5 GB', '300 MB')
    """
    return f"{n_bytes / 1e9:.3g} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.3g} MB"
