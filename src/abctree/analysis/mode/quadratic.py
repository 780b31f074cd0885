"""The local-quadratic fit: where acceptance is most likely, by a regression near a peak.

Whether a simulation is accepted depends on θ and not on how θ was proposed.  So the log of the rate
of acceptance is regressed on a quadratic in θ over *all* simulations near the peak, accepted or
not, without weights.  Where the quadratic, with the prior, is largest is the mode; the curvature of
the likelihood of the regression says how well it is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from scipy import special

from abctree.analysis.mode.surface import (
    Local,
    Rows,
    Surface,
    curvature,
    error_of_peak,
    highest,
    local_rows,
    surface_of,
)
from abctree.analysis.mode.top import (
    inner_slope,
    is_endless,
    plateau,
    unit,
    unresolved,
)
from abctree.types import BoolArray, FloatArray

#: The rows of a fit: this share of a normal posterior with the spread of the peak.
_REACH = 0.95
#: Longest step, in radii of the fit.
_LONGEST_STEP = 0.7
#: Steps of the centre and of the spread, and what counts as having arrived.
_STEPS, _ARRIVED, _SETTLED = 12, 0.05, 0.3
#: Radii of the successive attempts, in `reach`; the next is made where the inner rows disagree.
_RADII = (1.0, 1.0, 0.7, 0.5)
#: Above this acceptance rate at the peak the tolerance is too large to see it.
_SATURATED = 0.97

#: What the top looks like: a peak, also one at an end of the prior's support; flat along a
#: direction; accepted throughout; or one that too few accepted simulations show.
Shape = Literal["peak", "border", "flat", "saturated", "unclear"]


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted peak, in the coordinates of its `Rows`."""

    peak: FloatArray  #: (r,)
    covariance: FloatArray  #: (r, r) error of `peak`; nan for coordinates on a border
    spread: FloatArray  #: (r, r) of the ε-posterior at the peak: inverse of minus its log's Hessian
    acceptance: float  #: rate at the peak
    log_density: float  #: of the ε-posterior at the peak, up to a constant of the problem
    epsilon: float
    n_rows: int
    n_accepted: int
    shape: Shape
    on_border: BoolArray  #: (r,) coordinates at an end of the prior's support
    local: Local = field(repr=False)  #: its rows
    surface: Surface = field(repr=False)  #: what was fitted to them
    direction: FloatArray | None = None  #: (r,) along which the top is flat or unclear

    @property
    def error(self) -> float:
        """Standard error of the peak, root mean square over directions, in spreads; inf if nan."""
        return self.error_in(self)

    def error_in(self, other: Fit | None) -> float:
        """The same in spreads of another fit."""
        free = ~np.isnan(np.diag(self.covariance))
        if self.shape not in ("peak", "border") or not free.any() or other is None:
            return np.inf
        pick = np.ix_(free, free)
        ratio = np.linalg.solve(other.spread[pick], self.covariance[pick])
        return float(np.sqrt(max(np.trace(ratio), 0.0) / free.sum()))


def reach(r: int) -> float:
    """Radius of a fit in spreads: about 2.4 in two dimensions, 3.3 in five."""
    return float(np.sqrt(special.chdtri(r, 1.0 - _REACH)))


def fit_peak(rows: Rows, epsilon: float, start: FloatArray, spread: FloatArray) -> Fit | None:
    """The peak near a start.

    Centre and spread are stepped together: the quadratic is fitted to the rows within `reach` of
    the centre, the centre goes to its largest point (at most 0.7 radii away, inside the prior's
    support), and the spread becomes that of the quadratic, changing at most twofold.  A peak that
    the inner half of its rows contradicts (a skewed one, or two in one) is fitted again from there,
    and then with a smaller radius.

    Parameters
    ----------
    rows : Rows
        All simulations, failures included.
    epsilon : float
        The tolerance.
    start : (r,) array
        A first centre.
    spread : (r, r) array
        A first covariance, positive definite.

    Returns
    -------
    Fit or None
        None where there are too few rows, accepted or rejected, for a quadratic.
    """
    fit = None
    for share in _RADII:
        climbed = _climb(rows, epsilon, start, _root(spread), share * reach(rows.r))
        if climbed is None:
            break
        local, surface, z = climbed
        fit = _finished(local, surface, z)
        doubt = inner_slope(local, surface, z, fit.on_border)
        if doubt is None:
            return fit
        fit = replace(fit, shape="unclear", direction=unit(fit.spread @ doubt))
        step = fit.spread @ doubt
        size = float(np.sqrt(doubt @ step))
        start = _clipped(fit.peak + min(1.0, 0.5 / size) * step, rows)
        spread = 0.25 * fit.spread
    return fit


def _climb(
    rows: Rows, epsilon: float, centre: FloatArray, root: FloatArray, radius: float
) -> tuple[Local, Surface, FloatArray] | None:
    """Centre and spread stepped until they settle; the last fit and its largest point."""
    widest = np.ptp(rows.x, axis=0)  # beyond, the table does not show the end of the peak
    for step in range(_STEPS):
        local = local_rows(rows, epsilon, centre, root, radius)
        if local is None:
            return None
        surface = surface_of(local)
        z = highest(surface, local)
        change, vector = _new_scales(surface, z)
        arrived = np.linalg.norm(z) < _ARRIVED * radius
        settled = np.abs(np.log(change)).max() < _SETTLED
        factor = root @ (vector * np.sqrt(change))
        wider = factor @ factor.T
        endless = bool((np.sqrt(np.diag(wider)) > widest).any())
        if (arrived and settled) or endless or step == _STEPS - 1:
            return local, surface, z
        move = min(1.0, _LONGEST_STEP * radius / max(float(np.linalg.norm(z)), 1e-300))
        centre = _clipped(centre + move * (root @ z), rows)
        root = _root(wider)
    return None


def _root(spread: FloatArray) -> FloatArray:
    return np.asarray(np.linalg.cholesky(spread), dtype=np.float64)


def _new_scales(surface: Surface, z: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Variances (r,) of the peak along directions (r, r), in units of the present spread."""
    hessian = curvature(surface, z)
    slope = surface.log_slope(z)  # not zero on a border, where it stands for the curvature
    value, vector = np.linalg.eigh(np.outer(slope, slope) - hessian)
    return np.clip(1.0 / np.maximum(value, 1e-3), 0.25, 4.0), vector


def _finished(local: Local, surface: Surface, z: FloatArray) -> Fit:
    """The fit with its error, and the shape of its top."""
    hessian = curvature(surface, z)
    peak = _clipped(local.centre + local.root @ z, local.rows)
    sd = np.sqrt(np.einsum("ij,ij->i", local.root, local.root))
    border = (peak <= local.rows.lower + 1e-6 * sd) | (peak >= local.rows.upper - 1e-6 * sd)
    acceptance = float(np.exp(surface.log_rate(z)))
    slope = surface.log_slope(z)
    value, vector = np.linalg.eigh(np.outer(slope, slope) - hessian)
    scales = local.root @ (vector / np.sqrt(np.clip(value, 1.0 / 16.0, 16.0)))
    covariance = error_of_peak(local, surface, z, hessian, border)
    shape: Shape = "border" if border.any() else "peak"
    direction = unresolved(local, surface, z, hessian, border, covariance)
    if direction is not None:
        shape = "flat" if is_endless(local, direction) else "unclear"
    elif border.any() and len(local.z) == len(local.rows.x):
        # A corner that the quadratic rises to, of a fit to the whole table.
        shape, direction = "unclear", border / np.linalg.norm(border)
    elif acceptance > _SATURATED:
        shape = "saturated"
    elif not border.any():
        direction = plateau(local, surface, z)
        shape = "peak" if direction is None else "flat"
    return Fit(
        peak=peak,
        covariance=covariance,
        spread=scales @ scales.T,
        acceptance=acceptance,
        log_density=surface.log_density(z),
        epsilon=local.epsilon,
        n_rows=len(local.z),
        n_accepted=int(local.accepted.sum()),
        shape=shape,
        direction=direction,
        on_border=border,
        local=local,
        surface=surface,
    )


def _clipped(x: FloatArray, rows: Rows) -> FloatArray:
    return np.asarray(np.clip(x, rows.lower, rows.upper))
