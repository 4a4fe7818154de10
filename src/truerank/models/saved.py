"""The model ``saved``: a fitted model that is read from a file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from truerank.core.errors import check_choice
from truerank.core.interactions import Interactions
from truerank.core.model import Model, Validate
from truerank.core.progress import SILENT, Progress, tracked
from truerank.core.scorer import Scorer


@dataclass(frozen=True)
class Saved(Model):
    """A fitted model from a file that truerank wrote.

    Users and items are found by their ids where the file has them; otherwise the data must have as many users
    and items as those the model was fitted on. Nothing is learnt.

    Parameters
    ----------
    path : the file; a relative path starts from the working directory
    unknown : ``error`` refuses users and items that the model does not know, ``bottom`` ranks such items
        below all others and lets all known items tie for such users

    Raises
    ------
    InvalidData
        When the file is missing, foreign, damaged or of another version, or of other users and items.

    Examples
    --------
    >>> str(Saved("models/ease.truerank"))
    'saved(path=models/ease.truerank)'
    """

    key: ClassVar[str] = "saved"

    path: str = "model.truerank"
    unknown: Literal["error", "bottom"] = "error"

    def __post_init__(self) -> None:
        check_choice("unknown", self.unknown, ("error", "bottom"))

    def fit(
        self,
        train: Interactions,
        *,
        validate: Validate | None = None,
        seed: int = 0,
        progress: Progress = SILENT,
    ) -> Scorer:
        """Read the file and align it with the vocabularies of train."""
        from truerank.models.saved_scorer import load_scorer

        with tracked(progress, str(self)):
            return load_scorer(Path(self.path)).aligned(train, unknown=self.unknown)
