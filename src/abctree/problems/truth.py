"""What is known exactly about the ready-made problems: draws, densities, rates and evidences.

The ε-posterior is the law of θ given d(x, x_obs) < ε, and its normaliser under the prior is the
evidence P(d < ε).  Draws rest on one identity: the ε-posterior is the θ-margin of the law of
(θ, x) with x restricted to the ε-ball B around x_obs, π(θ) p(x | θ) 1[x ∈ B].
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.polynomial.legendre import leggauss
from scipy import stats
from scipy.special import ndtr, ndtri
from scipy.stats import qmc

from abctree.errors import wrong
from abctree.numbers import check_rule, checked_rng
from abctree.types import BoolArray, FloatArray, RNGLike

#: Nodes of the Gauss-Legendre rules.
_NODES = 64

_WIDE, _NARROW = 0.3, 0.7  # weights of the mixture's components


@dataclass(frozen=True)
class GaussTruth:
    """Truth of `gauss`: θ ~ U(−10, 10)^d, y ~ N(θ, I), y_obs = 0.

    Parameters
    ----------
    d : int
        Dimensions.
    """

    d: int = 2

    def sd(self, epsilon: float) -> float:
        """Standard deviation of each coordinate of the ε-posterior, √(1 + ε²/(d + 2)).

        That of a uniform point of the ball plus a standard normal: the prior's ends, ten standard
        deviations away, are not felt while ε is below about 4.
        """
        return math.sqrt(1.0 + checked_radius(epsilon) ** 2 / (self.d + 2))

    def evidence(self, epsilon: float) -> float:
        """P(|y| < ε): the volume of the ball × the share of its θ inside the box / 20^d."""
        inside = inside_box(self.d, epsilon, center=0.0, offset=0.0, sd=1.0, low=-10.0, high=10.0)
        return ball_volume(self.d, epsilon) * inside / 20.0**self.d

    def draws(self, n: int, epsilon: float, rng: RNGLike = None) -> FloatArray:
        """Exact independent draws of the ε-posterior (n, d); ε = 0 is the true posterior."""
        generator = checked_rng(rng)

        def batch(size: int) -> FloatArray:
            noise = generator.standard_normal((size, self.d))
            theta = draws_in_ball(size, self.d, epsilon, generator) - noise
            return np.asarray(theta[inside_cube(theta, 10.0)])

        return collected(n, self.d, batch)


@dataclass(frozen=True)
class GaussianMixtureTruth:
    """Truth of `gaussian_mixture`: .3 N(θ, I) + .7 N(θ + 3, I/4), x_obs = 2, θ ~ U(−5, 5)^d.

    Parameters
    ----------
    d : int
        Dimensions.
    """

    d: int = 2

    def likelihood(self, theta: FloatArray, epsilon: float) -> FloatArray:
        """P(|x − x_obs| < ε | θ), exactly: (n, d) -> (n,).

        With F the noncentral χ² distribution function,
        .3 F(ε²; d, |x_obs − θ|²) + .7 F(4 ε²; d, 4 |x_obs − θ − 3|²).
        """
        radius = checked_radius(epsilon)
        wide = ((2.0 - theta) ** 2).sum(axis=1)
        narrow = 4.0 * ((-1.0 - theta) ** 2).sum(axis=1)
        return np.asarray(
            _WIDE * stats.ncx2.cdf(radius**2, self.d, wide)
            + _NARROW * stats.ncx2.cdf(4.0 * radius**2, self.d, narrow)
        )

    def density(self, theta: FloatArray) -> FloatArray:
        """Density of the true posterior (ε = 0), normalised on the prior's box: (n, d) -> (n,)."""
        wide = np.exp(-0.5 * ((theta - 2.0) ** 2).sum(axis=1))
        narrow = 2.0**self.d * np.exp(-2.0 * ((theta + 1.0) ** 2).sum(axis=1))
        joint = (_WIDE * wide + _NARROW * narrow) / (2.0 * math.pi) ** (self.d / 2)
        return np.where(inside_cube(theta, 5.0), joint / self._share(0.0), 0.0)

    def evidence(self, epsilon: float) -> float:
        """P(|x − x_obs| < ε): the volume of the ball × the share of its θ inside the box / 10^d."""
        return ball_volume(self.d, epsilon) * self._share(epsilon) / 10.0**self.d

    def draws(self, n: int, epsilon: float, rng: RNGLike = None) -> FloatArray:
        """Exact independent draws of the ε-posterior (n, d); ε = 0 is the true posterior."""
        generator = checked_rng(rng)

        def batch(size: int) -> FloatArray:
            wide = generator.random((size, 1)) < _WIDE
            offset, sd = np.where(wide, 0.0, 3.0), np.where(wide, 1.0, 0.5)
            x = 2.0 + draws_in_ball(size, self.d, epsilon, generator)
            theta = x - offset - sd * generator.standard_normal((size, self.d))
            return np.asarray(theta[inside_cube(theta, 5.0)])

        return collected(n, self.d, batch)

    def in_narrow_mode(self, theta: FloatArray) -> BoolArray:
        """Whether every coordinate is below 1/2, halfway between the modes at −1 and 2."""
        return np.asarray((theta < 0.5).all(axis=1))

    def mode_mass(self, epsilon: float = 0.0) -> float:
        """Mass of the region `in_narrow_mode` in the ε-posterior."""
        return self._share(epsilon, high=0.5) / self._share(epsilon)

    def tv20(self, theta: FloatArray, weight: FloatArray | None = None) -> float:
        """Total variation to the true posterior (ε = 0) on a 20 × 20 histogram of the square.

        Parameters
        ----------
        theta : (n, 2) array
            Draws in the prior's square.
        weight : (n,) array, optional
            Their weights, of any sum; equal by default.

        Returns
        -------
        float
            Half the sum of |estimated − true| cell masses.  Exact draws have a floor of about
            .32, .116, .088, .059 at n = 100, 1 000, 2 000, 4 000.

        Raises
        ------
        ParameterError
            If d is not 2.
        """
        if self.d != 2:
            raise wrong("d", "be 2 for tv20", self.d)
        edges = np.linspace(-5.0, 5.0, 21)
        mass = np.histogram2d(theta[:, 0], theta[:, 1], bins=[edges, edges], weights=weight)[0]
        return float(0.5 * np.abs(mass / mass.sum() - self.cell_masses()).sum())

    def cell_masses(self) -> FloatArray:
        """True posterior masses of the 20 × 20 cells, closed form (20, 20)."""
        edges = np.linspace(-5.0, 5.0, 21)
        wide, narrow = np.diff(ndtr(edges - 2.0)), np.diff(ndtr(2.0 * (edges + 1.0)))
        mass = _WIDE * np.outer(wide, wide) + _NARROW * np.outer(narrow, narrow)
        return np.asarray(mass / mass.sum())

    def _share(self, epsilon: float, high: float = 5.0) -> float:
        """Mass in (−5, high)^d of the ε-posterior under an unbounded flat prior."""
        box = functools.partial(inside_box, self.d, epsilon, center=2.0, low=-5.0, high=high)
        return _WIDE * box(offset=0.0, sd=1.0) + _NARROW * box(offset=3.0, sd=0.5)


@dataclass(frozen=True)
class BananaTruth:
    """Truth of `banana`."""

    def draws(self, n: int, epsilon: float, rng: RNGLike = None) -> FloatArray:
        """Exact independent draws of the ε-posterior (n, 5); ε = 0 is the true posterior.

        A rejection sampler of (x, θ).  x is uniform in the ball; θ1, θ2, θ3 and θ5 solve the
        model's equations for normal noise e, and θ4 is uniform on (−3, 3).  The change of
        variables costs 1 / (1 + .3 θ3) for θ5, so a proposal is kept with probability
        [.1 / (1 + .3 θ3)] exp(−(x4 − sin 2θ4)² / .18) if θ is inside the box (there
        1 + .3 θ3 > .1), and never otherwise.
        """
        generator = checked_rng(rng)

        def batch(size: int) -> FloatArray:
            return _banana_proposals(size, checked_radius(epsilon), generator)

        return collected(n, 5, batch)

    def evidence(self, epsilon: float) -> float:
        """P(|x − x_obs| < ε), by quadrature over θ and a quasi-random average over the ball.

        The relative error is below 2e-4 for ε up to 1 and 1e-3 for ε up to 3.
        """
        radius = checked_radius(epsilon)
        return ball_volume(5, radius) * float(_banana_average(radius)) / 6.0**5

    def density(self, theta: FloatArray) -> FloatArray:
        """Density of the true posterior (ε = 0), normalised on the prior's box: (n, 5) -> (n,)."""
        a, b, c, e, f = theta.T
        mean = np.stack([a, b + a**2 - 1.0, c, np.sin(2.0 * e), f * (1.0 + 0.3 * c)], axis=1)
        joint = _normal_density(_BANANA_OBSERVED - mean, _BANANA_SD).prod(axis=1)
        return np.where(inside_cube(theta, 3.0), joint / float(_banana_average(0.0)), 0.0)


@dataclass(frozen=True)
class FiniteNormalTruth:
    """Truth of `finite_normal`: arms j = 1, ..., 100, X ~ N(U(j − 1, j), 5), x_obs = 50."""

    def rates(self, epsilon: float = 1.0) -> FloatArray:
        """P(|X − 50| < ε | j) of each arm (100,), in closed form.

        With s = √5 and H(z) = z Φ(z) + φ(z), an antiderivative of Φ,
        P(X < c | j) = s [H((c − j + 1)/s) − H((c − j)/s)].
        """
        radius = checked_radius(epsilon)
        # Arms j and 101 - j mirror each other; the right one looks at lower tails only, where the
        # difference of distribution functions keeps its digits.
        right = np.arange(51.0, 101.0)
        rate = _below(50.0 + radius, right) - _below(50.0 - radius, right)
        return np.concatenate([rate[::-1], rate])

    def masses(self, epsilon: float = 1.0) -> FloatArray:
        """Posterior masses of the arms (100,) at ε."""
        rate = self.rates(epsilon)
        return np.asarray(rate / rate.sum())

    def evidence(self, epsilon: float = 1.0) -> float:
        """P(|X − 50| < ε): the mean rate."""
        return float(self.rates(epsilon).mean())


def _normal_density(z: FloatArray, sd: float | FloatArray) -> FloatArray:
    return np.asarray(np.exp(-0.5 * (z / sd) ** 2) / (math.sqrt(2.0 * math.pi) * sd))


# Pieces of the finite problem -------------------------------------------------------------------


def _below(c: float, arm: FloatArray) -> FloatArray:
    """P(X < c | j) of `finite_normal`."""
    sd = math.sqrt(5.0)

    def antiderivative(z: FloatArray) -> FloatArray:
        return np.asarray(z * ndtr(z) + _normal_density(z, 1.0))

    return sd * (antiderivative((c - arm + 1.0) / sd) - antiderivative((c - arm) / sd))


# Pieces of the banana ---------------------------------------------------------------------------

_BANANA_OBSERVED = np.array([0.5, 0.2, 0.5, 0.6, 0.3])
_BANANA_SD = np.array([0.5, 0.3, 0.5, 0.3, 0.5])


def _banana_proposals(size: int, radius: float, rng: np.random.Generator) -> FloatArray:
    """Make `size` proposals, and keep some; see `BananaTruth.draws`."""
    x = _BANANA_OBSERVED + draws_in_ball(size, 5, radius, rng)
    solved = x - _BANANA_SD * rng.standard_normal((size, 5))
    theta = np.empty((size, 5))
    theta[:, 0] = solved[:, 0]
    theta[:, 1] = solved[:, 1] + 1.0 - theta[:, 0] ** 2
    theta[:, 2] = solved[:, 2]
    theta[:, 3] = rng.uniform(-3.0, 3.0, size)
    slope = 1.0 + 0.3 * theta[:, 2]
    # Outside the box the slope may vanish; such rows are refused below whatever stands here.
    slope = np.where(slope > 0.1, slope, 0.1)
    theta[:, 4] = solved[:, 4] / slope
    misfit = x[:, 3] - np.sin(2.0 * theta[:, 3])
    keep = 0.1 / slope * np.exp(-(misfit**2) / (2.0 * _BANANA_SD[3] ** 2))
    return np.asarray(theta[inside_cube(theta, 3.0) & (rng.random(size) < keep)])


@functools.cache
def _banana_average(radius: float) -> float:
    """Mean over x in the ball of ∫ p(x | θ) dθ over the box, block by block."""
    x = _BANANA_OBSERVED + (radius * even_ball(5) if radius > 0.0 else np.zeros((1, 5)))
    total = 0.0
    for rows in np.array_split(x, max(1, len(x) // 1024)):
        blocks = _banana_block_12(rows) * _banana_block_4(rows) * _banana_block_35(rows)
        total += float(blocks.sum())
    return total / len(x)


def _nodes() -> tuple[FloatArray, FloatArray]:
    """Gauss-Legendre nodes and weights on (−3, 3)."""
    node, weight = leggauss(_NODES)
    return 3.0 * node, 3.0 * weight


def _banana_block_12(x: FloatArray) -> FloatArray:
    """∫∫ N(x1; θ1, .25) N(x2; θ2 + θ1² − 1, .09), the inner integral in closed form: (n,)."""
    theta1, weight = _nodes()
    mean = x[:, 1, None] + 1.0 - theta1**2
    inner = ndtr((3.0 - mean) / 0.3) - ndtr((-3.0 - mean) / 0.3)
    return np.asarray((_normal_density(x[:, 0, None] - theta1, 0.5) * inner) @ weight)


def _banana_block_4(x: FloatArray) -> FloatArray:
    """∫ N(x4; sin 2θ4, .09): (n,)."""
    theta4, weight = _nodes()
    return np.asarray(_normal_density(x[:, 3, None] - np.sin(2.0 * theta4), 0.3) @ weight)


def _banana_block_35(x: FloatArray) -> FloatArray:
    """∫∫ N(x3; θ3, .25) N(x5; θ5 (1 + .3 θ3), .25), the inner integral in closed form: (n,)."""
    theta3, weight = _nodes()
    slope = 1.0 + 0.3 * theta3
    right, left = 3.0 * slope - x[:, 4, None], -3.0 * slope - x[:, 4, None]
    inner = (ndtr(right / 0.5) - ndtr(left / 0.5)) / slope
    return np.asarray((_normal_density(x[:, 2, None] - theta3, 0.5) * inner) @ weight)


# Balls and boxes in which the answers live --------------------------------------------------------

#: log2 of the number of points of the quasi-random averages over a ball.
_LOG2_POINTS = 15
#: Fewest and most proposals in one batch of a rejection sampler.
_BATCH = (1024, 2**17)


def checked_radius(epsilon: float) -> float:
    """Return the radius of the ball of a tolerance, or raise `ParameterError`."""
    check_rule("epsilon", epsilon, "in [0, inf)")
    return float(epsilon)


def ball_volume(d: int, radius: float) -> float:
    """Return the volume of a ball in d dimensions."""
    return float(math.pi ** (d / 2) / math.gamma(d / 2 + 1) * radius**d)


def draws_in_ball(n: int, d: int, epsilon: float, rng: np.random.Generator) -> FloatArray:
    """Uniform points of the ball (n, d) around 0."""
    direction = rng.standard_normal((n, d))
    length = checked_radius(epsilon) * rng.random((n, 1)) ** (1.0 / d)
    return np.asarray(length * direction / np.linalg.norm(direction, axis=1, keepdims=True))


@functools.cache
def even_ball(d: int) -> FloatArray:
    """Quasi-random points (2^15, d) that fill the unit ball evenly; the same ones every time."""
    n = 2**_LOG2_POINTS
    # Moved to the middle of their cells: the first point of an unscrambled sequence is 0.
    cube = qmc.Sobol(d + 1, scramble=False).random_base2(_LOG2_POINTS) + 0.5 / n
    direction = ndtri(cube[:, :d])
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.asarray(direction * cube[:, d:] ** (1.0 / d))


def inside_cube(theta: FloatArray, half_width: float) -> BoolArray:
    """Find the points (n, d) that lie in a cube around 0: (n,)."""
    return np.asarray((np.abs(theta) < half_width).all(axis=1))


@functools.cache
def inside_box(
    d: int, epsilon: float, *, center: float, offset: float, sd: float, low: float, high: float
) -> float:
    """P(θ ∈ (low, high)^d) for θ = x − offset − sd·e, x uniform in the ball around the center.

    Given x the coordinates are independent; the average over x is quasi-random.
    """
    radius = checked_radius(epsilon)
    x = radius * even_ball(d) if radius > 0.0 else np.zeros((1, d))
    mean = center + x - offset
    return float((ndtr((high - mean) / sd) - ndtr((low - mean) / sd)).prod(axis=1).mean())


def collected(n: int, d: int, batch: Callable[[int], FloatArray]) -> FloatArray:
    """The first n rows that successive batches of proposals leave."""
    parts, kept, size = [np.empty((0, d))], 0, int(np.clip(2 * n, *_BATCH))
    while kept < n:
        parts.append(batch(size))
        kept += len(parts[-1])
        rate = max(len(parts[-1]), 1) / size
        size = int(np.clip(1.1 * (n - kept) / rate, *_BATCH))
    return np.concatenate(parts)[:n]
