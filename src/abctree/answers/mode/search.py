"""The posterior mode from parameters and distances, however they were proposed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from abctree.answers.mode.answer import Mode
from abctree.answers.mode.landscape import Frame, Landscape
from abctree.answers.mode.places import Place, borne_out, distinct, places, serving_epsilon
from abctree.answers.mode.report import answer, nothing
from abctree.answers.mode.values import mode_of_values
from abctree.errors import ParameterError
from abctree.types import FloatArray

#: Draws that candidates are looked for among: this share of the simulations, within these numbers.
_LOOK_SHARE, _LOOK_LEAST, _LOOK_MOST = 0.05, 50, 1000
#: The tolerance of the answer is the smallest at which so many rows of the fit are accepted, if
#: that is not above this rate at the peak.
_ENOUGH, _TOP = 3000, 0.5


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
    accepted = land.distance < look
    if not accepted.any():
        return nothing(land, look)
    if len(land.free) == 0:
        return mode_of_values(land, look)
    frame = Frame.of(land, accepted)
    found, look = places(land, frame, look, (_ENOUGH, _TOP) if epsilon is None else None)
    if epsilon is None:
        found, look = _served(found, look)
    found = borne_out(distinct([place.fitted() for place in found]))
    return answer(land, frame, found, look, kernel_epsilon)


def look_epsilon(distance: FloatArray) -> float:
    """The tolerance at which candidates are looked for."""
    finite = np.sort(distance[np.isfinite(distance)])
    if len(finite) == 0:
        return np.inf
    n = int(np.clip(_LOOK_SHARE * len(distance), _LOOK_LEAST, _LOOK_MOST))
    return float(np.nextafter(finite[min(n, len(finite)) - 1], np.inf))


def _served(found: list[Place], epsilon: float) -> tuple[list[Place], float]:
    """The places at the tolerance that serves the best of them, and that tolerance."""
    for _ in range(3):  # the spread of the best changes with the tolerance, and another may be best
        at = serving_epsilon(found[0], _ENOUGH, _TOP)
        if at is None or at == epsilon:
            break
        epsilon = at
        found = distinct([place.at(epsilon) for place in found])
    return found, epsilon
