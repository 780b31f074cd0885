"""The trained autoencoders: pictures from latent codes and back, and which digit a code is.

Forward passes of small networks in NumPy and single precision.  How they were trained is in
``experiments/train_digits.py``.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree

from abctree.errors import ParameterError
from abctree.types import FloatArray, IntArray, RNGLike
from examples.digits.images import SIDE

Single: TypeAlias = NDArray[np.float32]
#: Weight (n_in, n_out) and bias (n_out,) of one layer.
Layer: TypeAlias = tuple[Single, Single]

DATA = Path(__file__).parent / "data"  #: digits_d2.npz and digits_d5.npz: networks and codes
NOISE_SD = 0.05  #: σ₀ of the paper
_N_PIXELS = SIDE * SIDE
_N_NEIGHBOURS = 10
#: d -> half the width of the prior's box, which holds all codes (the paper's settings).
HALF_WIDTH = {2: 12.0, 5: 8.0}


@dataclass(frozen=True, eq=False)
class DigitGenerator:
    """A decoder G from latent codes θ to pictures, with its encoder Q and some codes.

    Made by `digit_generator`.  Pictures are (28, 28), from 0, paper, to 1, ink.
    """

    decoder: tuple[Layer, ...]
    encoder: tuple[Layer, ...]
    codes: FloatArray  #: (10000, d) Q(x) of the first training images of MNIST
    labels: IntArray  #: (10000,) their digits
    _tree: KDTree = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_tree", KDTree(self.codes))

    @property
    def d(self) -> int:
        """Dimensions of the latent space."""
        return int(self.codes.shape[1])

    def decode(self, theta: FloatArray) -> FloatArray:
        """Pictures G(θ) without noise.

        Parameters
        ----------
        theta : (n, d) array

        Returns
        -------
        (n, 28, 28) array, in (0, 1)
        """
        pixels = _decoded(self.decoder, self._checked(theta))
        return pixels.reshape(-1, SIDE, SIDE).astype(np.float64)

    def draw(
        self, theta: FloatArray, rng: RNGLike = None, noise_sd: float = NOISE_SD
    ) -> FloatArray:
        """Pictures G(θ) + noise_sd × e with standard normal e: what the model says of θ.

        Parameters
        ----------
        theta : (n, d) array
        rng : None, int, SeedSequence, BitGenerator or Generator
        noise_sd : float
            σ₀.

        Returns
        -------
        (n, 28, 28) array
        """
        pictures = self.decode(theta)
        noise = np.random.default_rng(rng).standard_normal(pictures.shape)
        return pictures + noise_sd * noise

    def encode(self, images: FloatArray) -> FloatArray:
        """Codes Q(x) of pictures.

        Parameters
        ----------
        images : (n, 28, 28) array, in [0, 1]

        Returns
        -------
        (n, d) array
        """
        pixels = np.asarray(images, dtype=np.float32)
        if pixels.ndim != 3 or pixels.shape[1:] != (SIDE, SIDE):
            raise ParameterError(
                f"`images` must have shape (n, {SIDE}, {SIDE}), but got {pixels.shape}. "
                "Give one picture as images[None]."
            )
        return _forward(self.encoder, pixels.reshape(-1, _N_PIXELS)).astype(np.float64)

    def classify(self, theta: FloatArray) -> IntArray:
        """The digit at each code, by a vote of its ten nearest among `codes`.

        The classifier of the paper, which takes the codes of all 60 000 training images.  The
        smallest digit wins a tie.

        Parameters
        ----------
        theta : (n, d) array

        Returns
        -------
        (n,) array of int
        """
        theta = self._checked(theta)
        votes = self.labels[self._tree.query(theta, k=_N_NEIGHBOURS)[1]]
        counts = (votes[:, :, None] == np.arange(10)).sum(axis=1)
        return np.asarray(counts.argmax(axis=1), dtype=np.int64)

    def shares(self, theta: FloatArray, weight: FloatArray | None = None) -> FloatArray:
        """The distribution (10,) over the digits of weighted draws.

        Parameters
        ----------
        theta : (n, d) array
        weight : (n,) array, optional
            At least 0; equal by default.
        """
        digit = self.classify(theta)
        counts = np.bincount(digit, weight, minlength=10).astype(np.float64)
        return np.asarray(counts / counts.sum())

    def typical(self, digit: int) -> FloatArray:
        """A code (d,) of a plain `digit`: the one nearest to the mean of that digit's codes."""
        own = self.codes[self.labels == checked_digit(digit)]
        nearest = ((own - own.mean(axis=0)) ** 2).sum(axis=1).argmin()
        return np.array(own[nearest])

    def _checked(self, theta: FloatArray) -> FloatArray:
        array = np.asarray(theta, dtype=np.float64)
        if array.ndim != 2 or array.shape[1] != self.d:
            raise ParameterError(
                f"`theta` must have shape (n, {self.d}), but got {array.shape}. "
                "Give one code as theta[None]."
            )
        return array


def digit_generator(d: int = 5) -> DigitGenerator:
    """The trained generator with d latent dimensions.

    Parameters
    ----------
    d : {5, 2}
        5 draws good digits; 2 can be looked at, and draws a few shapes of each digit.

    Returns
    -------
    DigitGenerator
        Networks d-256-512-784 and 784-512-256-d, stored in half precision.

    Raises
    ------
    ParameterError
        If `d` is neither.

    Examples
    --------
    >>> from examples.digits import digit_generator
    >>> generator = digit_generator(2)
    >>> picture = generator.decode(generator.typical(7)[None])[0]
    >>> picture.shape, int(generator.classify(generator.typical(7)[None])[0])
    ((28, 28), 7)
    """
    try:
        value = operator.index(d)
    except TypeError:
        value = 0
    if value not in HALF_WIDTH:
        raise ParameterError(f"`d` must be 2 or 5, the trained generators, but got {d!r}.")
    return _load(value)


@functools.cache
def _load(d: int) -> DigitGenerator:
    with np.load(DATA / f"digits_d{d}.npz", allow_pickle=False) as arrays:
        decoder, encoder = _layers(arrays, "decoder"), _layers(arrays, "encoder")
        codes = arrays["codes"].astype(np.float64)
        labels = arrays["labels"].astype(np.int64)
    codes.flags.writeable = labels.flags.writeable = False
    return DigitGenerator(decoder, encoder, codes, labels)


def _layers(arrays: Mapping[str, Any], name: str) -> tuple[Layer, ...]:
    return tuple(
        (_single(arrays[f"{name}_weight_{i}"]), _single(arrays[f"{name}_bias_{i}"]))
        for i in range(3)
    )


def _single(array: Any) -> Single:
    single = np.ascontiguousarray(array, dtype=np.float32)
    single.flags.writeable = False
    return single


def _forward(layers: Sequence[Layer], x: Single) -> Single:
    """Linear layers with ReLU between them: (n, n_in) -> (n, n_out)."""
    for weight, bias in layers[:-1]:
        x = x @ weight
        x += bias
        np.maximum(x, 0.0, out=x)
    weight, bias = layers[-1]
    x = x @ weight
    x += bias
    return x


def _decoded(layers: Sequence[Layer], theta: FloatArray) -> Single:
    """Pixels (n, q) in (0, 1): the logistic function of the last layer, as tanh, which is fast."""
    x = _forward(layers, np.asarray(theta, dtype=np.float32))
    x *= np.float32(0.5)
    np.tanh(x, out=x)
    x += np.float32(1.0)
    x *= np.float32(0.5)
    return x


@dataclass(frozen=True, eq=False)
class VisibleDecoder:
    """The decoder cut down to the pixels that are seen: theta (n, d) -> (n, q)."""

    layers: tuple[Layer, ...]

    @classmethod
    def of(cls, generator: DigitGenerator, visible: NDArray[np.bool_]) -> VisibleDecoder:
        """That of a generator and a mask (784,)."""
        *first, (weight, bias) = generator.decoder
        last = (_single(weight[:, visible]), _single(bias[visible]))
        return cls((*first, last))

    def __call__(self, theta: FloatArray) -> Single:
        """Pixels (n, q) without noise."""
        return _decoded(self.layers, theta)


def checked_digit(digit: Any) -> int:
    """`digit` as an int from 0 to 9."""
    try:
        value = operator.index(digit)
    except TypeError:
        value = -1
    if not 0 <= value <= 9:
        raise ParameterError(f"`digit` must be an integer from 0 to 9, but got {digit!r}.")
    return value


#: What a decoder of one's own is: theta (n, d) -> pixels or distances.
Decoder: TypeAlias = Callable[[FloatArray], Any]
