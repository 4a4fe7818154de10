"""The table of models."""

from __future__ import annotations

from truerank.core.model import Model
from truerank.core.registry import Registry

MODELS: Registry[Model] = Registry(
    "model",
    {
        "arrays": "truerank.models.arrays:Arrays",
        "ease": "truerank.models.ease:Ease",
        "ials": "truerank.models.ials:IALS",
        "item-knn": "truerank.models.item_knn:ItemKNN",
        "popularity": "truerank.models.popularity:Popularity",
    },
    presets={
        "kr20-x": "ials(factors=16, reg=10, alpha=0.2, sweeps=16, init_scale=0.1, reg_exponent=0)",
        "kr20-y": "item-knn(power=3, neighbours=none, norm=l2, include_self=true, shrink=0)",
        "kr20-z": "item-knn(power=1, neighbours=10, keep=column, norm=l2, include_self=false, shrink=0)",
        "l23-knn": "item-knn(power=1, neighbours=150, keep=column, norm=none, include_self=false, shrink=0)",
    },
)
