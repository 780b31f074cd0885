"""The rows near a centre, and the log-density that is fitted to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import optimize

from abctree.analysis.mode.regression import (
    design_of,
    expansion_of,
    log_rate,
    n_coefficients,
    rate_slope,
    regression,
    slope_design,
    unpacked,
)
from abctree.types import BoolArray, FloatArray

#: The peak may be so many spreads beyond the last row of the table.
_BEYOND = 0.1


@dataclass(frozen=True, eq=False)
class Rows:
    """What a table says about acceptance, in coordinates of a natural size."""

    x: FloatArray  #: (n, r)
    distance: FloatArray  #: (n,) inf for a failure
    log_prior: FloatArray | None  #: (n,) log-density of the prior up to a constant; None if flat
    lower: FloatArray  #: (r,) of the prior's support, -inf where there is no bound
    upper: FloatArray  #: (r,)

    @property
    def r(self) -> int:
        """Coordinates."""
        return int(self.x.shape[1])


@dataclass(frozen=True, eq=False)
class Local:
    """Rows near a centre, in coordinates z with the centre at 0 and a spread of one."""

    rows: Rows
    epsilon: float
    centre: FloatArray
    root: FloatArray  #: (r, r) x = centre + root z
    radius: float
    z: FloatArray  #: (m, r)
    accepted: BoolArray  #: (m,)
    prior: tuple[FloatArray, FloatArray, FloatArray] | None  #: its log as a quadratic in z

    @property
    def r(self) -> int:
        """Coordinates."""
        return len(self.centre)


def local_rows(
    rows: Rows, epsilon: float, centre: FloatArray, root: FloatArray, radius: float
) -> Local | None:
    """The rows within a radius, in coordinates of the spread; None if they are too few."""
    z = np.linalg.solve(root, (rows.x - centre).T).T
    square = np.einsum("ij,ij->i", z, z)
    near = square < radius**2
    accepted = rows.distance[near] < epsilon
    least = n_coefficients(rows.r) + rows.r
    if accepted.sum() < least or (~accepted).sum() < min(least, 10):
        return None
    prior = None
    if rows.log_prior is not None:
        prior = expansion_of(z[near], rows.log_prior[near])
    return Local(rows, epsilon, centre, root, radius, z[near], accepted, prior)


@dataclass(frozen=True, eq=False)
class Surface:
    """The quadratic q = c + g·z + ½ zᵀAz of acceptance, and the log-prior as another one."""

    coefficients: FloatArray
    covariance: FloatArray  #: of the coefficients
    gradient: FloatArray  #: g (r,)
    hessian: FloatArray  #: A (r, r)
    prior_constant: float
    prior_gradient: FloatArray
    prior_hessian: FloatArray

    def height(self, z: FloatArray) -> float:
        """q, about the log of the rate of acceptance."""
        c = float(self.coefficients[0])
        return float(c + self.gradient @ z + 0.5 * z @ self.hessian @ z)

    def slope(self, z: FloatArray) -> FloatArray:
        """Of q."""
        return np.asarray(self.gradient + self.hessian @ z)

    def log_rate(self, z: FloatArray) -> float:
        """Log of the rate of acceptance."""
        return float(log_rate(np.asarray(self.height(z))))

    def log_density(self, z: FloatArray) -> float:
        """Of the ε-posterior, up to a constant of the problem."""
        prior = self.prior_constant + self.prior_gradient @ z + 0.5 * z @ self.prior_hessian @ z
        return float(self.log_rate(z) + prior)

    def prior_slope(self, z: FloatArray) -> FloatArray:
        """Of the log-prior."""
        return np.asarray(self.prior_gradient + self.prior_hessian @ z)

    def log_slope(self, z: FloatArray) -> FloatArray:
        """Gradient of `log_density`."""
        first, _ = rate_slope(self.height(z))
        return np.asarray(first * self.slope(z) + self.prior_slope(z))


def surface_of(local: Local) -> Surface:
    """The regression of acceptance on a quadratic, and the prior as another."""
    design = design_of(local.z)
    beta, information = regression(design, local.accepted)
    gradient, hessian = unpacked(beta, local.r)
    covariance: FloatArray = np.asarray(np.linalg.inv(information), dtype=np.float64)
    if local.prior is None:
        nothing = np.zeros(local.r), np.zeros((local.r, local.r))
        return Surface(beta, covariance, gradient, hessian, 0.0, *nothing)
    constant, slope, curvature = local.prior
    return Surface(beta, covariance, gradient, hessian, float(constant[0]), slope, curvature)


def highest(surface: Surface, local: Local) -> FloatArray:
    """Where the density is largest within a radius along each axis and inside the support (r,)."""
    sd = np.sqrt(np.einsum("ij,ij->i", local.root, local.root))
    # Nor well beyond the rows: there a quadratic may rise, and nothing is known.
    lower = np.maximum(local.rows.lower, local.rows.x.min(axis=0) - _BEYOND * sd)
    upper = np.minimum(local.rows.upper, local.rows.x.max(axis=0) + _BEYOND * sd)
    low = np.maximum(-local.radius, (lower - local.centre) / sd)
    high = np.minimum(local.radius, (upper - local.centre) / sd)
    low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)  # rounding at a border
    to_z = np.linalg.solve(local.root, np.diag(sd))

    def loss(u: FloatArray) -> tuple[float, FloatArray]:
        z = to_z @ u
        return -surface.log_density(z), -(to_z.T @ surface.log_slope(z))

    found = optimize.minimize(
        loss,
        np.zeros(local.r),
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(low, high, strict=True)),
        options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 200},
    )
    return np.asarray(to_z @ found.x)


def curvature(surface: Surface, z: FloatArray) -> FloatArray:
    """Hessian (r, r) of the log-density."""
    first, second = rate_slope(surface.height(z))
    slope = surface.slope(z)
    return np.asarray(
        first * surface.hessian + second * np.outer(slope, slope) + surface.prior_hessian
    )


def error_of_peak(
    local: Local, surface: Surface, z: FloatArray, hessian: FloatArray, border: BoolArray
) -> FloatArray:
    """Covariance (r, r) of the peak by the delta method, in x; nan for coordinates on a border.

    The peak solves ∇F(z; β) = 0 for F the log-density, so ∂z/∂β = −(∇²F)⁻¹ ∂∇F/∂β, with the
    coordinates on a border held fixed.
    """
    found = np.full((local.r, local.r), np.nan)
    if border.all():
        return found
    free = ~border
    first, second = rate_slope(surface.height(z))
    basis = design_of(z[None])[0]
    by_beta = first * slope_design(z) + second * np.outer(surface.slope(z), basis)
    # In x, where the border is: ∂F/∂x = root⁻ᵀ ∂F/∂z.
    inverse = np.linalg.inv(local.root)
    in_x = (inverse.T @ hessian @ inverse)[np.ix_(free, free)]
    try:
        jacobian = -np.linalg.solve(in_x, (inverse.T @ by_beta)[free])
    except np.linalg.LinAlgError:
        return found
    found[np.ix_(free, free)] = jacobian @ surface.covariance @ jacobian.T
    return found
