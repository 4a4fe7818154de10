"""The stacks of one protocol: which models, widths and learning rates are trained on which sub-samples.

Needs NumPy, torch and the library's networks, nothing else: a machine with a device needs no data sets, only
the files that ``prepare`` makes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.svp_cf.fitting import Fitted, fit
from benchmarks.svp_cf.stack import Events, Members, Problem, Training

RATES = (0.001, 0.006, 0.02)
WIDTHS = (8, 32)
#: training of the published code by data set
TRAINING = {
    "amazon-magazine-svpcf": Training(epochs=120, every=5, patience=6, batch=1024, max_length=10),
    "ml-100k": Training(epochs=100, every=5, patience=5, batch=1024, max_length=100),
}
#: what differs by model: the values of the library's presets
CHANGES: dict[str, dict[str, Any]] = {
    "mf": {"dropout": 0.3},
    "neumf": {"dropout": 0.3},
    "sasrec": {"dropout": 0.3},
    "svae": {"beta2": 0.999},
}
MODELS = {
    "explicit": ("bias-only", "mf", "neumf"),
    "implicit": ("popularity", "bias-only", "mf", "neumf", "multi-vae"),
    "sequential": ("popularity", "bias-only", "mf", "neumf", "multi-vae", "svae", "sasrec"),
}
#: sub-samples with fewer train events, users or items are skipped by the published code
LEAST = (100, 50, 50)
#: members that are trained together, by model: as many as fit into the memory of the device
MOST = {"svae": 48, "sasrec": 48}


@dataclass(frozen=True)
class StackName:
    """One stack: all strategies, learning rates and seeds of one model and width at one fraction."""

    dataset: str
    protocol: str
    scenario: str
    model: str
    width: int
    fraction: float

    def __str__(self) -> str:
        return f"{self.dataset} {self.protocol} {self.scenario} {self.model} {self.width} {self.fraction:g}"

    @property
    def problem(self) -> str:
        """Name of the file with its events and sub-samples."""
        return f"{self.dataset}.{self.protocol}.{self.scenario}"


def stack_names(
    dataset: str, protocol: str, scenario: str, fractions: Sequence[float]
) -> Iterator[StackName]:
    """Yield all stacks of one scenario; the full data are the fraction 1."""
    for model in MODELS[scenario]:
        for width in (0,) if model in ("popularity", "bias-only") else WIDTHS:
            for fraction in (1.0, *fractions):
                yield StackName(dataset, protocol, scenario, model, width, fraction)


class Prepared:
    """Events and sub-samples of one scenario, read from a file and put on a device."""

    def __init__(self, path: Path, device: str) -> None:
        with np.load(path) as file:
            arrays: dict[str, Any] = dict(file)
        self.device = device
        self.strategies = arrays["strategies"].tolist()
        self.fractions = arrays["fractions"].tolist()
        self.seeds = arrays["seeds"].tolist()
        self.rows = arrays["rows"]  # (strategies, fractions, seeds, bytes) packed masks

        def events(part: str) -> Events:
            columns = (arrays[f"{part}_{name}"] for name in ("user", "item", "value"))
            user, item, value = (torch.tensor(column, device=device) for column in columns)
            return Events(user.long(), item.long(), value.float())

        self.problem = Problem(
            int(arrays["n_users"]),
            int(arrays["n_items"]),
            events("train"),
            events("valid"),
            events("test"),
            is_explicit=bool(arrays["is_explicit"]),
            own_seen=bool(arrays["own_seen"]),
            known_valid=bool(arrays["known_valid"]),
            surviving=bool(arrays["surviving"]),
        )
        self.has_limits = bool(arrays["has_limits"])

    def masks(self, fraction: float) -> np.ndarray:
        """Return (strategies or 1, seeds, n_events) masks."""
        n = len(self.problem.train)
        if fraction == 1:
            return np.ones((1, len(self.seeds), n), bool)
        rows = self.rows[:, self.fractions.index(fraction)]
        return np.unpackbits(rows, axis=-1, count=n).astype(bool)

    def is_large_enough(self, mask: np.ndarray) -> bool:
        """Whether the published code would use the sub-sample."""
        user, item = self.problem.train.user.cpu().numpy(), self.problem.train.item.cpu().numpy()
        sizes = mask.sum(), len(np.unique(user[mask])), len(np.unique(item[mask]))
        return not self.has_limits or all(size >= least for size, least in zip(sizes, LEAST, strict=True))


def run_stack(name: StackName, prepared: Prepared, seeds: Sequence[int]) -> dict[str, np.ndarray]:
    """Train one stack; return values by strategy, seed and learning rate, NaN where nothing was trained."""
    training = replace(TRAINING[name.dataset], **CHANGES.get(name.model, {}))
    masks = prepared.masks(name.fraction)
    rates = RATES[:1] if name.model == "popularity" else RATES
    places = [
        (a, prepared.seeds.index(seed), r)
        for a in range(len(masks))
        for seed in seeds
        for r in range(len(rates))
        if prepared.is_large_enough(masks[a, prepared.seeds.index(seed)])
    ]
    shape = (len(masks), len(prepared.seeds), len(rates))
    n_metrics = 1 if name.scenario == "explicit" else 3
    out = {
        "valid": np.full((*shape, n_metrics), np.nan),
        "test": np.full((*shape, n_metrics), np.nan),
        "best": np.zeros(shape, np.int16),
        "last": np.zeros(shape, np.int16),
    }
    most = MOST.get(name.model, len(places)) if name.dataset == "ml-100k" else max(1, len(places))
    for start in range(0, len(places), most):
        part = places[start : start + most]
        members = Members(
            torch.tensor(np.stack([masks[a, s] for a, s, _ in part]), device=prepared.device),
            torch.tensor([rates[r] for *_, r in part], device=prepared.device),
            [prepared.seeds[s] for _, s, _ in part],
            torch.arange(len(part), device=prepared.device),
        )
        found: Fitted = fit(name.model, prepared.problem, members, training, name.width)
        for index, place in enumerate(part):
            for key, array in out.items():
                array[place] = getattr(found, key)[index]
    return out


def run_job(
    folder: Path,
    problems: Sequence[tuple[str, str, str]],
    out: Path,
    *,
    seeds: Sequence[int],
    device: str,
    until: float,
    label: str,
    models: Sequence[str] = (),
    done: frozenset[str] = frozenset(),
    fractions: Sequence[float] = (),
) -> None:
    """Train the stacks of some (data set, protocol, scenario) and write one file, as far as the time goes.

    The full data are trained on under all seeds, by the run that has the first one.
    """
    results: dict[str, np.ndarray] = {}
    path = out / f"{label}.npz"
    for dataset, protocol, scenario in problems:
        prepared = Prepared(folder / f"{dataset}.{protocol}.{scenario}.npz", device)
        for name in stack_names(dataset, protocol, scenario, fractions or prepared.fractions):
            started, is_full = time.time(), name.fraction == 1
            is_other = (models and name.model not in models) or str(name) in done
            if is_other or (is_full and prepared.seeds[0] not in seeds):
                continue
            if started > until:
                print(f"out of time before {name}", flush=True)
                return
            for key, array in run_stack(name, prepared, prepared.seeds if is_full else seeds).items():
                results[f"{name}/{key}"] = array
            named: dict[str, Any] = results
            np.savez_compressed(path.with_suffix(".part.npz"), **named)
            path.with_suffix(".part.npz").rename(path)
            print(f"{time.time() - started:6.2f} s {name}", flush=True)
