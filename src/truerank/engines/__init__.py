"""Where tasks run: threads of this process, a Dask cluster, Spark."""

from truerank.engines.registry import ENGINES
from truerank.engines.start import started

__all__ = ["ENGINES", "started"]
