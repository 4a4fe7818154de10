"""The whole experiment against a literal twin; what is kept, found again, and refused."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.stats import kendalltau

from truerank.core.errors import DataWarning, InvalidData, InvalidParameter, NotConverged
from truerank.core.interactions import Interactions
from truerank.core.model import Model, Validate
from truerank.core.progress import SILENT, Progress
from truerank.core.scorer import Factors, Scorer
from truerank.data.catalogue import find_local, load
from truerank.data.demo import demo
from truerank.models.registry import MODELS
from truerank.subsampling.base import ProxyStrategy
from truerank.subsampling.importance import make_strategy
from truerank.subsampling.subsample import subsample
from truerank.workflows.agreement import parallel
from truerank.workflows.agreement.experiment import AgreementExperiment, measure_agreement
from truerank.workflows.agreement.order import kendall, resample_users
from truerank.workflows.agreement.parallel import run_tasks
from truerank.workflows.agreement.plan import make_plan
from truerank.workflows.agreement.result import Agreement
from truerank.workflows.agreement.runner import TaskRunner
from truerank.workflows.agreement.tasks import FitTask, ImportanceTask, SubsampleTask
from truerank.workflows.evaluate import evaluate

SMALL = demo(n_users=80, n_items=150)
SCENARIO = "implicit(metrics='ndcg@10,recall@20')"
MODELS_ = "popularity,item-knn(neighbours=5),bias-only(epochs=2)"


def measure(**changed: Any) -> Agreement:
    given: dict[str, Any] = {
        "strategies": "random,head-user",
        "fractions": [0.5, 0.1],
        "scenario": SCENARIO,
        "models": MODELS_,
        "seeds": 2,
        "resamples": 60,
        **changed,
    }
    return measure_agreement(given.pop("data", SMALL), given.pop("strategies"), **given)


@pytest.fixture(scope="module")
def found() -> Agreement:
    return measure()


def test_values_and_taus_are_those_of_a_literal_twin(found: Agreement) -> None:
    from truerank.workflows.agreement.scenarios import SCENARIOS

    scenario = SCENARIOS.make(SCENARIO)
    split = scenario.divide(SMALL, seed=0)
    names = found.boards[0].models
    for s, seed in [(1, found.seeds[1])]:
        full = evaluate(
            dict(zip(names, map(MODELS.make, names), strict=True)),
            split,
            "ndcg@10",
            seed=seed,
            interval="normal",
        )
        for a, strategy in enumerate(found.strategies):
            for f, fraction in enumerate(found.fractions):
                small = subsample(split, strategy, fraction, seed=seed)
                values = []
                for name in names:
                    watch = scenario.validator(scenario.fit_setup(split, small.train))
                    scorer = MODELS.make(name).fit(small.train, validate=watch, seed=seed)
                    values.append(
                        evaluate({name: scorer}, split, "ndcg@10", interval="normal").value("ndcg@10")
                    )
                np.testing.assert_allclose(found.boards[0].small[a][f][s], values, rtol=1e-12)
                expected = kendalltau([full.value("ndcg@10", name) for name in names], values).statistic
                assert found.boards[0].tau[a][f][s] == pytest.approx(expected)


def test_cells_scores_and_psi_are_means_of_the_taus(found: Agreement) -> None:
    taus = np.array([board.tau for board in found.boards], dtype=float)
    certain = np.array([board.certain for board in found.boards], dtype=float)
    for a, strategy in enumerate(found.strategies):
        assert found.score(strategy).psi == pytest.approx(taus[:, a].mean())
        for f, fraction in enumerate(found.fractions):
            cell = found.cell(strategy, fraction)
            assert cell.tau == pytest.approx(taus[:, a, f].mean())
            assert cell.certain == pytest.approx(np.nanmean(certain[:, a, f]))
            assert cell.low is not None
            assert cell.high is not None
            assert cell.tau is not None
            assert cell.low <= cell.tau <= cell.high
            assert cell.n_missing == 0
            single = found.cell(strategy, fraction, "recall@20")
            assert single.tau == pytest.approx(taus[1, a, f].mean())
            assert single.seconds is None
            assert cell.seconds is not None
            assert cell.seconds > 0
            assert cell.speedup is not None


def test_resampled_taus_are_those_of_a_literal_bootstrap() -> None:
    against_taste = Tuned(learning_rate=0.02)  # certainly worse than the others
    models: list[Any] = ["popularity", "item-knn(neighbours=5)", against_taste]
    plan = make_plan("random", [0.2], SCENARIO, models, seeds=2, resamples=50)
    experiment = AgreementExperiment(plan, SMALL)
    found = experiment.run()
    (scenario,) = plan.model_grids
    models = [model_grid.configurations[0] for model_grid in plan.model_grids[scenario]]
    counts = resample_users(0, int((experiment.runner.splits[scenario].test.user_counts() > 0).sum()), 50)
    resampled: dict[str, list[list[float]]] = {"full": [], "small": []}
    for seed in plan.seeds:
        draw = SubsampleTask(scenario, plan.strategies["random"], 0.2, seed)
        for b in range(50):
            users = np.repeat(np.arange(counts.shape[1]), counts[b])
            for name, drawn in (("full", None), ("small", draw)):
                fits = [
                    experiment.runner.fit_values(FitTask(scenario, model, seed, drawn)) for model in models
                ]
                resampled[name].append([float(one.per_user[users, 1].mean(dtype=float)) for one in fits])
    taus = [kendalltau(x, y).statistic for x, y in zip(resampled["full"], resampled["small"], strict=True)]
    board = found.boards[1]
    assert board.metric == "recall@20"
    assert board.expected[0][0] == pytest.approx([np.mean(taus[:50]), np.mean(taus[50:])])
    assert found.cell("random", 0.2, "recall@20").expected == pytest.approx(np.mean(taus))
    certain = []
    for first, second in ((0, 1), (0, 2), (1, 2)):
        above = np.mean([row[first] > row[second] for row in resampled["full"]])
        below = np.mean([row[first] < row[second] for row in resampled["full"]])
        if max(above, below) >= 0.975:
            certain.append((first, second, 1 if above > below else -1))
    assert board.n_certain == len(certain) > 0
    for s in range(2):
        values = board.small[0][0][s]
        agreed = [sign * np.sign(values[first] - values[second]) for first, second, sign in certain]
        assert board.certain[0][0][s] == pytest.approx(np.mean(agreed))


def test_movement_is_the_mean_over_strategies_metrics_and_seeds(found: Agreement) -> None:
    total: dict[tuple[str, float], list[float]] = {}
    for board in found.boards:
        n = len(board.models)
        for f, fraction in enumerate(found.fractions):
            for a in range(len(found.strategies)):
                for s in range(len(found.seeds)):
                    for r, model in enumerate(board.models):
                        places = []
                        for values in (board.full[s], board.small[a][f][s]):
                            above = sum(value > values[r] for value in values)
                            tied = sum(value == values[r] for value in values) - 1
                            places.append(1 + above + tied / 2)
                        term = 0.5 + (places[0] - places[1]) / (2 * (n - 1))
                        total.setdefault((model, fraction), []).append(term)
    assert len(found.moves) == len(total)
    for move in found.moves:
        assert move.probability == pytest.approx(np.mean(total[move.model, move.fraction]))


def test_the_result_survives_json(found: Agreement) -> None:
    assert Agreement.from_json(found.to_json()) == found
    for damaged in ("{", "{}", "[]", '{"command": "evaluate"}', found.to_json().replace('"psi"', '"phi"')):
        with pytest.raises(InvalidData, match="an agreement must be the JSON that truerank wrote"):
            Agreement.from_json(damaged)
    with pytest.raises(InvalidData, match=r"there is no cell of 'random' at 0\.3"):
        found.cell("random", 0.3)
    with pytest.raises(InvalidData, match="there is no strategy 'x'"):
        found.score("x")


def test_a_ceiling_says_how_far_full_data_agrees_with_itself(found: Agreement) -> None:
    for board in found.boards:
        full = np.array(board.full)
        assert board.ceiling == pytest.approx(float(kendall(full[0], full[1])))
    assert measure(seeds=1).boards[0].ceiling is None


def plain(result: Agreement) -> dict[str, Any]:
    """Return all but what clocks say."""
    fields: dict[str, Any] = json.loads(result.to_json())
    for cell in fields["cells"]:
        for name in ("seconds", "speedup", "speedup_validated"):
            cell.pop(name)
    fields["answer"] = fields["answer"].partition("CPU seconds")[0][:-6]
    return fields


@pytest.mark.slow
def test_kept_tasks_are_found_again_and_extended(
    found: Agreement, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "kept"
    assert plain(measure(keep=folder)) == plain(found)
    n_files = len(list(folder.iterdir()))
    assert n_files == 1 + 8 + 6 + 24  # what it is for, sub-samples, full fits, fits
    made: list[str] = []
    original = TaskRunner._compute_fit

    def counted(self: TaskRunner, fit: FitTask) -> Any:
        made.append(str(fit.model))
        return original(self, fit)

    monkeypatch.setattr(TaskRunner, "_compute_fit", counted)
    assert plain(measure(keep=folder)) == plain(found)
    assert made == []
    wider = measure(keep=folder, models=MODELS_ + ",ease")
    assert set(made) == {"ease"}
    assert wider.boards[0].small[0][0][0][:3] == found.boards[0].small[0][0][0]
    damaged = sorted(folder.glob("agreement-fit-item-knn*"))[0]
    damaged.write_bytes(b"PK half")
    made.clear()
    with pytest.warns(DataWarning, match="agreement-fit-item-knn.* is damaged"):
        assert plain(measure(keep=folder)) == plain(found)
    assert made == ["item-knn(neighbours=5)"]


@pytest.mark.slow
def test_several_processes_give_the_same_digits(found: Agreement) -> None:
    assert plain(measure(workers=2)) == plain(found)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    measure(keep=folder, seeds=1, fractions=[0.5])
    with pytest.raises(
        InvalidParameter, match=r"keeps an experiment on other data \('demo', not this 'other'"
    ):
        measure(keep=folder, data=replace(demo(1, n_users=80, n_items=150), name="other"))
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "letter.txt").write_text("Dear Sir")
    with pytest.raises(InvalidParameter, match=r"must be kept in an empty folder or one of an earlier"):
        measure(keep=tmp_path / "letters")
    assert [path.name for path in (tmp_path / "letters").iterdir()] == ["letter.txt"]
    with pytest.raises(InvalidParameter, match=r"finished results must be .* failed \(Not a directory\)"):
        measure(keep=tmp_path / "letters" / "letter.txt" / "deeper")
    with pytest.raises(InvalidParameter, match="must be kept in an empty folder"):
        measure(keep=tmp_path / "letters" / "letter.txt")


@pytest.mark.parametrize("damage", ["lost", "half", "other kind", "other data", "folder"])
def test_a_damaged_manifest_is_written_again(tmp_path: Path, damage: str) -> None:
    def small() -> Agreement:
        models = "popularity,item-knn(neighbours=5)"
        return measure(keep=tmp_path, seeds=1, fractions=[0.5], strategies="random", models=models)

    first, manifest = small(), tmp_path / "experiment.json"
    whole = manifest.read_text()
    manifest.unlink()
    if damage == "folder":
        manifest.mkdir()
    elif damage != "lost":
        changes = {
            "half": whole[:20],
            "other kind": whole.replace("agreement", "agreemint"),
            "other data": whole.replace('"data": "', '"data": "0'),
        }
        manifest.write_text(changes[damage])
    with pytest.warns(DataWarning, match=r"experiment\.json' is damaged") as notes:
        assert plain(small()) == plain(first)
    assert len(notes) == 1  # what was finished is not computed again
    assert manifest.read_text() == whole


def test_a_manifest_of_others_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "experiment.json").write_text('{"kind": "of somebody else"}')
    with pytest.raises(InvalidParameter, match="must be kept in an empty folder"):
        measure(keep=tmp_path)
    assert (tmp_path / "experiment.json").read_text() == '{"kind": "of somebody else"}'


def test_a_fraction_that_keeps_nothing_is_refused() -> None:
    with pytest.raises(InvalidParameter, match=r"0.0001 keeps none of the \d+ of scenario"):
        measure(fractions=[0.5, 0.0001])
    with pytest.raises(InvalidParameter, match="workers must be at least 1"):
        measure(workers=0)


@dataclass(frozen=True)
class Fragile(Model):
    """Needs many events."""

    key: ClassVar[str] = "fragile"
    at_least: int = 300

    def fit(
        self,
        train: Interactions,
        *,
        validate: Validate | None = None,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Scorer:
        if len(train) < self.at_least:
            raise NotConverged("training went astray.", None)
        counts = train.item_counts().astype(np.float64)
        return Factors(np.ones((train.n_users, 1)), -counts[:, None])


def test_a_model_that_fails_on_a_sub_sample_is_a_result() -> None:
    found = measure(models=["popularity", "item-knn", Fragile()])
    assert found.cell("random", 0.5).n_missing == 0
    cell = found.cell("random", 0.1)
    assert (cell.tau, cell.low, cell.certain, cell.n_missing) == (None, None, None, 4)
    assert len(found.problems) == 4
    assert found.problems[0].startswith("fragile on ")
    assert found.problems[0].endswith("training went astray.")
    assert found.score("random").psi == pytest.approx(found.cell("random", 0.5).tau)
    assert Agreement.from_json(found.to_json()) == found
    with pytest.raises(
        NotConverged, match="went astray"
    ):  # on the full data there is nothing to compare with
        measure(models=["popularity", Fragile(at_least=10**6)])


@dataclass(frozen=True)
class Tuned(Model):
    """Popularity turned by ``learning_rate``; 0.006 is best, and 0.02 worst."""

    key: ClassVar[str] = "tuned"
    learning_rate: float = 0.001

    def fit(
        self,
        train: Interactions,
        *,
        validate: Validate | None = None,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Scorer:
        sign = {0.001: 0.0, 0.006: 1.0, 0.02: -1.0}[self.learning_rate]
        return Factors(np.ones((train.n_users, 1)), sign * train.item_counts()[:, None].astype(np.float64))


def test_configurations_are_chosen_by_validation_or_by_test() -> None:
    asked: dict[str, Any] = {"models": ["popularity", Tuned()], "strategies": "random", "fractions": [0.5]}
    for selection in ("validation", "test"):
        scenario = SCENARIO.replace("(", f"(selection={selection}, ")
        board = measure(**asked, scenario=scenario, grid="paper").boards[0]
        full = np.array(board.full)
        np.testing.assert_allclose(full[:, 0], full[:, 1])  # the best of three is popularity itself
        assert board.n_certain == 0
    plain_board = measure(**asked).boards[0]
    assert np.array(plain_board.full)[0, 1] < np.array(plain_board.full)[0, 0]
    with pytest.raises(InvalidData, match="selecting hyper-parameters needs validation events"):
        measure(**asked, grid="paper", scenario="implicit(split=leave-one-out)")


def test_test_selection_takes_the_best_test_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two selections differ where validation is wrong."""
    original = TaskRunner._compute_fit

    def misled(self: TaskRunner, fit: FitTask) -> Any:
        arrays = dict(original(self, fit))
        arrays["valid"] = -arrays["valid"]
        return arrays

    monkeypatch.setattr(TaskRunner, "_compute_fit", misled)
    asked: dict[str, Any] = {"models": ["popularity", Tuned()], "strategies": "random", "fractions": [0.5]}
    boards = {
        selection: np.array(
            measure(**asked, grid="paper", scenario=SCENARIO.replace("(", f"(selection={selection}, "))
            .boards[0]
            .full
        )
        for selection in ("validation", "test")
    }
    assert (boards["test"][:, 1] == boards["test"][:, 0]).all()
    assert (boards["validation"][:, 1] < boards["test"][:, 1]).all()


def test_explicit_orders_small_errors_first() -> None:
    rng = np.random.default_rng(0)
    taste = rng.normal(3, 1, 150)[SMALL.item]
    rated = replace(SMALL, value=np.clip(np.round(taste + rng.normal(0, 0.3, len(SMALL))), 1, 5))
    models = "bias-only(epochs=1, learning_rate=0.0001),bias-only(epochs=30, learning_rate=0.1)"
    found = measure(data=rated, scenario="explicit", models=models, strategies="random", fractions=[0.8])
    board = found.boards[0]
    assert (board.metric, board.higher_is_better) == ("mse", False)
    assert board.full[0][0] > board.full[0][1] > 0  # the second has learnt something
    assert board.n_certain == 1
    assert found.cell("random", 0.8).certain == 1
    assert "random keeps the order of the models down to 80 % of the train events" in found.answer


def test_tasks_are_run_once() -> None:
    plan = make_plan(
        "svp-cf(proxy=bias(epochs=1)),svp-cf(proxy=bias(epochs=1), unit=user),random",
        [0.5, 0.2],
        "implicit,sequential",
        MODELS_,
        seeds=2,
    )
    experiment = AgreementExperiment(plan, SMALL)
    weighs, draws, fits = experiment.tasks()
    assert len(weighs) == 2 * 2  # scenarios and seeds: both strategies and fractions ask the same proxy
    assert len(draws) == 3 * 2 * 2 * 2
    assert len(fits) == 3 * 2 * 2 * (1 + 3 * 2)
    assert isinstance(weighs[0], ImportanceTask)
    assert isinstance(draws[0], SubsampleTask)
    assert experiment.progress() == (0, len(weighs) + len(draws) + len(fits))
    run_tasks(experiment.runner, [*weighs[:1], *draws[:1]], 1, SILENT.task("x"))
    assert experiment.progress()[0] == 2
    draw = draws[0]
    assert isinstance(draw, SubsampleTask)
    mask, seconds = experiment.runner.subsample_of(draw)
    expected = subsample(experiment.runner.splits[draw.scenario], draw.strategy, 0.5, seed=draw.seed).train
    train = experiment.runner.splits[draw.scenario].train
    np.testing.assert_array_equal(train.where(mask).item, expected.item)
    assert seconds > 0


@dataclass(frozen=True)
class Turncoat(Model):
    """Likes what is popular, and the contrary where there are few events."""

    key: ClassVar[str] = "turncoat"
    sign: float = 1.0

    def fit(
        self,
        train: Interactions,
        *,
        validate: Validate | None = None,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Scorer:
        sign = self.sign if len(train) > 300 else -self.sign
        return Factors(np.ones((train.n_users, 1)), sign * train.item_counts()[:, None].astype(np.float64))


def test_the_answer_says_where_the_order_is_lost() -> None:
    asked: dict[str, Any] = {"models": [Turncoat(), Turncoat(-1.0)], "strategies": "random"}
    found = measure(**asked)
    assert found.score("random").keeps_to == 0.5
    assert found.cell("random", 0.1).certain == -1
    assert found.answer.startswith(
        "On demo (implicit), random keeps the order of the models down to 50 % of the train events: over the "
        "2 of 2 pairs of models (2 metrics together) whose order is certain on the full data, the agreement "
        "is 1.00 [1.00, 1.00]."
    )
    lost = measure(**asked, fractions=[0.1])
    assert lost.score("random").keeps_to is None
    assert lost.answer.startswith(
        "No strategy that was tried keeps the order of the models on demo (implicit). Over the 2 of 2 pairs"
    )
    same = measure(models=["popularity", Tuned(learning_rate=0.006)])
    assert same.answer.startswith("On demo (implicit) there is no order to keep")
    assert same.cell("random", 0.5).certain is None
    assert same.cell("random", 0.5).tau is None  # all values are equal


def test_unknown_keyword() -> None:
    with pytest.raises(TypeError, match="worker"):
        measure_agreement(SMALL, "random", [0.5], worker=2)  # type: ignore[call-arg]


def test_several_workers_need_a_folder() -> None:
    experiment = AgreementExperiment(make_plan("random", [0.5], SCENARIO, MODELS_), SMALL)
    with pytest.raises(InvalidParameter, match="several workers need a folder"):
        run_tasks(experiment.runner, experiment.tasks()[1], 2, SILENT.task("x"))


def test_a_worker_sends_the_sentence_of_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan("random", [0.5], SCENARIO, ["popularity", Fragile(at_least=10**6)])
    experiment = AgreementExperiment(plan, SMALL)
    with pytest.raises(RuntimeError, match="no worker"):
        parallel._run_in_worker(experiment.tasks()[1][0])
    monkeypatch.setattr(parallel, "_worker_runner", experiment.runner)
    assert parallel._run_in_worker(experiment.tasks()[1][0]) is None
    failing = next(
        one for one in experiment.tasks()[2] if isinstance(one, FitTask) and one.model.key == "fragile"
    )
    assert parallel._run_in_worker(failing) == "training went astray."


def test_what_a_strategy_needs_is_asked_before_any_work() -> None:
    with pytest.raises(InvalidData, match="timestamp"):
        measure(data=replace(SMALL, time=None), strategies="random,temporal")


def test_importance_depends_on_the_proxy_and_not_on_the_unit() -> None:
    (scenario,) = make_plan("random", [0.5], SCENARIO, MODELS_).model_grids
    written = [
        "",
        "unit=user",
        "legacy=true",
        "proxy=bias",
        "negatives=2",
        "auc=inverse",
        "feedback=explicit",
    ]
    keys = []
    for part in written:
        strategy = make_strategy(f"svp-cf({part})")
        assert isinstance(strategy, ProxyStrategy)
        keys.append(ImportanceTask(scenario, strategy, 0).key("digest"))
    assert keys[0] == keys[1]
    assert len(set(keys[1:])) == len(written) - 1


def test_results_of_a_model_that_was_fitted_otherwise_are_not_read() -> None:
    """A model whose fits have changed has a revision in its key; the others keep the keys they had."""
    (scenario,) = make_plan("random", [0.5], SCENARIO, MODELS_).model_grids
    old = FitTask(scenario, MODELS.make("popularity"), 0).key("digest")
    assert old == f"agreement fit popularity full seed=0 {scenario} data=digest"
    for name in ("sasrec", "svae"):
        key = FitTask(scenario, MODELS.make(name), 0).key("digest")
        assert key == f"agreement fit {name} revision=2 full seed=0 {scenario} data=digest"


def test_keys_hold_what_values_depend_on_and_not_how_they_are_selected() -> None:
    def key(spec: str) -> str:
        (scenario,) = make_plan("random", [0.5], spec, MODELS_).model_grids
        return FitTask(scenario, MODELS.make("popularity"), 0).key("digest")

    plain = key("implicit")
    assert plain == key("implicit(selection=test)") == key("implicit(select_by=auc)")
    others = [
        "implicit(known=validation)",
        "implicit(seen=own)",
        "implicit(catalogue=surviving)",
        "implicit(stop=auc)",
        "implicit(split='ratio(first=test)')",
    ]
    assert len({plain, *map(key, others)}) == 1 + len(others)


# sub-samples that are too small


@pytest.fixture(scope="module")
def limited() -> Agreement:
    return measure(least_events=100, least_users=30, strategies="random,head-user,random-user")


@pytest.mark.slow
def test_small_subsamples_are_skipped_and_the_others_are_as_before(limited: Agreement) -> None:
    """Literal sizes of every sub-sample; taus of what is left out are missing, the rest does not change."""
    free = measure(strategies="random,head-user,random-user")
    assert free.skipped == []
    train = AgreementExperiment(make_plan("random", [0.5], SCENARIO, MODELS_), SMALL).runner
    (split,) = train.splits.values()
    expected = []
    for a, strategy in enumerate(limited.strategies):
        for f, fraction in enumerate(limited.fractions):
            n_left_out = 0
            for s, seed in enumerate(limited.seeds):
                small = subsample(split, strategy, fraction, seed=seed).train
                n_users = len(set(small.user.tolist()))
                reasons = [f"{len(small)} train events, fewer than 100"] * (len(small) < 100)
                reasons += [f"{n_users} users, fewer than 30"] * (n_users < 30)
                for board, whole in zip(limited.boards, free.boards, strict=True):
                    is_missing = board.tau[a][f][s] is None
                    assert is_missing == bool(reasons)
                    assert is_missing or board.tau[a][f][s] == whole.tau[a][f][s]
                if reasons:
                    n_left_out += 1
                    expected.append(f"{strategy} at {fraction} (seed {seed}, implicit): {'; '.join(reasons)}")
            cell = limited.cell(strategy, fraction)
            assert (cell.n_skipped, cell.n_missing) == (n_left_out, 2 * n_left_out)
            assert limited.cell(strategy, fraction, "ndcg@10").n_skipped == n_left_out
            assert (cell.seconds is None) == (cell.speedup is None) == (n_left_out > 0)
    assert limited.skipped == expected
    assert 0 < len(expected) < 12
    note = f"{len(expected)} of 12 sub-samples are too small (below 100 train events or 30 users)"
    assert f"{note}: their taus are missing, not zero." in limited.answer


def test_psi_is_the_mean_of_the_taus_that_are_left(limited: Agreement) -> None:
    for a, strategy in enumerate(limited.strategies):
        taus = np.array([board.tau[a] for board in limited.boards], dtype=float)
        is_left = ~np.isnan(taus)
        found = limited.score(strategy).psi
        assert found == (pytest.approx(taus[is_left].mean()) if is_left.any() else None)
    assert Agreement.from_json(limited.to_json()) == limited
    old = json.loads(limited.to_json())
    del old["skipped"]
    for cell in old["cells"]:
        del cell["n_skipped"]
    assert Agreement.from_json(json.dumps(old)).skipped == []  # results that were written before


def test_skipped_fits_are_not_made_and_larger_limits_use_what_is_kept(tmp_path: Path) -> None:
    plan = make_plan("random", [0.5, 0.05], SCENARIO, MODELS_, seeds=1, resamples=50, least_events=100)
    experiment = AgreementExperiment(plan, SMALL, folder=tmp_path)
    found = experiment.run()
    assert len(found.skipped) == 1
    assert experiment.progress() == (2 + 3 * 2, 2 + 3 * 2)
    again = replace(plan, least_events=0)
    assert AgreementExperiment(again, SMALL, folder=tmp_path).progress() == (8, 11)


def test_when_all_subsamples_are_too_small() -> None:
    found = measure(least_items=10**6, seeds=1)
    assert found.score("random").psi is None
    assert found.answer.startswith(
        f"On {SMALL.name} (implicit) no order could be compared: not one tau exists."
    )
    assert "4 of 4 sub-samples are too small (below 1000000 items)" in found.answer


# one configuration for all metrics


@pytest.mark.slow
def test_one_configuration_is_selected_by_one_metric(tmp_path: Path) -> None:
    """Literal: the largest value of that metric, on the part that is asked for, for each train set."""
    models, n_differ = ["popularity", "mf(epochs=3)"], 0
    for selection in ("validation", "test"):
        scenario = f"implicit(metrics='ndcg@10,auc', selection={selection}, select_by=auc)"
        plan = make_plan("random", [0.5], scenario, models, seeds=2, resamples=50, grid="reduced-rates")
        experiment = AgreementExperiment(plan, SMALL, folder=tmp_path)
        found = experiment.run()
        ((made, grids),) = plan.model_grids.items()
        (strategy,) = plan.strategies.values()
        assert len(grids[1].configurations) == 6
        for s, seed in enumerate(plan.seeds):
            for drawn in (None, SubsampleTask(made, strategy, 0.5, seed)):
                fits = [
                    experiment.runner.fit_values(FitTask(made, model, seed, drawn))
                    for model in grids[1].configurations
                ]
                best = int(np.argmax([getattr(fit, selection.removesuffix("ation"))[1] for fit in fits]))
                for m, board in enumerate(found.boards):
                    value = board.full[s][1] if drawn is None else board.small[0][0][s][1]
                    assert value == fits[best].test[m]
                n_differ += best != int(np.argmax([fit.test[0] for fit in fits]))
    assert n_differ > 0  # some other configuration has a better NDCG


# repeated pairs


@pytest.mark.slow
def test_repeated_pairs_go_through_every_step() -> None:
    """All scenarios and kinds of strategies; users whose only pair is repeated count as long histories."""
    rng = np.random.default_rng(0)
    user, item = np.repeat(np.arange(60), 12), rng.integers(40, size=720)
    user, item = np.append(user, [60] * 3), np.append(item, [5] * 3)
    data = Interactions.from_codes(
        user, item, time=rng.permutation(len(user)), value=1.0 + rng.integers(5, size=len(user))
    )
    assert len(data.by_user().items) < len(data) - 50
    found = measure_agreement(
        data,
        "random,stratified,temporal,random-user,head-user,centrality,random-walk,forest-fire,"
        "svp-cf(proxy=bias(epochs=1)),svp-cf-prop(proxy=bias(epochs=1), unit=user)",
        [0.5],
        scenario=[
            "explicit(split=ratio(first=test))",
            "implicit(split=ratio(first=test), known=validation, seen=own, metrics='auc,ndcg@10')",
            "sequential(known=validation, seen=own, metrics='auc,ndcg@10')",
        ],
        models=["bias-only(epochs=1)", "mf(epochs=1)"],
        seeds=1,
        resamples=50,
    )
    assert found.problems == []
    assert all(cell.tau is not None for cell in found.cells if not cell.metric)
    counts = {key.split("(")[0]: counts for key, counts in found.data.items()}
    assert counts["explicit"]["users_with_targets"] == counts["implicit"]["users_with_targets"] == 61
    assert counts["sequential"]["events_dropped"] > 0
    total = sum(counts["sequential"][part] for part in ("n_train", "n_valid", "n_test", "events_dropped"))
    assert total == len(data)


@pytest.mark.data
@pytest.mark.skipif(
    find_local("ml-100k") is None, reason="ml-100k lies neither in TRUERANK_DATA nor ../shared/data"
)
def test_findings_of_the_paper_on_ml_100k() -> None:
    """Keeping the most active users is worse than random events; popularity gains by sub-sampling."""
    found = measure(
        data=load("ml-100k"),
        models="popularity,item-knn",
        fractions=[0.6, 0.05],
        scenario="implicit",
        seeds=1,
    )
    random, head = found.score("random"), found.score("head-user")
    assert random.psi is not None
    assert head.psi is not None
    assert random.psi > head.psi
    (move,) = [one for one in found.moves if one.model == "popularity" and one.fraction == 0.05]
    assert move.low is not None
    assert move.low > 0.5
