"""Published figures on MovieLens-1M with the split of He et al. (2017).

Krichene and Rendle (2020), Table 3, exact metrics: seen items removed, one target per user. Ranks are
computed here from rows of scores by plain comparison; ties give the mean gain over the tied block.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from truerank.core.interactions import Interactions
from truerank.core.scorer import Scorer
from truerank.core.types import IntArray
from truerank.models.registry import MODELS

FOLDER = Path(os.environ.get("TRUERANK_DATA", Path(__file__).parents[3] / "shared" / "data"))
FILE = FOLDER / "ml-1m.parquet"

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not FILE.exists(), reason="ml-1m.parquet is not in TRUERANK_DATA or ../shared/data"),
]


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    train: Interactions
    target: IntArray  # one item per user

    def metrics(self, scorer: Scorer) -> dict[str, float]:
        """Recall@10, NDCG@10, AP and AUC in percent."""
        n_users, n_items = self.train.n_users, self.train.n_items
        rank = np.arange(1, n_items + 1)
        gains = {
            "recall": np.where(rank <= 10, 1.0, 0.0),
            "ndcg": np.where(rank <= 10, 1 / np.log2(rank + 1), 0.0),
            "ap": 1 / rank,
        }
        totals = dict.fromkeys([*gains, "auc"], 0.0)
        for user in range(n_users):
            scores = scorer.score(np.array([user]), np.arange(n_items))[0].astype(np.float64)
            mine = scores[self.target[user]]
            pool = np.delete(scores, self.train.by_user().of(user))
            above, tied = int((pool > mine).sum()), int((pool == mine).sum())  # tied counts the target
            for name, gain in gains.items():
                totals[name] += gain[above : above + tied].mean()
            totals["auc"] += (len(pool) - (above + (tied + 1) / 2)) / (len(pool) - 1)
        return {name: 100 * total / n_users for name, total in totals.items()}


@pytest.fixture(scope="module")
def split() -> LeaveOneOut:
    frame = pl.read_parquet(FILE, columns=["ncf_user", "ncf_item", "ncf_split"])
    is_train = (frame["ncf_split"].cast(pl.String) == "train").to_numpy()
    user = frame["ncf_user"].to_numpy().astype(np.int64)
    item = frame["ncf_item"].to_numpy().astype(np.int64)
    train = Interactions.from_codes(user[is_train], item[is_train], n_users=6040, n_items=3706)
    target = np.empty(6040, dtype=np.int64)
    target[user[~is_train]] = item[~is_train]
    assert (len(train), int((~is_train).sum())) == (994_169, 6_040)
    return LeaveOneOut(train, target)


def test_recommender_y(split: LeaveOneOut) -> None:
    """All four printed figures to the last digit."""
    found = split.metrics(MODELS.make("kr20-y").fit(split.train))
    assert {name: round(value, 2) for name, value in found.items()} == {
        "recall": 8.84,
        "ndcg": 4.59,
        "ap": 4.32,
        "auc": 85.33,
    }


def test_recommender_z(split: LeaveOneOut) -> None:
    """Recall, NDCG and AP as printed; AUC 74.73 within 0.1, since 43 % of the targets are tied."""
    found = split.metrics(MODELS.make("kr20-z").fit(split.train))
    assert {name: round(found[name], 2) for name in ("recall", "ndcg", "ap")} == {
        "recall": 9.42,
        "ndcg": 4.79,
        "ap": 4.44,
    }
    assert found["auc"] == pytest.approx(74.73, abs=0.1)


def test_recommender_x(split: LeaveOneOut) -> None:
    """Printed: 7.60, 3.76, 3.75, 89.13, from an unknown start and number of sweeps.

    Over 8 starts Recall@10 lies in 7.45..7.77 and AUC in 89.20..89.31, so that is as near as one gets.
    """
    found = split.metrics(MODELS.make("kr20-x").fit(split.train))
    assert found["recall"] == pytest.approx(7.60, abs=0.4)
    assert found["ndcg"] == pytest.approx(3.76, abs=0.15)
    assert found["ap"] == pytest.approx(3.75, abs=0.15)
    assert found["auc"] == pytest.approx(89.13, abs=0.25)


def test_ease_beats_them_all(split: LeaveOneOut) -> None:
    """No figure is printed for EASE on this split; it must lead at the top, and popularity must trail."""
    ease = split.metrics(MODELS.make("ease").fit(split.train))
    popularity = split.metrics(MODELS.make("popularity").fit(split.train))
    assert round(ease["ndcg"], 2) == 5.59
    assert round(popularity["ndcg"], 2) == 2.04
