"""The stacks of one protocol: which models, widths and learning rates are trained on which sub-samples.

Needs NumPy, torch and the library's networks, nothing else: a machine with a device needs no data sets, only
the files that ``prepare`` makes.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Mapping, Sequence
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
#: the same for the published protocol
AS_CODED: dict[str, dict[str, Any]] = {**CHANGES, "svae": {"beta2": 0.98}}
MODELS = {
    "explicit": ("bias-only", "mf", "neumf"),
    "implicit": ("popularity", "bias-only", "mf", "neumf", "multi-vae"),
    "sequential": ("popularity", "bias-only", "mf", "neumf", "multi-vae", "svae", "sasrec"),
}
#: narrow networks come first, since one width of a model is enough to compare; of a width, long fits do
LONGEST_FIRST = ("svae", "sasrec", "neumf", "mf", "multi-vae", "bias-only", "popularity")
#: members that are trained together, by model: as many as fit into the memory of the device
MOST = {"svae": 48, "sasrec": 24}


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
            as_coded=bool(arrays["as_coded"]),
        )
        self.least_events = int(arrays["least_events"])

    def masks(self, fraction: float) -> np.ndarray:
        """Return (strategies or 1, seeds, n_events) masks."""
        n = len(self.problem.train)
        if fraction == 1:
            return np.ones((1, len(self.seeds), n), bool)
        rows = self.rows[:, self.fractions.index(fraction)]
        return np.unpackbits(rows, axis=-1, count=n).astype(bool)


def run_stack(
    name: StackName, prepared: Prepared, seeds: Sequence[int], known: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Train what is missing of one stack; return values by strategy, seed and learning rate.

    Values are NaN where nothing was trained, because the sub-sample is too small or its seed was not asked
    for. Members whose values are known keep them.
    """
    changes = AS_CODED if prepared.problem.as_coded else CHANGES
    training = replace(TRAINING[name.dataset], **changes.get(name.model, {}))
    masks = prepared.masks(name.fraction)
    rates = RATES[:1] if name.model == "popularity" else RATES
    shape = (len(masks), len(prepared.seeds), len(rates))
    n_metrics = 1 if name.scenario == "explicit" else 3
    empty: dict[str, np.ndarray] = {
        "valid": np.full((*shape, n_metrics), np.nan, np.float32),
        "test": np.full((*shape, n_metrics), np.nan, np.float32),
        "best": np.zeros(shape, np.int16),
        "last": np.zeros(shape, np.int16),
    }
    out = {key: known.get(f"{name}/{key}", array).copy() for key, array in empty.items()}
    places = [
        (a, s, r)
        for a in range(len(masks))
        for s in (prepared.seeds.index(seed) for seed in seeds)
        if masks[a, s].sum() >= prepared.least_events
        for r in range(len(rates))
        if np.isnan(out["test"][a, s, r]).all()
    ]
    most = MOST.get(name.model, len(places)) if name.dataset == "ml-100k" else len(places)
    for start in range(0, len(places), max(1, most)):
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


@dataclass(frozen=True)
class Job:
    """What some workers train together.

    Parameters
    ----------
    folder : the files that ``prepare`` made
    out : each worker writes a file there after every stack
    problems : with the seeds of their sub-samples; the full data are trained on under all seeds
    models : all where there are none
    device : of torch
    until : no stack starts later
    done : files with results; what they hold is not trained again
    """

    folder: Path
    out: Path
    problems: Mapping[tuple[str, str, str], Sequence[int]]
    models: Sequence[str]
    device: str
    until: float
    done: Sequence[Path]

    def names(self) -> list[StackName]:
        """Return the stacks in the order in which they are started."""
        order = []
        for place, (dataset, protocol, scenario) in enumerate(self.problems):
            with np.load(self.folder / f"{dataset}.{protocol}.{scenario}.npz") as file:
                fractions = file["fractions"].tolist()
            for name in stack_names(dataset, protocol, scenario, fractions):
                if not self.models or name.model in self.models:
                    rank = LONGEST_FIRST.index(name.model)
                    order.append((name.width > WIDTHS[0], place, rank, -name.fraction, name))
        return [name for *_, name in sorted(order, key=lambda entry: entry[:4])]

    def run(self, workers: int) -> None:
        """Train all stacks, each by the next worker that is free."""
        context = multiprocessing.get_context("spawn")
        waiting = context.Queue()
        for name in (*self.names(), *[None] * workers):
            waiting.put(name)
        processes = [
            context.Process(target=self.work, args=(waiting, f"worker{number}")) for number in range(workers)
        ]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        n_failed = sum(process.exitcode != 0 for process in processes)
        if n_failed:
            waiting.cancel_join_thread()  # nobody reads the names that wait
            raise SystemExit(f"{n_failed} of {workers} workers failed; run again with --done for the rest.")

    def work(self, waiting: Any, label: str) -> None:
        """Train stacks until none waits or the time is over."""
        known = read_results(self.done)
        prepared: dict[str, Prepared] = {}
        results: dict[str, Any] = {}
        while (name := waiting.get()) is not None:
            started = time.time()
            if started > self.until:
                print(f"out of time before {name}", flush=True)
                continue
            if name.problem not in prepared:
                prepared = {name.problem: Prepared(self.folder / f"{name.problem}.npz", self.device)}
            problem = prepared[name.problem]
            seeds = self.problems[name.dataset, name.protocol, name.scenario]
            for key, array in run_stack(
                name, problem, problem.seeds if name.fraction == 1 else seeds, known
            ).items():
                results[f"{name}/{key}"] = array
            part = self.out / f"{label}.part"
            with part.open("wb") as file:
                np.savez_compressed(file, **results)
            part.rename(self.out / f"{label}.npz")
            print(f"{time.time() - started:6.2f} s {name}", flush=True)
            if self.device == "cuda":
                torch.cuda.empty_cache()  # the other workers need the memory


def read_results(paths: Sequence[Path]) -> dict[str, np.ndarray]:
    """Return the arrays of all files; members of a stack that one file lacks are taken from another."""
    merged: dict[str, np.ndarray] = {}
    for path in paths:
        with np.load(path) as file:
            for key in file.files:
                array = file[key]
                if key in merged and array.dtype.kind == "f":
                    array = np.where(np.isnan(array), merged[key], array)
                elif key in merged:
                    array = np.maximum(array, merged[key])
                merged[key] = array
    return merged
