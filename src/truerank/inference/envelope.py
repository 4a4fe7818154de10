"""Few places that stand for all ranks, with what they may be wrong by."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from truerank.core.types import FloatArray

#: Parts of a stretch between two places at whose ends a curve is looked at.
PARTS = 8
_SAFETY = 1.25  # what lies between two looks may be further off than at either
_OTHER = 0.05  # and on the other side of the chord: a cubic by less than 0.03 of what it is off on this one


def points_between(places: FloatArray) -> FloatArray:
    """Return the positions where curves are looked at, (n_places - 1, PARTS + 1); ends included."""
    found: FloatArray = places[:-1, None] + np.diff(places)[:, None] * (np.arange(PARTS + 1) / PARTS)
    return found


def envelope(
    places: FloatArray,
    at: FloatArray,
    curves: Sequence[FloatArray],
    kinks: Sequence[tuple[FloatArray, FloatArray]] = (),
) -> tuple[FloatArray, FloatArray]:
    r"""Return values at places below and above all curves, when joined by straight lines.

    A row between two places counts as a mixture of both, in proportion to its distance from them. So a mean
    over rows lies between the means, over places, of the two values returned; the error is of second order
    in the distance. Each curve is looked at in ``PARTS`` parts of each stretch and its largest distance from
    its chord is taken 1.25 times, and a twentieth of it on the other side: enough for curves that bend at
    most twice in a stretch and have no kink between two looks.

    Parameters
    ----------
    places : (n_places,) ascending
    at : (n_places - 1, k) positions in each stretch, of which the first and the last are places
    curves : each (n_places - 1, k, n_columns)
    kinks : for each curve, positions (n,) where it may bend or jump, and values (n, n_columns)

    Examples
    --------
    >>> x = np.array([0.0, 1.0, 2.0])
    >>> at = points_between(x)
    >>> low, high = envelope(x, at, [(at**2)[..., None]])
    >>> low.ravel().tolist(), high.ravel().tolist()  # a parabola is at most 1/4 below its chords
    ([-0.325, 0.675, 3.675], [0.0125, 1.0125, 4.0125])
    """
    part = ((at - places[:-1, None]) / np.diff(places)[:, None])[..., None]
    ends = [np.concatenate([values[:, 0], values[-1:, -1]]) for values in curves]
    below: FloatArray = np.zeros((len(places) - 1, ends[0].shape[1]))
    above: FloatArray = np.zeros_like(below)
    for values, end in zip(curves, ends, strict=True):
        off = values - (end[:-1, None] + part * (end[1:] - end[:-1])[:, None])
        other = _OTHER * np.abs(off).max(axis=1)
        np.minimum(below, _SAFETY * off.min(axis=1) - other, out=below)
        np.maximum(above, _SAFETY * off.max(axis=1) + other, out=above)
    below, above = -_widest(-below), _widest(above)
    for (position, values), end in zip(kinks, ends, strict=False):
        bins = np.clip(np.searchsorted(places, position, side="right") - 1, 0, len(places) - 2)
        share = ((position - places[bins]) / (places[bins + 1] - places[bins]))[:, None]
        off = values - (end[bins] + share * (end[bins + 1] - end[bins]))
        np.minimum.at(below, bins, off)
        np.maximum.at(above, bins, off)
    none = np.zeros((1, below.shape[1]))
    low = np.min(ends, axis=0) + np.minimum(np.vstack([none, below]), np.vstack([below, none]))
    high = np.max(ends, axis=0) + np.maximum(np.vstack([none, above]), np.vstack([above, none]))
    return low, high


def _widest(off: FloatArray) -> FloatArray:
    """Return the largest of each stretch and its two neighbours.

    Curves between those looked at may bend in a stretch where these do not.
    """
    padded = np.pad(off, ((1, 1), (0, 0)))
    return np.maximum(np.maximum(padded[:-2], padded[2:]), off)
