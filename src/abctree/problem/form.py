"""`Form`: how the observation is labelled and what of it is missing; what is returned as floats."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abctree.problem.labels import Layout, WrongLabelsError, is_structured, record_of, with_fields
from abctree.types import BoolArray, Data, FloatArray, IntArray

#: Where values are missing: an array, or one for each field of a record.
Missing = BoolArray | Mapping[Hashable, Data]
#: What is wanted of a user's function.
FLOAT = np.dtype(np.float64)
#: Would be taken for numbers, or for arrays of small whole numbers.
_TEXT = (str, bytes, bytearray, memoryview)


class WrongTypeError(TypeError):
    """What was returned is not made of real numbers."""


def floats(value: object, source: str) -> FloatArray:
    """What a user's function returned, as floats, or `WrongTypeError`.

    Whole numbers, booleans and objects that are real numbers are taken.  NumPy would also make
    floats of the text "1.5", of dates, of the real part of a complex number, and of what a mask
    hides: these are refused, the last as nan, as are None and pandas' NA inside of arrays.
    """
    if type(value) is np.ndarray and value.dtype == np.float64:
        return value
    if isinstance(value, _TEXT):
        raise WrongTypeError(f"{source} returned {type(value).__name__}, not numbers")
    mask = np.ma.getmaskarray(value) if isinstance(value, np.ma.MaskedArray) else None
    array = np.asarray(value)
    if array.dtype == np.float64 and mask is None:
        return array
    if array.dtype.kind == "O":
        array = _checked_objects(array, source)
    elif array.dtype.kind not in "fiub":
        raise WrongTypeError(f"{source} returned {array.dtype}, not real numbers")
    with np.errstate(all="ignore"):  # a long double may be too large: inf
        numbers = np.asarray(array, dtype=np.float64)
    return numbers if mask is None else np.where(mask, np.nan, numbers)


def is_missing(item: object) -> bool:
    """Whether an object stands for a number that is missing: None, nan, pandas' NA or NaT."""
    if item is None or type(item).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    return isinstance(item, float | np.floating) and bool(np.isnan(item))


def _checked_objects(array: NDArray[np.generic], source: str) -> NDArray[np.generic]:
    """The same numbers, nan where one is missing."""
    missing = np.zeros(array.size, dtype=bool)
    for i, item in enumerate(array.ravel().tolist()):
        missing[i] = is_missing(item) and (array.ndim > 0 or item is not None)
        if missing[i]:
            continue
        if isinstance(item, np.generic | np.ndarray):
            real = item.ndim == 0 and item.dtype.kind in "fiub"
        else:
            real = hasattr(type(item), "__float__")
        if not real:
            raise WrongTypeError(f"{source} returned {type(item).__name__}, not real numbers")
    return np.where(missing.reshape(array.shape), np.nan, array)


@dataclass(frozen=True, eq=False)
class Form:
    """How the observation is labelled, and what of it is missing; simulations are read by it."""

    shape: tuple[int, ...]  #: of its summary, what is missing included
    data: Layout | None = None  #: of the data that a summary is applied to
    hidden: Missing | None = None  #: what is missing in these
    summary: Layout | None = None  #: of the summary, or of the data without one
    keep: IntArray | None = None  #: entries of the summary that are not missing; None: all
    shapes: Mapping[str, tuple[int, ...]] | None = None  #: of its fields, if it is a record

    @property
    def is_plain(self) -> bool:
        """Whether arrays are read as they are."""
        known = (self.data, self.hidden, self.summary, self.keep)
        return all(part is None for part in known)

    @property
    def rows(self) -> IntArray | None:
        """Along the first axis, what is kept as a whole, if nothing else is."""
        if self.keep is None or len(self.shape) == 0:
            return None
        each = int(np.prod(self.shape[1:]))
        rows = np.unique(self.keep // max(each, 1))
        return rows if len(rows) * each == len(self.keep) else None

    def of_data(self, data: Data, lead: int) -> Data:
        """What a simulator returned, as the summary is to see it.

        In the order of the observation, and without what is missing there.
        """
        if self.data is not None:
            strict = self.hidden is not None  # else the wrong entries may be left out
            data = self.data.arranged(data, "simulator", lead=lead, strict=strict)
        return data if self.hidden is None else hide(data, self.hidden, lead)

    def numbers(self, value: Data, source: str, lead: int) -> FloatArray:
        """What the summary returned, or the simulator without one, as floats in our order."""
        if self.summary is not None:
            value = self.summary.arranged(value, source, lead=lead)
        return numbers_of(value, source, lead)

    def kept(self, numbers: FloatArray, lead: int) -> FloatArray:
        """The numbers of summaries without what is missing in the observation."""
        if self.keep is None:
            return numbers
        if self.rows is not None:
            return np.take(numbers, self.rows, axis=lead)
        return numbers.reshape(*numbers.shape[:lead], -1)[..., self.keep]


def names_of_entries(form: Form | None, shape: tuple[int, ...]) -> list[str]:
    """What the user calls the numbers of an observed summary of a shape: labels, or places.

    Missing ones are counted, but not named.
    """
    if form is None:
        return _shown(_places(shape), len(shape))
    if form.shapes is not None:
        names = [
            f"{field}[{place}]" if place else field
            for field, own in form.shapes.items()
            for place in _places(own)
        ]
    else:
        axes = () if form.summary is None else form.summary.axes
        names = _shown(_places(form.shape, axes), len(form.shape))
    return names if form.keep is None else [names[i] for i in form.keep]


def _places(shape: tuple[int, ...], axes: tuple[Any, ...] = ()) -> list[str]:
    """Along each axis the label, or the number."""
    known = (*axes, *(None,) * len(shape))
    each = (range(n) if axis is None else axis for n, axis in zip(shape, known, strict=False))
    return [", ".join(map(str, place)) for place in product(*each)]


def _shown(places: list[str], n_axes: int) -> list[str]:
    return places if n_axes == 1 else [f"[{place}]" for place in places] if n_axes else ["0"]


def missing_in(value: Data) -> Missing | None:
    """Where values of an observation are missing; None where nothing is, or nobody knows."""
    record = record_of(value)
    if record is not None:
        found = {name: missing_in(item) for name, item in record.items()}
        held = {name: where for name, where in found.items() if where is not None}
        return held or None
    where = _missing_entries(value)
    return where if where is not None and where.any() else None


def _missing_entries(value: Data) -> BoolArray | None:
    for name in ("isna", "isnull"):  # pandas, xarray
        if hasattr(value, name):
            return np.asarray(getattr(value, name)())
    if isinstance(value, np.ma.MaskedArray):
        own = _missing_entries(value.filled(0))
        masked = np.ma.getmaskarray(value)
        return masked if own is None else masked | own
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a masked element in a list
        try:
            array = np.asarray(value)
        except (TypeError, ValueError):
            return None
    if array.dtype.kind == "O":
        flat = [is_missing(item) for item in array.ravel().tolist()]
        return np.array(flat, dtype=bool).reshape(array.shape)
    return np.isnan(array) if array.dtype.kind in "fc" else None


def n_missing(where: Missing) -> int:
    """How many values."""
    if isinstance(where, Mapping):
        return sum(map(n_missing, where.values()))
    return int(np.count_nonzero(where))


def hide(value: Data, where: Missing, lead: int = 0) -> Data:
    """The value with nan where the observation has nothing; both have one shape."""
    record = record_of(value)
    if isinstance(where, Mapping):
        held = {
            name: hide(item, where[name], lead) if name in where else item
            for name, item in (record or {}).items()
        }
        return with_fields(value, held, plain=False)
    if hasattr(value, "isna"):
        return value.where(~_spread(where, value.shape, lead))
    if hasattr(value, "isel"):
        return value.where(value.copy(data=~_spread(where, value.shape, lead)))
    array = floats(np.nan if value is None else value, "simulator")
    return np.where(_spread(where, array.shape, lead), np.nan, array)


def _spread(where: BoolArray, shape: tuple[int, ...], lead: int) -> BoolArray:
    if shape[lead:] != where.shape:
        raise WrongLabelsError(
            f"simulator returned shape {shape[lead:]}, but the observation, of which some values "
            f"are missing, has {where.shape}, and these are to be left out of both"
        )
    return np.broadcast_to(where, shape)


def numbers_of(value: Data, source: str, lead: int = 0) -> FloatArray:
    """The numbers of anything; fields of one shape are stacked as rows, others strung together.

    Those of a structured array are its columns, as of a table.
    """
    record = record_of(value)
    if record is not None:
        items = (np.nan if item is None else item for item in record.values())
        parts = [numbers_of(item, source, lead) for item in items]
        if is_structured(value):
            return np.stack(parts, axis=-1)
        if len({part.shape for part in parts}) == 1:
            return np.stack(parts, axis=lead)
        flat = [part.reshape(*part.shape[:lead], -1) for part in parts]
        return np.concatenate(flat, axis=lead)
    if lead and type(value) in (list, tuple) and any(record_of(row) is not None for row in value):
        return np.stack([numbers_of(row, source) for row in value])
    return floats(value, source)
