"""What a model gets wrong about each event."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.subsampling import literal
from tests.subsampling.strategies import drawn_events
from truerank.core.errors import InvalidParameter, NotConverged
from truerank.core.interactions import Interactions
from truerank.core.random import stage_key
from truerank.core.scorer import CallableScores, DenseScores, Factors
from truerank.core.types import FloatArray, IntArray
from truerank.subsampling import importance as difficulty
from truerank.subsampling.importance import Difficulty
from truerank.subsampling.selection import EventKeys

STAGE = "subsample/difficulty"


def tables(seed: int, n_epochs: int = 3) -> list[FloatArray]:
    """One table of scores per epoch, with many ties."""
    return [np.random.default_rng(seed + k).integers(0, 4, (8, 8)).astype(float) for k in range(n_epochs)]


def as_factors(table: FloatArray) -> Factors:
    """Return factors whose scores are those of the table, to the digit."""
    n = table.shape[1]
    return Factors(table.astype(np.float32) - 2.0, np.eye(n, dtype=np.float32), np.full(n, 2.0, np.float32))


def literal_lost(
    train: Interactions, epochs: list[FloatArray], negatives: int, seed: int, *, inverse: bool = False
) -> list[float]:
    """Draw, compare and count one by one."""
    keys = EventKeys(train, seed, STAGE).all().tolist()
    pairs = literal.events_of(train)
    result = []
    for (user, item), key in zip(pairs, keys, strict=True):
        unmet = [other for other in range(train.n_items) if (user, other) not in pairs]
        lost, parts = 0, 0.0
        for number, table in enumerate(epochs, start=1):
            words = literal.Words(seed, "unused")
            words.state = key ^ stage_key(seed, f"{STAGE}/epoch {number}")[0]
            for _ in range(negatives if unmet else 0):
                other = unmet[words.below(len(unmet))]
                lost += table[user, other] > table[user, item]
                parts += 1.0 if table[user, item] > table[user, other] else np.inf
        n = len(epochs) * negatives
        result.append((parts / n if unmet else 1.0) if inverse else lost / n)
    return result


@pytest.mark.parametrize("as_scorer", [DenseScores, as_factors])
@given(drawn_events(least=1), st.integers(1, 3), st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_lost_negatives(as_scorer: type[DenseScores], train: Interactions, negatives: int, seed: int) -> None:
    """Scored by tables and by factors, the counts are those of the slow twin."""
    for auc in ("complement", "inverse"):
        found = Difficulty(train, negatives=negatives, auc=auc, seed=seed)
        for table in tables(seed):
            found.add(as_scorer(table))
        expected = literal_lost(train, tables(seed), negatives, seed, inverse=auc == "inverse")
        assert found.mean().tolist() == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("as_scorer", [DenseScores, as_factors])
@given(drawn_events(least=1), st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_squared_errors(as_scorer: type[DenseScores], train: Interactions, seed: int) -> None:
    found = Difficulty(train, feedback="explicit")
    for table in tables(seed):
        found.add(as_scorer(table))
    assert train.value is not None
    expected = [
        sum((table[user, item] - value) ** 2 for table in tables(seed)) / 3
        for (user, item), value in zip(literal.events_of(train), train.value.tolist(), strict=True)
    ]
    assert found.mean().tolist() == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("as_scorer", [DenseScores, as_factors])
def test_blocks_threads_and_order_do_not_matter(
    as_scorer: type[DenseScores], monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(3)
    train = Interactions.from_codes(draw.integers(0, 8, 90), draw.integers(0, 8, 90), time=np.arange(90))

    def mean(events: Interactions) -> FloatArray:
        found = Difficulty(events, negatives=2, seed=4)
        for table in tables(7):
            found.add(as_scorer(table))
        return found.mean()

    expected = mean(train)
    assert len(set(expected.tolist())) > 3
    turned = draw.permutation(90)
    assert np.array_equal(mean(train.take(turned)), expected[turned])
    for threads in (1, 3):
        monkeypatch.setattr(difficulty, "available_threads", lambda threads=threads: threads)
        monkeypatch.setattr(difficulty, "_ENTRIES", 7)
        monkeypatch.setattr(difficulty, "_SCORED", 5)
        assert np.array_equal(mean(train), expected)


def test_every_epoch_draws_anew() -> None:
    """Nothing beats the last item but everything beats the first: shares lie between, and seeds differ."""
    train = Interactions.from_codes(np.zeros(40, dtype=int), np.arange(0, 80, 2), n_items=80)
    scorer = DenseScores(np.arange(80.0)[None])
    found = [Difficulty(train, seed=seed) for seed in (0, 0, 1)]
    for _ in range(50):
        for one in found:
            one.add(scorer)
    first, second, other = (one.mean() for one in found)
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)
    assert (first[0], first[-1]) == (1.0, pytest.approx(1 / 40, abs=0.1))
    assert len(set(first.tolist())) > 10


def test_whoever_has_met_everything_has_no_negatives() -> None:
    train = Interactions.from_codes([0, 0, 1], [0, 1, 0], n_items=2)
    for scorer in (DenseScores(np.array([[0.0, 1.0]] * 2)), as_factors(np.array([[0.0, 1.0]] * 2))):
        found = Difficulty(train)
        found.add(scorer)
        assert found.mean().tolist() == [0.0, 0.0, 1.0]


def test_no_epochs_and_no_events() -> None:
    assert Difficulty(Interactions.from_codes([0], [0])).mean().tolist() == [0.0]
    found = Difficulty(Interactions.from_codes([], [], n_users=2, n_items=2))
    found.add(DenseScores(np.zeros((2, 2))))
    assert found.mean().tolist() == []


@pytest.mark.parametrize("feedback", ["explicit", "implicit"])
@pytest.mark.parametrize("as_scorer", [DenseScores, as_factors])
def test_scores_that_are_no_numbers(as_scorer: type[DenseScores], feedback: str) -> None:
    train = Interactions.from_codes([0, 1], [0, 1], n_items=3, value=np.ones(2))
    found = Difficulty(train, feedback=feedback)  # type: ignore[arg-type]
    found.add(as_scorer(np.zeros((2, 3))))
    found.add(as_scorer(np.array([[np.nan] * 3, [0.0] * 3])))
    found.add(as_scorer(np.zeros((2, 3))))
    with pytest.raises(NotConverged, match="score every event by a number, got NaN for 1 of 2 events"):
        found.mean()


def test_scorers_see_bounded_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(difficulty, "_SCORED", 6)
    shapes = []

    def score(users: IntArray, items: IntArray) -> FloatArray:
        shapes.append(items.shape)
        return np.zeros(items.shape)

    found = Difficulty(Interactions.from_codes([0] * 7, list(range(7)), n_items=9), negatives=2)
    found.add(CallableScores(score, 9))
    assert shapes == [(3, 3), (3, 3), (1, 3)]


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({"feedback": "loud"}, "feedback must be one of explicit, implicit, got 'loud'"),
        ({"auc": "half"}, "auc must be one of complement, inverse"),
        ({"negatives": 0}, "negatives must be an integer >= 1, got 0"),
        ({"negatives": 1.5}, "negatives must be an integer >= 1, got 1.5"),
        ({"feedback": "explicit", "negatives": 2}, "negatives and auc belong to feedback=implicit"),
        ({"feedback": "explicit", "auc": "inverse"}, "negatives and auc belong to feedback=implicit"),
    ],
)
def test_bad_questions(asked: dict[str, object], sentence: str) -> None:
    with pytest.raises(InvalidParameter, match=sentence):
        Difficulty(Interactions.from_codes([0], [0], value=np.ones(1)), **asked)  # type: ignore[arg-type]


@pytest.mark.stat
def test_unmet_items_are_uniform_and_fresh() -> None:
    """4,000 events of one user: the five unmet of nine items are equally likely, in pairs of epochs too.

    Level 1e-6. A share of 0.25 instead of 0.2 is found with more than 99 %. Negative control: the draw
    of one epoch beside itself is no pair of independent draws.
    """
    from truerank.subsampling.kernels import sample_unmet

    keys = np.random.default_rng(0).integers(0, 2**64, 4000, dtype=np.uint64)
    met = np.array([1, 2, 6, 8], dtype=np.int32)
    unmet = [0, 3, 4, 5, 7]
    drawn = []
    for epoch in (1, 2):
        out = np.empty((len(keys), 1), dtype=np.int64)
        word = np.uint64(stage_key(0, f"{STAGE}/epoch {epoch}")[0])
        users = np.zeros(len(keys), dtype=np.int64)
        sample_unmet(np.array([0, 4]), met, 9, users, keys, word, out)
        drawn.append(out[:, 0])
    assert set(drawn[0].tolist()) == set(unmet)

    def p_value(first: IntArray, second: IntArray) -> float:
        return float(stats.chisquare(np.bincount(9 * first + second, minlength=81)[cells]).pvalue)

    cells = [9 * a + b for a in unmet for b in unmet]
    assert p_value(*drawn) > 1e-6
    assert p_value(drawn[0], drawn[0]) < 1e-6
