"""A table as the search for modes sees it: kinds of parameters, coordinates of natural size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import linalg

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
        p = theta.shape[1]
        known = np.full((p, 2), [-np.inf, np.inf]) if bounds is None else bounds.astype(np.float64)
        kinds = [_kind(theta[:, j], known[j]) for j in range(p)]
        continuous = [j for j in range(p) if kinds[j] == "continuous"]
        discrete = [j for j in range(p) if kinds[j] == "discrete"]
        many = [j for j in discrete if _n_values(theta[:, j]) > _MOST_VALUES]
        lattice = many if continuous else []
        values = [j for j in discrete if j not in lattice]
        return cls(
            theta=theta,
            distance=np.where(np.isnan(distance), np.inf, distance),
            names=tuple(names) if names is not None else tuple(f"theta{j + 1}" for j in range(p)),
            log_prior=np.zeros(len(theta)) if log_prior is None else log_prior,
            prior_spread=_spread_of(theta, known) if prior_spread is None else prior_spread,
            weight=np.ones(len(theta)) if weight is None else weight,
            bounds=np.where(np.isnan(known), [-np.inf, np.inf], known),
            free=np.array(sorted(continuous + lattice), dtype=np.int64),
            values=np.array(values, dtype=np.int64),
            lattice=np.array(lattice, dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.theta)


def _spread_of(theta: FloatArray, bounds: FloatArray) -> FloatArray:
    """Covariance of a flat prior between bounds; of the rows where there are none."""
    width = bounds[:, 1] - bounds[:, 0]
    rows = theta.var(axis=0) if len(theta) else np.ones(len(width))
    return np.diag(np.where(np.isfinite(width), width**2 / 12.0, rows))


def _kind(column: FloatArray, bounds: FloatArray) -> str:
    if len(column) == 0 or column.min() == column.max():
        return "fixed"
    if not np.isnan(bounds).any():
        return "continuous"
    # On a simplex nearly all values differ; integers and codes repeat.
    whole = bool((column == np.rint(column)).all())
    return "discrete" if whole or _n_values(column) < 0.5 * len(column) else "continuous"


def _n_values(column: FloatArray) -> int:
    return len(np.unique(column))


def grouped(columns: FloatArray) -> tuple[IntArray, IntArray]:
    """A row of each different combination of values, and the group of every row."""
    _, first, group = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    return first, group.ravel()


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates x of a natural size for the free columns, and the way back."""

    column: IntArray  #: (r,) columns of theta that are independent
    scale: FloatArray  #: (r,)
    base: FloatArray  #: (p,) theta = base + embed x for the free columns
    embed: FloatArray  #: (p, r)

    @classmethod
    def of(cls, land: Landscape, accepted: BoolArray) -> Frame:
        """Coordinates in which the accepted rows (n,) have a size of about one."""
        near = land.theta[accepted]
        scale = _scales(near[:, land.free], land.theta[:, land.free])
        column, embed = land.free, np.zeros((land.theta.shape[1], len(land.free)))
        base = np.zeros(land.theta.shape[1])
        keep = _independent(land.theta[:, land.free] / scale)
        independent = land.free[keep]
        x = land.theta[:, independent] / scale[keep]
        embed = np.zeros((land.theta.shape[1], len(keep)))
        embed[independent, np.arange(len(keep))] = scale[keep]
        for j in np.setdiff1d(column, independent):  # a linear function of the others
            design = np.column_stack([np.ones(len(x)), x])
            solution = np.linalg.lstsq(design, land.theta[:, j], rcond=None)[0]
            base[j], embed[j] = solution[0], solution[1:]
        return cls(independent, scale[keep], base, embed)

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


def _scales(near: FloatArray, everything: FloatArray) -> FloatArray:
    """A natural size (r,) of each column: half the middle two thirds of the accepted rows."""
    low, high = np.quantile(near, [1.0 / 6.0, 5.0 / 6.0], axis=0)
    scale = 0.5 * (high - low)
    wide = everything.std(axis=0)
    return np.asarray(np.where(scale > 1e-12 * wide, scale, np.where(wide > 0.0, wide, 1.0)))


def _independent(x: FloatArray) -> IntArray:
    """Columns that no linear function of the earlier ones is equal to."""
    centred = x - x.mean(axis=0)
    norm = np.linalg.norm(centred, axis=0)
    kept: list[int] = []
    for j in range(x.shape[1]):
        residual = centred[:, j]
        if kept:
            basis = linalg.orth(centred[:, kept])
            residual = residual - basis @ (basis.T @ residual)
        if np.linalg.norm(residual) > 1e-6 * norm[j]:
            kept.append(j)
    return np.array(kept, dtype=np.int64)
