"""Parameters that belong together: the multivariate normal and the Dirichlet distribution."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike

from abctree.errors import ParameterError, wrong
from abctree.keywords import checks_keywords
from abctree.problem.priors.continuous import log_image_width
from abctree.problem.priors.cube import SMALLEST_LOG_WIDTH, finite_numbers, inside
from abctree.types import FloatArray

_LOG_ROOT_TWO_PI = 0.5 * float(np.log(2.0 * np.pi))


@checks_keywords
@dataclass(frozen=True)
class MultivariateNormal:
    """A normal vector, for a tuple of names: theta = mean + L Φ⁻¹(u), L the Cholesky factor of cov.

    Parameters
    ----------
    mean : array_like of shape (k,)
    cov : array_like of shape (k, k)
        Symmetric and positive definite.

    Raises
    ------
    ParameterError
        If the shapes disagree or cov is not symmetric and positive definite.

    Notes
    -----
    A box of the cube is mapped to a parallelepiped, of log-volume
    ``log det L + Σ log(Φ⁻¹(upper) - Φ⁻¹(lower))``.

    Examples
    --------
    >>> from abctree.problem.priors import MultivariateNormal, Product
    >>> prior = Product({("a", "b"): MultivariateNormal([0, 1], [[1, 0.5], [0.5, 2]])})
    >>> prior.from_cube([[0.5, 0.5]])
    array([[0., 1.]])
    """

    mean: ArrayLike
    cov: ArrayLike

    def __post_init__(self) -> None:
        mean = finite_numbers("mean", self.mean, "Give one number per name.")
        cov = _matrix(self.cov, len(mean))
        _root(cov)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "cov", tuple(tuple(row) for row in cov.tolist()))

    def block(self) -> Gaussian:
        """The map of the cube."""
        cov = np.asarray(self.cov, dtype=np.float64)
        return Gaussian(np.asarray(self.mean, dtype=np.float64), _root(cov))


def _matrix(cov: object, k: int) -> FloatArray:
    """A finite matrix (k, k)."""
    try:
        matrix = np.array(cov, dtype=np.float64)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    if matrix.shape != (k, k) or not np.isfinite(matrix).all():
        raise ParameterError(
            f"`cov` must be a finite matrix of shape ({k}, {k}) to fit `mean`, but got {cov!r}. "
            "Give standard deviations as np.diag(sd**2)."
        )
    return matrix


def _root(cov: FloatArray) -> FloatArray:
    """The lower Cholesky factor."""
    scale = np.sqrt(np.abs(np.outer(np.diag(cov), np.diag(cov))))
    if (np.abs(cov - cov.T) > 1e-8 * scale).any():
        raise wrong("cov", "be symmetric", cov.tolist(), "Use (cov + cov.T) / 2 if it nearly is.")
    try:
        return np.asarray(np.linalg.cholesky(cov), dtype=np.float64)
    except np.linalg.LinAlgError as error:
        raise ParameterError(
            f"`cov` must be positive definite, but got {cov.tolist()}. "
            "Drop the parameters that are functions of the others, or add to the diagonal; one "
            "without width is written as its number, under its own name."
        ) from error


@dataclass(frozen=True, eq=False)
class Gaussian:
    """theta = mean + root Φ⁻¹(u)."""

    mean: FloatArray  #: (k,)
    root: FloatArray  #: (k, k) lower triangular, positive diagonal

    @property
    def d(self) -> int:
        return len(self.mean)

    @cached_property
    def log_det(self) -> float:
        """The logarithm of det root."""
        return float(np.log(np.diag(self.root)).sum())

    @cached_property
    def support(self) -> FloatArray:
        return np.tile([-np.inf, np.inf], (self.d, 1))

    def from_cube(self, cube: FloatArray) -> FloatArray:
        z = scipy.special.ndtri(inside(cube))
        theta = np.tile(self.mean, (len(z), 1))
        # Column by column: the bits of a matrix product depend on how many rows it has.
        for j in range(self.d):
            theta[:, j:] += z[:, j : j + 1] * self.root[j:, j]
        return theta

    def to_cube(self, theta: FloatArray) -> FloatArray:
        return inside(scipy.special.ndtr(self._standard(theta)))

    def log_volume(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        a, b = scipy.special.ndtri(lower), scipy.special.ndtri(upper)
        widths = log_image_width(a, b, lower, upper, _log_normal)
        return np.asarray(widths.sum(axis=1) + self.log_det)

    def log_density(self, theta: FloatArray) -> FloatArray:
        return np.asarray(_log_normal(self._standard(theta)).sum(axis=1) - self.log_det)

    def _standard(self, theta: FloatArray) -> FloatArray:
        # The largest float stands for infinity, of which a triangular solve would make nan.
        far = np.nan_to_num(theta - self.mean, posinf=1e300, neginf=-1e300)
        return np.asarray(scipy.linalg.solve_triangular(self.root, far.T, lower=True)).T


def _log_normal(z: FloatArray) -> FloatArray:
    return np.asarray(-0.5 * z**2 - _LOG_ROOT_TWO_PI)


@checks_keywords
@dataclass(frozen=True)
class Dirichlet:
    """k shares that sum to one, for a tuple of k names; k - 1 dimensions of the cube.

    Parameters
    ----------
    concentration : sequence of float
        k >= 2 positive numbers; all ones is uniform on the simplex.

    Raises
    ------
    ParameterError
        If there are fewer than two, or one is not positive and finite.

    Notes
    -----
    Stick breaking: share j takes the part v_j ~ Beta(a_j, a_{j+1} + ... + a_k) of what the shares
    before it have left, and the last share takes the rest.  Volumes and densities are those of the
    first k - 1 shares.  With m_j = k - 1 - j the map v -> share has the determinant
    ``Π (1 - v_j)^{m_j}``, so the image of a box has the volume
    ``Π ((1 - v_j(lower))^{m_j + 1} - (1 - v_j(upper))^{m_j + 1}) / (m_j + 1)``.

    Examples
    --------
    >>> from abctree.problem.priors import Dirichlet, Product
    >>> prior = Product({("a", "b", "c"): Dirichlet([1.0, 1.0, 1.0])})
    >>> prior.from_cube([[0.75, 0.5]])
    array([[0.5 , 0.25, 0.25]])
    """

    concentration: ArrayLike

    def __post_init__(self) -> None:
        a = finite_numbers("concentration", self.concentration, "Give one number per name.")
        if len(a) < 2 or min(a) <= 0.0:
            raise ParameterError(
                f"`concentration` must be at least two positive numbers, but got {list(a)}. "
                "Give one number per name."
            )
        object.__setattr__(self, "concentration", a)

    @property
    def d(self) -> int:
        return len(self._a) - 1

    @cached_property
    def _a(self) -> FloatArray:
        return np.asarray(self.concentration, dtype=np.float64)

    @cached_property
    def _own(self) -> FloatArray:
        return self._a[:-1]

    @cached_property
    def _rest(self) -> FloatArray:
        return np.cumsum(self._a[::-1])[::-1][1:].copy()

    @cached_property
    def support(self) -> FloatArray:
        return np.full((len(self._a), 2), np.nan)

    def from_cube(self, cube: FloatArray) -> FloatArray:
        taken, left = self._broken(inside(cube))
        before = np.cumprod(np.column_stack([np.ones(len(cube)), left]), axis=1)
        theta = np.column_stack([before[:, :-1] * taken, before[:, -1]])
        return np.asarray(theta / theta.sum(axis=1, keepdims=True))

    def to_cube(self, theta: FloatArray) -> FloatArray:
        share = np.clip(theta, 0.0, 1.0)
        stick = np.cumsum(share[:, ::-1], axis=1)[:, ::-1]
        with np.errstate(invalid="ignore", divide="ignore"):
            # Nothing left to take a part of: any part will do.
            taken = np.nan_to_num(share[:, :-1] / stick[:, :-1], nan=0.5)
            left = np.nan_to_num(stick[:, 1:] / stick[:, :-1], nan=0.5)
        by_taken = scipy.special.betainc(self._own, self._rest, taken)
        by_left = scipy.special.betaincc(self._rest, self._own, left)
        return inside(np.where(taken < 0.5, by_taken, by_left))

    def log_volume(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """(K, k - 1), (K, k - 1) -> (K,), of the first k - 1 shares."""
        power = np.arange(self.d, 0.0, -1.0)  # m_j + 1
        near, far = self._log_left(lower), self._log_left(upper)
        with np.errstate(all="ignore"):
            # a^p - b^p = a^p (1 - exp(p log(b / a))), without cancellation for nearby a and b.
            width = power * near + np.log(-np.expm1(power * (far - near))) - np.log(power)
            width = np.where(upper > lower, np.fmax(width, SMALLEST_LOG_WIDTH), -np.inf)
        return np.asarray(width.sum(axis=1))

    def log_density(self, theta: FloatArray) -> FloatArray:
        """(n, k) -> (n,), of the first k - 1 shares; those below 1e-300 are read as 1e-300."""
        a = self._a
        on_simplex = (theta >= 0.0).all(axis=1) & (np.abs(theta.sum(axis=1) - 1.0) <= 1e-9)
        constant = scipy.special.gammaln(a.sum()) - scipy.special.gammaln(a).sum()
        log_share = np.log(np.clip(theta, 1e-300, 1.0))
        return np.where(on_simplex, constant + log_share @ (a - 1.0), -np.inf)

    def _broken(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The parts taken, v, and left, 1 - v, each with its own digits."""
        taken = np.asarray(scipy.special.betaincinv(self._own, self._rest, u), dtype=np.float64)
        left = np.asarray(scipy.special.betainccinv(self._rest, self._own, u), dtype=np.float64)
        # The root finder may fail within 1e-100 of zero, where v^a = u a B(a, b) holds exactly.
        log_scale = np.log(self._own) + scipy.special.betaln(self._own, self._rest)
        with np.errstate(divide="ignore"):
            small = np.exp((np.log(u) + log_scale) / self._own)
        taken = np.where(np.isnan(taken), np.minimum(small, 1.0), taken)
        left = np.where(np.isnan(left), 1.0 - taken, left)
        return taken, left

    def _log_left(self, u: FloatArray) -> FloatArray:
        taken, left = self._broken(u)
        with np.errstate(divide="ignore"):
            return np.where(taken < 0.5, np.log1p(-np.minimum(taken, 0.5)), np.log(left))
