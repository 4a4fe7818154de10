"""Ids to codes, in every way there is."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from truerank.data import encode as coding
from truerank.data.encode import encode


@settings(deadline=None)
@given(st.lists(st.integers(0, 50) | st.integers(0, 2**62), min_size=1))
def test_integers_agree_with_numpy(ids: list[int]) -> None:
    codes, vocabulary = encode(pl.Series(ids))
    distinct, inverse = np.unique(np.array(ids), return_inverse=True)
    assert codes.tolist() == inverse.tolist()
    assert vocabulary.ids.to_list() == distinct.tolist()


@given(st.lists(st.text(max_size=3), min_size=1))
def test_texts_agree_with_sorting(ids: list[str]) -> None:
    codes, vocabulary = encode(pl.Series(ids))
    distinct = sorted(set(ids), key=lambda text: text.encode())
    assert vocabulary.ids.to_list() == distinct
    assert codes.tolist() == [distinct.index(text) for text in ids]


@pytest.mark.parametrize("dtype", [pl.Int8, pl.UInt16, pl.Int32, pl.UInt64])
def test_every_integer_type(dtype: type[pl.DataType]) -> None:
    codes, _ = encode(pl.Series([100, 3, 100], dtype=dtype))
    assert codes.tolist() == [1, 0, 1]


def test_blocks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = pl.Series(np.arange(1000) * 37 % 101)
    whole = encode(ids)[0]
    monkeypatch.setattr(coding, "CHUNK", 7)
    assert encode(ids)[0].tolist() == whole.tolist()
