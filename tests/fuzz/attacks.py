"""All attacks, in the order of the table."""

from __future__ import annotations

from tests.fuzz import commands, readers, saved, specs, tables
from tests.fuzz.harness import Attack

ATTACKS: tuple[type[Attack], ...] = (
    *readers.ATTACKS,
    *tables.ATTACKS,
    *specs.ATTACKS,
    *saved.ATTACKS,
    *commands.ATTACKS,
)
