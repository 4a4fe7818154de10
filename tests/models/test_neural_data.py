"""Models trained in epochs on real data."""

from __future__ import annotations

import numpy as np
import pytest

from truerank.core.split import Split
from truerank.data.catalogue import find_local, load
from truerank.metrics.registry import make_metrics, values
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks
from truerank.split.base import SPLITS

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(find_local("ml-100k") is None, reason="ml-100k is not on this machine"),
]


@pytest.fixture(scope="module")
def split() -> Split:
    return SPLITS.make("leave-last-out").split(load("ml-100k"))


def ndcg(spec: str, split: Split) -> float:
    ranks = exact_ranks(MODELS.make(spec).fit(split.train), split)
    return float(values(make_metrics("ndcg@10"), ranks).mean())


def test_mf_leads_bias_only_which_is_about_popularity(split: Split) -> None:
    popularity, bias = ndcg("popularity", split), ndcg("bias-only", split)
    assert bias == pytest.approx(popularity, rel=0.25)
    assert ndcg("mf", split) > max(popularity, bias)


def test_ratings_of_mf_are_better_than_those_of_biases(split: Split) -> None:
    """Root mean squared error on the last event of each user."""

    def error(spec: str) -> float:
        scorer = MODELS.make(spec).fit(split.train)
        assert split.test.value is not None
        found = scorer.score(split.test.user, split.test.item[:, None])[:, 0]
        return float(np.sqrt(((found - split.test.value) ** 2).mean()))

    assert split.train.value is not None
    spread = float(np.sqrt(((split.test.value - split.train.value.mean()) ** 2).mean()))
    bias = error("s21-bias-only(loss=mse, epochs=10)")
    assert bias < 0.95 * spread
    assert error("mf(loss=mse, factors=8, epochs=10, learning_rate=0.002, weight_decay=1e-4)") < bias
