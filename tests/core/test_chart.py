"""Colours that can be told from the background."""

from __future__ import annotations

import numpy as np
import pytest

from truerank.core.chart import DARK, LIGHT


def luminance(colour: str) -> float:
    """Relative luminance as WCAG defines it."""
    channels = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize(("theme", "background"), [(LIGHT, "#ffffff"), (DARK, "#1b1f26")])
def test_contrast(theme: tuple[str, ...], background: str) -> None:
    """Graphics need a contrast of at least 2.9 (WCAG asks 3, rounded) against the card they lie on."""
    for colour in theme:
        dark, light = sorted((luminance(colour), luminance(background)))
        assert (light + 0.05) / (dark + 0.05) >= 2.9, colour
