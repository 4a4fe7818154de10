"""Where tasks run: threads of this process, a Dask cluster, Spark."""

from truerank.engines.registry import ENGINES

__all__ = ["ENGINES"]
