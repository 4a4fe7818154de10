"""Saving and loading fitted models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from truerank.core.check import check_choice
from truerank.core.errors import InvalidData
from truerank.core.interactions import Interactions
from truerank.core.model import Model
from truerank.core.scorer import Factors, HasSparseRows, Scorer
from truerank.core.vocabulary import Vocabulary
from truerank.models.adapters.alignment import UNKNOWN, Alignment, Unknown, align_ids
from truerank.models.saving.container import read_container, write_container
from truerank.models.saving.ids import pack_ids, unpack_ids
from truerank.models.saving.kind import count_users, pack, unpack
from truerank.models.saving.realigned import Realigned, RealignedRows

_SIDES = ("user", "item")


@dataclass(frozen=True, eq=False)
class SavedScorer:
    """What a model file holds.

    Parameters
    ----------
    scorer : scores by the codes it was fitted with
    model : the spec string of the model; '' when none was given
    n_users, n_items : size of the data it was fitted on
    users, items : the ids behind the codes; None when they were not saved
    version : the version of truerank that wrote it
    path : where it was read
    """

    scorer: Scorer
    model: str
    n_users: int
    n_items: int
    users: Vocabulary | None
    items: Vocabulary | None
    version: str
    path: Path

    def aligned(self, data: Interactions, *, unknown: Unknown = "error") -> Scorer:
        """Return the scorer by the codes of a data set, for example one that was read later.

        Parameters
        ----------
        data : says the order of users and items
        unknown : what to do with users and items that the model does not know: ``error`` refuses, ``bottom``
            ranks such items below all others and lets all known items tie for such users

        Raises
        ------
        InvalidData
            When ids are unknown, or the file has no ids and the data are of another size.
        """
        check_choice("unknown", unknown, UNKNOWN)
        if self.users is None or self.items is None:
            self._check_size(data)
            return self.scorer
        if self.users == data.users and self.items == data.items:
            return self.scorer
        alignment = align_ids(data, self.users.ids, self.items.ids, unknown=unknown)
        return _realign(self.scorer, alignment)

    def _check_size(self, data: Interactions) -> None:
        if (self.n_users, self.n_items) != (data.n_users, data.n_items):
            raise InvalidData(
                f"'{self.path}' holds a model of {self.n_users} users and {self.n_items} items without their "
                f"ids, but the data have {data.n_users} and {data.n_items}. Evaluate it on the data it was "
                "fitted on, or save it with its ids (data=...)."
            )


def save_scorer(
    path: str | Path, scorer: Scorer, *, model: str | Model = "", data: Interactions | None = None
) -> None:
    """Write a fitted model to one file.

    The file is a zip archive of plain arrays and a JSON header; nothing in it is code. Equal models give
    equal bytes. It is written beside its place and renamed, so that no half-written file is ever left.

    Parameters
    ----------
    path : such as ``model.truerank``
    scorer : what ``fit`` returned, or any scorer made of arrays
    model : the model or its spec string, for the record
    data : the train part, whose ids are saved, so that the model can be used with data that are read later or
        filtered in another way; None saves no ids, and the model fits data of the same size only

    Raises
    ------
    InvalidParameter
        When the scorer is not made of arrays, or the path cannot be written.
    InvalidData
        When the scorer was fitted on another catalogue than that of ``data``.
    """
    kind, arrays = pack(scorer)
    named = {f"scorer/{name}": array for name, array in arrays.items()}
    n_users = count_users(kind, arrays)
    if data is not None:
        if (n_users, scorer.n_items) != (data.n_users, data.n_items):
            raise InvalidData(
                f"data must be what the model was fitted on ({n_users} users, {scorer.n_items} items), got "
                f"{data.n_users} users and {data.n_items} items. Give its train part."
            )
        for side, vocabulary in zip(_SIDES, (data.users, data.items), strict=True):
            named.update({f"ids/{name}": array for name, array in pack_ids(vocabulary, side).items()})
    fields = {"model": str(model), "kind": kind, "n_users": n_users, "n_items": scorer.n_items}
    write_container(Path(path), fields, named)


def load_scorer(path: str | Path) -> SavedScorer:
    """Read what ``save_scorer`` wrote.

    Raises
    ------
    InvalidData
        When the file is missing, foreign, damaged or of a later version.
    """
    path = Path(path)
    header, arrays = read_container(path)
    parts = {
        part: {name.removeprefix(part): array for name, array in arrays.items() if name.startswith(part)}
        for part in ("scorer/", "ids/")
    }
    try:
        kind = str(header.get("kind"))
        scorer = unpack(kind, parts["scorer/"])
        users, items = (unpack_ids(parts["ids/"], side) for side in _SIDES)
        n_users, n_items = count_users(kind, parts["scorer/"]), scorer.n_items
        if (header.get("n_users"), header.get("n_items")) != (n_users, n_items):
            raise InvalidData("the sizes in its header are not those of its arrays. Save the model again.")
        if any(ids is not None and len(ids) != size for ids, size in ((users, n_users), (items, n_items))):
            raise InvalidData("it has another number of ids than of users or items. Save the model again.")
    except InvalidData as error:
        raise InvalidData(f"'{path}' cannot be used: {error}") from None
    return SavedScorer(
        scorer=scorer,
        model=str(header.get("model", "")),
        n_users=n_users,
        n_items=n_items,
        users=users,
        items=items,
        version=str(header.get("truerank", "")),
        path=path,
    )


def _realign(scorer: Scorer, alignment: Alignment) -> Scorer:
    """Return the scorer in another order of users and items, by the same interface it offers."""
    if isinstance(scorer, Factors):
        return alignment.factors(scorer.user, scorer.item, scorer.item_bias)
    if isinstance(scorer, HasSparseRows) and not (alignment.item < 0).any():
        return RealignedRows(scorer, alignment)
    return Realigned(scorer, alignment)
