"""Splits and sub-samples of both protocols as files that a machine without data sets can train on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from truerank.core.interactions import Interactions
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.split import Split
from truerank.papers.sachdeva2021_protocol import DATA, PROTOCOLS, AgreementProtocol, PaperData, plan_of
from truerank.subsampling.base import ProxyStrategy, Strategy
from truerank.subsampling.subsample import importance_for
from truerank.workflows.agreement.plan import AgreementPlan
from truerank.workflows.agreement.scenarios import RankingScenario, Scenario


def prepare(folder: Path, *, seeds: int, progress: Progress = SILENT) -> None:
    """Write one file for each data set at hand, protocol and scenario; files that are there stay."""
    for data in DATA:
        if not data.is_available:
            continue
        for protocol in PROTOCOLS.values():
            plan = plan_of(data, protocol.name, seeds=seeds)
            for scenario in plan.model_grids:
                path = folder / f"{data.dataset}.{protocol.name}.{scenario.key}.npz"
                if not path.exists():
                    arrays: dict[str, Any] = problem_arrays(data, protocol, plan, scenario, progress)
                    np.savez_compressed(path, **arrays)


def problem_arrays(
    data: PaperData, protocol: AgreementProtocol, plan: AgreementPlan, scenario: Scenario, progress: Progress
) -> dict[str, np.ndarray]:
    """Return the events of a scenario and the masks of all sub-samples."""
    split = in_time(scenario.divide(data.events(protocol), plan.seed))
    train = split.train
    drawn = {name: scenario.adapt_strategy(strategy) for name, strategy in plan.strategies.items()}
    known: dict[str, np.ndarray] = {}
    rows = np.zeros((len(drawn), len(plan.fractions), len(plan.seeds), -(-len(train) // 8)), dtype=np.uint8)
    with tracked(progress, f"sub-samples of {data.name}, {scenario.key}", rows[..., 0].size) as task:
        for a, strategy in enumerate(drawn.values()):
            for s, seed in enumerate(plan.seeds):
                for f, fraction in enumerate(plan.fractions):
                    rows[a, f, s] = np.packbits(_mask(strategy, train, fraction, seed, known))
                    task.advance()
    ranking = scenario if isinstance(scenario, RankingScenario) else None
    flags = {
        "is_explicit": ranking is None,
        "own_seen": ranking is not None and ranking.seen == "own",
        "known_valid": ranking is not None and ranking.known == "validation",
        "surviving": ranking is not None and ranking.catalogue == "surviving",
        "as_coded": protocol.as_coded,
        "least_events": plan.least_events,
    }
    sizes = {"n_users": train.n_users, "n_items": train.n_items}
    axes = {"strategies": list(drawn), "fractions": plan.fractions, "seeds": plan.seeds}
    arrays = {name: np.array(value) for name, value in {**flags, **sizes, **axes}.items()}
    for part, events in (("train", train), ("valid", split.valid), ("test", split.test)):
        if events is None:
            raise ValueError("both protocols have validation events")
        arrays |= _columns(part, events, ranking is not None and part != "train")
    return {**arrays, "rows": rows}


def in_time(split: Split) -> Split:
    """Return the split with its train events sorted by user and time, as histories are read."""
    train = split.train
    time = np.arange(len(train)) if train.time is None else train.time
    return replace(split, train=train.take(np.lexsort((time, train.user))))


def _columns(part: str, events: Interactions, is_distinct: bool) -> dict[str, np.ndarray]:
    value = np.zeros(len(events), np.float32) if events.value is None else events.value
    columns = {"user": events.user, "item": events.item, "value": value}
    rows: slice | np.ndarray = slice(None)
    if is_distinct:
        rows = np.unique(np.stack([events.user, events.item]), axis=1, return_index=True)[1]
    kinds = {"user": np.int32, "item": np.int32, "value": np.float32}
    return {f"{part}_{name}": np.asarray(column, kinds[name])[rows] for name, column in columns.items()}


def _mask(
    strategy: Strategy, train: Interactions, fraction: float, seed: int, known: dict[str, np.ndarray]
) -> np.ndarray:
    if not isinstance(strategy, ProxyStrategy):
        return strategy.keep(train, fraction, seed=seed)
    key = f"{strategy.proxy} {strategy.feedback} {strategy.legacy} {seed}"
    if key not in known:
        known[key] = importance_for(strategy, train, seed=seed)
    return strategy.keep_by(train, known[key], fraction, seed=seed)
