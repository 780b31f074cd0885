"""The arguments of `Problem`: each is made usable, or one sentence says which rule it breaks."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from abctree.errors import ParameterError, SimulatorError
from abctree.numbers import checked_count
from abctree.parts.priors import PriorTransform, as_prior
from abctree.parts.simulators import Model, OneByOne, Seeded, Vectorized, floats
from abctree.protocols import Prior
from abctree.types import Data, FloatArray, SimulatorFunction


def prior_of(
    prior: Mapping[Any, Any] | Prior | None,
    transform: Callable[[FloatArray], FloatArray] | None,
    names: Sequence[str] | None,
) -> Prior:
    """The prior: one that is given, or a transform of the cube."""
    if (prior is None) == (transform is None):
        raise ParameterError(
            "`prior` or `prior_transform` must be given, and not both. "
            'For example prior={"a": (0.0, 1.0)}.'
        )
    if transform is None:
        return as_prior(prior)
    if not names:
        raise ParameterError("`names` must be given with `prior_transform`, one for each column.")
    return PriorTransform(transform, names)


def model_of(
    simulator: SimulatorFunction | None,
    summary: Callable[[Any], Any] | None,
    vectorized: bool | Literal["seeds"],  # noqa: FBT001
    batch_size: int,
) -> Model:
    """Simulator and summary, as they are to be called."""
    if not callable(simulator):
        raise ParameterError(f"`simulator` must be callable, but got {simulator!r}.")
    _takes_two(simulator)
    if summary is not None and not callable(summary):
        raise ParameterError(f"`summary` must be callable or None, but got {summary!r}.")
    batch_size = checked_count("batch_size", batch_size)
    if vectorized is False:
        return OneByOne(simulator, summary)
    if vectorized is True:
        return Vectorized(simulator, summary, batch_size)
    if vectorized == "seeds":
        return Seeded(simulator, summary, batch_size)
    raise ParameterError(f'`vectorized` must be False, True or "seeds", but got {vectorized!r}.')


def with_names(simulator: Any, names: Sequence[str]) -> Any:
    """The simulator, told the names of its parameters if it asks for them, as `External` does."""
    told = getattr(simulator, "with_names", None)
    return simulator if told is None else told(names)


def _takes_two(simulator: SimulatorFunction) -> None:
    try:
        signature = inspect.signature(simulator)
    except (TypeError, ValueError):  # built-in or extension without a signature
        return
    try:
        signature.bind(None, None)
    except TypeError:
        raise ParameterError(
            f"`simulator` must take two arguments, (theta, rng), but its signature is {signature}. "
            "Draw all random numbers from rng; if it draws none, wrap it as "
            "lambda theta, rng: f(theta)."
        ) from None


def summary_of(
    observed: Data, summary: Callable[[Any], Any] | None, *, vectorized: bool
) -> FloatArray:
    """Summary of the observed data: finite numbers, read-only."""
    if observed is None:
        raise ParameterError("`observed` must be given: the data as one simulation returns them.")
    if summary is None:
        value = observed
    else:
        try:
            value = summary(_one_row(observed))[0] if vectorized else summary(observed)
        except Exception as error:
            raise SimulatorError(
                f"The summary raised {type(error).__name__} on the observed data: {error}"
            ) from error
    try:  # as for simulations: what is refused or missing there must not be compared with here
        array = np.array(floats(value, "the summary"))
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(
            f"`observed` must be an array of real numbers, but its summary is {_short(value)}. "
            "Give a `summary` that turns the data into numbers."
        ) from None
    if not np.isfinite(array).all():
        raise ParameterError(
            f"`observed` must be finite, but {np.count_nonzero(~np.isfinite(array))} of "
            f"{array.size} values of its summary are nan, inf or masked. Impute or drop them first."
        )
    if array.size == 0:
        raise ParameterError("`observed` must hold at least one number, but its summary is empty.")
    array.flags.writeable = False
    return array


def _one_row(observed: Data) -> Any:
    """The data as a batch of one, with their mask if they have one."""
    masked = isinstance(observed, np.ma.MaskedArray)
    return observed[None] if masked else np.asarray(observed)[None]


def _short(value: Any) -> str:
    """A value as it is written, if it can be, in few characters."""
    try:
        return reprlib.repr(value)
    except Exception:  # noqa: BLE001 - a whole number of 5 000 digits, or a class of the user's
        return f"a {type(value).__name__}"
