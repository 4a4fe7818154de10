"""What samples allow differences to be."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

from truerank.core.ranks import Ranks
from truerank.inference.bounds.identify import identification_bounds
from truerank.metrics.registry import make_metrics, values
from truerank.ranking.simulate import simulate_sample
from truerank.workflows.compare.bounds import ModelBounds
from truerank.workflows.compare.compare import compare as run_compare
from truerank.workflows.compare.result import Strength

compare = partial(run_compare, estimator="bv(gamma=0.1)")  # differences per user: quicker than a fit


def test_each_model_at_its_own_end() -> None:
    """A in [0.2, 0.5], B in [0.1, 0.3]: A - B in [-0.1, 0.4], unless bias and noise leave less of it."""
    none = np.full((2, 1), np.inf)
    low, high = np.array([[0.2], [0.1]]), np.array([[0.5], [0.3]])
    wide = ModelBounds(low, high, -none, none, ("binomial", "binomial"))
    noise = np.array([0.05]), np.array([0.07])
    assert [end.item() for end in wide.of_difference(0, 1, noise)] == pytest.approx([-0.1, 0.4])
    assert [end.item() for end in wide.of_difference(1, 0, noise)] == pytest.approx([-0.4, 0.1])
    # bias of A in [-0.01, 0.02] and of B in [0, 0.03]: that of A - B in [-0.04, 0.02]
    known = ModelBounds(
        low, high, np.array([[-0.01], [0.0]]), np.array([[0.02], [0.03]]), ("binomial", "binomial")
    )
    assert [end.item() for end in known.of_difference(0, 1, noise)] == pytest.approx([0.03, 0.11])
    # nothing in common: the bounds need no normal law, so they stay
    far = np.array([0.8]), np.array([0.9])
    assert [end.item() for end in known.of_difference(0, 1, far)] == pytest.approx([-0.1, 0.4])
    unknown = np.array([np.nan]), np.array([np.nan])
    assert [end.item() for end in known.of_difference(0, 1, unknown)] == pytest.approx([-0.1, 0.4])


def test_levels_are_shared_out() -> None:
    """Two models from fitted estimators: 97.5 % each; an exact one takes nothing."""
    ranks = Ranks.single(np.arange(300) % 60, n_pool=100)
    drawn = {name: simulate_sample(ranks, 30, label=name) for name in "AB"}
    found = compare({**drawn, "X": ranks}, metrics="recall@10", estimator="mle", resamples=200)
    bounds = {name: identification_bounds(one, "recall@10", level=0.975)[0] for name, one in drawn.items()}
    one = found.difference("A", "B", "recall@10")
    assert one.bound_low == pytest.approx(bounds["A"].low - bounds["B"].high)
    assert one.bound_high == pytest.approx(bounds["A"].high - bounds["B"].low)
    exact = found.difference("A", "X", "recall@10")
    value = values(make_metrics("recall@10"), ranks).mean()
    assert exact.bound_low == pytest.approx(bounds["A"].low - value)


@pytest.mark.slow
def test_an_estimate_without_bias_decides_by_noise_alone() -> None:
    """AUC among sampled items has the mean of the global one, so the interval of 97.5 % is all there is."""
    draw = np.random.default_rng(0)
    exact = {
        name: Ranks.single((draw.beta(shape, 2, 1500) * 999).astype(np.int64), n_pool=1000)
        for name, shape in (("A", 0.3), ("B", 0.38))
    }
    sampled = {name: simulate_sample(one, 99, label=name) for name, one in exact.items()}
    one = compare(sampled, metrics="auc", estimator="naive").differences[0]
    (wider,) = compare(
        sampled, metrics="auc", estimator="naive", level=0.975, posterior=False, bounds=False
    ).differences
    assert one.strength is Strength.RANKS and wider.strength is Strength.ESTIMATOR
    assert wider.low is not None and wider.high is not None
    assert one.bound_low == pytest.approx(wider.low, abs=1e-6)
    assert one.bound_high == pytest.approx(wider.high, abs=1e-6)
    fitted = compare(sampled, metrics="auc", estimator="mle", resamples=200).differences[0]
    assert fitted.bound_low is not None and one.bound_low is not None and fitted.bound_low < one.bound_low


@pytest.mark.stat
def test_bounds_of_differences_hold() -> None:
    """Of 20 samples of two models at most 5 % have bounds that leave out a difference of these users.

    More misses than a binomial with 5 % has once in 1e6 are an error, which finds an error rate of 75 % with
    99 %: bounds that leave out the bias. Negative control: so does the interval for noise.
    """
    n_repeats, missed, control = 20, 0, 0
    above = {"A": 20 + np.arange(400) % 7, "B": np.where(np.arange(400) % 4 == 0, 4, 45)}
    exact = {name: Ranks.single(own, n_pool=150) for name, own in above.items()}
    metrics = "recall@10,recall@30"
    truth = {one.metric: one.value for one in compare(exact, metrics=metrics).differences}
    for repeat in range(n_repeats):
        sampled = {name: simulate_sample(one, 40, label=name, repeat=repeat) for name, one in exact.items()}
        found = compare(sampled, metrics=metrics, estimator="bv(gamma=0.1)", resamples=200, seed=repeat)
        ends = [(one.metric, one.bound_low, one.bound_high, one.low, one.high) for one in found.differences]
        missed += any(not low <= truth[metric] <= high for metric, low, high, _, _ in ends)  # type: ignore[operator]
        control += any(not low <= truth[metric] <= high for metric, _, _, low, high in ends)  # type: ignore[operator]
    most = binom.isf(1e-6, n_repeats, 0.05)
    assert binom.sf(most, n_repeats, 0.75) > 0.99
    assert missed <= most < control
