"""Simulators that take their parameters by name: as arguments, or as ``theta["beta"]``."""

from __future__ import annotations

import dis
import functools
import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, Literal

import numpy as np

from abctree.errors import ParameterError
from abctree.keywords import meant
from abctree.types import Data, FloatArray, SimulatorFunction

#: What an argument for the whole of theta is called, whatever the parameters are.
_WHOLE = "theta"
#: Arguments that stand for any.
_REST = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
#: Steps of the interpreter that do nothing.
_SKIPPED = {"CACHE", "NOP", "EXTENDED_ARG"}


def by_name(
    simulator: SimulatorFunction, names: Sequence[str], stream: Literal["rng", "seeds"]
) -> SimulatorFunction:
    """The simulator as a function of theta and a generator, or seeds.

    One that can take two arguments, of which the first is called theta or neither is a parameter,
    is called with both as they are.  A `ParameterError` if it takes neither theta nor all of the
    parameters.
    """
    try:
        signature = inspect.signature(simulator)
    except (TypeError, ValueError):  # built-in or extension without a signature
        return simulator
    two = _two_of(signature)
    if two[:1] == [_WHOLE] or (two and not set(two) & set(names)):
        asked = _asked_of(simulator, two[0])
        _check_known('`simulator` asks for theta["{}"]', asked, names)
        return OfNamedTheta(simulator, tuple(names)) if asked else simulator
    return _of_arguments(simulator, signature, names, stream)


def _two_of(signature: inspect.Signature) -> list[str]:
    """What it calls the arguments of a call with two; nothing if it cannot be called so."""
    try:
        bound = signature.bind(None, None)
    except TypeError:
        return []
    return list(bound.arguments)


def _of_arguments(
    simulator: SimulatorFunction,
    signature: inspect.Signature,
    names: Sequence[str],
    usual: Literal["rng", "seeds"],
) -> OfArguments:
    taken = signature.parameters.values()
    needed = [a.name for a in taken if a.default is a.empty and a.kind not in _REST]
    others = [name for name in needed if name not in names]
    takes_all = any(a.kind is a.VAR_KEYWORD for a in taken)
    if not others or not (takes_all or {a.name for a in taken} & set(names)):
        raise ParameterError(
            f"`simulator` must take two arguments, (theta, {usual}), or the parameters by name, "
            f"({', '.join(names)}, {usual}), but its signature is {signature}. "
            f"Draw all random numbers from {usual}; if it draws none, wrap it as "
            f"lambda theta, {usual}: f(theta)."
        )
    stream = usual if usual in others else others[-1]
    _check_known("`simulator` asks for `{}`", [name for name in others if name != stream], names)
    missing = [name for name in names if name not in signature.parameters]
    if missing and not takes_all:
        raise ParameterError(
            f"`simulator` must take all parameters if it takes them by name, but {signature} lacks "
            f"{', '.join(missing)}. Add them, or take theta, all of them in one array."
        )
    return OfArguments(simulator, tuple(names), stream)


def _check_known(says: str, asked: Sequence[str], names: Sequence[str]) -> None:
    for name in asked:
        if name not in names:
            near = meant(name, list(names))
            hint = f" Did you mean {near!r}?" if near else ""
            raise ParameterError(
                f"{says.format(name)}, but the parameters are {', '.join(names)}.{hint}"
            )


def _asked_of(simulator: SimulatorFunction, argument: str) -> Sequence[str]:
    """Texts that the simulator itself subscribes its argument with, as in ``theta["beta"]``."""
    function: Any = inspect.unwrap(simulator)
    while isinstance(function, functools.partial):
        function = function.func
    if not hasattr(function, "__code__"):
        function = getattr(function, "__func__", None) or type(function).__call__
    return _asked_in(function.__code__, argument) if hasattr(function, "__code__") else ()


@functools.lru_cache  # to take code apart takes longer than all else that makes a problem
def _asked_in(code: CodeType, argument: str) -> tuple[str, ...]:
    """Texts that code subscribes a name with."""
    steps = [step for step in dis.get_instructions(code) if step.opname not in _SKIPPED]
    return tuple(
        key.argval
        for whole, key, step in zip(steps, steps[1:], steps[2:], strict=False)
        if (step.opname == "BINARY_SUBSCR" or step.argrepr == "[]")
        and (key.opname == "LOAD_CONST" and isinstance(key.argval, str))
        and whole.argval == argument
    )


@dataclass(frozen=True)
class OfArguments:
    """A simulator that takes each parameter by its name, and its generator or seeds."""

    function: SimulatorFunction
    names: tuple[str, ...]
    stream: str  #: what it calls its generator or seeds

    def __call__(self, theta: FloatArray, rng: object) -> Data:
        """Call it with theta (p,), or with the columns of theta (n, p)."""
        given = dict(zip(self.names, theta.T, strict=True))
        return self.function(**given, **{self.stream: rng})


@dataclass(frozen=True)
class OfNamedTheta:
    """A simulator that takes theta as one array, and looks its parameters up by name."""

    function: SimulatorFunction
    names: tuple[str, ...]

    def __call__(self, theta: FloatArray, rng: object) -> Data:
        """Call it with a theta that knows its names."""
        return self.function(NamedTheta.of(theta, self.names), rng)


class NamedTheta(np.ndarray[Any, np.dtype[np.float64]]):
    """Parameters (p,) or (n, p) that are also found by name; what is made of them is an array."""

    names: tuple[str, ...]

    @classmethod
    def of(cls, theta: FloatArray, names: tuple[str, ...]) -> NamedTheta:
        """The same numbers, with names of their columns."""
        made = theta.view(cls)
        made.names = names
        return made

    def __getitem__(self, key: Any) -> Any:
        plain = self.view(np.ndarray)
        return plain.T[self.names.index(key)] if isinstance(key, str) else plain[key]

    def __array_wrap__(self, array: FloatArray, *_: object) -> Any:
        """What a ufunc makes of it: an array, or a number."""
        return np.asarray(array)[()]
