"""Draws have exactly the law they claim; tests with a stated level and power."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from truerank.core.interactions import Interactions
from truerank.core.scorer import as_scorer
from truerank.core.split import Split
from truerank.ranking.exact import make_queries
from truerank.ranking.negatives import RandomSampler, Rows
from truerank.ranking.sampled import sampled_ranks
from truerank.ranking.samplers.registry import SAMPLERS
from truerank.ranking.samplers.uniform import UniformSampler

N_USERS = 20_000


def equal_split(n_items: int, n_seen: int) -> Split:
    """Every user has seen the first items and has one target, the last item."""
    seen = np.tile(np.arange(n_seen), N_USERS)
    user = np.arange(N_USERS)
    train = Interactions.from_codes(np.repeat(user, n_seen), seen, n_users=N_USERS, n_items=n_items)
    target = np.full(N_USERS, n_items - 1)
    return Split(train, Interactions.from_codes(user, target, n_users=N_USERS, n_items=n_items))


def drawn_items(split: Split, spec: str, seed: int = 0) -> np.ndarray:
    """The negatives, one row per user."""
    sampler = SAMPLERS.make(spec)
    assert isinstance(sampler, RandomSampler)
    queries = make_queries(split, "remove")
    rows = Rows.of(queries, split, per_target=False, seed=seed, repeat=0, label="")
    return sampler.negatives(split, rows).sample(0, len(rows)).reshape(-1, sampler.m)


def p_value(found: np.ndarray, expected: np.ndarray) -> float:
    """Chi-square test; cells expected less than ten times are added to their neighbour."""
    edges = np.unique(np.searchsorted(np.cumsum(expected), np.arange(0, expected.sum(), 10.0)))
    observed, wanted = np.add.reduceat(found, edges), np.add.reduceat(expected, edges)
    if wanted[-1] < 10:
        observed, wanted = (np.append(a[:-2], a[-2:].sum()) for a in (observed, wanted))
    return float(stats.chisquare(observed, wanted * (observed.sum() / wanted.sum())).pvalue)


@pytest.mark.stat
def test_sampled_ranks_follow_the_hypergeometric_and_binomial_law() -> None:
    """Two chi-square tests at 5e-7 over 20,000 users with 30 candidates of which 12 stand above, m = 10.

    A sampler that draws with replacement for 20 % of the users is found with 99 %. Controls: each law is
    rejected for the draws of the other.
    """
    split = equal_split(n_items=36, n_seen=5)
    scores = as_scorer(np.tile(np.r_[np.full(5, 9.0), np.full(12, 2.0), np.zeros(18), 1.0], (N_USERS, 1)))
    places = np.arange(11)
    laws = {"false": stats.hypergeom(30, 12, 10).pmf(places), "true": stats.binom(10, 12 / 30).pmf(places)}
    for replace, law in laws.items():
        ranks = sampled_ranks(scores, split, f"uniform(m=10, replace={replace})", seed=1)
        found = np.bincount(ranks.n_above, minlength=11)
        assert p_value(found, N_USERS * law) > 5e-7
        other = laws["true" if replace == "false" else "false"]
        assert p_value(found, N_USERS * other) < 5e-7


@pytest.mark.stat
def test_drawn_items_are_uniform() -> None:
    """Chi-square test at 1e-6 over 400,000 draws from 600 candidates of 1,000 items, by rejection.

    A tenth of the candidates drawn 10 % too often is found with 99 %. Control: the remainder of a 12-bit
    number, whose first 496 of 600 results are 7/6 times as likely as the others.
    """
    split = equal_split(n_items=1000, n_seen=399)
    items = drawn_items(split, "uniform(m=20)")
    counts = np.bincount(items.ravel(), minlength=1000)
    assert not counts[:399].any() and not counts[999]
    assert stats.chisquare(counts[399:999]).pvalue > 1e-6
    assert all(len(set(row)) == 20 for row in items[:1000].tolist())
    biased = np.random.default_rng(0).integers(0, 4096, items.size) % 600
    assert stats.chisquare(np.bincount(biased, minlength=600)).pvalue < 1e-6


@pytest.mark.stat
def test_subsets_are_uniform() -> None:
    """Two chi-square tests at 5e-7: all 3-subsets of 6 candidates are equally likely, by rejection or keys.

    One subset of 20 drawn a third too often is found with 99 %. Control: subsets that keep the first of two
    equal draws and take the next item instead of drawing again.
    """
    code = 1 << np.arange(40)

    def subset_counts(items: np.ndarray) -> np.ndarray:
        return np.unique(code[items].sum(axis=1), return_counts=True)[1]

    for n_items in (12, 40):  # (6 - 3) * 4 >= 12: rejection, but not for 40 items
        items = drawn_items(equal_split(n_items=n_items, n_seen=n_items - 7), "uniform(m=3)")
        assert len(subset_counts(items)) == 20
        assert stats.chisquare(subset_counts(items)).pvalue > 5e-7
    shifted = np.random.default_rng(0).integers(0, 6, (N_USERS, 3))
    for at in (1, 2):
        for before in (0, 1, 0):
            if before < at:
                shifted[:, at] += shifted[:, at] == shifted[:, before]
        shifted[:, at] %= 6
    distinct = shifted[[len(set(row)) == 3 for row in shifted.tolist()]]
    assert stats.chisquare(subset_counts(distinct)).pvalue < 5e-7


@pytest.mark.stat
def test_popularity_draws_follow_the_counts() -> None:
    """Four chi-square tests at 2.5e-7: two draws of four items, with weights 4, 3, 2 and 1 to a power.

    A pair of probability 0.1 that is off by 0.018 is found with 99 %. Control: uniform draws. The second
    catalogue has a seen item with most of the events, so that candidates are written out.
    """
    for heavy in (0, 2000):
        user = np.repeat(np.arange(10 + heavy), [*[1] * 10, *[1] * heavy])
        item = np.r_[np.repeat([0, 1, 2, 3], [4, 3, 2, 1]), np.full(heavy, 4)]
        base = max(10 + heavy, 1)
        judged = np.arange(base, base + N_USERS)
        if heavy:
            user, item = np.r_[user, judged], np.r_[item, np.full(N_USERS, 4)]
        train = Interactions.from_codes(user, item, n_users=base + N_USERS, n_items=6)
        test = Interactions.from_codes(judged, np.full(N_USERS, 5), n_users=base + N_USERS, n_items=6)
        split = Split(train, test)
        for power, replace in ((1.0, False), (0.5, True)):
            weight = np.array([4.0, 3.0, 2.0, 1.0]) ** power
            share = weight / weight.sum()
            law = np.outer(share, share)
            if not replace:
                law = share[:, None] * share / (1 - share[:, None])
                np.fill_diagonal(law, 0)
            law = (law + law.T)[np.triu_indices(4)] / (1 + np.eye(4)[np.triu_indices(4)])
            spec = f"popularity(m=2, power={power}, replace={str(replace).lower()})"
            pairs = np.sort(drawn_items(split, spec), axis=1)
            table = np.zeros((4, 4))
            np.add.at(table, (pairs[:, 0], pairs[:, 1]), 1)
            found = table[np.triu_indices(4)]
            possible = law > 0
            assert not found[~possible].any()
            assert stats.chisquare(found[possible], N_USERS * law[possible]).pvalue > 2.5e-7
        uniform = np.bincount(drawn_items(split, "uniform(m=2)", seed=3).ravel(), minlength=6)[:4]
        assert stats.chisquare(uniform, uniform.sum() * share).pvalue < 2.5e-7


@pytest.mark.stat
def test_draws_of_different_users_seeds_and_repeats_are_unrelated() -> None:
    """Three z tests at 3e-7: 20,000 pairs of rows of 20 from 600 share 20 * 20 / 600 items on average.

    A shift of the mean by 0.042 items is found with 99 %. Control: the same user again.
    """
    split = equal_split(n_items=1000, n_seen=399)
    first, seeded = drawn_items(split, "uniform(m=20)"), drawn_items(split, "uniform(m=20)", seed=1)
    rows = Rows.of(make_queries(split, "remove"), split, per_target=False, seed=0, repeat=1, label="")
    repeated = UniformSampler(m=20).negatives(split, rows).sample(0, N_USERS).reshape(-1, 20)
    law = stats.hypergeom(600, 20, 20)

    def z_value(left: np.ndarray, right: np.ndarray) -> float:
        shared = (left[:, :, None] == right[:, None, :]).sum(axis=(1, 2))
        return float((shared.mean() - law.mean()) / (law.std() / np.sqrt(len(left))))

    limit = stats.norm.isf(3e-7 / 2)
    for other in (np.roll(first, 1, axis=0), seeded, repeated):
        assert abs(z_value(first, other)) < limit
    assert abs(z_value(first[:50], first[:50])) > limit
