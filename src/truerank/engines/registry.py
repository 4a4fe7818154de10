"""The engines by name."""

from __future__ import annotations

from truerank.core.engine import Engine
from truerank.core.registry import Registry

ENGINES: Registry[Engine] = Registry(
    "engine",
    {
        "dask": "truerank.engines.dask:Dask",
        "gpu": "truerank.engines.gpu:Gpu",
        "local": "truerank.engines.local:Local",
        "spark": "truerank.engines.spark:Spark",
    },
)
