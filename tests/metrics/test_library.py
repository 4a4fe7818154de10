"""Presets against the libraries they are named after: the real ones where installed, else by hand."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from tests.metrics.test_grades import GradedUser, graded_counts
from tests.reference import metrics as twin
from truerank.core.types import FloatArray
from truerank.metrics.grades import GAINS
from truerank.metrics.registry import METRICS, make_metrics, values

CUTOFFS = (1, 3, 10)
Users = list[twin.User]


def random_users(n_users: int = 40, n_items: int = 25, *, seed: int = 0, ties: bool = False) -> Users:
    """Users with 1 to 14 relevant items, so that some have more of them than the cut-off."""
    rng = np.random.default_rng(seed)
    users: Users = []
    for _ in range(n_users):
        scores = rng.permutation(n_items) / 4 + 1
        if ties:
            scores = np.floor(scores / 2)
        relevant = np.zeros(n_items, dtype=bool)
        relevant[rng.permutation(n_items)[: rng.integers(1, 15)]] = True
        users.append((scores.tolist(), relevant.tolist()))
    return users


def ours(spec: str, users: Users) -> FloatArray:
    return values(make_metrics(spec), twin.counts(users))[:, 0]


def dictionaries(users: Users) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Return the users as judgements and scores keyed by text ids."""
    qrels = {
        f"q{u:03}": {f"d{i:02}": 1 for i, hit in enumerate(relevant) if hit}
        for u, (_, relevant) in enumerate(users)
    }
    run = {f"q{u:03}": {f"d{i:02}": s for i, s in enumerate(scores)} for u, (scores, _) in enumerate(users)}
    return qrels, run


RANX_PROGRAM = """
import json, sys
from ranx import Qrels, Run, evaluate
qrels, run, names = json.load(sys.stdin)
found = evaluate(Qrels(qrels), Run(run), names, return_mean=False)
print(json.dumps({name: list(map(float, found[name])) for name in names}))
"""


@pytest.mark.slow
def test_presets_equal_ranx() -> None:
    """Every ``ranx.`` preset equals ``ranx.evaluate``, per user, at three cut-offs and without one.

    In a process of its own without compilation, which would take a minute and warns.
    """
    users = random_users()
    theirs = {"hit": "hit_rate", "map": "map", "mrr": "mrr"}
    theirs |= {"ndcg": "ndcg", "precision": "precision", "recall": "recall"}
    suffixes = ["", *(f"@{cutoff}" for cutoff in CUTOFFS)]
    names = [name + suffix for name in theirs.values() for suffix in suffixes]
    done = subprocess.run(
        [sys.executable, "-c", RANX_PROGRAM],
        input=json.dumps([*dictionaries(users), names]),
        env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert {f"ranx.{name}" for name in theirs} == presets_of("ranx")
    for name, their in theirs.items():
        for suffix in suffixes:
            np.testing.assert_allclose(ours(f"ranx.{name}{suffix}", users), found[their + suffix], rtol=1e-12)


def presets_of(library: str) -> set[str]:
    return {name for name in METRICS.names() if name.startswith(f"{library}.")}


def test_presets_equal_ir_measures() -> None:
    """Every ``ir-measures.`` preset equals ir_measures with its default provider, trec_eval."""
    ir_measures = pytest.importorskip("ir_measures")
    users = random_users(seed=1)
    theirs = {"hit": "Success", "map": "AP", "mrr": "RR", "ndcg": "nDCG", "precision": "P", "recall": "R"}
    assert {f"ir-measures.{name}" for name in theirs} == presets_of("ir-measures")
    pairs = [
        (f"{name}@{cutoff}", f"{their}@{cutoff}") for name, their in theirs.items() for cutoff in CUTOFFS
    ]
    pairs += [("map", "AP"), ("mrr", "RR"), ("ndcg", "nDCG")]
    for name, their in pairs:
        measure = ir_measures.parse_measure(their)
        found = {m.query_id: m.value for m in ir_measures.iter_calc([measure], *dictionaries(users))}
        wanted = [found[query] for query in sorted(found)]
        np.testing.assert_allclose(ours(f"ir-measures.{name}", users), wanted, rtol=1e-12)


@pytest.mark.parametrize("ties", [False, True])
def test_auc_and_ndcg_equal_scikit_learn(ties: bool) -> None:
    """With ties too: roc_auc_score counts a tie as half, ndcg_score averages over tied ranks."""
    metrics = pytest.importorskip("sklearn.metrics")
    users = random_users(seed=2, ties=ties)
    auc = [metrics.roc_auc_score(relevant, scores) for scores, relevant in users]
    np.testing.assert_allclose(ours("auc", users), auc, rtol=1e-12)
    for cutoff in (None, *CUTOFFS):
        ndcg = [metrics.ndcg_score([relevant], [scores], k=cutoff) for scores, relevant in users]
        np.testing.assert_allclose(
            ours("ndcg" if cutoff is None else f"ndcg@{cutoff}", users), ndcg, rtol=1e-12
        )


def test_ap_equals_scikit_learn_without_ties() -> None:
    """With ties average_precision_score takes the precision at the end of each tied block instead."""
    metrics = pytest.importorskip("sklearn.metrics")
    users = random_users(seed=3)
    wanted = [metrics.average_precision_score(relevant, scores) for scores, relevant in users]
    np.testing.assert_allclose(ours("ap", users), wanted, rtol=1e-12)


def test_presets_equal_implicit() -> None:
    """map, ndcg and auc equal implicit.evaluation, the last with pairs below the cut-off counted half."""
    evaluation = pytest.importorskip("implicit.evaluation")
    from scipy.sparse import csr_matrix

    users = random_users(seed=4)
    scores = np.array([scores for scores, _ in users])
    order = np.argsort(-scores, axis=1)

    class Ordered:
        """What implicit asks of a model."""

        def recommend(
            self, userid: FloatArray, user_items: object, N: int, **_: object
        ) -> tuple[FloatArray, FloatArray]:
            return order[userid, :N].astype(np.int32), -np.sort(-scores[userid], axis=1)[:, :N]

    test = csr_matrix(np.array([relevant for _, relevant in users], dtype=np.float64))
    for cutoff in CUTOFFS:
        found = evaluation.ranking_metrics_at_k(
            Ordered(), csr_matrix(test.shape), test, K=cutoff, show_progress=False, num_threads=1
        )
        for name in ("map", "ndcg", "auc"):
            assert ours(f"implicit.{name}@{cutoff}", users).mean() == pytest.approx(found[name], rel=1e-12)


#: one list: of 6 items ranks 1, 3 and 5 are relevant
LIST: Users = [([6.0, 5.0, 4.0, 3.0, 2.0, 1.0], [True, False, True, False, True, False])]
D2, D3 = 1 / math.log2(3), 1 / 2  # discounts of ranks 2 and 3


@pytest.mark.parametrize(
    ("spec", "wanted"),
    [
        # RecBole: hits / |R(u)|, hits / K, sum of precisions / min(|R(u)|, K), ideal of min(|R(u)|, K) items
        ("recbole.recall@3", Fraction(2, 3)),
        ("recbole.precision@3", Fraction(2, 3)),
        ("recbole.hit@3", 1),
        ("recbole.mrr@3", 1),
        ("recbole.map@2", Fraction(1, 2)),
        ("recbole.map@3", (1 + Fraction(2, 3)) / 3),
        ("recbole.ndcg@2", 1 / (1 + D2)),
        ("recbole.ndcg@3", (1 + D3) / (1 + D2 + D3)),
        # RecTools: map / |R(u)|, ndcg over an ideal list of K relevant items
        ("rectools.recall@2", Fraction(1, 3)),
        ("rectools.precision@2", Fraction(1, 2)),
        ("rectools.hit@2", 1),
        ("rectools.mrr@2", 1),
        ("rectools.map@2", Fraction(1, 3)),
        ("rectools.map@3", (1 + Fraction(2, 3)) / 3),
        ("ap(norm=k)@2", Fraction(1, 2)),  # divide_by_k=True
        ("rectools.ndcg@2", 1 / (1 + D2)),
        # LensKit: recall / min(|test|, n), average precision / min(|test|, n), discount log2(max(rank, 2))
        ("lenskit.recall@2", Fraction(1, 2)),
        ("lenskit.recall@3", Fraction(2, 3)),
        ("lenskit.precision@2", Fraction(1, 2)),
        ("lenskit.hit@2", 1),
        ("lenskit.mrr@2", 1),
        ("lenskit.map@2", Fraction(1, 2)),
        ("lenskit.ndcg@2", Fraction(1, 2)),
        ("lenskit.ndcg@3", (1 + D2) / (2 + D2)),
        # torchmetrics: average precision / relevant items among the first k
        ("torchmetrics.recall@2", Fraction(1, 3)),
        ("torchmetrics.precision@3", Fraction(2, 3)),
        ("torchmetrics.hit@1", 1),
        ("torchmetrics.mrr@1", 1),
        ("torchmetrics.map@2", 1),
        ("torchmetrics.map@3", (1 + Fraction(2, 3)) / 2),
        ("torchmetrics.ndcg@2", 1 / (1 + D2)),
        # implicit: map / min(likes, K), auc with pairs below K counted half: 3 won by rank 1, 1 each
        ("implicit.map@2", Fraction(1, 2)),
        ("implicit.ndcg@2", 1 / (1 + D2)),
        ("implicit.auc@2", Fraction(3 + 1 + 1, 9)),
    ],
)
def test_presets_by_hand(spec: str, wanted: float | Fraction) -> None:
    assert ours(spec, LIST).tolist() == [pytest.approx(float(wanted), rel=1e-14)]


def test_rectools_examples() -> None:
    """The docstrings of rectools.metrics.MAP and NDCG print these values."""
    lists = [[False, True, True], [True, False, False], [True, False, True, True], [True, True, True]]
    # user 1 of the docstring has none of its 2 items in the list of 2, user 2 has 1 of 1, 3 has 3, 4 has 3
    users: Users = [([3.0, 1.0, 1.0], lists[0])]
    users += [([float(-rank) for rank in range(len(hits))], hits) for hits in lists[1:]]
    assert ours("rectools.map@1", users).round(8).tolist() == [0, 1, 0.33333333, 0.33333333]
    assert ours("rectools.map@3", users[1:]).round(8).tolist() == [1, 0.55555556, 1]
    assert ours("ap(norm=k)@3", users[1:]).round(8).tolist() == [0.33333333, 0.55555556, 1]
    assert ours("rectools.ndcg@3", users[1:]).round(8).tolist() == [0.46927873, 0.70391809, 1]


def test_torchmetrics_examples() -> None:
    """The docstrings of torchmetrics' retrieval functions print these values."""
    users: Users = [([0.2, 0.3, 0.5], [True, False, True])]
    assert ours("torchmetrics.map", users).round(4).tolist() == [0.8333]
    assert ours("torchmetrics.precision@2", users).tolist() == [0.5]
    assert ours("torchmetrics.recall@2", users).tolist() == [0.5]
    assert ours("auc", users).tolist() == [0.5]


def test_every_preset_is_checked_here() -> None:
    """A new preset needs a line above."""
    known = {"implicit", "ir-measures", "lenskit", "ranx", "recbole", "rectools", "torchmetrics"}
    assert {name.partition(".")[0] for name in METRICS.presets} - {"hr", "map", "rr"} == known
    assert presets_of("implicit") == {"implicit.auc", "implicit.map", "implicit.ndcg"}
    for library in known - {"implicit"}:
        names = {"hit", "map", "mrr", "ndcg", "precision", "recall"}
        assert presets_of(library) == {f"{library}.{name}" for name in names}


def graded_users(n_users: int = 40, n_items: int = 25, *, seed: int, ties: bool) -> list[GradedUser]:
    draw = np.random.default_rng(seed)
    return [
        (
            (np.floor(draw.permutation(n_items) / 4) if ties else draw.permutation(n_items) + 1.0).tolist(),
            [*np.where(draw.random(n_items - 1) < 0.5, 0, draw.integers(1, 5, n_items - 1)).tolist(), 4],
        )
        for _ in range(n_users)
    ]


def graded(spec: str, users: list[GradedUser], gain: str) -> FloatArray:
    ranks = graded_counts(users)
    assert ranks.gain is not None
    return values(make_metrics(spec), replace(ranks, gain=GAINS.make(gain).of_ratings(ranks.gain)))[:, 0]


@pytest.mark.parametrize("gain", ["rating", "rating(form=exp2)"])
def test_graded_ndcg_equals_scikit_learn(gain: str) -> None:
    """Tied scores averaged; benchmarks.graded_metrics compares 10,000 problems, with ranx too."""
    metrics = pytest.importorskip("sklearn.metrics")
    users = graded_users(seed=5, ties=True)
    for cutoff in CUTOFFS:
        wanted = [
            metrics.ndcg_score([GAINS.make(gain).of_ratings(np.array(grades))], [scores], k=cutoff)
            for scores, grades in users
        ]
        np.testing.assert_allclose(graded(f"ndcg@{cutoff}", users, gain), wanted, rtol=1e-12)


def test_graded_ndcg_equals_ir_measures() -> None:
    """trec_eval's ndcg_cut takes grades as gains."""
    ir_measures = pytest.importorskip("ir_measures")
    users = graded_users(seed=6, ties=False)
    _, run = dictionaries([(scores, [True] * len(scores)) for scores, _ in users])
    qrels = {
        query: {f"d{item:02}": int(grade) for item, grade in enumerate(grades)}
        for query, (_, grades) in zip(run, users, strict=True)
    }
    for cutoff in CUTOFFS:
        measure = ir_measures.parse_measure(f"nDCG@{cutoff}")
        found = {one.query_id: one.value for one in ir_measures.iter_calc([measure], qrels, run)}
        wanted = [found[query] for query in sorted(found)]
        np.testing.assert_allclose(graded(f"ndcg@{cutoff}", users, "rating"), wanted, rtol=1e-12)
