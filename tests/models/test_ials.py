"""iALS solves its normal equations and never raises its loss."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from tests.models import literal
from tests.models.literal import small_train
from truerank.core.errors import InvalidParameter
from truerank.core.progress import SILENT, ProgressTask
from truerank.core.random import stream
from truerank.models.ials import IALS
from truerank.models.registry import MODELS


@pytest.mark.parametrize("d", [1, 3, 4, 5, 16, 37])
@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_a_sweep_equals_the_normal_equations(d: int, exponent: float) -> None:
    train = small_train(n_users=300)  # items with more users than one chunk of the kernel
    model = IALS(factors=d, reg=0.3, alpha=0.1, sweeps=2, reg_exponent=exponent, init_scale=1.0)
    fitted = model.fit(train, seed=7)
    X = literal.dense(train)
    item = stream(7, "ials").standard_normal((train.n_items, d)) / np.sqrt(d)
    for _ in range(2):
        user = literal.ials_side(X, item, reg=0.3, alpha=0.1, exponent=exponent)
        item = literal.ials_side(X.T, user, reg=0.3, alpha=0.1, exponent=exponent)
    np.testing.assert_allclose(fitted.user, user, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(fitted.item, item, rtol=1e-4, atol=1e-6)


def test_a_half_sweep_is_exact_in_float64() -> None:
    train = small_train(n_users=300)
    fixed = np.random.default_rng(0).normal(size=(train.n_items, 8))
    out = np.empty((train.n_users, 8))
    IALS(factors=8, reg=2.0, alpha=0.5)._solve(train.by_user(), fixed, out)
    np.testing.assert_allclose(
        out, literal.ials_side(literal.dense(train), fixed, reg=2.0, alpha=0.5), rtol=1e-11, atol=1e-13
    )


@pytest.mark.parametrize("exponent", [0.0, 0.5])
def test_the_loss_never_increases(exponent: float) -> None:
    train, X = small_train(), literal.dense(small_train())
    losses = []
    for sweeps in range(1, 9):
        fitted = IALS(factors=4, reg=0.5, alpha=0.2, sweeps=sweeps, reg_exponent=exponent).fit(train)
        user, item = fitted.user.astype(np.float64), fitted.item.astype(np.float64)
        losses.append(literal.ials_loss(X, user, item, reg=0.5, alpha=0.2, exponent=exponent))
    assert all(after <= before * (1 + 1e-6) for before, after in pairwise(losses))
    assert losses[-1] < 0.99 * losses[0]


def test_users_and_items_without_events_have_zero_vectors() -> None:
    fitted = IALS(factors=3, reg=0.1).fit(small_train())
    assert not fitted.user[3].any()
    assert not fitted.item[5].any()


def test_the_start_depends_on_the_seed() -> None:
    train = small_train()
    model = IALS(factors=3, reg=0.1, sweeps=1)
    assert not np.array_equal(model.fit(train, seed=0).item, model.fit(train, seed=1).item)


def test_progress_advances_once_per_sweep_and_an_interrupt_ends_the_fit() -> None:
    class Interrupting:
        steps = 0
        closed = 0

        def task(self, label: str, total: int | None = None) -> ProgressTask:
            assert (label, total) == ("ials(factors=2, sweeps=5)", 5)
            return self

        def advance(self, steps: int = 1) -> None:
            self.steps += steps
            if self.steps == 3:
                raise KeyboardInterrupt

        def done(self, task: ProgressTask) -> None:
            self.closed += 1

    progress = Interrupting()
    with pytest.raises(KeyboardInterrupt):
        IALS(factors=2, sweeps=5).fit(small_train(), progress=progress)
    assert (progress.steps, progress.closed) == (3, 1)
    assert IALS(factors=2, sweeps=5).fit(small_train(), progress=SILENT).user.shape == (40, 2)


def test_preset_of_krichene_and_rendle() -> None:
    assert MODELS.make("kr20-x") == IALS(factors=16, reg=10, alpha=0.2, sweeps=16)
    assert MODELS.make("kr20-x(factors=64)") == IALS(factors=64)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ials(factors=0)", "factors must be an integer >= 1, got 0"),
        ("ials(factors=1.5)", "must be an integer, got 1.5"),
        ("ials(sweeps=0)", "sweeps must be an integer >= 1, got 0"),
        ("ials(reg=0)", "reg must be greater than 0, got 0.0"),
        ("ials(alpha=-0.1)", "alpha must be at least 0, got -0.1"),
        ("ials(init_scale=0)", "init_scale must be greater than 0, got 0.0"),
        ("ials(reg_exponent=-1)", "reg_exponent must be at least 0, got -1.0"),
        ("ials(reg=inf)", "reg must be a finite number, got inf"),
        ("ials(factor=3)", "Did you mean 'factors'?"),
    ],
)
def test_bad_parameters(spec: str, message: str) -> None:
    with pytest.raises(InvalidParameter, match=message.replace("?", r"\?")):
        MODELS.make(spec)
