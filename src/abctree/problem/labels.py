"""Labels: what the numbers of an observation are called, and simulations put into their order.

Labelled are what pandas, xarray, polars and pyarrow make, and records: dicts, named tuples,
dataclasses, structured arrays, xarray's datasets.  None of the libraries is imported: what is
passed has brought its own.  Labels are compared where both sides have them; an axis without counts
by position.
"""

from __future__ import annotations

import copy
import reprlib
from collections import namedtuple
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from abctree.types import Data

_ADVICE = "Give both the same labels, or return arrays, which are compared by position."


class WrongLabelsError(ValueError):
    """What was returned cannot be put into the order of the observation."""


@dataclass(frozen=True)
class Layout:
    """What the numbers of an observation are called."""

    axes: tuple[Any, ...]  #: labels of each axis; None for one without
    dims: tuple[Any, ...] | None = None  #: names of the axes, if they have some
    inside: Mapping[Hashable, Layout | None] | None = None  #: of a record
    items: tuple[Layout | None, ...] | None = None  #: of a list

    @classmethod
    def of(cls, value: Data, lead: int = 0) -> Layout | None:
        """That of an observation, or of a batch of one; None if nothing in it has a name."""
        if not lead and type(value) in (list, tuple):
            items = tuple(cls.of(item) for item in value)
            return cls((), items=items) if any(items) else None
        axes = _axes(value, lead)
        if axes is None:
            return None
        record = None if is_structured(value) else record_of(value)
        inside = None if record is None else {n: cls.of(v, lead) for n, v in record.items()}
        dims = _dims(value)
        return cls(axes[lead:], None if dims is None else dims[lead:], inside)

    def arranged(self, value: Data, source: str, *, lead: int = 0, strict: bool = True) -> Data:
        """What a simulator or a summary (`source`) returned, in the order of the observation.

        With `lead` 1 it is of several simulations, along the first axis.  Without labels it is
        returned as it is; other labels are a `WrongLabelsError`, or without `strict` left to the
        summary.
        """
        if lead and type(value) in (list, tuple):
            return [self.arranged(row, source, strict=strict) for row in value]
        if self.items is not None:
            return self._with_items(value, source, strict=strict)
        if _axes(value, lead) is None:
            return value
        value = self._transposed(value, source, lead=lead, strict=strict)
        axes = (_axes(value, lead) or ())[lead:]
        if len(axes) != len(self.axes) and strict:
            raise WrongLabelsError(
                f"{source} returned a {type(value).__name__} with labels along {len(axes)} axes, "
                f"but the observation has {len(self.axes)}. {_ADVICE}"
            )
        for axis, (then, now) in enumerate(zip(self.axes, axes, strict=False)):
            order = _order(then, now, source, strict=strict)
            value = value if order is None else _taken(value, order, lead + axis, strict=strict)
        return self._with_inside(value, source, lead=lead, strict=strict)

    def _transposed(self, value: Data, source: str, *, lead: int, strict: bool) -> Data:
        dims = _dims(value)
        if self.dims is None or dims is None or dims[lead:] == self.dims:
            return value
        more = [dim for dim in dims if dim not in self.dims]
        if len(more) == lead and len(dims) == len(self.dims) + lead:
            return value.transpose(*more, *self.dims)
        unnamed = any(str(dim).startswith("dim_") for dim in (*dims, *self.dims))  # by xarray
        if unnamed or not strict:
            return value
        raise WrongLabelsError(
            f"{source} returned the dimensions {', '.join(map(str, dims))}, but the observation "
            f"has {', '.join(map(str, self.dims))}. {_ADVICE}"
        )

    def _with_items(self, value: Data, source: str, *, strict: bool) -> Data:
        items = self.items or ()
        if type(value) in (list, tuple) and len(value) == len(items):
            return [
                item if layout is None else layout.arranged(item, source, strict=strict)
                for layout, item in zip(items, value, strict=True)
            ]
        if strict and is_labelled(value):
            raise WrongLabelsError(
                f"{source} returned a {type(value).__name__} with labels, but the observation is a "
                f"list of {len(items)} that have labels. {_ADVICE}"
            )
        return value

    def _with_inside(self, value: Data, source: str, *, lead: int, strict: bool) -> Data:
        record = None if is_structured(value) else record_of(value)
        if not self.inside or not record or not any(self.inside.values()):
            return value
        inside = {
            name: layout.arranged(record[name], source, lead=lead, strict=strict)
            for name, layout in self.inside.items()
            if layout is not None and name in record
        }
        return with_fields(value, {**record, **inside}, plain=strict)


# What is labelled ---------------------------------------------------------------------------


def record_of(value: Data) -> dict[Any, Data] | None:
    """The fields of a record by name, or None."""
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return dict(zip(value._fields, value, strict=True))
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in fields(value)}
    if is_structured(value):
        return {name: value[name] for name in value.dtype.names}
    return None


def with_fields(value: Data, held: dict[Any, Data], *, plain: bool) -> Data:
    """A record with other fields: a dict, or of its own kind if that can be made."""
    if plain or type(value) is dict:
        return held
    if isinstance(value, tuple):
        return namedtuple(type(value).__name__, [*held])(**held)  # noqa: PYI024
    if hasattr(value, "assign"):
        return value.assign(held)
    if is_structured(value):
        made = np.empty(value.shape, [(str(n), np.asarray(item).dtype) for n, item in held.items()])
        for name, item in held.items():
            made[name] = item
        return made
    if is_dataclass(value):
        value = copy.copy(value)
        for name, item in held.items():
            object.__setattr__(value, name, item)
    return value


def check_order_of_rows(value: Data, source: str) -> None:
    """Raise if the index of a table with a row for each of several simulations is out of order."""
    if not hasattr(value, "iloc") or value.index.is_monotonic_increasing:
        return
    if set(value.index) == set(range(len(value))):
        raise WrongLabelsError(
            f"{source} returned rows in another order than that of the simulations, for its index "
            f"is {_shown(list(value.index))}. Return .sort_index(), or .reset_index(drop=True)."
        )


def is_labelled(value: Data) -> bool:
    """Whether anything in it has a name."""
    return _axes(value, 0) is not None


def is_structured(value: Data) -> bool:
    """Whether it is a structured array, or one record of it."""
    return isinstance(value, np.ndarray | np.void) and value.dtype.names is not None


def is_table(value: Data) -> bool:
    """Whether it is a table of polars or pyarrow: rows without labels, columns with names."""
    return hasattr(value, "select") and hasattr(value, "columns")


def _dims(value: Data) -> tuple[Any, ...] | None:
    return tuple(value.dims) if hasattr(value, "dims") and hasattr(value, "isel") else None


def _axes(value: Data, lead: int) -> tuple[Any, ...] | None:
    """Labels of each axis, those of several simulations included; None if it has none."""
    if type(value) is np.ndarray and value.dtype.names is None:
        return None  # by far the most frequent case
    if hasattr(value, "iloc"):  # pandas
        return tuple(value.axes)
    if is_table(value):
        return None, tuple(getattr(value, "column_names", value.columns))
    record = record_of(value)
    if record is None:  # a DataArray of xarray, or nothing
        dims = _dims(value)
        return None if dims is None else tuple(value.indexes.get(dim) for dim in dims)
    unnamed = value.ndim if is_structured(value) else lead
    return (*(None,) * unnamed, tuple(record))


def _taken(value: Data, order: list[int], axis: int, *, strict: bool) -> Data:
    """The value with an axis in another order."""
    if hasattr(value, "iloc"):
        return value.take(order, axis=axis)
    if is_table(value):
        return value.select([(_axes(value, 0) or ())[1][i] for i in order])
    if (record := record_of(value)) is None:
        return value.isel({value.dims[axis]: order})
    names = [list(record)[i] for i in order]
    if is_structured(value):
        return value[names]
    if not strict and type(value) is not dict and not isinstance(value, tuple):
        return value  # what is in it is found by name
    return with_fields(value, {name: record[name] for name in names}, plain=strict)


# Order ----------------------------------------------------------------------------------------


def _order(then: Any, now: Any, source: str, *, strict: bool) -> list[int] | None:
    """Where the labels of the observation are among those of a simulation; None: in their places.

    A default index, 0, 1, 2, ..., may stand for no labels at all.
    """
    if then is None or now is None or then is now:
        return None
    levels, own = (tuple(getattr(labels, "names", ())) for labels in (then, now))
    is_multiple = len(levels) == len(own) > 1  # of a MultiIndex
    if is_multiple and levels != own and set(levels) == set(own):
        now = now.reorder_levels(levels)
    by_pandas = hasattr(then, "equals") and hasattr(now, "equals")
    if then.equals(now) if by_pandas else len(then) == len(now) and list(then) == list(now):
        return None
    is_default = _is_default(then) or _is_default(now)
    wanted, found = list(then), list(now)
    where = {label: i for i, label in enumerate(found)}
    is_same = len(where) == len(found) == len(set(wanted)) and where.keys() == set(wanted)
    if is_same and not is_default:
        return [where[label] for label in wanted]
    if is_default and not is_same:
        return None
    if not strict:
        return None
    raise WrongLabelsError(_said(wanted, found, source, is_same=is_same))


def _is_default(labels: Any) -> bool:
    """Whether it is what pandas gives to data without an index."""
    stepped = hasattr(labels, "start") and hasattr(labels, "step")
    return stepped and labels.start == 0 and labels.step == 1


def _said(wanted: list[Hashable], found: list[Hashable], source: str, *, is_same: bool) -> str:
    if is_same:
        return (
            f"{source} returned an index in another order than that of the observation, but one "
            "of the two is the default index 0, 1, 2, ..., which may be no labels. If positions "
            "count, use .reset_index(drop=True)."
        )
    known, knows = set(wanted), set(found)
    missing = [label for label in wanted if label not in knows]
    unknown = [label for label in found if label not in known]
    if not missing and not unknown:
        return (
            f"{source} returned labels in another order, and some of them are not unique. {_ADVICE}"
        )
    said = [f"without {_shown(missing)}"] if missing else []
    said += [f"with {_shown(unknown)}, which it does not have"] if unknown else []
    return f"{source} returned other labels than the observation: {', and '.join(said)}. {_ADVICE}"


def _shown(labels: list[Hashable]) -> str:
    return ", ".join(map(reprlib.repr, labels[:3])) + (", ..." if len(labels) > 3 else "")
