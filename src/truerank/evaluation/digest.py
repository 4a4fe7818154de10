"""What identifies the data of a result."""

from __future__ import annotations

import hashlib

import numpy as np

from truerank.core.split import Split


def data_hash(split: Split) -> str:
    """Return a digest of the pairs in each part; equal for equal data in any row order."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (split.train, split.test, split.valid):
        if part is not None:
            lists = part.by_user()
            digest.update(np.ascontiguousarray(lists.indptr).tobytes())
            digest.update(np.ascontiguousarray(lists.items).tobytes())
    return digest.hexdigest()
