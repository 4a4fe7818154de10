"""The trainer: epochs, the best one kept, early stops, interruptions."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from truerank.core.checkpoint import Store
from truerank.core.errors import DataWarning, Interrupted, InvalidParameter, NotConverged
from truerank.core.model import Epoch, InterruptedTraining, interrupted_training
from truerank.core.progress import ProgressTask
from truerank.core.scorer import DenseScores, Scorer
from truerank.models.registry import MODELS
from truerank.models.training import Schedule, TrainedModel, run_epochs


class Counting:
    """A training whose scorer says which epoch it is in."""

    def __init__(self, losses: dict[int, float] | None = None, interrupt_in: int | None = None) -> None:
        self.now, self.losses, self.interrupt_in = 0.0, losses or {}, interrupt_in
        self.run: list[int] = []

    def run_epoch(self, number: int) -> float:
        self.run.append(number)
        self.now = number + 0.5  # half-way through
        if number == self.interrupt_in:
            raise KeyboardInterrupt
        self.now = float(number)
        return self.losses.get(number, 1 / number)

    def scorer(self) -> DenseScores:
        return DenseScores(np.array([[self.now]]))

    def state(self) -> float:
        return self.now

    def restore(self, state: float) -> None:
        self.now = state


def value(scorer: Scorer) -> float:
    return float(scorer.score(np.array([0]), np.array([0]))[0, 0])


class Bars:
    """A progress that counts."""

    def __init__(self) -> None:
        self.labels: list[tuple[str, int | None]] = []
        self.steps, self.closed = 0, 0

    def task(self, label: str, total: int | None = None) -> ProgressTask:
        self.labels.append((label, total))
        return self

    def advance(self, steps: int = 1) -> None:
        self.steps += steps

    def done(self, task: ProgressTask) -> None:
        self.closed += 1


def test_without_validation_all_epochs_run_and_the_last_is_returned() -> None:
    training, bars, seen = Counting(), Bars(), list[Epoch]()
    fitted = run_epochs("toy", training, Schedule(4), on_epoch=seen.append, progress=bars)
    assert value(fitted) == 4
    assert training.run == [1, 2, 3, 4]
    assert (bars.labels, bars.steps, bars.closed) == ([("toy", 4)], 4, 1)
    assert [(epoch.number, epoch.loss, epoch.validation) for epoch in seen] == [
        (number, 1 / number, None) for number in (1, 2, 3, 4)
    ]


class Noted(Bars):
    """A progress that keeps notes too."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: list[str] = []

    def task(self, label: str, total: int | None = None) -> ProgressTask:
        super().task(label, total)
        return self

    def note(self, text: str) -> None:
        self.notes.append(text)


def test_progress_shows_loss_and_validation() -> None:
    noted = Noted()
    run_epochs("toy", Counting({1: 0.123456, 2: 1234.2}), Schedule(2), progress=noted)
    assert noted.notes == ["loss 0.1235", "loss 1234"]
    noted, quality = Noted(), {2: 0.25, 4: 0.125, 5: 0.5}
    run_epochs(
        "toy",
        Counting(),
        Schedule(5, every=2),
        validate=lambda scorer: quality[int(value(scorer))],
        progress=noted,
    )
    assert noted.notes == [
        "loss 1",
        "loss 0.5, validation 0.2500, best 0.2500 in epoch 2",
        "loss 0.3333, best 0.2500 in epoch 2",
        "loss 0.25, validation 0.1250, best 0.2500 in epoch 2",
        "loss 0.2, validation 0.5000, best 0.5000 in epoch 5",
    ]


def test_the_best_epoch_is_restored_and_training_stops_when_it_is_old() -> None:
    quality = {1: -3.0, 2: -1.0, 3: 0.0, 4: -0.5, 5: -0.1, 6: 9.0}
    training, seen = Counting(), list[Epoch]()
    fitted = run_epochs(
        "toy",
        training,
        Schedule(6, patience=2),
        validate=lambda scorer: quality[int(value(scorer))],
        on_epoch=seen.append,
    )
    assert value(fitted) == 3
    assert training.run == [1, 2, 3, 4, 5]
    assert [epoch.validation for epoch in seen] == [-3.0, -1.0, 0.0, -0.5, -0.1]
    forever = Counting()
    assert (
        value(run_epochs("toy", forever, Schedule(6, None), validate=lambda s: quality[int(value(s))])) == 6
    )
    assert forever.run == [1, 2, 3, 4, 5, 6]


def test_equally_good_epochs_keep_the_first() -> None:
    training = Counting()
    assert value(run_epochs("toy", training, Schedule(9, patience=3), validate=lambda _: 0.0)) == 1
    assert training.run == [1, 2, 3, 4]


def test_validation_every_few_epochs_and_after_the_last() -> None:
    asked: list[int] = []

    def validate(scorer: Scorer) -> float:
        asked.append(int(value(scorer)))
        return -abs(value(scorer) - 4)

    assert value(run_epochs("toy", Counting(), Schedule(7, patience=9, every=2), validate=validate)) == 4
    assert asked == [2, 4, 6, 7]
    asked.clear()
    run_epochs("toy", Counting(), Schedule(11, patience=9, every=5, first=1), validate=validate)
    assert asked == [1, 5, 10, 11]


def test_the_first_epoch_can_win_when_it_is_validated() -> None:
    """Training that only gets worse: without first=1 the first validated epoch is the fifth."""
    for first, kept in ((0, 5), (1, 1)):
        schedule = Schedule(20, patience=2, every=5, first=first)
        assert value(run_epochs("toy", Counting(), schedule, validate=lambda s: -value(s))) == kept
    model = MODELS.make("mf(first=1, every=5)")
    assert isinstance(model, TrainedModel)
    assert model.schedule() == Schedule(model.epochs, model.patience, 5, 1)


def test_a_validation_with_a_memory_is_restarted() -> None:
    class Remembers:
        started = 0

        def restart(self) -> None:
            self.started += 1

        def __call__(self, scorer: Scorer) -> float:
            return value(scorer)

    validate = Remembers()
    for _ in range(2):
        run_epochs("toy", Counting(), Schedule(2), validate=validate)
    assert validate.started == 2


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_stops_with_a_sentence(bad: float) -> None:
    with pytest.raises(
        NotConverged, match=rf"the loss of toy became {bad} in epoch 3\. Lower learning_rate"
    ) as e:
        run_epochs("toy", Counting({3: bad}), Schedule(5))
    assert value(e.value.last) == 2  # type: ignore[arg-type]
    with pytest.raises(NotConverged) as e:
        run_epochs("toy", Counting({1: bad}), Schedule(5))
    assert e.value.last is None


def test_a_validation_that_is_not_finite_stops_with_a_sentence() -> None:
    with pytest.raises(
        InvalidParameter, match=r"validate must return a finite number, got nan after epoch 1"
    ):
        run_epochs("toy", Counting(), Schedule(5), validate=lambda _: math.nan)


def test_an_interruption_keeps_the_best_epoch() -> None:
    with pytest.warns(Interrupted, match=r"toy: training was interrupted in epoch 4 of 9; epoch 3 is kept\."):
        fitted = run_epochs("toy", Counting(interrupt_in=4), Schedule(9))
    assert value(fitted) == 3
    assert interrupted_training(fitted) == InterruptedTraining(epoch=4, epochs=9, kept=3)
    assert interrupted_training(run_epochs("toy", Counting(), Schedule(9))) is None
    quality = {1: 0.1, 2: 0.7, 3: 0.2}
    with pytest.warns(DataWarning, match=r"epoch 2 is kept"):
        fitted = run_epochs(
            "toy", Counting(interrupt_in=4), Schedule(9), validate=lambda s: quality[int(value(s))]
        )
    assert value(fitted) == 2
    with pytest.warns(DataWarning, match=r"epoch 3 is kept"):  # nothing validated so far
        fitted = run_epochs("toy", Counting(interrupt_in=4), Schedule(9, every=5), validate=lambda _: 1.0)
    assert value(fitted) == 3


def test_an_interruption_of_a_callback_keeps_the_epoch_just_finished() -> None:
    def interrupt(epoch: Epoch) -> None:
        if epoch.number == 2:
            raise KeyboardInterrupt

    with pytest.warns(DataWarning, match=r"in epoch 2 of 9; epoch 2 is kept"):
        assert value(run_epochs("toy", Counting(), Schedule(9), on_epoch=interrupt)) == 2


def test_an_interruption_of_the_first_epoch_goes_through() -> None:
    bars = Bars()
    with pytest.raises(KeyboardInterrupt):
        run_epochs("toy", Counting(interrupt_in=1), Schedule(9), progress=bars)
    assert bars.closed == 1


def test_an_interruption_goes_through_where_half_a_training_is_worth_nothing(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def compute() -> float:
        return value(run_epochs("toy", Counting(interrupt_in=4), Schedule(9)))

    with pytest.raises(KeyboardInterrupt):
        store.value("toy", compute)
    assert list(tmp_path.iterdir()) == []
    with pytest.warns(DataWarning, match="epoch 3 is kept"):  # the same training elsewhere
        compute()


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"epochs": 2, "patience": 0}, {"epochs": 2, "every": 0}])
def test_bad_schedules(wrong: dict[str, int]) -> None:
    with pytest.raises(InvalidParameter, match=r"must be an integer >= 1, got 0"):
        Schedule(**wrong)
    with pytest.raises(InvalidParameter, match=r"first must be an integer >= 0, got -1"):
        Schedule(2, first=-1)
