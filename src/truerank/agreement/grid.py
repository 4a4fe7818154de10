"""Hyper-parameters to try for each model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from truerank.core.errors import UnknownName
from truerank.core.model import Model


@dataclass(frozen=True)
class Grid:
    """Values to try; where there are none, a model stays as it was written.

    Parameters
    ----------
    sizes : widths of vectors and layers
    dropouts : shares dropped in training
    rates : learning rates
    """

    sizes: tuple[int, ...] = ()
    dropouts: tuple[float, ...] = ()
    rates: tuple[float, ...] = ()


#: ``paper`` is the search of [sachdeva2021]_, App. B, on its three small data sets, ``paper-large`` that on
#: its three large ones; ``repo`` is the default of the published code.
GRIDS: Mapping[str, Grid] = {
    "none": Grid(),
    "reduced": Grid(sizes=(8, 32)),
    "repo": Grid(sizes=(8, 16, 32, 50)),
    "paper": Grid((4, 8, 16, 32, 50), (0.0, 0.3, 0.5), (0.001, 0.006, 0.02)),
    "paper-large": Grid((4, 8, 16, 32, 50), (0.0, 0.3, 0.5)),
}

_SIZES: Mapping[str, Callable[[int], dict[str, Any]]] = {
    "ials": lambda d: {"factors": d},
    "mf": lambda d: {"factors": d},
    "multi-vae": lambda d: {"hidden": d, "latent": d},
    "neumf": lambda d: {"factors": d, "layers": f"{2 * d}-{d}-{d}"},
    "sasrec": lambda d: {"factors": d},
    "svae": lambda d: {"embedding": d, "recurrent": d, "hidden": d, "latent": d},
}


def find_grid(name: str) -> Grid:
    """Return a grid by its name."""
    if name not in GRIDS:
        raise UnknownName("grid", name, GRIDS)
    return GRIDS[name]


def configurations(model: Model, grid: Grid) -> tuple[Model, ...]:
    """Return the model with every combination of the grid's values that it has a parameter for.

    Examples
    --------
    >>> from truerank.models import MODELS
    >>> [str(one) for one in configurations(MODELS.make("mf"), GRIDS["reduced"])]
    ['mf(factors=8)', 'mf(factors=32)']
    >>> len(configurations(MODELS.make("mf"), GRIDS["paper"]))
    45
    >>> len(configurations(MODELS.make("popularity"), GRIDS["paper"]))
    1
    """
    sized = [replace(model, **_SIZES[model.key](size)) for size in grid.sizes if model.key in _SIZES]
    found: list[Model] = sized or [model]
    for field, values in (("dropout", grid.dropouts), ("learning_rate", grid.rates)):
        if values and hasattr(model, field):
            found = [_with(one, field, value) for one in found for value in values]
    return tuple(dict.fromkeys(found))


def _with(model: Model, field: str, value: float) -> Model:
    return replace(model, **{field: value})
