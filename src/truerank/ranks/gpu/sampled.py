"""Comparing targets with listed negatives on a device."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from truerank.core.errors import DataWarning, InvalidData
from truerank.core.scorer import Factors, HasFactors, Scorer
from truerank.core.types import IntArray
from truerank.ranks.gpu.device import Engine, engine_for, has_gpu, open_device
from truerank.ranks.gpu.matrix import as_array, as_matrix, largest_of, to_device
from truerank.ranks.kernels.side import check_magnitudes

if TYPE_CHECKING:
    from torch import Tensor

    from truerank.ranks.draw.judge import Judged
    from truerank.ranks.sampler import Block, Rows


def factors_on(device: str, scorer: Scorer, rows: Rows) -> DeviceFactors | None:
    """Return what compares on a GPU; None where the CPU does, with a warning if that was not asked for."""
    if device == "cpu" or not isinstance(scorer, HasFactors):
        return None
    if device.startswith("cuda") and not has_gpu():
        warnings.warn(f"torch sees no GPU, so {device!r} is the CPU here.", DataWarning, stacklevel=3)
        return None
    return DeviceFactors(scorer.factors(), rows, device=device)


class DeviceFactors:
    """Scores of listed pairs by the float64 sum that ranks are defined by; a ``Judge`` and ``ListScores``.

    Items stay on the device and must fit there; users go there block by block. Negatives depend on the seed
    alone, wherever they are drawn.

    Parameters
    ----------
    factors : the vectors
    rows : what is compared
    device, engine : as in ``count_on_device``
    """

    is_thread_safe = False
    most_negatives = 1 << 24

    def __init__(
        self, factors: Factors, rows: Rows, *, device: str = "cuda", engine: Engine = "auto"
    ) -> None:
        users = rows.queries.users
        if len(users) and users[-1] >= len(factors.user):
            raise InvalidData(
                f"there must be a vector for each user, but user {users[-1]} has none "
                f"({len(factors.user)} vectors). Fit the model on this split."
            )
        self.device = open_device(device)
        self.engine = engine_for(self.device, engine)
        self.rows, self.users = rows, as_matrix("user", factors.user)
        whole = as_matrix("item", factors.item)
        self.items = to_device(whole, self.device)
        self.item_largest = largest_of("item", self.items, whole)
        self.bias = None
        if factors.item_bias is not None:
            self.bias = to_device(
                as_matrix("item bias", factors.item_bias[:, None])[:, 0], self.device
            ).double()
            column = factors.item_bias[:, None]
            self.item_largest = max(self.item_largest, largest_of("item bias", self.bias, column))

    @property
    def draws(self) -> bool:
        """Whether uniform negatives can be drawn on the device too, see ``grow_on_device``."""
        return bool(self.engine.DRAWS)

    def send_users(self, users: IntArray) -> Tensor:
        """Return the vectors of some users, ascending, on the device; raise when scores could overflow."""
        is_run = len(users) and users[-1] - users[0] + 1 == len(users)
        chosen = self.users[users[0] : users[-1] + 1] if is_run else self.users[users]
        sent = to_device(chosen, self.device)
        exponents = (
            float(np.frexp(value)[1]) for value in (largest_of("user", sent, chosen), self.item_largest)
        )
        check_magnitudes(*(-int(exponent) for exponent in exponents))
        return sent

    def scores(self, row: IntArray, codes: IntArray, indptr: IntArray) -> tuple[Any, int]:
        """Return the score of every code and how many these are; list i is of the given row i, ascending."""
        owner = self.rows.owner[row]
        is_new = np.diff(owner, prepend=-1) > 0
        users = self.send_users(self.rows.queries.users[owner[is_new]])
        user = np.repeat(np.cumsum(is_new) - 1, np.diff(indptr))
        pair = (to_device(user, self.device), to_device(np.asarray(codes, np.int64), self.device))
        return as_array(self.engine.score_pairs(users, self.items, self.bias, *pair)), len(codes)

    def judge(self, block: Block, items: IntArray) -> Judged:
        """Return the counts of the targets of some rows."""
        import torch

        from truerank.ranks.draw.judge import Judged

        rows, device = self.rows, self.device
        owner = np.asarray(rows.owner[block.start : block.stop], np.int64)
        users = self.send_users(rows.queries.users[owner[0] : owner[-1] + 1])
        pairs = np.asarray(rows.pairs[block.start : block.stop + 1], np.int64)
        sizes, n_targets = np.diff(block.indptr), np.diff(pairs)
        local = to_device(owner - owner[0], device)
        begin = to_device(pairs - pairs[0], device)
        targets = np.asarray(rows.queries.targets.items[pairs[0] : pairs[-1]], np.int64)
        factors = (users, self.items, self.bias)
        of_target = torch.repeat_interleave(local, to_device(n_targets, device))
        scores = self.engine.score_pairs(*factors, of_target, to_device(targets, device))
        above, tied = torch.zeros((2, len(targets)), dtype=torch.int64, device=device)
        row = torch.repeat_interleave(torch.arange(len(owner), device=device), to_device(sizes, device))
        stop = None if len(targets) == len(owner) else begin[row + 1]
        codes = to_device(np.ascontiguousarray(items), device).long()
        self.engine.decide(*factors, local[row], codes, begin[row], stop, scores, above, tied, 1)
        return Judged(
            as_array(above),
            as_array(tied),
            np.repeat(sizes, n_targets),
            as_array(scores),
            len(items) + len(targets),
        )
