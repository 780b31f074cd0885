"""`StepPosterior`: the step-function posterior of Equation (7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from abctree.data import Boxes, Partition
from abctree.errors import ParameterError
from abctree.protocols import Prior
from abctree.types import BoolArray, FloatArray, RNGLike

#: Draws for marginals that no single cube dimension drives.
_N_DRAWS = 100_000
#: Points of the quadrature over a marginal.
_N_POINTS = 2**16
#: Halvings that find a cube coordinate to the last digit.
_HALVINGS = 55
#: A default histogram leaves out this much mass on either side.
_TAIL = 5e-4
#: The open cube in float64.
_LOWEST, _HIGHEST = float(np.finfo(np.float64).tiny), float(np.nextafter(1.0, 0.0))


@dataclass(frozen=True, eq=False)
class StepFold:
    """The posterior masses of the boxes of one partition."""

    boxes: Boxes
    mass: FloatArray  #: (K,) posterior mass, up to a constant
    log_volume: FloatArray  #: (K,) log |Ω_k| in θ space; nan where unknown
    prior_mass: FloatArray | None = None  #: (K,) π(Ω_k); the volumes in the cube by default

    @classmethod
    def of(cls, partition: Partition, eta: FloatArray) -> StepFold:
        """Masses p̂(k) ∝ π(Ω_k) η_k, from estimated acceptance rates η (K,)."""
        mass = partition.prior_mass * eta
        return cls(partition.boxes, mass, partition.log_volume, partition.prior_mass)


@dataclass(frozen=True, eq=False)
class Region:
    """A union of boxes in θ space."""

    lower: FloatArray  #: (m, p)
    upper: FloatArray  #: (m, p)
    mass: FloatArray  #: (m,) posterior mass that each box brings

    def __len__(self) -> int:
        return len(self.mass)


@dataclass(frozen=True, eq=False)
class StepPosterior:
    """A posterior that is constant on boxes: Σ_k p̂(k)/|Ω_k| · 1[θ ∈ Ω_k] (Equation 7).

    Made by `from_folds`; with several folds it is the average of their step functions, each
    fold with the same weight.  `pdf` is Equation (7), flat in θ over a box.  `sample`, `marginal`,
    `cdf` and `mean` spread the mass of a box like the prior within the box, π(·|Ω_k), which is the
    proposal that the box stands for.  The two are the same where the prior is uniform.
    """

    folds: tuple[StepFold, ...]  #: masses sum to one in each
    prior: Prior
    epsilon: float = np.nan
    empty: bool = False  #: nothing was accepted in any fold: this is the prior

    @classmethod
    def from_folds(
        cls,
        folds: Sequence[StepFold | tuple[Boxes, FloatArray, FloatArray]],
        prior: Prior,
        *,
        epsilon: float = np.nan,
    ) -> StepPosterior:
        """The average of the step functions of one or several folds, all with the same weight.

        Parameters
        ----------
        folds : sequence of StepFold or of (boxes, mass, log_volume)
            Masses need not be normalised.  A fold without any mass says nothing and is left out;
            if that is true of all, the answer is the prior, with ``empty=True``.
        prior : Prior
            The map from the cube to θ.
        epsilon : float
            The tolerance of the masses, for the record.

        Raises
        ------
        ParameterError
            If there is no fold, or a mass is negative or not finite.
        """
        if len(folds) == 0:
            raise ParameterError("`folds` must hold at least one fold, but is empty.")
        given = [f if isinstance(f, StepFold) else StepFold(*f) for f in folds]
        for fold in given:
            _check_masses(fold)
        telling = [f for f in given if f.mass.sum() > 0.0]
        chosen = telling or [_prior_fold(f) for f in given]
        normalised = tuple(replace(f, mass=f.mass / f.mass.sum()) for f in chosen)
        return cls(normalised, prior, epsilon, empty=not telling)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(self.prior.names)

    # Densities ------------------------------------------------------------------------------

    def pdf(self, theta: FloatArray) -> FloatArray:
        """Density in θ space: (n, p) -> (n,); 0 outside the support of the prior.

        A box of infinite volume, at the end of an unbounded prior, cannot be flat: it has the
        shape of the prior if the prior has a ``log_density``, or else density 0.  nan where the
        prior cannot say volumes.  Along a discrete parameter the density is with respect to counts.
        """
        theta = np.asarray(theta, dtype=np.float64)
        cube = self.prior.to_cube(theta)
        outside = self._outside(theta, cube)
        density = self._density(cube, in_theta=True)
        log_prior = getattr(self.prior, "log_density", None)
        if log_prior is not None and any(np.isinf(f.log_volume).any() for f in self.folds):
            beyond = self._unbounded(cube)
            rows = np.flatnonzero(beyond > 0.0)
            density[rows] += beyond[rows] * np.exp(log_prior(theta[rows]))
        return np.where(outside, 0.0, density)

    def _unbounded(self, cube: FloatArray) -> FloatArray:
        """The part of `cube_pdf` that comes from boxes of infinite volume."""
        total = np.zeros(len(cube))
        for fold in self.folds:
            density = np.where(np.isinf(fold.log_volume), fold.mass / fold.boxes.volume, 0.0)
            total += density[fold.boxes.locate(cube)]
        return total / len(self.folds)

    def cube_pdf(self, cube: FloatArray) -> FloatArray:
        """Density in the unit cube, for most priors that relative to the prior: (n, d) -> (n,)."""
        return self._density(np.asarray(cube, dtype=np.float64), in_theta=False)

    def _density(self, cube: FloatArray, *, in_theta: bool) -> FloatArray:
        total = np.zeros(len(cube))
        for fold in self.folds:
            log_volume = fold.log_volume if in_theta else np.log(fold.boxes.volume)
            density = fold.mass * np.exp(-log_volume)
            total += density[fold.boxes.locate(cube)]
        return total / len(self.folds)

    def _outside(self, theta: FloatArray, cube: FloatArray) -> BoolArray:
        log_density = getattr(self.prior, "log_density", None)
        if log_density is not None:
            return np.asarray(np.asarray(log_density(theta)) == -np.inf)
        # A point out of the support maps to a face of the cube.
        return np.asarray(((cube <= _LOWEST) | (cube >= _HIGHEST)).any(axis=1))

    # Draws ----------------------------------------------------------------------------------

    def sample(self, n: int, rng: RNGLike = None) -> FloatArray:
        """(n, p) Independent draws: a box by its mass, then the prior within the box."""
        generator = np.random.default_rng(rng)
        cube = np.empty((n, self.prior.d))
        fold_of = generator.integers(len(self.folds), size=n)
        for f, fold in enumerate(self.folds):
            rows = np.flatnonzero(fold_of == f)
            box = generator.choice(len(fold.boxes), size=len(rows), p=fold.mass)
            cube[rows] = fold.boxes.sample(box, generator)
        return self.prior.from_cube(cube)

    @cached_property
    def _draws(self) -> FloatArray:
        return self.sample(_N_DRAWS, rng=0)

    # Marginals ------------------------------------------------------------------------------

    def driver(self, name: str) -> int | None:
        """The cube dimension that alone drives a parameter, upwards; None if there is none.

        With a driver, `marginal`, `cdf` and `mean` are exact (overlaps of boxes in the cube, up to
        rounding and quadrature).  Without one (a joint prior, a fixed parameter) they come from
        100 000 draws with a fixed seed.  Found by probing the prior.
        """
        return self._drivers[self._column(name)]

    @cached_property
    def _drivers(self) -> tuple[int | None, ...]:
        return _drivers(self.prior)

    def marginal(self, name: str, bins: int | FloatArray = 50) -> tuple[FloatArray, FloatArray]:
        """Edges (b + 1,) and densities (b,) of the marginal histogram of one parameter.

        Exact or from draws: see `driver`.  The densities are per unit of the parameter; density
        times width sums to the mass between the edges.

        Parameters
        ----------
        name : str
            The parameter.
        bins : int or (b + 1,) array
            The number of equal bins, over all but the outer 0.05 % of the mass on either side; or
            increasing edges (for an integer parameter, half-integers).

        Raises
        ------
        ParameterError
            If the parameter is unknown or the edges do not increase.
        """
        edges = self._edges(name, bins)
        below = self._below(name, np.append(np.nextafter(edges[:-1], -np.inf), edges[-1]))
        return edges, np.diff(below) / np.diff(edges)

    def cdf(self, name: str, x: float | FloatArray) -> FloatArray:
        """P(parameter <= x), of the shape of x; exact or from draws, see `driver`."""
        points = np.asarray(x, dtype=np.float64)
        return self._below(name, points.ravel()).reshape(points.shape)

    def mean(self) -> FloatArray:
        """(p,) Posterior means; exact or from draws, see `driver`."""
        answer = np.empty(len(self.names))
        for i, j in enumerate(self._drivers):
            if j is None:
                answer[i] = self._draws[:, i].mean()
            else:
                level = (np.arange(_N_POINTS) + 0.5) / _N_POINTS
                answer[i] = _along(self.prior, i, j, self._step(j).quantile(level)).mean()
        return answer

    def _below(self, name: str, x: FloatArray) -> FloatArray:
        i = self._column(name)
        j = self._drivers[i]
        if j is None:
            ordered = np.sort(self._draws[:, i])
            return np.asarray(np.searchsorted(ordered, x, side="right") / len(ordered))
        return self._step(j).cdf(_cube_coordinate(self.prior, i, j, x))

    def _edges(self, name: str, bins: int | FloatArray) -> FloatArray:
        if np.ndim(bins) == 0:
            if int(bins) < 1:
                raise ParameterError(f"`bins` must be at least 1, but got {bins}.")
            low, high = self._range(self._column(name))
            return np.linspace(low, high, int(bins) + 1)
        edges = np.asarray(bins, dtype=np.float64)
        if edges.ndim != 1 or len(edges) < 2 or not (np.diff(edges) > 0.0).all():
            raise ParameterError(f"`bins` must be increasing edges, but got {bins!r}.")
        return edges

    def _range(self, i: int) -> tuple[float, float]:
        j, level = self._drivers[i], np.array([_TAIL, 1.0 - _TAIL])
        if j is None:
            ends = np.quantile(self._draws[:, i], level)
        else:
            ends = _along(self.prior, i, j, self._step(j).quantile(level))
        low, high = (float(e) for e in ends)
        return (low, high) if high > low else (low - 0.5, high + 0.5)

    def _column(self, name: str) -> int:
        if name not in self.names:
            raise ParameterError(
                f"`name` must be one of {', '.join(self.names)}, but got {name!r}."
            )
        return self.names.index(name)

    def _step(self, j: int) -> _StepMarginal:
        return _StepMarginal(self._lower[:, j], self._upper[:, j], self._mass)

    # Regions --------------------------------------------------------------------------------

    def hdr(self, mass: float = 0.9) -> Region:
        """The boxes of highest density in θ whose masses reach `mass`.

        Boxes are ranked by `pdf` at their centres (`cube_pdf` where volumes are unknown).  With
        several folds the boxes of different folds overlap, and the union holds at least `mass`.
        A box that touches the end of an unbounded prior ends at the prior's outermost finite value.
        Corners are those of the images of boxes under a prior of independent parameters.

        Raises
        ------
        ParameterError
            If `mass` is not in (0, 1].
        """
        if not 0.0 < mass <= 1.0:
            raise ParameterError(f"`mass` must be in (0, 1], but got {mass}. Try 0.9.")
        ranked = np.argsort(-self._density_at_centres, kind="stable")
        ranked = ranked[self._mass[ranked] > 0.0]
        reached = np.cumsum(self._mass[ranked])
        n = int(np.searchsorted(reached, mass - 1e-12, side="left")) + 1
        chosen = ranked[:n]
        corners = [
            self.prior.from_cube(np.clip(c[chosen], _LOWEST, _HIGHEST))
            for c in (self._lower, self._upper)
        ]
        return Region(np.minimum(*corners), np.maximum(*corners), self._mass[chosen])

    def mode(self) -> FloatArray:
        """(p,) The parameters at the centre of the box of highest density in θ."""
        best = int(np.argmax(self._density_at_centres))
        return np.asarray(self.prior.from_cube(self._centres[best : best + 1])[0])

    @cached_property
    def _centres(self) -> FloatArray:
        return (self._lower + self._upper) / 2.0

    @cached_property
    def _density_at_centres(self) -> FloatArray:
        known = not any(np.isnan(f.log_volume).any() for f in self.folds)
        return self._density(self._centres, in_theta=known)

    # All folds as one list of boxes ---------------------------------------------------------

    @cached_property
    def _lower(self) -> FloatArray:
        return np.concatenate([f.boxes.lower for f in self.folds])

    @cached_property
    def _upper(self) -> FloatArray:
        return np.concatenate([f.boxes.upper for f in self.folds])

    @cached_property
    def _mass(self) -> FloatArray:
        return np.concatenate([f.mass for f in self.folds]) / len(self.folds)


def _check_masses(fold: StepFold) -> None:
    shapes = {fold.mass.shape, fold.log_volume.shape, (len(fold.boxes),)}
    if len(shapes) != 1 or not (np.isfinite(fold.mass).all() and (fold.mass >= 0.0).all()):
        raise ParameterError(
            f"`mass` must be finite, at least 0, and one for each of {len(fold.boxes)} boxes, as "
            f"must be `log_volume`, but got shapes {fold.mass.shape} and {fold.log_volume.shape}."
        )


def _prior_fold(fold: StepFold) -> StepFold:
    mass = fold.boxes.volume if fold.prior_mass is None else fold.prior_mass
    return replace(fold, mass=mass)


# One dimension of the cube ----------------------------------------------------------------------


class _StepMarginal:
    """The marginal in one dimension of the cube: a density that is constant between knots."""

    def __init__(self, lower: FloatArray, upper: FloatArray, mass: FloatArray) -> None:
        self.knots = np.unique(np.concatenate([[0.0, 1.0], lower, upper]))
        density = mass / (upper - lower)
        steps = np.zeros(len(self.knots))
        np.add.at(steps, np.searchsorted(self.knots, lower), density)
        np.add.at(steps, np.searchsorted(self.knots, upper), -density)
        # Differences of sums may round to a little below zero.
        piece = np.maximum(0.0, np.cumsum(steps)[:-1]) * np.diff(self.knots)
        cumulative = np.concatenate([[0.0], np.cumsum(piece)])
        self.cumulative = cumulative / cumulative[-1]

    def cdf(self, u: FloatArray) -> FloatArray:
        return np.asarray(np.interp(u, self.knots, self.cumulative))

    def quantile(self, level: FloatArray) -> FloatArray:
        return np.asarray(np.interp(level, self.cumulative, self.knots))


def _along(prior: Prior, i: int, j: int, u: FloatArray) -> FloatArray:
    """Parameter i along dimension j of the cube, the other dimensions at their middle."""
    cube = np.full((len(u), prior.d), 0.5)
    cube[:, j] = np.clip(u, _LOWEST, _HIGHEST)
    return np.asarray(prior.from_cube(cube)[:, i])


def _cube_coordinate(prior: Prior, i: int, j: int, x: FloatArray) -> FloatArray:
    """The measure of {u_j : parameter i <= x}, by halving: right for atoms, too."""
    low, high = np.zeros(len(x)), np.ones(len(x))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        below = _along(prior, i, j, middle) <= x
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    low = np.where(_along(prior, i, j, np.ones(len(x))) <= x, 1.0, low)
    return np.where(_along(prior, i, j, np.zeros(len(x))) > x, 0.0, low)


def _drivers(prior: Prior) -> tuple[int | None, ...]:
    """For each parameter the one cube dimension on which it depends, increasingly."""
    grid = np.linspace(0.01, 0.99, 99)
    origins = np.array([0.5, 0.21, 0.83])[:, None] + 0.01 * np.arange(prior.d) / max(1, prior.d)
    depends = np.zeros((prior.d, len(prior.names)), dtype=bool)
    rises = np.ones_like(depends)
    for j in range(prior.d):
        for origin in origins:
            cube = np.tile(origin, (len(grid), 1))
            cube[:, j] = grid
            step = np.diff(prior.from_cube(cube), axis=0)
            depends[j] |= (step != 0.0).any(axis=0)
            rises[j] &= (step >= 0.0).all(axis=0)
    return tuple(_only(depends[:, i], rises[:, i]) for i in range(len(prior.names)))


def _only(depends: BoolArray, rises: BoolArray) -> int | None:
    found = np.flatnonzero(depends)
    return int(found[0]) if len(found) == 1 and rises[found[0]] else None
