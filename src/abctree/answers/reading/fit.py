"""`Fit`: whether the model can make data like the observation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from abctree.answers.reading.near import systematic
from abctree.answers.reading.rows import Rows
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
    """How far the observation is from the model's nearest simulations, beside data of the model."""

    p_value: float  #: share of data sets of posterior draws that are as far, this one included
    distance: float  #: of the observation to its tenth nearest simulation
    distances: FloatArray  #: (n,) the same of data sets of posterior draws
    misses: FloatArray  #: (q,) how far each summary misses, in units of what theirs do
    summary: FloatArray  #: (n, q) summaries of those data sets

    @property
    def worst(self) -> tuple[int, ...]:
        """Numbers of the summaries that miss most, the worst first."""
        return tuple(int(i) for i in np.argsort(-np.abs(self.misses))[:_NAMED])

    def __repr__(self) -> str:
        return f"Fit(p_value={self.p_value:.3g}, worst={self.worst})"

    def __str__(self) -> str:
        said = (
            f"The observation is {self.distance:.3g} from the model's nearest simulations; of "
            f"{len(self.distances)} data sets of posterior draws "
            f"{int((self.distances >= self.distance).sum())} are as far (p = {self.p_value:.2g})."
        )
        if self.p_value > DOUBT:
            return said
        worst = ", ".join(f"{i} ({self.misses[i]:+.1f})" for i in self.worst)
        return (
            f"{said} The model does not make data like these. Summaries that miss most, in units "
            f"of what they miss by as a rule: {worst}."
        )


def fit(rows: Rows, near: Rows, ess: float, rng: np.random.Generator) -> Fit:
    """Compare the observation with data that posterior draws made, by their nearest simulations.

    Accepted rows, of those `near`, are no such data, for they were chosen for being near.  Rows
    next to them in the cube are: fresh data of nearly the same parameters.
    """
    accepted = near.accepted(ess)
    drawn = accepted[systematic(near.weight[accepted], _N, rng.random())]
    unit = _unit(near.places[accepted])
    beside = cKDTree(rows.places / unit).query(near.places[drawn] / unit, k=_NEIGHBOURS + 1)[1]
    is_own = rows.number[beside] == near.number[drawn, None]
    beside = np.take_along_axis(beside, np.argsort(is_own, axis=1, kind="stable"), axis=1)
    other = beside[np.arange(_N), rng.integers(_NEIGHBOURS, size=_N)]
    own, missed = _nearest(rows, rows.distance, None)
    found = list(rows.each(lambda j: _nearest(rows, rows.distance_to(j), j), other.tolist()))
    distances = np.array([distance for distance, _ in found])
    usual = np.sqrt(np.mean([miss**2 for _, miss in found], axis=0))
    known = usual > _ROUNDING * np.abs(rows.x).max(axis=0)
    misses = np.divide(missed, usual, out=np.zeros_like(missed), where=known)
    p_value = float((1 + (distances >= own).sum()) / (1 + len(distances)))
    summary = rows.summary[other].reshape(_N, -1)
    return Fit(p_value, own, distances, misses, summary)


def _nearest(rows: Rows, distance: FloatArray, j: int | None) -> tuple[float, FloatArray]:
    """Distance to the tenth nearest row, without row j, and by how much their mean misses (q,)."""
    order = np.argpartition(distance, _NEAREST)[: _NEAREST + 1]
    order = order[np.argsort(distance[order], kind="stable")]
    order = order[order != j][:_NEAREST]
    here = 0.0 if j is None else rows.x[j]
    return float(distance[order[-1]]), np.asarray(here - rows.x[order].mean(axis=0))


def _unit(z: FloatArray) -> FloatArray:
    spread = z.std(axis=0)
    return np.where(spread > 0.0, spread, 1.0)
