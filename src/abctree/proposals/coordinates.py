"""The space in which particles are perturbed: the parameters themselves, or the unit cube."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from abctree.errors import ParameterError, wrong
from abctree.problem.priors.continuous import Fixed
from abctree.problem.priors.discrete import Atoms, Integers, Lattice
from abctree.problem.priors.functions import DensityPrior
from abctree.problem.priors.joint import Dirichlet
from abctree.problem.priors.product import Product
from abctree.protocols import Prior
from abctree.types import BoolArray, FloatArray, IntArray

#: Where it is asked whether a parameter's outer draws are an end of its support.
_OUTER = 0.001


class Coordinates(Protocol):
    """A chart of the parameters: z (n, k), with the prior's density in it."""

    @property
    def is_lattice(self) -> BoolArray:
        """(k,) Coordinates that take whole numbers only."""

    def of(self, theta: FloatArray, cube: FloatArray) -> FloatArray:
        """Parameters (n, p), the same points in the cube (n, d) -> z (n, k)."""

    def theta(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Z (n, k) -> theta (n, p), and the log-density of the cube's uniform law in z (n,).

        The density is -inf outside the support, where theta means nothing.
        """

    def cube(self, z: FloatArray, theta: FloatArray) -> FloatArray:
        """Points inside the support -> the cube (n, d)."""


@dataclass(frozen=True, eq=False)
class _Column:
    """One coordinate of `InTheta`, and the column of theta that it is."""

    column: int
    value: FloatArray | None  #: (m,) of a table of atoms: the coordinate is the position in it
    is_lattice: bool


@dataclass(frozen=True, eq=False)
class InTheta:
    """The parameters in user units, as SMC-ABC is published.

    Continuous parameters are their own coordinates.  A whole number is, too; one of a list of
    values is its position in the list.  Fixed parameters have no coordinate, and the last share of
    a Dirichlet block none either: it is what the others leave.
    """

    prior: Product
    columns: tuple[_Column, ...]
    fixed: tuple[tuple[int, float], ...]  #: column and value
    rests: tuple[IntArray, ...]  #: columns of each Dirichlet block

    @classmethod
    def of_prior(cls, prior: Product) -> InTheta:
        """The chart of a product prior."""
        columns: list[_Column] = []
        fixed: list[tuple[int, float]] = []
        rests: list[IntArray] = []
        for part in prior._parts:
            block = part.block
            if isinstance(block, Fixed):
                fixed.append((int(part.column[0]), block.value))
            elif isinstance(block, Dirichlet):
                rests.append(part.column)
                columns += [_Column(int(j), None, is_lattice=False) for j in part.column[:-1]]
            else:
                value = block.value if isinstance(block, Atoms) else None
                whole = isinstance(block, Integers | Atoms | Lattice)
                columns += [_Column(int(j), value, is_lattice=whole) for j in part.column]
        return cls(prior, tuple(columns), tuple(fixed), tuple(rests))

    @property
    def is_lattice(self) -> BoolArray:
        """See `Coordinates`."""
        return np.array([c.is_lattice for c in self.columns], dtype=bool)

    def of(self, theta: FloatArray, cube: FloatArray) -> FloatArray:  # noqa: ARG002
        """See `Coordinates`."""
        z = np.empty((len(theta), len(self.columns)))
        for k, c in enumerate(self.columns):
            x = theta[:, c.column]
            z[:, k] = x if c.value is None else np.searchsorted(c.value, x)
        return z

    def theta(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """See `Coordinates`."""
        theta = np.empty((len(z), len(self.prior.names)))
        possible = np.isfinite(z).all(axis=1)
        for k, c in enumerate(self.columns):
            x = np.where(possible, z[:, k], 0.0)
            if c.value is not None:
                possible &= (x >= 0.0) & (x < len(c.value))
                x = c.value[np.clip(x, 0, len(c.value) - 1).astype(np.int64)]
            theta[:, c.column] = x
        for column, value in self.fixed:
            theta[:, column] = value
        for block in self.rests:
            theta[:, block[-1]] = 1.0 - theta[:, block[:-1]].sum(axis=1)
        density = np.full(len(z), -np.inf)
        density[possible] = self.prior.log_density(theta[possible])
        _check_density(density)
        # An infinite density is an end of the support that a step meets with probability zero.
        density[density == np.inf] = -np.inf
        return theta, density

    def cube(self, z: FloatArray, theta: FloatArray) -> FloatArray:  # noqa: ARG002
        """See `Coordinates`."""
        return self.prior.to_cube(theta)


def _check_density(density: FloatArray) -> None:
    if np.isnan(density).any():
        raise ParameterError(
            '`space` must be "cube" for a prior without a density, but got "theta". '
            "A distribution needs logpdf or logpmf for steps in its own units."
        )


@dataclass(frozen=True, eq=False)
class InCube:
    """The unit cube, in which every prior is uniform; discrete parameters are steps of the map."""

    prior: Prior

    @property
    def is_lattice(self) -> BoolArray:
        """See `Coordinates`."""
        return np.zeros(self.prior.d, dtype=bool)

    def of(self, theta: FloatArray, cube: FloatArray) -> FloatArray:  # noqa: ARG002
        """See `Coordinates`."""
        return cube

    def theta(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """See `Coordinates`."""
        inside = ((z > 0.0) & (z < 1.0)).all(axis=1)
        theta = np.zeros((len(z), len(self.prior.names)))
        if inside.any():
            theta[inside] = self.prior.from_cube(z[inside])
        return theta, np.where(inside, 0.0, -np.inf)

    def cube(self, z: FloatArray, theta: FloatArray) -> FloatArray:  # noqa: ARG002
        """See `Coordinates`."""
        return z


def coordinates(prior: Prior, space: Literal["theta", "cube"] | None) -> Coordinates:
    """The chart named `space`; by default theta for a prior of named laws, and else the cube."""
    if space not in (None, "theta", "cube"):
        raise ParameterError(f'`space` must be "theta" or "cube", but got {space!r}.')
    product = _product(prior)
    if space == "theta" and product is None:
        raise ParameterError(
            f'`space` must be "cube" for a {type(prior).__name__}, whose density is not known, '
            'but got "theta".'
        )
    is_heaped = product is not None and _is_heaped(product)
    if space == "theta" and is_heaped:
        raise wrong(
            "space", 'be "cube" where many prior draws are an end of the prior, up to rounding',
            '"theta"', "The density is infinite there, and no step would lead to it.",
        )  # fmt: skip
    if product is None or is_heaped or space == "cube":
        return InCube(prior)
    return InTheta.of_prior(product)


def _is_heaped(prior: Product) -> bool:
    """Whether a thousandth of the draws of a parameter are where its density is infinite.

    Rounded to floats, a hundredth of the draws of Beta(0.1, 0.1) are 1.
    """
    outer = np.repeat([[_OUTER], [1.0 - _OUTER]], prior.d, axis=1)
    with np.errstate(all="ignore"):
        return bool(np.isposinf(prior.log_density(prior.from_cube(outer))).any())


def _product(prior: Prior) -> Product | None:
    """The prior as a product of named laws; of a `DensityPrior`, its box."""
    box = prior.box if isinstance(prior, DensityPrior) else prior
    return box if isinstance(box, Product) else None
