"""`Product`: independent parameters and blocks, from a dict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from abctree.errors import ParameterError, wrong
from abctree.problem.priors.checks import checked_boxes, checked_cube, checked_names, checked_theta
from abctree.problem.priors.continuous import Periodic, Uniform
from abctree.problem.priors.cube import Block, DiscreteBlock
from abctree.problem.priors.discrete import Atoms, Categorical
from abctree.problem.priors.distribution import spelled
from abctree.problem.priors.read import block_of
from abctree.protocols import Category, Circle, Prior
from abctree.types import FloatArray, IntArray

_EXAMPLE = "Write {'a': scipy.stats.norm(0, 1), 'b': (0.0, 1.0)}."


@dataclass(frozen=True, eq=False)
class _Part:
    """A block and its place."""

    block: Block
    column: IntArray  #: its columns of theta
    dim: IntArray  #: its dimensions of the cube


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Product:
    """A prior of independent parameters, or of independent joint blocks.

    Parameters
    ----------
    spec : dict
        Keys are names, or tuples of names for a joint block.  Their order is the order of the
        columns of theta.  A value is one of

        - a frozen distribution of `scipy.stats`, continuous or discrete, such as
          ``stats.norm(0, 2)`` or ``stats.poisson(3)``, or a new-style one, ``stats.Normal()``;
        - ``(low, high)``, uniform on the interval;
        - a number: the parameter is fixed;
        - `Integers`, `Categorical`, `Periodic`;
        - under a tuple of names, `MultivariateNormal` or `Dirichlet`, or the frozen scipy ones.

    Attributes
    ----------
    names : tuple of str
        The columns of theta, fixed parameters included.
    d : int
        Dimensions of the cube.  Fixed parameters have none.
    circles : tuple of Circle
        Those that are `Periodic`.
    categories : tuple of Category
        Those that are `Categorical`.

    Raises
    ------
    ParameterError
        If a name or a value is not as above, or no parameter is free; by the methods, if what they
        are given has another shape, lies outside of the cube, or contains nan.

    Notes
    -----
    The map is the quantile function of each parameter, so a uniform point of the cube is a draw of
    the prior and the prior mass of a box is its volume, exactly.  Volumes in theta space are
    lengths for continuous parameters and counts for discrete ones.

    Examples
    --------
    >>> from scipy import stats
    >>> from abctree.problem.priors import Integers, Product
    >>> prior = Product({"a": stats.norm(0, 2), "b": (-5.0, 5.0), "n": Integers(1, 20), "c": 3.0})
    >>> prior.d
    3
    >>> prior.from_cube([[0.5, 0.25, 0.0]])
    array([[ 0. , -2.5,  1. ,  3. ]])
    """

    names: tuple[str, ...]
    d: int
    _parts: tuple[_Part, ...]
    _text: str
    circles: tuple[Circle, ...]
    categories: tuple[Category, ...]

    def __init__(self, spec: Mapping[object, object]) -> None:
        if not isinstance(spec, Mapping) or not spec:
            rule = "be a dict with at least one parameter"
            raise wrong("prior", rule, repr(spec), _EXAMPLE)
        keys = [key if isinstance(key, tuple) and key else (key,) for key in spec]
        names = checked_names(name for key in keys for name in key)
        blocks = [block_of(key, value) for key, value in spec.items()]
        d = sum(block.d for block in blocks)
        if d == 0:
            raise ParameterError(
                f"`prior` must have a free parameter, but got only fixed ones, {list(names)}. "
                "Give at least one of them a distribution."
            )
        text = ", ".join(f"{key!r}: {spelled(value)}" for key, value in spec.items())
        text = f"Product({{{text}}})"
        circles, categories = _special(list(spec.values()), blocks)
        self.__dict__.update(names=names, d=d, _parts=_placed(blocks), _text=text)
        self.__dict__.update(circles=circles, categories=categories)

    def __repr__(self) -> str:
        return self._text

    @property
    def bounds(self) -> FloatArray:
        """(n_parameters, 2) Least and largest value of each, infinite where there is none.

        All nan for a parameter that a regression must not move: discrete, fixed, or on a simplex.
        """
        bounds = np.empty((len(self.names), 2))
        for part in self._parts:
            bounds[part.column] = part.block.support
        return bounds

    def from_cube(self, cube: FloatArray) -> FloatArray:
        """Points (n, d) in [0, 1] -> theta (n, n_parameters), finite and inside the support.

        Unbounded parameters read 0 and 1 as the nearest floats inside.
        """
        points = checked_cube("cube", cube, self.d)
        if len(self._parts) == 1:
            return self._parts[0].block.from_cube(points)
        theta = np.empty((len(points), len(self.names)))
        for part in self._parts:
            theta[:, part.column] = part.block.from_cube(points[:, part.dim])
        return theta

    def to_cube(self, theta: FloatArray) -> FloatArray:
        """Theta (n, n_parameters) -> the points (n, d) of the open cube that are mapped to it.

        A discrete parameter goes to the middle of its atom, an outsider to the nearest face.
        """
        rows = checked_theta(theta, self.names)
        cube = np.empty((len(rows), self.d))
        for part in self._parts:
            cube[:, part.dim] = part.block.to_cube(rows[:, part.column])
        return cube

    def cube_range(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Theta (n, n_parameters) -> the ends (n, d), (n, d) of what the cube maps to it.

        In [0, 1].  Both are `to_cube` in the dimensions of continuous parameters; in those of
        discrete ones they are the ends of the interval of the nearest atom, of a length that is the
        prior probability of the atom.
        """
        rows = checked_theta(theta, self.names)
        lower, upper = np.empty((2, len(rows), self.d))
        for part in self._parts:
            block, own = part.block, rows[:, part.column]
            if isinstance(block, DiscreteBlock):
                lower[:, part.dim], upper[:, part.dim] = block.cube_range(own)
            else:
                lower[:, part.dim] = upper[:, part.dim] = block.to_cube(own)
        return lower, upper

    def log_volume(self, lower: FloatArray, upper: FloatArray) -> FloatArray:
        """Log-volumes in theta space of boxes of the cube: (K, d), (K, d) -> (K,).

        Lengths for continuous parameters, counts for discrete ones; inf where unbounded.
        """
        low, high = checked_boxes(lower, upper, self.d)
        volume = np.zeros(len(low))
        for part in self._parts:
            volume += part.block.log_volume(low[:, part.dim], high[:, part.dim])
        return volume

    def log_density(self, theta: FloatArray) -> FloatArray:
        """Log-density of the prior: (n, n_parameters) -> (n,), relative to `log_volume`.

        Masses for discrete and fixed parameters; -inf outside the support.
        """
        rows = checked_theta(theta, self.names)
        density = np.zeros(len(rows))
        for part in self._parts:
            density += part.block.log_density(rows[:, part.column])
        return density


def as_prior(spec: object) -> Prior:
    """The prior that a user meant: a dict becomes a `Product`, a prior is passed through."""
    if isinstance(spec, Mapping):
        return Product(spec)
    if isinstance(spec, Prior) and not isinstance(spec, type):
        return spec
    advice = (
        "Wrap a function in PriorTransform (a map of the cube) or DensityPrior (a log-density)."
        if callable(spec)
        else _EXAMPLE
    )
    raise ParameterError(f"`prior` must be a dict or a prior, but got {spec!r}. {advice}")


def _special(
    values: list[object], blocks: list[Block]
) -> tuple[tuple[Circle, ...], tuple[Category, ...]]:
    """Parameters on circles, and categorical ones."""
    circles, categories = [], []
    column = dim = 0
    for value, block in zip(values, blocks, strict=True):
        if isinstance(value, Periodic):
            circles.append(Circle(column, dim, value.low, value.high))
        if isinstance(block, Atoms) and isinstance(value, Categorical):
            categories.append(Category(column, tuple(block.value.tolist())))
        column, dim = column + len(block.support), dim + block.d
    return tuple(circles), tuple(categories)


def _placed(blocks: list[Block]) -> tuple[_Part, ...]:
    """The blocks with their columns and dimensions; all uniform parameters as one block."""
    parts: list[_Part] = []
    column = dim = 0
    for block in blocks:
        columns = np.arange(column, column + len(block.support))
        parts.append(_Part(block, columns, np.arange(dim, dim + block.d)))
        column, dim = column + len(block.support), dim + block.d
    uniform = [(p.block, p) for p in parts if isinstance(p.block, Uniform)]
    others = [part for part in parts if not isinstance(part.block, Uniform)]
    if not uniform:
        return tuple(others)
    low, high, columns, dims = (
        np.concatenate(arrays)
        for arrays in zip(*((b.low, b.high, p.column, p.dim) for b, p in uniform), strict=True)
    )
    return (_Part(Uniform(low, high), columns, dims), *others)
