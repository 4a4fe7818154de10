"""Definitions by hand, properties of gains, spec strings, and errors."""

from __future__ import annotations

import dataclasses
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.metrics.test_ties import DEFINITIONS
from tests.reference import metrics as twin
from truerank.core.errors import CannotEstimate, InvalidData, InvalidParameter, UnknownName
from truerank.core.ranks import Ranks
from truerank.metrics.registry import METRICS, make_metrics, values

SUMS = [spec for spec, _, _ in DEFINITIONS if "hits" not in spec]
# ranks 2 and 3 of 5 are relevant
LIST: twin.User = ([5.0, 4.0, 3.0, 2.0, 1.0], [False, True, True, False, False])


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        ("recall@2", Fraction(1, 2)),
        ("recall@5", 1),
        ("recall(norm=min)@1", 0),
        ("precision@2", Fraction(1, 2)),
        ("precision", Fraction(2, 5)),
        ("hit@1", 0),
        ("hit@2", 1),
        ("mrr", Fraction(1, 2)),
        ("mrr@1", 0),
        ("ap", (Fraction(1, 2) + Fraction(2, 3)) / 2),
        ("ap@2", Fraction(1, 4)),
        ("ap(norm=rel)@1", 0),
        ("ap(norm=k)@3", (Fraction(1, 2) + Fraction(2, 3)) / 3),
        ("ap(norm=hits)@2", Fraction(1, 2)),
        ("ap(norm=hits)@1", 0),
        ("ndcg@2", (1 / math.log2(3)) / (1 + 1 / math.log2(3))),
        ("ndcg", (1 / math.log2(3) + 1 / 2) / (1 + 1 / math.log2(3))),
        ("ndcg(discount=clip)@2", Fraction(1, 2)),
        ("auc", Fraction(4, 6)),
        ("auc@2", Fraction(2 + 1, 6)),
    ],
)
def test_two_relevant_items_by_hand(spec: str, wanted: float | Fraction) -> None:
    assert METRICS.make(spec).per_user(twin.counts([LIST])).tolist() == [
        pytest.approx(float(wanted), rel=1e-14)
    ]


@given(rank=st.integers(1, 50), cutoff=st.integers(1, 50))
def test_one_relevant_item_equals_the_specification(rank: int, cutoff: int) -> None:
    """SPEC 1.2: AUC = (L - R)/(L - 1), Prec = 1[R <= K]/K, Recall = 1[R <= K], AP, NDCG."""
    ranks = Ranks.single([rank - 1], n_pool=50)
    within = float(rank <= cutoff)
    wanted = {
        "recall": within,
        "hit": within,
        "precision": within / cutoff,
        "ap": within / rank,
        "mrr": within / rank,
        "ndcg": within / math.log2(rank + 1),
    }
    for name, value in wanted.items():
        assert METRICS.make(f"{name}@{cutoff}").per_user(ranks).tolist() == [pytest.approx(value, rel=1e-14)]
    assert METRICS.make("auc").per_user(ranks).tolist() == [pytest.approx((50 - rank) / 49, abs=1e-15)]


@pytest.mark.parametrize("spec", SUMS)
@given(
    n_relevant=st.integers(1, 8),
    above=st.integers(0, 7),
    cutoff=st.none() | st.integers(1, 40),
)
def test_gain_never_grows_with_rank(spec: str, n_relevant: int, above: int, cutoff: int | None) -> None:
    metric = METRICS.make(spec if cutoff is None else f"{spec}@{cutoff}")
    above = min(above, n_relevant - 1)
    ranks = np.arange(above + 1, 41)
    gains = metric.gain(ranks, np.array(above), np.array(n_relevant), np.array(40))
    assert gains.shape == ranks.shape
    assert (np.diff(gains) <= 1e-15).all()


@pytest.mark.slow
@pytest.mark.parametrize(("spec", "name", "variant"), DEFINITIONS)
@given(
    hits=st.lists(st.booleans(), min_size=2, max_size=30).filter(lambda h: 0 < sum(h) < len(h)),
    data=st.data(),
)
def test_sum_of_gains_equals_the_definition(
    spec: str, name: str, variant: str, hits: list[bool], data: st.DataObject
) -> None:
    """Lists without ties, values in [0, 1]; perfect lists reach 1 where the norm allows it."""
    cutoff = data.draw(st.none() | st.integers(1, len(hits)))
    metric = METRICS.make(spec if cutoff is None else f"{spec}@{cutoff}")
    user = [-float(rank) for rank in range(len(hits))], hits
    found = float(metric.per_user(twin.counts([user]))[0])
    assert found == pytest.approx(float(twin.value(name, hits, cutoff, variant)), rel=1e-12, abs=1e-15)
    assert -1e-15 <= found <= 1 + 1e-12


def test_values_equal_single_metrics() -> None:
    """One column per metric, users in the order of their rows."""
    rng = np.random.default_rng(0)
    users = [
        (rng.integers(0, 5, 12).astype(float).tolist(), [True, False, *(rng.random(10) < 0.4).tolist()])
        for _ in range(20)
    ]
    ranks = twin.counts(users)
    metrics = make_metrics([spec if "auc" in spec else f"{spec}@4" for spec, _, _ in DEFINITIONS])
    table = values(metrics, ranks, ties="random", seed=2)
    assert table.shape == (20, len(metrics))
    for column, metric in enumerate(metrics):
        assert table[:, column].tolist() == metric.per_user(ranks, ties="random", seed=2).tolist()


def test_no_rows_give_no_values() -> None:
    empty = np.zeros(0, dtype=np.int64)
    assert values(make_metrics("ndcg@10,auc,ap(norm=hits)@2"), Ranks.single(empty, n_pool=9)).shape == (0, 3)


def test_huge_tied_blocks_need_no_loop_over_items() -> None:
    """A hundred thousand users whose target is tied with a million items: the mean gain in closed form."""
    ranks = Ranks.single([0] * 100_000, n_pool=10**6, n_tied=10**6 - 1)
    table = values(make_metrics("recall@10,ap,auc"), ranks)
    harmonic = math.log(10**6) + 0.5772156649015329 + 0.5e-6
    assert table[0].tolist() == pytest.approx([1e-5, harmonic / 10**6, 0.5], rel=1e-12)
    assert (table == table[0]).all()


@pytest.mark.parametrize("name", METRICS.names())
def test_registered_names_keep_the_contract(name: str) -> None:
    """parse(format(x)) == x, frozen, hashable, picklable, with a source."""
    metric = METRICS.make(f"{name}@7")
    assert METRICS.make(str(metric)) == metric
    assert hash(METRICS.make(str(metric))) == hash(metric)
    assert pickle.loads(pickle.dumps(metric)) == metric
    assert metric.cutoff == 7
    assert type(metric).source is not None
    with pytest.raises(dataclasses.FrozenInstanceError):
        metric.cutoff = 3  # type: ignore[misc]


def test_listing_has_a_line_for_every_name() -> None:
    entries = METRICS.entries()
    assert [entry.name for entry in entries] == [*sorted(METRICS.table), *sorted(METRICS.presets)]
    assert all(entry.summary for entry in entries)


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("ndgc@10", UnknownName, "unknown metric 'ndgc'. Did you mean 'ndcg'?"),
        ("ndcg@0", InvalidParameter, "ndcg@0: cutoff must be an integer >= 1, got 0."),
        ("ndcg@-3", InvalidParameter, "ndcg@-3: cutoff must be an integer >= 1, got -3."),
        ("ndcg@2.5", InvalidParameter, "cutoff must be an integer >= 1, got '2.5' in 'ndcg@2.5'."),
        ("ap(norm=all)", InvalidParameter, "ap(norm=...) must be min or rel or k or hits, got 'all'."),
        ("hit(norm=min)", InvalidParameter, "metric 'hit' takes no parameters, got 'norm'. Leave it out."),
    ],
)
def test_bad_specs(spec: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as caught:
        METRICS.make(spec)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("name", "parameter"), [("ap", "norm"), ("ndcg", "ideal"), ("ndcg", "discount"), ("recall", "norm")]
)
def test_bad_variants_in_python(name: str, parameter: str) -> None:
    with pytest.raises(InvalidParameter, match=f"{parameter} must be one of .*, got 'x'"):
        METRICS.type_of(name)(**{parameter: "x"})  # type: ignore[arg-type]


def test_cutoff_must_fit_the_largest_pool() -> None:
    """Smaller pools of single users are fine."""
    ranks = Ranks.single([0, 1], n_pool=np.array([20, 3706]))
    assert METRICS.make("ndcg@3706").per_user(ranks).shape == (2,)
    message = "cutoff of ndcg@5000 must be at most the largest pool of 3706 items, got 5000. Lower it."
    for compute in (METRICS.make("ndcg@5000").per_user, lambda r: values(make_metrics("ndcg@5000"), r)):
        with pytest.raises(InvalidParameter) as caught:
            compute(ranks)
        assert str(caught.value) == message


def test_auc_needs_an_irrelevant_item() -> None:
    with pytest.raises(InvalidData, match="the 1 items in the pool of user 0 are all relevant"):
        METRICS.make("auc").per_user(Ranks.single([0], n_pool=1))


def test_ap_over_hits_has_no_gain() -> None:
    with pytest.raises(CannotEstimate, match="is not a sum over targets"):
        METRICS.make("ap(norm=hits)@5").gain(*(np.array([1]),) * 4)


def test_at_least_one_metric() -> None:
    with pytest.raises(InvalidParameter, match="at least one metric is needed"):
        make_metrics(" , ")
    assert [str(metric) for metric in make_metrics(METRICS.make("map@5"))] == ["ap@5"]
