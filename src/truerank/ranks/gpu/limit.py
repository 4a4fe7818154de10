"""How much is on the device at a time."""

from __future__ import annotations

from dataclasses import dataclass

from truerank.core.check import check_at_least

# Factors of items, factors of (user, target) rows, and seen items, unless the memory is limited.
ITEM_CELLS = 1 << 27
ROW_CELLS = 1 << 24
SEEN_ITEMS = 1 << 26
# Bytes that each of these takes at most, copies on the way included.
BYTES = 64


@dataclass(frozen=True)
class Limits:
    """What is on the device at a time.

    Parameters
    ----------
    item_cells, row_cells, seen_items : counts, see above
    list_bytes : for lists of undecided pairs; None for up to 0.5 GB
    """

    item_cells: int
    row_cells: int
    seen_items: int
    list_bytes: int | None = None

    @classmethod
    def of(cls, memory: int | None) -> Limits:
        """Return a quarter of the memory for each, or what is usual.

        Examples
        --------
        >>> Limits.of(1 << 20)
        Limits(item_cells=4096, row_cells=4096, seen_items=4096, list_bytes=262144)
        """
        if memory is None:
            return cls(ITEM_CELLS, ROW_CELLS, SEEN_ITEMS)
        check_at_least("memory", memory, 1 << 20)
        quarter = memory // 4
        return cls(quarter // BYTES, quarter // BYTES, quarter // BYTES, quarter)
