"""A table as the search for modes sees it: kinds of parameters, coordinates of natural size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from abctree.answers.mode.fit import Rows
from abctree.types import BoolArray, FloatArray, IntArray

#: Values of a discrete parameter that are looked at one by one beside continuous ones.
_MOST_VALUES = 50
#: Accepted rows at which a local rate is worked out, and draws of a kernel density estimate.
_MOST = 1500
#: Fewest and most neighbours in a local rate; between them the square root of the rows.
_FEWEST_NEIGHBOURS, _MOST_NEIGHBOURS = 20, 150
#: Steps of a mean shift.
_SHIFTS = 200


@dataclass(frozen=True, eq=False)
class Landscape:
    """The rows of a table, the kinds of its columns, and coordinates x of a natural size.

    Of the columns that are fitted, θ = base + embed x.
    """

    theta: FloatArray
    distance: FloatArray
    names: tuple[str, ...]
    log_prior: FloatArray  #: zero if it is flat
    prior_spread: FloatArray  #: (p, p) covariance of the prior
    weight: FloatArray
    bounds: FloatArray  #: (p, 2) infinite where unknown
    free: IntArray  #: columns that are fitted
    values: IntArray  #: discrete columns whose values are looked at one by one
    lattice: IntArray  #: columns among `free` whose answers are rounded
    column: IntArray  #: (r,) columns among `free` that are no linear functions of earlier ones
    scale: FloatArray  #: (r,) half the middle two thirds of the accepted rows
    base: FloatArray  #: (p,)
    embed: FloatArray  #: (p, r)

    @classmethod
    def of(
        cls,
        theta: FloatArray,
        distance: FloatArray,
        epsilon: float,
        names: Sequence[str] | None = None,
        *,
        log_prior: FloatArray | None = None,
        bounds: FloatArray | None = None,
        weight: FloatArray | None = None,
        prior_spread: FloatArray | None = None,
    ) -> Landscape:
        """From the arrays of `find_mode`; rows below a tolerance say what size is natural."""
        n, p = theta.shape
        known = np.full((p, 2), [-np.inf, np.inf]) if bounds is None else bounds.astype(np.float64)
        number = np.array([len(np.unique(column)) for column in theta.T], dtype=np.int64)
        # On a simplex, which has no bounds, nearly all values differ; integers and codes repeat.
        whole = (theta == np.rint(theta)).all(axis=0) | (number < 0.5 * n)
        discrete = (number > 1) & whole & np.isnan(known).any(axis=1)
        continuous = (number > 1) & ~discrete
        lattice = discrete & (number > _MOST_VALUES) & continuous.any()
        free = np.flatnonzero(continuous | lattice)
        if prior_spread is None:  # of a flat prior, and of the rows where there are no bounds
            width = known[:, 1] - known[:, 0]
            rows = theta.var(axis=0) if n else np.ones(p)
            prior_spread = np.diag(np.where(np.isfinite(width), width**2 / 12.0, rows))
        column: list[int] = []
        for j in free.tolist():
            among = np.corrcoef(theta[:, [*column, j]], rowvar=False)
            if np.linalg.eigvalsh(np.atleast_2d(among))[0] > 1e-10:
                column.append(j)
        scale = _scale_of(theta[:, column], distance < epsilon)
        base, embed = np.zeros(p), np.zeros((p, len(column)))
        embed[column, np.arange(len(column))] = scale
        rest = np.setdiff1d(free, column)
        if len(rest):
            design = np.column_stack([np.ones(n), theta[:, column] / scale])
            solution = np.linalg.lstsq(design, theta[:, rest], rcond=None)[0]
            base[rest], embed[rest] = solution[0], solution[1:].T
        return cls(
            theta=theta,
            distance=distance,
            names=tuple(names) if names is not None else tuple(f"theta{j + 1}" for j in range(p)),
            log_prior=np.zeros(n) if log_prior is None else log_prior,
            prior_spread=prior_spread,
            weight=np.ones(n) if weight is None else weight,
            bounds=np.where(np.isnan(known), [-np.inf, np.inf], known),
            free=free,
            values=np.flatnonzero(discrete & ~lattice),
            lattice=np.flatnonzero(lattice),
            column=np.array(column, dtype=np.int64),
            scale=scale,
            base=base,
            embed=embed,
        )

    def __len__(self) -> int:
        return len(self.theta)

    def x(self, theta: FloatArray) -> FloatArray:
        """(..., p) -> (..., r)."""
        return np.asarray(theta[..., self.column] / self.scale)

    def rows(self, group: IntArray) -> Rows:
        """Rows of the table in these coordinates."""
        low, high = (self.bounds[self.column] / self.scale[:, None]).T
        spread = self.prior_spread[np.ix_(self.column, self.column)]
        return Rows(
            x=self.x(self.theta[group]),
            distance=self.distance[group],
            log_prior=self.log_prior[group],
            lower=low,
            upper=high,
            prior_spread=spread / np.outer(self.scale, self.scale),
        )

    def at(self, x: FloatArray, like: FloatArray) -> FloatArray:
        """A full row of θ from coordinates; other columns, and their values, as in `like`."""
        answer = like.copy()
        low, high = self.bounds.T  # nan where not known; ends that were scaled are rounded
        answer[self.free] = np.fmin(np.fmax(self.base + self.embed @ x, low), high)[self.free]
        for j in self.lattice:
            seen = np.unique(self.theta[:, j])
            answer[j] = seen[int(np.argmin(np.abs(seen - answer[j])))]
        return answer

    def covariance(self, inner: FloatArray) -> FloatArray:
        """(r, r) -> (p, p); zero for columns that are not free, nan for those on a border."""
        lost = np.isnan(np.diag(inner))
        full = self.embed @ np.where(np.isnan(inner), 0.0, inner) @ self.embed.T
        gone = (self.embed[:, lost] != 0.0).any(axis=1)
        full[gone, :] = np.nan
        full[:, gone] = np.nan
        return np.asarray(full)

    def names_of(self, which: BoolArray) -> list[str]:
        """The parameters that some coordinates (r,) move."""
        return [self.names[j] for j in np.flatnonzero((self.embed[:, which] != 0.0).any(axis=1))]


def _scale_of(columns: FloatArray, accepted: BoolArray) -> FloatArray:
    """Half the middle two thirds of the accepted rows; of all where these are one value."""
    if not accepted.any():
        return np.ones(columns.shape[1])
    low, high = np.quantile(columns[accepted], [1.0 / 6.0, 5.0 / 6.0], axis=0)
    wide = columns.std(axis=0)
    return np.asarray(np.where(high - low > 2e-12 * wide, 0.5 * (high - low), wide))


def grouped(columns: FloatArray) -> tuple[IntArray, IntArray]:
    """A row of each different combination of values, and the group of every row."""
    _, first, group = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    return first, group.ravel()


def n_neighbours(n: int) -> int:
    """How many of n rows a local rate is of: about √n."""
    return min(n, int(np.clip(np.sqrt(n), _FEWEST_NEIGHBOURS, _MOST_NEIGHBOURS)))


def local_rates(
    x: FloatArray, accepted: IntArray, log_prior: FloatArray
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Rates among the k nearest rows of each accepted row, k about √n, the highest first.

    Of rows x (n, r), of which the accepted ones are given by number; of more than 1500 an even
    selection is looked at.  The answers are numbers (m,), log-densities (m,), the log-prior (n,)
    included, and distances (m,) to the farthest of the neighbours.
    """
    k = n_neighbours(len(x))
    chosen = accepted[:: 1 + (len(accepted) - 1) // _MOST]
    distance, neighbour = cKDTree(x).query(x[chosen], k=[*range(1, k + 1)])
    distance, neighbour = np.asarray(distance), np.asarray(neighbour)
    hit = np.zeros(len(x))
    hit[accepted] = 1.0
    share = max(len(accepted) / len(x), 1e-12)
    # Shrunk towards the rate of all rows by one acceptance: few neighbours are no evidence.
    log_rate = np.log((hit[neighbour].sum(axis=1) + 1.0) / (k + 1.0 / share))
    density = log_rate + log_prior[chosen]
    order = np.argsort(-density, kind="stable")
    return chosen[order], density[order], distance[order, -1]


def kernel_mode(x: FloatArray, weight: FloatArray) -> FloatArray:
    """The largest point of a normal kernel density estimate of draws (m, r): (r,).

    Of more than 1500 draws an even selection is looked at.  The bandwidth is Silverman's rule on
    the whitened draws, with the effective sample size in the place of their number.  With fewer
    than three different draws the mode is the heaviest of them.
    """
    step = 1 + (len(x) - 1) // _MOST
    x, weight = x[::step], weight[::step]
    heaviest = x[int(np.argmax(weight))]
    w = weight / weight.sum()
    centred = x - w @ x
    scatter = (centred * w[:, None]).T @ centred
    value, vector = np.linalg.eigh(scatter)
    moves = value > 1e-12 * value.max(initial=0.0)
    if len(np.unique(x, axis=0)) < 3 or not moves.any():
        return np.asarray(heaviest)
    r = int(moves.sum())
    white = centred @ (vector[:, moves] / np.sqrt(value[moves]))
    n = 1.0 / float(w @ w)
    h = (4.0 / ((r + 2.0) * n)) ** (1.0 / (r + 4.0))
    square = (white**2).sum(axis=1)
    near = np.exp((white @ white.T - 0.5 * (square[:, None] + square)) / h**2)
    at = white[int(np.argmax(near @ w))]
    for _ in range(_SHIFTS):  # of the mean, up to the top
        kernel = w * np.exp(-0.5 * ((white - at) ** 2).sum(axis=1) / h**2)
        last, at = at, kernel @ white / kernel.sum()
        if np.abs(at - last).max() < 1e-6:
            break
    return np.asarray(w @ x + (vector[:, moves] * np.sqrt(value[moves])) @ at)
