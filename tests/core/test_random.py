"""Random streams depend on (seed, stage, user) and on nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.reference.sampled import mixed
from truerank.core.errors import InvalidParameter
from truerank.core.random import GOLDEN, pair_keys, random_words, stream


def test_same_arguments_same_draws() -> None:
    assert np.array_equal(stream(3, "a", 5).random(4), stream(3, "a", 5).random(4))


@pytest.mark.parametrize("other", [(4, "a", 5), (3, "b", 5), (3, "a", 6)])
def test_each_argument_matters(other: tuple[int, str, int]) -> None:
    assert not np.array_equal(stream(3, "a", 5).random(4), stream(*other).random(4))


def test_pair_keys_do_not_depend_on_order_or_batch() -> None:
    user, item = np.arange(50) % 7, np.arange(50)
    whole = pair_keys(0, "x", user, item)
    order = np.random.default_rng(0).permutation(50)
    assert np.array_equal(pair_keys(0, "x", user[order], item[order]), whole[order])
    assert pair_keys(0, "x", user[3:4], item[3:4])[0] == whole[3]
    assert np.array_equal(pair_keys(0, "x", user.astype(np.int32), item.astype(np.int16)), whole)


def test_pair_keys_are_distinct_and_differ_by_seed_and_stage() -> None:
    user, item = np.divmod(np.arange(200_000), 500)
    keys = pair_keys(0, "x", user, item)
    assert len(np.unique(keys)) == 200_000
    assert not np.array_equal(keys, pair_keys(1, "x", user, item))
    assert not np.array_equal(keys, pair_keys(0, "y", user, item))


def test_words_are_those_of_splitmix64_in_numpy_and_in_compiled_code() -> None:
    """First outputs for the seed 1234567 as Vigna's reference implementation prints them."""
    from truerank.core.random_compiled import mix64, next_word

    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431]
    assert random_words(np.uint64(1234567), 0, 4).tolist() == known
    rng = np.random.default_rng(0)
    for start in [0, 1, 2**64 - 1, *rng.integers(2**64, size=50, dtype=np.uint64).tolist()]:
        literal = [mixed((start + (j + 1) * int(GOLDEN)) % 2**64) for j in range(5)]
        assert random_words(np.uint64(start), 0, 5).tolist() == literal
        state = np.array([start], np.uint64)
        assert [int(next_word(state)) for _ in range(5)] == literal
        assert int(mix64(np.uint64(start))) == mixed(start)


@pytest.mark.stat
def test_smallest_key_is_uniform_over_a_users_items() -> None:
    """Level 1e-6; 20,000 users with 10 items each: one item favoured by 0.013 is found with 99 %."""
    user = np.repeat(np.arange(20_000), 10)
    item = np.tile(np.arange(10), 20_000)
    chosen = pair_keys(0, "x", user, item).reshape(-1, 10).argmin(axis=1)
    assert stats.chisquare(np.bincount(chosen, minlength=10)).pvalue > 1e-6
    control = (user * 2654435761 + item).reshape(-1, 10).argmin(axis=1)  # no mixing: always item 0
    assert stats.chisquare(np.bincount(control, minlength=10)).pvalue < 1e-6


@pytest.mark.parametrize("seed", [-1, 2**64, 1.0, True, "0"])
def test_bad_seed(seed: int) -> None:
    with pytest.raises(InvalidParameter, match="seed must be an integer"):
        stream(seed, "x")
