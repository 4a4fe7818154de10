"""What a proxy costs: training it, asking it about every event after each epoch, and choosing events.

The floor is the training alone; the issue is how much asking adds to it. The rival of asking is the same in
NumPy: negatives by rejection, scores by ``einsum`` in blocks. That both count alike is asserted on the first
data set. Data: ml-1m, and events made as in ``read_interactions``. Figures are CPU seconds of all threads per
epoch, the least of several turns; training runs on one thread, asking on all.

A step of Adam moves every parameter, so an epoch costs so much per event and so much per parameter and batch.
The estimate for 20 million events takes the first rate from the larger made data set, moves included, and the
second from few events over as many users and items as 20 million events have. ``--check`` runs one epoch.

    python -m benchmarks.subsample_proxy [--rows 1000000,2000000] [--turns 3] [--check]
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import folder_name, machine
from benchmarks.read_interactions import generate
from truerank.core.interactions import Interactions
from truerank.core.scorer import Factors
from truerank.core.types import FloatArray, IntArray
from truerank.data.catalogue import find_local, load
from truerank.data.read import read_interactions
from truerank.subsampling.importance import Difficulty, importance, make_proxy
from truerank.subsampling.subsample import subsample

EPOCHS, BATCH, FACTORS = 50, 1024, 10  # of the proxies
FULL, FULL_SIZE = 20_000_000, (138_000, 27_000)  # events, and users and items of so many made ones
CASES = (("mf", "implicit"), ("bias", "implicit"), ("mf", "explicit"), ("bias", "explicit"))
BLOCK = 1 << 14


def seconds(job: Callable[[], object], turns: int) -> float:
    """Return the CPU seconds of the fastest turn."""
    found = []
    for _ in range(turns):
        start = time.process_time()
        job()
        found.append(time.process_time() - start)
    return min(found)


def ask_by_numpy(events: Interactions, fitted: Factors, feedback: str) -> FloatArray:
    """Return what the model gets wrong, by NumPy alone."""
    wrong = np.zeros(len(events))
    draw = np.random.default_rng(0)
    met = events.by_user()
    keys = np.repeat(np.arange(events.n_users), met.lengths()) * events.n_items + met.items
    for first in range(0, len(events), BLOCK):
        block = slice(first, first + BLOCK)
        user, item = events.user[block].astype(np.int64), events.item[block].astype(np.int64)
        if feedback == "explicit":
            wrong[block] = (fitted.score(user, item[:, None])[:, 0] - np.asarray(events.value)[block]) ** 2
        else:
            scores = fitted.score(user, np.column_stack([item, unmet(user, keys, events.n_items, draw)]))
            wrong[block] = scores[:, 1] > scores[:, 0]
    return wrong


def unmet(user: IntArray, keys: IntArray, n_items: int, draw: np.random.Generator) -> IntArray:
    """Return one item per row that the user has not met, by rejection."""
    item = draw.integers(0, n_items, len(user))
    rows = np.arange(len(user))
    while len(rows):
        asked = user[rows] * n_items + item[rows]
        found = keys[np.minimum(np.searchsorted(keys, asked), len(keys) - 1)] == asked
        rows = rows[found]
        item[rows] = draw.integers(0, n_items, len(rows))
    return item


def train_s(events: Interactions, proxy: str, feedback: Any, turns: int) -> tuple[float, float]:
    """Return the seconds of an epoch, and of what is done once per fit."""
    once, twice = (seconds(partial(make_proxy(proxy, feedback, epochs=n).fit, events), turns) for n in (1, 2))
    return twice - once, max(2 * once - twice, 0.0)


def measure(name: str, events: Interactions, proxy: str, feedback: Any, turns: int) -> dict[str, Any]:
    """Measure one data set and one proxy."""
    training, fixed = train_s(events, proxy, feedback, turns)
    scorer = make_proxy(proxy, feedback, epochs=1).fit(events)
    assert isinstance(scorer, Factors)
    difficulty = Difficulty(events, feedback=feedback)
    asking = seconds(lambda: difficulty.add(scorer), turns)
    by_numpy = seconds(lambda: ask_by_numpy(events, scorer, feedback), 1)
    given = difficulty.mean()
    spec = f"svp-cf-prop(proxy={proxy}, feedback={feedback}, unit=user)"
    choosing = seconds(lambda: subsample(events, spec, 0.1, importance=given), 1)
    return {
        "data": name,
        "events": len(events),
        "proxy": proxy,
        "feedback": feedback,
        "training_s": training,
        "asking_s": asking,
        "numpy_over_ours": by_numpy / asking,
        "training_share": training / (training + asking),
        "choosing_s": choosing,
        "all_s": fixed + EPOCHS * (training + asking) + choosing,
    }


def moves(n_events: int, n_users: int, n_items: int, proxy: str) -> int:
    """Return how many parameters are moved in an epoch."""
    return -(-n_events // BATCH) * (n_users + n_items) * (FACTORS + 1 if proxy == "mf" else 1)


def check(events: Interactions) -> None:
    """Assert that NumPy and compiled code agree: event by event for ratings, on average for negatives."""
    for proxy, feedback in CASES:
        scorer = make_proxy(proxy, feedback, epochs=1).fit(events)  # type: ignore[arg-type]
        assert isinstance(scorer, Factors)
        difficulty = Difficulty(events, feedback=feedback)  # type: ignore[arg-type]
        difficulty.add(scorer)
        ours, theirs = difficulty.mean(), ask_by_numpy(events, scorer, feedback)
        if feedback == "explicit":
            assert np.allclose(ours, theirs, rtol=1e-6, atol=1e-9)
        else:
            spread = np.sqrt(2 * ours.mean() * (1 - ours.mean()) / len(events))
            assert abs(ours.mean() - theirs.mean()) < 6 * spread


def extrapolate(large: dict[str, Any], wide: Interactions, turns: int) -> dict[str, Any]:
    """Return what 20 million events would cost, from a measured data set and few events of many users."""
    proxy, feedback = large["proxy"], large["feedback"]
    per_event = large["training_s"] / large["events"]
    few = train_s(wide, proxy, feedback, turns)[0]
    per_move = (few - per_event * len(wide)) / moves(len(wide), wide.n_users, wide.n_items, proxy)
    training = per_event * FULL + per_move * moves(FULL, *FULL_SIZE, proxy)
    asking = large["asking_s"] / large["events"] * FULL
    return {
        "proxy": proxy,
        "feedback": feedback,
        "ns_per_event": 1e9 * per_event,
        "ns_per_move": 1e9 * per_move,
        "training_s": training,
        "asking_s": asking,
        "all_s": EPOCHS * (training + asking),
    }


def show(case: dict[str, Any]) -> None:
    """Print one line."""
    print(
        f"{case['data']:14} {case['proxy']:5} {case['feedback']:9} {case['training_s']:9.3f} "
        f"{case['asking_s']:8.3f} {case['training_share']:7.0%} {case['numpy_over_ours']:8.1f} "
        f"{case['choosing_s']:9.2f} {case['all_s']:7.1f}",
        flush=True,
    )


def made(rows: int) -> Interactions:
    """Return so many made events, repeated pairs kept."""
    with tempfile.TemporaryDirectory() as folder:
        generate(Path(folder) / "events.parquet", rows)
        return read_interactions(Path(folder) / "events.parquet", duplicates="keep")


def main() -> None:
    """Measure, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--rows", default="1000000,2000000", help="sizes of made data, the largest last")
    options.add_argument("--turns", type=int, default=3)
    options.add_argument("--check", action="store_true", help="run one epoch on 20 million events")
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = options.parse_args()
    importance(Interactions.from_codes([0, 1], [0, 1]), "mf", epochs=1)  # compile
    data = {f"made {int(rows):,}": made(int(rows)) for rows in given.rows.split(",")}
    if find_local("ml-1m") is not None:
        data = {"ml-1m": load("ml-1m"), **data}
    check(next(iter(data.values())))
    print("                               training   asking             asking  choosing   CPU s of")
    print("data           proxy feedback   s/epoch  s/epoch   share  NumPy/it         s  50 epochs")
    cases = []
    for name, events in data.items():
        for proxy, feedback in CASES:
            cases.append(measure(name, events, proxy, feedback, given.turns))
            show(cases[-1])
    wide = Interactions.from_codes(
        np.arange(200_000) % FULL_SIZE[0],
        np.arange(200_000) * 7 % FULL_SIZE[1],
        n_users=FULL_SIZE[0],
        n_items=FULL_SIZE[1],
        value=np.ones(200_000),
    )
    estimates = [extrapolate(case, wide, given.turns) for case in cases[-len(CASES) :]]
    for one in estimates:
        print(
            f"20 million events, {one['proxy']} {one['feedback']}: {one['ns_per_event']:.0f} ns per event, "
            f"{one['ns_per_move']:.2f} ns per parameter and batch make {one['training_s']:.0f} s an epoch, "
            f"asking {one['asking_s']:.1f} s; 50 epochs {one['all_s'] / 60:.0f} CPU minutes"
        )
    checked = None
    if given.check:
        full = made(FULL)
        checked = seconds(lambda: importance(full, "mf", epochs=1), 1)
        print(f"20 million events, mf implicit, one epoch with all that is done once: {checked:.0f} CPU s")
    about = machine()
    target_file = given.out / folder_name() / "subsample_proxy.json"
    target_file.parent.mkdir(parents=True, exist_ok=True)
    record = {"benchmark": "subsample_proxy", "machine": about, "epochs": EPOCHS, "cases": cases}
    record |= {"estimates_20_million": estimates, "one_epoch_of_mf_20_million_s": checked}
    target_file.write_text(json.dumps(record, indent=2) + "\n")
    print(f"written to {target_file}", file=sys.stderr)


if __name__ == "__main__":
    main()
