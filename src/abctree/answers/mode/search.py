"""The posterior mode from parameters and distances, however they were proposed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from abctree.answers.mode.answer import Mode
from abctree.answers.mode.fit import Rows, reach
from abctree.answers.mode.landscape import Frame, Landscape, grouped
from abctree.answers.mode.peaks import local_rates
from abctree.answers.mode.places import Place, borne_out, distinct
from abctree.answers.mode.regression import n_terms
from abctree.answers.mode.report import FAINTEST, answer, mode_of_values, nothing
from abctree.errors import ParameterError
from abctree.types import FloatArray, IntArray

#: Draws that candidates are looked for among: this share of the simulations, within these numbers.
_LOOK_SHARE, _LOOK_LEAST, _LOOK_MOST = 0.05, 50, 1000
#: Places that are tried and kept, and combinations of values of discrete parameters.
_TRIES, _KEPT, _GROUPS = 8, 5, 12
#: The tolerance of the answer is the smallest at which so many rows of the fit are accepted, if
#: that is not above this rate at the peak; and so many for each term of a quadratic, at least.
ENOUGH, TOP, _LEAST = 3000, 0.5, 4


def find_mode(
    theta: FloatArray,
    distance: FloatArray,
    *,
    names: Sequence[str] | None = None,
    log_prior: FloatArray | None = None,
    prior_spread: FloatArray | None = None,
    bounds: FloatArray | None = None,
    weight: FloatArray | None = None,
    epsilon: float | None = None,
    kernel_epsilon: float | None = None,
) -> Mode:
    """The posterior mode from parameters and distances, however they were proposed.

    Candidates are the accepted simulations with the highest acceptance rate, times prior, among
    their nearest neighbours.  Each is refined by a local fit, and all are compared at one
    tolerance, the smallest that accepts enough simulations near the best.

    Parameters
    ----------
    theta : (n, p) array
        Parameters of *all* simulations near the mode, accepted or not.
    distance : (n,) array
        Their distances; inf for a failure.
    names : sequence of str, optional
        Of the columns.
    log_prior : (n,) array, optional
        Log-density of the prior at theta, up to a constant; None if it is flat.
    prior_spread : (p, p) array, optional
        Covariance of the prior, which no spread exceeds; by default that of a flat prior between
        the bounds, or of the rows.
    bounds : (p, 2) array, optional
        Ends of the prior's support; nan for a parameter that is discrete, fixed or on a simplex.
    weight : (n,) array, optional
        Importance weights, for the kernel mode only.
    epsilon : float, optional
        The tolerance, instead of the one that the rule chooses.
    kernel_epsilon : float, optional
        That of the kernel mode; default that of the answer.

    Returns
    -------
    Mode
        Without a box.

    Raises
    ------
    ParameterError
        If shapes disagree, or `epsilon` is not above 0.

    Notes
    -----
    Of discrete parameters the mode is over their values: over all combinations if there is no
    continuous parameter; else the fit is made at the best combination of values.  A discrete
    parameter of more than 50 values beside continuous ones is fitted like them and rounded.
    """
    land = Landscape.of(
        theta, distance, names, log_prior=log_prior, bounds=bounds, weight=weight,
        prior_spread=prior_spread,
    )  # fmt: skip
    if epsilon is not None and not epsilon > 0.0:
        raise ParameterError(
            f"`epsilon` must be above 0, but got {epsilon}. Leave it out to let the fit choose."
        )
    look = look_epsilon(land.distance) if epsilon is None else epsilon
    if not (land.distance < look).any():
        return nothing(land, look)
    if len(land.free) == 0:
        return mode_of_values(land, look)
    frame = Frame.of(land, land.distance < look)
    found, look = _places(land, frame, look, serve=epsilon is None)
    found = borne_out(distinct([place.fitted() for place in found]))
    return answer(land, frame, found, look, kernel_epsilon)


def look_epsilon(distance: FloatArray) -> float:
    """The tolerance at which candidates are looked for."""
    finite = np.sort(distance[np.isfinite(distance)])
    if len(finite) == 0:
        return np.inf
    n = int(np.clip(_LOOK_SHARE * len(distance), _LOOK_LEAST, _LOOK_MOST))
    return float(np.nextafter(finite[min(n, len(finite)) - 1], np.inf))


def _places(
    land: Landscape, frame: Frame, look: float, *, serve: bool
) -> tuple[list[Place], float]:
    """Candidates that differ, the densest first, and the tolerance at which they are compared.

    That is at least the one that serves the first of them.
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
        rows, start = frame.rows(land, group), frame.x(land.theta[row])
        place = Place(group, rows, row, start, _first_spread(rows, start, look))
        if tries == 1 and serve:
            look = max(look, serving_epsilon(place) or look)
        place = place.at(look)
        here = ((rows.x - start) ** 2).sum(axis=1) <= (1.5 * radius) ** 2
        here |= (place.window is not None) & (place.squares(rows.x) < 9.0)
        used[group[here]] = True
        found.append(place)
    found = distinct(found)
    for _ in range(3 if serve else 0):  # the best, and its spread, change with the tolerance
        at = serving_epsilon(found[0])
        if at is None or at == look:
            break
        look = at
        found = distinct([place.at(look) for place in found])
    return found, look


def _starts(land: Landscape, frame: Frame, look: float) -> list[tuple[int, float, float, IntArray]]:
    """Accepted rows with their local density, the highest first, from all groups of values."""
    _, label = grouped(land.theta[:, land.values])
    hits = np.bincount(label, land.distance < look)
    chosen = np.argsort(-hits, kind="stable")[:_GROUPS]
    starts = []
    for group in [np.flatnonzero(label == g) for g in chosen if hits[g] > 0.0]:
        accepted = np.flatnonzero(land.distance[group] < look)
        x = frame.x(land.theta[group])
        for i, density, radius in zip(
            *local_rates(x, accepted, land.log_prior[group]), strict=True
        ):
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


def serving_epsilon(place: Place) -> float | None:
    """The tolerance at which enough rows near a place are accepted, or about `TOP` at its peak.

    Rows are weighted by the shape of the peak: of them `TOP` times that sum are accepted where the
    rate at the peak is `TOP`.
    """
    square = place.squares(place.rows.x)
    near = square < reach(place.rows.r) ** 2
    distance = np.sort(place.rows.distance[near])
    n = int(min(ENOUGH, TOP * np.exp(-0.5 * square[near]).sum()))
    n = max(n, _LEAST * n_terms(place.rows.r))
    n = min(n, int(np.isfinite(distance).sum()))
    return float(np.nextafter(distance[n - 1], np.inf)) if n > 0 else None
