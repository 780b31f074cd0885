"""Places that may be modes: where acceptance is high, each with its fit; and the tolerance."""

from __future__ import annotations

from dataclasses import replace
from itertools import repeat

import numpy as np
import scipy  # its parts are imported when they are used
from scipy import special

from abctree.answers.mode.fit import CLIMB, Place, Rows, Window, climb, fit_peak, reach, squares
from abctree.answers.mode.landscape import Landscape, kernel_mode, smallest
from abctree.answers.mode.regression import likelihood, n_terms
from abctree.types import BoolArray, FloatArray

#: Candidates are told down to this density beside the best.
FAINTEST = 1.0 / 50.0
#: Places that are tried, and combinations of values of discrete parameters.
_TRIES, _GROUPS = 5, 12
#: Accepted rows at which a local rate is worked out, and least and most neighbours in it.
_MOST, _FEWEST_NEIGHBOURS, _MOST_NEIGHBOURS = 1500, 20, 150
#: The tolerance of the answer is the smallest at which so many rows of the fit are accepted, if
#: that is not above this rate at the peak; and so many for each term of a quadratic, at least.
ENOUGH, TOP, _LEAST = 3000, 0.5, 4
#: A ridge is looked for up to so many times the reach of a fit, by rates among so many rows.
RING, _NEIGHBOURS = 2.0, 20
#: Standard errors by which a rate of nearest rows is taken to be lower, or higher.
_DOUBT = 2.0
#: Each start of a climb is so many times as broad as the one before, and a fit is broad beside
#: another if its spread is half as many times that of the other.
_BROADER = 4.0
#: A thin peak stands where a gain in likelihood as large as its own has a smaller chance than this
#: at a fixed place: thin peaks are looked for everywhere, by the run and by the fit.
CHANCE = 1e-6


def at(place: Place, epsilon: float) -> Place:
    """A place at another tolerance, climbed to its peak."""
    rows = replace(place.rows, epsilon=epsilon)
    window = climb_in_scale(rows, place.peak, place.spread)
    if window is not None:
        return Place(rows, window.centre, window.spread, window.top.height, window=window)
    # By the nearest rows alone: their rate, less some of its standard errors.
    k = n_neighbours(len(rows.x))
    near = np.argsort(((rows.x - place.peak) ** 2).sum(axis=1), kind="stable")[:k]
    hits = int(rows.accepted[near].sum())
    low = np.log(max(hits - _DOUBT * np.sqrt(hits * (1.0 - hits / k)), 0.5) / k)
    return Place(rows, place.peak, place.spread, low + rows.log_prior[near[0]], hits / k, hits)


def fitted(place: Place) -> Place:
    """A place with a fit of the rows that it climbed to, if there are enough."""
    found = fit_peak(place.window) if place.window else place
    if not found.unknown.all() and _is_ridge(found):
        found = found.without_error()
    if not found.unknown.all():
        return found
    # A top that the rows do not bear out may be anywhere.
    rows, far = place.rows, found is place or place.squares(found.peak[None])[0] > 1.0
    if found.shape == "unclear" and far:
        use = rows.accepted & (place.squares(rows.x) < reach(rows.r) ** 2)
        peak = kernel_mode(rows.x[use], np.ones(use.sum())) if use.any() else place.peak
        found = replace(found, peak=peak)
    return replace(found, spread=place.spread, log_density=place.log_density)


def places(land: Landscape, look: float, *, serve: bool) -> tuple[list[Place], float]:
    """Candidates that differ, the densest first, and the tolerance at which they are compared.

    That is at least the one that serves the first of them.
    """
    starts, found, used = _starts(land, look), list[Place](), np.zeros(len(land.theta), dtype=bool)
    for log_density, row, radius, rows in starts:
        faint = log_density < starts[0][0] + np.log(FAINTEST) - 1.0
        if faint or len(found) == _TRIES:
            break
        if used[row]:
            continue
        start = land.x[row]
        place = Place(rows, start, _first_spread(replace(rows, epsilon=look), start))
        if serve and not found:
            look = max(look, serving_epsilon(place))
        place = at(place, look)
        here = ((rows.x - start) ** 2).sum(axis=1) <= (1.5 * radius) ** 2
        here |= (place.window is not None) & (place.squares(rows.x) < 9.0)
        used[rows.group[here]] = True
        found.append(place)
    found = _distinct(found)
    for _ in range(3 if serve else 0):  # the best, and its spread, change with the tolerance
        last, look = look, serving_epsilon(found[0])
        if look == last:
            break
        found = _distinct([at(place, look) for place in found])
    best, *others = found = _distinct([fitted(place) for place in found])
    # A rival that is no peak is on a ridge with the best, which is where the run was lucky.
    rivals = [p for p in others if p.log_density > best.log_density - np.log(2.0)]
    if best.covariance is not None and any(rival.unknown.all() for rival in rivals):
        found[0] = best.without_error()
    return found, look


def _starts(land: Landscape, look: float) -> list[tuple[float, int, float, Rows]]:
    """Log-densities by the nearest rows of accepted ones, the highest first, from all groups.

    Each has the number of its row, the distance to its farthest neighbour, and the rows of its
    group.  Of many accepted rows an even selection is looked at.
    """
    starts: list[tuple[float, int, float, Rows]] = []
    hits = np.bincount(land.group, land.distance < look)
    for g in np.argsort(-hits, kind="stable")[: min(_GROUPS, np.count_nonzero(hits))]:
        rows = land.rows(np.flatnonzero(land.group == g), look)
        accepted, k = np.flatnonzero(rows.accepted), n_neighbours(len(rows.x))
        chosen = accepted[:: 1 + (len(accepted) - 1) // _MOST]
        found = scipy.spatial.cKDTree(rows.x).query(rows.x[chosen], k=[*range(1, k + 1)])
        distance, neighbour = map(np.asarray, found)
        # Shrunk towards the rate of all rows by one acceptance: few neighbours are no evidence.
        rate = (rows.accepted[neighbour].sum(axis=1) + 1.0) / (k + len(rows.x) / len(accepted))
        density = np.log(rate) + rows.log_prior[chosen]
        starts += zip(density, rows.group[chosen], distance[:, -1], repeat(rows))
    return sorted(starts, key=lambda start: -start[0])


def n_neighbours(n: int) -> int:
    """How many of n rows a local rate is of: about √n."""
    return min(n, int(np.clip(np.sqrt(n), _FEWEST_NEIGHBOURS, _MOST_NEIGHBOURS)))


def _first_spread(rows: Rows, start: FloatArray) -> FloatArray:
    """Covariance (r, r) of the nearest accepted rows, as a first guess of the spread."""
    away = rows.x[rows.accepted] - start
    m = min(len(away), max(2 * rows.r + 5, min(5 * n_terms(rows.r), len(away) // 4)))
    near = away[np.argsort((away**2).sum(axis=1), kind="stable")[:m]]
    scatter = near.T @ near / max(1, m - 1)
    size = float(np.trace(scatter)) / rows.r or 1e-4
    return np.asarray(scatter + 1e-2 * size * np.eye(rows.r))


def serving_epsilon(place: Place) -> float:
    """The tolerance at which enough rows near a place are accepted, or about `TOP` at its peak.

    There `TOP` times the sum of the rows is accepted, weighted by the shape of the peak.
    """
    rows, square = place.rows, place.squares(place.rows.x)
    near = square < reach(rows.r) ** 2
    n = min(ENOUGH, TOP * np.exp(-0.5 * square[near]).sum())
    return smallest(rows.distance[near], max(n, _LEAST * n_terms(rows.r)), rows.epsilon)


def _distinct(moved: list[Place]) -> list[Place]:
    """The densest first, without those within two spreads of a denser one, of theirs or its own."""
    kept: list[Place] = []
    for place in sorted(moved, key=lambda place: -place.log_density):
        denser = [other for other in kept if other.rows.group is place.rows.group]
        away = [a.squares(b.peak[None]) for o in denser for a, b in ((place, o), (o, place))]
        if min(away, default=np.inf) >= 4.0:
            kept.append(place)
    return kept


def climb_in_scale(rows: Rows, start: FloatArray, spread: FloatArray) -> Window | None:
    """Climb as `climb`; to a broader peak where a thin one is not borne out.

    A run leaves dense little clusters of rows, and where it was lucky a fit to one finds a thin
    peak.  So a peak that is thin beside the accepted rows is also climbed to from broader starts,
    and stands only where its rows are far more likely under it than under the broader fit.
    """
    best = climb(rows, start, spread)
    size = np.ptp(rows.x[rows.accepted], axis=0) if rows.accepted.any() else np.zeros(rows.r)
    if best is not None:
        start, spread = best.centre, best.spread
    wide = _BROADER**2 * spread
    while (np.sqrt(np.diag(wide)) < 0.5 * size).all():
        broad = climb(rows, start, wide)
        wide = _BROADER**2 * wide
        if broad is None:
            continue
        if best is not None:
            log_sizes = [np.linalg.slogdet(one.spread)[1] / (2 * rows.r) for one in (best, broad)]
            if np.diff(log_sizes)[0] < np.log(0.5 * _BROADER):
                continue
            if _stands(best, broad):
                break
        best, start, wide = broad, broad.centre, _BROADER**2 * broad.spread
    return best


def _stands(thin: Window, broad: Window) -> bool:
    """Whether rows of a thin peak are far likelier under its fit than under a broad one."""
    x = thin.centre + thin.size * thin.y
    if squares(x, broad.centre, broad.spread).max() > reach(thin.rows.r, CLIMB) ** 2:
        return True
    own = thin.top.of.value(thin.y)
    other = broad.top.of.value((x - broad.centre) / broad.size)
    gain = likelihood(own, thin.accepted)[0] - likelihood(other, thin.accepted)[0]
    return bool(2.0 * gain > special.chdtri(n_terms(thin.rows.r), CHANCE))


def _is_ridge(fit: Place) -> bool:
    """Whether the density is high where the fit says low, without a valley between.

    High is above half of the top's by the rates among the nearest rows, two standard errors allowed
    for; low is below a tenth.  Coordinates without an error are left out.
    """
    rows, known = fit.rows, ~fit.unknown
    root = np.linalg.cholesky(fit.spread[np.ix_(known, known)])
    z = np.linalg.solve(root, (rows.x[:, known] - fit.peak[known]).T).T
    outer, square = (RING * reach(rows.r)) ** 2, (z**2).sum(axis=1)
    at = z[rows.accepted & (square > 2.0 * np.log(10.0)) & (square < outer)]
    if len(at) == 0 or len(z) <= _NEIGHBOURS:
        return False
    tree, at = scipy.spatial.cKDTree(z), at[:: 1 + len(at) // 300]

    def high(at: FloatArray, errors: float) -> BoolArray:
        """Points (m,) of z at which a rate so many standard errors higher is high."""
        near = np.asarray(tree.query(at, k=_NEIGHBOURS + 1)[1])[:, 1:]
        rate = rows.accepted[near].mean(axis=1)
        rate = rate + errors * np.sqrt(rate * (1.0 - rate) / _NEIGHBOURS)
        density = np.log(np.maximum(rate, 1e-300)) + rows.log_prior[near].mean(axis=1)
        return np.asarray(density > fit.log_density - np.log(2.0))

    at = at[high(at, -_DOUBT)]
    return len(at) > 0 and bool(high(0.5 * at, _DOUBT).any())
