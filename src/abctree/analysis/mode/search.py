"""The posterior mode from parameters and distances, however they were proposed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy import special

from abctree.analysis.mode.answer import Mode
from abctree.analysis.mode.landscape import Frame, Landscape
from abctree.analysis.mode.places import Place, local_epsilon, places, same
from abctree.analysis.mode.quadratic import Fit
from abctree.analysis.mode.report import answer, nothing
from abctree.analysis.mode.values import mode_of_values
from abctree.errors import ParameterError
from abctree.types import FloatArray

#: Draws that candidates are looked for among: this share of the simulations, within these numbers.
_LOOK_SHARE, _LOOK_LEAST, _LOOK_MOST = 0.05, 50, 1000
#: Local acceptance along the ladder of the final fit, inwards and outwards.
_LADDER = (0.2, 0.13, 0.08, 0.05, 0.03), (0.45, 0.6)
#: The tolerance is lowered while the error stays below this share of a posterior standard
#: deviation, or within this factor of the least error.
_GOOD_ERROR, _AS_GOOD = 0.03, 1.1
#: Variance that the likelihood of the regression does not know of, beside 1.  A run that seeks the
#: mode plays on where it was lucky and leaves where it was not.  Set so that 90 % ellipses of
#: `map_tree` hold the mode as often, in one, two and five dimensions (benchmarks/map_modes.py).
_ADAPTIVE = 0.25
#: Fits at two tolerances disagree when a difference as large has a smaller chance than this, if
#: they were independent.  They share rows, so that the true chance is smaller yet: a finer fit of a
#: run that was lucky there is not to be believed more than a coarser one.
_DISAGREE = 0.002


def find_mode(
    theta: FloatArray,
    distance: FloatArray,
    *,
    names: Sequence[str] | None = None,
    log_prior: FloatArray | None = None,
    bounds: FloatArray | None = None,
    weight: FloatArray | None = None,
    epsilon: float | None = None,
    kernel_epsilon: float | None = None,
) -> Mode:
    """The posterior mode from parameters and distances, however they were proposed.

    Candidates are the accepted simulations with the highest acceptance rate, times prior, among
    their nearest neighbours.  Each is refined by a local-quadratic fit, and all are compared at one
    tolerance.  The best is fitted on a ladder of tolerances: the smallest at which the standard
    error is at most 3 % of a posterior standard deviation, or hardly more than the least error on
    the ladder, gives the answer.

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
    bounds : (p, 2) array, optional
        Ends of the prior's support; nan for a parameter that is discrete, fixed or on a simplex.
    weight : (n,) array, optional
        Importance weights, for the kernel mode only.
    epsilon : float, optional
        The tolerance, instead of the ladder.
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
    land = Landscape.of(theta, distance, names, log_prior, bounds, weight)
    if epsilon is not None and not epsilon > 0.0:
        raise ParameterError(f"`epsilon` must be above 0, but got {epsilon}.")
    look = look_epsilon(land.distance) if epsilon is None else epsilon
    if not (land.distance < look).any():
        return nothing(land, look)
    if len(land.free) == 0:
        return mode_of_values(land, look)
    return _mode_of_peaks(land, look, epsilon, kernel_epsilon)


def look_epsilon(distance: FloatArray) -> float:
    """The tolerance at which candidates are looked for."""
    finite = np.sort(distance[np.isfinite(distance)])
    if len(finite) == 0:
        return np.inf
    n = int(np.clip(_LOOK_SHARE * len(distance), _LOOK_LEAST, _LOOK_MOST))
    return float(np.nextafter(finite[min(n, len(finite)) - 1], np.inf))


def _mode_of_peaks(
    land: Landscape, look: float, epsilon: float | None, kernel_epsilon: float | None
) -> Mode:
    accepted = land.distance < look
    frame = Frame.of(land, accepted)
    found, compared_at = places(land, frame, look, epsilon)
    found.sort(key=lambda place: -place.log_density)
    best = found[0]
    if epsilon is None:
        best, at = _on_ladder(best, compared_at)
        rest = found[1:]
        moved = (place.at(at) for place in rest)
        rival = max(moved, key=lambda place: place.log_density, default=best)
        if rival.log_density > best.log_density:  # at this tolerance another one is higher
            rest = [place for place in found if place.row != rival.row]
            best, at = _on_ladder(rival, at)
        others = [place.beside(best, at) for place in rest]
        others = [p for i, p in enumerate(others) if not any(same(p, o) for o in others[:i])]
        others = [place for place in others if not same(place, best)]
        found = [best, *sorted(others, key=lambda place: -place.log_density)]
        compared_at = at
    return answer(land, frame, found, compared_at, kernel_epsilon)


def _on_ladder(place: Place, epsilon: float) -> tuple[Place, float]:
    """The place at the tolerance that serves it best, and that tolerance."""
    tried = [(epsilon, place)]
    for shares in _LADDER:
        current = place
        for share in shares:
            at = local_epsilon(place, share, epsilon)
            current = current.at(at)
            if current.fit is None or not same(current, place):  # it climbed to another peak
                break
            tried.append((at, current))
    sound = _agreeing([(at, p) for at, p in tried if np.isfinite(p.error)])
    if not sound:
        return place, epsilon
    finest = sound[0][1].fit  # spreads grow with the tolerance: all errors in one unit
    errors = [np.inf if p.fit is None else p.fit.error_in(finest) for _, p in sound]
    enough = max(_GOOD_ERROR, _AS_GOOD * min(errors))
    at, best = next(t for t, error in zip(sound, errors, strict=True) if error <= enough)
    if best.fit is not None:
        inflated = (1.0 + _ADAPTIVE) * best.fit.covariance
        best = replace(best, fit=replace(best.fit, covariance=inflated))
    return best, at


def _agreeing(fitted: list[tuple[float, Place]]) -> list[tuple[float, Place]]:
    """Of fits of one peak, those that agree with all fits at smaller tolerances.

    A larger tolerance always has the smaller standard error.  What it costs is that the peak moves
    and that neighbouring peaks merge, and this is how it shows (Lepski's rule).
    """
    kept: list[tuple[float, Place]] = []
    for at, place in sorted(fitted, key=lambda t: t[0]):
        if not all(_agree(place.fit, other.fit) for _, other in kept):
            break
        kept.append((at, place))
    return kept


def _agree(fit: Fit | None, finer: Fit | None) -> bool:
    if fit is None or finer is None:
        return False
    free = ~(np.isnan(np.diag(fit.covariance)) | np.isnan(np.diag(finer.covariance)))
    if not free.any():
        return True
    pick = np.ix_(free, free)
    away = (fit.peak - finer.peak)[free]
    both = fit.covariance[pick] + finer.covariance[pick]
    surprise = float(away @ np.linalg.solve(both, away))
    return bool(surprise < special.chdtri(int(free.sum()), _DISAGREE))
