"""From ranks or models to verdicts."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import t as student
from scipy.stats import ttest_ind

from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.core.ranks import Design, Ranks, SampledRanks
from truerank.core.split import Split
from truerank.core.table import about
from truerank.data.demo import demo
from truerank.metrics.registry import make_metrics, values
from truerank.ranking.simulate import simulate_sample
from truerank.split.base import make_split
from truerank.workflows.compare.compare import compare as run_compare
from truerank.workflows.compare.options import Correction
from truerank.workflows.compare.posterior import PosteriorDifferences
from truerank.workflows.compare.result import Comparison, Difference, Strength, Verdict
from truerank.workflows.evaluate import evaluate

compare = partial(run_compare, estimator="bv(gamma=0.1)")  # differences per user: quicker than a fit

SPEC = Path(__file__).parents[2] / "golden" / "spec" / "corrections.json"
TOY = json.loads(SPEC.read_text())["toy_expected_m99"]
MIRROR = {Verdict.FIRST: Verdict.SECOND, Verdict.SECOND: Verdict.FIRST}


def drawn(shape: float, *, n_users: int = 400, n_pool: int = 500, seed: int = 0) -> Ranks:
    share = np.random.default_rng(seed).beta(shape, 2, n_users)
    return Ranks.single((share * n_pool).astype(np.int64), n_pool=n_pool)


def test_exact_ranks_know_the_difference() -> None:
    """A hits for users 1 and 3, B for user 1: recall@1 is 1/2 and 1/4, and that is all there is to know."""
    a, b = Ranks.single([0, 3, 0, 7], n_pool=10), Ranks.single([0, 3, 5, 9], n_pool=10)
    one = compare({"A": a, "B": b}, metrics="recall@1", target="test-users").differences[0]
    assert (one.value, one.low, one.high, one.probability) == (0.25, 0.25, 0.25, 1.0)
    assert (one.verdict, one.strength, one.method) == (Verdict.FIRST, Strength.EXACT, "exact")
    assert one.population_low is not None and one.population_low < 0
    assert one.bound_low is None and one.needed_negatives is None
    wide = compare({"A": a, "B": b}, metrics="recall@1").differences[0]  # about users like these
    assert wide.target == "population" and wide.by_interval is Verdict.NOISE
    assert (wide.low, wide.high) == (one.population_low, one.population_high)
    assert (wide.verdict, wide.strength) == (Verdict.NOISE, Strength.NONE)
    assert wide.method == "differences per user, max-t"
    # one user of four differs: McNemar's statistic 1 with n - 1 for n, which is less than Student's
    assert one.p_value == wide.p_value == pytest.approx(2 * student.sf(np.sqrt(3 / 4), 3))


def test_rounding_is_no_victory() -> None:
    """The same values for other users: the means differ in the last digit at most."""
    above = np.arange(300) % 7
    a, b = (Ranks.single(own, n_pool=10) for own in (above, np.random.default_rng(0).permutation(above)))
    one = compare({"A": a, "B": b}, metrics="mrr", target="test-users").differences[0]
    assert (one.verdict, one.value, one.probability) == (Verdict.EQUAL, 0.0, 0.5)
    others = compare({"A": a, "B": b}, metrics="mrr").differences[0]
    assert (others.verdict, others.value, others.needed_users) == (Verdict.NOISE, 0.0, None)


def test_one_row_answers_what_is_asked() -> None:
    """Five users, by hand: A hits at rank 1 for users 1, 2 and 3, B for users 3 and 4."""
    a, b = Ranks.single([0, 0, 0, 5, 5], n_pool=10), Ranks.single([5, 5, 0, 0, 5], n_pool=10)
    found = compare({"A": a, "B": b}, metrics="recall@1")
    one = found.differences[0]
    assert (one.wins, one.ties, one.losses) == (2, 2, 1)
    assert one.value == pytest.approx(0.2) and one.relative == pytest.approx(0.5)
    assert one.low is not None and one.high is not None
    assert (one.relative_low, one.relative_high) == pytest.approx((one.low / 0.4, one.high / 0.4))
    half = (one.high - one.low) / 2
    assert one.needed_users is not None and one.needed_users == np.ceil(5 * (half / one.value) ** 2)
    assert f"About {about(one.needed_users)} users would be enough to tell" in one.sentence
    again = Comparison.from_json(found.to_json()).differences[0]
    assert again == one
    nothing = compare({"A": a, "B": Ranks.single([5] * 5, n_pool=10)}, metrics="recall@1").differences[0]
    assert nothing.relative is None  # of a value of 0
    sampled = {name: simulate_sample(drawn(0.3), 50, label=name) for name in "AB"}
    assert compare(sampled, metrics="auc", estimator="bv").differences[0].wins is None


def test_the_least_p_that_resamples_can_show() -> None:
    """A always hits and B never does, but for one user: no resample comes near."""
    a, b = Ranks.single([0] * 99 + [5], n_pool=10), Ranks.single([5] * 99 + [0], n_pool=10)
    one = compare({"A": a, "B": b}, metrics="recall@1").differences[0]
    assert one.is_least_p and one.p_adjusted == pytest.approx(1 / 2001)
    table = compare({"A": a, "B": b}, metrics="recall@1").to_table()
    assert table.rows[0][table.columns.index("adjusted p")] == "<= 0.0005"
    near = compare({"A": drawn(0.3), "B": drawn(0.31, seed=1)}, metrics="auc").differences[0]
    assert not near.is_least_p
    holm = compare({"A": a, "B": b}, metrics="recall@1", correction="holm").differences[0]
    assert not holm.is_least_p and holm.p_adjusted == holm.p_value


def test_margins() -> None:
    a, b = Ranks.single([0, 3] * 200, n_pool=10), Ranks.single([0, 4] * 200, n_pool=10)
    near = compare({"A": a, "B": b}, metrics="mrr", tie_margin=0.05, target="population").differences[0]
    assert (near.verdict, near.strength) == (Verdict.EQUIVALENT, Strength.USERS)
    far = compare({"A": a, "B": b}, metrics="mrr", tie_margin=0.02, target="population").differences[0]
    assert far.verdict is Verdict.FIRST and far.value == pytest.approx((1 / 4 - 1 / 5) / 2)


def test_a_random_part_of_the_test_users() -> None:
    """Of N = 500 test users 400 were ranked: the error is sqrt(1 - 400/500) of that for all users."""
    models = {"A": drawn(0.3), "B": drawn(0.5, seed=1)}
    part = compare(models, metrics="auc", n_test_users=500, target="test-users").differences[0]
    whole = compare(models, metrics="auc").differences[0]
    assert part.high is not None and whole.high is not None
    assert part.high - part.value == pytest.approx((whole.high - whole.value) * np.sqrt(1 / 5))
    assert (part.strength, whole.strength) == (Strength.USERS, Strength.USERS)
    same = compare(models, metrics="auc", n_test_users=400, target="test-users").differences[0]
    assert (same.low, same.strength) == (same.value, Strength.EXACT)
    sampled = {
        name: replace(simulate_sample(one, 100, label=name), design=Design(n_test_users=500))
        for name, one in models.items()
    }
    one = compare(sampled, metrics="auc").differences[0]
    assert one.strength is not Strength.RANKS  # bounds hold for the users ranked, not for all 500


def test_different_users_are_compared_as_such() -> None:
    a, b = drawn(0.3), drawn(0.5, n_users=300, seed=1)
    b = replace(b, user=b.user + 1000)
    found = compare({"A": a, "B": b}, metrics="mrr", target="population", correction="none")
    one = found.differences[0]
    metrics = make_metrics("mrr")
    own, other = values(metrics, a)[:, 0], values(metrics, b)[:, 0]
    welch = ttest_ind(own, other, equal_var=False)
    assert one.value == pytest.approx(own.mean() - other.mean())
    # Welch's statistic, with the freedom of the smaller group
    assert one.p_value == pytest.approx(2 * student.sf(abs(welch.statistic), 299))
    assert one.pairing == "independent users" and one.method == "independent means, no correction"
    assert found.notes == ("A and B have no users in common: they are compared as independent samples.",)
    assert one.p_randomised is None
    # these users of A, exactly, against these users of B: still known
    these = compare({"A": a, "B": b}, metrics="mrr", target="test-users").differences[0]
    assert these.strength is Strength.EXACT


@pytest.mark.slow
@given(st.integers(0, 1000), st.sampled_from(["max-t", "holm", "none"]), st.booleans())
@settings(max_examples=8, deadline=None)
def test_swapping_models_mirrors_everything(seed: int, correction: Correction, is_sampled: bool) -> None:
    ranks: dict[str, Ranks | SampledRanks] = {
        name: drawn(shape, n_users=60, n_pool=60, seed=seed + place)
        for place, (name, shape) in enumerate({"A": 0.3, "B": 0.6, "C": 0.4}.items())
    }
    if is_sampled:
        ranks = {name: simulate_sample(one, 20, label=name) for name, one in ranks.items()}  # type: ignore[arg-type]
    there = compare(ranks, metrics="mrr,recall@5", correction=correction, seed=seed, resamples=200)
    back = compare(
        dict(reversed(ranks.items())), metrics="mrr,recall@5", correction=correction, seed=seed, resamples=200
    )
    for one in there.differences:
        other = back.difference(one.second, one.first, one.metric)
        assert other.value == -one.value
        assert (other.low, other.high) == (_minus(one.high), _minus(one.low))
        assert (other.bound_low, other.bound_high) == (_minus(one.bound_high), _minus(one.bound_low))
        assert other.p_adjusted == one.p_adjusted and other.p_randomised == one.p_randomised
        assert one.probability is not None and other.probability == pytest.approx(1 - one.probability)
        assert other.verdict is MIRROR.get(one.verdict, one.verdict)
        assert other.strength is one.strength
    # A - C is (A - B) + (B - C)
    for metric in ("mrr", "recall@5"):
        parts = [there.difference(a, b, metric).value for a, b in ("AB", "BC", "AC")]
        assert parts[0] + parts[1] == pytest.approx(parts[2], abs=1e-12)


def _minus(value: float | None) -> float | None:
    return None if value is None else -value


@lru_cache(maxsize=1)
def toy() -> dict[str, Ranks]:
    """Three recommenders of Krichene and Rendle (2020), each with its five users 300 times over."""
    ranks = {"A": [100] * 5, "B": [40, 40, 8437, 9266, 4482], "C": [212, 2, 743, 5342, 1548]}
    return {name: Ranks.single(np.array(own * 300) - 1, n_pool=10_000) for name, own in ranks.items()}


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["naive", "bv(gamma=0.1)", "bv(gamma=0.01)"])
def test_a_flipped_order_is_no_verdict(estimator: str) -> None:
    """By sampled Recall@10 A beats C, exactly C beats A: a sample of 99 may not say that A is better."""
    golden = {name: one["Recall@10"]["mean"] for name, one in TOY["binomial"].items()}
    assert golden["A"] > golden["C"]
    exact = compare(toy(), metrics="recall@10").difference("A", "C", "recall@10")
    assert (exact.verdict, exact.strength) == (Verdict.SECOND, Strength.USERS)
    sampled = {
        name: simulate_sample(one, 99, replacement=True, label=name)
        for name, one in toy().items()
        if name != "B"
    }
    found = compare(sampled, metrics="recall@10,auc", estimator=estimator)
    one = found.difference("A", "C", "recall@10")
    assert one.bound_low is not None and one.bound_high is not None
    assert one.bound_low <= exact.value <= one.bound_high
    assert not one.verdict.is_decided
    if estimator == "naive":
        assert one.value == pytest.approx(golden["A"] - golden["C"], abs=0.05)
        assert (one.verdict, one.by_interval) == (Verdict.UNRESOLVED, Verdict.FIRST)
        assert "K = 10 is below what 99 negatives resolve" in one.sentence
        assert "which no compatible rank distribution gives" in one.sentence
        # who asks the estimator alone gets the wrong winner, and is told what the verdict rests on
        alone = compare(sampled, metrics="recall@10", estimator="naive", bounds=False).differences[0]
        assert (alone.verdict, alone.strength) == (Verdict.FIRST, Strength.ESTIMATOR)
    else:
        assert one.by_interval is not Verdict.FIRST
    # what 99 negatives do resolve
    assert found.difference("A", "C", "auc").strength is Strength.RANKS


@pytest.mark.slow
def test_enough_negatives_decide() -> None:
    sampled = {name: simulate_sample(one, 4000, label=name) for name, one in toy().items() if name != "B"}
    one = compare(sampled, metrics="recall@10", estimator="naive").differences[0]
    assert (one.verdict, one.strength) == (Verdict.SECOND, Strength.RANKS)
    assert one.sentence.startswith("C beats A in recall@10 whatever the ranks are")


def test_advice_and_shape() -> None:
    """What is advised does part the bounds; a shape needs less."""
    exact = {"A": drawn(0.2, n_users=1500), "B": drawn(0.6, n_users=1500, seed=1)}
    few = {name: simulate_sample(one, 20, label=name) for name, one in exact.items()}
    one = compare(few, metrics="recall@10", posterior=False).differences[0]
    assert one.verdict is Verdict.UNRESOLVED and one.needed_negatives is not None
    assert f"About {one.needed_negatives:,} negatives would be enough to tell" in one.sentence
    size = round(1.25 * one.needed_negatives)
    more = {name: simulate_sample(own, size, label=name) for name, own in exact.items()}
    assert compare(more, metrics="recall@10").differences[0].strength is Strength.RANKS
    shaped = compare(few, metrics="recall@10", shape="decreasing").differences[0]
    assert shaped.bound_low is not None and one.bound_low is not None
    assert shaped.bound_low > one.bound_low


def test_exact_against_sampled() -> None:
    exact = drawn(0.3)
    found = compare({"X": exact, "S": simulate_sample(exact, 100)}, metrics="auc,recall@10")
    one = found.difference("X", "S", "auc")
    assert one.low is not None and one.high is not None and one.low < 0 < one.high
    assert not one.verdict.is_decided
    assert one.method == "posterior, simultaneous"
    for other in ("mle", "mn(prior=mle)", "bv(gamma=0.1)"):
        again = compare(
            {"X": exact, "S": simulate_sample(exact, 100)},
            metrics="auc",
            estimator=other,
            posterior=False,
            resamples=200,
        ).differences[0]
        expected = {
            "mle": "joint bootstrap, max-t",
            "mn(prior=mle)": "differences per user, max-t, prior taken",
            "bv(gamma=0.1)": "differences per user, max-t, ignores bias",
        }
        assert again.method.startswith(expected[other])
        assert again.low is not None and again.high is not None and again.low < 0 < again.high


def test_samples_without_bounds() -> None:
    """Negatives by popularity: only the sampled metric can be compared, and the reason is told."""
    design = Design(law="popularity", shared=True)
    a, b = (
        SampledRanks.single(np.arange(200) % top, n_negatives=20, n_pool=100, design=design)
        for top in (4, 20)
    )
    found = compare({"A": a, "B": b}, metrics="mrr", estimator="naive")
    one = found.differences[0]
    assert (one.verdict, one.strength, one.bound_low) == (Verdict.FIRST, Strength.ESTIMATOR, None)
    assert one.pairing == "paired users, shared negatives"
    for start, reason in (
        ("A: ", "no posterior of negatives that were not drawn uniformly"),
        ("B: ", "no posterior of negatives that were not drawn uniformly"),
        ("no bounds for A: bounds need", "negatives that were drawn uniformly"),
    ):
        assert any(note.startswith(start) and reason in note for note in found.notes)


def recommender(shape: float, label: str, m: int, n_users: int = 500) -> SampledRanks:
    """Return sampled ranks among 2,000 items, of a curve like those of recommenders."""
    draw = np.random.default_rng(sum(map(ord, label)))
    exact = Ranks.single((draw.beta(shape, 1.5, n_users) * 1999).astype(np.int64), n_pool=2000)
    return simulate_sample(exact, m, label=label)


def test_the_posterior_decides_where_bounds_do_not() -> None:
    """With 49 negatives of 2,000 items rank 40 is the first that is resolved."""
    models = {"good": recommender(0.15, "good", 49), "bad": recommender(0.5, "bad", 49)}
    found = compare(models, metrics="recall@10,recall@50")
    prior, sample = found.differences
    for one in (prior, sample):
        assert one.verdict is Verdict.FIRST and one.method == "posterior, simultaneous"
        assert one.low is not None and one.bound_low is not None and one.low > 0 > one.bound_low
        assert one.probability is not None and one.probability > 0.99
    assert prior.strength is Strength.PRIOR and "how ranks below 40 are spread" in prior.sentence
    assert sample.strength is Strength.SAMPLE and "it resolves ranks from 40 on" in sample.sentence
    assert not any("for noise" in note for note in found.notes)
    alone = compare(models, metrics="recall@10", correction="none").differences[0]
    assert alone.method == "posterior, no correction"
    assert alone.low is not None and prior.low is not None and alone.low > prior.low
    smooth = compare(models, metrics="recall@10", estimator="smooth", bounds=False, resamples=200)
    held = smooth.differences[0]
    assert held.low is not None and held.high is not None and held.low <= held.value <= held.high
    for every in ("population", "test-users"):
        wide = compare(models, metrics="recall@10", target=every, bounds=False).differences[0]
        assert wide.strength is Strength.PRIOR


def test_without_a_posterior_bounds_decide_and_the_reason_is_told() -> None:
    models = {"good": recommender(0.15, "good", 49, 40), "bad": recommender(0.5, "bad", 49, 40)}
    found = compare(models, metrics="recall@10")
    one = found.differences[0]
    assert one.method == "differences per user, max-t, ignores bias"
    assert one.strength not in (Strength.PRIOR, Strength.SAMPLE)
    told = "good: there is no posterior with fewer than 50 users; its differences have intervals for noise "
    assert f"{told}only, and verdicts need bounds." in found.notes
    # exact ranks of some of the users do not say what the others have
    part = compare(
        {"X": drawn(0.3), "S": simulate_sample(drawn(0.5, seed=1), 50)}, metrics="auc", n_test_users=500
    )
    assert part.differences[0].method.endswith("ignores bias")
    assert any(note.startswith("X: its ranks are exact, but not those of all users") for note in part.notes)


def test_an_interval_is_cut_to_its_bounds() -> None:
    made = PosteriorDifferences(
        np.array([[-0.2]]), np.array([[0.3]]), np.array([[0.7]]), np.array([[37.0]]), {}
    )
    assert made.within((0, 0), None) == (-0.2, 0.3)
    assert made.within((0, 0), (-0.1, 0.5)) == (-0.1, 0.3)
    assert made.within((0, 0), (0.4, 0.5)) == (0.4, 0.5)  # bounds hold, whatever the prior says


def test_one_user() -> None:
    a, b = (SampledRanks.single([above], n_negatives=9, n_pool=100) for above in (0, 5))
    one = compare({"A": a, "B": b}, metrics="mrr").differences[0]
    assert (one.low, one.p_adjusted, one.probability) == (None, None, None)
    assert one.verdict is Verdict.NOISE and "One user does not show" in one.sentence


def test_seeds_repeat() -> None:
    models = {"A": drawn(0.3), "B": drawn(0.4, seed=1)}
    first, again, other = (
        compare(models, metrics="mrr", target="population", seed=seed).differences[0] for seed in (1, 1, 2)
    )
    assert first == again
    assert first.low != other.low and first.value == other.value


def test_json_round_trip() -> None:
    sampled = {
        name: simulate_sample(drawn(shape), 50, label=name) for name, shape in (("A", 0.2), ("B", 0.6))
    }
    found = compare(sampled, metrics="recall@10,auc")
    assert Comparison.from_json(found.to_json()) == found
    assert Comparison.from_dict(found.to_dict()) == found
    entry = found.differences[0].to_dict()
    assert set(entry) == {field.name for field in fields(Difference)}
    assert json.loads(found.to_json())["differences"][0]["verdict"] in set(Verdict)
    with pytest.raises(InvalidData, match="verdict is 'A wins' instead of 'A beats B' or"):
        Difference.from_dict({**entry, "verdict": "A wins"})
    with pytest.raises(InvalidData, match="must be the JSON that truerank wrote"):
        Comparison.from_json("{")
    with pytest.raises(InvalidData, match="must be the JSON that truerank wrote"):
        Comparison.from_json("{}")
    with pytest.raises(InvalidData, match="there is no difference B - A in auc"):
        found.difference("B", "A", "auc")


@pytest.fixture(scope="module")
def small() -> Split:
    return make_split(demo(n_users=300, n_items=400), "leave-last-out")


@pytest.mark.slow
def test_models_on_a_split(small: Split) -> None:
    names = ["popularity", "ease"]
    found = compare(names, small, "ndcg@10,auc")
    result = evaluate(names, small, "ndcg@10,auc")
    for one in found.differences:
        assert one.value == pytest.approx(
            result.value(one.metric, "popularity") - result.value(one.metric, "ease")
        )
        assert one.strength is Strength.USERS and one.target == "population"
    sampled = compare(names, small, "ndcg@10,auc", sampler="uniform(m=50)", estimator="naive")
    assert {one.pairing for one in sampled.differences} == {"paired users, shared negatives"}
    apart = compare(names, small, "auc", sampler="uniform(m=50, shared=false)", estimator="naive")
    assert apart.differences[0].pairing == "paired users"
    with pytest.raises(InvalidData, match="the test part must hold at least one target"):
        compare(names, Split(small.train, small.test.take(np.zeros(0, np.int64))), "auc")


def test_gains_are_those_of_evaluate() -> None:
    """Graded values are compared as ``evaluate`` finds them; ranks bring their own gains."""
    rng = np.random.default_rng(4)
    user, item = np.repeat(np.arange(30), 3), np.tile(np.arange(3), 30)
    rating = rng.integers(1, 6, 90).astype(np.float64)
    train = Interactions.from_codes(user, item + 3, n_users=30, n_items=8)
    split = Split(train, Interactions.from_codes(user, item, n_users=30, n_items=8, value=rating))
    models = {"a": rng.random((30, 8)), "b": rng.random((30, 8))}
    found = run_compare(models, split, "err@3,ndcg@3", gain="rating(form=exp2)")
    result = evaluate(models, split, "err@3,ndcg@3", gain="rating(form=exp2)")
    for one in found.differences:
        expected = result.value(one.metric, "a") - result.value(one.metric, "b")
        assert one.value == pytest.approx(expected, abs=1e-12) and expected != 0
    assert found.provenance["gain"] == "rating(form=exp2)"
    from_ranks = run_compare(result, metrics="err@3").differences[0]
    assert from_ranks.value == pytest.approx(found.differences[0].value, abs=1e-12)
    with pytest.raises(InvalidParameter, match="Leave gain out, or give models and a split"):
        run_compare(result, metrics="err@3", gain="rating")
