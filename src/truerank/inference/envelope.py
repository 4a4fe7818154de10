"""Few places that stand for all ranks, with what they may be wrong by."""

from __future__ import annotations

import numpy as np

from truerank.core.types import FloatArray

#: Parts of a stretch between two places at whose ends a curve is looked at.
PARTS = 8
_HELD = 1 << 18  # values looked at together: 2 MB
_SAFETY = 1.25  # what lies between two looks may be further off than at either
_OTHER = 0.05  # and on the other side of the chord: a cubic by less than 0.03 of what it is off on this one


def points_between(places: FloatArray) -> FloatArray:
    """Return the positions where curves are looked at, (n_places - 1, PARTS + 1); ends included."""
    found: FloatArray = places[:-1, None] + np.diff(places)[:, None] * (np.arange(PARTS + 1) / PARTS)
    return found


def envelope(
    places: FloatArray,
    at: FloatArray,
    curves: FloatArray,
    kinks: tuple[FloatArray, FloatArray] | None = None,
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
    curves : (n_curves, n_places - 1, k, n_columns)
    kinks : positions (n_curves, n) where each curve may bend or jump, and values (n_curves, n, n_columns)

    Examples
    --------
    >>> x = np.array([0.0, 1.0, 2.0])
    >>> at = points_between(x)
    >>> low, high = envelope(x, at, (at**2)[None, ..., None])
    >>> low.ravel().tolist(), high.ravel().tolist()  # a parabola is at most 1/4 below its chords
    ([-0.325, 0.675, 3.675], [0.0125, 1.0125, 4.0125])
    """
    part = ((at - places[:-1, None]) / np.diff(places)[:, None])[..., None]
    ends = np.concatenate([curves[:, :, 0], curves[:, -1:, -1]], axis=1)
    below: FloatArray = np.zeros((len(places) - 1, curves.shape[3]))
    above: FloatArray = np.zeros_like(below)
    step = max(_HELD // max(curves[0].size, 1), 1)
    for start in range(0, len(curves), step):
        some, end = curves[start : start + step], ends[start : start + step]
        off = some - (end[:, :-1, None] + part * (end[:, 1:] - end[:, :-1])[:, :, None])
        least, most = off.min(axis=2), off.max(axis=2)
        other = _OTHER * np.maximum(-least, most)
        np.minimum(below, (_SAFETY * least - other).min(axis=0), out=below)
        np.maximum(above, (_SAFETY * most + other).max(axis=0), out=above)
    below, above = -_widest(-below), _widest(above)
    if kinks is not None:
        position, values = kinks
        bins = np.clip(np.searchsorted(places, position, side="right") - 1, 0, len(places) - 2)
        share = ((position - places[bins]) / (places[bins + 1] - places[bins]))[..., None]
        curve = np.arange(len(curves))[:, None]
        off = values - (ends[curve, bins] + share * (ends[curve, bins + 1] - ends[curve, bins]))
        np.minimum.at(below, bins, off)
        np.maximum.at(above, bins, off)
    none = np.zeros((1, below.shape[1]))
    low = ends.min(axis=0) + np.minimum(np.vstack([none, below]), np.vstack([below, none]))
    high = ends.max(axis=0) + np.maximum(np.vstack([none, above]), np.vstack([above, none]))
    return low, high


def _widest(off: FloatArray) -> FloatArray:
    """Return the largest of each stretch and its two neighbours.

    Curves between those looked at may bend in a stretch where these do not.
    """
    padded = np.pad(off, ((1, 1), (0, 0)))
    return np.maximum(np.maximum(padded[:-2], padded[2:]), off)
