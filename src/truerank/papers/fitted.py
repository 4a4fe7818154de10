"""Models of a recipe: which data set, split and hyper-parameters, and whether they can be run here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import ClassVar

from truerank.core.interactions import Interactions
from truerank.core.model import EpochModel, Model, Validate
from truerank.core.progress import SILENT, Progress
from truerank.core.scorer import Scorer
from truerank.core.spec import Spec
from truerank.data import find_local
from truerank.models import MODELS
from truerank.papers.store import PaperStore

#: why a quick run is without something
QUICK = "left out of a quick run for the time it takes"


@dataclass(frozen=True)
class Setup:
    """One data set of a paper.

    Parameters
    ----------
    dataset, split : what ``load`` and ``make_split`` take
    models : the paper's name of a model to its spec
    slow : models that a quick run leaves out
    """

    dataset: str
    split: str
    models: Mapping[str, str]
    slow: tuple[str, ...] = ()

    @property
    def is_at_hand(self) -> bool:
        """Whether the data set lies on this machine."""
        return find_local(self.dataset) is not None

    def missing(self, model: str, *, quick: bool = False) -> str:
        """Return why a model cannot be run here, or is left out of a quick run; '' if it takes part."""
        if not self.is_at_hand:
            return f"data set {self.dataset} is not at hand"
        made = MODELS.make(self.models[model])
        if isinstance(made, EpochModel) and find_spec("torch") is None:
            return f"model {model} needs torch: pip install 'truerank[torch]'"
        return QUICK if quick and model in self.slow else ""

    def fitted(self, store: PaperStore, seed: int, *, quick: bool = False) -> dict[str, Model]:
        """Return the models that can be run here, by the paper's names."""
        return {
            name: Fitted(self.dataset, self.split, spec, seed, store)
            for name, spec in self.models.items()
            if not self.missing(name, quick=quick)
        }


@dataclass(frozen=True, eq=False)
class Fitted(Model):
    """A model whose scores a store keeps, so that several recipes share one fit."""

    dataset: str = ""
    split: str = ""
    model: str = ""
    seed: int = 0
    store: PaperStore | None = None
    key: ClassVar[str] = "fitted"

    def spec(self) -> Spec:
        """Return the spec of the model itself."""
        return MODELS.make(self.model).spec()

    def fit(
        self,
        train: Interactions,
        *,
        validate: Validate | None = None,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Scorer:
        """Return the scores from the store; the seed of the recipe counts."""
        store = self.store or PaperStore()
        return store.scorer(self.dataset, self.split, self.model, seed=self.seed, progress=progress)
