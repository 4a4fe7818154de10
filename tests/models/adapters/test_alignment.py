"""Users and items are found by id, and nothing is permuted or dropped in silence."""

from __future__ import annotations

import subprocess
import sys
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from truerank.core.errors import DataWarning, InvalidData, InvalidParameter, MissingDependency
from truerank.core.interactions import Interactions, Vocabulary
from truerank.core.scorer import Factors, as_scorer
from truerank.core.split import Split
from truerank.models.adapters.alignment import Alignment, RowScorer, align_ids, is_dot_product
from truerank.models.adapters.cornac import from_cornac
from truerank.models.adapters.implicit import from_implicit
from truerank.models.adapters.irspack import from_irspack
from truerank.models.adapters.lenskit import from_lenskit
from truerank.models.adapters.torch import from_torch
from truerank.ranking.exact import exact_ranks
from truerank.ranking.sampled import sampled_ranks


def data(users: list[object], items: list[object]) -> Interactions:
    empty = np.zeros(0, np.int64)
    return Interactions(empty, empty, Vocabulary.of(users), Vocabulary.of(items))


@given(st.lists(st.integers(-50, 50), unique=True, min_size=1, max_size=20), st.randoms())
def test_any_order_of_ids(ids: list[int], random: object) -> None:
    mixed = sorted(ids, key=lambda _: random.random())  # type: ignore[attr-defined]
    found = align_ids(data(list(ids), list(ids)), mixed, [str(one) for one in mixed])
    assert [mixed[row] for row in found.user] == sorted(ids)
    assert [mixed[row] for row in found.item] == sorted(ids)  # text ids of numbers are numbers


def test_text_data_and_numeric_ids() -> None:
    found = align_ids(data(["10", "9"], ["a", "b"]), [9, 10], ["b", "a"])
    assert found.user.tolist() == [1, 0]
    assert found.item.tolist() == [1, 0]


def test_first_row() -> None:
    found = align_ids(data(["u"], ["a", "b"]), ["u"], ["b"], unknown="bottom", first=1)
    assert found.user.tolist() == [1]
    assert found.item.tolist() == [-1, 1]


def test_sentences() -> None:
    events = data(["u", "v"], ["a", "b"])
    with pytest.raises(
        InvalidData, match="the model must know every item of the data, but it does not know 1, such as 'b'"
    ):
        align_ids(events, ["u", "v"], ["a"], unknown="error")
    with pytest.raises(InvalidData, match="no id is the same: it has 'x' and the data 'u'"):
        align_ids(events, ["x"], ["a", "b"])
    with pytest.raises(InvalidData, match="no id is the same: it has none and the data 'u'"):
        align_ids(events, [], ["a", "b"])
    with pytest.raises(
        InvalidData, match="user ids of the model must differ, but several rows have the id 7"
    ):
        align_ids(data([7], ["a"]), ["7", "7"], ["a"])
    with pytest.raises(
        InvalidData, match="user ids of the model must be numbers or text like those of the data"
    ):
        align_ids(data([7], ["a"]), [(7, 8)], ["a"])
    with pytest.raises(InvalidParameter, match="unknown must be one of cold, error, bottom, got 'drop'"):
        align_ids(events, ["u"], ["a"], unknown="drop")  # type: ignore[arg-type]
    with pytest.warns(
        DataWarning, match="1 items of the model are not in the data, such as 'z': they are not ranked"
    ):
        align_ids(events, ["u", "v"], ["b", "z", "a"])


def test_unknown_items_rank_below_everything_as_factors_and_as_rows() -> None:
    """Also under the most negative scores; unknown users let known items tie."""
    rng = np.random.default_rng(0)
    user, item, bias = rng.normal(size=(4, 3)), rng.normal(size=(6, 3)) - 9, rng.normal(size=6) - 50
    place = Alignment(np.array([2, -1, 0, 1, 3]), np.array([5, -1, 1, -1, 0]))
    train = Interactions.from_codes([0], [0], n_users=5, n_items=5)
    hit = np.ones((5, 5), bool)
    hit[0, 0] = False
    test = Interactions.from_codes(*np.nonzero(hit), n_users=5, n_items=5)
    scores = user @ item.T + bias
    rows = RowScorer(lambda users: scores[users], place, 6, batch=2)
    factors = place.factors(user, item, bias)
    plain = place.factors(user.astype(np.float32), item.astype(np.float32))
    assert plain.user.dtype == plain.item.dtype == np.float32
    for scorer in (rows, factors, plain):
        ranks = exact_ranks(scorer, Split(train, test))
        unknown = np.isin(ranks.item, [1, 3])
        n_known = np.where(ranks.user == 0, 2, 3)
        assert (ranks.n_above[unknown] == n_known[unknown]).all()
        assert (ranks.n_tied[unknown] == 1).all()
        assert (ranks.n_above[~unknown] + ranks.n_tied[~unknown] < n_known[~unknown]).all()
    tied = exact_ranks(rows, Split(train, test))
    assert (tied.n_tied[(tied.user == 1) & np.isin(tied.item, [0, 2, 4])] == 2).all()
    known = np.array([0, 2, 4])
    expected = scores[[2, 0, 1, 3]][:, [5, 1, 0]]
    np.testing.assert_allclose(rows.score(np.array([0, 2, 3, 4]), known), expected, rtol=1e-12)
    np.testing.assert_allclose(factors.score(np.array([0, 2, 3, 4]), known), expected, rtol=1e-12)


def test_rows_of_candidates_and_repeated_users() -> None:
    scores = np.arange(12.0).reshape(3, 4)
    asked: list[list[int]] = []

    def rows(users: np.ndarray) -> np.ndarray:
        asked.append(users.tolist())
        return np.asarray(scores[users])

    scorer = RowScorer(rows, Alignment(np.arange(3), np.arange(4)), 4, batch=3)
    users, items = np.array([2, 0, 2, 1]), np.array([[0, 3], [1, 1], [2, 0], [3, 2]])
    assert scorer.score(users, items).tolist() == [[8, 11], [1, 1], [10, 8], [7, 6]]
    assert asked == [[0, 2], [1]]
    assert scorer.score(users[:0], np.arange(4)).shape == (0, 4)


def test_a_row_of_another_length() -> None:
    scorer = RowScorer(lambda users: np.zeros((len(users), 3)), Alignment(np.arange(3), np.arange(4)), 4)
    with pytest.raises(
        InvalidData, match=r"must score 4 items for each of 2 users, it returned shape \(2, 3\)"
    ):
        scorer.score(np.array([0, 1]), np.arange(4))


def test_rows_and_arrays_rank_alike_exactly_and_sampled() -> None:
    rng = np.random.default_rng(0)
    scores = rng.integers(5, size=(20, 15)).astype(float)
    user, item = rng.permutation(20), rng.permutation(15)
    hit = rng.random((20, 15)) < 0.2
    train, test = (
        Interactions.from_codes(*np.nonzero(part), n_users=20, n_items=15)
        for part in (hit, ~hit & (rng.random((20, 15)) < 0.2))
    )
    split = Split(train, test)
    rows = RowScorer(lambda users: scores[users], Alignment(user, item), 15, batch=3)
    dense = as_scorer(scores[user][:, item])
    for rank in (exact_ranks, partial(sampled_ranks, sampler="uniform(m=4)")):
        found, expected = rank(rows, split), rank(dense, split)
        assert np.array_equal(found.n_above, expected.n_above)
        assert np.array_equal(found.n_tied, expected.n_tied)
        assert expected.n_tied.max() > 0


def test_import_is_light() -> None:
    """No library is loaded before a model of it is passed."""
    code = "import sys, truerank.models.adapters, truerank.workflows.tracking; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in run.stdout.split()}
    assert not loaded & {"torch", "implicit", "cornac", "irspack", "lenskit", "recbole", "mlflow", "pandas"}


def test_dot_products_are_recognised_up_to_a_constant_per_user() -> None:
    rng = np.random.default_rng(0)
    user, item, bias = rng.normal(size=(9, 3)), rng.normal(size=(7, 3)), rng.normal(size=7)
    scores = user @ item.T + rng.normal(size=(9, 1)) * 3
    assert is_dot_product(lambda users: scores[users], user, item)
    assert is_dot_product(lambda users: (scores + bias)[users], user, item, bias)
    assert not is_dot_product(lambda users: (scores + bias)[users], user, item)
    assert not is_dot_product(lambda users: scores[users], user, item[::-1])
    assert not is_dot_product(lambda users: scores[users], user[:, 1:], item)
    assert not is_dot_product(lambda users: np.where(scores < 0, -np.inf, scores)[users], user, item)


def test_factors_are_copies_and_read_only() -> None:
    user, item = np.ones((2, 1)), np.ones((3, 1))
    made = Alignment(np.arange(2), np.arange(3)).factors(user, item)
    assert isinstance(made, Factors)
    user[:] = item[:] = 5
    assert made.user.max() == made.item.max() == 1
    assert not made.user.flags.writeable


@pytest.mark.parametrize(
    ("function", "module", "extra"),
    [
        (from_implicit, "implicit.recommender_base", "models"),
        (from_cornac, "cornac", "models"),
        (from_irspack, "irspack.recommenders.base", "models"),
        (from_lenskit, "lenskit.pipeline", "lenskit"),
    ],
)
def test_a_missing_library(
    function: object, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    name = module.partition(".")[0]
    with pytest.raises(
        MissingDependency,
        match=rf"from_{name} needs {name}\. Install it with: pip install 'truerank\[{extra}\]'",
    ):
        function(object(), data(["u"], ["a"]))  # type: ignore[operator]


def test_missing_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingDependency, match=r"from_torch needs torch\. .* 'truerank\[torch\]'"):
        from_torch(object(), n_items=3)
