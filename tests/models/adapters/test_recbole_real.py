"""Models trained by RecBole itself: truerank's metrics are those that RecBole prints.

RecBole 1.2.1 uses three names that NumPy 2 has removed. These tests define them, as its users must, and take
them away afterwards; truerank defines none.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import truerank
from tests.models.adapters.world import events, library, make_split
from truerank.core.interactions import Interactions, Vocabulary
from truerank.core.split import Split
from truerank.models.adapters.recbole import from_recbole

torch = library("torch")
library("recbole")
ALIASES = {"float_": np.float64, "complex_": np.complex128, "unicode_": np.str_}
SETTINGS: dict[str, Any] = {
    "epochs": 3,
    "embedding_size": 8,
    "use_gpu": False,
    "state": "ERROR",
    "show_progress": False,
    "load_col": {"inter": ["user_id", "item_id", "timestamp"]},
    "eval_args": {"split": {"RS": [0.6, 0.2, 0.2]}, "order": "RO", "group_by": "user", "mode": "full"},
    "metrics": ["Recall", "NDCG", "MRR", "Precision"],
    "topk": [5],
    "valid_metric": "MRR@5",
    "metric_decimal_place": 10,
}
IN_ORDER = {"split": {"LS": "valid_and_test"}, "order": "TO", "group_by": "user", "mode": "full"}


@pytest.fixture(scope="module", autouse=True)
def removed_names() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, kind in ALIASES.items():
            if not hasattr(np, name):
                patch.setattr(np, name, kind, raising=False)
        yield


@dataclass(frozen=True)
class Trained:
    """What RecBole made of the events: model, data, split, and the metrics it prints for the test part."""

    model: Any
    dataset: Any
    test: Any
    split: Split
    metrics: dict[str, float]


def train(name: str, folder: Path, **settings: Any) -> Trained:
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.utils import get_model, get_trainer, init_seed

    (folder / "toy").mkdir()
    lines = [
        f"{user}\t{item}\t{value}\t{at}\n"
        for at, (user, item, value) in enumerate(events(make_split().train))
    ]
    header = "user_id:token\titem_id:token\trating:float\ttimestamp:float\n"
    (folder / "toy" / "toy.inter").write_text(header + "".join(lines))
    chosen = {**SETTINGS, "data_path": str(folder), "checkpoint_dir": str(folder), **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = Config(model=name, dataset="toy", config_dict=chosen)
        init_seed(0, True)
        dataset = create_dataset(config)
        loaders = data_preparation(config, dataset)
        model = get_model(config["model"])(config, loaders[0].dataset).to("cpu")
        trainer = get_trainer(config["MODEL_TYPE"], config["model"])(config, model)
        trainer.fit(loaders[0], saved=False, show_progress=False)
        metrics = trainer.evaluate(loaders[2], load_best_model=False, show_progress=False)
    return Trained(model, dataset, loaders[2], as_split(dataset, loaders), dict(metrics))


def as_split(dataset: Any, loaders: Any) -> Split:
    """RecBole's parts with their tokens, as a split of truerank."""
    tokens = [dataset.field2id_token[field] for field in ("user_id", "item_id")]
    users, items = (Vocabulary.of(side[1:].tolist()) for side in tokens)
    parts = []
    for loader in loaders:
        codes = [loader.dataset.inter_feat[field].numpy() for field in ("user_id", "item_id")]
        user, item = (side[code].tolist() for side, code in zip(tokens, codes, strict=True))
        parts.append(Interactions(users.encode(user), items.encode(item), users, items))
    return Split(parts[0], parts[2], parts[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["BPR", "Pop", "ItemKNN", "EASE", "DMF", "MultiVAE"])
def test_the_metrics_that_recbole_prints(name: str, tmp_path: Path) -> None:
    more = {} if name != "MultiVAE" else {"train_neg_sample_args": None}
    made = train(name, tmp_path, **more)
    scorer = from_recbole(made.model, made.dataset, made.split.train)
    metrics = ["recall@5", "ndcg@5", "mrr@5", "precision@5"]
    best = truerank.evaluate({name: scorer}, made.split, metrics, ties="best", interval="normal")
    worst = truerank.evaluate({name: scorer}, made.split, metrics, ties="worst", interval="normal")
    for metric in metrics:
        low, high = worst.value(metric), best.value(metric)
        assert low - 1e-6 <= made.metrics[metric] <= high + 1e-6
        if name not in ("Pop", "ItemKNN"):  # these score many items alike, and RecBole takes any order
            assert high == pytest.approx(low, abs=1e-9)


@pytest.mark.slow
def test_a_sequential_model_gets_its_sequences(tmp_path: Path) -> None:
    made = train(
        "SASRec", tmp_path, eval_args=IN_ORDER, train_neg_sample_args=None, hidden_size=8, inner_size=8
    )
    feat = made.test.dataset.inter_feat
    row_of = {int(user): row for row, user in enumerate(feat["user_id"].tolist())}

    def sequences(users: Any) -> Any:
        return feat[[row_of[int(user)] for user in users]]

    split = make_sequential_split(made)
    scorer = from_recbole(made.model, made.dataset, split.train, interaction=sequences)
    result = truerank.evaluate({"sasrec": scorer}, split, "recall@5,mrr@5", seen="keep")
    for metric in ("recall@5", "mrr@5"):
        assert result.value(metric) == pytest.approx(made.metrics[metric], abs=1e-6)


def make_sequential_split(made: Trained) -> Split:
    """Of every user the last event; RecBole lets sequential models recommend what was met before."""
    tokens = [made.dataset.field2id_token[field] for field in ("user_id", "item_id")]
    feat = made.test.dataset.inter_feat
    user, item = (
        side[feat[field].numpy()].tolist() for side, field in zip(tokens, ("user_id", "item_id"), strict=True)
    )
    whole = make_split().train
    held = set(zip(user, item, strict=True))
    rows = zip(whole.users.decode(whole.user), whole.items.decode(whole.item), strict=True)
    mask = np.array([row in held for row in rows])
    assert mask.sum() == len(held)
    return Split(whole.where(~mask), whole.where(mask))


def test_a_model_without_full_sort_predict(tmp_path: Path) -> None:
    from truerank.core.errors import InvalidParameter

    made = train("NeuMF", tmp_path, epochs=1)
    scorer = from_recbole(made.model, made.dataset, made.split.train)
    with pytest.raises(InvalidParameter, match=r"which this NeuMF does not implement\. Use from_torch"):
        scorer.score(np.array([0]), np.array([0]))


def test_numpy_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trained model is scored without the removed names, and the adapter defines none of them."""
    made = train("Pop", tmp_path)
    for name in ALIASES:
        monkeypatch.delattr(np, name)
    scorer = from_recbole(made.model, made.dataset, made.split.train)
    assert np.isfinite(scorer.score(np.arange(3), np.arange(5))).all()
    assert not any(hasattr(np, name) for name in ALIASES)
