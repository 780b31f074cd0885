"""Places that may be modes: where acceptance is high, each with its fit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.spatial import cKDTree

from abctree.answers.mode.bend import fit_peak
from abctree.answers.mode.fit import Fit, Rows, Window, reach, root_of, to_z
from abctree.answers.mode.landscape import Frame, Landscape, grouped
from abctree.answers.mode.peaks import local_rates, n_neighbours
from abctree.answers.mode.regression import n_terms
from abctree.answers.mode.scale import climb_in_scale
from abctree.types import BoolArray, FloatArray, IntArray

#: Places that are tried and kept, and how much less dense than the best they may be.
_TRIES, _KEPT, FAINTEST = 8, 5, 1.0 / 50.0
#: Standard errors by which a rate without a fit is taken to be lower.
_DOUBT = 2.0
#: A ridge is looked for up to so many times the reach of a fit, by rates among so many rows.
_RING, _NEIGHBOURS = 2.0, 20
#: Accepted rows for each term of a quadratic, at least.
_LEAST = 4
#: Combinations of values of discrete parameters that are looked at.
_GROUPS = 12


@dataclass(frozen=True, eq=False)
class Place:
    """A candidate: where it was found, and what was fitted there."""

    group: IntArray  #: rows that share its discrete values
    rows: Rows
    row: int  #: of the table, where it was found
    start: FloatArray  #: (r,)
    spread: FloatArray  #: (r, r) a first guess
    window: Window | None = None  #: the rows around the peak that it climbed to
    fit: Fit | None = None
    log_density: float = -np.inf  #: of the ε-posterior, up to a constant of the problem
    acceptance: float = 0.0
    n_accepted: int = 0

    @property
    def peak(self) -> FloatArray:
        """(r,) By the fit, or where the place was found."""
        if self.fit is not None:
            return self.fit.peak
        return self.start if self.window is None else self.window.centre

    @property
    def width(self) -> FloatArray:
        """(r, r) The spread by the fit, or the first guess."""
        if self.fit is not None:
            return self.fit.spread
        return self.spread if self.window is None else self.window.spread

    def squares(self, x: FloatArray) -> FloatArray:
        """Squared distances (n,) from the peak, in spreads."""
        z = to_z(x, self.peak, root_of(self.width))
        return np.asarray(np.einsum("ij,ij->i", z, z))

    def at(self, epsilon: float) -> Place:
        """The same place at another tolerance, climbed to its peak."""
        window = climb_in_scale(self.rows, epsilon, self.peak, self.width)
        if window is None:
            return self._unfitted(epsilon)
        return replace(self, window=window, fit=None, log_density=window.height)

    def fitted(self) -> Place:
        """The same place, with a fit of the rows that it climbed to."""
        if self.window is None:
            return self
        fit = fit_peak(self.window)
        if fit.has_error and self._is_ridge(fit):
            fit = fit.without_error()
        # The top of a polynomial that the rows do not bear out may be of any height.
        return replace(
            self, fit=fit, log_density=fit.log_density if fit.has_error else self.log_density,
            acceptance=fit.acceptance,
            n_accepted=fit.n_accepted,
        )  # fmt: skip

    def _unfitted(self, epsilon: float) -> Place:
        """By the nearest rows alone: their rate, less some of its standard errors."""
        away = ((self.rows.x - self.start) ** 2).sum(axis=1)
        k = n_neighbours(len(away))
        near = np.argpartition(away, k - 1)[:k]
        hits = float((self.rows.distance[near] < epsilon).sum())
        low = max(hits - _DOUBT * np.sqrt(hits * (1.0 - hits / k)), 0.5)
        log_prior = float(self.rows.log_prior[int(np.argmin(away))])
        return replace(
            self, window=None, fit=None, log_density=float(np.log(low / k)) + log_prior,
            acceptance=hits / k, n_accepted=int(hits),
        )  # fmt: skip

    def _is_ridge(self, fit: Fit) -> bool:
        """Whether the density is high where the fit says low, without a valley between.

        High is above half of the top's, two standard errors allowed for, by the rates among the
        nearest rows of accepted ones; low is below a tenth.  Flat coordinates are left out.
        """
        known = ~fit.unknown
        root = root_of(fit.spread[np.ix_(known, known)])
        z = to_z(self.rows.x[:, known], fit.peak[known], root)
        outer, square = (_RING * reach(self.rows.r)) ** 2, np.einsum("ij,ij->i", z, z)
        use = square < 4.0 * outer
        z, square, log_prior = z[use], square[use], self.rows.log_prior[use]
        accepted = self.rows.distance[use] < fit.epsilon
        outside = np.flatnonzero(accepted & (square > 2.0 * np.log(10.0)) & (square < outer))
        if len(outside) == 0 or len(z) <= _NEIGHBOURS:
            return False
        tree = cKDTree(z)

        def high(at: FloatArray, errors: float) -> BoolArray:
            """Points (m,) of z at which a rate so many standard errors higher is high."""
            near = np.asarray(tree.query(at, k=_NEIGHBOURS + 1)[1])[:, 1:]
            rate = accepted[near].mean(axis=1)
            rate = rate + errors * np.sqrt(rate * (1.0 - rate) / _NEIGHBOURS)
            with np.errstate(divide="ignore"):
                density = np.log(np.maximum(rate, 0.0)) + log_prior[near].mean(axis=1)
            return np.asarray(density > fit.log_density - np.log(2.0))

        at = z[outside[:: 1 + len(outside) // 300]]
        at = at[high(at, -_DOUBT)]
        return len(at) > 0 and bool(high(0.5 * at, _DOUBT).any())

    def is_at(self, other: Place) -> bool:
        """Whether two places are the same peak: within two spreads of either."""
        if not np.array_equal(self.group, other.group):
            return False
        away = (self.squares(other.peak[None]), other.squares(self.peak[None]))
        return bool(min(away) < 4.0)


def places(
    land: Landscape, frame: Frame, look: float, serve: tuple[int, float] | None
) -> tuple[list[Place], float]:
    """Candidates that differ, the densest first, and the tolerance at which they are compared.

    That is at least the one that serves the first of them, with `serve` of `serving_epsilon`.
    """
    found: list[Place] = []
    used = np.zeros(len(land), dtype=bool)
    tries, faintest = 0, -np.inf
    for row, log_density, radius, group in _starts(land, frame, look):
        if tries == 0:
            faintest = log_density + np.log(FAINTEST) - 1.0
        if used[row] or log_density < faintest:
            continue
        if tries == _TRIES or len(found) == _KEPT:
            break
        tries += 1
        rows = frame.rows(land, group)
        start = frame.x(land.theta[row])
        place = Place(group, rows, row, start, _first_spread(rows, start, look))
        if tries == 1 and serve is not None:
            look = max(look, serving_epsilon(place, *serve) or look)
        place = place.at(look)
        here = ((rows.x - start) ** 2).sum(axis=1) <= (1.5 * radius) ** 2
        here |= (place.window is not None) & (place.squares(rows.x) < 9.0)
        used[group[here]] = True
        found.append(place)
    return distinct(found), look


def distinct(moved: list[Place]) -> list[Place]:
    """The densest first, without those that have climbed to a denser one."""
    kept: list[Place] = []
    for place in sorted(moved, key=lambda place: -place.log_density):
        if not any(place.is_at(other) for other in kept):
            kept.append(place)
    return kept


def borne_out(found: list[Place]) -> list[Place]:
    """The same places, the best without an error where one that is no peak is about as dense.

    Both are then on a ridge, and the best is where the run was lucky.
    """
    best, *others = found
    rivals = [p for p in others if p.log_density > best.log_density - np.log(2.0)]
    if best.fit is None or all(p.fit is not None and p.fit.has_error for p in rivals):
        return found
    return [replace(best, fit=best.fit.without_error()), *others]


def _starts(land: Landscape, frame: Frame, look: float) -> list[tuple[int, float, float, IntArray]]:
    """Accepted rows with their local density, the highest first, from all groups of values."""
    if len(land.values):
        _, label = grouped(land.theta[:, land.values])
        hits = np.bincount(label, land.distance < look)
        chosen = np.argsort(-hits, kind="stable")[:_GROUPS]
        groups = [np.flatnonzero(label == g) for g in chosen if hits[g] > 0.0]
    else:
        groups = [np.arange(len(land))]
    starts = []
    for group in groups:
        accepted = np.flatnonzero(land.distance[group] < look)
        x = frame.x(land.theta[group])
        rates = local_rates(x, accepted, len(group), land.log_prior[group])
        for i, density, radius in zip(rates.row, rates.log_density, rates.radius, strict=True):
            starts.append((int(group[i]), float(density), float(radius), group))
    return sorted(starts, key=lambda start: -start[1])


def _first_spread(rows: Rows, start: FloatArray, look: float) -> FloatArray:
    """Covariance (r, r) of the nearest accepted rows, as a first guess of the spread."""
    x = rows.x[rows.distance < look]
    m = min(len(x), max(2 * rows.r + 5, min(5 * n_terms(rows.r), len(x) // 4)))
    away = ((x - start) ** 2).sum(axis=1)
    near = x[np.argsort(away, kind="stable")[:m]] - start
    scatter = near.T @ near / max(1, m - 1)
    size = float(np.trace(scatter)) / rows.r
    size = size if size > 0.0 else 1e-4
    return np.asarray(scatter + 1e-2 * size * np.eye(rows.r))


def serving_epsilon(place: Place, most: int, top: float) -> float | None:
    """The tolerance at which enough rows near a place are accepted, or about `top` at its peak.

    Rows are weighted by the shape of the peak: of them `top` times that sum are accepted where the
    rate at the peak is `top`.
    """
    square = place.squares(place.rows.x)
    near = square < reach(place.rows.r) ** 2
    distance = np.sort(place.rows.distance[near])
    n = int(min(most, top * np.exp(-0.5 * square[near]).sum()))
    n = max(n, _LEAST * n_terms(place.rows.r))
    n = min(n, int(np.isfinite(distance).sum()))
    return float(np.nextafter(distance[n - 1], np.inf)) if n > 0 else None
