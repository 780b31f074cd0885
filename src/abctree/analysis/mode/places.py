"""Places that may be modes: where acceptance is high, each with its fit."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from abctree.analysis.mode.landscape import Frame, Landscape, grouped
from abctree.analysis.mode.peaks import local_rates
from abctree.analysis.mode.quadratic import Fit, reach
from abctree.analysis.mode.regression import n_coefficients
from abctree.analysis.mode.scale import fit_in_scale
from abctree.analysis.mode.surface import Rows
from abctree.types import BoolArray, FloatArray, IntArray

#: Local acceptance that places are compared at.
_COMPARED_AT = 0.3
#: Places that are tried, kept, and how much less dense than the best they may be.
_TRIES, _KEPT, FAINTEST = 8, 5, 1.0 / 50.0
#: Standard errors by which a rate without a fit is taken to be lower.
_DOUBT = 2.0
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
    fit: Fit | None
    log_density: float  #: at the tolerance of the comparison
    acceptance: float
    n_accepted: int

    @property
    def peak(self) -> FloatArray:
        """(r,) By the fit, or where the place was found."""
        return self.start if self.fit is None else self.fit.peak

    @property
    def width(self) -> FloatArray:
        """(r, r) The spread by the fit, or the first guess."""
        return self.spread if self.fit is None else self.fit.spread

    @property
    def error(self) -> float:
        """Of its fit; inf without one."""
        return np.inf if self.fit is None else self.fit.error

    def at(self, epsilon: float) -> Place:
        """The same place at another tolerance."""
        fit = fit_in_scale(self.rows, epsilon, self.peak, self.width)
        if fit is not None:
            return replace(
                self, fit=fit, log_density=fit.log_density, acceptance=fit.acceptance,
                n_accepted=fit.n_accepted,
            )  # fmt: skip
        return self._unfitted(epsilon, _DOUBT)

    def beside(self, best: Place, epsilon: float) -> Place:
        """The same place at another tolerance, where it is, if a fit there climbs to the best."""
        moved = self.at(epsilon)
        if same(self, best) or not same(moved, best):
            return moved
        return replace(self, start=self.peak, spread=self.width)._unfitted(epsilon, 0.0)

    def _unfitted(self, epsilon: float, doubt: float) -> Place:
        """By the nearest rows alone: their rate, less so many of its standard errors."""
        away = ((self.rows.x - self.start) ** 2).sum(axis=1)
        k = min(len(away), int(np.clip(np.sqrt(len(away)), 20, 150)))
        near = np.argpartition(away, k - 1)[:k]
        hits = float((self.rows.distance[near] < epsilon).sum())
        low = max(hits - doubt * np.sqrt(hits * (1.0 - hits / k)), 0.5)
        prior = self.rows.log_prior
        log_prior = 0.0 if prior is None else float(prior[int(np.argmin(away))])
        return replace(
            self, fit=None, log_density=float(np.log(low / k)) + log_prior, acceptance=hits / k,
            n_accepted=int(hits),
        )  # fmt: skip


def places(
    land: Landscape, frame: Frame, look: float, epsilon: float | None
) -> tuple[list[Place], float]:
    """Candidates that differ, fitted at one tolerance, and that tolerance."""
    found: list[Place] = []
    first: Place | None = None
    compared_at = epsilon
    used = np.zeros(len(land), dtype=bool)
    tries = 0
    for row, log_density, radius, group in _starts(land, frame, look):
        if used[row]:
            continue
        if tries == _TRIES or len(found) == _KEPT:
            break
        if found and log_density < found[0].log_density + np.log(FAINTEST) - 1.0:
            break
        tries += 1
        rows = frame.rows(land, group)
        start = frame.x(land.theta[row])
        spread = _first_spread(rows, start, look)
        place = Place(group, rows, row, start, spread, None, -np.inf, 0.0, 0)
        if compared_at is None:
            compared_at = look
            if not np.isfinite(place.at(look).error):  # too few are that close
                compared_at = max(look, local_epsilon(place, _COMPARED_AT, look))
        place = place.at(compared_at)
        used[group[_near(place, 1.5 * radius)]] = True
        first = place if first is None else first
        if _stayed(place) and not any(same(place, other) for other in found):
            found.append(place)
    if not found and first is not None:  # every fit climbed away; where the first went is a peak
        found.append(first)
    return found, look if compared_at is None else compared_at


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
        prior = None if land.log_prior is None else land.log_prior[group]
        rates = local_rates(frame.x(land.theta[group]), accepted, len(group), prior)
        for i, density, radius in zip(rates.row, rates.log_density, rates.radius, strict=True):
            starts.append((int(group[i]), float(density), float(radius), group))
    return sorted(starts, key=lambda start: -start[1])


def _first_spread(rows: Rows, start: FloatArray, look: float) -> FloatArray:
    """Covariance (r, r) of the nearest accepted rows, as a first guess of the spread."""
    x = rows.x[rows.distance < look]
    m = min(len(x), max(2 * rows.r + 5, min(5 * n_coefficients(rows.r), len(x) // 4)))
    away = ((x - start) ** 2).sum(axis=1)
    near = x[np.argsort(away, kind="stable")[:m]] - start
    scatter = near.T @ near / max(1, m - 1)
    size = float(np.trace(scatter)) / rows.r
    size = size if size > 0.0 else 1e-4
    return np.asarray(scatter + 1e-2 * size * np.eye(rows.r))


def local_epsilon(place: Place, share: float, fallback: float) -> float:
    """The tolerance that accepts a share of the rows near a place; of those that did not fail."""
    away = squared(place.rows.x - place.peak, place.width)
    near = place.rows.distance[away < reach(place.rows.r) ** 2]
    near = np.sort(near[np.isfinite(near)])
    if len(near) == 0:
        return fallback
    return float(np.nextafter(near[min(len(near) - 1, int(share * len(near)))], np.inf))


def _near(place: Place, radius: float) -> BoolArray:
    """Rows of the group that belong to a place."""
    x = place.rows.x
    near = ((x - place.start) ** 2).sum(axis=1) <= radius**2
    if place.fit is not None:
        near |= squared(x - place.fit.peak, place.fit.spread) < 9.0
    return np.asarray(near)


def _stayed(place: Place) -> bool:
    """Whether the peak is where the place was found; a fit may climb away to a higher one."""
    if place.fit is None:
        return True
    away = place.start - place.fit.peak
    return bool(squared(away[None], place.fit.spread)[0] < reach(place.rows.r) ** 2)


def same(place: Place, other: Place) -> bool:
    """Whether two places are the same peak: within two spreads of either."""
    if place.group is not other.group and not np.array_equal(place.group, other.group):
        return False
    away = place.peak - other.peak
    return any(squared(away[None], p.width)[0] < 4.0 for p in (place, other))


def squared(away: FloatArray, spread: FloatArray) -> FloatArray:
    """Squared distances (n,) in spreads."""
    z = np.linalg.solve(np.linalg.cholesky(spread), away.T)
    return np.asarray((z**2).sum(axis=0))
