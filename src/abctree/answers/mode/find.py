"""`find_mode`: the posterior mode from parameters and distances, however they were proposed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

import numpy as np

from abctree.answers.mode.answer import Candidate, Mode
from abctree.answers.mode.fit import SATURATED, Place
from abctree.answers.mode.landscape import Known, Landscape, kernel_mode, look_epsilon
from abctree.answers.mode.places import FAINTEST, places
from abctree.answers.posterior import Posterior
from abctree.numbers import check_rule
from abctree.protocols import Circle
from abctree.types import FloatArray

#: Discrete values that are told.
_VALUES = 5
#: Draws for the probability that a value is the best.
_DRAWS = 4000


def find_mode(
    theta: FloatArray, distance: FloatArray, names: Sequence[str] | None = None,
    epsilon: float | None = None, *, kernel_epsilon: float | None = None,
    weight: FloatArray | None = None, **known: Unpack[Known],
) -> Mode:  # fmt: skip
    """The posterior mode from the parameters (n, p) and distances (n,) of *all* simulations.

    However they were proposed.  Candidates are the accepted simulations with the highest acceptance
    rate, times prior, among their nearest neighbours.  Each is refined by a local fit, and all are
    compared at one tolerance: `epsilon`, or the smallest that accepts enough simulations near the
    best.  `kernel_epsilon` and the importance weights `weight` (n,) are for the kernel mode only.

    Of discrete parameters the mode is over their values: over all combinations if there is no
    continuous parameter; else the fit is made at the best combination of values.  A discrete
    parameter of more than 50 values beside continuous ones is fitted like them and rounded.
    """
    check_rule("epsilon", epsilon, "above 0 or None", "Leave it out to let the fit choose.")
    distance = np.where(np.isnan(distance), np.inf, distance)
    names = tuple(names or (f"theta{j + 1}" for j in range(theta.shape[1])))
    look = look_epsilon(distance) if epsilon is None else epsilon
    if not (distance < look).any():
        return _mode(names, distance, look)
    land = Landscape(theta, distance, look, names, **known)
    if not land.column:
        return _mode_of_values(land, look)
    found, look = places(land, look, serve=epsilon is None)
    weight = np.ones(len(theta)) if weight is None else weight
    return _answer(land, found, look, np.where(distance < (kernel_epsilon or look), weight, 0.0))


def kernel_answer(draws: Posterior, circles: Sequence[Circle]) -> Mode:
    """The answer from accepted draws alone: a kernel mode at the best discrete values."""
    distance = np.zeros(len(draws))
    if len(draws) == 0:
        return _mode(draws.names, distance, draws.epsilon)
    known: Known = {"bounds": draws.bounds, "circles": circles}
    land = Landscape(draws.theta, distance, np.inf, draws.names, **known)
    heaviest = land.group == np.argmax(np.bincount(land.group, draws.weights))
    best = land.at(
        kernel_mode(land.x[heaviest], draws.weights[heaviest]), np.flatnonzero(heaviest)[0]
    )
    note = (
        "The table holds the closest simulations only, and a fit needs the others, too: this "
        "is the mode of a kernel density estimate, without an error. Keep all simulations."
    )
    only = [Candidate(best, 1.0, np.nan, len(draws))]
    return _mode(draws.names, distance, draws.epsilon, only, [note], kernel=best)


def _mode(
    names: tuple[str, ...], distance: FloatArray, epsilon: float,
    candidates: Sequence[Candidate] = (), notes: Sequence[str] = (), **estimates: FloatArray,
) -> Mode:  # fmt: skip
    nowhere, best = np.full(len(names), np.nan), next(iter(candidates), None)
    if best is None:
        notes = [
            f"Nothing was accepted at epsilon {epsilon:.4g}: there is no mode to speak of. Use a "
            "larger epsilon, and check that the simulator can produce the observed summaries."
        ]
    return Mode(
        best.theta if best else nowhere, best.covariance if best else None, tuple(candidates),
        {"quadratic": nowhere, "kernel": nowhere, "box": nowhere, **estimates}, epsilon,
        box=None, names=names, n_simulations=len(distance),
        n_accepted=int((distance < epsilon).sum()), notes=tuple(notes),
    )  # fmt: skip


def _mode_of_values(land: Landscape, epsilon: float) -> Mode:
    """The value, or combination of values, of the highest posterior mass."""
    accepted, first = land.distance < epsilon, np.unique(land.group, return_index=True)[1]
    hits, count = (np.bincount(land.group, of).astype(np.float64) for of in (accepted, None))
    # Strictly between 0 and 1, so that alpha and beta are positive when all rows are accepted.
    r = (accepted.sum() + 0.5) / (len(accepted) + 1.0)
    alpha, beta, log_prior = hits + r, count - hits + 1.0 - r, land.log_prior[first]
    log_density = np.log(alpha / (alpha + beta)) + log_prior
    order = np.argsort(-log_density, kind="stable")
    eta = np.random.default_rng(0).beta(alpha, beta, (_DRAWS, len(first)))
    with np.errstate(divide="ignore"):
        sure = float(np.mean(np.argmax(np.log(eta) + log_prior, axis=1) == order[0]))
    relative = np.exp(log_density - log_density[order[0]])
    value, rate = land.theta[first], hits / count
    candidates = [
        Candidate(value[k], relative[k], rate[k], int(hits[k]), shape="value")
        for k in order[:_VALUES]
    ]
    of = f"Of {len(first)} values this one is the mode with probability {sure:.2f}, given these"
    said = [f"{of} simulations."]
    return _mode(land.names, land.distance, epsilon, candidates, said, box=candidates[0].theta)


def _answer(land: Landscape, places: list[Place], epsilon: float, weight: FloatArray) -> Mode:
    """The answer at a tolerance, from places of which the best is the first."""
    best, like = places[0], places[0].rows.group[0]
    candidates = [
        Candidate(
            land.at(one.peak, one.rows.group[0]), density, one.acceptance, one.n_accepted,
            covariance=None if one.covariance is None else land.covariance(one.covariance),
            spread=None if one.flat is None else land.covariance(one.spread), shape=one.shape,
        )
        for one in places
        if (density := float(np.exp(one.log_density - best.log_density))) >= FAINTEST
    ]  # fmt: skip
    found, notes = {}, _notes(land, best, epsilon)
    use = best.rows.group[weight[best.rows.group] > 0.0]
    if len(use):  # the paper's: of all accepted draws
        found["kernel"] = land.at(kernel_mode(land.x[use], weight[use]), like)
    if best.flat is not None:
        found["quadratic"] = land.at(best.peak, like)
    if len(land.values):
        at = ", ".join(f"{land.names[j]}={land.theta[like, j]:g}" for j in land.values)
        notes.append(f"Of the discrete parameters the best values are {at}.")
    return _mode(land.names, land.distance, epsilon, candidates, notes, **found)


def _notes(land: Landscape, place: Place, epsilon: float) -> list[str]:
    flat = place.flat
    if flat is None:
        in_all = int((land.distance < epsilon).sum())
        return [
            f"Only {place.n_accepted} accepted simulations are near the mode ({in_all} in "
            "all): too few for a fit. It is the densest place among them, without an error. Use "
            "more simulations, or a larger epsilon."
        ]
    if place.acceptance > SATURATED:
        return [
            f"Nearly all simulations near the mode are accepted ({place.acceptance:.0%}): at this "
            "epsilon the top is flat, and no error is given. A smaller epsilon may show a peak."
        ]
    said, others = [], land.names_of(place.unknown & ~flat)
    along = ", ".join(others)
    if flat.any():
        said.append(
            f"The posterior is flat along {', '.join(land.names_of(flat))}, or nearly as wide "
            "there as the prior: where its mode is there cannot be told, and no error is given. "
            "Another summary may tell."
        )
    if place.shape == "unclear":
        said.append(
            f"{place.n_accepted} accepted simulations near the mode do not show a peak along "
            f"{'a combination of ' * (len(others) > 1)}{along}: no error is given. It may be a "
            "ridge; else use more simulations."
        )
    elif others:
        said.append(
            f"The mode is at the end of the prior's support in {along}: the posterior may still "
            "rise beyond it, and the error is that of the other parameters only."
        )
    return said
