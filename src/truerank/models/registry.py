"""All models by name, and presets with the settings of the papers."""

from __future__ import annotations

from truerank.core.model import Model
from truerank.core.plugin import Registry

MODELS: Registry[Model] = Registry(
    "model",
    {
        "arrays": "truerank.models.arrays:Arrays",
        "bias-only": "truerank.models.bias_only:BiasOnly",
        "ease": "truerank.models.ease:Ease",
        "http": "truerank.models.slow.http:Http",
        "ials": "truerank.models.ials:IALS",
        "item-knn": "truerank.models.item_knn:ItemKNN",
        "mf": "truerank.models.mf:MF",
        "multi-vae": "truerank.models.multi_vae:MultiVAE",
        "neumf": "truerank.models.neumf:NeuMF",
        "ngcf": "truerank.models.ngcf:NGCF",
        "popularity": "truerank.models.popularity:Popularity",
        "sasrec": "truerank.models.sasrec:SASRec",
        "saved": "truerank.models.saved:Saved",
        "svae": "truerank.models.svae:SVAE",
    },
    presets={
        "kr20-x": "ials(factors=16, reg=10, alpha=0.2, sweeps=16, init_scale=0.1, reg_exponent=0)",
        "kr20-y": "item-knn(power=3, neighbours=none, norm=l2, include_self=true, shrink=0)",
        "kr20-z": "item-knn(power=1, neighbours=10, keep=column, norm=l2, include_self=false, shrink=0)",
        "l20-ngcf": "ngcf(batch=1024, learning_rate=0.0001, epochs=400, patience=50)",
        "l23-knn": "item-knn(power=1, neighbours=150, keep=column, norm=none, include_self=false, shrink=0)",
        "l23-neumf": "neumf(factors=64, layers=512-256-64, loss=bce, negatives=2, pretrain=true, epochs=20, "
        "batch=1024, learning_rate=0.001, dropout=0)",
        "s21-bias-only": "bias-only(learning_rate=0.006, weight_decay=1e-6, beta2=0.98, batch=1024, "
        "epochs=50, patience=5, every=5)",
        "s21-mf": "mf(factors=10, dropout=0.3, learning_rate=0.006, weight_decay=1e-6, beta2=0.98, "
        "batch=1024, epochs=50, patience=5, every=5)",
        "s21-multi-vae": "multi-vae(hidden=50, latent=50, dropout=0, normalise=false, anneal_start=0.2, "
        "anneal_cap=1.2, anneal_epochs=100, learning_rate=0.006, weight_decay=1e-6, beta2=0.98, batch=1024, "
        "epochs=100, patience=5, every=5)",
        "s21-neumf": "neumf(factors=50, layers=100-50-50, loss=bpr, variant=s21, dropout=0.3, pretrain=true, "
        "learning_rate=0.006, weight_decay=1e-6, beta2=0.98, batch=1024, epochs=100, patience=5, every=5)",
        "s21-sasrec": "sasrec(max_length=100, factors=50, dropout=0.3, learning_rate=0.006, "
        "weight_decay=1e-6, batch=1024, epochs=100, patience=5, every=5)",
        "s21-svae": "svae(max_length=100, embedding=50, recurrent=50, hidden=50, latent=50, next_items=2, "
        "anneal_start=0.2, anneal_cap=1.2, anneal_epochs=100, learning_rate=0.006, weight_decay=1e-6, "
        "batch=1024, epochs=100, patience=5, every=5)",
    },
    base=Model,
)
