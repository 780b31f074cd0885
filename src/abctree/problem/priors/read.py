"""What a value of a prior's dict means."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import scipy  # its parts are imported when they are used: workers start without them

from abctree.errors import ParameterError, wrong
from abctree.problem.priors.checks import finite_number
from abctree.problem.priors.continuous import Continuous, Fixed, Periodic, Uniform
from abctree.problem.priors.cube import Block
from abctree.problem.priors.discrete import Atoms, Categorical, Integers, discrete
from abctree.problem.priors.distribution import Distribution
from abctree.problem.priors.joint import Dirichlet, Gaussian, MultivariateNormal

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
