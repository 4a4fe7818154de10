"""Models of RecBole, by its documented interface.

RecBole does not run with current NumPy, so these tests use a fake of the parts the adapter touches: a dataset
with ``uid_field``, ``iid_field``, ``field2id_token`` (entry 0 is padding) and ``join``, an ``Interaction``
that is made of a dictionary, indexed by field and moved by ``to``, and models with ``full_sort_predict`` that
return all items of all users, flat or as a matrix.
"""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

from tests.models.adapters.world import assert_ranks_agree, library, make_split, shuffled
from truerank.core.errors import InvalidData, InvalidParameter
from truerank.core.interactions import Interactions
from truerank.models.adapters.recbole import from_recbole

torch = library("torch")
SPLIT = make_split()


class FakeInteraction:
    def __init__(self, columns: dict[str, Any]) -> None:
        self.columns = columns

    def __getitem__(self, field: str) -> Any:
        return self.columns[field]

    def to(self, device: Any) -> FakeInteraction:
        return FakeInteraction({name: column.to(device) for name, column in self.columns.items()})


class FakeDataset:
    uid_field, iid_field = "user_id", "item_id"

    def __init__(self) -> None:
        self.users, self.user_codes = shuffled(SPLIT.train.users)
        self.items, self.item_codes = shuffled(SPLIT.train.items, seed=3)
        self.field2id_token = {
            "user_id": np.array(["[PAD]", *self.users]),
            "item_id": np.array(["[PAD]", *self.items]),
        }
        self.joined = 0

    def join(self, interaction: FakeInteraction) -> FakeInteraction:
        self.joined += 1
        return interaction


def fake_model(dataset: FakeDataset, *, flat: bool) -> Any:
    class FakeModel(torch.nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.user = torch.nn.Embedding(len(dataset.users) + 1, 4)
            self.item = torch.nn.Embedding(len(dataset.items) + 1, 4)
            self.dropout = torch.nn.Dropout(0.9)

        def full_sort_predict(self, interaction: FakeInteraction) -> Any:
            assert not torch.is_grad_enabled()
            scores = self.dropout(self.user(interaction["user_id"])) @ self.item.weight.T
            return scores.view(-1) if flat else scores

    return FakeModel()


@pytest.fixture
def recbole(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = types.ModuleType("recbole.data.interaction")
    fake.Interaction = FakeInteraction  # type: ignore[attr-defined]
    for name in ("recbole", "recbole.data"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, "recbole.data.interaction", fake)


def best_first(model: Any, dataset: FakeDataset) -> dict[str, list[str]]:
    """Padding and seen items masked, then by score: what RecBole's full sort does."""
    scores = (model.user.weight @ model.item.weight.T).detach().numpy()[1:, 1:]
    seen = SPLIT.train.matrix().toarray()[dataset.user_codes][:, dataset.item_codes] > 0
    return {
        user: [dataset.items[one] for one in np.argsort(-row) if not known[one]]
        for user, row, known in zip(dataset.users, scores, seen, strict=True)
    }


@pytest.mark.parametrize("flat", [True, False])
def test_the_order_of_full_sort(flat: bool, recbole: None) -> None:
    dataset = FakeDataset()
    model = fake_model(dataset, flat=flat)
    scorer = from_recbole(model, dataset, SPLIT.train)
    assert_ranks_agree(scorer, SPLIT, best_first(model, dataset))
    assert dataset.joined > 0
    assert model.training
    assert model.dropout.training


def test_an_interaction_of_ones_own_needs_no_recbole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "recbole.data.interaction", None)
    dataset = FakeDataset()
    model = fake_model(dataset, flat=True)
    scorer = from_recbole(
        model, dataset, SPLIT.train, interaction=lambda users: FakeInteraction({"user_id": users})
    )
    assert_ranks_agree(scorer, SPLIT, best_first(model, dataset))
    with pytest.raises(
        InvalidParameter, match=r"from_recbole needs RecBole to wrap user codes\. Install recbole"
    ):
        from_recbole(model, dataset, SPLIT.train)


def test_what_does_not_fit(recbole: None) -> None:
    dataset = FakeDataset()
    model = fake_model(dataset, flat=True)
    with pytest.raises(InvalidParameter, match=r"with full_sort_predict, which this Linear lacks"):
        from_recbole(torch.nn.Linear(1, 1), dataset, SPLIT.train)
    with pytest.raises(InvalidParameter, match="takes the RecBole dataset as its second argument, got dict"):
        from_recbole(model, {}, SPLIT.train)
    with pytest.raises(InvalidParameter, match=r"takes a model of RecBole \(a torch.nn.Module\), got str"):
        from_recbole("BPR", dataset, SPLIT.train)
    with pytest.raises(InvalidData, match="no id is the same"):
        from_recbole(model, dataset, Interactions.from_codes([0], [0]))

    def refuse(interaction: Any) -> Any:
        raise NotImplementedError

    model.full_sort_predict = refuse
    scorer = from_recbole(model, dataset, SPLIT.train)
    with pytest.raises(InvalidParameter, match="which this FakeModel does not implement"):
        scorer.score(np.array([0]), np.array([0]))
