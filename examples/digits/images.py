"""Pictures of digits with their labels, and a few that scikit-learn brings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abctree.types import FloatArray, IntArray

SIDE = 28  #: rows and columns of a picture
_INK = 20  #: MNIST fits a digit into so many rows and columns, and centres its ink in the 28
#: Enlarged strokes are wide and pale; this makes them about as narrow and dark as MNIST's.
_CONTRAST, _FLOOR = 1.5, 0.35


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Grey pictures and what they show."""

    images: FloatArray  #: (n, 28, 28) from 0, paper, to 1, ink
    labels: IntArray  #: (n,) 0 to 9

    def __len__(self) -> int:
        return len(self.images)


def small_digits() -> LabelledImages:
    """The 1 797 digits of 8 × 8 pixels that scikit-learn brings, drawn as MNIST draws its own.

    Real handwriting for demonstrations without a download.  Each is enlarged to 20 × 20 pixels by
    linear interpolation, gets more contrast, and is moved so that its ink is centred in 28 × 28.
    They are coarser than MNIST's and written by others: the encoder trained on MNIST names two
    thirds of them rightly, and its generator draws none of them exactly.

    Returns
    -------
    LabelledImages
        (1797, 28, 28) pictures.

    References
    ----------
    E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning
    Repository, 1998 (CC BY 4.0).
    """
    from sklearn.datasets import load_digits

    data = load_digits()
    small = np.asarray(data.images, dtype=np.float64) / 16.0
    return LabelledImages(_as_mnist(small), np.asarray(data.target, dtype=np.int64))


def _as_mnist(small: FloatArray) -> FloatArray:
    """(n, 8, 8) -> (n, 28, 28)."""
    stretch = _linear(small.shape[1], _INK)
    large = np.clip(_CONTRAST * (stretch @ small @ stretch.T) - _FLOOR, 0.0, 1.0)
    pictures = np.zeros((len(small), SIDE, SIDE))
    for picture, ink in zip(pictures, large, strict=True):
        shift = [_shift(ink.sum(axis=1 - axis)) for axis in (0, 1)]
        picture[shift[0] : shift[0] + _INK, shift[1] : shift[1] + _INK] = ink
    return pictures


def _linear(n: int, m: int) -> FloatArray:
    """The matrix (m, n) that interpolates n pixels at the centres of m smaller ones."""
    at = np.clip((np.arange(m) + 0.5) * n / m - 0.5, 0.0, n - 1.0)
    return np.asarray(np.maximum(0.0, 1.0 - np.abs(at[:, None] - np.arange(n))))


def _shift(ink: FloatArray) -> int:
    """Where a profile (20,) has to begin for its centre of mass to lie in the middle of 28."""
    centre = float(ink @ np.arange(_INK)) / float(ink.sum())
    return int(np.clip(round((SIDE - 1) / 2.0 - centre), 0, SIDE - _INK))
