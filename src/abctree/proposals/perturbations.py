"""How SMC-ABC perturbs its particles: Gaussian steps whose covariance is learned.

A proposal is a weighted particle and a step, ``q(z) = Σ_j W_j K(z | z_j)``.  What differs between
rules is the covariance of K.  It is learned from particles in standard units, so that no rule
depends on the units of a parameter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import special

from abctree.data import effective_sample_size
from abctree.kernels.gaussian import gaussian_sums, squared_distances
from abctree.keywords import checks_keywords, part_named
from abctree.numbers import ruled
from abctree.types import BoolArray, FloatArray, IntArray

#: Entries of a matrix of points against particles that are held at once (256 KiB: a cache).
_BLOCK = 2**15
#: Least standard deviation of the step of a whole number: three in ten steps move it.
_LATTICE_STEP = 0.5
#: Whole distances up to which masses are looked up.
_TABLE = 1000.0
#: With less than this in other hands, one particle has all the weight.
_ALONE = 1e-12
#: Logarithm of a share that counts for nothing; smaller ones would be slow, subnormal numbers.
_NOTHING = -600.0
_LOG_ROOT_TWO_PI = 0.5 * float(np.log(2.0 * np.pi))


class Perturbation(Protocol):
    """The covariance of the steps."""

    def covariance(self, z: FloatArray, weight: FloatArray) -> FloatArray:
        """Standardised particles (N, k), weights (N,) of sum 1 -> (k, k), or (N, k, k) for each."""


@checks_keywords
@dataclass(frozen=True)
class TwiceCovariance:
    """Twice the weighted covariance of the particles (Beaumont et al. 2009; Filippi et al. 2013).

    Parameters
    ----------
    factor : float
        What the covariance is multiplied by; 2 minimises the Kullback-Leibler divergence between
        the joint laws of successive particles.
    """

    factor: float = ruled(2.0, "in (0, inf)", "The usual value is 2.")

    def covariance(self, z: FloatArray, weight: FloatArray) -> FloatArray:
        """See `Perturbation`."""
        return np.asarray(self.factor * weighted_covariance(z, weight))


@checks_keywords
@dataclass(frozen=True)
class Componentwise:
    """Twice the weighted variance of each parameter alone (Beaumont et al. 2009, as printed).

    Parameters
    ----------
    factor : float
        What the variances are multiplied by.
    """

    factor: float = ruled(2.0, "in (0, inf)", "The usual value is 2.")

    def covariance(self, z: FloatArray, weight: FloatArray) -> FloatArray:
        """See `Perturbation`."""
        return self.factor * np.diag(np.diag(weighted_covariance(z, weight)))


@dataclass(frozen=True)
class Silverman:
    """The covariance by the rule-of-thumb bandwidth of a kernel density estimate.

    ``(4 / ((k + 2) ESS))^(2 / (k + 4))`` times the weighted covariance: far smaller steps than
    Beaumont's, which accept more and weigh less evenly.
    """

    def covariance(self, z: FloatArray, weight: FloatArray) -> FloatArray:
        """See `Perturbation`."""
        k = z.shape[1]
        n = effective_sample_size(weight)
        bandwidth = (4.0 / ((k + 2.0) * n)) ** (1.0 / (k + 4.0))
        return np.asarray(min(1.0, bandwidth) ** 2 * weighted_covariance(z, weight))


@checks_keywords
@dataclass(frozen=True)
class Local:
    """Around each particle the spread of its nearest neighbours (Filippi et al. 2013, section 4.2).

    ``Σ_{l near j} W_l (z_l − z_j)(z_l − z_j)ᵀ / Σ_{l near j} W_l``: steps follow curved and several
    modes.

    Parameters
    ----------
    share : float
        Of the particles that are neighbours, in (0, 1].
    """

    share: float = ruled(0.2, "in (0, 1]", "Try 0.2.")

    def covariance(self, z: FloatArray, weight: FloatArray) -> FloatArray:
        """See `Perturbation`."""
        n, k = z.shape
        m = min(n, max(int(np.ceil(self.share * n)), k + 2))
        answer, columns = np.empty((n, k, k)), np.ascontiguousarray(z.T)
        for rows in _blocks(n, max(n, m * k)):
            near = np.argpartition(squared_distances(z[rows], columns), m - 1, axis=1)[:, :m]
            step = z[near] - z[rows][:, None, :]
            w = weight[near]
            answer[rows] = np.einsum("jl,jla,jlb->jab", w, step, step)
            answer[rows] /= w.sum(axis=1)[:, None, None]
        return answer


_BY_NAME: dict[str, type[Perturbation]] = {
    "twice-covariance": TwiceCovariance,
    "componentwise": Componentwise,
    "silverman": Silverman,
    "local": Local,
}


def as_perturbation(spec: str | Perturbation) -> Perturbation:
    """A rule from its short name, or as it is."""
    return part_named("kernel", spec, _BY_NAME, "covariance(z, weight)")


def weighted_covariance(z: FloatArray, weight: FloatArray) -> FloatArray:
    """(k, k) Σ w (z − mean)(z − mean)ᵀ / (1 − Σ w²) of particles (N, k), weights (N,) of sum 1.

    With few particles the correlations are shrunk: as many as dimensions would span a plane that
    no step leaves.  Zero when one particle has all the weight.
    """
    room = 1.0 - float(weight @ weight)
    k = z.shape[1]
    if room <= _ALONE:
        return np.zeros((k, k))
    centred = z - weight @ z
    covariance = np.asarray((centred * weight[:, None]).T @ centred) / room
    shrink = min(1.0, (k + 1.0) / effective_sample_size(weight)) ** 2
    return np.asarray((1.0 - shrink) * covariance + shrink * np.diag(np.diag(covariance)))


# The proposal -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class KernelDensity:
    """q(z) = Σ_j W_j K(z | z_j): particles, each with a Gaussian step of its own or of all.

    A whole number takes the step rounded to the nearest whole number, independent of the other
    coordinates, so its kernel is the mass ``Φ((δ + ½) / s) − Φ((δ − ½) / s)``, exactly.
    """

    particle: FloatArray  #: (N, k) z_j
    weight: FloatArray  #: (N,) W_j, of sum 1
    center: FloatArray  #: (k,) and
    scale: FloatArray  #: (k,) of the standard units in which steps are stated
    covariance: FloatArray  #: (1 or N, k, k) of the steps, in standard units
    is_lattice: BoolArray  #: (k,)
    rule: Perturbation  #: that the covariance is by

    @classmethod
    def of(
        cls,
        particle: FloatArray,
        weight: FloatArray,
        rule: Perturbation,
        is_lattice: BoolArray,
        scale: FloatArray,
    ) -> KernelDensity:
        """The proposal of a population (N, k) with weights (N,) of any sum above 0.

        `scale` (k,) are standard deviations to fall back to where the particles have none.
        """
        w = weight / weight.sum()
        center = w @ particle
        alone = 1.0 - float(w @ w) <= _ALONE
        alike = (np.ptp(particle, axis=0) == 0.0) | alone
        scale = np.where(alike, scale, _spread(particle - center, w))
        standard = (particle - center) / scale
        covariance = np.asarray(rule.covariance(standard, w), dtype=np.float64)
        k = particle.shape[1]
        covariance = covariance.reshape(-1, k, k) + np.diag(1.0 * (alike & ~is_lattice))
        return cls(particle, w, center, scale, _not_flat(covariance), is_lattice, rule)

    def without(self, some: IntArray) -> KernelDensity | None:
        """The proposal had some of the particles not been there; None if they have all weight."""
        particle, weight = (np.delete(own, some, axis=0) for own in (self.particle, self.weight))
        if not weight.any():
            return None
        return self.of(particle, weight, self.rule, self.is_lattice, self.scale)

    @property
    def k(self) -> int:
        """Coordinates."""
        return int(self.particle.shape[1])

    def draw(self, n: int, rng: np.random.Generator) -> FloatArray:
        """(n, k) Points: particles picked by systematic resampling, in random order, and steps."""
        position = (rng.random() + np.arange(n)) / max(n, 1)
        picked = np.searchsorted(np.cumsum(self.weight), position, side="right")
        picked = rng.permutation(np.minimum(picked, len(self.weight) - 1))
        z = self.particle[picked]
        noise = rng.standard_normal(z.shape)
        smooth = ~self.is_lattice
        root = self._root if len(self._root) == 1 else self._root[picked]
        root = np.broadcast_to(root, (n, *root.shape[1:]))
        step = np.einsum("nab,nb->na", root, noise[:, smooth])
        z[:, smooth] += step * self.scale[smooth]
        sd = self._lattice_sd if len(self._lattice_sd) == 1 else self._lattice_sd[picked]
        z[:, self.is_lattice] = np.rint(z[:, self.is_lattice] + sd * noise[:, self.is_lattice])
        return z

    def log_density(self, z: FloatArray) -> FloatArray:
        """Log q: points (n, k) -> (n,), with respect to lengths and counts.

        O(n N k), or O(n N k²) with a covariance for each particle; memory bounded.
        """
        if len(self._root) == 1 and not self.is_lattice.any():
            total, largest = gaussian_sums(self._in_steps(z), self._centre, self.weight)
            with np.errstate(divide="ignore"):
                return np.asarray(np.log(total) + largest - self._log_norm)
        answer = np.empty(len(z))
        for rows in _blocks(len(z), len(self.particle)):
            answer[rows] = self._log_density(z[rows])
        return answer

    def _log_density(self, z: FloatArray) -> FloatArray:
        # The largest term stands apart, so that no sum is lost to underflow.
        exponent, largest = self._smooth_exponent(z)
        kernel = np.exp(exponent, out=exponent)
        for j, column in enumerate(np.flatnonzero(self.is_lattice).tolist()):
            away = np.abs(z[:, column, None] - self.particle[None, :, column])
            kernel *= _rounded_normal(away, self._lattice_sd[:, j])
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(np.einsum("ij,j->i", kernel, self.weight)) + largest)

    def _smooth_exponent(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(n, N) Log-density of every step in the continuous coordinates, less the largest (n,)."""
        y, centre = self._in_steps(z), self._centre
        if len(self._root) == 1:
            exponent = squared_distances(y, centre)
        else:
            exponent = _quadratic_forms(y, centre.T, self._precision)
        exponent *= -0.5
        exponent -= self._log_norm
        largest = exponent.max(axis=1)
        exponent -= largest[:, None]
        return np.maximum(exponent, _NOTHING, out=exponent), largest

    def _in_steps(self, z: FloatArray) -> FloatArray:
        """(n, k') Continuous coordinates in units of the step, or standard ones if it varies."""
        smooth = ~self.is_lattice
        y = (z[:, smooth] - self.center[smooth]) / self.scale[smooth]
        return np.einsum("ab,nb->na", self._inverse[0], y) if len(self._root) == 1 else y

    @cached_property
    def _centre(self) -> FloatArray:
        """(k', N) Continuous coordinates of the particles, in steps."""
        return np.ascontiguousarray(self._in_steps(self.particle).T)

    @cached_property
    def _root(self) -> FloatArray:
        """(1 or N, k', k') Cholesky factors for the continuous coordinates."""
        smooth = np.flatnonzero(~self.is_lattice)
        block = self.covariance[:, smooth[:, None], smooth[None, :]]
        return np.asarray(np.linalg.cholesky(block), dtype=np.float64)

    @cached_property
    def _inverse(self) -> FloatArray:
        return np.asarray(np.linalg.inv(self._root), dtype=np.float64)

    @cached_property
    def _precision(self) -> FloatArray:
        return np.asarray(np.einsum("jca,jcb->jab", self._inverse, self._inverse))

    @cached_property
    def _log_norm(self) -> FloatArray:
        """(1 or N,) Log of what each kernel is divided by."""
        smooth = ~self.is_lattice
        diagonal = np.diagonal(self._root, axis1=1, axis2=2)
        units = np.log(self.scale[smooth]) + _LOG_ROOT_TWO_PI
        return np.asarray(np.log(diagonal).sum(axis=1) + units.sum())

    @cached_property
    def _lattice_sd(self) -> FloatArray:
        """(1 or N, whole numbers) Standard deviations of their steps before rounding."""
        variance = np.diagonal(self.covariance, axis1=1, axis2=2)[:, self.is_lattice]
        return np.maximum(np.sqrt(variance) * self.scale[self.is_lattice], _LATTICE_STEP)


def _spread(centred: FloatArray, weight: FloatArray) -> FloatArray:
    """(k,) Weighted standard deviations, in units in which no square under- or overflows."""
    room = 1.0 - float(weight @ weight)
    unit = np.abs(centred).max(axis=0)
    unit = np.where(unit > 0.0, unit, 1.0)
    spread = unit * np.sqrt(weight @ (centred / unit) ** 2 / max(room, _ALONE))
    return np.asarray(spread)


def _not_flat(covariance: FloatArray) -> FloatArray:
    """(N, k, k) Covariances with every direction open: a millionth of the variance at least."""
    variance = np.diagonal(covariance, axis1=1, axis2=2)
    k = covariance.shape[1]
    largest = np.maximum(variance.max(axis=1), 1e-6)
    floor = np.maximum(1e-6 * variance, 1e-9 * largest[:, None])
    return np.asarray(covariance + floor[:, :, None] * np.eye(k))


def _rounded_normal(away: FloatArray, sd: FloatArray) -> FloatArray:
    """Mass of a rounded normal step: whole distances (n, N) >= 0, sd (1 or N,) -> (n, N)."""
    furthest = float(away.max(initial=0.0))
    if sd.size > 1 or furthest >= _TABLE:
        return _mass(away, sd)
    return np.asarray(_mass(np.arange(furthest + 1.0), sd)[away.astype(np.intp)])


def _mass(away: FloatArray, sd: FloatArray) -> FloatArray:
    # In the lower tail, where Φ has all its digits.
    return np.asarray(special.ndtr((0.5 - away) / sd) - special.ndtr((-0.5 - away) / sd))


def _quadratic_forms(x: FloatArray, y: FloatArray, precision: FloatArray) -> FloatArray:
    """(n, N) (x_i − y_j)ᵀ P_j (x_i − y_j), linear in the monomials of x_i.

    Without matrix products: threads of a BLAS that wait for each other on matrices this thin cost
    more than the products, and the last bits of a product depend on its number of rows.
    """
    linear = np.einsum("jab,jb->ja", precision, y)
    total = np.tile((linear * y).sum(axis=1), (len(x), 1))
    for a in range(x.shape[1]):
        total -= x[:, a, None] * (2.0 * linear[None, :, a])
        for b in range(a + 1):
            twice = 1.0 if a == b else 2.0
            total += (x[:, a] * x[:, b])[:, None] * (twice * precision[None, :, a, b])
    return np.asarray(np.maximum(total, 0.0, out=total))


def _blocks(n: int, width: int) -> list[slice]:
    """Slices of n rows, each of a size that a matrix of this width allows."""
    rows = max(1, _BLOCK // max(1, width))
    return [slice(start, min(n, start + rows)) for start in range(0, n, rows)]
