"""Adaptive samples are those of Algorithm 1, whatever the scorer, the threads and the size of the blocks."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tests.ranking.literal_adaptive import literal_adaptive
from tests.ranking.test_sampled import (
    KINDS,
    NAMES,
    as_rows,
    assert_equal,
    integer_factors,
    n_free,
    random_factors,
    random_split,
)
from tests.strategies import splits
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.ranks import SEEN_POLICIES, Design, Ranks, SampledRanks, SeenPolicy, Stopping
from truerank.core.scorer import as_scorer
from truerank.core.split import Split
from truerank.ranking import growing
from truerank.ranking import listed as scored
from truerank.ranking import negatives as sampler
from truerank.ranking.exact import exact_ranks
from truerank.ranking.sampled import sample_ranks, sampled_ranks
from truerank.ranking.samplers.adaptive import Adaptive
from truerank.ranking.samplers.registry import SAMPLERS

SPECS = [
    "adaptive(start=20, max=160)",
    "adaptive(start=20, max=160, replace=true)",
    "adaptive(start=30, max=1000, while_rank=3)",
    "adaptive(start=400, max=600)",
    "adaptive(start=20, max=160, factor=1.5, per=target)",
]


@pytest.fixture(params=["numpy", "compiled"], scope="module")
def path(request: pytest.FixtureRequest) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler, "SMALL_SAMPLES", 10**9 if request.param == "numpy" else 0)
        yield request.param


@pytest.mark.slow
@settings(deadline=None)  # the first example may compile
@given(
    split=splits(max_items=30),
    seed=st.integers(0, 99),
    seen=st.sampled_from(SEEN_POLICIES),
    kind=st.sampled_from(sorted(KINDS)),
    start=st.integers(2, 8),
    times=st.sampled_from([1, 2, 7]),
    while_rank=st.integers(1, 4),
    replace=st.booleans(),
)
def test_equals_algorithm_1(
    path: str,
    split: Split,
    seed: int,
    seen: SeenPolicy,
    kind: str,
    start: int,
    times: int,
    while_rank: int,
    replace: bool,
) -> None:
    assume(n_free(split, seen) >= 1)
    user, item = integer_factors(split, seed)
    scores = user @ item.T
    if kind == "factors with a bias":
        scores = user[:, :2] @ item[:, :2].T + item[:, 2]
    made = Adaptive(start, start * times, while_rank=while_rank, replace=replace)
    found = sample_ranks(
        as_scorer(KINDS[kind](user, item), n_items=split.train.n_items),
        split,
        made,
        seen=seen,
        seed=seed,
        repeat=3,
    )
    sizes = {1: [start], 2: [start, 2 * start], 7: [start, 2 * start, 4 * start, 7 * start]}[times]
    rows, n_scores = literal_adaptive(
        scores,
        split,
        seen,
        sizes=[size - 1 for size in sizes],
        rank=while_rank,
        replacement=replace,
        seed=seed,
        stage="sample//3",
    )
    assert as_rows(found.ranks) == rows
    assert found.n_scores >= n_scores  # black boxes are asked for rectangles, and the filling is counted
    if kind not in ("function", "dense") or (path == "compiled" and kind == "dense"):
        assert found.n_scores == n_scores
    stopping = Stopping(tuple(size - 1 for size in sizes), while_rank)
    assert found.ranks.design == Design("uniform", replacement=replace, shared=True, stopping=stopping)


@pytest.mark.parametrize("spec", SPECS)
@pytest.mark.parametrize("kind", ["float32 factors", "dense", "sparse", "function"])
def test_does_not_depend_on_path_blocks_order_or_threads(spec: str, kind: str, monkeypatch: Any) -> None:
    split = random_split()
    scorer = as_scorer(KINDS[kind](*random_factors(split, width=3)), n_items=500)
    usual = sample_ranks(scorer, split, spec, seed=5, n_threads=1)
    assert len(set(usual.ranks.n_negatives.tolist())) > 1
    monkeypatch.setattr(growing, "BLOCK_NEGATIVES", 1000)
    for judge in (scored.ScoredPairs, scored.SparsePairs):
        monkeypatch.setattr(judge, "most_negatives", 1000)
    assert_equal(usual.ranks, sampled_ranks(scorer, split, spec, seed=5, n_threads=3))
    monkeypatch.setattr(sampler, "SMALL_SAMPLES", 10**9)
    slow = sample_ranks(scorer, split, spec, seed=5, n_threads=2)
    assert_equal(usual.ranks, slow.ranks)
    kept = np.isin(split.test.user, [7, 250])  # other users do not matter, nor does the order of the events
    few = Split(split.train, split.test.take(np.flatnonzero(kept)[::-1]))
    rows = np.flatnonzero(np.isin(usual.ranks.user, [7, 250]))
    ranks = sampled_ranks(scorer, few, spec, seed=5)
    assert np.array_equal(ranks.n_above, usual.ranks.n_above[rows])
    assert np.array_equal(ranks.n_negatives, usual.ranks.n_negatives[rows])


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["float32 factors", "dense", "function"])
@pytest.mark.parametrize("options", ["", ", replace=true", ", shared=false", ", per=target"])
@pytest.mark.parametrize("start", [100, 450])
def test_without_growth_it_is_uniform(kind: str, options: str, start: int) -> None:
    """max = start gives the fixed sample of start - 1 negatives, draw by draw."""
    split = random_split()
    scorer = as_scorer(KINDS[kind](*random_factors(split)), n_items=500)
    arguments: dict[str, Any] = {"seed": 5, "repeat": 2, "label": "a"}
    fixed = sample_ranks(scorer, split, f"uniform(m={start - 1}{options})", **arguments)
    grown = sample_ranks(scorer, split, f"adaptive(start={start}, max={start}{options})", **arguments)
    assert grown.n_scores == fixed.n_scores
    for name in NAMES:
        assert np.array_equal(getattr(grown.ranks, name), getattr(fixed.ranks, name)), name
    assert grown.ranks.design.shared == fixed.ranks.design.shared


@pytest.mark.parametrize("replace", [False, True])
def test_samples_grow_by_prefix(replace: bool) -> None:
    """Who stops in the first round has the counts of the fixed sample; a larger max adds to the others."""
    split = random_split()
    scorer = as_scorer(random_factors(split, width=3))
    fixed = sampled_ranks(scorer, split, f"uniform(m=19, replace={str(replace).lower()})")
    small, large = (
        sampled_ranks(scorer, split, Adaptive(20, most, while_rank=2, replace=replace)) for most in (80, 320)
    )
    stopped = fixed.n_above - fixed.n_relevant_above >= 2
    assert 0 < stopped.sum() < len(stopped)
    assert np.array_equal(small.n_negatives == 19, stopped)
    for name in NAMES:
        assert np.array_equal(getattr(small, name)[stopped], getattr(fixed, name)[stopped])
        early = small.n_negatives < 79
        assert np.array_equal(getattr(large, name)[early], getattr(small, name)[early])
    assert (large.n_above >= small.n_above).all() and (large.n_negatives > small.n_negatives).any()


@pytest.mark.parametrize("kind", ["float32 factors", "dense", "sparse", "function"])
def test_a_sample_of_everything_is_exact(kind: str, path: str) -> None:
    """Without replacement a sample ends with the last candidate; who gets there has its exact rank."""
    split = random_split(n_users=60)
    scorer = as_scorer(KINDS[kind](*integer_factors(split, 1)), n_items=500)
    exact = exact_ranks(scorer, split)
    grown = sampled_ranks(scorer, split, "adaptive(start=50, max=5000, while_rank=600)")
    assert (grown.n_negatives == 478).all() and (grown.n_candidates == 478).all()
    for field in fields(Ranks):
        assert np.array_equal(getattr(grown, field.name), getattr(exact, field.name)), field.name
    first = sampled_ranks(scorer, split, "adaptive(start=50, max=5000)")
    all_drawn = first.n_negatives == 478
    assert np.array_equal(first.n_above[all_drawn], exact.n_above[all_drawn])


class Counting:
    """A black box that counts what it is asked for, pair by pair."""

    n_items = 500

    def __init__(self, scores: np.ndarray) -> None:
        self.scores, self.asked, self.n_calls = scores, np.zeros(scores.shape, int), 0

    def score(self, users: np.ndarray, items: np.ndarray) -> np.ndarray:
        np.add.at(self.asked, (users[:, None], items), 1)
        self.n_calls += 1
        return np.asarray(self.scores[users[:, None], items])


@pytest.mark.parametrize("replace", [False, True])
def test_every_score_is_counted(replace: bool) -> None:
    """What a black box was asked for is what is reported, and nobody is asked for beyond its last round."""
    split = random_split(n_test=1)
    user, item = random_factors(split, width=3)
    scorer = Counting(user @ item.T)
    found = sample_ranks(scorer, split, Adaptive(20, 320, replace=replace))
    assert found.n_scores == scorer.asked.sum()
    assert np.array_equal(scorer.asked.sum(axis=1), found.ranks.n_negatives + 1)
    assert scorer.n_calls == 5  # one rectangle per round
    targets, blocked = split.test.item, split.train.matrix().toarray() > 0
    assert (scorer.asked[np.arange(300), targets] == 1).all()
    assert scorer.asked[blocked].sum() == 0
    assert replace or scorer.asked.max() == 1


def test_several_targets_are_scored_once() -> None:
    """Costs follow the longest sample of a user's targets; all targets have one score each."""
    split = random_split(n_test=3)
    scorer = Counting(random_factors(split, width=3)[0] @ random_factors(split, width=3)[1].T)
    found = sample_ranks(scorer, split, "adaptive(start=20, max=160)")
    longest = found.ranks.n_negatives.reshape(300, 3).max(axis=1)
    assert found.n_scores == scorer.asked.sum() == longest.sum() + 900
    assert (np.ptp(found.ranks.n_negatives.reshape(300, 3), axis=1) > 0).any()


def test_ties_are_won() -> None:
    """Nothing is strictly above a target that ties with everything: it goes on to the end."""
    split = random_split(n_users=20, n_test=1)
    ranks = sampled_ranks(as_scorer(np.zeros((20, 500))), split, "adaptive(start=20, max=160)")
    assert (ranks.n_negatives == 159).all() and (ranks.n_tied == 159).all() and (ranks.n_above == 0).all()


def test_other_targets_do_not_stop_a_target() -> None:
    """The worse of two targets has the better one above it, which says nothing about the sample."""
    train = Interactions.from_codes([0], [0], n_items=60)
    split = Split(train, Interactions.from_codes([0, 0], [1, 2], n_items=60))
    scores = np.zeros((1, 60))
    scores[0, [1, 2]] = [2.0, 1.0]
    ranks = sampled_ranks(as_scorer(scores), split, "adaptive(start=5, max=20)")
    assert ranks.n_negatives.tolist() == [19, 19] and ranks.n_above.tolist() == [0, 1]


def test_users_with_few_candidates_end_early() -> None:
    train = Interactions.from_codes([0] * 50, list(range(50)), n_users=2, n_items=60)
    split = Split(train, Interactions.from_codes([0, 1], [55, 55], n_users=2, n_items=60))
    ranks = sampled_ranks(as_scorer(np.zeros((2, 60))), split, "adaptive(start=20, max=40)")
    assert ranks.n_negatives.tolist() == [9, 39]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("adaptive(start=1)", "start must be at least 2, got 1"),
        ("adaptive(start=200, max=100)", "max must be at least start, 200, and below .*, got 100"),
        ("adaptive(max=4000000000)", "max must be at least start, 100, and below .*, got 4000000000"),
        ("adaptive(factor=1)", r"factor must be greater than 1, got 1.*Use for example 2"),
        ("adaptive(factor=1.001)", r"from start=100 to max=3200 in at most 64 rounds, got 1\.001"),
        ("adaptive(while_rank=0)", "while_rank must be at least 1, got 0"),
    ],
)
def test_bad_parameters(spec: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message):
        SAMPLERS.make(spec)


def test_bad_types() -> None:
    with pytest.raises(InvalidParameter, match=r"start must be an integer >= 2, got 99\.5"):
        Adaptive(start=99.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="while_rank must be an integer >= 1, got True"):
        Adaptive(while_rank=True)


@pytest.mark.parametrize(
    ("spec", "sizes"),
    [
        ("adaptive", (99, 199, 399, 799, 1599, 3199)),
        ("adaptive(max=100)", (99,)),
        ("adaptive(max=500)", (99, 199, 399, 499)),
        ("adaptive(start=2, max=9, factor=1.2)", (1, 2, 3, 4, 5, 6, 7, 8)),
        ("adaptive(start=10, max=40, factor=1.5, while_rank=3)", (9, 14, 21, 32, 39)),
    ],
)
def test_sizes_and_round_trip(spec: str, sizes: tuple[int, ...]) -> None:
    made = SAMPLERS.make(spec)
    assert isinstance(made, Adaptive) and made.stopping.sizes == sizes
    assert str(made) == spec and SAMPLERS.make(str(made)) == made


def test_nobody_to_sample_from() -> None:
    train = Interactions.from_codes([0], [0], n_items=2)
    split = Split(train, Interactions.from_codes([0], [1], n_items=2))
    with pytest.raises(InvalidData, match=r"adaptive must find an unseen item.*user 0 has none\. Leave that"):
        sampled_ranks(as_scorer(np.ones((1, 2))), split, "adaptive")


@pytest.mark.parametrize("kind", ["dense", "sparse", "function"])
def test_nan_names_the_user(kind: str, path: str) -> None:
    split = random_split(n_users=30)
    scores = random_factors(split)[0] @ random_factors(split)[1].T
    scores[17] = np.nan
    made: Any = {"dense": scores, "sparse": csr_array(scores)}.get(
        kind, lambda users, items: scores[users[:, None], items]
    )
    with pytest.raises(InvalidData, match=r"user 17 gets NaN\. Check how it was trained"):
        sampled_ranks(as_scorer(made, n_items=500), split, "adaptive(start=20, max=160)", n_threads=1)


def test_a_nan_of_a_later_round_names_the_user(path: str) -> None:
    """The other users stop in the first round; only user 3 meets the broken item, in the second."""
    train = Interactions.from_codes([0], [0], n_users=5, n_items=200)
    split = Split(train, Interactions.from_codes([0, 1, 2, 3, 4], [1] * 5, n_users=5, n_items=200))
    scores = np.ones((5, 200))
    scores[:, 1] = 0.5
    scores[3] = 0.0
    drawn: list[np.ndarray] = []

    def listen(users: np.ndarray, items: np.ndarray) -> np.ndarray:
        drawn.append(items[users == 3])
        return np.asarray(scores[users[:, None], items])

    sampled_ranks(as_scorer(listen, n_items=200), split, "adaptive(start=10, max=20)", seed=1)
    scores[3, drawn[1][0, -1]] = np.nan
    with pytest.raises(InvalidData, match="user 3 gets NaN"):
        sampled_ranks(as_scorer(scores), split, "adaptive(start=10, max=20)", seed=1)


def test_missing_users_are_named(path: str) -> None:
    split = random_split(n_users=30)
    user, item = random_factors(split)
    for scorer in (as_scorer((user[:9], item)), as_scorer(user[:9] @ item.T)):
        if path == "numpy" and not hasattr(scorer, "factors"):
            continue  # a stored array then is a black box, whose own error is shown
        with pytest.raises(InvalidData, match="for each user, but user 29 has none"):
            sampled_ranks(scorer, split, "adaptive(start=20, max=160)")


def test_nobody_to_rank(path: str) -> None:
    train = Interactions.from_codes([0], [0], n_items=4)
    split = Split(train, Interactions.from_codes([], [], n_users=1, n_items=4))
    for scores in (np.ones((1, 4)), (np.ones((1, 2)), np.ones((4, 2))), csr_array(np.ones((1, 4)))):
        assert len(sampled_ranks(as_scorer(scores), split, "adaptive")) == 0


def test_progress_counts_every_row() -> None:
    class Task:
        n = 0

        def advance(self, steps: int = 1) -> None:
            self.n += steps

    class Shown:
        total, last = 0, Task()

        def task(self, label: str, total: int | None = None) -> Task:
            self.total, self.last = total or 0, Task()
            return self.last

        def done(self, task: Any) -> None:
            pass

    split = random_split(n_users=40)
    for kind in ("float32 factors", "function"):
        for start in (20, 400):
            shown = Shown()
            scorer = as_scorer(KINDS[kind](*random_factors(split)), n_items=500)
            sampled_ranks(scorer, split, Adaptive(start, 1000), progress=shown)
            assert shown.total == shown.last.n == 40


def test_memory_layouts_and_types_of_stored_scores(monkeypatch: Any) -> None:
    """float64, float32, integers, Fortran order and big-endian arrays all give the same ranks."""
    split = random_split()
    user, item = integer_factors(split, 2)
    scores = user @ item.T
    usual = sampled_ranks(as_scorer(scores), split, "adaptive(start=80, max=320)")
    others = [scores.astype(np.float32), np.asfortranarray(scores), scores.astype(int), scores.astype(">f8")]
    for other in others:
        assert_equal(sampled_ranks(as_scorer(other), split, "adaptive(start=80, max=320)"), usual)


def test_spread_of_sizes_is_as_designed() -> None:
    ranks: SampledRanks = sampled_ranks(
        as_scorer(random_factors(random_split(), 3)), random_split(), "adaptive(start=20, max=160)"
    )
    stopping = ranks.design.stopping
    assert stopping is not None and set(ranks.n_negatives.tolist()) <= set(stopping.sizes)
    early = ranks.n_negatives < stopping.sizes[-1]
    assert (ranks.n_above - ranks.n_relevant_above)[early].min() >= 1
