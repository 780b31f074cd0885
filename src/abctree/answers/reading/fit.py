"""`Fit`: whether the model can make data like the observation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy  # its parts are imported when they are used
from scipy.fft import dct

from abctree.answers.reading.local import LocalModel
from abctree.answers.reading.rows import Rows
from abctree.near import spread, systematic
from abctree.numbers import unit_of
from abctree.types import FloatArray

#: Data sets of posterior draws that the observation is compared with.
_N = 100
#: The distance to this nearest simulation tells how far data are from what the model makes.
_NEAREST = 10
#: A data set of a posterior draw is the row of one of so many neighbours in the cube.
_NEIGHBOURS = 5
#: Data sets of draws that miss by a smaller share of the size of a summary miss by rounding only.
_ROUNDING = 1e-9
#: Where the fit is doubted.
DOUBT = 0.01
#: Summaries that are named.
_NAMED = 3


@dataclass(frozen=True, eq=False)
class Fit:
    """How far the observation is from the model, and how it bends, beside data of the model."""

    p_value: float  #: share of data sets of posterior draws that are as unusual, this one included
    distance: float  #: of the observation to its tenth nearest simulation
    distances: FloatArray  #: (n,) the same of data sets of posterior draws
    #: How much slower than noise what a line leaves of the observation is, in the order of its
    #: summaries; 0 where it leaves nothing, or where the distance has no such order.
    bend: float
    bends: FloatArray  #: (n,) the same of those data sets
    #: (q,) How far each summary misses, in units of what theirs do; infinite where no simulation
    #: has another value, and the observation has.
    misses: FloatArray
    summary: FloatArray  #: (n, q) summaries of those data sets
    names: tuple[str, ...]  #: (q,) of the summaries: their labels, or places in the observation

    @property
    def worst(self) -> tuple[int, ...]:
        """Places in `misses` and `names` of the summaries that miss most, the worst first."""
        return tuple(int(i) for i in np.argsort(-np.abs(self.misses))[:_NAMED])

    def __repr__(self) -> str:
        return (
            f"Fit(p_value={self.p_value:.3g}, worst={', '.join(self.names[i] for i in self.worst)})"
        )

    def __str__(self) -> str:
        said = (
            f"The observation is {self.distance:.3g} from the model's nearest simulations; of "
            f"{len(self.distances)} data sets of posterior draws "
            f"{int((self.distances >= self.distance).sum())} are as far"
        )
        if self.bends.any():
            said += f", and {int((self.bends >= self.bend).sum())} bend as much"
        said += f" (p = {self.p_value:.2g})."
        if self.p_value > DOUBT:
            return said
        misses = {i: self.misses[i] for i in self.worst if self.misses[i] != 0.0}
        worst = ", ".join(
            f"{self.names[i]} ({'never varies' if np.isinf(miss) else f'{miss:+.1f}'})"
            for i, miss in misses.items()
        )
        said = f"{said} The model does not make data like these."
        if not misses:
            return said
        return f"{said} Summaries that miss most, in units of what they miss by as a rule: {worst}."


def fit(
    rows: Rows, near: Rows, model: LocalModel | None, ess: float, rng: np.random.Generator
) -> Fit:
    """Compare the observation with data that posterior draws made, by what is farther off of two.

    One is the distance to their nearest simulations, the other how much what a line near the
    posterior leaves of them bends, if there is a line and the distance keeps their order.  A
    summary that is the same in all simulations, and another in the observation, says enough.
    Accepted rows, of those `near`, are no such data, for they were chosen for being near.  Rows
    next to them in the cube are: fresh data of nearly the same parameters.
    """
    accepted = near.accepted(ess)
    drawn = accepted[systematic(near.weight[accepted], _N, rng.random())]
    unit = spread(near.places[accepted])
    beside = scipy.spatial.cKDTree(rows.places / unit).query(
        near.places[drawn] / unit, k=_NEIGHBOURS + 1
    )[1]
    is_own = rows.number[beside] == near.number[drawn, None]
    beside = np.take_along_axis(beside, np.argsort(is_own, axis=1, kind="stable"), axis=1)
    other = beside[np.arange(_N), rng.integers(_NEIGHBOURS, size=_N)]
    observed = rows.run.problem.observed_summary.ravel()
    away = rows.summary.reshape(len(rows), -1) - observed  # x may be turned, or learned
    own, missed = _nearest(away, rows.distance, None)
    found = list(rows.each(lambda j: _nearest(away, rows.distance_to(j), j), other.tolist()))
    distance, bend = np.array([own, *(far for far, _ in found)]), np.zeros(_N + 1)
    unusual = _standard(distance)
    if model is not None and rows.run.problem.measurement.keeps_order:
        bend = bends(model.parts(np.vstack([np.zeros_like(rows.x[:1]), rows.x[other]]))[1])
        unusual = np.maximum(unusual, _standard(bend))
    others = np.array([miss for _, miss in found])
    scale = unit_of(others)
    usual = scale * np.sqrt(np.mean((others / scale) ** 2, axis=0))
    known = usual > _ROUNDING * np.abs(away).max(axis=0)
    misses = np.divide(missed, usual, out=np.zeros_like(missed), where=known)
    never = np.abs(missed) > _ROUNDING * np.abs(observed).max()
    never &= np.ptp(away, axis=0) == 0.0
    misses[never] = np.copysign(np.inf, missed[never])
    unusual[0] = np.inf if never.any() else unusual[0]
    p_value = float(np.mean(unusual >= unusual[0]))
    summary = rows.summary[other].reshape(_N, -1)
    names = tuple(rows.run.problem.measurement.names)
    return Fit(p_value, own, distance[1:], float(bend[0]), bend[1:], misses, summary, names)


def bends(rest: FloatArray) -> FloatArray:
    """(n,) How much more of numbers (n, q), in their order, is slow than there is of noise.

    Of noise of any size all waves have the same share.  This is the largest excess of the slowest
    1, 2, ..., in units of its own noise: the adaptive test of Neyman (Fan 1996).
    """
    square = np.square(dct(rest, norm="ortho", axis=1))
    mean = square.mean(axis=1, keepdims=True)
    excess = np.divide(square, mean, out=np.ones_like(square), where=mean > 0.0) - 1.0
    unit = np.sqrt(2.0 * np.arange(1, rest.shape[1] + 1))
    return np.asarray((np.cumsum(excess, axis=1) / unit).max(axis=1))


def _standard(x: FloatArray) -> FloatArray:
    """Numbers (n,) less their mean, in units of their spread."""
    return np.asarray((x - x.mean()) / spread(x))


def _nearest(away: FloatArray, distance: FloatArray, j: int | None) -> tuple[float, FloatArray]:
    """Distance to the tenth nearest row, without row j, and by how much their mean misses (q,)."""
    order = np.argpartition(distance, _NEAREST)[: _NEAREST + 1]
    order = order[np.argsort(distance[order], kind="stable")]
    order = order[order != j][:_NEAREST]
    here = 0.0 if j is None else away[j]
    return float(distance[order[-1]]), np.asarray(here - away[order].mean(axis=0))
