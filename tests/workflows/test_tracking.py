"""Results and epochs arrive in MLflow, in a store of the test's own."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from truerank.core.errors import InvalidData, InvalidParameter, MissingDependency
from truerank.core.interactions import Interactions
from truerank.core.model import Epoch
from truerank.core.result import Estimate, Result
from truerank.core.scorer import as_scorer
from truerank.core.split import Split
from truerank.workflows.evaluate import evaluate
from truerank.workflows.tracking import MlflowLogger, log_result, metric_name, result_metrics

TRAIN = Interactions.from_codes([0, 0, 1, 2], [0, 1, 1, 1], n_users=3, n_items=4)
SPLIT = Split(TRAIN, Interactions.from_codes([1, 2], [0, 2], n_users=3, n_items=4), method="by hand")


@pytest.fixture
def mlflow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """MLflow with its files in a folder of the test; no server, no network."""
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        module = pytest.importorskip(
            "mlflow", reason="mlflow is not installed: pip install 'truerank[track]'"
        )
        before = module.get_tracking_uri()
        module.set_tracking_uri((tmp_path / "runs").as_uri())
        yield module
        while module.active_run() is not None:
            module.end_run()
        module.set_tracking_uri(before)


@pytest.mark.slow
def test_a_result_of_one_model(mlflow: Any) -> None:
    result = evaluate("popularity", SPLIT, "recall@1,ndcg@2", seed=5)
    run_id = log_result(result, experiment="trials")
    assert mlflow.active_run() is None
    run = mlflow.MlflowClient().get_run(run_id)
    assert run.info.status == "FINISHED"
    assert mlflow.get_experiment(run.info.experiment_id).name == "trials"
    e = result.estimate("recall@1")
    assert run.data.metrics["recall_at_1"] == e.value == 0.5
    assert (run.data.metrics["recall_at_1.low"], run.data.metrics["recall_at_1.high"]) == (e.low, e.high)
    assert run.data.metrics["ndcg_at_2"] == result.value("ndcg@2")
    assert run.data.params["models.popularity"] == "popularity"
    assert run.data.params["seed"] == "5"
    assert run.data.params["split"] == "by hand"
    assert run.data.params["data.n_items"] == "4"
    assert run.data.params["data_hash"] == result.provenance["data_hash"]
    assert not any("seconds" in name for name in run.data.params)
    text = mlflow.artifacts.load_text(f"runs:/{run_id}/truerank.json")
    assert Result.from_json(text) == result


def test_several_models_and_estimators_in_the_active_run(mlflow: Any) -> None:
    models = ["popularity", "ials(factors=2, sweeps=1)"]
    result = evaluate(
        models, SPLIT, "recall@1", sampler="uniform(m=2)", estimators="naive,bv(gamma=0.5)", check=True
    )
    with mlflow.start_run() as run:
        assert log_result(result, prefix="test/", step=3, artifact="results/last.json") == run.info.run_id
        assert mlflow.active_run() is not None
    data = mlflow.MlflowClient().get_run(run.info.run_id).data
    for e in result.estimates:
        name = f"test/{metric_name('recall@1', model=e.model, estimator=e.estimator)}"
        assert data.metrics[name] == e.value
        assert (f"{name}.low" in data.metrics) == (e.low is not None)
    assert "test/ials_factors_2_sweeps_1/bv_gamma_0.5/recall_at_1" in data.metrics
    (logged,) = mlflow.MlflowClient().get_metric_history(run.info.run_id, "test/popularity/naive/recall_at_1")
    assert logged.step == 3


def test_epochs_and_a_second_result_of_one_run(mlflow: Any) -> None:
    """Parameters of a run are written once; metrics get further steps."""
    scorer = as_scorer(np.zeros((3, 4)))
    with mlflow.start_run() as run:
        logger = MlflowLogger()
        for number in (1, 2):
            logger(Epoch(number, loss=1.0 / number, validation=None if number == 1 else 0.5, scorer=scorer))
            logger.log(evaluate("popularity", SPLIT, "recall@1", seed=number), step=number)
    client = mlflow.MlflowClient()
    assert [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, "loss")] == [
        (1, 1.0),
        (2, 0.5),
    ]
    assert [m.step for m in client.get_metric_history(run.info.run_id, "validation")] == [2]
    assert [m.step for m in client.get_metric_history(run.info.run_id, "recall_at_1")] == [1, 2]
    assert client.get_run(run.info.run_id).data.params["seed"] == "1"


def test_a_finished_run_by_id(mlflow: Any) -> None:
    with mlflow.start_run() as run:
        pass
    assert log_result(evaluate("popularity", SPLIT, "recall@1"), run_id=run.info.run_id) == run.info.run_id
    assert mlflow.MlflowClient().get_run(run.info.run_id).data.metrics["recall_at_1"] == 0.5


def test_names() -> None:
    assert metric_name("ap(norm=rel)@10") == "ap_norm_rel_at_10"
    assert metric_name("ndcg@10", model="café", estimator="bv(prior=beta(a=0.5))") == (
        "caf/bv_prior_beta_a_0.5/ndcg_at_10"
    )
    result = Result("evaluate", (Estimate("a(b)", "auc", 0.5), Estimate("a b", "auc", 0.6)))
    with pytest.raises(
        InvalidData, match="each estimate needs a name of its own in MLflow, but several are called 'a_b/auc'"
    ):
        result_metrics(result)
    with pytest.raises(InvalidParameter, match=r"prefix must be letters, digits, .* got 'a@b'"):
        MlflowLogger(prefix="a@b")


def test_missing_mlflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(MissingDependency, match=r"logging to MLflow needs mlflow\. .* 'truerank\[track\]'"):
        log_result(Result("evaluate", ()))
