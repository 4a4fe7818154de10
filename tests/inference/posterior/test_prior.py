"""The prior of rank distributions: its moments against quadrature, its shapes, and the file it comes from."""

from __future__ import annotations

import json
from importlib import resources

import numpy as np
import pytest

from tests.reference.posterior import mean_difference, place, rough_covariance, smooth_covariance
from truerank.estimation.distribution.likelihood import RankGrid, make_grid
from truerank.inference.posterior.prior import (
    FEW,
    MANY,
    SCALES,
    SHAPES,
    RankPrior,
    learnt_prior,
    log_odds,
    make_curves,
    middle_ranks,
    shape_heights,
)

GRID = RankGrid(np.array([0, 1, 2, 3, 5, 10, 30, 100, 300, 700, 950, 1000]))


@pytest.mark.slow
def test_moments_are_the_integrals_of_the_slope() -> None:
    """Differences of the curve between bins have the moments of the definition, to 2 % (steps of 0.1 in u).

    Differences, because a constant is added to all of the curve when masses are made to sum to 1.
    """
    prior = learnt_prior()
    mean, covariance = prior.moments(GRID)
    ranks, widths = middle_ranks(GRID).tolist(), np.diff(GRID.edges).tolist()
    u = [place(rank, 1000) for rank in ranks]
    rough = rough_covariance(prior, ranks, widths, 1000)
    for (a, b), (c, d) in [
        ((0, 1), (0, 1)),
        ((0, 4), (0, 4)),
        ((0, 5), (3, 7)),
        ((2, 9), (2, 9)),
        ((7, 10), (0, 3)),
    ]:
        assert mean[b] - mean[a] == pytest.approx(mean_difference(prior, u[a], u[b]), rel=0.02)
        wanted = smooth_covariance(prior, (u[a], u[b]), (u[c], u[d]))
        wanted += rough[b, d] - rough[b, c] - rough[a, d] + rough[a, c]
        found = covariance[b, d] - covariance[b, c] - covariance[a, d] + covariance[a, c]
        spread = np.sqrt(smooth_covariance(prior, (u[a], u[b]), (u[a], u[b])))
        spread *= np.sqrt(smooth_covariance(prior, (u[c], u[d]), (u[c], u[d])))
        assert found == pytest.approx(wanted, abs=0.02 * spread)


def test_vectors_make_up_the_covariance() -> None:
    """Nothing but variances below 1 % per bin is left out."""
    prior, grid = learnt_prior(), make_grid(2000, 49, step=0.25)
    curves = make_curves(prior, grid)
    mean, covariance = prior.moments(grid)
    np.testing.assert_allclose(curves.mean, mean, rtol=0, atol=1e-12)
    few = make_curves(prior, GRID)
    np.testing.assert_allclose(few.vectors @ few.vectors.T, prior.moments(GRID)[1], rtol=0, atol=1e-4)
    left = np.diag(covariance) - (curves.vectors**2).sum(axis=1)
    assert left.min() > -1e-9 and left.max() < 0.01
    assert make_curves(prior, grid) is curves


def test_log_odds_are_symmetric_about_the_middle() -> None:
    u = log_odds(np.array([1.0, 500.5, 1000.0]), 1000)
    np.testing.assert_allclose(u, [-np.log(1999), 0, np.log(1999)], atol=1e-12)


def test_shapes_of_the_first_ranks() -> None:
    """A drop by 1 + size/R, a factor at rank 1, ranks that nobody has; none of them matters far below."""
    grid = RankGrid(np.array([0, 1, 2, 4, 1000, 1001]))
    assert not shape_heights(grid, "none", 0, 0).any()
    np.testing.assert_allclose(np.exp(shape_heights(grid, "drop", 4, 1))[:3], [1 / 5, 1 / 3, 3.5 / 7.5])
    np.testing.assert_allclose(shape_heights(grid, "first", 1.5, 0), [1.5, 0, 0, 0, 0])
    np.testing.assert_allclose(shape_heights(grid, "second", 2, 0), [np.log(0.01), 2, 0, 0, 0])
    shift = shape_heights(grid, "shift", 2, 0)
    assert shift[0] == shift[1] == shift.min() < -3
    assert shift[2] == pytest.approx(np.log(3.5 / 1.5) / 2)
    for shape in SHAPES:
        heights = shape_heights(grid, *shape)
        assert np.isfinite(heights).all() and abs(heights[-1]) < 0.05


def test_probabilities_of_scales_and_shapes() -> None:
    prior = learnt_prior()
    weights = [prior.shape_weights(seen) for seen in ("removed", "kept", "unknown")]
    assert all(len(each) == len(SHAPES) and (each >= 0).all() for each in weights)
    is_of_kept = [kind == "shift" or (kind == "drop" and more > 1) for kind, _, more in SHAPES]
    np.testing.assert_array_equal(weights[0] == 0, is_of_kept)
    assert (weights[1] > 0).all()
    np.testing.assert_allclose([each.sum() for each in weights], 1)
    mixed = np.array(prior.removed) + np.array(prior.kept)
    np.testing.assert_allclose(weights[2], mixed / mixed.sum())
    assert prior.scale_weights().sum() == pytest.approx(1)
    levels = [prior.widening("removed", rank) for rank in (0, 1, FEW, 67, MANY, 10**6)]
    few, many = prior.widening_removed, prior.widening_many
    assert levels == pytest.approx([few, few, few, levels[3], many, many]) and few < levels[3] < many
    assert prior.widening("unknown", 1) == prior.widening("kept", 1) == prior.widening_kept
    assert prior.scale_weights().argmax() == int(np.argmin(np.abs(np.log(SCALES))))


def test_constants_are_those_of_the_file() -> None:
    text = resources.files("truerank.inference.posterior").joinpath("rank_prior.json").read_text()
    prior = learnt_prior()
    assert RankPrior.from_json(json.loads(text)["prior"]) == prior
    assert RankPrior.from_json(json.loads(json.dumps(prior.to_json()))) == prior
    assert 0 < prior.widening_kept <= prior.widening_removed <= 1


def test_the_file_names_what_the_prior_was_learnt_from() -> None:
    """At least eight data sets, with at least ten models in all of them together."""
    text = resources.files("truerank.inference.posterior").joinpath("rank_prior.json").read_text()
    learnt_from = json.loads(text)["learnt_from"]
    assert len({entry["data"].split(",")[0] for entry in learnt_from}) >= 8
    models = {model for entry in learnt_from for model in entry["models"]}
    assert {"popularity", "kr20-y", "kr20-z", "ease"} < models and len(models) >= 10
    assert all(entry["items"] > 1 and entry["users"] > 0 for entry in learnt_from)
