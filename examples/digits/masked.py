"""The masked digit of Section 4: which latent codes could have made the rows that are seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from abctree import Problem
from abctree.errors import ParameterError, SimulatorError
from abctree.types import BoolArray, FloatArray
from examples.digits.generator import (
    HALF_WIDTH,
    NOISE_SD,
    Decoder,
    VisibleDecoder,
    checked_digit,
    digit_generator,
)
from examples.digits.images import SIDE

_N_PIXELS = SIDE * SIDE
#: The nine rows of 28 that are seen.
LAST_NINE = slice(19, 28)
#: Fewest pixels that may be seen: the shortcut needs one beside the direction of the residual.
_FEWEST = 2


def digits(
    observation: int | FloatArray = 0,
    *,
    d: int = 5,
    visible: int | slice | BoolArray = LAST_NINE,
    noise_sd: float = NOISE_SD,
    noise: Literal["exact", "explicit"] = "exact",
    decoder: Decoder | None = None,
    half_width: float | None = None,
    batch_size: int = 1000,
) -> Problem:
    """A handwritten digit of which some rows are seen; wanted is its latent code θ.

    The picture is X = G(θ) + σ₀ e with a trained decoder G and standard normal e, θ is uniform on
    [−8, 8]^5 or, with d = 2, on [−12, 12]², and the distance is Euclidean on the pixels that are
    seen.  The settings are those of the paper's Section 4.

    **The noise.**  With "explicit" a simulation is a picture with its noise.  The default,
    "exact", draws the distance itself from its law.  With m = ‖G(θ) − x‖ on the q visible pixels,

        ‖G(θ) + σ₀ e − x‖² = (m + σ₀ z)² + σ₀² χ²_{q−1}    in distribution,

    z standard normal: the noise along the residual, and the rest of it.  Two random numbers do the
    work of q.  No distance lies far below σ₀ √q, .79 for nine rows: at that tolerance the picture
    fits as well as the truth would.

    Parameters
    ----------
    observation : int or (28, 28) array
        What was observed, from 0, paper, to 1, ink; hidden pixels are ignored.  A digit from 0 to
        9 stands for G(θ), without noise, at a typical code of that digit.  It can be met exactly;
        real pictures, which no θ draws, are no closer than 1.5 to 3, and a noisy one than .07 √q.
    d : {5, 2}
        Dimensions of the latent space; any number with a decoder of your own.
    visible : int, slice or (28, 28) array of bool
        Which rows are seen, or which pixels; a number counts rows from the top.  Default: the
        last nine, in which 4, 7 and 9 look alike, and so do 0, 3, 5 and 8.
    noise_sd : float
        σ₀, at least 0.
    noise : {"exact", "explicit"}
        What a simulation returns: its distance (1,), or its visible pixels (q,).
    decoder : callable, optional
        G of your own, in any framework and on any device: theta (n, d), float64 of NumPy, to the
        pixels (n, 28, 28), (n, 784) or (n, q), the visible ones only, in the order of rows; or,
        with "exact", to the distances m (n,), which leaves the pixels where they are.  Tensors of
        torch are detached and brought to the CPU; whatever else NumPy can read will do.
    half_width : float, optional
        The prior is uniform on [−half_width, half_width]^d.  Default 8 for d = 5, 12 for d = 2.
    batch_size : int
        Codes in one call of the decoder.

    Returns
    -------
    Problem
        With parameters theta1, ..., theta_d.  Some 6 µs a simulation in blocks of 1 000.

    Raises
    ------
    ParameterError
        If an argument breaks its rule.

    See Also
    --------
    digit_generator : pictures of codes, codes of pictures, and which digit a code is.
    load_mnist : real digits, from files that you have.

    Examples
    --------
    >>> import abctree
    >>> from examples.digits import digit_generator, digits
    >>> result = abctree.abc_tree(digits(0, d=2), n_simulations=5000, rng=1)
    >>> posterior = result.posterior()
    >>> digit_generator(2).shares(posterior.theta, posterior.weights).shape
    (10,)
    """
    mask = _mask(visible)
    seen = _observed(observation, d, own=decoder is not None)[mask]
    _check_noise(noise, noise_sd)
    n_dims = _checked_d(d, half_width, own=decoder is not None)
    half = HALF_WIDTH[n_dims] if half_width is None else float(half_width)
    if not 0.0 < half < np.inf:
        raise ParameterError(f"`half_width` must be above 0, but got {half_width!r}.")
    own = None if decoder is None else _OwnDecoder(decoder, mask)
    pixels: Any = own or VisibleDecoder.of(digit_generator(n_dims), mask.ravel())
    simulator: Any
    if noise == "exact":
        simulator, observed = NoisyDistance(pixels, seen, float(noise_sd)), np.zeros(1)
    else:
        simulator, observed = NoisyPixels(pixels, len(seen), float(noise_sd)), seen
    return Problem(
        prior={f"theta{j + 1}": (-half, half) for j in range(n_dims)},
        simulator=simulator,
        observed=observed,
        vectorized=True,
        batch_size=batch_size,
    )


@dataclass(frozen=True, eq=False)
class NoisyDistance:
    """‖G(θ) + σ₀ e − x‖ on the visible pixels, from two random numbers: a simulator."""

    pixels: Decoder  #: theta (n, d) -> visible pixels (n, q), or distances (n,) to `seen`
    seen: FloatArray  #: (q,) x
    noise_sd: float  #: σ₀

    def __call__(self, theta: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Distances (n, 1)."""
        value = np.asarray(self.pixels(theta))
        n, rest = len(theta), len(self.seen) - 1
        along = rng.standard_normal(n)
        across = rng.chisquare(rest, n)
        distance = value if value.ndim == 1 else _norm(value, self.seen)
        near = distance.astype(np.float64) + self.noise_sd * along
        return np.asarray(np.sqrt(near**2 + self.noise_sd**2 * across))[:, None]


@dataclass(frozen=True, eq=False)
class NoisyPixels:
    """The visible pixels of G(θ) + σ₀ e: a simulator."""

    pixels: Decoder
    n_pixels: int  #: q
    noise_sd: float

    def __call__(self, theta: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Pixels (n, q)."""
        value = np.asarray(self.pixels(theta), dtype=np.float64)
        if value.ndim == 1:
            raise SimulatorError(
                'The decoder returned distances; noise="explicit" needs pixels. Use "exact".'
            )
        noise: FloatArray = rng.standard_normal((len(theta), self.n_pixels))
        return np.asarray(value + self.noise_sd * noise)


@dataclass(frozen=True, eq=False)
class _OwnDecoder:
    """A user's decoder, its answer as NumPy arrays of visible pixels (n, q) or distances (n,)."""

    decoder: Decoder
    mask: BoolArray  #: (28, 28)

    def __call__(self, theta: FloatArray) -> NDArray[Any]:
        value = _to_numpy(self.decoder(theta))
        n, q = len(theta), int(self.mask.sum())
        if value.shape in {(n,), (n, q)}:
            return value
        if value.shape in {(n, SIDE, SIDE), (n, _N_PIXELS)}:
            return value.reshape(n, _N_PIXELS)[:, self.mask.ravel()]
        raise SimulatorError(
            f"The decoder returned shape {value.shape} for {n} codes; it must be ({n},), "
            f"({n}, {q}), ({n}, {_N_PIXELS}) or ({n}, {SIDE}, {SIDE})."
        )


def _to_numpy(value: Any) -> NDArray[Any]:
    if hasattr(value, "detach"):  # a tensor of torch, perhaps on a device and with a gradient
        value = value.detach().cpu()
    return np.asarray(value)


def _norm(pixels: NDArray[Any], seen: FloatArray) -> FloatArray:
    difference = pixels - seen.astype(pixels.dtype)
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", difference, difference)))


def _mask(visible: int | slice | BoolArray) -> BoolArray:
    """Which pixels are seen, (28, 28)."""
    mask = np.zeros((SIDE, SIDE), dtype=bool)
    if isinstance(visible, slice):
        mask[visible] = True
    elif isinstance(visible, int | np.integer) and not isinstance(visible, bool):
        mask[: max(0, int(visible))] = 1 <= visible <= SIDE
    else:
        given = np.asarray(visible)
        mask = given.copy() if given.shape == mask.shape and given.dtype == bool else mask
    if mask.sum() < _FEWEST:
        raise ParameterError(
            f"`visible` must be 1 to {SIDE} rows, a slice of rows, or a boolean array of shape "
            f"({SIDE}, {SIDE}) with at least {_FEWEST} pixels, but got {visible!r}."
        )
    return mask


def _observed(observation: Any, d: int, *, own: bool) -> FloatArray:
    """The picture (28, 28) that was observed."""
    picture = np.asarray(observation)
    if picture.ndim == 0:
        if own:
            raise ParameterError(
                "`observation` must be a picture (28, 28) with a decoder of your own, but got "
                f"{observation!r}. Decode a code of yours and add noise."
            )
        generator = digit_generator(d)
        theta = generator.typical(checked_digit(observation))
        return np.asarray(generator.decode(theta[None])[0])
    if picture.shape != (SIDE, SIDE):
        raise ParameterError(
            f"`observation` must be a digit or have shape ({SIDE}, {SIDE}), but got "
            f"{picture.shape}. Reshape it to rows and columns."
        )
    if picture.dtype.kind == "u" or picture.max() > 2.0:
        raise ParameterError(
            "`observation` must be from 0, paper, to 1, ink, but goes up to "
            f"{picture.max()}. Divide grey values by 255."
        )
    return picture.astype(np.float64)


def _check_noise(noise: str, noise_sd: float) -> None:
    if noise not in {"exact", "explicit"}:
        raise ParameterError(f'`noise` must be "exact" or "explicit", but got {noise!r}.')
    if not 0.0 <= noise_sd < np.inf:
        raise ParameterError(f"`noise_sd` must be at least 0, but got {noise_sd!r}.")


def _checked_d(d: int, half_width: float | None, *, own: bool) -> int:
    if not own:
        return digit_generator(d).d
    if not isinstance(d, int | np.integer) or d < 1:
        raise ParameterError(f"`d` must be an integer of at least 1, but got {d!r}.")
    if half_width is None and int(d) not in HALF_WIDTH:
        raise ParameterError(
            f"`half_width` must be given for d = {d}, but got None. Say how far codes reach."
        )
    return int(d)
