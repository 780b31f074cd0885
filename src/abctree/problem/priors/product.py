"""`Product`: independent parameters and blocks, from a dict, and what its values mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy  # its parts are imported when they are used: workers start without them

from abctree.errors import ParameterError, wrong
from abctree.problem.priors.continuous import Continuous, Fixed, Periodic, Uniform
from abctree.problem.priors.cube import (
    Block,
    DiscreteBlock,
    checked_boxes,
    checked_cube,
    checked_names,
    checked_theta,
    finite_number,
)
from abctree.problem.priors.discrete import Atoms, Categorical, Integers, discrete
from abctree.problem.priors.distribution import Distribution, spelled
from abctree.problem.priors.joint import Dirichlet, Gaussian, MultivariateNormal
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

    names: tuple[str, ...]  #: the columns of theta, fixed parameters included
    d: int  #: dimensions of the cube; fixed parameters have none
    _parts: tuple[_Part, ...]
    _text: str
    circles: tuple[Circle, ...]  #: parameters that are `Periodic`
    categories: tuple[Category, ...]  #: those that are `Categorical`

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
        parts = _placed(blocks)
        held = list(zip(spec.values(), parts, strict=True))
        circles = tuple(
            Circle(int(part.column[0]), int(part.dim[0]), value.low, value.high)
            for value, part in held
            if isinstance(value, Periodic)
        )
        categories = tuple(
            Category(int(part.column[0]), tuple(part.block.value.tolist()))
            for value, part in held
            if isinstance(value, Categorical) and isinstance(part.block, Atoms)
        )
        self.__dict__.update(names=names, d=d, _parts=_joined(parts), _text=text)
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
        return self.from_own(checked_cube("cube", cube, self.d))

    def from_own(self, points: FloatArray) -> FloatArray:
        """`from_cube` of points (n, d) that need not be looked at: the library drew them."""
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
        _check_volumes(spec)
        return spec
    advice = (
        "Wrap a function in PriorTransform (a map of the cube) or DensityPrior (a log-density)."
        if callable(spec)
        else _EXAMPLE
    )
    raise ParameterError(f"`prior` must be a dict or a prior, but got {spec!r}. {advice}")


def _check_volumes(prior: Prior) -> None:
    """Ask for volumes once: a run may ask for them after its last simulation only."""
    low = np.full((2, prior.d), 0.25)
    with np.errstate(divide="ignore"):
        value = np.asarray(prior.log_volume(low, low + 0.5))
    if value.shape != (2,) or value.dtype.kind not in "fiu" or np.isposinf(value).any():
        raise ParameterError(
            "`prior.log_volume` must return a number for each box, shape (2,) for two of them, but "
            f"got {value!r}. Return nan where volumes are not known."
        )


def _placed(blocks: list[Block]) -> list[_Part]:
    """The blocks with their columns and dimensions."""
    parts: list[_Part] = []
    column = dim = 0
    for block in blocks:
        columns = np.arange(column, column + len(block.support))
        parts.append(_Part(block, columns, np.arange(dim, dim + block.d)))
        column, dim = column + len(block.support), dim + block.d
    return parts


def _joined(parts: list[_Part]) -> tuple[_Part, ...]:
    """All uniform parameters as one block, and the others."""
    uniform = [(p.block, p) for p in parts if isinstance(p.block, Uniform)]
    others = [part for part in parts if not isinstance(part.block, Uniform)]
    if not uniform:
        return tuple(others)
    low, high, columns, dims = (
        np.concatenate(arrays)
        for arrays in zip(*((b.low, b.high, p.column, p.dim) for b, p in uniform), strict=True)
    )
    return (_Part(Uniform(low, high), columns, dims), *others)


# What a value means -------------------------------------------------------------------------------

_KINDS = (
    "Use a number (fixed), a tuple (low, high), Integers, Categorical, Periodic "
    "or a distribution such as scipy.stats.norm(0, 1)."
)
_WRITE = "A parameter without width is written as its number, such as 1.0."
#: A distribution whose quantiles here are one float has no width.
_INNER = (0.01, 0.99)
_JOINT = "Use MultivariateNormal or Dirichlet, or one key for each name."


def block_of(key: object, value: object) -> Block:
    """The block under a name, or a tuple of names."""
    label = f"prior[{key!r}]"
    return _joint(label, key, value) if isinstance(key, tuple) else _one_parameter(label, value)


def _one_parameter(label: str, value: object) -> Block:
    if isinstance(value, Real):
        return Fixed(finite_number(label, value))
    if isinstance(value, tuple):
        return _interval(label, value)
    if isinstance(value, Integers):
        return Fixed(float(value.low)) if value.count == 1 else value
    if isinstance(value, Periodic):
        return value.block()
    if isinstance(value, Categorical):
        return _fixed_if_single(value.atoms())
    if _joint_block(value) is not None:
        raise ParameterError(
            f"`{label}` must be the prior of one parameter, but got {value!r}. "
            "Give the names of a joint prior as one key, a tuple: ('a', 'b')."
        )
    law = Distribution(_frozen(label, value))
    _check_scalar(label, law)
    block = _known(label, law)
    if block is None:
        block = discrete(label, law) if law.is_discrete else Continuous.of(label, law)
    return _fixed_if_single(block) if isinstance(block, Atoms) else block


def _joint(label: str, names: tuple[object, ...], value: object) -> Block:
    block = _joint_block(value)
    if block is None:
        raise ParameterError(f"`{label}` must be a joint prior, but got {value!r}. {_JOINT}")
    if len(block.support) != len(names):
        raise ParameterError(
            f"`{label}` must have one component per name, {len(names)}, "
            f"but got {len(block.support)}. Name every component."
        )
    return block


def _joint_block(value: object) -> Block | None:
    if isinstance(value, MultivariateNormal):
        return value.block()
    if isinstance(value, Dirichlet):
        return value
    if isinstance(value, type(scipy.stats.multivariate_normal([0.0]))):
        return MultivariateNormal(value.mean, value.cov).block()
    if isinstance(value, type(scipy.stats.dirichlet([1.0, 1.0]))):
        return Dirichlet(value.alpha)
    return None


def _interval(label: str, value: tuple[object, ...]) -> Block:
    if len(value) != 2:
        raise ParameterError(
            f"`{label}` must be a pair (low, high), but got a tuple of length {len(value)}. "
            "Use Categorical for a list of values."
        )
    low, high = (finite_number(label, end) for end in value)
    if low > high:
        raise ParameterError(f"`{label}` must have low <= high, but got {value!r}. Swap the two.")
    return _uniform(label, low, high)


def _uniform(label: str, low: float, high: float) -> Block:
    if low == high:
        return Fixed(low)
    if not np.isfinite(high - low):
        raise wrong(label, "have a finite width", repr((low, high)), "Change the unit.")
    return Uniform(np.array([low]), np.array([high]))


def _frozen(label: str, value: Any) -> Any:
    # Data, not parameters, made these; they are complete without a call.
    if isinstance(value, scipy.stats.rv_histogram) or hasattr(value, "xk"):
        return value()
    is_open = isinstance(value, (type, scipy.stats.rv_continuous, scipy.stats.rv_discrete))
    if is_open or value is scipy.stats.multivariate_normal or value is scipy.stats.dirichlet:
        name = value.__name__ if isinstance(value, type) else getattr(value, "name", "it")
        raise ParameterError(
            f"`{label}` must be a distribution with its parameters, but got {name} alone. "
            f"Call it, for instance {name}(...)."
        )
    if not hasattr(value, "cdf") or not (hasattr(value, "ppf") or hasattr(value, "icdf")):
        raise wrong(label, "be a prior of one parameter", repr(value), _KINDS)
    return value


def _check_scalar(label: str, law: Distribution) -> None:
    middle = law.ppf(0.5)
    if middle.shape != ():
        raise ParameterError(
            f"`{label}` must be the prior of one parameter, but got {law} with parameters of shape "
            f"{middle.shape}. Give every parameter its own name."
        )
    if not np.isfinite(middle):
        raise ParameterError(
            f"`{label}` must be a proper distribution, but got {law} with median {middle}. "
            f"Check its parameters; scales must be positive. {_WRITE}"
        )
    low, high = law.ppf(_INNER)
    if low == high and not law.is_discrete:
        raise ParameterError(
            f"`{label}` must have a width that floats can tell, but got {law}, of which nearly "
            f"all draws are {float(middle)!r}. {_WRITE}"
        )


def _known(label: str, law: Distribution) -> Block | None:
    """The faster twins of three families, without the overhead of scipy.stats."""
    source = law.source
    kind = type(law.dist)
    if kind is type(scipy.stats.uniform) or isinstance(source, _class("Uniform")):
        return _uniform(label, *law.support)
    if kind is type(scipy.stats.norm):
        return _normal(source.mean(), source.std())
    if isinstance(source, _class("Normal")):
        return _normal(source.mean(), source.standard_deviation())
    if kind is type(scipy.stats.randint):
        return _one_parameter(label, Integers(*(int(end) for end in law.support)))
    return None


def _class(name: str) -> Any:
    """A new-style class of scipy, or nothing in an older scipy."""
    return getattr(scipy.stats, name, ())


def _normal(mean: float, sd: float) -> Block | None:
    # A scale below 1e-154 has a variance of zero.
    usable = sd > 0.0 and np.isfinite(sd)
    return Gaussian(np.array([float(mean)]), np.array([[float(sd)]])) if usable else None


def _fixed_if_single(atoms: Atoms) -> Block:
    return Fixed(float(atoms.value[0])) if len(atoms.value) == 1 else atoms
