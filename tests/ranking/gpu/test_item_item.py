"""Item-item models on a device: the counts of the CPU, for full and sparse matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ranking.gpu.engines import ENGINES, Where
from tests.ranking.gpu.test_exact import same, split_of
from truerank.core.errors import DataWarning, InvalidParameter
from truerank.core.interactions import Lists
from truerank.core.ranks import SEEN_POLICIES, SeenPolicy
from truerank.core.scorer import HasItemWeights, ItemWeights
from truerank.models.registry import MODELS
from truerank.ranking.exact import exact_ranks, make_queries
from truerank.ranking.gpu import item_item
from truerank.ranking.gpu.exact import exact_ranks_gpu
from truerank.ranking.gpu.item_item import ItemWeightCounter

TRITON = [where for where in ENGINES if where["engine"] == "triton"]
SPECS = ["ease(reg=5)", "item-knn(neighbours=none)", "item-knn(neighbours=7)", "item-knn(neighbours=40)"]


@pytest.mark.skipif(not TRITON, reason="needs a GPU and triton, or TRITON_INTERPRET=1")
@pytest.mark.parametrize("seen", SEEN_POLICIES)
@pytest.mark.parametrize("spec", SPECS)
def test_equal_to_the_cpu(spec: str, seen: SeenPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    split = split_of()
    scorer = MODELS.make(spec).fit(split.train)
    expected = exact_ranks(scorer, split, seen=seen)
    assert same(exact_ranks_gpu(scorer, split, seen=seen, **TRITON[-1]), expected)
    monkeypatch.setattr(item_item, "SCORES", 200 * 7)
    done: list[int] = []
    assert isinstance(scorer, HasItemWeights)
    counter = ItemWeightCounter(scorer.item_weights(), device=TRITON[-1]["device"])
    counts = counter.count(make_queries(split, seen), done.append)
    assert (counts.n_above == expected.n_above).all()
    assert (counts.n_tied == expected.n_tied).all()
    assert max(done) == 7


def test_without_triton_the_cpu_ranks() -> None:
    split = split_of()
    scorer = MODELS.make("ease").fit(split.train)
    with pytest.warns(DataWarning, match="item-item models are ranked on the CPU without triton"):
        found = exact_ranks_gpu(scorer, split, device="cpu", engine="torch")
    assert same(found, exact_ranks(scorer, split))


def test_a_matrix_that_does_not_fit() -> None:
    given = ItemWeights(Lists(np.array([0, 1]), np.array([3], np.int32)), np.zeros((400, 400)))
    with pytest.raises(InvalidParameter, match="memory must hold the item-item matrix and the histories"):
        ItemWeightCounter(given, device="cpu", memory=1 << 20)


def test_what_scores_cost() -> None:
    from scipy.sparse import csr_array

    history = Lists(np.array([0, 2, 3]), np.array([0, 2, 2], np.int32))
    weights: Any = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0], [0.0, 0.0, 5.0]])
    assert ItemWeights(history, weights).n_sums == 9
    sparse = ItemWeights(history, csr_array(weights))
    assert sparse.n_sums == 2 + 1 + 1 + 2 * 3
    assert [part.tolist() for part in sparse.arrays()] == [[0, 2, 3, 4], [1, 2, 0, 2], [1, 2, 3, 5]]


def test_engines_have_a_where() -> None:
    assert Where(device="cpu", engine="torch") in ENGINES
