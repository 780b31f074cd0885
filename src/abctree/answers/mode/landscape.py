"""A table as the search for modes sees it: kinds of parameters, coordinates of natural size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from abctree.answers.mode.fit import Rows
from abctree.errors import ParameterError
from abctree.types import BoolArray, FloatArray, IntArray

#: Values of a discrete parameter that are looked at one by one beside continuous ones.
_MOST_VALUES = 50


@dataclass(frozen=True, eq=False)
class Landscape:
    """The rows of a table, and which of its columns are of which kind."""

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

    @classmethod
    def of(
        cls,
        theta: FloatArray,
        distance: FloatArray,
        names: Sequence[str] | None,
        *,
        log_prior: FloatArray | None = None,
        bounds: FloatArray | None = None,
        weight: FloatArray | None = None,
        prior_spread: FloatArray | None = None,
    ) -> Landscape:
        """From arrays, as `find_mode` is given them."""
        theta = np.asarray(theta, dtype=np.float64)
        distance = np.asarray(distance, dtype=np.float64)
        if theta.ndim != 2 or distance.shape != (len(theta),):
            raise ParameterError(
                "`theta` must have shape (n, p) and `distance` (n,), but got "
                f"{theta.shape} and {distance.shape}."
            )
        n, p = theta.shape
        known = np.full((p, 2), [-np.inf, np.inf]) if bounds is None else bounds.astype(np.float64)
        number = np.array([len(np.unique(column)) for column in theta.T], dtype=np.int64)
        # On a simplex, which has no bounds, nearly all values differ; integers and codes repeat.
        whole = (theta == np.rint(theta)).all(axis=0) | (number < 0.5 * n)
        discrete = (number > 1) & whole & np.isnan(known).any(axis=1)
        continuous = (number > 1) & ~discrete
        lattice = discrete & (number > _MOST_VALUES) & continuous.any()
        if prior_spread is None:  # of a flat prior, and of the rows where there are no bounds
            width = known[:, 1] - known[:, 0]
            rows = theta.var(axis=0) if n else np.ones(p)
            prior_spread = np.diag(np.where(np.isfinite(width), width**2 / 12.0, rows))
        return cls(
            theta=theta,
            distance=np.where(np.isnan(distance), np.inf, distance),
            names=tuple(names) if names is not None else tuple(f"theta{j + 1}" for j in range(p)),
            log_prior=np.zeros(n) if log_prior is None else log_prior,
            prior_spread=prior_spread,
            weight=np.ones(n) if weight is None else weight,
            bounds=np.where(np.isnan(known), [-np.inf, np.inf], known),
            free=np.flatnonzero(continuous | lattice),
            values=np.flatnonzero(discrete & ~lattice),
            lattice=np.flatnonzero(lattice),
        )

    def __len__(self) -> int:
        return len(self.theta)


def grouped(columns: FloatArray) -> tuple[IntArray, IntArray]:
    """A row of each different combination of values, and the group of every row."""
    _, first, group = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    return first, group.ravel()


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates x of a natural size for the free columns, and the way back."""

    column: IntArray  #: (r,) columns of theta that are independent
    scale: FloatArray  #: (r,) half the middle two thirds of the accepted rows
    base: FloatArray  #: (p,) theta = base + embed x for the free columns
    embed: FloatArray  #: (p, r)

    @classmethod
    def of(cls, land: Landscape, accepted: BoolArray) -> Frame:
        """Coordinates in which the accepted rows (n,) have a size of about one."""
        theta, p = land.theta, land.theta.shape[1]
        column: list[int] = []
        for j in land.free.tolist():  # without linear functions of the earlier ones
            among = np.corrcoef(theta[:, [*column, j]], rowvar=False)
            if np.linalg.eigvalsh(np.atleast_2d(among))[0] > 1e-10:
                column.append(j)
        low, high = np.quantile(theta[accepted][:, column], [1.0 / 6.0, 5.0 / 6.0], axis=0)
        wide = theta[:, column].std(axis=0)
        scale = np.where(high - low > 2e-12 * wide, 0.5 * (high - low), wide)
        base, embed = np.zeros(p), np.zeros((p, len(column)))
        embed[column, np.arange(len(column))] = scale
        rest = np.setdiff1d(land.free, column)
        if len(rest):
            design = np.column_stack([np.ones(len(theta)), theta[:, column] / scale])
            solution = np.linalg.lstsq(design, theta[:, rest], rcond=None)[0]
            base[rest], embed[rest] = solution[0], solution[1:].T
        return cls(np.array(column, dtype=np.int64), scale, base, embed)

    def x(self, theta: FloatArray) -> FloatArray:
        """(..., p) -> (..., r)."""
        return np.asarray(theta[..., self.column] / self.scale)

    def rows(self, land: Landscape, group: IntArray) -> Rows:
        """Rows of the table in these coordinates."""
        low, high = (land.bounds[self.column] / self.scale[:, None]).T
        spread = land.prior_spread[np.ix_(self.column, self.column)]
        return Rows(
            x=self.x(land.theta[group]),
            distance=land.distance[group],
            log_prior=land.log_prior[group],
            lower=low,
            upper=high,
            prior_spread=spread / np.outer(self.scale, self.scale),
        )

    def theta(self, x: FloatArray, like: FloatArray, land: Landscape) -> FloatArray:
        """A full row from coordinates; other columns, and their values, as in `like`."""
        answer = like.copy()
        answer[land.free] = (self.base + self.embed @ x)[land.free]
        for j in land.lattice:
            seen = np.unique(land.theta[:, j])
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
