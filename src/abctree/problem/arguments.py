"""The arguments of `Problem`: each is made usable, or one sentence says which rule it breaks."""

from __future__ import annotations

import copy
import reprlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np

from abctree.errors import ParameterError, SimulatorError, wrong
from abctree.numbers import check_rule, checked_count
from abctree.problem.by_name import by_name
from abctree.problem.combined import Shapes
from abctree.problem.form import Form, Missing, hide, missing_in, n_missing, numbers_of
from abctree.problem.labels import Layout, is_structured, record_of, with_fields
from abctree.problem.priors import PriorTransform, as_prior
from abctree.problem.simulators import Model
from abctree.protocols import NamedSimulator, Prior
from abctree.threads import is_for_threads
from abctree.types import Data, FloatArray, IntArray, SimulatorFunction, SummaryFunction


def prior_of(
    prior: Mapping[object, object] | Prior | None,
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
        if names is not None:
            raise wrong("names", "be given with `prior_transform` only", repr(names))
        return as_prior(prior)
    if not names:
        raise ParameterError("`names` must be given with `prior_transform`, one for each column.")
    return PriorTransform(transform, names)


def check_function(name: str, value: Data, advice: str = "") -> None:
    """Raise `ParameterError` unless the value is None or may be called."""
    if value is not None and not callable(value):
        raise ParameterError(
            f"`{name}` must be a function or None, but got {value!r}. {advice}".rstrip()
        )


def model_of(
    simulator: SimulatorFunction | None,
    names: Sequence[str],
    summary: SummaryFunction | None,
    vectorized: bool | Literal["seeds"],  # noqa: FBT001
    batch_size: int,
) -> Model:
    """Simulator and summary, as they are to be called."""
    if not callable(simulator):
        raise wrong("simulator", "be callable", repr(simulator))
    # `External` asks for the names of its parameters.
    named = simulator.with_names(names) if isinstance(simulator, NamedSimulator) else simulator
    check_function("summary", summary)
    if not (isinstance(vectorized, bool) or vectorized == "seeds"):
        raise wrong("vectorized", 'be False, True or "seeds"', repr(vectorized))
    called = by_name(named, names, "seeds" if vectorized == "seeds" else "rng")
    threads = vectorized == "seeds" and all(map(is_for_threads, (simulator, summary or simulator)))
    return Model(
        called, summary, vectorized, checked_count("batch_size", batch_size), is_for_threads=threads
    )


def observation_of(
    observed: Data, summary: SummaryFunction | None, missing: str, *, vectorized: bool
) -> tuple[FloatArray, Form | None, Shapes | None]:
    """Summary of the observed data, finite and read-only, and how simulations are read like it.

    And the shapes of its fields, if it is a record.
    """
    if observed is None:
        raise ParameterError("`observed` must be given: the data as one simulation returns them.")
    check_rule("missing", missing, '"refuse", "ignore" or "summary"')
    where = missing_in(observed)
    if where is not None and (missing == "refuse" or (missing == "summary" and summary is None)):
        raise _refused(n_missing(where), "its values", has_summary=summary is not None)
    hidden = where if missing == "ignore" and summary is not None else None
    lead = int(vectorized and summary is not None)
    value = observed if summary is None else _applied(summary, observed, hidden, lead)
    if lead and summary is not None and hidden is None:
        check_rows("summary", summary, observed)
    try:  # as for simulations: what is refused or missing there must not be compared with here
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of masked elements in lists
            array = np.array(numbers_of(value, "the summary", lead))
        array = array[0] if lead else array
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(
            f"`observed` must be an array of real numbers, but its summary is {_short(value)}. "
            "Give a `summary` that turns the data into numbers."
        ) from None
    keep = _entries(array, missing, has_summary=summary is not None)
    form = Form(
        shape=array.shape,
        data=None if summary is None else Layout.of(observed),
        hidden=hidden,
        summary=Layout.of(value, lead),
        keep=keep,
        shapes=_shapes(value, lead),
    )
    array = np.array(form.kept(array, 0))
    array.flags.writeable = False
    return array, None if form.is_plain else form, form.shapes


def check_rows(name: str, function: Callable[[Data], Data], observed: Data) -> None:
    """Refuse a vectorised function that makes another thing of a row beside other rows.

    It is tried on the observation and on two rows like it; one that cannot take them is left alone.
    """
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            one = np.asarray(observed, dtype=np.float64)
            rows = np.stack([one, 1.5 * one + 1.0, 3.0 * one - 2.0])
            together = numbers_of(function(rows.copy()), name, 1)
            alone = np.concatenate([numbers_of(function(row[None]), name, 1) for row in rows])
    except Exception:  # noqa: BLE001 - a function of the user's, called with made-up data
        return
    size = np.abs(alone[np.isfinite(alone)]).max(initial=0.0)
    is_like = together.shape != alone.shape  # which is told elsewhere
    # Of float32, as networks have, a sum over another number of rows is rounded otherwise.
    if not (is_like or np.allclose(together, alone, 1e-3, 1e-3 * size, equal_nan=True)):
        raise ParameterError(
            f"`{name}` must make the same of a row, whatever the other rows of a call, but made "
            "another thing of it alone. Reduce over all axes but the first, and take a scale from "
            'fixed numbers, or by distance="std", not from the rows.'
        )


def _shapes(value: Data, lead: int) -> Shapes | None:
    """Shapes of the fields of a summary of the observation, in their order."""
    record = None if is_structured(value) else record_of(value)
    if record is None:
        return None
    return {
        str(name): () if item is None else numbers_of(item, "summary", lead).shape[lead:]
        for name, item in record.items()
    }


def _entries(array: FloatArray, missing: str, *, has_summary: bool) -> IntArray | None:
    """Entries of the observed summary that are not missing; None if nothing is."""
    is_nan = np.isnan(array)
    if is_nan.any() and missing != "ignore":
        n = int(np.count_nonzero(is_nan))
        raise _refused(n, "the values of its summary", has_summary=has_summary)
    if np.isinf(array).any():
        raise ParameterError(
            f"`observed` must be finite, but {np.count_nonzero(np.isinf(array))} of {array.size} "
            "values of its summary are inf. Drop them, or take another summary."
        )
    if is_nan.all():
        what = "all of it is missing" if array.size else "its summary is empty"
        advice = " Write a summary that leaves nan out, such as np.nanmean." if has_summary else ""
        raise ParameterError(f"`observed` must hold at least one number, but {what}.{advice}")
    return np.flatnonzero(~is_nan) if is_nan.any() else None


def _refused(n: int, what: str, *, has_summary: bool) -> ParameterError:
    more = (
        " The summary then sees nan at the same places of every simulation; with "
        'missing="summary" it sees the data as they are.'
    ) * has_summary
    is_ = "is" if n == 1 else "are"
    return ParameterError(
        f"`observed` must be finite, but {n} of {what} {is_} missing (nan, masked, NA or None). "
        f'Write missing="ignore" to leave them out of the distance.{more}'
    )


def _applied(summary: SummaryFunction, observed: Data, hidden: Missing | None, lead: int) -> Data:
    """The summary of the data, as of a simulation in which the same is missing."""
    try:
        data = copied(observed) if hidden is None else hide(observed, hidden)
        return summary(_one_row(data) if lead else data)
    except Exception as error:
        raise SimulatorError(
            f"The summary raised {type(error).__name__} on the observed data: {error}"
        ) from error


def copied(data: Data) -> Data:
    """A copy, where there can be one: a summary that sorts in place is to change no data."""
    try:
        return copy.deepcopy(data)
    except Exception:  # noqa: BLE001 - of a class of the user's, or a tensor that keeps a graph
        return data


def _one_row(observed: Data) -> Data:
    """The data as a batch of one, with their mask if they have one."""
    if isinstance(observed, np.ma.MaskedArray):
        return observed[None]
    record = None if is_structured(observed) else record_of(observed)
    if record is not None:
        return with_fields(
            observed, {n: np.asarray(v)[None] for n, v in record.items()}, plain=False
        )
    return np.asarray(observed)[None]


def _short(value: Data) -> str:
    """A value as it is written, if it can be, in few characters."""
    try:
        return reprlib.repr(value)
    except Exception:  # noqa: BLE001 - a whole number of 5 000 digits, or a class of the user's
        return f"a {type(value).__name__}"
