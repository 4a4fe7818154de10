"""How far two seeds, and the two ways of asking a proxy, agree on which events are hardest.

For each way the hardest fifth of the events of ml-100k is kept with seeds 0 and 1, and with ``legacy=true``
(scores in training) with seed 0. Overlap is the share of the kept events that both keep; by chance it is 0.2.
Beside it Spearman's correlation of the importance of all events.

    python -m benchmarks.subsample_seeds [--data ml-100k] [--fraction 0.2]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from benchmarks.machine import folder_name, machine
from truerank.core.interactions import Interactions
from truerank.core.types import FloatArray
from truerank.data.catalogue import load
from truerank.subsampling.base import STRATEGIES
from truerank.subsampling.importance import importance

CASES: tuple[tuple[str, str, int], ...] = (
    *(("mf", "implicit", 1), ("mf", "implicit", 4), ("mf", "implicit", 20), ("bias", "implicit", 1)),
    *(("mf", "explicit", 1), ("bias", "explicit", 1)),
)


def compare(events: Interactions, fraction: float, found: list[FloatArray]) -> tuple[float, float]:
    """Return overlap and correlation of two importances, the first kept with seed 0, the second with 1."""
    strategy: Any = STRATEGIES.make("svp-cf")
    masks = [strategy.keep_by(events, one, fraction, seed=seed) for seed, one in enumerate(found)]
    overlap = float(np.sum(masks[0] & masks[1]) / np.sum(masks[0]))
    return overlap, float(spearmanr(found[0], found[1]).statistic)


def main() -> None:
    """Compute, print and write the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("--data", default="ml-100k")
    options.add_argument("--fraction", type=float, default=0.2)
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    given = options.parse_args()
    events = load(given.data)
    print("proxy feedback  negatives  two seeds: overlap  rho  legacy: overlap  rho")
    cases = []
    for proxy, feedback, negatives in CASES:
        asked: dict[str, Any] = {"feedback": feedback, "negatives": negatives}
        first, second = (importance(events, proxy, seed=seed, **asked) for seed in (0, 1))
        case = {"proxy": proxy, **asked, "seeds": compare(events, given.fraction, [first, second])}
        if negatives == 1:
            other = importance(events, proxy, legacy=True, **asked)
            case["legacy"] = compare(events, given.fraction, [first, other])
        shown = [f"{value:.3f}" for key in ("seeds", "legacy") for value in case.get(key, ())]
        print(f"{proxy:5} {feedback:9} {negatives:9}  {'  '.join(shown)}", flush=True)
        cases.append(case)
    about = machine()
    folder = given.out / folder_name()
    folder.mkdir(parents=True, exist_ok=True)
    record = {"benchmark": "subsample_seeds", "machine": about, "data": given.data}
    record |= {"fraction": given.fraction, "cases": cases}
    (folder / "subsample_seeds.json").write_text(json.dumps(record, indent=2) + "\n")
    print(f"written to {folder / 'subsample_seeds.json'}", file=sys.stderr)


if __name__ == "__main__":
    main()
