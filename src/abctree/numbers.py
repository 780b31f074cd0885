"""Arguments that must be numbers, or make them: whatever else is given is a `ParameterError`.

A rule is the end of a sentence, and is read as it stands: "at least 1", "above 0", "positive" or
"in (0, 1]", behind "a whole number of" or before "or None"; strings in quotes are allowed, too.
"""

from __future__ import annotations

import contextlib
import math
import re
import reprlib
import sys
from collections.abc import Mapping
from dataclasses import field
from functools import cache
from typing import Any, TypeVar, cast

import numpy as np

from abctree.errors import ParameterError, wrong
from abctree.types import FloatArray, RNGLike

T = TypeVar("T")

_BOUNDS = re.compile(r"at least (\S+)|above (\S+)|positive|in ([\[(])(\S+), (\S+)([\])])")


def ruled(default: T, rule: str, advice: str = "") -> T:
    """The default of a field of a dataclass, and the rule that `checks_keywords` has it keep."""
    made: T = field(default=default, metadata={"rule": (rule, advice)})
    return made


def check_rule(name: str, value: object, rule: str, advice: str = "") -> None:
    """Raise `ParameterError` unless the value keeps the rule."""
    if not _keeps(value, rule):
        got = value.item() if isinstance(value, np.generic) else value
        shown = reprlib.repr(got) if isinstance(got, int) else repr(got)
        raise ParameterError(f"`{name}` must be {rule}, but got {shown}. {advice}".rstrip())


def _keeps(value: object, rule: str) -> bool:
    if value is None:
        return rule.endswith("or None")
    if isinstance(value, str):
        return f'"{value}"' in rule
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    if isinstance(value, int) and abs(value) > sys.float_info.max:  # no float64 is as large
        return False
    low, high, has_low, has_high = _interval(rule)
    inside = low < value < high or (has_low and value == low) or (has_high and value == high)
    return bool(inside) and ("whole" not in rule or float(value).is_integer())


@cache
def _interval(rule: str) -> tuple[float, float, bool, bool]:
    """The ends of what a rule allows, and whether they belong to it; nan without numbers."""
    found = _BOUNDS.search(rule)
    if found is None:
        return math.nan, math.nan, False, False
    least, above, opens, low, high, closes = found.groups()
    if opens:
        return float(low), float(high), opens == "[", closes == "]"
    return float(least or above or 0.0), math.inf, least is not None, True


def checked_number(name: str, value: object) -> float:
    """A real number, also as an array without dimensions; nan is one."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ParameterError(f"`{name}` must be a number, but got {value!r}.")
    try:
        return float(value)
    except OverflowError:  # a whole number too large for a float
        return float("inf") if value > 0 else float("-inf")


def checked_count(name: str, value: object, least: int = 1) -> int:
    """A whole number of at least `least`."""
    check_rule(name, value, f"a whole number of at least {least}")
    return int(cast("int", value))


def checked_levels(q: object) -> FloatArray:
    """Levels of quantiles, in [0, 1]."""
    level = np.asarray(q)
    level = level.astype(np.float64) if level.dtype.kind in "fiub" else np.full(1, np.nan)
    if not ((level >= 0.0) & (level <= 1.0)).all():
        raise wrong("q", "be in [0, 1]", q, "The median is 0.5.")
    return level


def checked_rng(rng: RNGLike) -> np.random.Generator:
    """The generator that `rng` is or, as in SPEC 7, seeds."""
    if not isinstance(rng, bool):  # a switch, though Python takes it for a number
        with contextlib.suppress(TypeError, ValueError):
            return np.random.default_rng(rng)
    raise ParameterError(
        "`rng` must be None, a whole number of at least 0, or a Generator of NumPy, but got "
        f"{rng!r}. Write rng=1 for a run that can be repeated."
    )


def unit_of(values: FloatArray) -> FloatArray:
    """(...) Powers of two near the largest of values (m, ...): no square of it over- or underflows.

    Nothing is rounded in such units.
    """
    _, power = np.frexp(np.abs(values).max(axis=0, initial=0.0))
    return np.asarray(np.ldexp(1.0, np.clip(power, -1022, 1023)))


def plain(value: Any) -> Any:
    """What JSON can say: arrays are lists, and None stands for numbers that it does not have."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
