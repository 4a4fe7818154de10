"""Data sets and models of Li et al. (2023)."""

from __future__ import annotations

from truerank.papers.fitted import Setup

PINTEREST = "column(name=ncf_test, train=false, test=true)"
#: in the order in which the paper names a winner among equals
MODELS = ("EASE", "MultiVAE", "NeuMF", "itemKNN", "ALS")
NETWORKS = ("MultiVAE", "NeuMF")
#: per data set: how it is split and the hyper-parameters of the authors; those of the last two are ours
SETUPS = {
    "pinterest-20": Setup(
        "pinterest-20",
        PINTEREST,
        {
            "EASE": "ease(reg=1500)",
            "MultiVAE": "multi-vae(epochs=20)",
            "NeuMF": "neumf",
            "itemKNN": "l23-knn(neighbours=1250)",
            "ALS": "ials(factors=45, reg=0.01, alpha=1)",
        },
        slow=NETWORKS,
    ),
    "yelp": Setup(
        "yelp",
        "leave-one-out",
        {
            "EASE": "ease(reg=500)",
            "MultiVAE": "multi-vae",
            "NeuMF": "neumf",
            "itemKNN": "l23-knn(neighbours=350)",
            "ALS": "ials(factors=75, reg=0.01, alpha=1)",
        },
        slow=NETWORKS,
    ),
    "ml-20m": Setup(
        "ml-20m",
        "leave-last-out",
        {
            "EASE": "ease(reg=3000)",
            "MultiVAE": "multi-vae",
            "NeuMF": "neumf",
            "itemKNN": "l23-knn(neighbours=150)",
            "ALS": "ials(factors=95, reg=100, alpha=1)",
        },
        slow=NETWORKS,
    ),
    "ml-1m": Setup(
        "ml-1m",
        "column(name=ncf_split)",
        {
            "EASE": "ease(reg=500)",
            "MultiVAE": "multi-vae",
            "NeuMF": "neumf",
            "itemKNN": "l23-knn(neighbours=150)",
            "ALS": "ials(factors=64)",
        },
        slow=NETWORKS,
    ),
    "citeulike-a": Setup(
        "citeulike-a",
        "leave-one-out",
        {
            "EASE": "ease(reg=500)",
            "MultiVAE": "multi-vae",
            "NeuMF": "neumf",
            "itemKNN": "l23-knn(neighbours=350)",
            "ALS": "ials(factors=64)",
        },
        slow=NETWORKS,
    ),
}
