"""Adapters: models of other libraries as scorers, one function per library."""

from truerank.models.adapters.arrays import from_arrays
from truerank.models.adapters.cornac import from_cornac
from truerank.models.adapters.function import from_callable
from truerank.models.adapters.implicit import from_implicit
from truerank.models.adapters.irspack import from_irspack
from truerank.models.adapters.lenskit import from_lenskit
from truerank.models.adapters.recbole import from_recbole
from truerank.models.adapters.torch import from_torch

__all__ = [
    "from_arrays",
    "from_callable",
    "from_cornac",
    "from_implicit",
    "from_irspack",
    "from_lenskit",
    "from_recbole",
    "from_torch",
]
