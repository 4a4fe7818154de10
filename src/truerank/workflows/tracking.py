"""Logging of results and training epochs to MLflow."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from truerank.core.errors import InvalidData, InvalidParameter, MissingDependency, suggests_arguments
from truerank.core.model import Epoch
from truerank.core.result import Result

_FORBIDDEN = re.compile(r"[^\w\-. :/]", re.ASCII)
_LONGEST_NAME, _LONGEST_VALUE = 200, 500  # MLflow takes 250 with the prefix, and 500 since its first version


@dataclass(frozen=True)
class MlflowLogger:
    """Logs results and epochs to MLflow: to the active run, or to a new one where none is active.

    Pass it as ``on_epoch`` to ``fit`` to log the training, and call ``log`` with a result. The tracking
    server is the one that MLflow is configured for.

    Parameters
    ----------
    prefix : put before every name, such as ``valid/``
    run_id : the run to write to; None takes the active one, or starts one per call
    experiment : name of the experiment of a new run; None takes the one that MLflow is configured for
    artifact : path of the JSON result among the artifacts of the run

    Examples
    --------
    >>> metric_name("ndcg@10", model="ease(reg=500)")
    'ease_reg_500/ndcg_at_10'
    """

    prefix: str = ""
    run_id: str | None = None
    experiment: str | None = None
    artifact: str = "truerank.json"

    def __post_init__(self) -> None:
        if _FORBIDDEN.search(self.prefix):
            raise InvalidParameter(
                "prefix must be letters, digits, spaces and _-.:/ for MLflow, got "
                f"{self.prefix!r}. Choose another one."
            )

    def __call__(self, epoch: Epoch) -> None:
        """Log loss and validation of one epoch, with its number as step."""
        values = {"loss": epoch.loss, "validation": epoch.validation}
        with self._run() as (mlflow, run_id):
            _log_metrics(mlflow, run_id, {self.prefix + name: v for name, v in values.items()}, epoch.number)

    def log(self, result: Result, *, step: int = 0) -> str:
        """Log a result and return the id of the run.

        Metrics are the values and the limits of their intervals (``.low``, ``.high``). Parameters are data
        and provenance, flattened. Parameters of a run cannot change in MLflow, so a further result of the
        same run adds only those that are new. The artifact is the whole result as JSON.

        Parameters
        ----------
        result : of ``evaluate`` or ``estimate``
        step : such as the epoch
        """
        values = result_metrics(result, prefix=self.prefix)
        params = {self.prefix + name: value for name, value in result_params(result).items()}
        with self._run() as (mlflow, run_id):
            client = mlflow.MlflowClient()
            known = client.get_run(run_id).data.params
            _log_metrics(mlflow, run_id, values, step)
            for name, value in params.items():
                if name not in known:
                    client.log_param(run_id, name, value)
            client.log_text(run_id, result.to_json(), self.artifact)
            return run_id

    @contextmanager
    def _run(self) -> Iterator[tuple[Any, str]]:
        """Give MLflow and the id of the run to write to; a run that was started for this is ended."""
        mlflow = _require_mlflow()
        active = mlflow.active_run()
        if self.run_id is not None or active is not None:
            yield mlflow, self.run_id or active.info.run_id
            return
        with mlflow.start_run(experiment_id=self._experiment_id(mlflow)) as run:
            yield mlflow, run.info.run_id

    def _experiment_id(self, mlflow: Any) -> str | None:
        """Return the id of the named experiment, created if need be; MLflow's own setting does not change."""
        if self.experiment is None:
            return None
        known = mlflow.get_experiment_by_name(self.experiment)
        return str(mlflow.create_experiment(self.experiment) if known is None else known.experiment_id)


@suggests_arguments
def log_result(
    result: Result,
    *,
    step: int = 0,
    prefix: str = "",
    run_id: str | None = None,
    experiment: str | None = None,
    artifact: str = "truerank.json",
) -> str:
    """Log a result to MLflow and return the id of the run.

    Parameters
    ----------
    result : of ``evaluate`` or ``estimate``
    step : such as the epoch
    prefix, run_id, experiment, artifact : as in ``MlflowLogger``
    """
    return MlflowLogger(prefix, run_id, experiment, artifact).log(result, step=step)


def metric_name(metric: str, *, model: str = "", estimator: str = "") -> str:
    """Return a name that MLflow accepts: ``@`` becomes ``_at_``, other characters single underscores."""
    parts = [model, estimator, metric.replace("@", "_at_")]
    clean = [
        re.sub(r"_+", "_", _FORBIDDEN.sub("_", part).replace(" ", "_")).strip("_") for part in parts if part
    ]
    return "/".join(clean)[-_LONGEST_NAME:]


def result_metrics(result: Result, *, prefix: str = "") -> dict[str, float | None]:
    """Return metric values by MLflow name; models and estimators are named where there are several.

    Raises
    ------
    InvalidData
        When two estimates would get the same name.
    """
    several_models = len(result.models()) > 1
    several_estimators = len({e.estimator for e in result.estimates}) > 1
    named: dict[str, float | None] = {}
    for e in result.estimates:
        name = prefix + metric_name(
            e.metric,
            model=e.model if several_models else "",
            estimator=e.estimator if several_estimators else "",
        )
        if name in named:
            raise InvalidData(
                f"each estimate needs a name of its own in MLflow, but several are called {name!r}. Give the "
                "models as a mapping from names."
            )
        named.update({name: e.value, f"{name}.low": e.low, f"{name}.high": e.high})
    return named


def result_params(result: Result) -> dict[str, str]:
    """Return data and provenance as texts by dotted names, without seconds and counts of scores."""
    provenance = {
        key: value for key, value in result.provenance.items() if key not in ("seconds", "scores_computed")
    }
    nested = {"command": result.command, "version": result.version, "data": dict(result.data), **provenance}
    return dict(_flat(nested))


def _flat(nested: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for key, value in nested.items():
        name = f"{path}.{metric_name(str(key))}" if path else metric_name(str(key))
        if isinstance(value, Mapping):
            yield from _flat(value, name)
        elif value is not None:
            text = value if isinstance(value, str) else json.dumps(value, default=str)
            yield name[-_LONGEST_NAME:], text[:_LONGEST_VALUE]


def _log_metrics(mlflow: Any, run_id: str, values: Mapping[str, float | None], step: int) -> None:
    """Log all values that exist."""
    client = mlflow.MlflowClient()
    for name, value in values.items():
        if value is not None:
            client.log_metric(run_id, name, value, step=step)


def _require_mlflow() -> Any:
    try:
        import mlflow
    except ImportError:
        raise MissingDependency("logging to MLflow", "mlflow", extra="track") from None
    return mlflow
