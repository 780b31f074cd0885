"""`StepPosterior`: the step-function posterior of Equation (7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from abctree.answers.histogram.folds import (
    DenseBoxes,
    Density,
    StepFold,
    check_masses,
    densest,
    draw_within,
    nodes,
)
from abctree.answers.histogram.marginal import (
    DrawnMarginal,
    DrivenMarginal,
    Marginal,
    drivers,
    edges_of,
)
from abctree.answers.weighted import ByParameter, scatter
from abctree.data import Boxes
from abctree.errors import ParameterError
from abctree.keywords import checks_keywords_of_methods, place_of
from abctree.numbers import check_rule, checked_rng, unit_of
from abctree.problem.priors.circles import Direction, circles_of
from abctree.problem.priors.cube import checked_theta
from abctree.proposals.ranges import cube_range, mean_over, middle, out_of_support
from abctree.protocols import HasCubeDensity, HasLogDensity, Prior
from abctree.types import FloatArray, IntArray, RNGLike

#: Draws for marginals that no single cube dimension drives.
_N_DRAWS = 100_000


@checks_keywords_of_methods
@dataclass(frozen=True, eq=False)
class StepPosterior(ByParameter):
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
    density: Density | None = None  #: v; None if it is 1 everywhere

    @classmethod
    def from_folds(
        cls,
        folds: Sequence[StepFold | tuple[Boxes, FloatArray, FloatArray]],
        prior: Prior,
        *,
        epsilon: float = np.nan,
        density: Density | None = None,
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
            check_masses(fold)
        telling = [f for f in given if f.mass.sum() > 0.0]
        chosen = telling or [replace(f, mass=f.prior_masses) for f in given]
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
        theta = checked_theta(theta, self.names)
        lower, upper = cube_range(self.prior, theta)
        cube = middle(lower, upper)
        density = self._average([self._heights(f, in_theta=True) for f in self.folds], lower, upper)
        if any(np.isinf(f.log_volume).any() for f in self.folds):
            density += self._unbounded(theta, lower, upper)
        density = self._weighted(density, cube)
        return np.where(out_of_support(self.prior, theta, cube), 0.0, density)

    def _unbounded(self, theta: FloatArray, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """The part of `pdf` that comes from boxes of infinite volume."""
        if not isinstance(self.prior, HasLogDensity):
            return np.zeros(len(theta))
        heights = [
            np.where(np.isinf(f.log_volume), self._heights(f, in_theta=False), 0.0)
            for f in self.folds
        ]
        density = self._average(heights, lower, upper)
        rows = np.flatnonzero(density > 0.0)
        density[rows] *= np.exp(self.prior.log_density(theta[rows]))
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
            share = fold.prior_masses / volume
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
        generator = checked_rng(rng)
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
        # Without a density of its own, v is constant where it is not 0.
        constant = not isinstance(self.prior, HasCubeDensity)
        return draw_within(fold, self.density, box, rng, constant=constant)

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
        return nodes(self._lower, self._upper, self._mass, self._value)

    # Marginals ------------------------------------------------------------------------------

    def driver(self, name: str) -> int | None:
        """The cube dimension that alone drives a parameter, upwards; None if there is none.

        With a driver, `marginal`, `cdf`, `mean`, `std`, `quantile` and `hdi` are exact (overlaps of
        boxes in the cube, up to rounding and quadrature).  Without one (a joint prior, a fixed
        parameter) they come from 100 000 draws with a fixed seed, and so does `cov` beside the
        diagonal.  Found by probing the prior.

        Under a density prior or a constraint they come, driver or not, from a quadrature with about
        65 000 even points, shared out to the boxes by mass but at least 64 to each, and weighted by
        v within a box: to about 0.01 posterior standard deviations unless next to nothing of the
        boxes is allowed.
        """
        return self._drivers[place_of(name, self.names)]

    @cached_property
    def _drivers(self) -> tuple[int | None, ...]:
        return drivers(self.prior)

    @cached_property
    def _laws(self) -> tuple[Marginal, ...]:
        return tuple(self._marginal(i, j) for i, j in enumerate(self._drivers))

    def _marginal(self, i: int, j: int | None) -> Marginal:
        """The law of parameter i, exact where dimension j of the cube drives it, else of draws.

        A circle is cut open opposite its mean, and the law is of draws.
        """
        circle = next((c for c in circles_of(self.prior) if c.column == i), None)
        if circle is not None or j is None or self.density is not None:
            theta, weight = self._cloud
            value = theta[:, i]
            if circle is not None:
                value = circle.around(value, Direction.of(value, weight, circle).mean)
            return DrawnMarginal(value, weight)
        return DrivenMarginal(self.prior, i, j, self._lower[:, j], self._upper[:, j], self._mass)

    def marginal(
        self, name: str, bins: int | FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray]:
        """Edges (b + 1,) and densities (b,) of the marginal histogram of one parameter.

        Exact or from draws: see `driver`.  The densities are per unit of the parameter; density
        times width sums to the mass between the edges.

        Parameters
        ----------
        name : str
            The parameter.
        bins : int or (b + 1,) array
            The number of equal bins, over all but the outer 0.05 % of the mass on either side; or
            increasing edges.  Default: 50 bins, and for a parameter of whole numbers at most 50
            between half-integers, each as many whole numbers wide as the others.

        Raises
        ------
        ParameterError
            If the parameter is unknown or the edges do not increase.
        """
        marginal = self._laws[place_of(name, self.names)]
        edges = edges_of(marginal, bins)
        below = marginal.cdf(np.append(np.nextafter(edges[:-1], -np.inf), edges[-1]))
        return edges, np.diff(below) / np.diff(edges)

    def cdf(self, name: str, x: float | FloatArray) -> FloatArray:
        """P(parameter <= x), of the shape of x; exact or from draws, see `driver`."""
        points = np.asarray(x, dtype=np.float64)
        return self._laws[place_of(name, self.names)].cdf(points.ravel()).reshape(points.shape)

    def mean(self) -> FloatArray:
        """(p,) Posterior means; exact or from draws, see `driver`."""
        return np.array([marginal.moments()[0] for marginal in self._laws])

    def std(self) -> FloatArray:
        """(p,) Posterior standard deviations; exact or from draws, see `driver`."""
        return np.array([marginal.moments()[1] for marginal in self._laws])

    def cov(self) -> FloatArray:
        """(p, p) Posterior covariance: that of `std`, with correlations from draws."""
        theta, weight = self._cloud
        cov = scatter(theta / unit_of(theta), weight)
        drawn = np.sqrt(np.diag(cov))
        scale = np.divide(self.std(), drawn, out=np.zeros_like(drawn), where=drawn > 0.0)
        with np.errstate(over="ignore", under="ignore"):  # no float is as large or small
            return np.asarray(cov * scale * scale[:, None])

    # Regions --------------------------------------------------------------------------------

    def hdr(self, mass: float = 0.9) -> DenseBoxes:
        """The boxes of highest density in θ whose masses reach `mass`.

        Boxes are ranked by `pdf` at their centres (`cube_pdf` where volumes are unknown).  With
        several folds the boxes of different folds overlap, and the union holds at least `mass`.
        A box that touches the end of an unbounded prior ends at the prior's outermost finite value.
        Corners are those of the images of boxes under a prior of independent parameters.

        Under a density prior or a constraint boxes are ranked by the average of `pdf` over the
        points of the quadrature (see `driver`), weighted as there, and boxes without such a point
        are left out.  What a constraint refuses within a box stays a part of the region.
        """
        check_rule("mass", mass, "in (0, 1]", "Try 0.9.")
        return densest(self.prior, self._lower, self._upper, *self._ranks, mass)

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
