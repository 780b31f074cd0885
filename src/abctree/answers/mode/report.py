"""From fitted places to a `Mode`, with what to know in plain words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from abctree.answers.mode.answer import Candidate, Mode
from abctree.answers.mode.average import SATURATED
from abctree.answers.mode.fit import reach
from abctree.answers.mode.landscape import Frame, Landscape, grouped
from abctree.answers.mode.peaks import kernel_mode
from abctree.answers.mode.places import FAINTEST, Place
from abctree.types import BoolArray, FloatArray


def answer(
    land: Landscape,
    frame: Frame,
    places: list[Place],
    epsilon: float,
    kernel_epsilon: float | None,
) -> Mode:
    """The answer at a tolerance, from places of which the best is the first."""
    accepted = land.distance < epsilon
    kernel = _kernel(land, frame, places[0], kernel_epsilon or epsilon)
    top = places[0].log_density
    candidates = [
        _candidate(land, frame, place, float(np.exp(place.log_density - top)), epsilon)
        for place in places
    ]
    first = candidates[0]
    nowhere = np.full(land.theta.shape[1], np.nan)
    fit = places[0].fit
    quadratic = nowhere if fit is None else frame.theta(fit.peak, first.theta, land)
    return Mode(
        theta=first.theta,
        covariance=first.covariance,
        candidates=tuple(c for c in candidates if c.density >= FAINTEST),
        estimates={"quadratic": quadratic, "kernel": kernel, "box": nowhere},
        epsilon=epsilon,
        box=None,
        names=land.names,
        n_simulations=len(land),
        n_accepted=int(accepted.sum()),
        notes=tuple(_notes(land, frame, places[0], first, int(accepted.sum()))),
    )


def nothing(land: Landscape, epsilon: float) -> Mode:
    """The answer where nothing was accepted."""
    nowhere = np.full(land.theta.shape[1], np.nan)
    return Mode(
        theta=nowhere,
        covariance=None,
        candidates=(),
        estimates=dict.fromkeys(("quadratic", "kernel", "box"), nowhere),
        epsilon=epsilon,
        box=None,
        names=land.names,
        n_simulations=len(land),
        n_accepted=0,
        notes=(
            f"Nothing was accepted at epsilon {epsilon:.4g}: there is no mode to speak of. Use a "
            "larger epsilon, and check that the simulator can produce the observed summaries.",
        ),
    )


def kernel_answer(land: Landscape, epsilon: float, n_simulations: int) -> Mode:
    """The answer from accepted draws alone: a kernel mode at the best discrete values."""
    if len(land) == 0:
        return nothing(land, epsilon)
    first, group = grouped(land.theta[:, land.values])
    heaviest = int(np.argmax(np.bincount(group, land.weight)))
    use = group == heaviest
    theta = land.theta[first[heaviest]]
    if len(land.free):
        frame = Frame.of(land, use)
        theta = frame.theta(kernel_mode(frame.x(land.theta[use]), land.weight[use]), theta, land)
    nowhere = np.full(len(theta), np.nan)
    return Mode(
        theta=theta,
        covariance=None,
        candidates=(Candidate(theta, 1.0, np.nan, len(land)),),
        estimates={"quadratic": nowhere, "kernel": theta, "box": nowhere},
        epsilon=epsilon,
        box=None,
        names=land.names,
        n_simulations=n_simulations,
        n_accepted=len(land),
        notes=(
            "The table holds the closest simulations only, and a fit needs the others, too: this "
            "is the mode of a kernel density estimate, without an error. Keep all simulations.",
        ),
    )


def _candidate(
    land: Landscape, frame: Frame, place: Place, density: float, epsilon: float
) -> Candidate:
    fit, like = place.fit, land.theta[place.row]
    if fit is None:
        theta = frame.theta(_local_kernel(place, epsilon), like, land)
        return Candidate(theta, density, place.acceptance, place.n_accepted)
    known = not fit.unknown.all()
    # The top of a polynomial that does not show a peak may be far from the rows' own.
    x = fit.peak
    if fit.shape == "unclear" and replace(place, fit=None).squares(x[None])[0] > 1.0:
        x = _local_kernel(place, epsilon)
    return Candidate(
        theta=frame.theta(x, like, land),
        density=density,
        acceptance=place.acceptance,
        n_accepted=place.n_accepted,
        covariance=frame.covariance(fit.covariance) if known else None,
        spread=frame.covariance(fit.spread),
        shape=fit.shape,
    )


def _local_kernel(place: Place, epsilon: float) -> FloatArray:
    """Kernel mode (r,) of the accepted rows around a place that no fit describes."""
    rows = place.rows
    use = (rows.distance < epsilon) & (place.squares(rows.x) < reach(rows.r) ** 2)
    if not use.any():
        return place.start
    return kernel_mode(rows.x[use], np.ones(int(use.sum())))


def _kernel(land: Landscape, frame: Frame, place: Place, epsilon: float) -> FloatArray:
    """The paper's: the mode of a kernel density estimate of all accepted draws."""
    use = place.group[(land.distance[place.group] < epsilon) & (land.weight[place.group] > 0.0)]
    if len(use) == 0:
        return np.full(land.theta.shape[1], np.nan)
    x = kernel_mode(frame.x(land.theta[use]), land.weight[use])
    return frame.theta(x, land.theta[place.row], land)


def _notes(
    land: Landscape, frame: Frame, place: Place, first: Candidate, n_accepted: int
) -> list[str]:
    fit = place.fit
    said: list[str] = []
    if fit is None:
        said.append(
            f"Only {first.n_accepted} accepted simulations are near the mode ({n_accepted} in "
            "all): too few for a fit. It is the densest place among them, without an error. Use "
            "more simulations, or a larger epsilon."
        )
        return said + _values(land, first)
    if fit.acceptance > SATURATED:
        said.append(
            f"Nearly all simulations near the mode are accepted ({fit.acceptance:.0%}): at this "
            "epsilon the top is flat, and no error is given. A smaller epsilon may show a peak."
        )
    elif fit.shape in ("flat", "unclear"):
        names = _spelled(land, frame, fit.unknown)
        if fit.shape == "flat":
            said.append(
                f"The posterior is flat along {names}: any point there is as good a mode, and no "
                "error is given. Another summary may tell them apart."
            )
        else:
            said.append(
                f"{fit.n_accepted} accepted simulations near the mode do not show a peak along "
                f"{names}: no error is given. It may be a ridge; else use more simulations."
            )
    if fit.shape == "border":
        said.append(
            "The mode is at the end of the prior's support in "
            f"{', '.join(_names(land, frame, fit.unknown))}: the posterior may "
            "still rise beyond it, and the error is that of the other parameters only."
        )
    return said + _values(land, first)


def _values(land: Landscape, first: Candidate) -> list[str]:
    if not len(land.values):
        return []
    at = ", ".join(f"{land.names[j]}={first.theta[j]:g}" for j in land.values)
    return [f"Of the discrete parameters the best values are {at}."]


def _names(land: Landscape, frame: Frame, which: BoolArray) -> list[str]:
    """Of the parameters that some coordinates (r,) move."""
    return [land.names[j] for j in np.flatnonzero((frame.embed[:, which] != 0.0).any(axis=1))]


def _spelled(land: Landscape, frame: Frame, which: BoolArray) -> str:
    names = _names(land, frame, which)
    return names[0] if len(names) == 1 else "a combination of " + ", ".join(names)
