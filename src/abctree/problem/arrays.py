"""Numbers from whatever a user's function returned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abctree.types import FloatArray

#: Would be taken for numbers, or for arrays of small whole numbers.
_TEXT = (str, bytes, bytearray, memoryview)


class WrongTypeError(TypeError):
    """What was returned is not made of real numbers."""


def floats(value: object, source: str) -> FloatArray:
    """What a user's function returned, as floats.

    Whole numbers, booleans and objects that are real numbers are taken.  NumPy would also make
    floats of the text "1.5", of dates, of the real part of a complex number, and of what a mask
    hides: these are refused, the last as nan, as are None and pandas' NA inside of arrays.

    Raises
    ------
    WrongTypeError
        If it is not made of real numbers.
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
