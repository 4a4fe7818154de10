"""Sampled ranks equal the definition, whatever the scorer, the threads and the size of the blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from tests.reference.sampled import blocked_items, literal_counts, literal_uniform, literal_words
from tests.strategies import splits
from truerank.core.errors import DataWarning, InvalidData, InvalidParameter, UnknownName
from truerank.core.interactions import Interactions
from truerank.core.ranks import SEEN_POLICIES, Design, Ranks, SampledRanks, SeenPolicy
from truerank.core.scorer import as_scorer
from truerank.core.split import Split
from truerank.ranking import negatives as sampler
from truerank.ranking import sampled
from truerank.ranking.exact import exact_ranks
from truerank.ranking.sampled import sample_ranks, sampled_ranks
from truerank.ranking.samplers.given import Given, GivenLists
from truerank.ranking.samplers.registry import SAMPLERS
from truerank.ranking.samplers.uniform import UniformSampler

KINDS: dict[str, Callable[[np.ndarray, np.ndarray], Any]] = {
    "float32 factors": lambda u, v: (u.astype(np.float32), v.astype(np.float32)),
    "float64 factors": lambda u, v: (u, v),
    "factors with a bias": lambda u, v: (u[:, :2], v[:, :2], v[:, 2]),
    "dense": lambda u, v: u @ v.T,
    "sparse": lambda u, v: csr_array(u @ v.T),
    "function": lambda u, v: lambda users, items: (u[users, None] * v[items]).sum(axis=2),
}
NAMES = [field.name for field in fields(SampledRanks) if field.name not in ("design", "gain")]


def as_rows(ranks: SampledRanks) -> list[dict[str, int]]:
    columns = (getattr(ranks, name) for name in NAMES)
    return [dict(zip(NAMES, map(int, row), strict=True)) for row in zip(*columns, strict=True)]


def assert_equal(first: SampledRanks, second: SampledRanks) -> None:
    assert first.design == second.design
    for name in NAMES:
        assert np.array_equal(getattr(first, name), getattr(second, name)), name


def integer_factors(split: Split, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Small integers: many ties, and every product is exact."""
    draw = np.random.default_rng(seed)
    user = draw.integers(-2, 3, (split.train.n_users, 3)).astype(np.float64)
    item = draw.integers(-2, 3, (split.train.n_items, 3)).astype(np.float64)
    return user, item


def n_free(split: Split, seen: SeenPolicy) -> int:
    """Candidates of the user who has the fewest."""
    users = np.unique(split.test.user)
    return split.train.n_items - max(len(blocked_items(split, seen, int(user))[1]) for user in users)


@pytest.fixture(params=["numpy", "compiled"], scope="module")
def path(request: pytest.FixtureRequest) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampler, "SMALL_SAMPLES", 10**9 if request.param == "numpy" else 0)
        yield request.param


@settings(deadline=None)  # the first example may compile
@given(
    split=splits(),
    seed=st.integers(0, 99),
    seen=st.sampled_from(SEEN_POLICIES),
    kind=st.sampled_from(sorted(KINDS)),
    m=st.integers(1, 6),
    replace=st.booleans(),
)
def test_equals_the_definition(
    path: str, split: Split, seed: int, seen: SeenPolicy, kind: str, m: int, replace: bool
) -> None:
    free = n_free(split, seen)
    assume(free >= (1 if replace else m))
    user, item = integer_factors(split, seed)
    scores = user @ item.T
    if kind == "factors with a bias":
        scores = user[:, :2] @ item[:, :2].T + item[:, 2]
    found = sample_ranks(
        as_scorer(KINDS[kind](user, item), n_items=split.train.n_items),
        split,
        UniformSampler(m, replace),
        seen=seen,
        seed=seed,
        repeat=3,
    )
    negatives = [
        literal_uniform(
            literal_words(seed, "sample//3", int(one)),
            split.train.n_items,
            blocked_items(split, seen, int(one))[1],
            m,
            replacement=replace,
        )
        for one in np.unique(split.test.user)
    ]
    assert as_rows(found.ranks) == literal_counts(scores, split, seen, negatives)
    assert found.ranks.design == Design("uniform", replacement=replace, shared=True)
    assert found.n_scores >= sum(map(len, negatives)) + len(found.ranks)


@settings(deadline=None)  # the first example may compile
@given(
    split=splits(),
    seed=st.integers(0, 99),
    seen=st.sampled_from(SEEN_POLICIES),
    kind=st.sampled_from(sorted(KINDS)),
)
def test_full_is_exact(path: str, split: Split, seed: int, seen: SeenPolicy, kind: str) -> None:
    """Sampling all candidates, by ``full`` or without replacement, gives the exact ranks."""
    free = n_free(split, seen)
    assume(free >= 1)
    scorer = as_scorer(KINDS[kind](*integer_factors(split, seed)), n_items=split.train.n_items)
    exact = exact_ranks(scorer, split, seen=seen)
    sampled_all = [sampled_ranks(scorer, split, "full", seen=seen)]
    blocked = {len(blocked_items(split, seen, int(user))[1]) for user in np.unique(split.test.user)}
    if len(blocked) == 1:
        sampled_all.append(sampled_ranks(scorer, split, UniformSampler(free), seen=seen, seed=seed))
    for ranks in sampled_all:
        for field in fields(Ranks):
            assert np.array_equal(getattr(ranks, field.name), getattr(exact, field.name)), field.name


def random_split(n_users: int = 300, n_items: int = 500, seed: int = 0, n_test: int = 2) -> Split:
    draw = np.random.default_rng(seed)
    items = np.argsort(draw.random((n_users, n_items)), axis=1)[:, : 20 + n_test].astype(np.int32)
    users = np.repeat(np.arange(n_users), 20)
    train = Interactions.from_codes(users, items[:, :20].ravel(), n_users=n_users, n_items=n_items)
    users = np.repeat(np.arange(n_users), n_test)
    test = Interactions.from_codes(users, items[:, 20:].ravel(), n_users=n_users, n_items=n_items)
    return Split(train, test)


def random_factors(split: Split, width: int = 8, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    user = draw.normal(size=(split.train.n_users, width)).astype(np.float32)
    item = draw.normal(size=(split.train.n_items, width)).astype(np.float32)
    return user, item


@pytest.mark.parametrize(
    "spec",
    [
        "uniform(m=99)",
        "uniform(m=99, replace=true)",
        "uniform(m=450)",
        "uniform(m=99, per=target)",
        "popularity(m=99)",
        "popularity(m=400, power=0.5)",
        "popularity(m=99, replace=true, power=2)",
        "full",
    ],
)
def test_draws_do_not_depend_on_path_blocks_order_or_threads(spec: str, monkeypatch: Any) -> None:
    split = random_split()
    scorer = as_scorer(random_factors(split))
    usual = sampled_ranks(scorer, split, spec, seed=5, n_threads=1)
    monkeypatch.setattr(sampled, "BLOCK_NEGATIVES", 1000)
    assert_equal(usual, sampled_ranks(scorer, split, spec, seed=5, n_threads=3))
    monkeypatch.setattr(sampler, "SMALL_SAMPLES", 10**9)
    assert_equal(usual, sampled_ranks(scorer, split, spec, seed=5, n_threads=2))
    kept = np.isin(split.test.user, [7, 250])  # other users do not matter, nor does the order of the events
    few = Split(split.train, split.test.take(np.flatnonzero(kept)[::-1]))
    rows = np.flatnonzero(np.isin(usual.user, [7, 250]))
    ranks = sampled_ranks(scorer, few, spec, seed=5)
    assert np.array_equal(ranks.n_above, usual.n_above[rows])


@pytest.mark.parametrize("spec", ["uniform(m=99)", "uniform(m=450)", "popularity(m=99)"])
def test_negatives_are_distinct_and_neither_seen_nor_targets(spec: str, path: str) -> None:
    split = random_split()
    asked: list[tuple[int, set[int]]] = []

    def score(users: np.ndarray, items: np.ndarray) -> np.ndarray:
        asked.extend(zip(users.tolist(), map(set, items.tolist()), strict=True))
        return np.zeros(items.shape)

    found = sample_ranks(as_scorer(score, n_items=500), split, spec)
    m = int(found.ranks.n_negatives[0])
    assert len(asked) == 300 and found.n_scores == 300 * (m + 2)
    for user, items in asked:
        targets, blocked = blocked_items(split, "remove", user)
        assert len(items) == m + 2  # all distinct: m negatives and the two targets
        assert items & blocked == targets


def test_shared_and_repeated_draws() -> None:
    split = random_split()
    scorer = as_scorer(random_factors(split))

    def above(spec: str, **options: Any) -> list[int]:
        return list(sampled_ranks(scorer, split, spec, **options).n_above)

    assert above("uniform", label="a") == above("uniform", label="b")
    assert above("uniform(shared=false)", label="a") == above("uniform(shared=false)", label="a")
    assert above("uniform(shared=false)", label="a") != above("uniform(shared=false)", label="b")
    assert above("uniform") != above("uniform", seed=1)
    assert above("uniform") != above("uniform", repeat=1)
    assert not sampled_ranks(scorer, split, "uniform(shared=false)").design.shared


def test_a_sample_grows_with_m() -> None:
    """Draws for a larger m begin with those for a smaller one."""
    split = random_split()
    scorer = as_scorer(random_factors(split))
    small, large = (sampled_ranks(scorer, split, UniformSampler(m)).n_above for m in (50, 51))
    assert set((large - small).tolist()) == {0, 1}


def test_per_target_draws_differ_between_targets() -> None:
    """Both targets of the first user have one vector, so only different negatives can tell them apart."""
    split = random_split()
    user, item = random_factors(split)
    first, second = split.test.by_user().items.reshape(-1, 2).T
    item[second[0]] = item[first[0]]
    scorer = as_scorer((user, item))
    shared = sampled_ranks(scorer, split, "uniform(m=200)").n_above
    own = sampled_ranks(scorer, split, "uniform(m=200, per=target)")
    assert shared[0] == shared[1] and own.n_above[0] != own.n_above[1]
    assert own.n_relevant_tied[:2].tolist() == [1, 1]


@pytest.mark.parametrize("width", [1, 4, 15, 16, 17, 64, 100])
@pytest.mark.parametrize("scale", [1.0, 2.0**90, 2.0**-90])
def test_any_width_and_magnitude(width: int, scale: float, monkeypatch: Any) -> None:
    """Vectors that do not fill registers or cache lines, float64 ones, and a bias: compiled equals NumPy."""
    split = random_split(n_users=100)
    user, item = random_factors(split, width)
    for factors in ((user, item), (user * scale, item.astype(np.float64)), (user, item, item[:, 0] * 3)):
        scorer = as_scorer(factors)
        compiled = sampled_ranks(scorer, split, "uniform(m=301)", n_threads=1)
        with monkeypatch.context() as patch:
            patch.setattr(sampler, "SMALL_SAMPLES", 10**9)
            assert_equal(compiled, sampled_ranks(scorer, split, "uniform(m=301)"))


def test_near_ties_are_decided_in_float64() -> None:
    """Scores that float32 cannot tell apart get the ranks of the float64 sum."""
    split = random_split(n_users=200, n_items=300)
    draw = np.random.default_rng(3)
    user = draw.normal(size=(200, 16)).astype(np.float32)
    item = np.repeat(draw.normal(size=(1, 16)), 300, axis=0).astype(np.float32)
    item[:, 0] += draw.integers(0, 3, 300).astype(np.float32) * np.spacing(np.abs(item[:, 0]))
    item[5] *= 1000
    scorer = as_scorer((user, item))
    exact, full = exact_ranks(scorer, split), sampled_ranks(scorer, split, "full")
    assert np.array_equal(exact.n_above, full.n_above) and np.array_equal(exact.n_tied, full.n_tied)
    assert exact.n_tied.max() > 0 < exact.n_above.max()


def test_users_and_items_without_vectors_tie() -> None:
    split = random_split()
    user, item = random_factors(split)
    user[3] = 0
    item[:100] = 0
    scorer = as_scorer((user, item))
    exact, full = exact_ranks(scorer, split), sampled_ranks(scorer, split, "full")
    assert np.array_equal(exact.n_above, full.n_above) and np.array_equal(exact.n_tied, full.n_tied)


def test_rows_of_different_length_share_calls() -> None:
    """A user with many targets gets a call of its own, so that others are not filled up."""
    train = Interactions.from_codes([0], [0], n_users=3, n_items=200)
    items = [*range(1, 101), 5, 6]
    test = Interactions.from_codes([0] * 100 + [1, 2], items, n_users=3, n_items=200)
    shapes = []

    def score(users: np.ndarray, items: np.ndarray) -> np.ndarray:
        shapes.append(items.shape)
        return items.astype(float)

    found = sample_ranks(as_scorer(score, n_items=200), Split(train, test), "uniform(m=10)")
    assert sorted(shapes) == [(1, 110), (2, 11)]
    assert found.n_scores == 132


def hand_made() -> Split:
    train = Interactions.from_codes([0, 1], [0, 1], n_users=2, n_items=4)
    return Split(train, Interactions.from_codes([0, 1], [3, 2], n_users=2, n_items=4))


HAND_SCORES = np.array([[9.0, 5.0, 5.0, 5.0], [1.0, 2.0, 3.0, 4.0]])


def test_given_lists(tmp_path: Path) -> None:
    """User 0 is compared with items 1 and 2 (both tied), user 1 with item 3 twice (above both times)."""
    split, scorer = hand_made(), as_scorer(HAND_SCORES)
    ranks = sampled_ranks(scorer, split, {0: [1, 2], 1: [3, 3]})
    assert ranks.n_above.tolist() == [0, 2] and ranks.n_tied.tolist() == [2, 0]
    assert ranks.n_negatives.tolist() == [2, 2]
    assert ranks.design == Design("given", replacement=True, shared=True)
    path = tmp_path / "lists.csv"
    path.write_text("user_id,item_id\n1,3\n0,2\n1,3\n0,1\n")
    assert_equal(sampled_ranks(scorer, split, Given(str(path))), ranks)
    assert_equal(sampled_ranks(scorer, split, f"given(path='{path}')"), ranks)
    assert not sampled_ranks(scorer, split, {0: [1], 1: [3]}).design.replacement
    kept = sampled_ranks(scorer, split, {0: [0], 1: [1]}, seen="keep")
    assert kept.n_above.tolist() == [1, 0]


@pytest.mark.parametrize(
    ("lists", "message"),
    [
        ({0: [1]}, "candidates for every user with a target, but user 1 has none"),
        ({0: [1], 1: []}, "candidates for every user with a target, but user 1 has none"),
        ({0: [1, 3], 1: [3]}, "must not hold a target of their user, but user 0 has item 3"),
        ({0: [1], 1: [1]}, "must not hold a seen item of their user, but user 1 has item 1.*seen=keep"),
        ({0: [1], 1: [77]}, "candidates must be items of the data, but 1 are not, such as 77"),
    ],
)
def test_bad_lists(lists: dict[int, list[int]], message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        sampled_ranks(as_scorer(HAND_SCORES), hand_made(), lists)


def test_unknown_users_are_counted() -> None:
    with pytest.warns(DataWarning, match=r"1 users with candidates are not in the data, such as 8"):
        sampled_ranks(as_scorer(HAND_SCORES), hand_made(), {0: [1], 1: [3], 8: [1]})


def test_bad_list_file(tmp_path: Path) -> None:
    path = tmp_path / "lists.csv"
    path.write_text("user_id,film\n1,3\n")
    with pytest.raises(InvalidData, match="known columns only, got 'film'"):
        sampled_ranks(as_scorer(HAND_SCORES), hand_made(), Given(str(path)))


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("uniform(m=3)", r"uniform\(m=3\) must find 3 unseen items.*user 0 has 2. Sample fewer"),
        ("popularity(m=2)", r"must find 2 unseen items with train events.*user 0 has 1"),
    ],
)
def test_too_few_candidates(spec: str, message: str) -> None:
    with pytest.raises(InvalidData, match=message):
        sampled_ranks(as_scorer(HAND_SCORES), hand_made(), spec)


@pytest.mark.parametrize("spec", ["uniform(m=3, replace=true)", "full"])
def test_no_candidates(spec: str) -> None:
    train = Interactions.from_codes([0], [0], n_items=2)
    split = Split(train, Interactions.from_codes([0], [1], n_items=2))
    with pytest.raises(InvalidData, match=r"user 0 has (0|none)\. Leave that user out or use seen=keep"):
        sampled_ranks(as_scorer(np.ones((1, 2))), split, spec)


def test_bad_arguments() -> None:
    split, scorer = hand_made(), as_scorer(HAND_SCORES)
    with pytest.raises(InvalidParameter, match="seen must be one of"):
        sampled_ranks(scorer, split, seen="hide")  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="m must be an integer >= 1, got 0"):
        sampled_ranks(scorer, split, "uniform(m=0)")
    with pytest.raises(InvalidParameter, match=r"m must be an integer >= 1, got 1\.5"):
        UniformSampler(m=1.5)  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="power must be at least 0"):
        sampled_ranks(scorer, split, "popularity(power=-1)")
    with pytest.raises(InvalidParameter, match="repeat must be at least 0"):
        sampled_ranks(scorer, split, "uniform(m=1)", repeat=-1)
    with pytest.raises(UnknownName, match="Did you mean 'uniform'"):
        sampled_ranks(scorer, split, "unifrom(m=1)")
    with pytest.raises(InvalidData, match="must know the 4 items of the data, it knows 3"):
        sampled_ranks(as_scorer(np.ones((2, 3))), split, "uniform(m=1)")
    with pytest.raises(InvalidData, match="there must be a vector for each user, but user 1 has none"):
        sampled_ranks(as_scorer((np.ones((1, 2)), np.ones((4, 2)))), split, "uniform(m=1)")
    with pytest.raises(InvalidData, match=r"must return shape \(2, 2\)"):
        sampled_ranks(as_scorer(lambda users, items: np.ones(3), n_items=4), split, "uniform(m=1)")


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_nan_names_the_user(kind: str) -> None:
    scores = HAND_SCORES.copy()
    scores[1, 2] = np.nan
    with pytest.raises(InvalidData, match="user 1 gets NaN"):
        sampled_ranks(
            as_scorer(scores if kind == "dense" else csr_array(scores)), hand_made(), "uniform(m=2)"
        )


def test_not_finite_factors(path: str) -> None:
    item = np.ones((4, 2))
    item[2, 1] = np.nan
    with pytest.raises(InvalidData, match="item factors must be finite, row 2"):
        sampled_ranks(as_scorer((np.ones((2, 2)), item)), hand_made(), "uniform(m=1)")


def test_nobody_to_rank() -> None:
    train = Interactions.from_codes([0], [0], n_items=4)
    split = Split(train, Interactions.from_codes([], [], n_users=1, n_items=4))
    for spec in ("uniform(m=1)", "popularity(m=1)", "full"):
        assert len(sampled_ranks(as_scorer(np.ones((1, 4))), split, spec)) == 0


@pytest.mark.parametrize(
    "spec",
    [
        "uniform",
        "uniform(m=10, replace=true, shared=false, per=target)",
        "popularity(m=5, power=0.75)",
        "given(path=a/b.csv)",
        "full",
    ],
)
def test_spec_strings_round_trip(spec: str) -> None:
    assert str(SAMPLERS.make(spec)) == spec
    assert hash(SAMPLERS.make(spec)) == hash(SAMPLERS.make(spec))


def test_presets_and_listing() -> None:
    assert SAMPLERS.make("uni100") == UniformSampler(m=100)
    assert str(GivenLists({0: [1]})) == "given"
    assert [entry.name for entry in SAMPLERS.entries()] == [
        "adaptive",
        "full",
        "given",
        "popularity",
        "uniform",
        "uni100",
    ]


@pytest.mark.parametrize("seen", ["keep", "remove"])
@pytest.mark.parametrize(
    "sampler", ["uniform(m=20)", "uniform(m=20, replace=true)", "uniform(m=20, per=target)"]
)
@pytest.mark.parametrize("most", [10, 60])
def test_stored_scores_have_the_ranks_of_computed_ones(sampler: str, seen: SeenPolicy, most: int) -> None:
    """One compiled pass samples and compares; also users who have seen all but a third of the items."""
    draw = np.random.default_rng(most)
    users, items = np.nonzero(draw.random((500, 100)) < most / 100)
    is_test = draw.random(len(users)) < 0.1
    train, test = (
        Interactions.from_codes(users[rows], items[rows], n_users=500, n_items=100)
        for rows in (~is_test, is_test)
    )
    scores = draw.integers(0, 40, (500, 100)).astype(np.float32)  # with ties
    stored = sample_ranks(as_scorer(scores), Split(train, test), sampler, seen=seen, seed=3)
    computed = sample_ranks(
        as_scorer(lambda user, item: scores[user[:, None], item], n_items=100),
        Split(train, test),
        sampler,
        seen=seen,
        seed=3,
    )
    assert stored.n_scores <= computed.n_scores  # lists of several lengths are padded there
    assert_equal(stored.ranks, computed.ranks)
