"""`StepPosterior`: the step-function posterior of Equation (7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from abctree.data import Boxes, Mixture, Partition
from abctree.errors import ParameterError
from abctree.parts.priors.cube import spread
from abctree.problem import Problem
from abctree.protocols import Prior
from abctree.types import BoolArray, FloatArray, IntArray, RNGLike

#: Draws for marginals that no single cube dimension drives.
_N_DRAWS = 100_000
#: Under a density or a constraint: nodes shared out by mass, those of each box, and those of a box
#: in which the first ones found nothing.
_N_NODES, _N_NODES_EACH, _N_NODES_AGAIN = 2**16, 64, 1024
#: Candidates with density among which a draw from a density is picked.
_N_CANDIDATES = 64
#: Candidates in the first attempt at a draw under a constraint; each attempt doubles it.
_N_FIRST = 4
#: Candidates in vain after which another box is drawn.
_N_IN_VAIN = 4096
#: Draws made at once, and rows averaged at once: a limit on memory.
_DRAWS_AT_ONCE, _ROWS_AT_ONCE = 4096, 2048
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
class PriorDensity:
    """Density of a problem's prior relative to the cube; 0 where the constraint refuses."""

    problem: Problem

    def __call__(self, cube: FloatArray) -> FloatArray:
        """(n, d) -> (n,)."""
        problem = self.problem
        allowed = problem.feasible(problem.prior.from_cube(cube))
        return np.asarray(problem.prior_weight(cube) * allowed / problem.normaliser[0])


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

    With a density prior (Remark 1) or a constraint, v is the prior's density relative to the cube,
    0 where the constraint refuses, and a box is not flat but has the shape of v: `cube_pdf` is
    p̂(k)/π(Ω_k) · v and `pdf` that times (volume of the box in the cube)/|Ω_k|.  Both are as good
    as the estimates π(Ω_k) of `abctree.data.Partition`, and integrate to one only as nearly.  What
    is asked of masses (`sample`, `marginal`, `cdf`, `mean`, `hdr`) does not rest on π(Ω_k) but
    leaves out boxes in which no point with density is found, and normalises the others.
    """

    folds: tuple[StepFold, ...]  #: masses sum to one in each
    prior: Prior
    epsilon: float = np.nan
    empty: bool = False  #: nothing was accepted in any fold: this is the prior
    density: Callable[[FloatArray], FloatArray] | None = None  #: v; None if it is 1 everywhere

    @classmethod
    def from_folds(
        cls,
        folds: Sequence[StepFold | tuple[Boxes, FloatArray, FloatArray]],
        prior: Prior,
        *,
        epsilon: float = np.nan,
        density: Callable[[FloatArray], FloatArray] | None = None,
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
        density : callable, optional
            v, the prior's density relative to the cube, ``(n, d) -> (n,)`` and at least 0, for a
            prior that is not uniform there; the folds must then hold their `prior_mass`, the
            integrals of v over their boxes, without which the volumes stand in.

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
        return cls(normalised, prior, epsilon, empty=not telling, density=density)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(self.prior.names)

    # Densities ------------------------------------------------------------------------------

    def pdf(self, theta: FloatArray) -> FloatArray:
        """Density in θ space: (n, p) -> (n,); 0 outside the support of the prior.

        A box of infinite volume, at the end of an unbounded prior, cannot be flat: it has the
        shape of the prior if the prior has a ``log_density``, or else density 0.  nan where the
        prior cannot say volumes.  Along a discrete parameter the density is with respect to counts,
        and that of an atom that is cut by boxes is the average over its interval of the cube.
        """
        theta = np.asarray(theta, dtype=np.float64)
        lower, upper = cube_range(self.prior, theta)
        cube = middle(lower, upper)
        density = self._average([self._heights(f, in_theta=True) for f in self.folds], lower, upper)
        if any(np.isinf(f.log_volume).any() for f in self.folds):
            density += self._unbounded(theta, lower, upper)
        density = self._weighted(density, cube)
        return np.where(out_of_support(self.prior, theta, cube), 0.0, density)

    def _unbounded(self, theta: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """The part of `pdf` that comes from boxes of infinite volume."""
        log_prior = getattr(self.prior, "log_density", None)
        if log_prior is None:
            return np.zeros(len(theta))
        heights = [
            np.where(np.isinf(f.log_volume), self._heights(f, in_theta=False), 0.0)
            for f in self.folds
        ]
        density = self._average(heights, lower, upper)
        rows = np.flatnonzero(density > 0.0)
        density[rows] *= np.exp(log_prior(theta[rows]))
        return density

    def cube_pdf(self, cube: FloatArray) -> FloatArray:
        """Density in the unit cube, for most priors that relative to the prior: (n, d) -> (n,)."""
        return self._density(np.asarray(cube, dtype=np.float64), in_theta=False)

    def _density(self, cube: FloatArray, *, in_theta: bool) -> FloatArray:
        heights = [self._heights(f, in_theta=in_theta) for f in self.folds]
        return self._weighted(self._average(heights, cube, cube), cube)

    def _heights(self, fold: StepFold, *, in_theta: bool) -> FloatArray:
        """(K,) The density on each box where v is one."""
        volume = fold.boxes.volume
        mass = fold.mass
        if self.density is not None:
            share = _prior_mass(fold) / volume
            mass = np.divide(mass, share, out=np.zeros_like(mass), where=share > 0.0)
        return mass * np.exp(-fold.log_volume) if in_theta else mass / volume

    def _average(
        self, heights: Sequence[FloatArray], lower: FloatArray, upper: FloatArray
    ) -> FloatArray:
        """The step functions of the folds, averaged over folds and ranges of the cube."""
        total = np.zeros(len(lower))
        for fold, height in zip(self.folds, heights, strict=True):
            total += mean_over(fold.boxes, height, lower, upper)
        return total / len(self.folds)

    def _weighted(self, density: FloatArray, cube: FloatArray) -> FloatArray:
        """A density times v; 0 where v is, also where the density is unknown."""
        value = self._value(cube)
        with np.errstate(invalid="ignore"):  # of an infinite density times 0
            return np.where(value > 0.0, density * value, 0.0)

    def _value(self, cube: FloatArray) -> FloatArray:
        """v at points of the cube: (n, d) -> (n,)."""
        return np.ones(len(cube)) if self.density is None else self.density(cube)

    # Draws ----------------------------------------------------------------------------------

    def sample(self, n: int, rng: RNGLike = None) -> FloatArray:
        """(n, p) Independent draws: a box by its mass, then the prior within the box.

        Under a constraint the second is by rejection, exactly, so every draw satisfies it.  Under a
        density prior it is by sampling, importance, resampling: one of at least 64 candidates that
        are uniform where the prior has density, in proportion to it.  A box with 4096 candidates in
        vain is drawn again: where less than about one in a thousand is allowed, boxes are drawn
        less often than their masses say.

        Raises
        ------
        ParameterError
            If no box holds a point that the prior and the constraint allow.
        """
        generator = np.random.default_rng(rng)
        cube = np.empty((n, self.prior.d))
        fold_of = generator.integers(len(self.folds), size=n)
        for f, fold in enumerate(self.folds):
            rows = np.flatnonzero(fold_of == f)
            box = generator.choice(len(fold.boxes), size=len(rows), p=fold.mass)
            cube[rows] = self._within(fold, box, generator)
        return self.prior.from_cube(cube)

    def _within(self, fold: StepFold, box: IntArray, rng: np.random.Generator) -> FloatArray:
        """A point of the prior in each named box: (n,) -> (n, d)."""
        if self.density is None:
            return fold.boxes.sample(box, rng)
        # Without a density of its own, v is constant where it is not 0: one candidate will do.
        enough = _N_CANDIDATES if hasattr(self.prior, "cube_density") else 1
        cube = np.empty((len(box), self.prior.d))
        for first in range(0, len(box), _DRAWS_AT_ONCE):
            some = slice(first, first + _DRAWS_AT_ONCE)
            cube[some] = _Search(fold, self.density, enough, box[some], rng).points()
        return cube

    @cached_property
    def _cloud(self) -> tuple[FloatArray, FloatArray]:
        """Points (m, p) and weights (m,) for what has no closed form."""
        if self.density is None:
            return self.sample(_N_DRAWS, rng=0), np.full(_N_DRAWS, 1.0 / _N_DRAWS)
        cube, _, weight = self._nodes
        return self.prior.from_cube(cube), weight

    @cached_property
    def _nodes(self) -> tuple[FloatArray, IntArray, FloatArray]:
        """Points (m, d) of the cube with density, their boxes (m,) and their shares (m,) of mass.

        The box is a number in the list of all folds.
        """
        wanted = np.where(self._mass > 0.0, _N_NODES_EACH + _N_NODES * self._mass, 0.0)
        cube, box, value = self._spread(wanted.astype(np.int64))
        found = np.bincount(box, minlength=len(wanted)) > 0
        again = np.where((wanted > 0.0) & ~found, _N_NODES_AGAIN, 0)
        if again.any():
            more = self._spread(again)
            cube, box = np.concatenate([cube, more[0]]), np.concatenate([box, more[1]])
            value = np.concatenate([value, more[2]])
        if len(box) == 0:
            raise _nowhere()
        total = np.bincount(box, value, minlength=len(wanted))
        weight = self._mass[box] * value / total[box]
        return cube, box, weight / weight.sum()

    def _spread(self, wanted: IntArray) -> tuple[FloatArray, IntArray, FloatArray]:
        """So many (K,) even points in each box, of which those with density are kept, and v."""
        box = np.repeat(np.arange(len(wanted)), wanted)
        lower, upper = self._lower[box], self._upper[box]
        cube = lower + (upper - lower) * spread(len(box), self.prior.d)
        cube = np.clip(np.minimum(cube, np.nextafter(upper, lower)), _LOWEST, _HIGHEST)
        value = self._value(cube)
        kept = value > 0.0
        return cube[kept], box[kept], value[kept]

    # Marginals ------------------------------------------------------------------------------

    def driver(self, name: str) -> int | None:
        """The cube dimension that alone drives a parameter, upwards; None if there is none.

        With a driver, `marginal`, `cdf` and `mean` are exact (overlaps of boxes in the cube, up to
        rounding and quadrature).  Without one (a joint prior, a fixed parameter) they come from
        100 000 draws with a fixed seed.  Found by probing the prior.

        Under a density prior or a constraint they come, driver or not, from a quadrature with about
        65 000 even points, shared out to the boxes by mass but at least 64 to each, and weighted by
        v within a box: to about 0.01 posterior standard deviations unless next to nothing of the
        boxes is allowed.
        """
        return self._drivers[self._column(name)]

    def _exact(self, i: int) -> int | None:
        """The driver of parameter i where it makes answers exact."""
        return self._drivers[i] if self.density is None else None

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
        for i in range(len(answer)):
            j = self._exact(i)
            if j is None:
                theta, weight = self._cloud
                answer[i] = weight @ theta[:, i]
            else:
                level = (np.arange(_N_POINTS) + 0.5) / _N_POINTS
                answer[i] = _along(self.prior, i, j, self._step(j).quantile(level)).mean()
        return answer

    def _below(self, name: str, x: FloatArray) -> FloatArray:
        i = self._column(name)
        j = self._exact(i)
        if j is None:
            value, cumulative = self._sorted(i)
            return np.append(0.0, cumulative)[np.searchsorted(value, x, side="right")]
        return self._step(j).cdf(_cube_coordinate(self.prior, i, j, x))

    def _sorted(self, i: int) -> tuple[FloatArray, FloatArray]:
        """The points of the cloud in the order of parameter i, and their cumulative weights."""
        theta, weight = self._cloud
        order = np.argsort(theta[:, i], kind="stable")
        cumulative = np.cumsum(weight[order])
        return theta[order, i], cumulative / cumulative[-1]

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
        j, level = self._exact(i), np.array([_TAIL, 1.0 - _TAIL])
        if j is None:
            value, cumulative = self._sorted(i)
            ends = value[np.searchsorted(cumulative, level)]
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

        Under a density prior or a constraint boxes are ranked by the average of `pdf` over the
        points of the quadrature (see `driver`), weighted as there, and boxes without such a point
        are left out.  What a constraint refuses within a box stays a part of the region.

        Raises
        ------
        ParameterError
            If `mass` is not in (0, 1].
        """
        if not 0.0 < mass <= 1.0:
            raise ParameterError(f"`mass` must be in (0, 1], but got {mass}. Try 0.9.")
        density, brings = self._ranks
        ranked = np.argsort(-density, kind="stable")
        ranked = ranked[brings[ranked] > 0.0]
        reached = np.cumsum(brings[ranked])
        n = int(np.searchsorted(reached, mass - 1e-12, side="left")) + 1
        chosen = ranked[:n]
        corners = [
            self.prior.from_cube(np.clip(c[chosen], _LOWEST, _HIGHEST))
            for c in (self._lower, self._upper)
        ]
        return Region(np.minimum(*corners), np.maximum(*corners), brings[chosen])

    def mode(self) -> FloatArray:
        """(p,) The parameters at the centre of the box of highest density in θ.

        Under a density prior or a constraint: at the point of the quadrature (see `driver`) of
        highest density.
        """
        centres = middle(self._lower, self._upper)
        points = centres if self.density is None else self._nodes[0]
        best = int(np.argmax(self._known_density(points)))
        return np.asarray(self.prior.from_cube(points[best : best + 1])[0])

    @cached_property
    def _ranks(self) -> tuple[FloatArray, FloatArray]:
        """(K,) The density of each box, and the mass that it brings."""
        if self.density is None:
            return self._known_density(middle(self._lower, self._upper)), self._mass
        cube, box, weight = self._nodes
        n = len(self._mass)
        mass = np.bincount(box, weight, minlength=n)
        total = np.bincount(box, weight * self._known_density(cube), minlength=n)
        density: FloatArray = np.zeros(n)
        np.divide(total, mass, out=density, where=mass > 0.0)
        return density, mass.astype(np.float64)

    def _known_density(self, cube: FloatArray) -> FloatArray:
        """The density in θ, or in the cube where volumes are unknown."""
        known = not any(np.isnan(f.log_volume).any() for f in self.folds)
        return self._density(cube, in_theta=known)

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


def _prior_mass(fold: StepFold) -> FloatArray:
    return fold.boxes.volume if fold.prior_mass is None else fold.prior_mass


def _prior_fold(fold: StepFold) -> StepFold:
    return replace(fold, mass=_prior_mass(fold))


def _nowhere() -> ParameterError:
    return ParameterError(
        "`density` must be positive somewhere in the boxes with mass, but no such point was found. "
        "The constraint leaves too little of them: use the weighted draws of `Result.posterior`."
    )


# Points and ranges of the cube ------------------------------------------------------------------


def cube_range(prior: Prior, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The ends (n, d), (n, d) of what a prior maps to theta (n, p), for atoms their intervals.

    A prior without a `cube_range` of its own is taken at `to_cube`.
    """
    own = getattr(prior, "cube_range", None)
    if own is None:
        point = prior.to_cube(theta)
        return point, point
    lower, upper = own(theta)
    return lower, upper


def middle(lower: FloatArray, upper: FloatArray) -> FloatArray:
    """The points in the middle of ranges, in the open cube."""
    return np.clip(0.5 * lower + 0.5 * upper, _LOWEST, _HIGHEST)


def out_of_support(prior: Prior, theta: FloatArray, cube: FloatArray) -> BoolArray:
    """Where the density of a prior is zero: theta (n, p) and its place (n, d) in the cube."""
    log_density = getattr(prior, "log_density", None)
    if log_density is not None:
        return np.asarray(np.asarray(log_density(theta)) == -np.inf)
    # A point out of the support maps to a face of the cube.
    return np.asarray(((cube <= _LOWEST) | (cube >= _HIGHEST)).any(axis=1))


def mean_over(boxes: Boxes, value: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """Means of a step function over ranges of the cube, exact up to rounding.

    Parameters
    ----------
    boxes : Boxes
        Where the function is constant.
    value : (K,) array
        The function.
    lower, upper : (n, d) array
        The ranges, ``lower <= upper``; of no length in a dimension that is not averaged over.

    Returns
    -------
    (n,) array
        In O(m log K) for m pairs of a range and a box that meet.
    """
    if (lower == upper).all():
        return np.asarray(value[boxes.locate(lower)])
    mean = np.empty(len(lower))
    for first in range(0, len(lower), _ROWS_AT_ONCE):
        some = slice(first, first + _ROWS_AT_ONCE)
        row, box, share = _met(boxes, lower[some], upper[some])
        mean[some] = np.bincount(row, value[box] * share, minlength=len(lower[some]))
    return mean


def mean_density(mixture: Mixture, lower: FloatArray, upper: FloatArray) -> FloatArray:
    """M of a `Mixture`, averaged over ranges of the cube: (n, d), (n, d) -> (n,).

    Exact for proposals on boxes.  A mixture of another kind is asked at 16 midpoints of the range,
    or at 64 Sobol' points if the range has several dimensions: where it is smooth, good to 1 %.
    """
    if (lower == upper).all():
        return mixture(middle(lower, upper))
    total = np.zeros(len(lower))
    if type(mixture) is Mixture:
        total += mixture.n_prior
        for boxes, density in mixture.layers:
            total += mean_over(boxes, density, lower, upper)
        return total
    free = np.flatnonzero((lower < upper).any(axis=0))
    even = _even(16 if len(free) == 1 else 64, len(free))
    for share in even:
        point = lower.copy()
        point[:, free] += (upper - lower)[:, free] * share
        total += mixture(middle(point, point))
    return total / len(even)


def _even(n: int, d: int) -> FloatArray:
    """Points (n, d), n a power of two, that in each dimension are the n midpoints."""
    from scipy.stats import qmc

    return np.asarray(qmc.Sobol(d, scramble=False).random(n) + 0.5 / n)


def _met(
    boxes: Boxes, lower: FloatArray, upper: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """The pairs of a range and a box that meet, and the share of the range that the box holds."""
    tree = boxes.tree
    row, node = np.arange(len(lower)), np.zeros(len(lower), dtype=np.int64)
    rows, found = [], []
    while len(row):
        leaf = tree.feature[node] < 0
        rows.append(row[leaf])
        found.append(tree.box[node[leaf]])
        row, node = row[~leaf], node[~leaf]
        dim, cut = tree.feature[node], tree.threshold[node]
        left = lower[row, dim] < cut
        right = (upper[row, dim] > cut) | ~left
        row = np.concatenate([row[left], row[right]])
        node = np.concatenate([tree.left[node[left]], tree.right[node[right]]])
    row, box = np.concatenate(rows), np.concatenate(found)
    low, high = lower[row], upper[row]
    length = high - low
    overlap = np.minimum(high, boxes.upper[box]) - np.maximum(low, boxes.lower[box])
    share = np.divide(overlap, length, out=np.ones_like(length), where=length > 0.0)
    return row, box, np.asarray(share.prod(axis=1))


# Draws of a density within boxes ----------------------------------------------------------------


class _Search:
    """Draws of a density in given boxes, from uniform candidates.

    Each draw holds one of its candidates so far, picked in proportion to the density: a candidate
    of a new batch replaces it with the probability of its share (reservoir sampling).
    """

    def __init__(
        self,
        fold: StepFold,
        density: Callable[[FloatArray], FloatArray],
        enough: int,
        box: IntArray,
        rng: np.random.Generator,
    ) -> None:
        self.boxes, self.mass, self.density = fold.boxes, fold.mass.copy(), density
        self.enough = enough  # candidates with density
        self.box, self.rng = box.copy(), rng
        self.cube = np.empty((len(box), fold.boxes.d))
        self.total = np.zeros(len(box))  # density of the candidates of each draw
        self.count = np.zeros(len(box), dtype=np.int64)  # those with density
        self.tried = np.zeros(len(box), dtype=np.int64)  # all since the box was drawn
        self.tried_in = np.zeros(len(fold.boxes), dtype=np.int64)  # by all draws of a box
        self.count_in = np.zeros(len(fold.boxes), dtype=np.int64)

    def points(self) -> FloatArray:
        """(n, d) The draws."""
        waiting = np.arange(len(self.box))
        batch = max(_N_FIRST, self.enough)
        while len(waiting):
            self._try(waiting, batch)
            count, tried = self.count[waiting], self.tried[waiting]
            in_vain = self.tried_in[self.box[waiting]] * (self.count_in[self.box[waiting]] == 0)
            lost = (count == 0) & (np.maximum(tried, in_vain) >= _N_IN_VAIN)
            self._redraw(waiting[lost])
            done = (count >= self.enough) | ((count > 0) & (tried >= _N_IN_VAIN))
            waiting = waiting[~done]
            batch = min(2 * batch, _N_CANDIDATES)
        return self.cube

    def _try(self, rows: IntArray, batch: int) -> None:
        """So many more candidates for each of some draws."""
        candidate = self.boxes.sample(np.repeat(self.box[rows], batch), self.rng)
        value = self.density(candidate).reshape(len(rows), batch)
        cumulative = np.cumsum(value, axis=1)
        new = cumulative[:, -1]
        level = np.minimum(self.rng.random(len(rows)) * new, np.nextafter(new, 0.0))
        pick = (cumulative > level[:, None]).argmax(axis=1) + batch * np.arange(len(rows))
        self.total[rows] += new
        taken = (new > 0.0) & (self.rng.random(len(rows)) * self.total[rows] <= new)
        self.cube[rows[taken]] = candidate[pick[taken]]
        count = np.count_nonzero(value, axis=1)
        self.count[rows] += count
        self.tried[rows] += batch
        np.add.at(self.count_in, self.box[rows], count)
        np.add.at(self.tried_in, self.box[rows], batch)

    def _redraw(self, rows: IntArray) -> None:
        """Other boxes for some draws, but none in which nothing was ever found."""
        if len(rows) == 0:
            return
        self.mass[(self.count_in == 0) & (self.tried_in >= _N_IN_VAIN)] = 0.0
        left = self.mass.sum()
        if not left > 0.0:
            raise _nowhere()
        self.box[rows] = self.rng.choice(len(self.mass), size=len(rows), p=self.mass / left)
        self.tried[rows] = 0


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
